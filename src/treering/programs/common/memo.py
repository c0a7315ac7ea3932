"""A reader's facts about the records of a file, in pages that are read on demand.

A reader keeps a few facts about each record, by the record's id, in several tables. A long file has many facts, and the
next record needs hardly any of them. So they are written to pages in the order in which they were added, and an index
maps the hash of a name to its page. New facts are appended as new pages; if two facts have one name, the later one
counts.

Rule 1: a page is written once and never changed. Pages count once another file lists them (see
`treering.programs.common.growth`); pages of a killed or slower process are ignored.
Rule 2: a damaged page raises `CorruptError` of the kind `look`.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast
from zlib import crc32

import msgspec
import zstandard

from treering.errors import CorruptError
from treering.kinds import Kind

V = TypeVar("V")
Facts = Mapping[str, Iterable[tuple[str, object]]]
"""Pairs of name and value, by table."""

FACTS_ON_PAGE: Final = 256
"""The most facts on a page, which is decoded in less than a tenth of a millisecond."""
_PAGE_BITS: Final = 32
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(dict[str, Any])


class Page(NamedTuple):
    """The place of a page."""

    table: str
    offset: int
    size: int
    check: int
    """CRC-32 of its bytes."""


class Contents(msgspec.Struct, frozen=True, array_like=True):
    """The pages of a file, and an index of their facts."""

    pages: list[Page] = []
    index: bytes = b""
    """For each fact the hash of its name and the number of its page, as sorted 64-bit numbers."""


def written(facts: Facts, before: Contents) -> tuple[Contents, bytes]:
    """Encode facts as pages; return the new contents, with offsets from the first new byte, and the bytes.

    Args:
        facts: New and changed facts.
        before: The pages so far, which are kept.

    Raises:
        UnicodeEncodeError: A name is no text.
    """
    pages, data, places = [*before.pages], bytearray(), array("Q", before.index)
    pack = zstandard.ZstdCompressor(level=1).compress
    for table, items in facts.items():
        left, begun = iter(items), crc32(table.encode())
        while part := dict(islice(left, FACTS_ON_PAGE)):
            number = len(pages)
            places.extend(crc32(name.encode(), begun) << _PAGE_BITS | number for name in part)
            page = pack(_encoder.encode(part))
            pages.append(Page(table, len(data), len(page), crc32(page)))
            data += page
    return Contents(pages, array("Q", sorted(places)).tobytes()), bytes(data)


def moved(contents: Contents, first: int, offset: int) -> Contents:
    """Return contents with the pages from `first` on at an offset of the file."""
    behind = [page._replace(offset=page.offset + offset) for page in contents.pages[first:]]
    return msgspec.structs.replace(contents, pages=contents.pages[:first] + behind)


def _hash(table: str, name: str) -> int:
    return crc32(name.encode(), crc32(table.encode()))


class Memo:
    """Pages in a file. Pages are read on demand and stay in memory."""

    def __init__(self, path: Path | None = None, contents: Contents | None = None) -> None:
        """Make a memo, without reading anything.

        Args:
            path: The file.
            contents: The contents of the file.
        """
        self.path = path
        self.contents = contents or Contents()
        self._index = array("Q", self.contents.index)
        self._read: dict[int, dict[str, Any]] = {}

    def find(self, table: str, name: str) -> object:
        """Return a fact.

        Raises:
            KeyError: There is no such fact.
            CorruptError: Its page cannot be read.
        """
        try:
            key = _hash(table, name)
        except (AttributeError, UnicodeEncodeError):  # a missing name, or no text
            raise KeyError(name) from None
        end = bisect_left(self._index, key + 1 << _PAGE_BITS)
        while end and self._index[end - 1] >> _PAGE_BITS == key:
            end -= 1
            number = self._index[end] & (1 << _PAGE_BITS) - 1
            if self.contents.pages[number].table == table and name in (page := self._page(number)):
                return page[name]
        raise KeyError(name)

    def each(self, table: str) -> Iterator[tuple[str, object]]:
        """Yield all facts of a table in the order in which they were added, including facts that were replaced."""
        for number, page in enumerate(self.contents.pages):
            if page.table == table:
                yield from self._page(number).items()

    def _page(self, number: int) -> dict[str, Any]:
        if number not in self._read:
            self._read[number] = self._decoded(self.contents.pages[number])
        return self._read[number]

    def _decoded(self, page: Page) -> dict[str, Any]:
        try:
            with open(self.path or os.devnull, "rb") as file:
                file.seek(page.offset)
                data = file.read(page.size)
            if crc32(data) == page.check:
                return _decoder.decode(zstandard.decompress(data))
        except (OSError, zstandard.ZstdError, msgspec.MsgspecError) as error:
            raise _damaged(self.path) from error
        raise _damaged(self.path)


def _damaged(path: Path | None) -> CorruptError:
    return CorruptError(
        f"what was remembered of a file cannot be read. path={str(path)!r}",
        kind=Kind.LOOK,
        remedy="remove it: the file is read from its beginning then",
    )


class Recalled(MutableMapping[str, V]):
    """One table of a memo with later changes, like a `dict` of all its facts.

    A replaced fact moves to the end. A removed fact must be added again before the table is written.
    """

    def __init__(self, memo: Memo, table: str, decoder: msgspec.json.Decoder[Any]) -> None:
        """Make a table, without reading anything.

        Args:
            memo: The memo with the facts.
            table: The name of the table.
            decoder: A decoder of their type. Make it at import: msgspec crashes if two threads make one concurrently.
        """
        self.new: dict[str, V] = {}
        """Facts that are not in the memo."""
        self._memo = memo
        self._table = table
        self._decoder = decoder
        self._out: set[str] = set()

    def __getitem__(self, name: str) -> V:
        if name in self.new:
            return self.new[name]
        if name in self._out:
            raise KeyError(name)
        return self._value(self._memo.find(self._table, name))

    def __setitem__(self, name: str, value: V) -> None:
        self.new[name] = value

    def __delitem__(self, name: str) -> None:
        if name not in self.new:
            self._memo.find(self._table, name)
        self.new.pop(name, None)
        self._out.add(name)

    def __iter__(self) -> Iterator[str]:
        """Yield all names, which reads all pages of the table."""
        last: dict[str, None] = {}
        for name, _ in self._memo.each(self._table):
            last.pop(name, None)
            last[name] = None
        yield from (name for name in last if name not in self.new and name not in self._out)
        yield from self.new

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def replaces(self) -> bool:
        """Whether a fact of the memo was removed."""
        return bool(self._out)

    def _value(self, found: object) -> V:
        try:
            return cast(V, msgspec.convert(found, self._decoder.type))
        except msgspec.ValidationError as error:
            raise _damaged(self._memo.path) from error


def new_in(table: Mapping[str, V]) -> Iterable[tuple[str, V]]:
    """Return the facts of a table that are not in its memo; all of them for a plain dict."""
    return (table.new if isinstance(table, Recalled) else table).items()
