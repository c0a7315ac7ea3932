"""The two registers of a session: `tail`, the records not sealed yet, and `latest`, from which a session resumes.

Both begin with a line that states the format version, which is checked first.

Tail: header line, then record lines. Compressed it is a single frame and a check frame. A plain log may end torn: a
power cut can leave the beginning of an append, or a hole of NULs where a block was not written. Such an append was
never acknowledged. So:

Rule 1: only whole appends count. The complete part ends after the last valid record without `more`.
Rule 2: the bytes after it count as torn, and are left out, only if a power cut explains them: they are cut off inside a
        line, hold a hole, or end before their append does; and all their records belong to one append. A disk writes
        its sectors in any order, so the beginning of the append may be missing; its other records contain the position
        of the first one.
Rule 3: anything else is damage to acknowledged records: CorruptError, with the offset.

Latest: a frame with only the card, small enough to be read for a list of sessions; then a frame with the body, if there
is one; then a check frame.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from treering._late import Kind
from treering.errors import CorruptError, UsageError
from treering.format.erasure import Burials, Erasure, burials, encode_erasures, erased_mark, with_unknown
from treering.format.frames import add_check, check_size, compress, decompress_frame, first_frame, remove_check, walk
from treering.format.line import (
    check_line,
    check_version,
    close_line,
    decode_object,
    encode_object,
    first_line,
    is_whole,
    split_lines,
)
from treering.format.paths import encode_id, require_owner
from treering.format.pieces import UNKNOWN, Unknown, fields_in, unknown_in, with_fields
from treering.format.record import decode_checked, decode_record, mark_behind

REGISTER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Most content of a register: a few of the longest records. Registers are read whole, into memory."""
RESERVE_BYTES: Final = REGISTER_BYTES_MAX // 8
"""Part of that which is reserved for erasures: their list, and tombstones longer than the erased payloads."""
CARD_BYTES_MAX: Final = 8192
"""Most bytes of the compressed card. A listing reads this much of each session; an id of 2,000 characters fits."""
SEGMENTS_NAMED_MAX: Final = 24
"""Enough for sixteen seals between two merges, and a few merged segments before them. A name takes 25 bytes."""
TOMBSTONE_BYTES_MAX: Final = 240
"""Most bytes of a tombstone of `latest` without the name of its session; it has only a few short fields."""
FIRST_PROMPT_BYTES_MAX: Final = 200
ROOM_BYTES: Final = REGISTER_BYTES_MAX - RESERVE_BYTES
"""Most bytes of the records in a tail, and of the body of `latest`."""

_CARD_RATIO_MAX: Final = 8
"""A card may have this many times `CARD_BYTES_MAX` before compression."""

_LINE_FEED: Final = 0x0A  # found several times as fast as `b"\n"`
_HOLE_BYTES_MIN: Final = 8  # holes inside an append are whole disk sectors; a single NUL is a flipped bit


class Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker's exclusive use of a session; see `treering.journal.lease`. A later version adds no fields here."""

    number: int = 0
    """How often the lease of this life was taken; it only rises."""
    by: str = ""
    """The nonce of the writer that has the lease, with which its `Record.by` begins; empty if no writer has it."""
    holder: str = ""
    """One line that describes that process, for people."""
    ttl: int = 0
    """Milliseconds without a sign of life after which another worker may take it."""
    renewed: int = 0
    """How often its holder renewed it without an append."""


class TailHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tail"):
    """First line of the tail."""

    session: str
    life: str
    """Names one life of the session, from its creation to its deletion."""
    base: int
    """Position of the first record in the tail."""
    epoch: int = 0
    """How often something was erased."""
    erased: tuple[tuple[int, int], ...] = ()
    """(position, epoch in which it was erased)."""
    dead: bool = False
    """The session was deleted; this is its tombstone."""
    nonce: str
    """Random: no two headers are equal."""
    erasures: tuple[Erasure, ...] | UnsetType = UNSET
    """The acts of erasing in the session, in order; left out if there are none."""
    before: tuple[int, str] | UnsetType = UNSET
    """(`base`, its mark). Ignored if it names another position, since then an older version rewrote the tail."""
    lease: Lease | UnsetType = UNSET
    """The lease of the worker with exclusive use of the session; left out if no worker ever took one."""
    unknown: Unknown | UnsetType = msgspec.field(default=UNSET, name=UNKNOWN)
    """Fields of a later version; kept when the tail is rewritten."""

    def erased_mark(self, epoch: int) -> str:
        """Return the erased mark of an epoch, see `format.erasure.erased_mark`; empty if nothing was erased."""
        return erased_mark(self.erased, self.erasures or (), epoch)

    @property
    def burials(self) -> Burials:
        """Which records were erased."""
        return burials(self.erased, () if isinstance(self.erasures, UnsetType) else self.erasures)


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the tail."""

    header: TailHeader
    lines: Sequence[bytes] = ()
    """Record lines, line breaks included."""
    complete: int = 0
    """Bytes of the object, as read, up to the end of the last whole append. Set by `decode_tail`."""

    @property
    def end(self) -> int:
        """Position of the next record."""
        return self.header.base + len(self.lines)

    def mark_at(self, position: int) -> str:
        """Return the mark of a position; empty if the tail does not contain it."""
        base, before = self.header.base, self.header.before
        if base < position <= self.end:
            return mark_behind(self.lines[position - base - 1])
        return before[1] if before and before[0] == position == base else ""


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="card"):
    """The facts that a list of sessions shows, and the positions that `latest` covers; small."""

    session: str
    life: str
    write: str
    """Random id of this write of `latest`."""
    epoch: int = 0
    covers: int = 0
    """The checkpoint accounts for the records below this position."""
    sealed: int = 0
    """The records below this position are in segments."""
    mark: str = ""
    """The mark of the position `covers`; empty if an older version wrote the card."""
    born: int = 0
    """How many records were loaded into segments before the life had a tail."""
    segments: tuple[str, ...] = ()
    """File names of the segments that held the records below `sealed` when the card was written, at most
    `SEGMENTS_NAMED_MAX`. Empty if they are not known or too many. They may have been merged since."""
    dead: bool = False
    lines: int = 0
    """Lines in the body."""
    title: str = ""
    project: str = ""
    cwd: str = ""
    created: int = 0
    """Milliseconds since 1970."""
    updated: int = 0
    """Milliseconds since 1970; may lag behind the tail."""
    nodes: int = 0
    messages: int = 0
    checkpoints: int = 0
    first_prompt: str = ""
    """At most `FIRST_PROMPT_BYTES_MAX` bytes; see `one_line`."""
    head: str = ""
    """Name of the current head."""
    node: str | None = None
    """The node that the current head points to."""
    provider: str = ""
    model: str = ""
    parent_session: str | None = None
    parent_node: str | None = None
    task: str = ""
    status: str = ""
    max_id: str = ""
    """Greatest of our ids in the session; new ids are made greater."""
    marker: str = ""
    """The session's marker for lists, see `paths.Marker.text`; empty if an older version wrote the card."""
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    """Further facts, kept by writers that do not know them."""
    erased: tuple[tuple[int, int], ...] = ()
    """(position, epoch). Not limited in number, so it is stored in the body, and `decode_card` leaves it empty."""
    erasures: tuple[Erasure, ...] = ()
    """As in the tail; stored with `erased`."""


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `latest`."""

    card: Card
    lines: tuple[bytes, ...] = ()
    """The state line, opaque here, then record lines."""


class _Erased(msgspec.Struct, frozen=True, tag_field="type", tag="erased"):
    erased: tuple[tuple[int, int], ...]
    erasures: tuple[Erasure, ...] | UnsetType = UNSET


_header_decoder = msgspec.json.Decoder(TailHeader)
_card_decoder = msgspec.json.Decoder(Card)
_erased_decoder = msgspec.json.Decoder(_Erased)
_piece = rb"\0+|[^\0\n]*\n|[^\0\n]+"  # a hole, a line, or the rest of one
_append_of = rb'\{"at":[0-9]+,"by":"([^"\\\0]+)"'


L = TypeVar("L", TailHeader, _Erased)


def _encode_with_acts(line: L) -> bytes:
    """Return a line as JSON; its acts of erasing keep fields of later versions."""
    encoded = encode_object(replace(line, erasures=UNSET))
    if isinstance(line.erasures, UnsetType):
        return encoded
    return with_fields(encoded, (("erasures", encode_erasures(line.erasures)),))


def _decode_with_acts(data: bytes, decoder: msgspec.json.Decoder[L], *, key: str) -> L:
    """Decode what `_encode_with_acts` returned."""
    line = decode_object(data, decoder, key=key)
    if isinstance(line.erasures, UnsetType):
        return line
    return replace(line, erasures=with_unknown(line.erasures, fields_in(data)["erasures"]))


def _encode_header(header: TailHeader) -> bytes:
    return first_line(with_fields(_encode_with_acts(replace(header, unknown=UNSET)), header.unknown or ()))


def header_bytes(header: TailHeader) -> int:
    """Bytes of a tail's header; most of them list erasures, which `latest` lists as well."""
    return len(_encode_header(header))


