"""The origin of a session: the file from which it was imported, and how much of the file was read.

It is stored as a note of the kind `origin`, and so also on the card: a list of sessions shows which files have changed,
without reading any session. Imports are recorded only in the store.

Rule 1: a file is identified by its records and not by its bytes, since programs rewrite their headers in place. A file
has grown if it begins with the records that were read before.
Rule 2: a torn record at the end of a file is kept, but does not count as read: its program may be writing it. Nor does
any other last line that is no record and has no line break yet. The line break itself may come later, in two parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b, sha256

import msgspec

from treering.errors import NotFoundError
from treering.format import values
from treering.format.values import fields_of
from treering.programs import part_of
from treering.programs.common import rfc3339, times
from treering.programs.common.entry import AFTER, FRAMING, Entry
from treering.programs.common.folder import folder_at, is_url
from treering.programs.common.growth import Growth, Look, grows
from treering.programs.common.source import ImportSource
from treering.store.info import SessionInfo
from treering.transcript.node import Draft

KIND = "origin"
_DIGEST_BYTES = 16
_SPEAKERS = frozenset({"user", "assistant"})
_SECONDS_MAX = 100_000_000_000
"""A smaller time is in seconds, until the year 5138; a larger one is in milliseconds, since 1973."""


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of another program at the time it was read."""

    session: str
    """The session that was imported from it. In a copy or fork this is the name of the original session."""
    format: str
    id: str
    """The session's id in the file."""
    path: str
    """The absolute path or the URL."""
    size: int = 0
    """The size in bytes; 0 while only a part of the file is recorded."""
    mtime_ns: int = 0
    units: int = 0
    """The number of records read, without the header."""
    digest: str = ""
    """A hash chain over these records, so that hashing can continue after any of them."""
    header: str = ""
    """The digest of the header."""
    tail: str = ""
    """The digest of the damage at the end; empty if there is none."""
    leaf: str | None = None
    """The program's current node."""
    newest: str | None = None
    """The last node recorded, while only a part of the file is recorded; the head may have moved to it already."""
    head: str = ""
    """The head for the program's node, if the session was continued on another branch."""
    active_ms: int | None = None
    """The time at which the program was last active, in milliseconds since 1970."""
    parent: str = ""
    """The parent session that the file names: an id or a path."""
    parent_session: str | None = None
    """The session of that parent, if it is known."""
    imported_ms: int = 0

    @property
    def facts(self) -> dict[str, object]:
        """The stored form."""
        return fields_of(msgspec.to_builtins(self))


_decoder = msgspec.json.Decoder(
    Origin
)  # made at import, since two threads must not teach msgspec a type at the same time


def origin_of(info: SessionInfo) -> Origin | None:
    """Return the file from which a session was imported; None if there is none, or the session is a copy."""
    try:
        origin = msgspec.convert(info.extra.get(KIND), _decoder.type)
    except msgspec.ValidationError:
        return None
    return origin if origin.session == info.id else None


def name_of_path(path: str | os.PathLike[str]) -> str:
    """Return an absolute path as text that can be stored; a URL is one already."""
    if is_url(path):
        return os.fspath(path)
    name = os.fsdecode(os.path.abspath(path))
    try:
        data = os.fsencode(name)
    except UnicodeEncodeError:  # a file says that it has such a parent, and no file can
        data = name.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")


