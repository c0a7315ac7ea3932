"""The keys of all objects are built and parsed here, and nowhere else.

    treering.json                                                    the format of the store
    latest/<session>.jsonl.zst                                       register: card and newest checkpoint
    sessions/<session>/tail.jsonl  (or tail.jsonl.zst)               register: records not sealed yet
    sessions/<session>/hold                                          lock: the process that has it open (local disk)
    sessions/<session>/<life>/segments/<first>-<end>-<epoch>-<unique>.jsonl.zst
    sessions/<session>/<life>/blobs/<sha256>
    sessions/<session>/<life>/streams/<stream>-<number>.jsonl  (or .jsonl.zst)   pieces of an answer being written
    recent/<day>/~<time>.<session>=.<project>.<folder>.<unique>      marker: a session was active at that time
    recent.json                                                  each session has a marker
    parcels/<part>/.../<part>=.zst                                   bytes of other programs, under their own names
    ns/<namespace>/...                                               all of the above once more, for one tenant

Names that callers choose are encoded: lower-case letters, digits, `-`, `_` and inner `.` stand for themselves, every
other byte of their UTF-8 becomes `=` and two hex digits. So keys are ASCII, differ in more than case (APFS, NTFS), and
hold no `..` or NUL; and an encoded name holds no `/`: `org/42` becomes `org=2f42`.
"""

import re
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache
from typing import Final
from zlib import crc32

import msgspec

from treering._late import Kind
from treering.digests import sha256
from treering.errors import CorruptError, UsageError

FORMAT_FILE: Final = "treering.json"
LATEST: Final = "latest/"
SESSIONS: Final = "sessions/"
PARCELS: Final = "parcels/"
NAMESPACES: Final = "ns/"
RECENT: Final = "recent/"
COMPLETE_FILE: Final = "recent.json"
DAY_MS: Final = 86_400_000
NAME_CHARS_MAX: Final = 120
"""Longest encoded name. Disks allow 255 bytes in a file name, and suffixes of temporary files must fit as well."""


_SUFFIX: Final = ".jsonl.zst"
_LOG_SUFFIX: Final = ".jsonl"
_TAILS: Final = (f"tail{_LOG_SUFFIX}", f"tail{_SUFFIX}")
_HASHED: Final = "=h"  # no escape: `h` is no hex digit
_MARKER: Final = "=."  # no escape, either: so it ends the name of the session
_LAST_MS: Final = 100_000 * DAY_MS - 1  # since 1970, in the year 2243; times are counted down from there
_PARCEL_SUFFIX: Final = "=.zst"  # no encoded name ends like that, so a disk can hold both parcels `a` and `a/b`

_plain = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
# Windows takes these for devices, whatever follows their first dot.
_ports = {f"{port}{digit}" for port in ("com", "lpt") for digit in range(10)}
_reserved = frozenset({"con", "prn", "aux", "nul", *_ports})
# Patterns are kept as text, so that those which a resume does not need are not compiled at import.
_escape = r"=([0-9a-f]{2})"
_digest = r"[0-9a-f]{64}"
_hashed = f"{_HASHED}[0-9a-f]{{64}}"
_segment = r"([0-9]{12,})-([0-9]{12,})-([0-9]{6,})-([0-9a-z]+)\.jsonl\.zst"
_chunk = r"([0-9a-f]{32})-([0-9]{4,})\.jsonl(?:\.zst)?"
_marked = r"[0-9a-f]+" + 3 * r"x([0-9a-f]{8}|)"
_marker_time = r"([0-7][0-9]{7}|8[0-5][0-9]{6}|86[0-3][0-9]{5})\."  # less than `DAY_MS`
_marker_end = r"([0-9a-f]{4}|)\.([0-9a-f]{4}|)\.([0-9a-z]+)"
_marker = rf"([0-9]{{5}})/(?:~{_marker_time})?([-=0-9_a-z][-=0-9_a-z.]*)=\.{_marker_end}"
_marker_text = rf"([0-9]{{5}})/(?:{_marker_time})?{_marker_end}"