def _decode_header(data: bytes, *, key: str) -> TailHeader:
    header = _decode_with_acts(data, _header_decoder, key=key)
    return replace(header, unknown=unknown_in(data, TailHeader, "treering", "type", "_c") or UNSET)


def encode_tail(tail: Tail, *, compressed: bool) -> bytes:
    """Return the bytes of a tail.

    Raises:
        UsageError: The tail is larger than a reader accepts.
    """
    data = _encode_header(tail.header) + b"".join(tail.lines)
    _check_writable(len(data), "tail")
    return add_check(compress(data)) if compressed else data


def _check_writable(size: int, name: str) -> None:
    if size > REGISTER_BYTES_MAX:
        raise UsageError(f"{name} is too large. bytes={size}, max={REGISTER_BYTES_MAX}", kind=Kind.TOO_LARGE)


def decode_tail(data: bytes, *, key: str, compressed: bool) -> Tail:
    """Decode a tail.

    Args:
        data: The whole object.
        key: For messages.
        compressed: The object is a frame. Otherwise it is a log, whose torn end is left out.

    Raises:
        CorruptError: Damage. Offsets of a compressed tail count in its content.
        FormatVersionError: Written by a newer version.
    """
    content = first_frame(data, key=key, bytes_max=REGISTER_BYTES_MAX) if compressed else data
    first_end = content.find(b"\n") + 1
    if not first_end:
        raise CorruptError("tail has no header line", kind=Kind.TRUNCATED, key=key, offset=0)
    check_version(content[:first_end], key=key)
    if compressed and len(walk(remove_check(data, key=key), key=key)) != 1:
        raise CorruptError("tail is not a single frame", kind=Kind.FRAME, key=key, offset=0)
    header = _decode_header(content[:first_end], key=key)
    _require_session(header.session, key=key)
    lines, complete = _whole_appends(content, first_end, header.base, key)
    if complete < len(content):
        if compressed:
            raise CorruptError("append ends before its last record", kind=Kind.APPEND, key=key, offset=complete)
        _check_torn(content, complete, header.base + len(lines), key)
    return Tail(header=header, lines=tuple(lines), complete=len(data) if compressed else complete)