class Reading:
    """One pass over a file, which counts and hashes its records."""

    def __init__(self, source: ImportSource, growth: Growth | None = None) -> None:
        """Read the header.

        Args:
            source: The file.
            growth: The place to begin at; earlier records count as read.
        """
        self.source = source
        program = part_of(source.header.format, "read")
        self._every: bool = program is not None and program.RULES.active_by_all
        self.units = 0
        self.active_ms = _updated(source)
        self.look: Look | None = None
        """The look to store for the next reading; valid at the end."""
        self._growth = growth
        self._records = source.records(growth) if growth is not None and grows(source) else source.records()
        _, self.header_drafts = next(self._records)
        self.header = self.digest_of_header()
        self._digest = b""
        if growth is not None and growth.look is not None:
            self.units, self._digest = growth.look.units, growth.look.records
            self.active_ms = max(
                (time for time in (self.active_ms, growth.look.active_ms) if time is not None), default=None
            )
        self._damage: list[tuple[Entry | None, list[Draft]]] = []
        self._units = self._read()

    def digest_of_header(self) -> str:
        """Return a digest of the header, which changes when the header is rewritten."""
        return blake2b(_raw_of(self.header_drafts), digest_size=_DIGEST_BYTES).hexdigest()

    @property
    def leaf(self) -> str | None:
        """The program's current node; valid at the end."""
        return self.source.leaf

    @property
    def digest(self) -> str:
        """The digest of the records read so far."""
        return self._digest.hex()

    def begins_with(self, origin: Origin) -> bool:
        """Read as many records as the origin counts; tell whether they are the same."""
        for _ in range(origin.units - self.units):
            if next(self._units, None) is None:
                return False
        return self.digest == origin.digest

    @property
    def ended(self) -> bool:
        """Tell whether no record is left; this reads one record ahead."""
        return next(self._units, None) is None

    def parts(self, drafts_min: int) -> Iterator[list[Draft]]:
        """Yield the drafts of the remaining records, at least `drafts_min` at a time; `units` is updated."""
        part: list[Draft] = []
        for drafts in self._units:
            part += drafts
            if len(part) >= drafts_min:
                yield part
                part = []
        if part:
            yield part

    def tail(self) -> tuple[str, list[Draft]]:
        """Return the damage at the end, as notes with generated ids, and its digest; valid at the end."""
        if not self._damage:
            return "", []
        raw = b"".join(_raw_of(drafts) for _, drafts in self._damage)
        drafts = [msgspec.structs.replace(draft, id=None) for _, unit in self._damage for draft in unit]
        return blake2b(raw, digest_size=_DIGEST_BYTES).hexdigest(), drafts

    def _read(self) -> Iterator[list[Draft]]:
        for entry, drafts in self._records:
            self._look()
            if drafts and _may_go_on(drafts[0]):
                self._damage.append((entry, drafts))
                continue
            for unit in self._damage:
                yield self._count(*unit)
            self._damage.clear()
            yield self._count(entry, drafts)
        self._look()

    def _look(self) -> None:
        """Complete the new look with the counts of this reading; there is no look while damage is pending."""
        if self._growth is None or (taken := self._growth.taken) is None:
            return
        self._growth = None
        if not self._damage:
            known = {"units": self.units, "records": self._digest, "active_ms": self.active_ms}
            self.look = msgspec.structs.replace(taken, **known)

    def _count(self, entry: Entry | None, drafts: list[Draft]) -> list[Draft]:
        self.units += 1
        raw = _raw_of(drafts) if entry is None else entry.raw.rstrip()  # the line may end in a part of a line break
        names = repr([draft.id for draft in drafts]).encode()
        # most processors have instructions for SHA-256
        self._digest = sha256(b"%b %d %b%b" % (self._digest, len(raw), names, raw)).digest()[:_DIGEST_BYTES]
        if entry is not None and (time := _activity(drafts[-1], every=self._every)) is not None:
            self.active_ms = max(time, self.active_ms or time)
        return drafts


def _may_go_on(draft: Draft) -> bool:
    """Tell whether bytes without a record may be the beginning of one: they are torn, or their line has not ended."""
    is_torn = fields_of(draft.payload).get("kind") == "torn"
    return draft.kind == "damage" and (is_torn or (draft.source or {}).get(AFTER) == "")


def _raw_of(drafts: list[Draft]) -> bytes:
    """Return the identity of a record that is no entry: its bytes, and the ids of its drafts."""
    raw = [(draft.kind, draft.payload, _unframed(draft)) for draft in drafts]
    return values.encode([raw, *(draft.id for draft in drafts)]) + b"\n"


def _unframed(draft: Draft) -> dict[str, object] | None:
    """Return the source of a record without the bytes around its line, which change when a file grows."""
    return {name: value for name, value in (draft.source or {}).items() if name not in FRAMING} or None


def _activity(draft: Draft, *, every: bool) -> int | None:
    """Return the time of a message, or else of its entry, in milliseconds since 1970."""
    if every:
        return draft.time_ms
    if draft.kind != "message" or draft.role not in _SPEAKERS:
        return None
    payload = fields_of(draft.payload)
    time = payload.get("timestamp")
    if type(time) not in (int, float):
        return draft.time_ms
    number = float(time)  # type: ignore[arg-type]  # it is a number
    return int(number * 1000 if abs(number) < _SECONDS_MAX else number) if abs(number) < 1e15 else draft.time_ms


def _updated(source: ImportSource) -> int | None:
    """Return the time of the last change that a file states; None if it states none."""
    stamp = source.header.extra.get("updated_at")
    return rfc3339.read_time(stamp) or times.read_time(stamp)


def stat_of(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return size and time of a file; of a folder, the size of all files and the newest time; zeros if none exists."""
    try:
        folder = folder_at(path)
        if folder is not None:
            files = folder.files()
            return sum(file.size for file in files), max((file.modified_ns for file in files), default=0)
        facts = os.stat(path)
    except (OSError, NotFoundError):
        return 0, 0
    return facts.st_size, facts.st_mtime_ns
