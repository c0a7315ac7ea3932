"""All routes of the API. What each takes and gives is said by the types of its function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treering.server import events, reading, searching
from treering.server.route import EVENTS, Route

SESSION: Final = "sessions/{key}"

READS: Final[Sequence[Route]] = (
    Route(method="GET", path="", handler=reading.about),
    Route(method="GET", path="sessions", handler=reading.sessions),
    Route(method="GET", path="search", handler=searching.search),
    Route(method="GET", path=SESSION, handler=reading.session),
    Route(method="GET", path=f"{SESSION}/history", handler=reading.history),
    Route(method="GET", path=f"{SESSION}/tree", handler=reading.tree),
    Route(method="GET", path=f"{SESSION}/tree/locate", handler=reading.locate),
    Route(method="GET", path=f"{SESSION}/nodes/{{node:path}}", handler=reading.node),
    Route(method="GET", path=f"{SESSION}/path", handler=reading.path),
    Route(method="GET", path=f"{SESSION}/context", handler=reading.context),
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
    Route(method="GET", path=f"{SESSION}/events", handler=events.events, media_type=EVENTS),
)

ROUTES: Final[Sequence[Route]] = (*READS,)
