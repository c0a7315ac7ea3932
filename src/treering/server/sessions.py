"""Whole sessions over HTTP: create, fork, delete, and the branch that each viewer chose last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from treering.api.async_store import AsyncStore
from treering.errors import ConflictError, NotFoundError
from treering.format.register import Card
from treering.journal.life import taken
from treering.journal.resume import Registers
from treering.journal.watch import Place as EndOfJournal
from treering.server.answers import SessionCard, ViewState
from treering.server.call import Call
from treering.server.changing import expect, ids_of, opened, request_key
from treering.server.keys import key_of
from treering.server.limits import NAME_CHARACTERS_MAX, TEXT_CHARACTERS_MAX, VIEWERS_MAX
from treering.server.marks import Mark, append_of, find, mark_of, marked, once, rider_of
from treering.server.reading import card_of
from treering.server.route import Query
from treering.server.writing import Body, Messages, Name, drafts_of
from treering.session.record import Appended, record
from treering.session.verbs import forking
from treering.session.writer import Writer
from treering.storage.requests import ABSENT, Steps, Version
from treering.storage.run import arun
from treering.store.parcels import delete_parcel, get_parcel, put_parcel
from treering.store.place import Place
from treering.transcript.node import Draft

CREATED: Final = "created"
"""The kind of the note that is the first record of a session without messages."""
CardText = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]
TRIES_MAX: Final = 8
"""How often a choice is written again after another viewer of the session wrote first."""


class CreateBody(Body, frozen=True, kw_only=True):
    """A new session."""

    id: Name | None = None
    """Its name; by default the server makes one."""
    title: CardText = ""
    project: CardText = ""
    cwd: CardText = ""
    messages: Messages = msgspec.field(default_factory=list)


async def create(call: Call, body: CreateBody) -> SessionCard:
    """Create a session; durable when it is answered."""
    mark, name = mark_of(call, body), body.id or ids_of(call, 2)[1]
    begun = drafts_of(call, body.messages) or [Draft(type="note", kind=CREATED)]
    opening = call.store.session(name, title=body.title, project=body.project, cwd=body.cwd, shared=True)
    async with opening as session:

        async def look() -> Appended | None:
            return await find(session, mark)

        async def act() -> Appended:
            return await session.perform(_begin, marked(begun, mark), mark)

        await once(call, session, look, act)
    call.request.path_params["key"] = key_of((), name)
    return await card_of(call)


def _begin(writer: Writer, drafts: Sequence[Draft], mark: Mark | None) -> Steps[Appended]:
    """Record the first records of a session, also if a request without an answer got as far as the same card."""

    def is_free() -> Steps[None]:
        yield from ()
        state = writer.replica.state
        if state.end or _asked(state.card) != _asked(writer.creation.card):
            raise taken(writer.replica.keys)

    stored = [*map(writer.options.hooks.stored, drafts)]
    return (yield from record(writer, stored, new_ids=True, rider=rider_of(writer, mark, None).also(is_free)))


def _asked(card: Card) -> tuple[str | None, ...]:
    return (card.title, card.project, card.cwd, card.parent_session)


class ForkBody(Body, frozen=True, kw_only=True):
    """A new session made from a path of this one."""

    node: str | None = None
    """The end of the path; by default the session's current node."""
    id: Name | None = None
    """Its name; by default the server makes one."""
    title: CardText | None = None
    """Its title; by default that of this session."""


async def fork(call: Call, body: ForkBody) -> SessionCard:
    """Make a new session from the path to a node, and return its card."""
    name, mark = body.id or ids_of(call, 1)[0], mark_of(call, body)
    store, _ = call.place
    async with opened(call) as there:
        session = there.session

        async def look() -> bool | None:
            begun = await session.perform(append_of, mark) if mark is not None else []
            return (begun and await _is_made(store, name, of=(session.id, begun[0].target))) or None

        async def act() -> bool:
            await session.perform(_fork_if, name, body, mark, call)
            return True

        await once(call, session, look, act)
    namespace = call.name("key").rpartition("~")
    call.request.path_params["key"] = f"{namespace[0]}{namespace[1]}{key_of((), name)}"
    return await card_of(call)