@lru_cache(maxsize=1024)  # every request of a session asks for the same few names
def encode_id(identifier: str) -> str:
    """Return the name that stands for a non-empty string in keys; different strings have different names.

    The name is ASCII, at most `NAME_CHARS_MAX` long, and can be a file name on every system. If the name would be
    longer, it is made of the string's SHA-256; only such names cannot be decoded.

    Raises:
        UsageError: The string is empty.
    """
    if not identifier:
        raise UsageError("id is empty; give a session or namespace at least one character")
    data = identifier.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _plain else f"={byte:02x}" for byte in data)
    if name[0] == "." or name.partition(".")[0] in _reserved:  # hidden files and devices
        name = f"={data[0]:02x}{name[1:]}"
    if name[-1] == ".":  # Windows drops it
        name = f"{name[:-1]}=2e"
    return name if len(name) <= NAME_CHARS_MAX else _HASHED + sha256(data)


def beginnings(begins: str) -> tuple[str, ...]:
    """Return the beginnings of the encoded names of all strings that begin with `begins`; other names may match."""
    data = begins.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _plain else f"={byte:02x}" for byte in data).rstrip(".")
    if not name:
        return ("",)
    first = () if name[0] == "=" else (f"={data[0]:02x}{name[1:]}",)  # of a hidden file or a device
    return (name, *first, _HASHED)


def decode_id(name: str) -> str | None:
    """Return the string that has this name in keys; None if it was hashed, or `encode_id` never returned the name."""
    try:
        data = re.sub(_escape, lambda match: chr(int(match[1], 16)), name).encode("latin-1")
        identifier = data.decode("utf-8", "surrogatepass")
    except UnicodeError:
        return None
    return identifier if identifier and encode_id(identifier) == name else None


def namespace_prefix(prefix: str, namespace: str) -> str:
    """Return the prefix of a namespace inside the one with `prefix` (`""` for the root)."""
    return f"{prefix}{NAMESPACES}{encode_id(namespace)}/"


def shown_namespace(name: str) -> str | None:
    """Return the namespace with this name in keys, or the hash of a long name as it is; None for foreign folders."""
    return name if re.fullmatch(_hashed, name) else decode_id(name)


def prefix_of(namespaces: Iterable[str]) -> str:
    """Return the prefix of nested namespaces, given as `namespaces_in` returns them.

    Only for callers that may see all namespaces: this accepts the hash of a long name, `namespace_prefix` only the
    name.
    """
    prefix = ""
    for name in namespaces:
        prefix = f"{prefix}{NAMESPACES}{name}/" if re.fullmatch(_hashed, name) else namespace_prefix(prefix, name)
    return prefix


def namespaces_in(prefix: str) -> tuple[str, ...]:
    """Return the nested namespaces of a prefix, outermost first; see `shown_namespace`."""
    return tuple([shown_namespace(name) or name for name in prefix.split("/")[1::2]])


def latest_key(prefix: str, session: str) -> str:
    """Return the key of `latest` of the session with this encoded name."""
    return f"{prefix}{LATEST}{session}{_SUFFIX}"


def session_of_latest(key: str, prefix: str = "") -> str | None:
    """Return the encoded name in a key below `latest/` of this namespace; None for files that are not ours."""
    start = prefix + LATEST
    if not key.startswith(start) or not key.endswith(_SUFFIX):
        return None
    name = key[len(start) : -len(_SUFFIX)]
    return name if name and "/" not in name else None


def is_latest(key: str, prefix: str) -> bool:
    """Return whether a session in this namespace, or in one below it, can have this key of `latest`."""
    home = key.rpartition(LATEST)[0]
    between = rf"(?:{NAMESPACES}[^/]+/)*"
    return re.fullmatch(re.escape(prefix) + between, home) is not None and session_of_latest(key, home) is not None


def session_of_tail(key: str, prefix: str = "") -> str | None:
    """Return the encoded name in the key of a tail of this namespace; None for everything else."""
    start = prefix + SESSIONS
    name, _, file = key[len(start) :].partition("/")
    return name if key.startswith(start) and name and file in _TAILS else None


