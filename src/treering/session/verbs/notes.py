"""Record notes about a session and its nodes: titles, labels, usage, data of extensions. No head moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treering.errors import UsageError
from treering.kinds import Kind
from treering.session.creation import full_path
from treering.session.record import record
from treering.session.recording import require_text
from treering.session.state import AMOUNT_MAX, is_amount
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
    """Attach a note to a node, or to the whole session; no head moves. Returns its id."""
    draft = Draft(type="note", kind=kind, target=target, brief=dict(brief or {}), payload=payload)
    return (yield from record(writer, [draft])).node


def label(writer: Writer, target: str, text: str | None) -> Steps[None]:
    """Label a node or a checkpoint; None removes the label."""
    yield from note(writer, "label", {"label": None if text is None else require_text("label", text)}, target=target)


def set_title(writer: Writer, title: str) -> Steps[None]:
    """Set the title of the session; an empty one removes it."""
    yield from note(writer, "title", {"title": require_text("title", title)})


def move(writer: Writer, *, project: str | None = None, cwd: str | None = None) -> Steps[None]:
    """Set the project or the folder of the session; the folder is made absolute. Neither identifies the session."""
    facts: dict[str, object] = {}
    if project is not None:
        facts["project"] = require_text("project", project)
    if cwd is not None:
        facts["cwd"] = full_path(require_text("cwd", cwd))
    yield from note(writer, "place", facts)


def set_status(writer: Writer, status: str) -> Steps[None]:
    """Set the status that lists show: `done`, `waiting`, or any other short word."""
    yield from note(writer, "status", {"status": require_text("status", status)})


def record_usage(
    writer: Writer, /, *, target: str | None = None, turn: bool = True, reset: bool = False, **numbers: float
) -> Steps[None]:
    """Add the cost of a turn to the sums: tokens and money by name. Navigating back does not subtract it.

    Imports use the names `input`, `output`, `cache_read`, `cache_write`, `reasoning`, `total` and `cost`.

    Args:
        writer: The session.
        target: The node that the usage belongs to.
        turn: False for a call of a model outside the turns, such as one that summarises: it is added to the sums, and
            `last_usage`, which gives the size of the context, does not change.
        reset: Start the sums anew with these numbers.
        numbers: Amounts by name.

    Raises:
        UsageError: An amount is no number, or is not finite. Further errors are those of `append`.
    """
    for name, number in numbers.items():
        if not is_amount(number):
            raise UsageError(
                f"an amount must be a finite number up to {AMOUNT_MAX:g}. {name}={number!r}", kind=Kind.VALUE,
                remedy="leave out what is not known",
            )  # fmt: skip
    flags = ({} if turn else {"turn": False}) | ({"reset": True} if reset else {})
    yield from note(writer, "usage", {**numbers, **flags}, target=target)


def record_system(writer: Writer, prompt: object, tools: Sequence[object] = ()) -> Steps[str]:
    """Record the current system prompt and tools, for audit; they are not restored. Returns the id of the note."""
    draft = Draft(type="note", kind="system", payload={"prompt": prompt, "tools": list(tools)})
    return (yield from record(writer, [draft], here=True)).node


def record_extension(writer: Writer, extension: str, data: object, *, target: str | None = None) -> Steps[str]:
    """Record an extension's own data at a node, by default the current one. Returns the id of the note."""
    draft = Draft(type="note", kind="extension", target=target, brief={"extension": extension}, payload=data)
    return (yield from record(writer, [draft], here=target is None)).node
