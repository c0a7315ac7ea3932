"""Answers over HTTP while they are written: piece by piece, and followed from any offset.

Rule 1: a piece names the offset at which it begins. A piece that begins before the end is stored already, and is not
written again. A piece that begins behind the end is refused with the offset to continue from. The lines of one request
name it once, and it has to be the end of the answer, since it is not known which of the lines are stored already.
Rule 2: the worker that began a stream writes it. If another worker gets a piece of it, for example after a restart, it
takes the stream over and continues behind the stored pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal
from weakref import WeakValueDictionary

from msgspec import Meta
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from treering.api.async_session import AsyncSession
from treering.api.async_view import AsyncView
from treering.errors import ConflictError, NotFoundError, StreamLostError, TreeringError, UsageError
from treering.ids import uptime
from treering.kinds import Kind
from treering.server.answers import StreamEnd, StreamPlace
from treering.server.call import Call
from treering.server.changing import ids_of, opened, within
from treering.server.errors import failure_of
from treering.server.events import message_of, stream_of
from treering.server.limits import STREAM_IDLE_SECONDS, STREAM_POLL_SECONDS, STREAMS_MAX
from treering.server.marks import Mark, find, go, mark_of, marked, once, perform, rider_of
from treering.server.route import Query
from treering.server.writing import Body, Name
from treering.session import verbs
from treering.session.record import Appended, record
from treering.session.streams import BEGIN, OpenStream, Piece, PieceKind
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft, Node

if TYPE_CHECKING:
    from treering.api.async_streaming import AsyncStreamWriter

Key = tuple[int, str, str, str]
"""Driver, prefix, session and stream."""


class Held:
    """A stream that this worker writes, with its open session."""

    def __init__(self, session: AsyncSession, writer: AsyncStreamWriter) -> None:
        self.session = session
        self.writer = writer
        self.used = uptime()
        self.lock = asyncio.Lock()
        self.ended: StreamEnd | None = None
        """The answer to the request that ended it."""

    @property
    def place(self) -> StreamPlace:
        """The current end of the answer."""
        return StreamPlace(id=self.writer.id, offset=self.writer.offset)


class Writers:
    """The streams that this worker writes. A stream whose client sends nothing is given up, so that readers see that.

    Args:
        most: The greatest number of streams.
        idle_seconds: After this time without a piece from its client a stream is given up.
    """

    def __init__(self, *, most: int = STREAMS_MAX, idle_seconds: float = STREAM_IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._held: dict[Key, Held] = {}
        self._turns = WeakValueDictionary[Key, asyncio.Lock]()
        """A lock for each stream that is being begun or taken over; it exists while a request holds or awaits it."""
        self._sweeping: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._held)

    async def begin(self, call: Call, body: StreamBody) -> StreamPlace:
        """Begin a stream at the session's current node, or on another head, which becomes the current one.

        Raises:
            UsageError: Too many streams are open.
            ConflictError: The session does not end at the place that the client saw.
        """
        mark, stream = mark_of(call, body), ids_of(call, 2)[1]
        async with self._turn(call, stream):
            session = await self._open(call)
            try:
                if await _begin_in(session, call, stream, body, mark):
                    return (await self._hold(call, session, stream)).place
            except BaseException:
                await session.close()
                raise
            await session.close()
        if (held := self._held.get(_key(call, stream))) is not None:
            return held.place
        stored = [each.pieces for each in await (await call.view()).open_streams() if each.id == stream and each.pieces]
        return StreamPlace(id=stream, offset=stored[0][-1].after if stored else 0)

    async def get(self, call: Call, stream: str) -> Held:
        """Return a stream to continue; takes it over if another worker began it.

        Raises:
            NotFoundError: No such stream is open.
        """
        async with self._turn(call, stream):
            held = self._held.get(_key(call, stream))
            if held is not None:
                held.used = uptime()
                return held
            session = await self._open(call)
            try:
                return await self._hold(call, session, stream)
            except BaseException:
                await session.close()
                raise

    async def let_go(self, call: Call, stream: str) -> None:
        """Close the session of a stream that has ended."""
        held = self._held.pop(_key(call, stream), None)
        if held is not None:
            await held.session.close()

    def _turn(self, call: Call, stream: str) -> asyncio.Lock:
        return self._turns.setdefault(_key(call, stream), asyncio.Lock())

    async def _open(self, call: Call) -> AsyncSession:
        if len(self._held) >= self._most:
            raise UsageError(f"too many streams are written here. most={self._most}", kind=Kind.STREAM)
        store, name = call.place
        return await store.session(name, shared=True, create=False)

    async def _hold(self, call: Call, session: AsyncSession, stream: str) -> Held:
        held = Held(session, await session.continue_stream(stream))
        self.add(_key(call, stream), held)
        return held

    def add(self, key: Key, held: Held) -> None:
        """Keep a stream, and watch whether its client continues."""
        self._held[key] = held
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        while self._held:
            await asyncio.sleep(self._idle_seconds / 4)
            for key, held in [*self._held.items()]:
                if uptime() - held.used > self._idle_seconds:
                    del self._held[key]
                    await held.writer.give_up(f"the client sent nothing for {self._idle_seconds:.0f} s")
                    with suppress(TreeringError):  # what is stored is safe, and the other streams have their turn
                        await held.session.close()


def _key(call: Call, stream: str) -> Key:
    store, session = call.place
    return (id(store.place.driver), store.place.prefix, session, stream)


async def streams(call: Call) -> tuple[OpenStream, ...]:
    """List the answers that were begun and have not ended, with their stored pieces."""
    return await (await call.view()).open_streams()


class OffsetQuery(Query, frozen=True, kw_only=True):
    """Where to begin."""

    offset: Annotated[int, Meta(ge=0)] = 0
    """The `after` of the last piece. The header `Last-Event-ID` takes precedence."""


async def stream_events(call: Call, asked: OffsetQuery) -> EventSourceResponse:
    """Follow an answer while it is written: each piece once, in order, from an offset on.

    Each message `piece` has the offset of the piece's end as its `id`, and the piece as `data`; `end` is the last
    message. So a page that is reloaded continues where it was.
    """
    last = call.header("last-event-id")
    if last is not None and not (last.isascii() and last.isdecimal()):
        raise UsageError(f"no offset of a stream. last_event_id={last!r}", kind=Kind.REQUEST)
    view, name = await call.view(), call.name("stream")
    offset = asked.offset if last is None else int(last)
    pieces = aiter(view.follow_stream(name, offset=offset, poll_seconds=STREAM_POLL_SECONDS))
    return stream_of(_told(pieces))


async def _told(pieces: AsyncIterator[Piece]) -> AsyncIterator[ServerSentEvent]:
    try:
        async for piece in pieces:
            await asyncio.sleep(0)  # as in `events`
            name = "end" if piece.kind is PieceKind.END else "piece"
            yield message_of(name, piece, identifier=str(piece.after))
    except TreeringError as error:
        yield message_of("error", failure_of(error))


class StreamBody(Body, frozen=True, kw_only=True):
    """An answer to begin."""

    role: Name = "assistant"
    head: str | None = None
    """The head that it continues, which becomes the current one; by default the current head."""


async def begin_stream(call: Call, body: StreamBody) -> StreamPlace:
    """Begin an answer, whose text is stored and shown to readers while it is written."""
    return await call.service.writers.begin(call, body)


async def _begin_in(session: AsyncSession, call: Call, stream: str, body: StreamBody, mark: Mark | None) -> bool:
    """Record that a stream begins; return false if an earlier run of the request did."""
    async with within(call, session) as there:

        async def look() -> bool | None:
            return None if await find(session, mark) is None else False

        async def act() -> bool:
            await there.writable().perform(_begin, stream, body, mark, call)
            return True

        return await once(call, session, look, act)


def _begin(writer: Writer, stream: str, body: StreamBody, mark: Mark | None, call: Call) -> Steps[None]:
    """Record that an answer begins, in one append with the move to its head and the request's mark."""
    head = writer.head if body.head is None else body.head
    brief: dict[str, object] = {"node": stream, "role": body.role, "head": head}
    begin = Draft(type="note", kind=BEGIN, target=writer.replica.state.heads.heads.get(head), brief=brief)
    notes = marked([begin], mark)
    if head == writer.head:
        rider = rider_of(writer, mark, call).also(partial(verbs.streaming.require_room, writer))
        yield from record(writer, notes, new_ids=True, rider=rider)
    else:
        rider = rider_of(writer, mark, call, notes).also(partial(verbs.streaming.require_room, writer))
        yield from verbs.navigation.switch(writer, head, rider=rider)


