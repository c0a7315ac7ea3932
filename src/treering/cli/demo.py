"""`demo`: kill, resume, branch and rewind a session on the terminal, and check every claim."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import click

import treering
from treering.api.store import Store
from treering.checkpoint.checkpoint import CheckpointInfo
from treering.cli import exits
from treering.cli.checking import at_rest
from treering.cli.output import Output
from treering.cli.sample import Story, load_story
from treering.cli.settings import Settings, store_options
from treering.cli.text import counted, size_text
from treering.cli.tree import print_tree
from treering.errors import SessionHeldError, UsageError
from treering.ids import new_nonce
from treering.kinds import Kind
from treering.maintenance.verify import DAMAGE
from treering.storage.counting import CountingDriver
from treering.store.place import Place

LINES_BEFORE_KILL = 25  # output lines of the tool that never ends
TURNS_ADDED = 250  # four messages each, to make the session long
TURNS_PER_COMPACTION = 50
KILLED = 9  # the signal's number; `signal` has the name only on systems with that signal


@click.command()
@click.option("--remove", is_flag=True, help="Remove the demo's folder at the end.")
@store_options()
@click.pass_context
def demo(context: click.Context, *, remove: bool) -> None:
    """Kill an agent in the middle of a turn, and continue its session.

    Plays a small session of a coding agent into a new folder, or into the store given with --store. Ends with exit code
    1 if any claim does not hold.
    """
    settings: Settings = context.obj
    fresh = settings.store is None or settings.store_from_environment
    if fresh:
        settings.store = tempfile.mkdtemp(prefix="treering-demo-")
    elif settings.target.startswith("memory:"):
        raise UsageError("the demo's agent is a process of its own and cannot see this store", kind=Kind.TARGET)
    settings.open().sessions(limit=1)  # raises here, once, if the store does not answer
    show, name = Show(Output()), f"demo-{new_nonce()}"
    try:
        _play(settings, show, name)
        show.verdict()
    finally:
        if fresh and remove:
            shutil.rmtree(settings.target, ignore_errors=True)
    if not (fresh and remove):
        show.hint(settings, name)
    context.exit(exits.UNEXPECTED if show.failed else 0)


class Show:
    """Prints the demo, and counts the claims that do not hold."""

    def __init__(self, out: Output) -> None:
        self.out = out
        self.failed = 0
        self.claims = 0

    def chapter(self, title: str, text: str) -> None:
        """Begin the next part."""
        self.out.line("")
        self.out.line((title, "bold cyan"))
        self.out.line((text, "dim"))

    def claim(self, text: str, *, holds: bool, found: object = "") -> None:
        """Print a claim and whether it holds."""
        self.claims += 1
        self.failed += not holds
        mark = ("  ok  ", "bold green") if holds else ("  NO  ", "bold red")
        self.out.line(mark, text, (f"  {found}" if found != "" else "", "yellow"))

    def verdict(self) -> None:
        """Print the result."""
        verdict, style = ("all hold", "bold green") if not self.failed else (f"{self.failed} do not hold", "bold red")
        self.out.line("")
        self.out.line((f"{counted(self.claims, 'claim')} checked: {verdict}", style))

    def hint(self, settings: Settings, name: str) -> None:
        """Print further commands to try."""
        self.out.line("")
        self.out.block("export TREERING_STORE=" + shlex.quote(settings.target), "dim", indent=2)
        for command in ("ls", f"tree {name} --text", f"log {name}", f"context {name}"):
            self.out.block(f"treering {command}", "dim", indent=2)


class Worked(NamedTuple):
    """The acknowledgements that a killed agent had received."""

    acknowledged: list[str]
    """Ids of the nodes whose append returned, in order."""
    turns: int
    """Number of completed turns."""


def _play(settings: Settings, show: Show, name: str) -> None:
    story = load_story()
    worked = _work_until_killed(settings, show, story, name)
    _resume(settings, show, story, name, worked)
    _grow(settings, show, name)
    with settings.open().session(name, create=False) as session:
        _branch(show, story, session)
        _rewind(show, story, session)
    _look(settings, show, name)


def _work_until_killed(settings: Settings, show: Show, story: Story, name: str) -> Worked:
    show.chapter("An agent works", "A process of its own; every message is durable before it goes on. Then: kill -9.")
    acknowledged: list[str] = []
    turns = lines = 0
    with _agent(settings, name) as agent:
        for line in agent.stdout or ():
            word, _, value = line.strip().partition(" ")
            if word == "node":
                acknowledged.append(value)
            elif word == "turn":
                turns = int(value)
                show.out.line(("  turn  ", "bold blue"), story.turns[turns - 1].user)
            lines += turns == len(story.turns) - 1
            if lines == LINES_BEFORE_KILL:
                break
        else:
            raise click.ClickException("the demo's agent ended by itself; what it said stands above")
        _claim_held(settings, show, name)
        agent.kill()
        acknowledged += [line.split()[1] for line in agent.stdout or () if line.startswith("node ") and "\n" in line]
        show.claim("killed in the middle of a turn", holds=agent.wait() == -KILLED, found=f"signal {-agent.wait()}")
    show.claim("it had finished its turns before", holds=turns == len(story.turns) - 1, found=counted(turns, "turn"))
    return Worked(acknowledged, turns)


@contextmanager
def _agent(settings: Settings, name: str) -> Iterator[subprocess.Popen[str]]:
    options = ["single-writer" if settings.single_writer else "", *settings.namespace]
    command = [sys.executable, "-m", "treering.cli.sample.agent", settings.target, name, *options]
    agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)  # noqa: S603  # our own program
    try:
        with agent:
            yield agent
    finally:
        agent.kill()


def _claim_held(settings: Settings, show: Show, name: str) -> None:
    """On a local disk a second process gets an error at once."""
    if not settings.place().driver.proven:
        return
    try:
        settings.open().session(name, create=False).close()
    except SessionHeldError as error:
        holder = str(error).partition("holder=")[2].partition(",")[0].strip("'\"")
        show.claim("meanwhile a second writer is refused at once", holds=True, found=f"held by {holder}")
    else:
        show.claim("meanwhile a second writer is refused at once", holds=False)


def _resume(settings: Settings, show: Show, story: Story, name: str, worked: Worked) -> None:
    show.chapter("Resume", "Opened anew. What was acknowledged must be there, and nothing else is read.")
    session, counting = _open_counted(settings, name)
    with session:
        _claim_two_reads(show, counting)
        path = session.path()
        lost = [node for node in worked.acknowledged if node not in path]
        count = counted(len(worked.acknowledged), "message")
        show.claim("every acknowledged message is there", holds=not lost, found=count)
        more = len(path) - len(worked.acknowledged)
        show.claim(
            "besides them at most the one that was under way", holds=0 <= more <= 1, found=counted(more, "message")
        )
        last = story.turns[worked.turns - 1]
        show.claim(
            "the agent knows what it knew", holds=session.state == last.state, found=f"step {session.state['step']}"
        )
        seen = [item.node for item in session.recorded_context]
        show.claim("the context holds the turn that was cut off", holds=seen == list(path), found=f"{len(seen)} items")
        session.compact("Dry run over October: the first orders were converted, then it was cut off.", kept=None)
        session.commit(
            [treering.assistant("The dry run was cut off; I start it again.")], state={"step": worked.turns + 1}
        )
        show.claim("and it goes on", holds=len(session.context) == 2, found="compacted to 2 items")


def _open_counted(settings: Settings, name: str) -> tuple[treering.Session, CountingDriver]:
    place = settings.place()
    counting = CountingDriver(place.driver)
    return Store(Place(counting, place.prefix)).session(name, create=False), counting


def _claim_two_reads(show: Show, counting: CountingDriver) -> None:
    requests = ", ".join(f"{count} {kind.upper()}" for kind, count in counting.counts.items())
    found = f"{requests} in parallel, {size_text(counting.bytes_down)}"
    holds = dict(counting.counts) == {"Get": 2} and counting.batches == 1
    show.claim("resumed in two reads", holds=holds, found=found)


def _grow(settings: Settings, show: Show, name: str) -> None:
    show.chapter(
        "Grow", f"{TURNS_ADDED} more turns of four messages, a checkpoint at each, compactions in between; then sealed."
    )
    with settings.open().session(name, create=False) as session:
        for turn in range(TURNS_ADDED):
            session.commit(_turn(turn), state={"batch": turn})
            if turn % TURNS_PER_COMPACTION == TURNS_PER_COMPACTION // 2:
                session.compact(f"{turn + 1} batches of orders were converted.")
        session.seal()
        session.append(treering.user("Which orders need a look?"))
        nodes, expected = session.info.nodes, session.context
    session, counting = _open_counted(settings, name)
    with session:
        _claim_two_reads(show, counting)
        show.claim("with the same context", holds=session.context == expected, found=f"of {counted(nodes, 'node')}")


def _turn(number: int) -> Sequence[treering.Draft]:
    call = f"batch-{number}"
    use = {"type": "tool_use", "id": call, "name": "bash", "input": {"command": f"shop-convert --batch {number}"}}
    return (
        treering.user(f"Batch {number}, please."),
        treering.assistant([{"type": "text", "text": f"Converting batch {number}."}, use]),
        treering.tool(f"{17 + number % 5} orders converted, {number % 3} skipped", call=call, name="bash"),
        treering.assistant(f"Batch {number} is done; {number % 3} orders need a look."),
    )


def _branch(show: Show, story: Story, session: treering.Session) -> None:
    show.chapter("Branch", "Another idea, from the second turn on. The first branch stays.")
    idea, main, before = story.branch, session.head, session.node
    green = _labelled(session, story)
    session.branch(idea.name, node=green.node, summary=idea.summary, keep_state=False)
    session.commit([treering.user(idea.user), treering.assistant(idea.answer)], state={"step": 1, "idea": idea.name})
    heads = session.heads
    show.claim("there are two branches", holds={main, idea.name} == set(heads), found=", ".join(heads))
    show.claim("the first one stands where it stood", holds=heads[main] == before)
    shared = [node for node in session.path() if node in session.path(before)]
    show.claim(
        "both share what came before",
        holds=bool(shared) and shared[-1] == green.node,
        found=counted(len(shared), "node"),
    )


def _labelled(session: treering.Session, story: Story) -> CheckpointInfo:
    label = next(turn.label for turn in story.turns if turn.label)
    return next(entry for entry in session.checkpoints() if entry.label == label)


def _rewind(show: Show, story: Story, session: treering.Session) -> None:
    turn = next(turn for turn in story.turns if turn.label)
    show.chapter("Rewind", f"Back to the checkpoint labelled {turn.label!r}: state, context and node together.")
    green, nodes = _labelled(session, story), len(session.nodes())
    session.rewind(green.id)
    show.claim(
        "the agent knows what it knew then", holds=session.state == turn.state, found=f"step {session.state['step']}"
    )
    last = session.context[-1].message
    saw = session.node == green.node and isinstance(last, dict) and last["content"] == turn.answer
    show.claim("the model sees what it saw then", holds=saw, found=f"{len(session.context)} items")
    show.claim("nothing of what came after is gone", holds=len(session.nodes()) == nodes, found=counted(nodes, "node"))


def _look(settings: Settings, show: Show, name: str) -> None:
    show.chapter("Look", "The whole session; straight runs are folded.")
    store = settings.open()
    view = store.view(name)
    nodes = view.nodes()
    print_tree(show.out, view, tuple(view.tree()), dict(zip(nodes.ids, nodes.parents, strict=True)))
    with store.session(name, create=False) as session:
        session.seal()
        session.optimize(everything=True)
    show.chapter("Seal and verify", "Everything is read once more, every checksum compared.")
    stored = store.view(name).perform(at_rest)
    show.claim(
        "sealed",
        holds=stored.segments >= 1,
        found=f"{counted(stored.records, 'record')}, {size_text(stored.bytes)} in all",
    )
    damage = [finding for finding in store.verify(name) if finding.severity == DAMAGE]
    show.claim("nothing is damaged", holds=not damage, found=damage[0].message if damage else "")
