r"""JSON values from a file of lines, which may be damaged.

Rule 1: lines end at the byte `\n` and nowhere else: U+2028 and U+0085 are ordinary characters inside a string.
Rule 2: a damaged line affects no other line. It is reported with its place, and its complete records are read.
Rule 3: nothing is guessed. A record is taken from a damaged line only if it is complete, looks like a record, and is at
the top level: an object inside a torn record may be complete and look like a record, and is none. So a torn record is
skipped up to the first byte that is invalid there, and an object is not taken if a colon, comma or bracket next to it
shows that it is part of another value. If a record was cut off exactly where a value is expected, the next record on
the line could be that value, and is kept with the damage.

Damage seen in real files: a line torn by a kill, with the next record right after it; two records joined because the
line break between them was lost; runs of NUL bytes that a file system left after a power cut; bytes that are not UTF-8;
a byte order mark. JSON that msgspec refuses and JavaScript writes (lone surrogates, `1e400`) is not damage and is read
with the standard library.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from treering.format.nesting import LEVELS_MAX, fold, is_deeper

LINE_BYTES_MAX: Final = 256 * 1024 * 1024
"""The longest line that is read. Session files of 200 MB are known, but one endless line must not fill memory."""
DEPTH_MAX: Final = LEVELS_MAX
"""The greatest nesting depth of a record; importers add a few levels before it is stored."""
EXCERPT_BYTES: Final = 60

Report = Callable[[int, int, str, str], None]
"""A function that takes the line, offset, kind and message of a problem."""
IsRecord = Callable[[dict[str, object]], bool]
"""A function that tells whether an object is a record, and not a part of one."""

_BOM: Final = b"\xef\xbb\xbf"
_WHITE: Final = b" \t\r\n"
_PADDING: Final = b"\0" + _WHITE
_WHITE_BYTES: Final = frozenset({b" ", b"\t", b"\r", b"\n"})
_READ_BYTES: Final = 1024 * 1024
_CHUNK_BYTES: Final = 128 * 1024
"""Bytes of one read: some tens of records, and not many if only one record is read again."""
_BLANK_BYTES_MAX: Final = 1024
"""The most bytes of a blank line; a longer one is skipped."""
_BLANKS_BYTES_MAX: Final = 64 * 1024
"""The most bytes of blank lines that are kept with the line before them; more are skipped."""
_OBJECT: Final = re.compile(r'\{[ \t\r]*"')
_CUT_SHORT: Final = re.compile(r'\{[ \t\r]*"[ \t\r]*')
"""The beginning of a record that closes the string in which the record before was cut off."""
_GOES_ON: Final = re.compile(r'[ \t\r]*(?:[\]}]|,[ \t\r]*[\[{"])')
"""The characters after an object inside another value."""

_decoder = msgspec.json.Decoder()
_object_decoder = msgspec.json.Decoder(dict[str, object])


def _integer(digits: str) -> int | float:
    """Return an integer; of more digits than Python reads, the double as which JavaScript reads it."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


