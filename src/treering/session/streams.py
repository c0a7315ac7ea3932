"""Answers that are being written (streams): their notes in the journal, their pieces, and the message that they become.

A stream has the id of the node that it becomes. A note of the kind `stream` begins it, or says that another writer
continues it. The node ends it, or a note of the kind `stream_end`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from treering.errors import UsageError
from treering.format.erasure import Erased
from treering.format.record import Skeleton, read_brief
from treering.format.stream import TEXT, THINKING, TOOL_CALL, PieceForm, pieces_behind
from treering.format.values import fields_of
from treering.kinds import Kind
from treering.transcript.node import Node

BEGIN, END = "stream", "stream_end"
"""Kinds of notes."""
STREAM_BYTES_MAX: Final = 8 * 1024 * 1024
"""Limit for one answer. A record holds 16 MiB."""
REASON_BYTES_MAX: Final = 200
CALLS_TOLD_MAX: Final = 24
"""Limit for calls whose lengths of streamed arguments are in the node's brief, which is small."""
STREAMS_MAX: Final = 1000
"""Limit for open streams of a session: `latest` lists them, so every resume reads them."""


class StreamStatus(StrEnum):
    """The status of a stream, as far as it is known."""

    WRITING = "writing"
    """Open; its writer is not known to be dead."""
    FAILED = "failed"
    """Open; its writer gave up, and recorded a reason."""
    LOST = "lost"
    """Open; its writer died, or another writer has the session."""
    COMPLETE = "complete"
    """Ended: the node has the whole answer."""
    STOPPED = "stopped"
    """Ended by the user: the node has the answer until then."""
    PARTIAL = "partial"
    """Ended by `keep_stream`, after its writer died or failed: the node has the answer until then."""
    DISCARDED = "discarded"
    """Ended without a node."""
    ERASED = "erased"
    """The payload of its node was erased."""


ENDED: Final = frozenset({StreamStatus.COMPLETE, StreamStatus.STOPPED, StreamStatus.PARTIAL})


class PieceKind(StrEnum):
    """The kind of part that a piece continues."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    END = "end"
    """The last piece, which continues no part and says how the stream ended."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an answer."""

    kind: PieceKind
    text: str = ""
    """Text to append: to the text, to the thinking, or to the arguments of the call, which are JSON."""
    part: int = 0
    """Index of the part of the answer that it continues; the texts of its pieces are joined."""
    offset: int
    """Where it begins: the number of characters before it, plus one for the beginning of each part.

    The beginning of a first part of text does not count. So in an answer of text alone, an offset is an index."""
    after: int
    """Where it ends: continue there with `follow_stream(id, offset=piece.after)`."""
    call: str = ""
    """Id of the tool call."""
    name: str = ""
    """Name of the tool."""
    signature: str = ""
    """The signature of the thinking; only the last piece of the part may have one."""
    whole: bool = False
    """Whether `text` has all arguments of the call and replaces the earlier pieces: the stream ended in between, and
    the arguments are now stored as one JSON value, whose text may differ."""
    status: StreamStatus | None = None
    """How the stream ended; only the last piece has it."""
    reason: str = ""
    """Why its writer gave up."""


