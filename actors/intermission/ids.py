"""Random ids, in the form of a UUID of version 4, without making a `UUID` for each."""

import os

__all__ = ["new_hex", "new_id"]


def new_hex() -> str:
    """Return what `uuid.uuid4().hex` would: 32 digits, of which six bits say what they are."""
    digits = os.urandom(16).hex()
    return f"{digits[:12]}4{digits[13:16]}{_VARIANT[digits[16]]}{digits[17:]}"


def new_id() -> str:
    """Return what `str(uuid.uuid4())` would."""
    digits = new_hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
