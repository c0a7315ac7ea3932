"""Know a request again that is sent again with its `Idempotency-Key`.

Rule 1: a request with a key leaves a mark in its session: a record whose id is made from the key and the session, and
whose brief has a digest of what was asked. It is the first record that the request adds, in one append with the others.
A request that navigates, or makes something that has a name, records its mark as a note.
Rule 2: a request whose mark is there was done, by whatever worker: its answer is made from the records of that append.
If something else was asked, the request is refused.
Rule 3: the first run may still be under way. So the mark is looked for in each plan of an append, and once more if the
request is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, TypeVar

import msgspec

from treering.api.async_session import AsyncSession
from treering.digests import blake2b
from treering.errors import ConflictError, HeadMovedError, NotFoundError, UsageError
from treering.format.record import Record, decode_record, read_brief
from treering.format.values import fields_of
from treering.journal.view import View
from treering.kinds import Kind
from treering.server.call import Call
from treering.server.changing import Opened, expect, ids_of, request_key
from treering.server.views import place_of
from treering.session.position import ANYWHERE, Wish
from treering.session.reader import Readable
from treering.session.record import Appended, Rider, record
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft

T = TypeVar("T")

REQUEST: Final = "request_mark"
"""The field of a brief with the digest of what was asked, as an `id`, which no redactor changes; and the kind of a note
that is only a mark."""
DIGEST_BYTES: Final = 16
LINES_AT_ONCE: Final = 64


class Mark(NamedTuple):
    """The mark of a request."""

    id: str
    """The id of the record."""
    digest: str
    """The digest of what was asked."""

    def on(self, draft: Draft) -> Draft:
        """Return a draft that is the mark as well."""
        return msgspec.structs.replace(draft, id=self.id, brief={**(draft.brief or {}), REQUEST: {"id": self.digest}})

    @property
    def note(self) -> Draft:
        """A note that is only the mark."""
        return self.on(Draft(type="note", kind=REQUEST))


def mark_of(call: Call, asked: msgspec.Struct | str) -> Mark | None:
    """Return the mark of a request; None if it has no key.

    Args:
        call: The request.
        asked: Its body; without one, a word for what it does.
    """
    if request_key(call) is None:
        return None
    about = sorted((name, value) for name, value in call.request.path_params.items() if name != "key")
    what = (asked, None) if isinstance(asked, str) else (type(asked).__name__, asked)
    data = msgspec.json.encode((*what, about), order="deterministic")
    return Mark(ids_of(call, 1)[0], blake2b(data, DIGEST_BYTES))


def marked(drafts: Sequence[Draft], mark: Mark | None) -> list[Draft]:
    """Return drafts of which the first is the mark; without drafts, the note that is only the mark."""
    if mark is None:
        return list(drafts)
    return [mark.on(drafts[0]), *drafts[1:]] if drafts else [mark.note]


async def find(session: AsyncSession, mark: Mark | None) -> Appended | None:
    """Return what an earlier run of a request recorded; None if there was none.

    Raises:
        UsageError: Something else was asked with this key.
    """
    if mark is None or not (records := await session.perform(append_of, mark)):
        return None
    nodes = [each for each in records if each.type == "node"]
    checkpoints = [each for each in records if each.type == "checkpoint"]
    return Appended(
        nodes=tuple([each.id for each in nodes]),
        head=next((each.head for each in reversed(nodes or checkpoints)), session.head),
        checkpoint=checkpoints[-1].id if checkpoints else None,
    )


def append_of(reader: Readable, mark: Mark) -> Steps[list[Record]]:
    """The mark and the records behind it in the same append; none if the mark is not recorded."""
    found = yield from reader.replica.ask(lambda look: look.records([mark.id]))
    if mark.id not in found:
        return []
    said = fields_of(read_brief(found[mark.id]).get(REQUEST))
    require_same(mark, said.get("id", mark.digest))  # it is gone if the record was erased
    at, end = found[mark.id].at, reader.replica.state.end
    records: list[Record] = []
    while at < end and (not records or records[-1].by == records[0].by):
        places = range(at, min(end, at + LINES_AT_ONCE))
        lines = yield from reader.replica.lines_at(places)
        records += [decode_record(lines[place]) for place in places]
        at = places.stop
    return list(takewhile(lambda each: each.by == records[0].by, records))


def require_same(mark: Mark, digest: object) -> None:
    """Compare what was asked with what was asked first.

    Raises:
        UsageError: It is something else.
    """
    if digest != mark.digest:
        raise UsageError(
            "another request had this key", kind=Kind.DUPLICATE_ID, remedy="send other content with a key of its own"
        )


async def once(
    call: Call,
    session: AsyncSession,
    look: Callable[[], Awaitable[T | None]],
    act: Callable[[], Awaitable[T]],
    *,
    again: Callable[[], bool] | None = None,
) -> T:
    """Do what a request asks for, unless an earlier run of the same request did it.

    Args:
        call: The request.
        session: Its session; it is read again before another look.
        look: Returns the answer of an earlier run, or None.
        act: Does it, and returns the answer.
        again: Returns whether to try again, after a head moved and the session was read again.
    """
    if (done := await look()) is not None:
        return done
    while True:
        try:
            return await act()
        except (ConflictError, NotFoundError, UsageError) as error:
            if request_key(call) is None:
                raise
            await session.refresh()
            if (done := await look()) is not None:
                return done
            if again is None or not isinstance(error, HeadMovedError) or not again():
                raise


async def add(
    call: Call,
    there: Opened,
    drafts: Sequence[Draft],
    mark: Mark | None,
    *,
    wish: Wish = ANYWHERE,
    new_ids: bool = True,
) -> Appended:
    """Record drafts, once. With `If-Match`, nothing may have been recorded since.

    Args:
        call: The request.
        there: Its session.
        drafts: The drafts.
        mark: The mark.
        wish: Where they go.
        new_ids: The drafts have no ids that the client chose: the first one becomes the mark.
    """
    if new_ids:
        drafts = marked(drafts, mark)
    elif mark is not None:
        drafts = [mark.note, *drafts]

    async def look() -> Appended | None:
        return await find(there.session, mark)

    async def act() -> Appended:
        there.writable()
        return await there.session.perform(_add_if, drafts, wish, mark, call, new_ids=new_ids)

    return await once(call, there.session, look, act)


def _add_if(
    writer: Writer, drafts: Sequence[Draft], wish: Wish, mark: Mark | None, call: Call | None, *, new_ids: bool
) -> Steps[Appended]:
    stored = [*map(writer.options.hooks.stored, drafts)]
    rider = rider_of(writer, mark, call, looked=writer.replica.known_view)
    return (yield from record(writer, stored, wish=wish, new_ids=new_ids, rider=rider))


def rider_of(
    writer: Writer, mark: Mark | None, call: Call | None, notes: Sequence[Draft] = (), *, looked: View | None = None
) -> Rider:
    """The condition that no other run of a request was first, and that the session ends where the client saw it.

    Args:
        writer: The session.
        mark: The mark of the request.
        call: The request; None: the session may end anywhere.
        notes: What is recorded with its append.
        looked: The session as it was when the mark was last looked for, and not found.
    """

    def allowed() -> Steps[None]:
        nonlocal looked
        if mark is not None and writer.replica.known_view is not looked:
            if (yield from append_of(writer, mark)):
                raise ConflictError("another run of this request was first", kind=Kind.STALE)
            looked = writer.replica.known_view
        if call is not None:
            expect(call, (yield from place_of(writer)))

    return Rider(allowed, notes)


async def go(
    call: Call,
    there: Opened,
    mark: Mark | None,
    verb: Callable[..., Steps[None]],
    *args: object,
    is_there: Callable[[], Awaitable[bool]] | None = None,
    goes_on: bool = False,
) -> None:
    """Navigate, once: a move and its mark are one append. With `If-Match`, nothing may have been recorded since.

    Args:
        call: The request.
        there: Its session.
        mark: The mark.
        verb: The verb that navigates.
        args: Its arguments.
        is_there: Returns whether the session is already as the request wants it: then only the mark is recorded.
        goes_on: As for `perform`.
    """

    async def look() -> bool | None:
        return await find(there.session, mark) is not None or None

    async def act() -> bool:
        if is_there is None or not await is_there():
            await perform(call, there, mark, verb, *args, goes_on=goes_on)
        elif mark is not None:
            asked = None if goes_on else call
            await there.session.perform(_add_if, [mark.note], ANYWHERE, mark, asked, new_ids=True)
        return True

    await once(call, there.session, look, act)


async def perform(
    call: Call, there: Opened, mark: Mark | None, verb: Callable[..., Steps[T]], *args: object, goes_on: bool = False
) -> T:
    """Call a verb, with the mark of a request in its append, on the conditions of the request.

    Args:
        call: The request.
        there: Its session.
        mark: The mark.
        verb: The verb.
        args: Its arguments.
        goes_on: An earlier append of the request met its condition; behind that one, the session does not end any more
            where the client saw it.

    Raises:
        ConflictError: Another run of the request was first, or the session has changed since the client saw it.
    """
    session = there.session if goes_on else there.writable()
    return await session.perform(_perform_if, verb, args, mark, None if goes_on else call)


def _perform_if(
    writer: Writer, verb: Callable[..., Steps[T]], args: Sequence[object], mark: Mark | None, call: Call | None
) -> Steps[T]:
    notes = [writer.options.hooks.stored(mark.note)] if mark is not None else []
    return (yield from verb(writer, *args, rider=rider_of(writer, mark, call, notes)))
