"""From what a user typed to the session, node or checkpoint that is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Literal, NamedTuple, TypeVar

from treering.cli.text import ELLIPSIS
from treering.errors import NotFoundError, UsageError
from treering.session.blocking import Session, View
from treering.session.info import SessionInfo
from treering.session.store import Store

T = TypeVar("T")

Handle = View | Session

PART_CHARACTERS_MIN = 4  # fewer would too often name something by accident
CANDIDATES_MAX = 10
NEAREST_MAX = 3
COMPARED_MAX = 10_000  # names that one of them is looked for among: some 0.1 s
SESSIONS_AT_ONCE = 500


class Point(NamedTuple):
    """A place in a session."""

    kind: Literal["node", "checkpoint"]
    id: str


def open_view(store: Store, name: str) -> View:
    """Open a session for reading, by its name or a part of it."""
    return _by_name(store, name, store.view)


def open_session(store: Store, name: str) -> Session:
    """Open an existing session for writing, by its name or a part of it."""
    return _by_name(store, name, lambda exact: store.session(exact, create=False))


def find_session(store: Store, name: str) -> str:
    """Return the full name of a session."""
    return open_view(store, name).id


def _by_name(store: Store, name: str, use: Callable[[str], T]) -> T:
    try:
        return use(name)
    except NotFoundError as error:
        if error.kind != "session":
            raise
        known = [row.id for row in all_sessions(store)]
        part = name.strip(ELLIPSIS)
        parts = {each for each in known if _is_part(part, each)} if len(part) >= PART_CHARACTERS_MIN else set()
        found = _only(part, parts, "session")
        if found is None:
            raise _not_found(name, known, error) from None
    return use(found)


@contextmanager
def naming_exactly(store: Store, name: str) -> Iterator[None]:
    """Do what needs the full name of a session; if there is none, say which names look like it."""
    try:
        yield
    except NotFoundError as error:
        if error.kind != "session":
            raise
        raise _not_found(name, [row.id for row in all_sessions(store)], error) from None


def _not_found(name: str, known: Sequence[str], error: NotFoundError) -> NotFoundError:
    """The error for a name that nothing has, with those of the last sessions that look most like it."""
    folded = {each.casefold(): each for each in known[:COMPARED_MAX]}
    nearest = [folded[each] for each in get_close_matches(name.casefold(), folded, NEAREST_MAX)]
    meant = f"did you mean {' or '.join(map(repr, nearest))}?" if nearest else "`treering ls` lists all sessions"
    return NotFoundError(f"there is no session {name!r}", kind=error.kind, key=error.key, remedy=meant)


def all_sessions(
    store: Store,
    *,
    project: str | None = None,
    cwd: str | None = None,
    status: str | None = None,
    after: str | None = None,
) -> Iterator[SessionInfo]:
    """Yield all sessions, the most recently active first, a page in memory at a time."""
    while True:
        page = store.sessions(project=project, cwd=cwd, status=status, limit=SESSIONS_AT_ONCE, after=after)
        yield from page.rows
        if page.after is None:
            return
        after = page.after


def find_point(view: Handle, text: str) -> Point:
    """Return the node or checkpoint that `text` names.

    What fits exactly comes first: an id, then a label or head, then the beginning or end of an id.

    Raises:
        NotFoundError: Nothing is named so.
        UsageError: Several are; the message lists them.
    """
    points = {row.id: Point("node", row.id) for row in view.nodes()}
    entries = view.checkpoints()
    points |= {entry.id: Point("checkpoint", entry.id) for entry in entries}
    if text in points:
        return points[text]
    named = {name for name, label in view.labels().items() if label == text}
    named |= {entry.id for entry in entries if entry.label == text}
    named |= {node for head, node in view.heads.items() if head == text and node is not None}
    part = text.strip(ELLIPSIS)
    if not named & points.keys() and len(part) >= PART_CHARACTERS_MIN:
        named = {each for each in points if _is_part(part, each)}
    found = _only(text, named & points.keys(), "node or checkpoint")
    if found is None:
        raise NotFoundError(
            f"no node, checkpoint, label or head is named {text!r} in session {view.id!r}",
            kind="point",
            remedy="`treering log` and `treering checkpoints` list what there is",
        )
    return points[found]


def find_node(view: Handle, text: str) -> str:
    """Return the node that `text` names; a checkpoint stands for the node it was made at.

    Raises:
        NotFoundError: Nothing is named so, or the checkpoint was made before the first node.
        UsageError: Several are; the message lists them.
    """
    point = find_point(view, text)
    if point.kind == "node":
        return point.id
    node = next(entry.node for entry in view.checkpoints() if entry.id == point.id)
    if node is None:
        raise NotFoundError(f"checkpoint was made before the first node. checkpoint={point.id!r}", kind="node")
    return node


def find_checkpoint(view: Handle, text: str) -> str:
    """Return the checkpoint that `text` names; a node stands for the newest one made at it.

    Raises:
        NotFoundError: Nothing is named so, or no checkpoint was made at the node.
        UsageError: Several are; the message lists them.
    """
    point = find_point(view, text)
    if point.kind == "checkpoint":
        return point.id
    made = [entry.id for entry in view.checkpoints() if entry.node == point.id]
    if not made:
        raise NotFoundError(f"no checkpoint was made at this node. node={point.id!r}", kind="checkpoint")
    return made[-1]


def _is_part(part: str, identifier: str) -> bool:
    return identifier.startswith(part) or identifier.endswith(part)


def _only(text: str, found: Iterable[str], noun: str) -> str | None:
    names = sorted(found)
    if len(names) > 1:
        listed = ", ".join(names[:CANDIDATES_MAX]) + (", ..." if len(names) > CANDIDATES_MAX else "")
        raise UsageError(f"{text!r} names more than one {noun}: {listed}", kind="ambiguous")
    return names[0] if names else None
