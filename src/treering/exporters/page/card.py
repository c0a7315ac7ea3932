"""The card of a session in a page: the same as a server's response at the path of the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from treering.api.encoding import to_json
from treering.api.view import View
from treering.exporters.page.chosen import Chosen
from treering.exporters.page.contexts import Contexts
from treering.exporters.prompt import first_prompt_on
from treering.session.payload import decoded_state
from treering.session.reader import Readable
from treering.storage.requests import Steps

KEY: Final = "file"
"""The session's key in addresses within the page."""


def card(view: View, chosen: Chosen, contexts: Contexts) -> bytes:
    """Return the card as JSON; for a branch, it describes only that branch."""
    graph, heads = chosen.graph, chosen.heads
    settings, checkpoint = contexts.standing(chosen.number(heads.tip))
    state = view.perform(_state_of, checkpoint)
    info = view.info
    if chosen.is_part:
        messages = len(graph.skeletons.rows(lambda name: name[:2] == ("node", "message")))
        counts = {"nodes": len(chosen.rows), "messages": messages, "checkpoints": len(chosen.index.checkpoints)}
        first = first_prompt_on(view, heads.tip)
        info = msgspec.structs.replace(info, **counts, head=heads.current, node=heads.tip, first_prompt=first, extra={})
    here = heads.current == view.head
    return to_json(
        {
            "key": KEY,
            "info": info,
            "head": heads.current,
            "node": heads.tip,
            "heads": heads.heads,
            "checkpoint": checkpoint,
            "state": state,
            "settings": settings,
            "usage": {} if chosen.is_part else view.usage,
            "last_usage": {} if chosen.is_part else view.last_usage,
            "lease": None,
            "open_calls": view.open_calls() if here else (),
            "streams": (),
            "end": chosen.whole.end,
            "after": "",
            "counts": {
                "labels": len(graph.marks.labels),
                "problems": len(graph.problems()),
                "leaves": len(graph.leaves()),
                "stored": None if chosen.is_part else view.stored(),
            },
        }
    )


def _state_of(reader: Readable, checkpoint: str | None) -> Steps[Mapping[str, object]]:
    """Return the state that a checkpoint holds."""
    return decoded_state({} if checkpoint is None else (yield from reader.content.load_checkpoint(checkpoint)).state)