class StreamNote(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that the journal has of an open stream."""

    note: str
    """The id of the note by which its writer began it or took it over."""
    by: str = ""
    """The writer's nonce."""
    at: str | None = None
    """The node that it answers; None: it begins the conversation."""
    role: str = ""
    head: str = ""
    time: int = 0
    failed: str | None = None


_note_decoder = msgspec.json.Decoder(StreamNote)


class OpenStream(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is not finished, as of one look."""

    id: str
    """The id of the stream, and of the node that it will become."""
    role: str
    head: str
    """The head that its writer stood on."""
    parent: str | None
    """The node that it answers; None: it begins the conversation."""
    time_ms: int
    """When its current writer began, in milliseconds since 1970."""
    status: StreamStatus
    """`WRITING`, `FAILED` or `LOST`."""
    reason: str = ""
    """Why its writer gave up."""
    pieces: tuple[Piece, ...] = ()
    """The stored pieces."""

    @property
    def offset(self) -> int:
        """The offset after all stored pieces."""
        return self.pieces[-1].after if self.pieces else 0

    def text(self, offset: int = 0) -> str:
        """Return the text after an offset, without thinking and calls."""
        forms = ((piece.offset, form_of(piece)) for piece in self.pieces if piece.kind == PieceKind.TEXT)
        left = (form.behind(offset - at) for at, form in forms)
        return "".join(form.text for form in left if form is not None)

    @property
    def message(self) -> dict[str, Any]:
        """The message that the stream would become if it ended now."""
        answer = Answer(self.role, {})
        answer.extend(map(form_of, self.pieces))
        return answer.message()


def fold_note(streams: Mapping[str, dict[str, Any]], row: Skeleton, by: str) -> dict[str, dict[str, Any]]:
    """Return the open streams after a note of a stream.

    Args:
        streams: The open streams before the note, by id.
        row: The note.
        by: The append that recorded the note.
    """
    brief = read_brief(row)
    name, known = brief.get("node"), dict(streams)
    if not isinstance(name, str):
        return known
    if row.kind == BEGIN:
        facts: dict[str, Any] = {"note": row.id, "by": by.partition(".")[0], "at": row.target, "time": row.time}
        facts |= {field: brief[field] for field in ("role", "head") if isinstance(brief.get(field), str)}
        known[name] = {field: value for field, value in facts.items() if value}
    elif brief.get("end") == StreamStatus.FAILED:
        if name in known:
            known[name] = known[name] | {"failed": str(brief.get("reason") or "")}
    else:
        known.pop(name, None)
    return known


def note_in(streams: Mapping[str, dict[str, Any]], stream: str) -> StreamNote | None:
    """Return the facts that the journal has of an open stream; None if it is not open."""
    return msgspec.convert(streams[stream], _note_decoder.type) if stream in streams else None


def piece_of(form: PieceForm, offset: int) -> Piece:
    """Return a piece as readers get it."""
    return Piece(
        kind=PieceKind(form.kind),
        text=form.text,
        part=form.part,
        offset=offset,
        after=offset + form.length,
        call=form.call,
        name=form.name,
        signature=form.signature,
    )


def form_of(piece: Piece) -> PieceForm:
    """Return the stored form of a piece; the pieces of the answer must have been read from the beginning."""
    begins = piece.after - piece.offset > len(piece.text) + bool(piece.signature)
    return PieceForm(
        part=piece.part,
        kind=piece.kind.value,
        text=piece.text,
        call=piece.call,
        name=piece.name,
        signature=piece.signature,
        begins=begins or piece.offset == 0,
    )


def pieces_from(forms: Iterable[PieceForm], at: int = 0, offset: int = 0) -> list[Piece]:
    """Return the pieces after an offset as readers get them; `at` is the offset of the first form."""
    return [piece_of(form, place) for place, form in pieces_behind(forms, at, offset)]


def end_piece(status: StreamStatus, offset: int, reason: str = "") -> Piece:
    """Return the last piece."""
    return Piece(kind=PieceKind.END, offset=offset, after=offset, status=status, reason=reason)


class _Part:
    """One part of an answer: text, thinking, or a call of a tool."""

    def __init__(self, first: PieceForm) -> None:
        self.kind, self.call, self.name = first.kind, first.call, first.name
        self.texts: list[str] = []
        self.signature = ""

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def block(self) -> dict[str, Any]:
        """The part as a block of a message."""
        if self.kind == TEXT:
            return {"type": "text", "text": self.text}
        if self.kind == THINKING:
            signed = {"signature": self.signature} if self.signature else {}
            return {"type": "thinking", "thinking": self.text, **signed}
        return {"type": "tool_use", "id": self.call, "name": self.name, "input": arguments_of(self.text)}


def arguments_of(text: str) -> object:
    """Return the arguments of a call as a JSON value; the text itself if it is not JSON, as in an answer cut off."""
    if not text.strip():
        return {}
    try:
        return json.loads(text)  # as the model wrote it: a `$` has no meaning in it
    except (ValueError, RecursionError):
        return text


class Answer:
    """An answer as far as it is written.

    Args:
        role: The role of the message.
        fields: Further fields of the message.
    """

    def __init__(self, role: str, fields: Mapping[str, object]) -> None:
        self.role = role
        self.fields = dict(fields)
        self.offset = 0
        self._parts: list[_Part] = []
        self._bytes = 0

    @property
    def text(self) -> str:
        """The text of all parts that are text."""
        return "".join(part.text for part in self._parts if part.kind == TEXT)

    def add(self, kind: str, text: str, *, call: str = "", name: str = "", signature: str = "") -> PieceForm | None:
        """Continue the last part, or begin a new one; return the new piece, None if it is empty.

        Raises:
            UsageError: The answer is too long, or the text has half a character.
        """
        _require_text(text, signature, call, name)
        last = self._parts[-1] if self._parts else None
        begins = last is None or last.kind != kind or last.call != call or (kind == THINKING and bool(last.signature))
        if kind != TOOL_CALL and not (text or signature):
            return None
        piece = PieceForm(
            part=len(self._parts) - (not begins),
            kind=kind,
            text=text,
            call=call,
            name=name if begins or last is None else last.name,
            signature=signature,
            begins=begins,
        )
        if not piece.length and not begins:
            return None
        self._bytes += len(text.encode())
        if self._bytes > STREAM_BYTES_MAX:
            raise UsageError(f"the answer is too long. max_bytes={STREAM_BYTES_MAX}", kind=Kind.STREAM)
        self.extend([piece])
        return piece

    def extend(self, pieces: Iterable[PieceForm]) -> None:
        """Add pieces."""
        for piece in pieces:
            if piece.begins or not self._parts:
                self._parts.append(_Part(piece))
            self._parts[-1].texts.append(piece.text)
            self._parts[-1].signature = piece.signature or self._parts[-1].signature
            self.offset += piece.length

    def message(self, /, **fields: object) -> dict[str, Any]:
        """Return the message; its content is text if there are no other parts."""
        plain = all(part.kind == TEXT for part in self._parts)
        content = self.text if plain else [part.block for part in self._parts]
        return {"role": self.role, "content": content, **self.fields, **fields}

    @property
    def call_lengths(self) -> list[int]:
        """The lengths of the streamed arguments of the first calls; empty if the message's arguments are as long."""
        calls = [part.text for part in self._parts if part.kind == TOOL_CALL]
        lengths = [len(text) for text in calls[:CALLS_TOLD_MAX]]
        return lengths if lengths != [len(written(arguments_of(text))) for text in calls[:CALLS_TOLD_MAX]] else []


def _require_text(*texts: str) -> None:
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"a piece has half a character. {error}", kind=Kind.STREAM, remedy="join such pieces before you write them"
        ) from error


def written(arguments: object) -> str:
    """Return the arguments of a call as text."""
    if isinstance(arguments, str):
        return arguments
    # What no model wrote, in a message that was not streamed, is shown as text. Half a character is escaped.
    text = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False, default=str)
    text = text.encode(errors="backslashreplace").decode()
    return "" if arguments == {} else text


