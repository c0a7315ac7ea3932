"""Find the session, node or checkpoint that a user's text names."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Literal, NamedTuple, TypeVar

from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.cli.output import Cell, Output
from treering.cli.text import ELLIPSIS, counted
from treering.errors import NotFoundError, UsageError
from treering.format.paths import namespaces_in, prefix_of
from treering.kinds import Kind
from treering.storage.run import run
from treering.store.info import SessionInfo
from treering.store.inventory import prefixes
from treering.store.place import wanted_by

T = TypeVar("T")

Handle = View | Session

PART_CHARACTERS_MIN = 4  # fewer would match by accident too often
POSITION_DIGITS_MAX = 15  # no session has more records
CANDIDATES_MAX = 10
NEAREST_MAX = 3
COMPARED_MAX = 10_000  # names that are compared for similarity: some 0.1 s


class Point(NamedTuple):
    """A place in a session."""

    kind: Literal["node", "checkpoint"]
    id: str


def open_view(store: Store, name: str, as_of: str | None = None) -> View:
    """Open a session for reading, by its name or a part of it.

    Args:
        store: The store.
        name: The name.
        as_of: A number of records, or a node or checkpoint: open the session as it was then. None: as it is now.

    Raises:
        NotFoundError: There is no such session, node or checkpoint, or the state of that time was pruned.
        UsageError: Several sessions match the name, or the session never had that many records.
    """
    view = _by_name(store, name, Store.view)
    return view if as_of is None else _as_of(view, as_of)


def _as_of(view: View, text: str) -> View:
    """A session at an earlier time; a number that is too large may be a part of an id."""
    if not (text.isascii() and text.isdecimal() and len(text) <= POSITION_DIGITS_MAX):
        return view.at(_position_of(view, text))
    try:
        return view.at(int(text))
    except UsageError as error:
        try:
            position = _position_of(view, text)
        except NotFoundError:
            raise error from None
    return view.at(position)


def _position_of(view: View, text: str) -> int:
    """The position behind a node or checkpoint."""
    point = find_point(view, text)
    if point.kind == "node":
        nodes = view.nodes()
        return nodes.positions[nodes.ids.index(point.id)] + 1
    return next(entry.at for entry in view.checkpoints() if entry.id == point.id) + 1


def open_session(store: Store, name: str, *, below: bool = True) -> Session:
    """Open an existing session for writing, by its name or a part of it; without `below` only in this namespace."""
    return _by_name(store, name, lambda there, exact: there.session(exact, create=False), below=below)


def find_session(store: Store, name: str) -> tuple[Store, str]:
    """Return the part of the store that a session is in, and its full name."""
    return _by_name(store, name, lambda there, exact: (there, there.view(exact).id))


def _by_name(store: Store, name: str, use: Callable[[Store, str], T], *, below: bool = True) -> T:
    """Use the session with this name here, else the only one below, else the only one whose name contains it."""
    try:
        return use(store, name)
    except NotFoundError as error:
        if error.kind != Kind.SESSION:
            raise
        known = list(store.each_session(below=True))
        looked_at = known if below else [row for row in known if row.namespace == namespace_of(store)]
        found = _only_session(name, [row for row in looked_at if row.id == name] or _with_part(looked_at, name))
        if found is None:
            raise _not_found(name, known, error) from None
    if found.namespace != namespace_of(store):
        Output().say(f"in {options_of(found)}")
    return use(part_of(store, found.namespace), found.id)


def _with_part(known: Iterable[SessionInfo], name: str) -> list[SessionInfo]:
    part = name.strip(ELLIPSIS)
    return [row for row in known if _is_part(part, row.id)] if len(part) >= PART_CHARACTERS_MIN else []


def _only_session(text: str, found: Sequence[SessionInfo]) -> SessionInfo | None:
    rows = {typed(row): row for row in found}
    only = _only(text, rows, "session")
    return rows[only] if only is not None else None


def namespace_of(store: Store) -> tuple[str, ...]:
    """The namespaces of a store, outermost first."""
    return namespaces_in(store.place.prefix)


def part_of(store: Store, namespace: Sequence[str]) -> Store:
    """The part of a store in these namespaces, outermost first."""
    return Store(store.place.at(prefix_of(namespace)))


def parts_of(store: Store) -> list[Store]:
    """A store, and all namespaces in it, at any depth."""
    place = store.place
    found = run(prefixes(place.prefix, appends=place.driver.appends), place.driver)
    return [Store(place.at(prefix)) for prefix in found]


def tell_left_alone(out: Output, store: Store) -> None:
    """Print how many namespaces a command skipped."""
    if left := len(parts_of(store)) - 1:
        out.say(f"{counted(left, 'namespace')} in this store left alone: --all-namespaces")


def options_of(info: SessionInfo) -> str:
    """The command line options for the namespace of a session; empty if it is in none."""
    return " ".join(f"--namespace={shlex.quote(name)}" for name in info.namespace)


def typed(info: SessionInfo) -> str:
    """The arguments that name a session on the command line."""
    return " ".join(filter(None, (options_of(info), shlex.join(argument_of(info.id)))))


def argument_of(session: str) -> list[str]:
    """Return the words that name a session on the command line, behind all options."""
    return ["--", session] if session.startswith("-") else [session]


def namespace_cell(namespace: Sequence[str]) -> Cell:
    """Namespaces in a table, the outer one first."""
    return Cell(" > ".join(namespace), style="dim")


@contextmanager
def naming_exactly(store: Store, name: str) -> Iterator[None]:
    """Run a block that needs the full name of a session; if there is none, suggest similar names."""
    try:
        yield
    except NotFoundError as error:
        if error.kind != Kind.SESSION:
            raise
        raise _not_found(name, list(store.each_session(below=True)), error) from None


def _not_found(name: str, known: Sequence[SessionInfo], error: NotFoundError) -> NotFoundError:
    """The error for an unknown name, with the most similar names of recent sessions."""
    folded = {row.id.casefold(): row for row in reversed(known[:COMPARED_MAX])}
    same = [row for row in known if row.id == name]
    nearest = same or [folded[each] for each in get_close_matches(name.casefold(), folded, NEAREST_MAX)]
    said = [f"{typed(row)}" if row.namespace else repr(row.id) for row in nearest[:NEAREST_MAX]]
    listed = _needs_more(name) or "`treering ls` lists all sessions"
    meant = f"did you mean {' or '.join(said)}?" if said else listed
    return NotFoundError(f"there is no session {name!r}", kind=error.kind, key=error.key, remedy=meant)


def all_sessions(
    store: Store, *, project: str | None = None, cwd: str | None = None, status: str | None = None
) -> Iterator[SessionInfo]:
    """Yield all sessions, including those of namespaces below, also those that no page of a list shows."""
    wanted = wanted_by(project, cwd, status)
    return (row for row in store.each_session(below=True) if row.warning or wanted.fits(row))


def find_point(view: Handle, text: str) -> Point:
    """Return the node or checkpoint that `text` names.

    Searched in this order: ids, labels and heads, beginnings and ends of ids.

    Raises:
        NotFoundError: Nothing is named so.
        UsageError: Several are; the message lists them.
    """
    points = {name: Point("node", name) for name in view.nodes().ids}
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
            kind=Kind.POINT,
            remedy=_needs_more(text) or "`treering log` and `treering checkpoints` list what there is",
        )
    return points[found]


def find_node(view: Handle, text: str) -> str:
    """Return the node that `text` names; a checkpoint means its node.

    Raises:
        NotFoundError: Nothing is named so, or the checkpoint was made before the first node.
        UsageError: Several are; the message lists them.
    """
    point = find_point(view, text)
    if point.kind == "node":
        return point.id
    node = next(entry.node for entry in view.checkpoints() if entry.id == point.id)
    if node is None:
        raise NotFoundError(f"checkpoint was made before the first node. checkpoint={point.id!r}", kind=Kind.NODE)
    return node


def find_checkpoint(view: Handle, text: str) -> str:
    """Return the checkpoint that `text` names; a node means its newest checkpoint.

    Raises:
        NotFoundError: Nothing is named so, or no checkpoint was made at the node.
        UsageError: Several are; the message lists them.
    """
    point = find_point(view, text)
    if point.kind == "checkpoint":
        return point.id
    made = [entry.id for entry in view.checkpoints() if entry.node == point.id]
    if not made:
        raise NotFoundError(f"no checkpoint was made at this node. node={point.id!r}", kind=Kind.CHECKPOINT)
    return made[-1]


def _needs_more(text: str) -> str:
    """The remedy for a text that is too short for a part of a name; empty if it is long enough."""
    short = len(text.strip(ELLIPSIS)) < PART_CHARACTERS_MIN
    return f"type at least {PART_CHARACTERS_MIN} characters of its beginning or end" if short else ""


def _is_part(part: str, identifier: str) -> bool:
    return identifier.startswith(part) or identifier.endswith(part)


def _only(text: str, found: Iterable[str], noun: str) -> str | None:
    names = sorted(found)
    if len(names) > 1:
        listed = ", ".join(names[:CANDIDATES_MAX]) + (", ..." if len(names) > CANDIDATES_MAX else "")
        raise UsageError(f"{text!r} names more than one {noun}: {listed}", kind=Kind.AMBIGUOUS)
    return names[0] if names else None
