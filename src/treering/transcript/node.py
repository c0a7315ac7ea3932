"""The node as callers see it, and the drafts from which nodes are made.

A `Draft` is a node to be recorded; a `Node` is a recorded one. Kinds are open: an unknown kind is kept and shown, and
is left out of the model's context. The `brief`, a small JSON object, holds what readers need without the payload; the
constructors below define it for the known kinds.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

from treering.format.record import Skeleton, read_brief


class Here(enum.Enum):
    """The type of `HERE`, which differs from None: a parent of None makes a new root."""

    HERE = "here"


HERE: Final = Here.HERE
"""As a draft's parent: the node that the head points to."""
MESSAGES: Final = frozenset({"message", "custom_message"})
"""Kinds of nodes that a model sees unless something leaves them out."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded step of a conversation, seen through later edits and labels."""

    id: str
    parent: str | None
    """None for a root; in an imported session it may name a node that does not exist."""
    kind: str
    role: str = ""
    time_ms: int
    """Milliseconds since 1970 by the writer's clock; never used for order."""
    at: int
    """Position of the record in its journal."""
    head: str = ""
    """The head that moved to this node when it was written, or empty."""
    links: dict[str, str] = msgspec.field(default_factory=dict)
    brief: dict[str, object] = msgspec.field(default_factory=dict)
    payload: Any = None
    """The payload, or the amended payload if the node was amended; None if it was not loaded."""
    label: str | None = None
    retracted: bool = False
    amended: bool = False
    erased: bool = False
    """Whether the payload was erased and replaced by a tombstone, see `treering.format.erasure.Erased`."""


def node_of(skeleton: Skeleton, payload: object | None, *, label: str | None, retracted: bool, amended: bool) -> Node:
    """Return the public view of a node record."""
    brief = {} if skeleton.brief == b"{}" else read_brief(skeleton)
    return Node(
        id=skeleton.id,
        parent=skeleton.parent,
        kind=skeleton.kind,
        role=skeleton.role,
        time_ms=skeleton.time,
        at=skeleton.at,
        head=skeleton.head,
        links=dict(skeleton.links or {}),
        brief=brief,
        payload=payload,
        label=label,
        retracted=retracted,
        amended=amended,
        erased=brief.get("erased") is True,
    )


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A record to be written, from a caller or importer. Missing ids, times and parents are filled in when it is."""

    kind: str = "message"
    role: str = ""
    payload: Any = None
    id: str | None = None
    """A foreign id, kept verbatim; unique only within its session. None: a new id is made."""
    parent: str | Here | None = HERE
    time_ms: int | None = None
    brief: dict[str, object] | None = None
    links: dict[str, str] | None = None
    type: str = "node"
    """`node` continues a branch, `note` annotates `target` and moves no head, `edit` changes how `target` is shown.
    Importers also make a `checkpoint`, see `treering.session.foreign`."""
    target: str | None = None
    """The node that a note or an edit is about; a note without a target is about the whole session."""
    source: dict[str, object] | None = None
    """Fields of a foreign record that no field of `Draft` can hold, kept so that the record can be exported."""


def user(
    content: object,
    *,
    id: str | None = None,  # noqa: A002  # as it is called everywhere here
    parent: str | Here | None = HERE,
    **fields: object,
) -> Draft:
    """Return a message from the user.

    Args:
        content: Text, or a list of parts.
        id: An id of your own, unique in the session; by default a new id. If `append` gets the same id and content
            again, it records nothing, so a call can be repeated after an error.
        parent: Its parent, which puts it on a new head; by default the node that the current head points to.
        fields: Further fields of the payload.
    """
    return _message("user", content, id, parent, fields)


def assistant(
    content: object,
    *,
    id: str | None = None,  # noqa: A002  # as it is called everywhere here
    parent: str | Here | None = HERE,
    **fields: object,
) -> Draft:
    """Return a message from the model; arguments as for `user`."""
    return _message("assistant", content, id, parent, fields)


def tool(
    content: object,
    *,
    call: str,
    id: str | None = None,  # noqa: A002  # as it is called everywhere here
    parent: str | Here | None = HERE,
    **fields: object,
) -> Draft:
    """Return the result of the tool call with the id `call`; other arguments as for `user`."""
    return _message("tool", content, id, parent, {"tool_call_id": call, **fields})


def system(
    content: object,
    *,
    id: str | None = None,  # noqa: A002  # as it is called everywhere here
    parent: str | Here | None = HERE,
    **fields: object,
) -> Draft:
    """Return instructions that are part of the conversation; arguments as for `user`."""
    return _message("system", content, id, parent, fields)


def _message(
    role: str, content: object, identifier: str | None, parent: str | Here | None, fields: dict[str, object]
) -> Draft:
    return Draft(role=role, payload={"role": role, "content": content, **fields}, id=identifier, parent=parent)


def compaction(
    summary: str,
    *,
    kept: str | None = None,
    tokens_before: int | None = None,
    tokens_after: int | None = None,
    **details: object,
) -> Draft:
    """Return a compaction: from here on the model sees `summary`, then the messages from node `kept` on.

    Args:
        summary: Replaces the messages that are left out.
        kept: The first node still shown verbatim; None keeps nothing. A node that is not on the path before the
            compaction keeps nothing either, but it must exist in the session.
        tokens_before: Size of the context that was compacted.
        tokens_after: Size of the context after the compaction.
        details: Anything else to remember in the payload, for example `files_read` and `files_changed`.
    """
    known: dict[str, object] = {"kept": kept, "tokens_before": tokens_before, "tokens_after": tokens_after}
    brief = {name: value for name, value in known.items() if value is not None}
    return Draft(kind="compaction", payload={"summary": summary, **details}, brief=brief)


def branch_summary(summary: str, *, source: str | None = None, **details: object) -> Draft:
    """Return a summary of the branch that ended in node `source`, for another branch; an empty one is not shown."""
    return Draft(
        kind="branch_summary",
        payload={"summary": summary, **details},
        brief=None if summary else {"empty": True},
        links={"source": source} if source is not None else None,
    )


def custom_message(custom_type: str, content: object, *, details: object = None) -> Draft:
    """Return a message of an extension that the model sees; `custom_type` names the extension's type of message."""
    payload = {"custom_type": custom_type, "content": content}
    return Draft(
        kind="custom_message",
        payload=payload if details is None else {**payload, "details": details},
        brief={"custom_type": custom_type},
    )


def change(kind: str, **settings: object) -> Draft:
    """Return a change of settings, small JSON values by name; None removes a setting.

    Args:
        kind: `model_change`, `thinking_change` or `mode_change`.
        settings: For example `model` and `provider`, `thinking`, `mode`.
    """
    return Draft(kind=kind, brief=settings)
