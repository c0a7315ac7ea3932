"""Streams, which are answers that are being written: begin, end, continue, keep, discard, list and follow them.

The rules are in `treering.journal.stream`. A session adds the notes and the node in the journal. They are planned on
the newest records, so that only one of two writers that end or take over a stream succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from treering.errors import NotFoundError, StreamLostError, TreeringError, UsageError
from treering.format.register import one_line
from treering.format.stream import Chunk, PieceForm
from treering.format.values import decode, encode, fields_of
from treering.ids import new_nonce
from treering.journal.stream import Tape, drop_chunks, lost, read_stream
from treering.kinds import Kind
from treering.session.reader import Readable, Reader
from treering.session.record import Appended, Rider, flush, head_of, record
from treering.session.recording import require_text
from treering.session.stream_follower import StreamFollower, is_over
from treering.session.streams import (
    BEGIN,
    END,
    REASON_BYTES_MAX,
    STREAMS_MAX,
    Answer,
    OpenStream,
    Piece,
    PieceKind,
    StreamNote,
    StreamStatus,
    note_in,
    pieces_from,
)
from treering.session.writer import Writer
from treering.storage.effects import Items, Pause, Stream
from treering.storage.requests import Steps
from treering.transcript.node import Draft


class Live(msgspec.Struct, frozen=True):
    """A stream that this handle writes."""

    id: str
    parent: str | None
    """The node that it answers."""
    note: str
    """The id of the note by which this writer began the stream, or took it over."""
    tape: Tape
    answer: Answer


def begin(writer: Writer, role: str = "assistant", /, **fields: object) -> Steps[Live]:
    """Record that an answer begins here, and begin to store its pieces: one append, and one write.

    Args:
        writer: The session.
        role: The role of the message.
        fields: Further fields of the message.

    Raises:
        UsageError: The store redacts texts, or too many streams are open; the role is no text, or a field cannot be
            stored exactly. Further errors are those of `append`.
    """
    _refuse_redaction(writer)
    require_text("role", role)
    given = fields_of(decode(encode(fields)))  # a copy: the caller may change its objects before the answer ends
    yield from flush(writer)
    new, parent = writer.replica.state.clock.new(), writer.position.node

    brief = {"node": new, "role": role, "head": writer.head}
    note = yield from _note(writer, BEGIN, brief, parent, Rider(partial(require_room, writer)))  # rule: note-first
    tape = _tape(writer, new, note)
    yield from tape.begin()
    return Live(new, parent, note, tape, Answer(role, given))


def end(
    writer: Writer, live: Live, status: StreamStatus = StreamStatus.COMPLETE, /, **fields: object
) -> Steps[Appended]:
    """Record the answer as a node, and delete its pieces: one append, and one DELETE.

    Args:
        writer: The session.
        live: The stream.
        status: How it ended.
        fields: Further fields of the message.

    Raises:
        StreamLostError: Another writer took it over or ended it; nothing was recorded. Further errors are those of
            `append`; call again then.
    """
    message = live.answer.message(**fields)
    brief: dict[str, object] = {} if status == StreamStatus.COMPLETE else {"stream": status.value}
    if lengths := live.answer.call_lengths:
        brief["calls"] = lengths
    draft = Draft(role=live.answer.role, payload=message, id=live.id, parent=live.parent, brief=brief or None)
    if writer.options.hooks.before_append is not None:
        draft = writer.options.hooks.stored(draft)
    owns = Rider(partial(_require_own, writer, live))
    try:
        done = yield from record(writer, [draft], new_ids=True, rider=owns)  # rule: node-first
    except UsageError as error:
        # A buffered draft may have an id that is taken; and with other fields, this end is not the recorded one.
        if error.kind != Kind.DUPLICATE_ID or live.id not in str(error) or live.id in writer.appender.found:
            raise
        raise lost(live.id, "another writer ended it") from error
    yield from drop_chunks(live.tape.chunks())
    return done


def fail(writer: Writer, live: Live, reason: str) -> Steps[None]:
    """Store the last pieces, and record that the writer gave up. The stream stays open. Errors as for `end`.

    Pieces that the store did not take are in `live.tape.unsaved` afterwards.
    """
    reason = one_line(reason, REASON_BYTES_MAX)
    try:
        yield from live.tape.write(failed=reason)
    except StreamLostError:
        raise
    except TreeringError:
        pass  # the note below says it if the store answers; else readers notice that the writer gives no sign of life
    brief = {"node": live.id, "end": StreamStatus.FAILED.value, "reason": reason}
    yield from _note(writer, END, brief, live.parent, Rider(partial(_require_own, writer, live)))


def take_over(writer: Writer, stream: str) -> Steps[Live]:
    """Continue an open stream at its end: one append, one GET for each chunk, one write.

    Args:
        writer: The session.
        stream: Its id.

    Raises:
        NotFoundError: No stream with this id is open. Further errors are those of `append`.
    """
    _refuse_redaction(writer)
    return (yield from _take(writer, stream))


def keep_stream(writer: Writer, stream: str, *, rider: Rider | None = None) -> Steps[Appended]:
    """Record the stored part of an open stream as a node, whose brief says `stream: partial`: take it over, and end it.

    If its writer is still alive, it gets a `StreamLostError`.

    Args:
        writer: The session.
        stream: Its id.
        rider: What the caller adds to the append, if there will be no node.

    Returns:
        What was recorded; no nodes if nothing was stored of the stream: then it is discarded.

    Raises:
        NotFoundError: No stream with this id is open.
        StreamLostError: Another writer continued or ended the stream at the same time. Further errors are those of
            `append`; call again then.
    """
    yield from flush(writer)
    if stream in writer.appender.found:  # an earlier call had no answer
        yield from writer.upkeep.sweep_streams()
        return Appended(nodes=(stream,), head=(yield from head_of(writer, stream)))
    # Take the stream over first: a writer that took it over before, and has not written yet, is refused from then on.
    # Otherwise it could still store pieces that are in no node.
    live = yield from _take(writer, stream)
    if live.answer.offset == 0:
        yield from _discard(writer, stream, live.parent, partial(_require_own, writer, live), rider)
        return Appended(nodes=(), head=writer.head)
    return (yield from end(writer, live, StreamStatus.PARTIAL))


def discard_stream(writer: Writer, stream: str, *, rider: Rider | None = None) -> Steps[None]:
    """End an open stream without a node, and delete its pieces.

    Args:
        writer: The session.
        stream: Its id.
        rider: What the caller adds to the append.

    Raises:
        NotFoundError: No stream with this id is open. Further errors are those of `append`.
    """
    yield from flush(writer)
    there = yield from _require_open(writer, stream)
    yield from _discard(writer, stream, there.at, partial(_require_still_open, writer, stream), rider)


def _discard(
    writer: Writer, stream: str, parent: str | None, allowed: Callable[[], Steps[None]], rider: Rider | None
) -> Steps[None]:
    brief = {"node": stream, "end": StreamStatus.DISCARDED.value}
    yield from _note(writer, END, brief, parent, Rider(allowed) if rider is None else rider.also(allowed))
    yield from writer.upkeep.sweep_streams()


def newest(reader: Readable) -> Steps[Reader]:
    """Read the session as it is now, into a new reader, so that the caller's view stays as it is: two GETs.

    Raises:
        NotFoundError: There is no such session, or it was deleted.
    """
    found = Reader(reader.keys, reader.replica.asked_policy, reader.replica.memory)
    yield from found.replica.load()
    found.replica.view.require_same_life(reader.replica.view.life)
    return found


def open_streams(reader: Readable, *ids: str) -> Steps[tuple[OpenStream, ...]]:
    """Answers that were begun and have not ended, with their stored pieces; no request if there are none.

    The list is as of the last read; their pieces are read now, one GET for each 64 KiB.

    Args:
        reader: The session.
        ids: Only these; by default all.
    """
    found = []
    for name in reader.replica.state.streams:
        if ids and name not in ids:
            continue
        note = note_in(reader.replica.state.streams, name)
        chunks = yield from read_stream(reader.keys, reader.replica.view.life, name)
        if note is not None:
            found.append(_open_stream(reader, name, note, chunks))
    return tuple(found)


def _open_stream(reader: Readable, name: str, note: StreamNote, chunks: list[Chunk]) -> OpenStream:
    forms = [piece for chunk in chunks for write in chunk.writes for piece in write.pieces]
    last = chunks[-1].writes[-1] if chunks and chunks[-1].writes else None
    reason = note.failed if note.failed is not None else last.failed if last is not None else None
    status = StreamStatus.WRITING
    if reason is not None:
        status = StreamStatus.FAILED
    elif _is_orphan(reader, note) or is_over(reader, name, chunks):
        status = StreamStatus.LOST
    return OpenStream(
        id=name,
        role=note.role,
        head=note.head,
        parent=note.at,
        time_ms=note.time,
        status=status,
        reason=reason or "",
        pieces=tuple(pieces_from(forms)),
    )


def _is_orphan(reader: Readable, note: StreamNote) -> bool:
    """Whether this handle is the only writer of the session, and another handle began the stream."""
    return isinstance(reader, Writer) and not reader.options.shared and note.by != reader.replica.nonce


def follow_stream(reader: Readable, stream: str, *, offset: int = 0, poll_seconds: float = 0.2) -> Stream[Piece]:
    """Yield each piece of an answer once and in order, as they are stored; waits for new ones.

    The last piece has the kind `PieceKind.END`, and says how the stream ended. A stream that `FAILED`, or whose writer
    was `LOST`, is still open: a writer may continue it. Then call again with the offset of that last piece.

    An idle reader sends one conditional GET for each `poll_seconds`.

    Args:
        reader: The session.
        stream: The id of the stream, which is also the id of its node; it may have ended long ago.
        offset: Start there: the `after` of the last piece.
        poll_seconds: How long to wait between two looks.

    Raises:
        NotFoundError: No stream has this id; or the session was deleted while it was followed.
        CorruptError: The stored pieces are damaged.
        UnavailableError: The store does not answer. Call again, with the offset of the last piece.
    """
    return _followed(StreamFollower(reader, stream, offset, partial(newest, reader)), poll_seconds)


def _followed(follower: StreamFollower, poll_seconds: float) -> Stream[Piece]:
    while True:
        pieces = yield from follower.look()
        if pieces:
            yield Items(pieces)
            if pieces[-1].kind == PieceKind.END:
                return
        yield Pause(poll_seconds)


# parts of the operations above


def require_room(writer: Writer) -> Steps[None]:
    """Require that another answer may begin.

    Raises:
        UsageError: The store redacts texts, or too many streams are open.
    """
    yield from ()
    _refuse_redaction(writer)
    if len(writer.replica.state.streams) >= STREAMS_MAX:
        raise UsageError(
            f"too many streams are open. max={STREAMS_MAX}", kind=Kind.STREAM, remedy="keep or discard some"
        )


def _refuse_redaction(writer: Writer) -> None:
    if writer.options.redaction is not None:
        raise UsageError(
            "this store redacts texts, and a piece may hold a part of what is to be redacted",
            kind=Kind.STREAM,
            remedy="append the whole answer",
        )


def _note(writer: Writer, kind: str, brief: Mapping[str, object], target: str | None, rider: Rider) -> Steps[str]:
    """Record a note, durable when it returns; return its id."""
    draft = Draft(type="note", kind=kind, target=target, brief=dict(brief))
    return (yield from record(writer, [draft], rider=rider)).node


def _tape(writer: Writer, stream: str, note: str) -> Tape:
    def has_it() -> Steps[bool]:
        now = yield from newest(writer)
        found = note_in(now.replica.state.streams, stream)
        return found is not None and found.note == note

    return Tape(writer.keys, writer.replica.view.life, stream, new_nonce(), has_it)


def _take(writer: Writer, stream: str) -> Steps[Live]:
    """Record that this writer continues a stream, and then take it over."""
    yield from flush(writer)
    there = yield from _require_open(writer, stream)
    brief = {"node": stream, "role": there.role, "head": there.head}
    # rule: note-the-taker
    note = yield from _note(writer, BEGIN, brief, there.at, Rider(partial(_require_still_open, writer, stream)))
    tape = _tape(writer, stream, note)
    pieces: list[PieceForm] = yield from tape.take()
    answer = Answer(there.role, {})
    answer.extend(pieces)
    return Live(stream, there.at, note, tape, answer)


def _require_open(writer: Writer, stream: str) -> Steps[StreamNote]:
    """Return the facts that the journal has of an open stream; read new records if the session does not know it.

    Raises:
        NotFoundError: It is not open.
    """
    if stream not in writer.replica.state.streams and writer.replica.exists:
        yield from writer.replica.catch_up()
        writer.replica.check()
    found = note_in(writer.replica.state.streams, stream)
    if found is None:
        raise _not_open(stream)
    return found


def _require_still_open(writer: Writer, stream: str) -> Steps[None]:
    yield from ()
    if stream not in writer.replica.state.streams:
        raise _not_open(stream)


def _require_own(writer: Writer, live: Live) -> Steps[None]:
    """Raise unless the stream is open, and this writer took it last."""
    yield from ()
    found = note_in(writer.replica.state.streams, live.id)
    if found is None or found.note != live.note:  # rule: end-own
        raise lost(live.id, "another writer took it over, or ended it")


def _not_open(stream: str) -> NotFoundError:
    return NotFoundError(f"no such stream is open. stream={stream!r}", kind=Kind.STREAM)