def _whole_appends(content: bytes, start: int, base: int, key: str) -> tuple[list[bytes], int]:
    """Return the lines of all whole appends from `start` on, up to the first line that is not whole, and their end.

    Raises:
        CorruptError: A valid line has the wrong position, or the records of two appends are mixed.
    """
    lines: list[bytes] = []
    count, complete, open_append = 0, start, ""
    while (end := content.find(_LINE_FEED, start) + 1) and is_whole(line := content[start:end]):
        record = decode_checked(line, key=key, offset=start)
        if record.at != base + len(lines):
            message = f"record is at the wrong position. expected={base + len(lines)}, got={record.at}"
            raise CorruptError(message, kind=Kind.POSITION, key=key, offset=start)
        if open_append and record.by != open_append:
            raise CorruptError("append ends before its last record", kind=Kind.APPEND, key=key, offset=complete)
        lines.append(line)
        open_append = record.by if record.more else ""
        start = end
        if not record.more:
            count, complete = len(lines), end
    return lines[:count], complete


def _check_torn(content: bytes, start: int, first: int, key: str) -> None:
    """Raise CorruptError unless a power cut during one append explains everything from `start` on (rule 2).

    Args:
        content: The log.
        start: Where its complete part ends.
        first: Position of the next record there.
        key: For messages.
    """
    append, damaged = "", False
    pieces = [match[0] for match in re.compile(_piece).finditer(content, start)]
    for index, piece in enumerate(pieces):
        if is_whole(piece):
            by = decode_record(piece, key=key, offset=start).by
        else:
            # Not verified, but it only decides to which append the damage is attributed.
            by = match[1].decode("utf-8", "replace") if (match := re.match(_append_of, piece)) else append
        of_one_append = by == append or (not append and (not damaged or _begins_at(by, first)))
        if not of_one_append or not (is_whole(piece) or _is_torn(pieces, index)):
            raise CorruptError("line is damaged: its checksum differs", kind=Kind.CHECKSUM, key=key, offset=start)
        append, damaged = by, damaged or not is_whole(piece)


def _begins_at(by: str, first: int) -> bool:
    """Return whether an append says that its first record is at position `first`.

    If so, a hole in front of its lines belongs to it, since nothing else was ever between it and the complete part.
    """
    return by.count(".") == 2 and by.endswith(f".{first}")  # writer, number, position


def _is_torn(pieces: Sequence[bytes], index: int) -> bool:
    """Return whether a power cut can leave this piece behind the complete part.

    A power cut can leave a hole, a piece beside a hole, or a last line that is cut off. A single NUL inside a line, or
    a whole line whose last byte is not a line break, is a flipped bit.
    """
    piece, is_last = pieces[index], index == len(pieces) - 1
    if _is_hole(piece):
        return len(piece) >= _HOLE_BYTES_MIN or index == 0 or is_last
    if is_last and not piece.endswith(b"\n"):
        return not is_whole(piece[:-1] + b"\n")
    begins_in_hole = index > 0 and _is_hole(pieces[index - 1])
    return begins_in_hole or not (is_last or piece.endswith(b"\n"))


def _is_hole(piece: bytes) -> bool:
    return piece.startswith(b"\0")


def encode_latest(card: Card, lines: Sequence[bytes]) -> bytes:
    """Return the bytes of `latest`.

    Args:
        card: Its `lines` is set here.
        lines: Any JSON lines, line breaks included.

    Raises:
        UsageError: The card or the body is larger than a reader accepts.
    """
    if any(not line or line.find(b"\n") != len(line) - 1 for line in lines):
        raise UsageError("each line must end in a line break and hold no other")
    content = _card_line(replace(card, lines=len(lines)))
    front = compress(content)
    if (size := _card_size(front, content)) > CARD_BYTES_MAX:
        message = f"card is too large. bytes={size}, max={CARD_BYTES_MAX}, longest={longest_of(card)!r}"
        raise UsageError(message, kind=Kind.CARD_TOO_LARGE)
    erasures = _Erased(card.erased, card.erasures or UNSET)
    erased = (close_line(_encode_with_acts(erasures)),) if card.erased else ()
    body = b"".join((*erased, *lines))
    _check_writable(len(body), "latest")
    return add_check(front + (compress(body) if body else b""))