def owner_of(key: str) -> str:
    """Return the owner that the key of an object names; empty if the key names no owner.

    The owner of a register is the encoded name of its session; of a segment, `<session>/<life>`, both encoded.
    """
    parts = key.split("/")
    while parts[0] == "ns" and len(parts) > 2:  # from the front: a session may have the name of a folder
        parts = parts[2:]
    match parts:
        case ["latest", file] if file.endswith(_SUFFIX):
            return file.removesuffix(_SUFFIX)
        case ["sessions", session, file] if file in _TAILS:
            return session
        case ["sessions", session, life, "segments", _]:
            return f"{session}/{life}"
    return ""


def require_owner(owner: str, *, key: str) -> None:
    """Refuse an object under the key of another session, or of another life of its session.

    Args:
        owner: The owner in the object's contents, which a checksum covers; see `owner_of`.
        key: The object's key; a key that names no owner is accepted.

    Raises:
        CorruptError: It belongs to another session.
    """
    expected = owner_of(key)
    if expected and owner != expected:
        raise CorruptError(
            f"the object is of another session, or of another life of it. expected={expected!r}, got={owner!r}",
            kind=Kind.OWNER,
            key=key,
            remedy="restore the object from a backup; to rename a session use `treering copy` instead of moving files",
        )


def parcel_folder(prefix: str, folder: str) -> str:
    """Return the key prefix of parcels whose names start with `folder`, which is empty or ends in `/`."""
    parts = folder.split("/")[:-1]
    return "".join([prefix, PARCELS, *(f"{encode_id(part)}/" for part in parts)])


def parcel_key(prefix: str, name: str) -> str:
    """Return the key of a parcel.

    Raises:
        UsageError: The name, or a part of it between slashes, is empty.
    """
    folder, slash, last = name.rpartition("/")
    return f"{parcel_folder(prefix, folder + slash)}{encode_id(last)}{_PARCEL_SUFFIX}"


def parcel_of(key: str, prefix: str) -> str | None:
    """Return the name of the parcel with this key; None for files that are not ours.

    The name is empty if a part of it was hashed because it was too long: then the name is only in the parcel itself.
    """
    start = prefix + PARCELS
    if not key.startswith(start) or not key.endswith(_PARCEL_SUFFIX):
        return None
    encoded = key[len(start) : -len(_PARCEL_SUFFIX)].split("/")
    parts = ["" if re.fullmatch(_hashed, part) else decode_id(part) for part in encoded]
    if None in parts or any(part and "/" in part for part in parts):
        return None
    return "/".join(part or "" for part in parts) if all(parts) else ""


class Marks(msgspec.Struct, frozen=True):
    """Checksums that differ between diverged copies of a session; each 8 hex digits, or empty if unknown."""

    first: str = ""
    """The mark of its first position, see `record.mark_of`."""
    end: str = ""
    """The mark of the position behind it."""
    erased: str = ""
    """See `erasure.erased_mark`, at its epoch."""


class SegmentName(msgspec.Struct, frozen=True, order=True):
    """The parts of a segment's key. Names are never used twice."""

    first: int
    """Position of its first record."""
    end: int
    """One past the position of its last record."""
    epoch: int
    """The epoch under which it was written; for a merged segment, the oldest epoch of its inputs."""
    unique: str
    """Random digits, so that two processes that seal the same records write two segments; then perhaps marks."""

    @classmethod
    def marked(cls, first: int, end: int, epoch: int, nonce: str, marks: Marks) -> "SegmentName":
        """Return a name that contains marks."""
        return cls(first, end, epoch, f"{nonce}x{marks.first}x{marks.end}x{marks.erased}")

    def at_epoch(self, epoch: int, erased: str) -> "SegmentName":
        """Return the name for the same records rewritten at a later epoch, whose erased mark is given."""
        if re.fullmatch(_marked, self.unique) is None:
            return msgspec.structs.replace(self, epoch=epoch)
        nonce, first, end, _ = self.unique.split("x")
        return self.marked(self.first, self.end, epoch, nonce, Marks(first, end, erased))

    @property
    def marks(self) -> Marks:
        """The marks in the name."""
        match = re.fullmatch(_marked, self.unique)
        return Marks(*match.groups()) if match else Marks()