_scanner = json.JSONDecoder(parse_int=_integer)


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line of the file, verbatim."""

    number: int
    """The number of the line, from 1."""
    offset: int
    data: bytes
    """The bytes without the line break."""
    after: bytes = b"\n"
    """The line break, and blank lines that follow; empty if the file ends without a line break."""


class Value(msgspec.Struct, frozen=True, gc=False):
    """A JSON value and its place in the file."""

    value: object
    line: int
    offset: int
    intact: bool
    """Whether the value was alone on its line, so that other programs can read it."""
    raw: bytes = b""
    """The bytes from which it was read, including white space around it."""
    after: bytes = b"\n"
    """The bytes after it: the line break and blank lines, if it was alone on its line."""
    damage: str = ""
    """The kind of damage: `torn`, `garbage` or `nesting`; then `value` is None."""


def read_values(
    stream: io.BufferedIOBase, report: Report, is_record: IsRecord, *, line: int = 0, offset: int = 0
) -> Iterator[Value]:
    """Yield the JSON values of a file in its order, and bytes that hold no value.

    Blank lines and NUL bytes are skipped.

    Args:
        stream: A stream at the beginning of a line.
        report: Called with every problem. Kinds: `too_long`, `gzip`, `bom`, `nul`, `utf8`, `glued`, `torn`, `garbage`,
            `nesting`.
        is_record: Chooses among the complete objects in a damaged line.
        line: The number of lines before the stream's position.
        offset: The number of bytes before it.
    """
    for each in read_lines(stream, report, number=line, offset=offset):
        whole = _whole_object(each.data)
        if whole is not None:
            yield Value(whole, each.number, each.offset, True, each.data, each.after)
        else:
            yield from _values_of(each, report, is_record)


def read_lines(stream: io.BufferedIOBase, report: Report, *, number: int = 0, offset: int = 0) -> Iterator[Line]:
    """Yield the lines of a file; blank lines are part of the line before them. One line is in memory at a time.

    Args:
        stream: A stream at the beginning of a line.
        report: Called with every problem.
        number: The number of lines before the stream's position.
        offset: The number of bytes before it.
    """
    source = _Ahead(stream, report)
    while data := source.line(LINE_BYTES_MAX, number, offset):
        number, offset = number + 1, offset + source.passed
        if len(data) == LINE_BYTES_MAX and not data.endswith(b"\n"):
            start, offset = offset, offset + len(data)
            while not data.endswith(b"\n") and (data := source.line(_READ_BYTES, number, offset)):
                offset += len(data)
            report(
                number, start, "too_long", f"line is too long, skipped. bytes={offset - start}, max={LINE_BYTES_MAX}"
            )
            continue
        if not data.endswith(b"\n"):
            yield Line(number, offset, data, b"")
            offset += len(data)
            continue
        blank = source.blank_lines()
        yield Line(number, offset, data[:-1], b"\n" + blank)
        number += blank.count(b"\n")
        offset += len(data) + len(blank)


class _Ahead:
    """Reads lines, with a lookahead for blank lines."""

    def __init__(self, stream: io.BufferedIOBase, report: Report) -> None:
        self._stream = stream
        self._report = report
        self._data = b""
        self._at = 0
        """The index of the next byte in the data."""
        self._error: Exception | None = None
        self.passed = 0
        """NUL bytes before the last line, which are not part of it."""

    def line(self, size: int, number: int, offset: int) -> bytes:
        """Return the next line, at most `size` bytes of it; empty at the end, and where a compressed file is damaged.

        Only the last byte of a long run of NUL bytes is part of the line: a sparse file may be of any size.
        """
        self.passed, begun = 0, b""
        if self._byte() == b"\0":
            begun = self._next(min(_BLANK_BYTES_MAX, size))
        while len(begun) >= _BLANK_BYTES_MAX and not begun.strip(b"\0"):
            self.passed += len(begun) - 1
            begun = b"\0" + self._next(_READ_BYTES)
        if self.passed:
            self._report(number + 1, offset, "nul", f"NUL bytes, skipped. bytes={self.passed}")
        data = begun if begun.endswith(b"\n") else begun + self._next(size - len(begun))
        if self._error is not None and not data:
            text = f"compressed file is damaged or cut, the rest is not readable: {self._error}"
            self._report(number + 1, offset, "gzip", text)
        return data

    def blank_lines(self) -> bytes:
        """Return the next blank lines."""
        blank = b""
        while self._byte() in _WHITE_BYTES and len(blank) <= _BLANKS_BYTES_MAX:
            while self._line_end(_BLANK_BYTES_MAX) is None and self._read():
                pass
            end = self._line_end(_BLANK_BYTES_MAX) or len(self._data)
            line = self._data[self._at : end]
            if line.strip(_WHITE) or len(line) >= _BLANK_BYTES_MAX:
                break
            blank, self._at = blank + line, end
        return blank

    def _next(self, size: int) -> bytes:
        """Return the rest of the line, at most `size` bytes of it; empty if a compressed file is damaged there."""
        pieces: list[bytes] = []
        while self._byte():
            end = self._line_end(size)
            pieces.append(self._data[self._at : end])
            size, self._at = size - len(pieces[-1]), len(self._data) if end is None else end
            if end is not None:
                return b"".join(pieces)
        return b"".join(pieces) if self._error is None else b""

    def _byte(self) -> bytes:
        """Return the next byte without consuming it; empty at the end."""
        if self._at == len(self._data):
            self._read()
        return self._data[self._at : self._at + 1]

    def _line_end(self, size: int) -> int | None:
        """Return the end of the line in the data, or of `size` bytes of it; None if more must be read to tell."""
        end = self._data.find(b"\n", self._at, self._at + size) + 1
        return end or (self._at + size if len(self._data) - self._at >= size else None)

    def _read(self) -> bool:
        """Read more bytes, and drop those that were consumed; False at the end."""
        if self._error is not None:
            return False
        try:
            data = self._stream.read1(_CHUNK_BYTES)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self._error = error
            return False
        self._data, self._at = self._data[self._at :] + data, 0
        return bool(data)


def _values_of(line: Line, report: Report, is_record: IsRecord) -> Iterator[Value]:
    """Yield the values of a line that is not just one object."""
    data = line.data.strip(_WHITE)
    bare = data.removeprefix(_BOM).strip(_WHITE)
    core = bare.strip(_PADDING)
    if len(bare) < len(data):
        report(line.number, line.offset, "bom", "byte order mark, skipped")
    if len(core) < len(bare):
        report(line.number, line.offset, "nul", f"NUL bytes, skipped. bytes={len(bare) - len(core)}")
    if not core:
        return
    start = line.offset + line.data.index(core)
    at = Line(line.number, start, core, line.after)
    try:
        value = _decode(at, report)
    except RecursionError:
        report(line.number, start, "nesting", f"record is nested too deeply to be read, skipped. bytes={len(core)}")
        yield Value(None, at.number, at.offset, False, core, line.after, "nesting")
    except ValueError:
        yield from _mend(at, report, is_record)
    else:
        intact = len(core) == len(bare)
        raw = line.data if len(core) == len(data) else core
        yield Value(value, at.number, at.offset, intact, raw, line.after)


def _whole_object(data: bytes) -> dict[str, object] | None:
    """Return the object of an undamaged line, as nearly all lines are; None for all other lines."""
    if data[:1] != b"{" or data[-1:] != b"}":
        return None
    try:
        value = _object_decoder.decode(data)
    except (ValueError, RecursionError):  # msgspec's errors, too, are ValueErrors
        return None
    return None if _may_be_deep(data) and is_deeper(value, DEPTH_MAX) else value


def _may_be_deep(data: bytes) -> bool:
    return data.count(b"[") + data.count(b"{") > DEPTH_MAX


def _decode(record: Line, report: Report) -> object:
    """Return a value that can be stored, and report the changes that this required."""
    value, replaced = decode(record.data)
    if replaced:
        report(record.number, record.offset, "utf8", "bytes that are not UTF-8 were replaced by U+FFFD")
    if _may_be_deep(record.data) and is_deeper(value, DEPTH_MAX):
        report(record.number, record.offset, "nesting", f"parts more than {DEPTH_MAX} deep are kept as JSON text")
        return fold(value, DEPTH_MAX)
    return value


def decode(data: bytes) -> tuple[object, bool]:
    """Return a JSON value, and whether invalid UTF-8 had to be replaced in it.

    Raises:
        ValueError: This is not one JSON value.
        RecursionError: It is nested too deeply.
    """
    try:
        return _decoder.decode(data), False
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass  # perhaps JSON that JavaScript writes and msgspec refuses
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _scanner.decode(data.decode("utf-8", "replace")), True
    return _scanner.decode(text), False


def _mend(line: Line, report: Report, is_record: IsRecord) -> Iterator[Value]:
    """Yield the complete records of a line that is not one JSON value, and report the rest."""
    place = count = 0
    for start, end in _spans(line.data, is_record):
        yield from _gap(line, place, start, report)
        record = Line(line.number, line.offset + start, line.data[start:end])
        if count:
            report(record.number, record.offset, "glued", "another record on the same line, taken apart")
        yield Value(_decode(record, report), record.number, record.offset, intact=False, raw=record.data)
        place, count = end, count + 1
    yield from _gap(line, place, len(line.data), report)


def _gap(line: Line, start: int, end: int, report: Report) -> Iterator[Value]:
    gap = line.data[start:end].strip(_WHITE)
    if not gap:
        return
    kind = "torn" if gap.startswith(b"{") else "garbage" if gap.strip(_PADDING) else "nul"
    text = {"torn": "this is no complete record", "garbage": "this is no record", "nul": "NUL bytes"}[kind]
    excerpt = gap[:EXCERPT_BYTES].decode("utf-8", "replace")
    offset = line.offset + start
    report(line.number, offset, kind, f"{text}, skipped. bytes={len(gap)}, text={excerpt!r}")
    if kind != "nul":
        yield Value(None, line.number, offset, False, gap, line.after if end == len(line.data) else b"\n", kind)


def _spans(data: bytes, is_record: IsRecord) -> Iterator[tuple[int, int]]:
    """Yield start and end of the complete records in damaged bytes, in linear time."""
    # With surrogateescape every character can be encoded to its original bytes, so that places in the text give places
    # in the file.
    text = data.decode("utf-8", "surrogateescape")
    place = top = 0
    done = done_bytes = 0
    while match := _OBJECT.search(text, place):
        start = match.start()
        try:
            value, place = _scanner.raw_decode(text, start)
        except json.JSONDecodeError as error:
            place = top = _after_tear(text, start, error.pos)
            continue
        except RecursionError:
            return
        if is_record(value) and (start == top or not _is_due(text, start)) and not _GOES_ON.match(text, place):
            first = done_bytes + _size(text[done:start])
            done, done_bytes = place, first + _size(text[start:place])
            yield first, done_bytes


def _after_tear(text: str, start: int, at: int) -> int:
    """Return the place to search for the next record after a torn one; a record exactly there is at the top level.

    Args:
        text: The text of the line.
        start: The beginning of the torn record.
        at: The first character that is invalid after the characters before it.
    """
    # The first quotation mark of the next record closes the string that was cut off.
    brace = text.rfind("{", start + 1, at)
    return brace if brace >= 0 and _CUT_SHORT.fullmatch(text, brace, at) else at


def _is_due(text: str, place: int) -> bool:
    """Tell by the character before a place whether a nested value follows."""
    while place and text[place - 1] in " \t\r":
        place -= 1
    return text[place - 1 : place] in (":", ",", "[")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
