"""A page of the documentation as the checks see it: its blocks, its sections, the tests that it names."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tree import read

__all__ = ["Block", "Page", "Span", "problems"]

# Languages of blocks that are shown and not run. Python is always run.
SHOWN = frozenset({"bash", "console", "http", "json", "mermaid", "text", "toml", "yaml"})
# That of programs for other frameworks, on the pages for those who come from there. They run by
# tests/comparison/test_coming_from.py.
_OF_OTHERS = "python3"
_PAGES_OF_OTHERS = "docs/coming-from-"

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
_HEADING = re.compile(r"^(?P<marks>#{1,6})\s+(?P<title>.*)$")
_ITEM = re.compile(r"^(?P<indent>\s*)\d+[.)]\s")
_INCLUDE = re.compile(r'^(?P<indent>[ \t]*)--8<-- "(?P<path>[^"]+)"$', re.MULTILINE)
_NARRATIVE = re.compile(r"\A(?:---\n.*?\n---\n)?\s*<!-- narrative: (?P<why>[^>]*?)\s*-->", re.DOTALL)

_TEST = r"tests/[\w./-]+\.py::[\w:]+(?:\[[^\]\n]*\])?"
_MENTION = re.compile(_TEST)
_REFERENCE = re.compile(rf"`(?P<visible>{_TEST})`|<!-- test: (?P<hidden>[^>]+?) -->")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block; `line` is that of its opening fence, from 1."""

    language: str
    line: int


@dataclass(frozen=True, slots=True)
class Span:
    """Some lines of a page, from `first` up to but without `end`."""

    title: str
    level: int
    first: int
    end: int

    def __contains__(self, line: int) -> bool:
        return self.first <= line < self.end


class Page:
    """A Markdown page; `text` has the files in it that it includes by a line `--8<-- "path"`."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = _INCLUDE.sub(_included, text)

    @classmethod
    def read(cls, path: Path) -> "Page":
        """Read a page at a path relative to the root."""
        return cls(str(path), read(path))

    @cached_property
    def blocks(self) -> list[Block]:
        """The fenced code blocks."""
        return [block for block, _ in self._fenced]

    @cached_property
    def prose(self) -> list[tuple[int, str]]:
        """The lines outside code blocks, with their numbers."""
        inside = {line for block, end in self._fenced for line in range(block.line, end)}
        return [(line, text) for line, text in self._lines if line not in inside]

    @cached_property
    def sections(self) -> list[Span]:
        """The sections in order; each holds those below it."""
        headings = [(line, match) for line, text in self.prose if (match := _HEADING.match(text))]
        found: list[Span] = []
        for index, (line, match) in enumerate(headings):
            level = len(match["marks"])
            later = (start for start, other in headings[index + 1 :] if len(other["marks"]) <= level)
            found.append(Span(match["title"], level, line, next(later, len(self._lines) + 1)))
        return found

    @cached_property
    def references(self) -> list[tuple[int, str]]:
        """The tests that the page gives as proof, with the lines where it does."""
        return [
            (line, test)
            for line, text in self.prose
            for match in _REFERENCE.finditer(text)
            for test in (match["visible"] or match["hidden"].replace(",", " ")).split()
        ]

    @cached_property
    def mentions(self) -> list[tuple[int, str]]:
        """Everything that looks like a test's name, also in code blocks."""
        found = [(line, name) for line, text in self._lines for name in _MENTION.findall(text)]
        return found + [reference for reference in self.references if reference not in found]

    @property
    def narrative(self) -> str | None:
        """Why the page proves nothing, as its first line says: `<!-- narrative: why -->`."""
        match = _NARRATIVE.match(self.text)
        return match["why"] if match else None

    def items(self, section: Span) -> Iterator[Span]:
        """Yield the items of the numbered lists in a section, each up to the next item or heading."""
        lines = [(line, text) for line, text in self.prose if line in section]
        starts = [line for line, text in lines if _ITEM.match(text)]
        ends = sorted({*starts, *(line for line, text in lines if _HEADING.match(text)), section.end})
        for start in starts:
            title = self._lines[start - 1][1].strip()
            yield Span(title, section.level + 1, start, next(end for end in ends if end > start))

    @cached_property
    def _lines(self) -> list[tuple[int, str]]:
        return list(enumerate(self.text.splitlines(), 1))

    @cached_property
    def _fenced(self) -> list[tuple[Block, int]]:
        found: list[tuple[Block, int]] = []
        opened: tuple[Block, str] | None = None
        for line, text in self._lines:
            match = _FENCE.match(text)
            if opened is None:
                if match:
                    opened = Block(match["info"].strip(), line), match["fence"]
            elif match and match["fence"].startswith(opened[1]) and not match["info"].strip():
                found.append((opened[0], line + 1))
                opened = None
        if opened is not None:
            found.append((opened[0], len(self._lines) + 1))
        return found


def problems(page: Page, tests: Collection[str], *, proves: bool) -> list[str]:
    """Return what is wrong with a page, one line each.

    Args:
        page: The page.
        tests: Every test that exists.
        proves: Whether each of its sections must name a test or hold a block that runs.
    """
    found = [*_block_problems(page), *_reference_problems(page, tests), *_guarantee_problems(page)]
    if proves:
        found += _section_problems(page)
    return [f"{page.name}:{line}: {problem}" for line, problem in found]


def _block_problems(page: Page) -> Iterator[tuple[int, str]]:
    for block in page.blocks:
        if block.language == _OF_OTHERS and page.name.startswith(_PAGES_OF_OTHERS):
            continue
        if block.language.lower().startswith("py") and block.language != "python":
            # Anything behind the word would hide the block from the test that runs it.
            yield block.line, f"write the block's language as `python`, not as `{block.language}`"
        elif block.language not in SHOWN | {"python"}:
            known = ", ".join(sorted(SHOWN))
            yield block.line, f"a block's language is python or one of {known}, not {block.language!r}"


def _reference_problems(page: Page, tests: Collection[str]) -> Iterator[tuple[int, str]]:
    for line, test in page.mentions:
        if test not in tests:
            yield line, f"there is no test {test}"


def _guarantee_problems(page: Page) -> Iterator[tuple[int, str]]:
    for section in page.sections:
        if "guarantees" not in section.title.lower():
            continue
        items = list(page.items(section))
        if not items:
            yield section.first, "a section about guarantees numbers them"
        for item in items:
            if not any(line in item for line, _ in page.references):
                yield item.first, f"this guarantee names no test: {item.title}"


def _section_problems(page: Page) -> Iterator[tuple[int, str]]:
    if page.narrative is not None:
        if len(page.narrative.split()) < 3:
            yield 1, "say why the page is narrative"
        return
    whole = Span(page.name, 1, 1, len(page.text.splitlines()) + 1)
    for section in [span for span in page.sections if span.level == 2] or [whole]:
        proven = any(line in section for line, _ in page.references)
        runs = any(block.language == "python" and block.line in section for block in page.blocks)
        if not proven and not runs:
            yield section.first, f"the section {section.title!r} names no test and runs no code"


def _included(match: re.Match[str]) -> str:
    lines = read(Path(match["path"])).rstrip("\n").splitlines()
    return "\n".join(match["indent"] + line if line else "" for line in lines)