def file_name(key: str) -> str:
    """Return the last part of a key."""
    return key.rpartition("/")[2]


def parse_segment(key: str) -> SegmentName | None:
    """Parse the key of a segment; None for files that are not segments."""
    file = file_name(key)
    if (match := re.fullmatch(_segment, file)) is None:
        return None
    name = SegmentName(int(match[1]), int(match[2]), int(match[3]), match[4])
    return name if name.first < name.end and file == _segment_file(name) else None


def _segment_file(name: SegmentName) -> str:
    return f"{name.first:012d}-{name.end:012d}-{name.epoch:06d}-{name.unique}{_SUFFIX}"


class ChunkName(msgspec.Struct, frozen=True):
    """The parts of a chunk's key: pieces of an answer that is being written."""

    stream: str
    """The id of the stream, made by Treering."""
    number: int


def parse_chunk(key: str) -> ChunkName | None:
    """Parse the key of a chunk; None for files that are not chunks."""
    match = re.fullmatch(_chunk, file_name(key))
    return ChunkName(match[1], int(match[2])) if match else None


class Marker(msgspec.Struct, frozen=True):
    """The parts of a marker's key without the session. Names are never used twice."""

    ms: int
    """When the session was active, in milliseconds since 1970 by the writer's clock."""
    project: str
    """See `hint_of`."""
    folder: str
    unique: str
    """Random."""
    timed: bool = True
    """The key has the time; keys of early versions only have the day, and `ms` is the end of that."""

    @classmethod
    def of(cls, ms: int, project: str, folder: str, unique: str) -> "Marker":
        """Return the marker of a moment, in milliseconds since 1970."""
        return cls(min(max(0, ms), _LAST_MS), hint_of(project), hint_of(folder), unique)

    @classmethod
    def parse(cls, text: str) -> "Marker | None":
        """Return the marker that a card stores as `text`; None for any other text."""
        match = re.fullmatch(_marker_text, text)
        return _marker_of(*match.groups()) if match else None

    @property
    def text(self) -> str:
        """The marker as a card stores it."""
        day, time = _names_of(self.ms)
        return f"{day}/{f'{time}.' if self.timed else ''}{self.project}.{self.folder}.{self.unique}"


@lru_cache(maxsize=64)  # a list asks for that of the same text for each marker
def hint_of(text: str) -> str:
    """Return 4 hex digits that differ for most other projects or folders; empty for empty text.

    These are too few digits to guess the text from them.
    """
    return f"{crc32(text.encode('utf-8', 'surrogatepass')) & 0xFFFF:04x}" if text else ""


def _names_of(ms: int) -> tuple[str, str]:
    """The day and the time of day as keys have them; both are counted down, so that the newest key is the first."""
    day, rest = divmod(_LAST_MS - ms, DAY_MS)
    return f"{day:05d}", f"{rest:08d}"


def _ms_of(day: str, time: str | None) -> int:
    """The time that `_names_of` named; without a time of day, the end of the day."""
    return _LAST_MS - int(day) * DAY_MS - int(time or 0)


def _marker_of(day: str, time: str | None, project: str, folder: str, unique: str) -> Marker:
    return Marker(_ms_of(day, time), project, folder, unique, time is not None)


def recent_folder(prefix: str) -> str:
    """Return the key prefix of the markers of a namespace."""
    return f"{prefix}{RECENT}"


def recent_until(prefix: str, ms: int) -> str:
    """Return the key behind which the keys of the markers of a moment begin, and then those of all before it."""
    day, time = _names_of(min(max(0, ms), _LAST_MS))
    # Markers without a time end the day, too, and come before those that have one.
    return f"{prefix}{RECENT}{day}/{f'~{time}' if int(time) else ''}"


def marker_key(prefix: str, session: str, text: str) -> str:
    """Return the key of a marker of the session with this encoded name; see `Marker.text`."""
    day, _, rest = text.partition("/")
    if rest.count(".") == 3:  # with a time; `~` comes after all that names of sessions begin with
        time, _, rest = rest.partition(".")
        session = f"~{time}.{session}"
    return f"{prefix}{RECENT}{day}/{session}{_MARKER}{rest}"


