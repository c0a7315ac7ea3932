"""The interface of importers: a session of another program as drafts, independent of its format.

An importer is a module with the functions of `Importer`. It reads and never writes, opens no store, and makes drafts:
the session layer turns these into records.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, cast

import msgspec

from treering.errors import AccessError, NotFoundError, UnavailableError, UsageError
from treering.kinds import Kind
from treering.programs.common.entry import AFTER, BEFORE, RAW, Entry, as_text
from treering.transcript.node import Draft

GZIP_MAGIC: Final = b"\x1f\x8b"
HEAD_BYTES: Final = 64 * 1024
"""Bytes of a file that are enough for `detect`, unless its first line is longer."""
PROBLEMS_MAX: Final = 10_000
"""The most problems listed for one file: a file of another sort has a problem on every line."""
_WHITE_BYTES_MAX: Final = 1024
_WIDE: Final = re.compile(rb"\xff\xfe|\xfe\xff|\0\0\xfe\xff|\{\0[^\0]\0|\0\{\0[^\0]", re.DOTALL)
"""The beginning of JSON in characters of two or four bytes, with a byte order mark or without."""
_WIDE_BYTES: Final = 4
MESSAGE_CHARACTERS: Final = 300
"""The most characters of a problem's message, which quotes the file."""


class Problem(msgspec.Struct, frozen=True):
    """A part of a file that was repaired or skipped. The records around it are read."""

    line: int
    """The number of the line, from 1; 0 is the file as a whole."""
    offset: int
    """The offset of its first byte in the uncompressed file."""
    kind: str
    """A stable word; each importer's reference page lists its own."""
    message: str


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a foreign file: facts about the whole session."""

    format: str
    version: int
    """The version that the file states, even if the importer does not know it."""
    session_id: str
    title: str = ""
    """The title in the header; a later title is a note."""
    cwd: str = ""
    created_ms: int | None = None
    """Milliseconds since 1970."""
    parent_session: str = ""
    """The id or path that the program wrote."""
    extra: dict[str, object] = {}
    """All other fields of the header, under their own names."""


class ImportSource(Protocol):
    """One session file, opened for reading."""

    @property
    def header(self) -> Imported:
        """The facts in the header; valid from the start."""

    @property
    def leaf(self) -> str | None:
        """The node at which the program would continue; valid when `drafts` has ended."""

    @property
    def problems(self) -> list[Problem]:
        """The problems found, in file order; complete when `drafts` has ended."""

    def records(self) -> Iterator[tuple[Entry | None, list[Draft]]]:
        """Yield every record of the file, in its order, with its drafts; each call reads the file again.

        The header, and bytes without a record, have None instead of an entry. The last draft of an entry is the entry's
        own; drafts before it are stand-ins.
        """

    def drafts(self) -> Iterator[Draft]:
        """Yield the drafts of the file, in its order; each call reads the file again.

        The first draft is a note of the kind `import` with the header. Nodes have an id and an explicit parent, which
        may be missing or come later, as in the file. No id is used twice. At most one payload is in memory at a time.
        The drafts of `ClosingSource.closing` come last.
        """


class ClosingSource(ImportSource, Protocol):
    """A session of a program that rewrites the session's final state after its records."""

    def closing(self) -> list[Draft]:
        """Return the drafts of the final state; valid when `records` has ended.

        All drafts have ids. A draft whose id was recorded before, at any position, is not recorded again. The last
        draft is the checkpoint to continue from.
        """


def closing_of(source: ImportSource) -> list[Draft]:
    """Return the closing drafts of a source; empty if it has none."""
    return cast(ClosingSource, source).closing() if hasattr(source, "closing") else []


def header_note(header: Imported, raw: bytes, *, before: bytes = b"", after: bytes = b"\n") -> Draft:
    """Return the note of the kind `import`, which keeps the facts of a header, and its bytes.

    Args:
        header: The facts of the header.
        raw: The header's line, without the line break.
        before: White space at the beginning of the file.
        after: The line break, and blank lines after it.
    """
    facts = {name: value for name, value in msgspec.structs.asdict(header).items() if value not in ("", None)}
    framing = ({BEFORE: as_text(before)} if before else {}) | ({AFTER: as_text(after)} if after != b"\n" else {})
    return Draft(type="note", kind="import", parent=None, payload=facts, source={RAW: as_text(raw), **framing})


def damage_note(identifier: str, kind: str, line: int, offset: int, raw: bytes, *, after: bytes = b"\n") -> Draft:
    """Return the note of the kind `damage`, which keeps bytes without a record."""
    payload = {"kind": kind, "line": line, "offset": offset, "bytes": raw}
    source: dict[str, object] | None = None if after == b"\n" else {AFTER: as_text(after)}
    return Draft(type="note", kind="damage", id=identifier, parent=None, payload=payload, source=source)


def white_before(open_file: Callable[[], io.BufferedIOBase], offset: int) -> bytes:
    """Return the bytes before the header, if they are a small amount of white space."""
    if not 0 < offset <= _WHITE_BYTES_MAX:
        return b""
    with open_file() as stream:
        start = stream.read(offset)
    return start if not start.strip(b" \t\r\n") else b""


class Importer(Protocol):
    """The functions of an importer's module."""

    def detect(self, head: bytes) -> bool:
        """Tell whether a file that begins with `head` has this format; `HEAD_BYTES` bytes are enough."""

    def open_source(self, path: str | os.PathLike[str], *, blobs: Path | None = None) -> ImportSource:
        """Open a session file, compressed by gzip or not.

        Args:
            path: The file.
            blobs: The folder with the parts that the program keeps in separate files; None: the usual folder.

        Raises:
            UsageError: The file has another format; the message says which content was found.
            NotFoundError: There is no such file.
            AccessError: The file may not be read.
        """


