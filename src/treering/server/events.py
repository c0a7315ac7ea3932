"""Server-sent events: what happens in a session, told as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent

import treering
from treering.errors import TreeringError
from treering.server.call import Call
from treering.server.errors import failure_of
from treering.server.limits import HEARTBEAT_SECONDS, POLL_SECONDS
from treering.server.route import Query
from treering.session.verbs.following import Event, EventType


class EventsQuery(Query, frozen=True, kw_only=True):
    """Where to begin."""

    after: str | None = None
    """Go on behind an event: its `id`. The header `Last-Event-ID` takes precedence. By default at the present end."""


async def events(call: Call, asked: EventsQuery) -> EventSourceResponse:
    """Follow a session: everything that happens in it, by any writer, in its order and once.

    Each message has the cursor of the event as its `id`, its type as `event`, and the event as `data`. It ends behind
    the deletion of the session. An error of the store comes as a message `error` with the body that answers have, and
    ends the stream; go on with `Last-Event-ID`.
    """
    kept = await call.kept()
    after = call.header("last-event-id") or asked.after or kept.place
    return stream_of(_told(kept.view.events(after=after, poll_seconds=POLL_SECONDS)))


def stream_of(messages: AsyncIterator[ServerSentEvent]) -> EventSourceResponse:
    """Return the response that sends messages, with a comment now and then so that no proxy ends it."""
    return EventSourceResponse(messages, ping=HEARTBEAT_SECONDS, sep="\n", headers={"x-accel-buffering": "no"})


async def _told(events: AsyncIterator[Event]) -> AsyncIterator[ServerSentEvent]:
    try:
        async for event in events:
            await asyncio.sleep(0)  # others have their turn, and a client that is gone is noticed: a send need not wait
            yield message_of(event.type.value, event, identifier=event.after)
            if event.type is EventType.DELETION:
                return
    except TreeringError as error:
        yield message_of("error", failure_of(error))


def message_of(name: str, value: Any, *, identifier: str | None = None) -> ServerSentEvent:
    """Return a message with a value as JSON."""
    return ServerSentEvent(treering.to_json(value).decode(), event=name, id=identifier, sep="\n")
