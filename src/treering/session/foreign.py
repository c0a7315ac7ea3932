"""Drafts of checkpoints that another program made, for importers.

An importer cannot make a checkpoint: it knows neither the records nor the policy of a session. It passes a draft of
the type `checkpoint` with the state and context that the program kept, and the node. Recording the draft makes the
checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context, Item
from treering.format import values
from treering.format.values import fields_of
from treering.session.content import ContextItem
from treering.session.recording import encode_state_values
from treering.session.redaction import Redaction
from treering.transcript.node import Draft

CHECKPOINT = "checkpoint"
"""The type of such drafts."""


def checkpoint_draft(
    node: str | None,
    *,
    context: Sequence[ContextItem | str],
    state: Mapping[str, object],
    time_ms: int,
    manager: object = None,
    id: str | None = None,  # noqa: A002  # as it is called everywhere here
    label: str | None = None,
    metadata: Mapping[str, object] | None = None,
) -> Draft:
    """Return the draft of a checkpoint. The nodes that it names must be among the drafts before it.

    Args:
        node: The node at which the program made the checkpoint.
        context: What the model saw: nodes by id, or items whose message replaces the node's own.
        state: The agent's whole state.
        time_ms: When it was made, in milliseconds since 1970.
        manager: State of its conversation manager.
        id: The program's own id of the checkpoint, unique in the session.
        label: A name to find the checkpoint by.
        metadata: Small JSON values for lists.
    """
    payload = {
        "context": [item if isinstance(item, str) else [item.node, item.message] for item in context],
        "state": dict(state),
        "manager": manager,
        "metadata": dict(metadata or {}),
    }
    brief: dict[str, object] | None = {"label": label} if label else None
    return Draft(type=CHECKPOINT, kind="", id=id, target=node, time_ms=time_ms, payload=payload, brief=brief)


def checkpoint_of(draft: Draft, redaction: Redaction | None = None) -> Checkpoint:
    """Return the checkpoint of a draft; its recorder adds the policy, and the id and the head where they are empty.

    Args:
        draft: As `checkpoint_draft` made it.
        redaction: Applied to every text before it is stored.

    Raises:
        UsageError: A value cannot be stored exactly.
    """
    fields, label = fields_of(draft.payload), (draft.brief or {}).get("label")
    if redaction is not None:
        fields = {name: _redacted(redaction, name, value) for name, value in fields.items()}
        label = label and redaction.text(str(label), "label")
    return Checkpoint(
        id=draft.id or "",
        head="",
        node=draft.target,
        context=Context(tuple(map(_item, fields["context"]))),
        state=encode_state_values(fields["state"]),
        manager=values.encode(fields["manager"]),
        label=str(label) if label else None,
        metadata=fields["metadata"],
        time_ms=draft.time_ms or 0,
    )


def _redacted(redaction: Redaction, name: str, value: Any) -> Any:
    """A part of a checkpoint, redacted; the node ids in a context stay as they are."""
    if name != "context":
        return redaction.value(value, name)
    return [
        item if isinstance(item, str) else [item[0], redaction.value(item[1], f"context[{at}]")]
        for at, item in enumerate(value)
    ]


def _item(wanted: Any) -> Item:
    if isinstance(wanted, str):
        return Item(wanted)
    node, message = wanted
    return Item(node, "", values.encode(message))
