"""The site builds without a warning, asks no other host for anything, and describes every public name."""

import importlib
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tree import environment, run

FACADES = ["intermission", "intermission.models", "intermission.testing", "intermission_storage"]

# Elements whose address the browser asks for without a click.
LOADING = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "video"}


class Loaded(HTMLParser):
    """The addresses on other hosts that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get("src") or values.get("href") or values.get("data") or ""
        # The address of the page itself, for search engines, is not loaded.
        if tag in LOADING and values.get("rel") != "canonical" and is_foreign(address):
            self.addresses.append(address)


def is_foreign(address: str) -> bool:
    return address.startswith(("http:", "https:", "//"))


def loaded(html: str) -> list[str]:
    parser = Loaded()
    parser.feed(html)
    return parser.addresses


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    target = tmp_path_factory.mktemp("site")
    env = environment() | {"NO_MKDOCS_2_WARNING": "1"}
    # Not --quiet: it would also keep the warnings from those who count them for --strict.
    run("mkdocs", "build", "--strict", "--site-dir", str(target), env=env).check()
    return target


@pytest.mark.slow
def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert pages
    assert {
        str(page.relative_to(site)): found
        for page in pages
        if (found := loaded(page.read_text(encoding="utf-8")))
    } == {}


@pytest.mark.slow
def test_no_style_sheet_loads_anything_from_another_host(site: Path) -> None:
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8").replace(" ", "").replace('"', "").replace("'", "")
        assert not any(f"url({start}" in text for start in ("http:", "https:", "//")), sheet


@pytest.mark.slow
@pytest.mark.parametrize("facade", FACADES)
def test_every_public_name_is_in_the_reference(site: Path, facade: str) -> None:
    inventory = (site / "objects.inv").read_bytes()
    lines = zlib.decompress(inventory.split(b"\n", 4)[4]).decode().splitlines()
    described = {line.split()[0] for line in lines}
    names: list[str] = importlib.import_module(facade).__all__
    public = {f"{facade}.{name}" for name in names if not name.startswith("__")}
    assert public - described == set()


def test_what_a_page_loads_from_another_host_is_found() -> None:
    html = '<link href="https://fonts.example/x"><script src=//cdn.example/y></script><img src="a.png">'
    assert loaded(html + '<a href="https://example.org">x</a>') == [
        "https://fonts.example/x",
        "//cdn.example/y",
    ]
