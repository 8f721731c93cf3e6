"""Whether the pages of a log's data file are as LMDB writes them, told from the bytes of the file alone.

LMDB believes what a page says of itself. Where that is damaged, it may end the process by a failed assertion,
read what is not there, or write over something else. So everything that it relies on is looked at here, from
the newest meta page on: the tree of free pages, the main one, and each named database in that. Every page
must be in use once or be free, and stand where it says that it does; and the nodes of a page must fill it
from `upper` to its end without a gap, which is how LMDB keeps them.

What LMDB writes lawfully is no problem, rare as it may be: a value that was replaced by a shorter one in the
same transaction keeps its pages, and a list of free pages may have more room than it lists.

The layout is that of LMDB's data version 1 on a 64-bit machine. A log has no duplicate keys, and compares
keys byte by byte.
"""

import operator
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

__all__ = ["data_problems"]

_PAGE = struct.Struct("=QHHHH")  # number, padding, flags, lower, upper
_OVERFLOW = struct.Struct("=QHHI")  # number, padding, flags, count of pages
_NODE = struct.Struct("=HHHH")  # size of the data in two halves, flags, size of the key; or a page in three
_TREE = struct.Struct("=IHHQQQQQ")
_META = struct.Struct(f"=QHHIIIQQ{_TREE.size}s{_TREE.size}sQQ")
_NUMBER = struct.Struct("=Q")

_IS_BRANCH, _IS_LEAF, _IS_OVERFLOW, _IS_META = 1, 2, 4, 8  # flags of pages
_DATA_OUTSIDE, _DATABASE = 1, 2  # flags of nodes
_FREE_FLAGS, _ENVIRONMENT_FLAGS = (
    0x08,
    0x4001,
)  # of the tree of free pages, which also keeps some of LMDB's own

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_METAS = 2
_NO_PAGE = (1 << 64) - 1
_PAGE_SIZES = [1 << power for power in range(8, 16)]
_MAX_KEY = 511
_MAX_DEPTH = 32
_MAX_MISSING = (
    1 << 20
)  # pages that a file may be shorter than its meta page says: those at its end may be free
_MAX_PROBLEMS = 100
_IN_ONE_PIECE = 64 << 20  # bytes; a larger file is read page by page

_IN_USE, _FREE = 1, 2

_Node: TypeAlias = tuple[int, ...]  # as `_NODE` has it


class _DamagedError(Exception):
    """What is wrong with a page."""


class _Meta(NamedTuple):
    """What a meta page says."""

    number: int
    padding: int
    flags: int
    bounds: int
    magic: int
    version: int
    address: int
    map_size: int
    free: bytes
    main: bytes
    last: int
    transaction: int


class _Record(NamedTuple):
    """What is written down of a tree."""

    padding: int
    flags: int
    depth: int
    branches: int
    leaves: int
    overflows: int
    entries: int
    root: int


class _Tree:
    """A tree that is walked, and what was found in it so far."""

    def __init__(self, name: str, raw: bytes, *, is_free: bool = False, is_main: bool = False) -> None:
        self.name = name
        self.record = _Record(*_TREE.unpack(raw))
        self.is_free = is_free
        self.is_main = is_main
        self.branches = self.leaves = self.overflows = self.entries = 0

    def count_problem(self) -> str | None:
        """Return what the record says wrongly of the tree."""
        for what in ("branches", "leaves", "overflows", "entries"):
            found, said = getattr(self, what), getattr(self.record, what)
            if found != said:
                return f"{self.name} has {found} {what}, and its record says {said}"
        return None


def data_problems(data: Path) -> list[str]:
    """Return what is wrong with a data file, a line each; nothing for a sound one.

    While other processes write, a read transaction must be open, so that no page is used anew meanwhile.
    """
    with data.open("rb", buffering=0) as file:
        try:
            walk = _Walk(file.fileno())
        except _DamagedError as damage:
            return [str(damage)]
        return walk.problems()


