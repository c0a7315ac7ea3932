"""Server-sent events: the events of a session, sent as they happen."""

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
    """Continue behind the event with this `id`. The header `Last-Event-ID` takes precedence. By default at the end."""


async def events(call: Call, asked: EventsQuery) -> EventSourceResponse:
    """Follow a session: each event of it, by any writer, once and in order.

    Each message has the cursor of the event as its `id`, its type as `event`, and the event as `data`. The stream ends
    after the deletion of the session. An error of the store is sent as a message `error` with the usual body of an
    error, and ends the stream; continue with `Last-Event-ID`.
    """
    kept = await call.kept()
    after = call.header("last-event-id") or asked.after or kept.place
    return stream_of(_told(kept.view.events(after=after, poll_seconds=POLL_SECONDS)))


def stream_of(messages: AsyncIterator[ServerSentEvent]) -> EventSourceResponse:
    """Return the response that sends messages, with periodic comments so that no proxy ends it."""
    return EventSourceResponse(messages, ping=HEARTBEAT_SECONDS, sep="\n", headers={"x-accel-buffering": "no"})


async def _told(events: AsyncIterator[Event]) -> AsyncIterator[ServerSentEvent]:
    try:
        async for event in events:
            await asyncio.sleep(0)  # a send need not wait: lets others run, and notices a client that is gone
            yield message_of(event.type.value, event, identifier=event.after)
            if event.type is EventType.DELETION:
                return
    except TreeringError as error:
        yield message_of("error", failure_of(error))


def message_of(name: str, value: Any, *, identifier: str | None = None) -> ServerSentEvent:
    """Return a message with a value as JSON."""
    return ServerSentEvent(treering.to_json(value).decode(), event=name, id=identifier, sep="\n")