class PieceLine(Body, frozen=True, kw_only=True):
    """A piece of an answer."""

    kind: Literal["text", "thinking", "tool_call"] = "text"
    text: str = ""
    """A piece of the text, of the thinking, or of the arguments of the call."""
    call: str = ""
    """Id of the tool call."""
    name: str = ""
    """Name of the tool, with the first piece of a call."""
    signature: str = ""
    """Signature of the thinking, with its last piece."""
    flush: bool = False
    """Answer when all pieces are durable; otherwise they are durable within 100 ms, or half a second in a bucket."""


class PieceBody(PieceLine, frozen=True, kw_only=True):
    """A piece of an answer, and the offset at which it begins."""

    offset: Annotated[int, Meta(ge=0)]
    """The offset at which it begins: the one that the previous request returned."""


async def write_piece(call: Call, body: PieceBody) -> StreamPlace:
    """Continue an answer, and return the offset at which the next piece begins."""
    held = await call.service.writers.get(call, call.name("stream"))
    async with held.lock:
        writer = held.writer
        if body.offset > writer.offset:
            raise _stale("a piece is missing", body.offset, writer)
        await _go_on(call, writer, body, is_new=body.offset == writer.offset)
        return held.place


class LinesQuery(Query, frozen=True, kw_only=True):
    """Where to continue."""

    offset: Annotated[int, Meta(ge=0)]
    """The current end of the answer."""


