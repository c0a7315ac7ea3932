"""All routes of the API. The types of a route's function define its parameters and answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treering.server import contexts, events, previewing, reading, searching, sessions, shaping, streaming, writing
from treering.server.route import EVENTS, Handler, Route

SESSION: Final = "sessions/{key}"
NODE: Final = f"{SESSION}/nodes/{{node:path}}"
KEY: Final = {"Idempotency-Key": "Any text, such as a UUID: a repeated request with it adds nothing."}
CONDITIONS: Final = {"If-Match": "The `ETag` of what was read: nothing is written if the session has changed.", **KEY}
UNCONDITIONAL: Final = (streaming.write_piece, streaming.write_pieces, streaming.end_stream, sessions.set_view_state)
LAST: Final = {"Last-Event-ID": "The `id` of the last message: go on behind it."}

READS: Final[Sequence[Route]] = (
    Route(method="GET", path="", handler=reading.about),
    Route(method="GET", path="sessions", handler=reading.sessions),
    Route(method="GET", path="search", handler=searching.search),
    Route(method="GET", path=SESSION, handler=reading.session),
    Route(method="GET", path=f"{SESSION}/history", handler=reading.history),
    Route(method="GET", path=f"{SESSION}/tree", handler=reading.tree),
    Route(method="GET", path=f"{SESSION}/tree/locate", handler=reading.locate),
    Route(method="GET", path=NODE, handler=reading.node),
    Route(method="GET", path=f"{SESSION}/path", handler=reading.path),
    Route(method="GET", path=f"{SESSION}/previews", handler=previewing.previews),
    Route(method="GET", path=f"{SESSION}/context", handler=contexts.context),
    Route(method="GET", path=f"{SESSION}/checkpoints", handler=reading.checkpoints),
    Route(method="GET", path=f"{SESSION}/checkpoints/{{checkpoint:path}}", handler=reading.checkpoint),
    Route(method="GET", path=f"{SESSION}/diff", handler=reading.diff),
    Route(method="GET", path=f"{SESSION}/branches", handler=reading.branches),
    Route(method="GET", path=f"{SESSION}/labels", handler=reading.labels),
    Route(method="GET", path=f"{SESSION}/notes", handler=reading.notes),
    Route(method="GET", path=f"{SESSION}/problems", handler=reading.problems),
    Route(
        method="GET", path=f"{SESSION}/blobs/{{sha256}}", handler=reading.blob, media_type="application/octet-stream"
    ),
    Route(method="GET", path=f"{SESSION}/messages", handler=shaping.messages),
    Route(method="GET", path=f"{SESSION}/view-state", handler=sessions.view_state),
    Route(method="GET", path=f"{SESSION}/events", handler=events.events, media_type=EVENTS, headers=LAST),
)


def _write(method: str, path: str, handler: Handler, status: int = 200) -> Route:
    """A stream has conditions of its own once it was begun: the offset, and that it is open. A choice has none."""
    headers = CONDITIONS if "{key}" in path and handler not in UNCONDITIONAL else KEY
    return Route(method=method, path=path, handler=handler, status=status, writes=True, headers=headers)


WRITES: Final[Sequence[Route]] = (
    _write("POST", "sessions", sessions.create, 201),
    _write("PATCH", SESSION, writing.change),
    _write("DELETE", SESSION, sessions.delete, 204),
    _write("POST", f"{SESSION}/messages", writing.append),
    _write("POST", f"{SESSION}/import", shaping.import_messages),
    _write("POST", f"{SESSION}/commit", writing.commit),
    _write("POST", f"{NODE}/edit", writing.edit),
    _write("POST", f"{NODE}/regenerate", writing.regenerate),
    _write("POST", f"{NODE}/label", writing.label),
    _write("POST", f"{NODE}/retract", writing.retract),
    _write("POST", f"{NODE}/unretract", writing.unretract),
    _write("POST", f"{SESSION}/switch", writing.switch),
    _write("POST", f"{SESSION}/rewind", writing.rewind),
    _write("POST", f"{SESSION}/branch", writing.branch),
    _write("POST", f"{SESSION}/fork", sessions.fork, 201),
    _write("PUT", f"{SESSION}/view-state", sessions.set_view_state),
)

STREAMS: Final[Sequence[Route]] = (
    Route(method="GET", path=f"{SESSION}/streams", handler=streaming.streams),
    Route(
        method="GET",
        path=f"{SESSION}/streams/{{stream}}/events",
        handler=streaming.stream_events,
        media_type=EVENTS,
        headers=LAST,
    ),
    _write("POST", f"{SESSION}/streams", streaming.begin_stream, 201),
    _write("POST", f"{SESSION}/streams/{{stream}}/pieces", streaming.write_piece),
    _write("POST", f"{SESSION}/streams/{{stream}}/lines", streaming.write_pieces),
    _write("POST", f"{SESSION}/streams/{{stream}}/end", streaming.end_stream),
    _write("POST", f"{SESSION}/streams/{{stream}}/keep", streaming.keep_stream),
    _write("POST", f"{SESSION}/streams/{{stream}}/discard", streaming.discard_stream, 204),
)

ROUTES: Final[Sequence[Route]] = (*READS, *WRITES, *STREAMS)

for _route in ROUTES:
    _ = _route.decoders
