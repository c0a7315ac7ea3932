"""What is said about a session and its nodes: titles, labels, usage, data of extensions. No head moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treering.session.verbs import record
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft


def note(
    writer: Writer,
    kind: str,
    brief: Mapping[str, object] | None = None,
    *,
    target: str | None = None,
    payload: object = None,
) -> Steps[str]:
    """Hang a note on a node, or on the session as a whole; no head moves. Returns its id."""
    draft = Draft(type="note", kind=kind, target=target, brief=dict(brief or {}), payload=payload)
    done = yield from record(writer, [draft])
    return done.nodes[-1]


def label(writer: Writer, target: str, text: str | None) -> Steps[None]:
    """Name a node or a checkpoint; None takes the name off."""
    yield from note(writer, "label", {"label": text}, target=target)


def set_title(writer: Writer, title: str) -> Steps[None]:
    """Give the session another title; an empty one takes it off."""
    yield from note(writer, "title", {"title": title})


def move(writer: Writer, *, project: str | None = None, cwd: str | None = None) -> Steps[None]:
    """Say that the session belongs to another project or folder; its identity does not depend on them."""
    facts = {name: value for name, value in (("project", project), ("cwd", cwd)) if value is not None}
    yield from note(writer, "place", facts)


def set_status(writer: Writer, status: str) -> Steps[None]:
    """Say how the session stands, for lists: `done`, `waiting`, or any other short word."""
    yield from note(writer, "status", {"status": status})


def record_usage(writer: Writer, /, *, target: str | None = None, **numbers: float) -> Steps[None]:
    """Add up what a turn cost: tokens and money by name. Going back does not make it undone; it was spent."""
    yield from note(writer, "usage", numbers, target=target)


def record_system(writer: Writer, prompt: object, tools: Sequence[object] = ()) -> Steps[str]:
    """Record the system prompt and tools in force, for audit. They are not restored: code decides them."""
    draft = Draft(type="note", kind="system", payload={"prompt": prompt, "tools": list(tools)})
    return (yield from record(writer, [draft], here=True)).nodes[-1]


def record_extension(writer: Writer, extension: str, data: object, *, target: str | None = None) -> Steps[str]:
    """Record an extension's own data at a node, by default where the session stands."""
    draft = Draft(type="note", kind="extension", target=target, brief={"extension": extension}, payload=data)
    return (yield from record(writer, [draft], here=target is None)).nodes[-1]