def pieces_of_node(node: Node, offset: int) -> list[Piece]:
    """Return the pieces after an offset of an answer that has ended.

    Args:
        node: The node that the stream became, with its payload.
        offset: Where to begin.
    """
    if isinstance(node.payload, Erased):
        return []
    content = fields_of(node.payload).get("content")
    blocks: Sequence[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    told = node.brief.get("calls")
    lengths = list(told) if isinstance(told, list) else []
    pieces: list[Piece] = []
    at = 0
    for part, block in enumerate(map(fields_of, blocks)):
        form = _form_of_block(part, block)
        length = int(lengths.pop(0)) if form.kind == TOOL_CALL and lengths else len(form.text)
        end = at + form.leads + length + bool(form.signature)
        exact = length == len(form.text)
        if exact or offset <= at:
            pieces += pieces_from([form], at, offset)
        elif offset < end:
            pieces.append(msgspec.structs.replace(piece_of(form, offset), whole=True, after=end))
        if not exact and pieces and pieces[-1].part == part:
            pieces[-1] = msgspec.structs.replace(pieces[-1], after=end)
        at = end
    return pieces


def _form_of_block(part: int, block: Mapping[Any, Any]) -> PieceForm:
    kind = block.get("type")
    if kind == "tool_use":
        call, name = str(block.get("id") or ""), str(block.get("name") or "")
        text = written(block.get("input"))
        return PieceForm(part=part, kind=TOOL_CALL, text=text, call=call, name=name, begins=True)
    if kind == "thinking":
        signature = str(block.get("signature") or "")
        return PieceForm(
            part=part, kind=THINKING, text=str(block.get("thinking") or ""), signature=signature, begins=True
        )
    return PieceForm(part=part, text=str(block.get("text") or ""), begins=True)


def status_of_node(node: Node) -> StreamStatus:
    """Return how a stream ended, by its node."""
    if node.erased:
        return StreamStatus.ERASED
    told = node.brief.get("stream")
    return next((status for status in ENDED if status == told), StreamStatus.COMPLETE)
