"""Certificates of an authority of one's own, for servers on the loopback that speak TLS."""

import ssl
from functools import cache
from pathlib import Path

import trustme

__all__ = ["ca_bundle", "server_context"]


@cache
def _authority() -> trustme.CA:
    return trustme.CA()


@cache
def server_context() -> ssl.SSLContext:
    """Return the context of a server at 127.0.0.1, localhost and model.invalid."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _authority().issue_cert("127.0.0.1", "localhost", "model.invalid").configure_cert(  # pyright: ignore[reportUnknownMemberType]  # it takes one of pyOpenSSL, too
        context
    )
    return context


def ca_bundle(directory: Path) -> Path:
    """Return a file with the certificate of the authority, in `directory`."""
    path = directory / "ca.pem"
    path.write_bytes(_authority().cert_pem.bytes())
    return path