class _Walk:
    """One look at a whole file.

    Raises:
        _DamagedError: The meta pages are damaged: there is nowhere to begin.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._whole: bytes | None = None
        self._problems: list[str] = []
        # First the meta pages, then the rest: what they lead to is written before they are.
        self._page_size = _page_size(self._read(0, _META.size))
        self._meta = _newest([self._read(place * self._page_size, _META.size) for place in range(_METAS)])
        self._size = size = os.fstat(file).st_size
        pages = size // self._page_size
        self._end = self._meta.last + 1
        if not _METAS <= self._end <= pages + max(pages, _MAX_MISSING):
            raise _DamagedError(f"the last page is said to be {self._meta.last}, of {pages} in the file")
        self._use = bytearray(self._end)
        self._use[:_METAS] = bytes([_IN_USE]) * _METAS
        self._max_node = ((self._page_size - _PAGE.size) // 2 & ~1) - 2
        if size <= _IN_ONE_PIECE:
            self._whole = self._read(0, size)

    def problems(self) -> list[str]:
        """Return what is wrong with the pages."""
        free = _Tree("the tree of free pages", self._meta.free, is_free=True)
        if free.record.flags & ~_ENVIRONMENT_FLAGS != _FREE_FLAGS:
            self._problems.append(f"{free.name} has flags {free.record.flags:#x}")
        self._walk(free)
        self._walk_plain(_Tree("the main tree", self._meta.main, is_main=True))
        if not self._problems and (lost := self._use.count(0)):
            first = self._use.index(0)
            self._problems.append(f"{lost} pages are neither in use nor free, page {first} the first of them")
        return self._problems

    def _walk_plain(self, tree: _Tree) -> None:
        if tree.record.flags or tree.record.padding:
            flags, padding = tree.record.flags, tree.record.padding
            self._problems.append(f"{tree.name} has flags {flags:#x} and padding {padding}, and no log's has")
        else:
            self._walk(tree)

    def _walk(self, tree: _Tree) -> None:
        record, before = tree.record, len(self._problems)
        if record.root == _NO_PAGE and record.depth:
            self._problems.append(f"{tree.name} has no pages, and a depth of {record.depth}")
        elif record.root != _NO_PAGE and not 1 <= record.depth <= _MAX_DEPTH:
            self._problems.append(f"{tree.name} has a depth of {record.depth}")
        elif record.root != _NO_PAGE:
            self._visit(tree, record.root, 1, b"", None)
        if len(self._problems) == before and (problem := tree.count_problem()):
            self._problems.append(problem)

    def _visit(self, tree: _Tree, page: int, level: int, low: bytes, high: bytes | None) -> None:
        if len(self._problems) >= _MAX_PROBLEMS:
            return
        try:
            self._page(tree, page, level, low, high)
        except _DamagedError as damage:
            self._problems.append(f"page {page} of {tree.name} {damage}")

    def _page(self, tree: _Tree, page: int, level: int, low: bytes, high: bytes | None) -> None:
        """Look at a page whose keys lie from `low` up to `high`, and at all below it."""
        self._take(page, 1)
        raw = self._read(page * self._page_size, self._page_size)
        is_leaf = level == tree.record.depth
        number, _, flags, lower, upper = _PAGE.unpack_from(raw)
        if number != page:
            raise _DamagedError(f"says that it is page {number}")
        if flags != (_IS_LEAF if is_leaf else _IS_BRANCH):
            raise _DamagedError(f"has flags {flags:#x} at level {level} of {tree.record.depth}")
        if lower & 1 or not _PAGE.size <= lower <= upper <= self._page_size:
            raise _DamagedError(f"says that it is free from {lower} to {upper}")
        count = (lower - _PAGE.size) // 2
        # A branch of one child is what LMDB's assertions forbid, but for the tree of free pages.
        if count < (1 if is_leaf or tree.is_free else 2):
            raise _DamagedError(f"has {count} nodes")
        places: tuple[int, ...] = struct.unpack_from(f"={count}H", raw, _PAGE.size)
        if max(places) > self._page_size - _NODE.size:
            raise _DamagedError("has a node beyond its end")
        nodes = [_NODE.unpack_from(raw, place) for place in places]
        self._check_room(places, nodes, upper, is_leaf=is_leaf)
        keys = _keys(tree, raw, places, nodes, is_leaf=is_leaf)
        if is_leaf:
            tree.leaves += 1
            _check_order(keys, low, high)
            self._leaf(tree, raw, places, nodes, keys)
        else:
            tree.branches += 1
            for (a, b, c, _), first, behind in zip(nodes, [low, *keys], [*keys, high], strict=True):
                self._visit(tree, a | b << 16 | c << 32, level + 1, first, behind)

    def _check_room(self, places: Sequence[int], nodes: list[_Node], upper: int, *, is_leaf: bool) -> None:
        """See that the nodes fill the page from `upper` to its end."""
        if is_leaf:
            sizes = [8 + key + (8 if flags & _DATA_OUTSIDE else a | b << 16) for a, b, flags, key in nodes]
        else:
            sizes = [8 + node[3] for node in nodes]
        if max(sizes) > self._max_node:
            raise _DamagedError("has a node that is too large")
        # Where each node but one begins where another ends, they follow each other.
        begins = {*places, self._page_size}
        ends = {upper, *(place + size + (size & 1) for place, size in zip(places, sizes, strict=True))}
        if begins != ends or len(begins) != len(places) + 1:
            raise _DamagedError(f"has nodes that overlap, leave gaps or do not begin at {upper}")

    def _leaf(
        self,
        tree: _Tree,
        raw: bytes,
        places: Sequence[int],
        nodes: list[_Node],
        keys: list[bytes],
    ) -> None:
        """Look at what the nodes of a leaf hold."""
        tree.entries += len(nodes)
        if not tree.is_free and not any(node[2] for node in nodes):
            return
        for place, (a, b, flags, key_size), key in zip(places, nodes, keys, strict=True):
            size, begin = a | b << 16, place + _NODE.size + key_size
            if flags == _DATA_OUTSIDE:
                (page,) = _NUMBER.unpack_from(raw, begin)
                self._overflow(tree, page, size)
                value = self._read(page * self._page_size + _PAGE.size, size) if tree.is_free else b""
            elif flags in {0, _DATABASE}:
                value = raw[begin : begin + size]
            else:
                raise _DamagedError(f"has a node with flags {flags:#x}")
            if flags == _DATABASE:
                if not tree.is_main or size != _TREE.size:
                    raise _DamagedError(f"has a node for a database, of {size} bytes")
                self._walk_plain(_Tree(f"the database {key!r}", value))
            elif tree.is_free:
                self._free_pages(int.from_bytes(key, "big"), value)

    def _overflow(self, tree: _Tree, page: int, size: int) -> None:
        """Look at the pages of a value that lies outside of its node."""
        self._check_within(page, 1)
        number, _, flags, count = _OVERFLOW.unpack(self._read(page * self._page_size, _OVERFLOW.size))
        if number != page or flags != _IS_OVERFLOW:
            raise _DamagedError(
                f"leads to page {page}, which says that it is page {number}, flags {flags:#x}"
            )
        if count * self._page_size < _OVERFLOW.size + size:
            raise _DamagedError(f"leads to page {page}, where {size} bytes are on {count} pages")
        if (page + count) * self._page_size > self._size:
            raise _DamagedError(f"leads to {count} pages at {page}, where the file has ended")
        self._take(page, count)
        tree.overflows += count

    def _free_pages(self, transaction: int, raw: bytes) -> None:
        """Look at a list of pages that are free."""
        if not 1 <= transaction <= self._meta.transaction:
            raise _DamagedError(f"says what transaction {transaction} of {self._meta.transaction} has freed")
        if len(raw) % 8 or not raw:
            raise _DamagedError(f"has a list of free pages in {len(raw)} bytes")
        numbers: tuple[int, ...] = struct.unpack(f"={len(raw) // 8}Q", raw)
        count, pages = numbers[0], numbers[1 : numbers[0] + 1]
        if count != len(pages) or not all(map(operator.gt, pages, pages[1:])):
            raise _DamagedError(f"has a list of {count} free pages in {len(raw)} bytes, or in disorder")
        for page in pages:
            if not _METAS <= page < self._end or self._use[page]:
                raise _DamagedError(f"lists page {page} as free, which is in use, listed twice, or not there")
            self._use[page] = _FREE

    def _take(self, page: int, count: int) -> None:
        """Note that pages are in use."""
        self._check_within(page, count)
        if any(self._use[page : page + count]):
            raise _DamagedError(f"leads to or is one of {count} pages at {page} that are used twice, or free")
        self._use[page : page + count] = bytes([_IN_USE]) * count

    def _check_within(self, page: int, count: int) -> None:
        if not _METAS <= page <= page + count <= self._end:
            raise _DamagedError(
                f"leads to or is page {page}, with {count} pages; the last is {self._end - 1}"
            )

    def _read(self, place: int, size: int) -> bytes:
        if self._whole is not None:
            raw = self._whole[place : place + size]
        else:
            raw = _read_all(self._file, place, size)
        if len(raw) < size:
            raise _DamagedError(f"leads to or lies at byte {place}, where the file has ended")
        return raw


def _read_all(file: int, place: int, size: int) -> bytes:
    raw = os.pread(file, size, place)
    while len(raw) < size and (more := os.pread(file, size - len(raw), place + len(raw))):
        raw += more
    return raw


def _page_size(raw: bytes) -> int:
    meta = _Meta(*_META.unpack(raw))
    if meta.magic != _MAGIC:
        raise _DamagedError("the file is none of LMDB's")
    (size, *_) = _TREE.unpack(meta.free)  # its padding has that use in a meta page
    if size not in _PAGE_SIZES:
        raise _DamagedError(f"the first meta page says that pages have {size} bytes")
    return int(size)


def _newest(raw: Sequence[bytes]) -> _Meta:
    metas = [_Meta(*_META.unpack(each)) for each in raw]
    for place, meta in enumerate(metas):
        # A transaction writes the meta page of its number's parity. An environment begins with none.
        sound = meta.number == place and meta.flags == _IS_META and meta.free[:4] == metas[0].free[:4]
        if not sound or (meta.magic, meta.version) != (_MAGIC, _VERSION):
            raise _DamagedError(f"the meta page {place} is damaged")
        if meta.transaction and meta.transaction % _METAS != place:
            raise _DamagedError(f"the meta page {place} says that transaction {meta.transaction} wrote it")
    return max(metas, key=lambda meta: meta.transaction)


def _keys(
    tree: _Tree, raw: bytes, places: Sequence[int], nodes: list[_Node], *, is_leaf: bool
) -> list[bytes]:
    """Return the keys of a leaf, or those that part the children of a branch: the first one says nothing."""
    sizes = [node[3] for node in nodes]
    if not is_leaf:
        places, sizes = places[1:], sizes[1:]
    if sizes and (min(sizes) < 1 or max(sizes) > _MAX_KEY):
        raise _DamagedError(f"has keys of {min(sizes)} to {max(sizes)} bytes")
    keys = [raw[place + 8 : place + 8 + size] for place, size in zip(places, sizes, strict=True)]
    if tree.is_free:
        if any(size != _NUMBER.size for size in sizes):
            raise _DamagedError("has keys that are no numbers")
        keys = [int(_NUMBER.unpack(key)[0]).to_bytes(_NUMBER.size, "big") for key in keys]
    return keys


def _check_order(keys: list[bytes], low: bytes, high: bytes | None) -> None:
    if not all(map(operator.lt, keys, keys[1:])):
        raise _DamagedError("has keys in disorder")
    if keys[0] < low or (high is not None and keys[-1] >= high):
        raise _DamagedError("has keys that belong on another page")