async def write_pieces(call: Call, asked: LinesQuery, body: AsyncIterator[PieceLine]) -> StreamPlace:
    """Continue an answer with one piece per line, each written when its line arrives; returns the end of the answer.

    So one request may send a whole answer while a model writes it, for a fraction of the cost of a request for each
    piece. If it breaks off, the lines that arrived are written. It is refused if the answer does not end at `offset`.
    """
    held = await call.service.writers.get(call, call.name("stream"))
    offset = asked.offset
    _require_end(held.writer, offset)
    async for line in body:
        held.used = uptime()
        async with held.lock:
            _require_end(held.writer, offset)  # another client may have written a piece in between
            offset = await _go_on(call, held.writer, line)
    return StreamPlace(id=held.writer.id, offset=offset)


def _require_end(writer: AsyncStreamWriter, offset: int) -> None:
    if offset != writer.offset:
        raise _stale("the answer ends elsewhere", offset, writer)


def _stale(said: str, offset: int, writer: AsyncStreamWriter) -> ConflictError:
    end = writer.offset
    return ConflictError(f"{said}. offset={offset}, end={end}", kind=Kind.STALE, remedy=f"go on from {end}")


async def _go_on(call: Call, writer: AsyncStreamWriter, piece: PieceLine, *, is_new: bool = True) -> int:
    """Write a piece unless it is stored already, and return the offset of the next one."""
    try:
        if is_new:
            await _write(writer, piece)
        if piece.flush:
            await writer.flush()
    except StreamLostError:
        await call.service.writers.let_go(call, writer.id)
        raise
    return writer.offset


async def _write(writer: AsyncStreamWriter, body: PieceLine) -> None:
    if body.kind == "text":
        await writer.write(body.text)
    elif body.kind == "thinking":
        await writer.thinking(body.text, signature=body.signature)
    else:
        await writer.tool_call(body.text, id=body.call, name=body.name)


class EndBody(Body, frozen=True, kw_only=True):
    """How an answer ends."""

    outcome: Literal["complete", "stopped", "failed"] = "complete"
    """`stopped`: by the user. `failed`: it stays open; a client can continue, keep or discard it."""
    reason: Annotated[str, Meta(max_length=200)] = ""
    """Why it failed, for people."""


FAILED: Final = "failed"


async def end_stream(call: Call, body: EndBody) -> StreamEnd:
    """End an answer: it becomes a node, unless it failed."""
    name = call.name("stream")
    try:
        held = await call.service.writers.get(call, name)
    except NotFoundError:
        return await _ended(call, name)
    async with held.lock:
        if held.ended is not None:  # by a request that came at the same time
            return held.ended
        if body.outcome == FAILED:
            await held.writer.fail(body.reason)
            done = None
        else:
            try:
                done = await (held.writer.finish() if body.outcome == "complete" else held.writer.stop())
            except StreamLostError:  # perhaps another worker got this request, too, and ended it
                await call.service.writers.let_go(call, name)
                with suppress(NotFoundError):
                    return await _ended(call, name)
                raise
        held.ended = StreamEnd(outcome=body.outcome, recorded=done)
    await call.service.writers.let_go(call, name)
    return held.ended


async def _ended(call: Call, name: str) -> StreamEnd:
    """The answer of the request that ended the stream. Errors as for `_node_of`."""
    node = await _node_of(await call.view(), name)
    outcome = node.brief.get("stream", "complete")
    return StreamEnd(outcome=str(outcome), recorded=Appended(nodes=(node.id,), head=node.head))


async def _node_of(session: AsyncSession | AsyncView, stream: str) -> Node:
    """The node of a stream that has ended.

    Raises:
        NotFoundError: There never was such a stream, or it ended without a node.
    """
    node = await session.get(stream, blobs=False)
    if all(note.brief.get("node") != stream for note in await session.notes(BEGIN)):
        raise NotFoundError(f"this node never was a stream. node={stream!r}", kind=Kind.STREAM)
    return node


async def keep_stream(call: Call) -> Appended:
    """Record the stored pieces of an answer as a node that is marked as partial."""
    name, mark = call.name("stream"), mark_of(call, "keep")
    async with opened(call) as there:
        session = there.session

        async def look() -> Appended | None:
            with suppress(NotFoundError):
                return Appended(nodes=(name,), head=(await _node_of(session, name)).head)
            return await find(session, mark)

        async def act() -> Appended:
            there.writable()  # taking it over is an append already
            return await perform(call, there, mark, verbs.streaming.keep_stream, name, goes_on=True)

        return await once(call, session, look, act)


async def discard_stream(call: Call) -> Response:
    """End an answer without a node, and delete its pieces."""
    mark = mark_of(call, "discard")
    async with opened(call) as there:
        await go(call, there, mark, verbs.streaming.discard_stream, call.name("stream"))
    return Response(status_code=204)
