"""The JSON documents that commands print with `--json`. Their shapes are described in `docs/reference/cli.md`.

Fields are only ever added. Recorded values (payloads, messages, state, metadata) have their stored form, with tags for
values that JSON cannot express.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from treering.api.encoding import stored_form
from treering.api.view import View
from treering.checkpoint.checkpoint import CheckpointInfo
from treering.format.erasure import Erased
from treering.session.content import ContextItem
from treering.session.lease import Lease
from treering.session.streams import OpenStream
from treering.session.verbs.reading import CheckpointView, HistoryRow
from treering.store.info import SessionInfo
from treering.transcript.node import Node

Document = dict[str, object]


def of_session(info: SessionInfo) -> Document:
    """A row of a list of sessions."""
    return msgspec.structs.asdict(info) | {"extra": stored_form(dict(info.extra))}


def of_standing(view: View) -> Document:
    """A session with its head, node and checkpoint."""
    return {
        "session": of_session(view.info),
        "head": view.head,
        "node": view.node,
        "heads": dict(view.heads),
        "checkpoint": view.checkpoint_id,
        "lease": _lease(view.lease),
        "settings": stored_form(dict(view.settings)),
        "usage": dict(view.usage),
        "last_usage": dict(view.last_usage),
        "state": of_state(view.state),
        "manager": stored_form(view.manager),
        "erased_state": of_erased(view.erased_state),
        "open_calls": [stored_form(msgspec.structs.asdict(each)) for each in view.open_calls()],
        "unresolved_effects": [stored_form(msgspec.structs.asdict(each)) for each in view.unresolved_effects()],
        "open_streams": list(map(_stream, view.open_streams())),
    }


def _stream(stream: OpenStream) -> Document:
    """A partial answer, without its pieces."""
    names = ("id", "role", "head", "parent", "time_ms", "status", "reason", "offset")
    return {name: getattr(stream, name) for name in names}


def _lease(lease: Lease | None) -> Document | None:
    return None if lease is None else {"number": lease.number, "holder": lease.holder, "ttl": lease.ttl}


def of_node(node: Node) -> Document:
    """A node with its payload."""
    return msgspec.structs.asdict(node) | {"brief": stored_form(node.brief), "payload": stored_form(node.payload)}


def of_row(row: HistoryRow) -> Document:
    """A node of a page, with its place among its siblings."""
    return of_node(row.node) | {"sibling": row.sibling, "siblings": row.siblings, "sibling_ids": list(row.sibling_ids)}


def of_items(items: Sequence[ContextItem]) -> list[Document]:
    """The items of a context."""
    return [{"node": item.node, "message": stored_form(item.message)} for item in items]


def of_state(state: Mapping[str, object]) -> Document:
    """The agent's state."""
    return {key: stored_form(value) for key, value in state.items()}


def of_erased(left: Mapping[str | None, Erased]) -> list[Document]:
    """The tombstones of erased state; null is the key of the conversation manager's state."""
    return [
        {"key": key, "sha256": each.sha256, "time_ms": each.time_ms, "reason": each.reason}
        for key, each in left.items()
    ]


def of_entry(entry: CheckpointInfo) -> Document:
    """A row of a list of checkpoints."""
    return msgspec.structs.asdict(entry) | {"metadata": stored_form(entry.metadata)}


def of_checkpoint(checkpoint: CheckpointView) -> Document:
    """A complete checkpoint."""
    return of_entry(checkpoint.info) | {
        "policy": checkpoint.policy,
        "context": of_items(checkpoint.context),
        "settings": stored_form(dict(checkpoint.settings)),
        "state": of_state(checkpoint.state),
        "manager": stored_form(checkpoint.manager),
        "erased_state": of_erased(checkpoint.erased_state),
    }