class ProblemLog:
    """Collects problems, up to a limit."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def report(self, line: int, offset: int, kind: str, message: str) -> None:
        """Add a problem. Once the limit is reached, a last one says that there are more."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(line, offset, kind, message[:MESSAGE_CHARACTERS]))
        elif len(self.problems) == PROBLEMS_MAX:
            self.problems.append(Problem(line, offset, "more", "from here on problems are no longer listed"))


def uncompressed(head: bytes) -> bytes:
    """Return the beginning of a file, uncompressed if it begins like gzip; empty if that fails."""
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Convert errors of the system about a file to errors of Treering; see `open_stream`."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"no such file. path={str(path)!r}", kind=Kind.FILE) from error
    except PermissionError as error:
        raise AccessError(f"file may not be read. path={str(path)!r}") from error
    except IsADirectoryError as error:
        raise UsageError(f"this is a folder, name a file in it. path={str(path)!r}") from error
    except OSError as error:
        raise UnavailableError(f"file cannot be read: {error}. path={str(path)!r}") from error


def file_to_write(path: Path, *, overwrite: bool, remedy: str = "ask to overwrite it") -> Path:
    """Return the file that a path leads to through links, if it can be written.

    Args:
        path: The path.
        overwrite: Whether a file there may be replaced.
        remedy: What to do if there is one and it may not.

    Raises:
        UsageError: There is a file, or a folder, or a device, a pipe or a socket, which is never replaced.
        NotFoundError: Its folder does not exist.
    """
    place = Path(os.path.realpath(path))
    if is_special(place):
        raise UsageError(f"this is no regular file. path={str(path)!r}", kind=Kind.FILE, remedy="name another file")
    if place.is_dir():
        raise UsageError(f"this is a folder. path={str(path)!r}", kind=Kind.FILE, remedy="name a file in it")
    if not place.parent.is_dir():
        folder = str(place.parent)
        raise NotFoundError(f"there is no such folder. path={folder!r}", kind=Kind.FILE, remedy="make it first")
    if place.exists() and not overwrite:
        raise UsageError(f"file exists already. path={str(place)!r}", kind=Kind.FILE, remedy=remedy)
    return place


def is_special(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a pipe, a socket or a device, which can be read only once and may block or never end."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def open_stream(path: Path) -> io.BufferedIOBase:
    """Open a file for reading, uncompressed if it begins like gzip.

    Raises:
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
        UsageError: It is a folder, a pipe, socket or device (kind `special`), or text in UTF-16 or UTF-32 (kind
            `encoding`).
        UnavailableError: The system reported another error.
    """
    if is_special(path):
        raise UsageError(
            f"this is a pipe, a socket or a device, and no file. path={str(path)!r}",
            kind=Kind.SPECIAL,
            remedy="write what comes out of it to a file",
        )
    with refused(path):
        stream = path.open("rb")
        if stream.peek(len(GZIP_MAGIC))[: len(GZIP_MAGIC)] == GZIP_MAGIC:
            stream.close()
            return gzip.open(path, "rb")
        if _WIDE.match(stream.peek(_WIDE_BYTES)):
            stream.close()
            raise UsageError(
                f"this is a text in UTF-16 or UTF-32, and session files are in UTF-8. path={str(path)!r}",
                kind=Kind.ENCODING,
                remedy="convert it: `iconv -f UTF-16 -t UTF-8`",
            )
        return stream


def read_start(stream: io.BufferedIOBase, size: int | None = None) -> bytes:
    """Return the first bytes of a file, or all of it; of a damaged compressed file, only the readable bytes."""
    parts: list[bytes] = []
    left = sys.maxsize if size is None else size
    try:
        while left and (part := stream.read1(min(left, HEAD_BYTES))):
            parts.append(part)
            left -= len(part)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        pass
    return b"".join(parts)


def find_files(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files below `folder` with one of `endings`, sorted by name within each folder; a file yields itself.

    A pipe or device also yields itself; inside a folder, pipes and devices are skipped, see `find_special`.

    Raises:
        NotFoundError: There is no such folder.
    """
    if not folder.exists():
        raise NotFoundError(f"no such file or folder. path={str(folder)!r}", kind=Kind.FILE)
    if not folder.is_dir():
        yield folder
    yield from (path for path in _walk(folder, endings) if not is_special(path))


def find_special(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Yield the pipes, sockets and devices below `folder` with one of `endings`."""
    return filter(is_special, _walk(folder, endings))


def _walk(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    for root in (folder, *_linked(folder)):
        for place, folders, files in os.walk(root):
            folders.sort()
            yield from (Path(place, name) for name in sorted(files) if name.endswith(endings))


def _linked(folder: Path) -> Iterable[Path]:
    """The folders elsewhere to which links in this very folder lead, once each.

    Who moves the sessions of a project to another disk leaves such a link. Links deeper down may lead anywhere, for
    example to the root of a disk.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # a file, or a folder that is closed to the user
        return ()
    own, found = folder.resolve(), dict[Path, Path]()
    for path in entries:
        if path.is_symlink() and os.path.isdir(path):
            target = path.resolve()
            if not (target.is_relative_to(own) or own.is_relative_to(target)):
                found.setdefault(target, path)
    return found.values()
