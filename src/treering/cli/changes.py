"""`branch`, `fork`, `rewind`, `seal` and `rm`: the commands that change a session."""

from __future__ import annotations

import click
import msgspec

from treering.api.session import Session
from treering.api.store import Store
from treering.cli import exits
from treering.cli.asking import agreed
from treering.cli.completion import session_argument
from treering.cli.names import (
    find_checkpoint,
    find_node,
    find_point,
    find_session,
    naming_exactly,
    open_session,
    open_view,
)
from treering.cli.output import Cell, Field, Output, id_cell
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted, one_line, size_text
from treering.errors import CorruptError, NotFoundError


@click.command()
@json_option
@session_argument()
@click.argument("name", required=False)
@click.option("--at", metavar="ID", help="Branch off here instead of where the session stands.")
@click.option("--summary", metavar="TEXT", help="What the model reads about the branch that it leaves.")
@click.option("--old-state", is_flag=True, help="Go back to the agent's state at that place, too.")
@click.option("--switch", is_flag=True, help="Continue on an existing branch.")
@click.option("--drop", is_flag=True, help="Remove the name of a branch; its nodes stay.")
@store_options()
@click.pass_obj
def branch(
    settings: Settings, *, as_json: bool, session: str, name: str | None, at: str | None, summary: str | None,
    old_state: bool, switch: bool, drop: bool,
) -> None:  # fmt: skip
    """List the branches, or make one and continue there.

    Without NAME they are listed.
    """
    out = Output()
    if switch and drop:
        raise click.UsageError("--switch and --drop exclude each other")
    if (switch or drop) and (at is not None or summary is not None):
        raise click.UsageError("--at and --summary go with a new branch")
    if name is None:
        if switch or drop or at is not None or summary is not None or old_state:
            raise click.UsageError("give the branch a NAME")
        _list_branches(settings, out, session, as_json=as_json)
        return
    with open_session(settings.open(), session) as opened:
        if switch:
            opened.switch(name, keep_state=not old_state)
        elif drop:
            opened.drop_head(name)
        else:
            node = find_node(opened, at) if at is not None else None
            opened.branch(name, node=node, summary=summary, keep_state=not old_state)
        _print_place(out, opened, as_json=as_json)


def _list_branches(settings: Settings, out: Output, session: str, *, as_json: bool) -> None:
    view = open_view(settings.open(), session)
    if as_json:
        out.document({"head": view.head, "node": view.node, "heads": dict(view.heads)})
        return
    rows = (
        (Cell("*" if name == view.head else "", style="bold green"), Cell(name, style="green"), id_cell(node))
        for name, node in view.heads.items()
    )
    out.table(("", "branch", "node"), rows)


def _print_place(out: Output, session: Session, *, as_json: bool = False) -> None:
    """Print the head, node and checkpoint of a session."""
    if as_json:
        out.document(
            {"session": session.id, "head": session.head, "node": session.node, "checkpoint": session.checkpoint_id}
        )
        return
    facts: tuple[tuple[str, Field], ...] = (
        ("session", session.id),
        ("head", Cell(session.head, style="green")),
        ("node", id_cell(session.node)),
        ("checkpoint", id_cell(session.checkpoint_id)),
    )
    out.facts(facts)


@click.command()
@json_option
@session_argument()
@click.argument("new")
@click.option("--at", metavar="ID", help="Take the path to this node instead of where the session stands.")
@click.option("--title", metavar="TEXT", help="Title of the new session.  [default: the same]")
@click.option("--cwd", metavar="FOLDER", help="Its working directory.  [default: the same]")
@store_options()
@click.pass_obj
def fork(
    settings: Settings, *, as_json: bool, session: str, new: str, at: str | None, title: str | None, cwd: str | None
) -> None:
    """Make a new session from the path to a node.

    It gets the context, state, labels and edits of the path; each session has a link to the other.
    """
    out = Output()
    store, exact = find_session(settings.open(), session)
    with store.session(exact, create=False) as opened:
        opened.fork(new, node=find_node(opened, at) if at is not None else None, title=title, cwd=cwd)
    with store.session(new, create=False) as forked:
        _print_place(out, forked, as_json=as_json)


@click.command()
@json_option
@session_argument()
@click.argument("to")
@store_options()
@click.pass_obj
def rewind(settings: Settings, *, as_json: bool, session: str, to: str) -> None:
    """Go back to an earlier checkpoint or node.

    A checkpoint restores its state, context and node together. Later nodes stay as a branch.

    TO may also name a node: then the session continues there, with the state and context of that time.
    """
    out = Output()
    with open_session(settings.open(), session) as opened:
        if find_point(opened, to).kind == "checkpoint":
            opened.rewind(find_checkpoint(opened, to))
        else:
            opened.checkout(find_node(opened, to))
        _print_place(out, opened, as_json=as_json)
        for key in opened.erased_state:
            out.say("the state of the conversation manager was erased" if key is None else f"state was erased: {key}")


@click.command()
@json_option
@session_argument()
@store_options()
@click.pass_obj
def seal(settings: Settings, *, as_json: bool, session: str) -> None:
    """Seal and merge the stored records of a session.

    Writes the records that are not sealed yet to a segment, merges small segments, and deletes superfluous ones.
    """
    out = Output()
    with open_session(settings.open(), session) as opened:
        before = opened.stored()
        opened.seal()
        opened.optimize(everything=True)
        after = opened.stored()
    if as_json:
        out.document(
            {"session": opened.id, "before": msgspec.structs.asdict(before), "after": msgspec.structs.asdict(after)}
        )
        return
    out.facts(
        (
            ("session", opened.id),
            ("segments", f"{before.segments} -> {after.segments}"),
            ("bytes", Cell(str(after.segment_bytes), size_text(after.segment_bytes))),
        )
    )


@click.command()
@session_argument()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--missing-ok", is_flag=True, help="It is no error if there is no such session.")
@store_options()
@click.pass_context
def rm(context: click.Context, *, session: str, yes: bool, missing_ok: bool) -> None:
    """Delete a session and everything in it. Needs its full name, not a part of it."""
    store, out = context.find_object(Settings).open(), Output()  # type: ignore[union-attr]  # made by the program
    try:
        with naming_exactly(store, session):
            if not yes and not agreed(lambda: f"delete session {_describe(store, session)}?", verb="delete"):
                out.say(f"kept {session}")
                context.exit(exits.INTERRUPTED)
            store.delete(session)
    except NotFoundError:
        if not missing_ok:
            raise
        out.say(f"there is no session {session}")
        return
    out.say(f"deleted {session}")


def _describe(store: Store, session: str) -> str:
    name = one_line(session, 60)
    try:
        info = store.view(session).info
    except CorruptError:
        return f"{name} (it is damaged)"
    about = one_line(info.title or info.first_prompt or "untitled", 60)
    return f"{name} ({about}; {counted(info.messages, 'message')})"
