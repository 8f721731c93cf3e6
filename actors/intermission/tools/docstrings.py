"""`described_parameters`: what a docstring says of a function's parameters, apart from the rest of it.

The three common styles are read: a section `Args:` (Google), one `Parameters` underlined by dashes (numpy),
and fields `:param name:` (Sphinx). What does not look exactly like one of them stays where it is.
"""

import inspect
import re
from collections.abc import Collection, Iterator

__all__ = ["described_parameters"]

_GOOGLE = re.compile(r"(Args|Arguments|Parameters|Params):\s*$")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?\s*:(?P<text>.*)$")
_NUMPY_ENTRY = re.compile(r"(?P<name>\w+)\s*(:.*)?$")
_SPHINX_ENTRY = re.compile(
    r":(param|parameter|arg|argument)\s+([^:]*\s)?\*{0,2}(?P<name>\w+)\s*:(?P<text>.*)$"
)
_SPHINX_TYPE = re.compile(r":type\s+(?P<name>\w+)\s*:")


def described_parameters(docstring: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return the docstring without what it says of parameters, and that, by their names.

    Args:
        docstring: As `inspect.getdoc` returns it.
        names: The function's parameters. A section that speaks of anything else is left alone, whole.
    """
    lines = docstring.splitlines()
    described: dict[str, str] = {}
    kept: list[str] = []
    index = 0
    while index < len(lines):
        end, found = _section(lines, index)
        if found and set(found) <= set(names):
            described.update({name: said or described.get(name, "") for name, said in found.items()})
            index = end
        else:
            kept.append(lines[index])
            index += 1
    if not described:
        return docstring, {}
    rest = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return rest, {name: said for name, said in described.items() if said}


def _section(lines: list[str], start: int) -> tuple[int, dict[str, str]]:
    """Return where the section that begins here ends, and its entries; none if no section begins here."""
    line = lines[start]
    if _GOOGLE.match(line):
        end = _end_of_indented(lines, start + 1)
        return end, _entries(lines[start + 1 : end], _GOOGLE_ENTRY)
    underlined = start + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[start + 1].strip())
    if line.strip() in {"Parameters", "Other Parameters"} and underlined:
        end = _end_of_numpy(lines, start + 2)
        return end, _entries(lines[start + 2 : end], _NUMPY_ENTRY)
    if _SPHINX_ENTRY.match(line):
        end = _end_of_indented(lines, start + 1)
        return end, _entries(lines[start:end], _SPHINX_ENTRY)
    typed = _SPHINX_TYPE.match(line)
    return start + 1, {typed["name"]: ""} if typed else {}


def _end_of_indented(lines: list[str], start: int) -> int:
    end = start
    for index in range(start, len(lines)):
        if lines[index].strip() and not lines[index].startswith((" ", "\t")):
            break
        if lines[index].strip():
            end = index + 1
    return end


def _end_of_numpy(lines: list[str], start: int) -> int:
    for index in range(start, len(lines) - 1):
        if lines[index].strip() and re.fullmatch(r"-{3,}", lines[index + 1].strip()):
            return index
    return len(lines)


def _entries(lines: list[str], entry: re.Pattern[str]) -> dict[str, str]:
    """Return what is said of each name; nothing at all if a line belongs to no entry."""
    found: dict[str, list[str]] = {}
    of_name: list[str] | None = None
    for line, is_head in _dedented(lines):
        matched = entry.match(line) if is_head else None
        if matched is not None:
            said = matched.groupdict().get("text") or ""
            of_name = found.setdefault(matched["name"], [])
            of_name.append(said.strip())
        elif is_head or of_name is None:
            return {}
        else:
            of_name.append(line.strip())
    return {name: " ".join(part for part in said if part) for name, said in found.items()}


def _dedented(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Give each line that is not empty, and whether it stands as far out as the first."""
    for line in inspect.cleandoc("\n" + "\n".join(lines)).splitlines():
        if line.strip():
            yield line, not line.startswith((" ", "\t"))