def _card_line(card: Card) -> bytes:
    return first_line(replace(card, erased=(), erasures=()))


def card_size(card: Card) -> int:
    """Bytes of a card as stored or, if that is more, an eighth of its bytes before compression.

    Readers limit both: text that compresses well must not become a card which no list reads.
    """
    content = _card_line(card)
    return _card_size(compress(content), content)


def _card_size(stored: bytes, content: bytes) -> int:
    return max(len(stored), -(-len(content) // _CARD_RATIO_MAX))


def require_types(card: Card) -> None:
    """Refuse a card with a field that no reader would accept: callers are not always type-checked.

    Raises:
        UsageError: A field has a wrong type.
    """
    try:
        decode_object(_card_line(card), _card_decoder, key="")
    except CorruptError as error:
        raise UsageError(
            f"a fact of the session has a wrong type: {error.__cause__ or error}", kind=Kind.VALUE
        ) from error


def may_be_tombstone(size: int, session: str) -> bool:
    """Whether a `latest` of `size` bytes may be the tombstone of a session; a larger one never is."""
    try:
        return size <= TOMBSTONE_BYTES_MAX + len(msgspec.json.encode(session))
    except UnicodeEncodeError:  # no session has such a name
        return True


def longest_of(card: Card) -> str:
    """The name of the longest field of a card."""
    sizes = {name: len(str(value)) for name, value in asdict(card).items() if name not in ("erased", "erasures")}
    return max(sizes, key=sizes.__getitem__)


def decode_card(prefix: bytes, *, key: str) -> Card:
    """Return the card from the first `CARD_BYTES_MAX` bytes of `latest`, or from all of it. `erased` stays empty.

    Raises:
        CorruptError: Damage.
        FormatVersionError: Written by a newer version.
    """
    line = first_frame(prefix, key=key, bytes_max=_CARD_RATIO_MAX * CARD_BYTES_MAX)
    check_version(line, key=key)
    card = decode_object(line, _card_decoder, key=key)
    _require_session(card.session, key=key)
    return card


def _require_session(session: str, *, key: str) -> None:
    """Refuse a register that lies under the key of another session."""
    require_owner(encode_id(session) if session else "", key=key)


def decode_latest(data: bytes, *, key: str) -> Latest:
    """Decode `latest`.

    Raises:
        CorruptError: Damage. Offsets count in the object, or in the content of its frame.
        FormatVersionError: Written by a newer version.
    """
    card = decode_card(data, key=key)
    frames = walk(remove_check(data, key=key), key=key)[1:]
    check_size(sum(frame.content_size or 0 for frame in frames), REGISTER_BYTES_MAX, key=key, offset=0)
    body = b"".join(decompress_frame(data, frame, key=key) for frame in frames)
    lines = tuple(split_lines(body))
    if len(lines) == card.lines + 1:
        check_line(lines[0], key=key)
        found = _decode_with_acts(lines[0], _erased_decoder, key=key)
        erasures = () if isinstance(found.erasures, UnsetType) else found.erasures
        card, lines = replace(card, erased=found.erased, erasures=erasures), lines[1:]
    if len(lines) != card.lines or not (b"\n" + body).endswith(b"\n"):
        raise CorruptError(f"body has lines missing or added. expected={card.lines}, got={len(lines)}", key=key)
    return Latest(card=card, lines=lines)


def one_line(text: str, bytes_max: int = FIRST_PROMPT_BYTES_MAX) -> str:
    """Return the beginning of `text` as one line of at most `bytes_max` bytes of UTF-8, cut between characters."""
    line = " ".join(text.lstrip()[: 2 * bytes_max].split())
    return line.encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore").rstrip()