def recent_complete(prefix: str) -> str:
    """Return the key of the object which says that each session in a namespace, or below it, has a marker."""
    return f"{prefix}{COMPLETE_FILE}"


@cache
def _marker_pattern() -> re.Pattern[str]:
    """Compiled once, when the first list is read: `re.fullmatch` would look for it at each of a day's markers."""
    return re.compile(_marker)


def parse_marker(key: str, prefix: str) -> tuple[str, Marker] | None:
    """Return the encoded name of a session and its marker; None for files that are not markers of this namespace."""
    start = prefix + RECENT
    if not key.startswith(start) or (match := _marker_pattern().fullmatch(key, len(start))) is None:
        return None
    day, time, session, *rest = match.groups()
    return session, _marker_of(day, time, *rest)


class SessionKeys(msgspec.Struct, frozen=True, dict=True):
    """The keys of one session; keys that each call needs are computed once."""

    prefix: str
    """`""`, or what `namespace_prefix` returned."""
    session: str
    appends: bool
    """The store can append, so the tail is a plain log; otherwise it is a compressed register."""
    encoded: str = ""
    """The name in keys, where that is all that is known of a session with a long name; `session` is the same then."""

    @classmethod
    def named(cls, prefix: str, name: str, appends: bool) -> "SessionKeys | None":  # noqa: FBT001  # as in the fields
        """Return the keys of the session with this name in keys, also of a hashed one; None for foreign folders."""
        if re.fullmatch(_hashed, name):
            return cls(prefix, name, appends, name)
        session = decode_id(name)
        return cls(prefix, session, appends) if session is not None else None

    @cached_property
    def latest(self) -> str:
        name = self.encoded or encode_id(self.session)
        return f"{self.prefix}{LATEST}{name}{_SUFFIX}"  # inlined `latest_key`: saves resumes a call

    @cached_property
    def tail(self) -> str:
        return f"{self.home}{_TAILS[not self.appends]}"

    @property
    def hold(self) -> str:
        return f"{self.home}hold"

    def marker(self, text: str) -> str:
        """Return the key of a marker, given its `Marker.text` from a card."""
        return marker_key(self.prefix, self.encoded or encode_id(self.session), text)

    def folder(self, life: str) -> str:
        """Return the prefix of all objects that are deleted with this life of the session."""
        return f"{self.home}{encode_id(life)}/"  # rule: own-folder

    def segments(self, life: str) -> str:
        """Return the prefix of the segments."""
        return f"{self.folder(life)}segments/"

    def segment(self, life: str, name: SegmentName) -> str:
        """Return the key of one segment."""
        return self.segments(life) + _segment_file(name)

    def blobs(self, life: str) -> str:
        """Return the prefix of the blobs."""
        return f"{self.folder(life)}blobs/"

    def blob(self, life: str, sha256: str) -> str:
        """Return the key of the blob with this digest, 64 lower-case hex digits."""
        return self.blobs(life) + sha256

    def streams(self, life: str) -> str:
        """Return the prefix of the pieces of answers that are being written."""
        return f"{self.folder(life)}streams/"

    def chunk(self, life: str, name: ChunkName) -> str:
        """Return the key of one chunk of a stream."""
        suffix = _LOG_SUFFIX if self.appends else _SUFFIX
        return f"{self.streams(life)}{name.stream}-{name.number:04d}{suffix}"

    @cached_property
    def home(self) -> str:
        """Return the prefix of everything but `latest`."""
        return f"{self.prefix}{SESSIONS}{self.encoded or encode_id(self.session)}/"

    @property
    def places(self) -> tuple[str, str, str]:
        """Return the keys and prefix that cover all objects of the session: both registers, and `home`."""
        return self.latest, self.tail, self.home

    def owns(self, key: str, life: str) -> bool:
        """Return whether a key below `home` belongs to this life of the session."""
        if key in (self.tail, self.hold):
            return True
        if key.startswith(self.segments(life)):
            return parse_segment(key) is not None
        if key.startswith(self.streams(life)):
            return parse_chunk(key) is not None
        return key.startswith(self.blobs(life)) and re.fullmatch(_digest, key[len(self.blobs(life)) :]) is not None
