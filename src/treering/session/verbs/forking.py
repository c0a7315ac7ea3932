"""Make a new session from the path to a node of another session, or a linked session for a subagent."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context
from treering.errors import ConflictError, UsageError
from treering.format.record import Skeleton, decode_record, skeleton_of
from treering.format.register import Card
from treering.ids import now_ms, time_of
from treering.journal import life
from treering.journal.register import Attempts
from treering.kinds import Kind
from treering.session.content import Restored
from treering.session.creation import full_path
from treering.session.loader import Loader, copy_blobs
from treering.session.lookup import Lookup, holds
from treering.session.reader import Readable
from treering.session.record import Rider, flush, record
from treering.session.verbs.notes import note
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft

RECORDS_AT_ONCE = 1000
LINK = Draft(type="note", kind="link")
STREAM_NOTES = ("stream", "stream_end")
"""A stream stays with the parent."""


def fork(  # noqa: PLR0913  # what a fork may have of its own; all by keyword
    writer: Writer,
    session: str,
    *,
    node: str | None = None,
    title: str | None = None,
    project: str | None = None,
    cwd: str | None = None,
    extra: Mapping[str, object] | None = None,
    link: Draft = LINK,
    rider: Rider | None = None,
) -> Steps[None]:
    """Make a new session from the path to a node, with the context, state, labels and edits that belong to it.

    A link to the new session is recorded in the parent first, so that erasing finds the copies.

    Args:
        writer: The session to fork.
        session: Name of the new session.
        node: The node to fork at, as a `checkout` would restore it; by default the current node.
        title: Its title; by default that of the parent.
        project: Its project; by default that of the parent.
        cwd: Its working directory, for example a second checkout; by default that of the parent.
        extra: Further facts on its card; by default those of the parent.
        link: The link, with an id or facts of the caller's own. If there is a record of that id, an earlier call
            recorded it: then its node counts.
        rider: What the caller adds to the append of the link.

    Raises:
        UsageError: The name is that of the parent.
        ConflictError: A session of that name exists.
        NotFoundError: There is no such node.
    """
    if session == writer.keys.session:
        raise UsageError(f"a fork needs another name. session={session!r}")
    asked: dict[str, Any] = {"title": title, "project": project, "extra": None if extra is None else dict(extra)}
    asked["cwd"] = None if cwd is None else full_path(cwd)
    given = {name: value for name, value in asked.items() if value is not None}
    card = _child_card(writer, session, node, given)
    if writer.options.redaction is not None:
        card = writer.options.redaction.card(card)
    given = {name: getattr(card, name) for name in given}
    writer.options.hooks.call("before_fork", session=session, node=node)
    yield from flush(writer)
    yield from writer.position.ensure_context()
    begun = yield from _recorded(writer, link)
    node = begun.target if begun is not None else writer.position.node if node is None else node
    if node is not None:
        yield from writer.replica.ask(lambda look: look.node(node))
    keys = msgspec.structs.replace(writer.keys, session=session)
    yield from life.require_free(keys)
    if begun is None:
        link = msgspec.structs.replace(link, brief={**(link.brief or {}), "fork": session}, target=node)
        yield from record(writer, [link], rider=rider)
    yield from flush(writer)  # rule: fork-links-first
    if node == writer.position.node:
        yield from writer.position.require_basis()
    card = msgspec.structs.replace(card, parent_node=node)
    attempts = Attempts(keys.latest)
    while attempts.another():
        try:
            yield from _copy_path(writer, Loader(keys, writer.replica.policy, card), node, given)
        except ConflictError as error:
            if error.kind != Kind.EXISTS:
                raise
            yield from life.require_free(keys)
            continue  # a concurrent erasure or purge refused the load
        writer.options.hooks.call("after_fork", session=session, node=node)
        return


def _recorded(writer: Writer, link: Draft) -> Steps[Skeleton | None]:
    if link.id is None:
        return None
    name = link.id
    found = yield from writer.replica.ask(lambda look: look.records([name]))
    return found.get(name)


def _copy_path(writer: Writer, loader: Loader, node: str | None, given: Mapping[str, Any]) -> Steps[None]:
    """Copy the records that belong to a node. They are read after the name is taken, so an erasure finds the copy.

    Args:
        writer: The session.
        loader: Writes the fork.
        node: The node.
        given: Facts of the fork's card that differ from the parent's, whose notes would say otherwise.
    """
    yield from loader.take_name()
    yield from writer.replica.catch_up()  # rule: fork-reads-last
    writer.replica.check()
    yield from writer.position.ensure_context(blobs=True)
    restored = yield from _restored(writer, node)
    places, ordinary = yield from writer.replica.ask(lambda look: _places(look, node, restored.context))
    if ordinary:
        loader.expect_ordinary(restored.context.nodes)
    yield from _copy_records(writer, loader, places, without=STREAM_NOTES + (("card",) if "extra" in given else ()))
    card = loader.state.card
    for kind, names in (("title", ("title",)), ("place", ("project", "cwd"))):
        own = {name: given[name] for name in names if name in given and given[name] != getattr(card, name)}
        if own:
            yield from loader.add_draft(Draft(type="note", kind=kind, brief=own))
    yield from loader.stand("main", node, kept=_kept(restored))
    yield from loader.finish()


def _places(look: Lookup, node: str | None, context: Context) -> Steps[tuple[array[int], bool]]:
    """The positions of a node's path, of the paths to nodes of its context on other branches, and of their notes.

    Also returns whether these records are in the order of an ordinary session.
    """
    path = yield from look.places(node)
    for row in reversed((yield from look.all_nodes(context.nodes))):  # deepest first: its path has most of the others
        if not holds(path, row.at):
            path = array("q", sorted({*path, *(yield from look.places(row.id))}))
    return array("q", sorted([*path, *(yield from look.belonging(path))])), look.ordinary


def _restored(writer: Writer, node: str | None) -> Steps[Restored]:
    state = writer.replica.state
    if node == writer.position.node and state.context_at == node:
        return Restored(node, state.context, dict(state.lines), state.checkpoint)
    return (yield from writer.content.restore(node, head=writer.head))


def _kept(restored: Restored) -> Checkpoint:
    found = restored.checkpoint
    return Checkpoint(
        id="",
        parent=None,
        head="",
        node=restored.node,
        context=restored.context,
        state=dict(found.state) if found else {},
        manager=found.manager if found else None,
    )


def _child_card(writer: Writer, session: str, node: str | None, given: Mapping[str, Any]) -> Card:
    parent, now = writer.replica.state.card, now_ms()
    facts: dict[str, Any] = {name: getattr(parent, name) for name in ("title", "project", "cwd", "extra")}
    return Card(
        session=session,
        life="",
        write="",
        created=now,
        updated=now,
        parent_session=writer.keys.session,
        parent_node=node,
        **(facts | dict(given)),
    )


def _copy_records(reader: Readable, loader: Loader, places: Sequence[int], *, without: Collection[str]) -> Steps[None]:
    """Copy records, except notes of some kinds."""
    for start in range(0, len(places), RECORDS_AT_ONCE):
        part = places[start : start + RECORDS_AT_ONCE]
        lines = yield from reader.replica.lines_at(part)
        for at in part:
            record = decode_record(lines[at])
            if record.type == "note" and record.kind in without:
                continue
            yield from copy_blobs(reader, loader, [bytes(record.body)])
            timed = record.time is not None or time_of(record.id) is not None
            time = record.time if timed else skeleton_of(lines[at]).time
            yield from loader.add(msgspec.structs.replace(record, head="", time=time))


def link_child(writer: Writer, session: str, task: str) -> Steps[Card]:
    """Record that a subagent works in a session of its own; return the first card of that session."""
    if writer.options.redaction is not None:  # before it is cut: half a secret might not be recognised
        task = writer.options.redaction.text(task, "task")
    yield from flush(writer)
    yield from writer.position.ensure_context()
    node = writer.position.node
    yield from note(writer, "link", {"child": session, "task": task[:200]}, target=node)
    yield from flush(writer)
    card = _child_card(writer, session, node, {"title": ""})
    return msgspec.structs.replace(card, task=task, extra={})