def _fork_if(writer: Writer, name: str, body: ForkBody, mark: Mark | None, call: Call) -> Steps[None]:
    """Fork, with the mark in the link; go on with the fork of an earlier run that got as far as the link."""
    link = forking.LINK if mark is None else mark.on(forking.LINK)
    rider = rider_of(writer, mark, call)
    return forking.fork(writer, name, node=body.node, title=body.title, link=link, rider=rider)


async def _is_made(store: AsyncStore, name: str, *, of: tuple[str, str | None]) -> bool:
    """Whether there is a fork of this name, of this session and node; another session may have the name."""
    try:
        info = (await store.view(name)).info
    except NotFoundError:
        return False
    return (info.parent_session, info.parent_node) == of


async def delete(call: Call) -> Response:
    """Delete a session with all its contents."""
    store, name = call.place
    has_key = request_key(call) is not None
    if call.seen is not None:
        try:
            expect(call, (await call.kept()).place)
        except NotFoundError:
            if not has_key:  # else an earlier run deleted it
                raise
    try:
        await arun(store.place.delete(name, partial(_is_expected, call)), store.place.driver)
    except NotFoundError:
        if not has_key:
            raise
    call.service.views.forget(store, name)
    await arun(delete_parcel(store.place, _parcel(name)), store.place.driver)
    return Response(status_code=204)


def _is_expected(call: Call, registers: Registers) -> bool:
    """Require that a session ends where the client saw it, right before its tail is replaced.

    Raises:
        ConflictError: It has another end.
    """
    tail = registers.tail  # None: it is being created, and no client saw it
    expect(call, EndOfJournal(registers.life, tail.end, tail.header.epoch).text if tail is not None else "")
    return True


class ViewerQuery(Query, frozen=True, kw_only=True):
    """The viewer."""

    viewer: Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
    """Any text that stands for a person or a browser."""


async def view_state(call: Call, asked: ViewerQuery) -> ViewState:
    """Read the end of the branch that a viewer chose last."""
    store, name = call.place
    chosen, _ = await arun(_chosen(store.place, name), store.place.driver)
    return ViewState(node=chosen.get(asked.viewer))


async def set_view_state(call: Call, asked: ViewerQuery, body: ViewState) -> ViewState:
    """Store the end of the branch that a viewer chose; it is kept beside the session, not in it."""
    store, name = call.place
    await call.view()  # raises if there is no such session
    await arun(_choose(store.place, name, asked.viewer, body.node), store.place.driver)
    return body


def _choose(place: Place, session: str, viewer: str, node: str | None) -> Steps[None]:
    tries = 0
    while True:
        chosen, version = yield from _chosen(place, session)
        if chosen.get(viewer) == node:
            return
        left = {name: there for name, there in chosen.items() if name != viewer}
        newest = dict([*left.items(), *([(viewer, node)] if node is not None else [])][-VIEWERS_MAX:])
        try:
            yield from put_parcel(place, _parcel(session), msgspec.json.encode(newest), expect=version)
        except ConflictError:
            tries += 1
            if tries == TRIES_MAX:
                raise
        else:
            return


_chosen_decoder = msgspec.json.Decoder(dict[str, str])


def _chosen(place: Place, session: str) -> Steps[tuple[dict[str, str], Version]]:
    """The choice of each viewer, the latest choice at the end, and the version of the parcel."""
    there = yield from get_parcel(place, _parcel(session))
    if there is None:
        return {}, ABSENT
    content, version = there
    return _chosen_decoder.decode(content), version


def _parcel(session: str) -> str:
    return f"viewers/{key_of((), session)}"
