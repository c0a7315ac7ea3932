"""Graphs and swarms: broken off, interrupted, nested; and the transcript of every node, which Strands never keeps."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from strands.hooks import BeforeNodeCallEvent, HookProvider, HookRegistry
from strands.multiagent.base import Status
from strands.session import FileSessionManager, SnapshotSessionManager
from strands.storage import LocalFileStorage
from strands.types.exceptions import SessionException
from tests.integrations.strands.agents import said
from tests.integrations.strands.fake_model import Call, Calls, Redacted
from tests.integrations.strands.orchestras import DIAMOND, agent, answer, asked, graph, hand_over, swarm
from tests.session.at_rest import holding
from tests.session.backends import Backend, local_backend, memory_backend

from treering import ConflictError, TreeringError
from treering.importers import FileImporter, find_sessions
from treering.integrations.strands import TreeringSessionManager
from treering.programs.strands.keys import serialized_state
from treering.storage.requests import Put

PNG = b"\x89PNG\x00\xff"


@pytest.fixture
def backend() -> Backend:
    """A place for sessions."""
    return memory_backend()


def manager(backend: Backend) -> TreeringSessionManager:
    """A session manager of a new process."""
    return TreeringSessionManager(backend.store(), "s")


def told(backend: Backend, name: str) -> list[str]:
    """The conversation of a session where it stands, in short."""
    return said([item.message for item in backend.store().view(name).recorded_context])


class Gate(HookProvider):
    """Asks before a node runs."""

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        registry.add_callback(BeforeNodeCallEvent, self.ask)

    def ask(self, event: BeforeNodeCallEvent) -> None:
        if event.node_id == "b":
            event.interrupt("allowed", reason="may b run?")


class FailingError(Exception):
    """A model that breaks off."""


# where it goes on


def test_a_graph_goes_on_behind_the_nodes_that_ended(backend: Backend) -> None:
    """With what was stored while a node ran, another process runs what is left, and has the results there were."""
    left = memory_backend()

    def killed(_: Any) -> str:
        puts = tuple(Put(key, data) for key, data in backend.snapshot().items())
        assert not any(isinstance(each, TreeringError) for each in left.driver().execute(puts))
        return "never seen"

    graph(manager(backend), {"a": ["A"], "b": ["B"], "c": killed, "d": ["-"]}, DIAMOND)("go")
    again = graph(manager(left), {"a": [], "b": ["B"], "c": ["C"], "d": ["D"]}, DIAMOND)
    had = set(again.state.results)
    assert {"a"} <= had <= {"a", "b"}
    result = again("go")
    assert result.status == Status.COMPLETED
    assert asked(again) == {"a": 0, "b": "b" not in had, "c": 1, "d": 1}
    assert {name: str(each.result) for name, each in result.results.items()} == {
        "a": "A\n", "b": "B\n", "c": "C\n", "d": "D\n",
    }  # fmt: skip
    assert told(left, "s/multi/g/c")[-1] == "C"
    assert len(left.store().view("s/multi/g/c").leaves()) == 2


def test_a_graph_that_ended_begins_anew(backend: Backend) -> None:
    """What is complete is not run again by mistake, and a new task runs every node."""
    assert graph(manager(backend), {"a": ["A"], "b": ["B"]}, [("a", "b")])("one").status == Status.COMPLETED
    again = graph(manager(backend), {"a": ["A2"], "b": ["B2"]}, [("a", "b")])
    again("two")
    assert asked(again) == {"a": 1, "b": 1}
    assert told(backend, "s/multi/g/b")[-1] == "B2"


def test_a_question_inside_a_node_is_answered_in_another_process(backend: Backend) -> None:
    """Its state is there before the answer is, so the tool gets it; the other nodes do not run again."""
    asking = graph(manager(backend), {"a": ["A"], "b": [Calls(Call("ask"))], "c": ["C"], "d": []}, DIAMOND)
    question = asking("go")
    assert question.status == Status.INTERRUPTED
    again = graph(manager(backend), {"a": [], "b": ["B"], "c": [], "d": ["D"]}, DIAMOND)
    result = again(answer(question))
    assert result.status == Status.COMPLETED
    assert asked(again) == {"a": 0, "b": 1, "c": 0, "d": 1}
    assert told(backend, "s/multi/g/b")[1:] == ["call:ask", "result:answer: yes", "B"]
    assert len(backend.store().view("s/multi/g/b").nodes()) == 4


def test_a_question_before_a_node_is_answered_in_another_process(backend: Backend) -> None:
    """A hook of the application that asks is answered likewise."""
    nodes = {"a": ["A"], "b": ["B"]}
    question = graph(manager(backend), nodes, [("a", "b")], hooks=[Gate()])("go")
    assert [each.reason for each in question.interrupts] == ["may b run?"]
    again = graph(manager(backend), nodes, [("a", "b")], hooks=[Gate()])
    assert again(answer(question)).status == Status.COMPLETED
    assert asked(again) == {"a": 0, "b": 1}


def test_a_wrong_answer_keeps_nobody_out(tmp_path: Path) -> None:
    """An answer that Strands refuses runs nothing, and another process can give the right one."""
    backend = local_backend(tmp_path)
    shared = manager(backend)
    question = graph(shared, {"a": [Calls(Call("ask"))]})("go")
    wrong = graph(manager(backend), {"a": []})
    with pytest.raises(TypeError):
        wrong("yes")
    result = graph(manager(backend), {"a": ["A"]})(answer(question))
    assert result.status == Status.COMPLETED
    assert asked(wrong) == {"a": 0}


def test_a_swarm_goes_on_with_the_agent_whose_turn_it_is(backend: Backend) -> None:
    """Who had the task last has it again, with the answer to its question."""
    question = swarm(manager(backend), {"a": [hand_over("b"), "-"], "b": [Calls(Call("ask"))]})("go")
    assert question.status == Status.INTERRUPTED
    again = swarm(manager(backend), {"a": [], "b": ["B"]})
    result = again(answer(question))
    assert result.status == Status.COMPLETED
    assert asked(again) == {"a": 0, "b": 1}
    assert told(backend, "s/multi/w/b")[1:] == ["call:ask", "result:answer: yes", "B"]
    assert told(backend, "s/multi/w/a")[1] == "call:handoff_to_agent"


def test_bytes_in_a_task_survive(backend: Backend) -> None:
    """An image in the task comes to the node that runs after the restart."""
    task = [{"text": "look"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]
    with pytest.raises(FailingError):
        graph(manager(backend), {"a": ["A"], "b": [FailingError()]}, [("a", "b")])(task)  # type: ignore[arg-type]
    again = graph(manager(backend), {"a": [], "b": ["B"]}, [("a", "b")])
    again(task)  # type: ignore[arg-type]
    assert asked(again) == {"a": 0, "b": 1}
    executor: Any = again.nodes["b"].executor
    assert any(block == task[1] for block in executor.messages[0]["content"])


# what is kept


def test_states_never_go_backwards(backend: Backend) -> None:
    """Nodes that end at once are recorded in the order in which they ended, the last state last."""
    names = [f"n{number}" for number in range(12)]
    nodes = {"start": ["go"], **{name: [name] for name in names}}
    done = graph(manager(backend), nodes, [("start", name) for name in names])
    done("go")
    view = backend.store().view("s/multi/g")
    states: list[Any] = [view.checkpoint(entry.id).state for entry in view.checkpoints()]
    counts = [len(state["completed_nodes"]) for state in states]
    assert counts == sorted(counts)
    assert counts[-1] == 13
    kept = serialized_state(view.state)
    assert kept == json.loads(json.dumps(done.serialize_state())) | {"execution_time": kept["execution_time"]}


def test_a_node_writes_what_changed(backend: Backend) -> None:
    """The result of a node is written once, however many nodes end after it."""
    names = [f"n{number}" for number in range(8)]
    graph(manager(backend), {name: [f"the result of {name}"] for name in names}, pairwise(names))("go")
    lines = b"".join(backend.store().view("s/multi/g").lines())
    assert lines.count(b"the result of n0") == 1


def test_requests(backend: Backend) -> None:
    """Two reads load a graph and write nothing; a message costs one request, and so does the end of a node."""
    graph(manager(backend), {"a": ["A"], "b": ["B"]}, [("a", "b")])("go")
    store, counts = backend.counted()
    before = backend.snapshot()
    again = graph(TreeringSessionManager(store, "s"), {"a": ["A"], "b": ["B"]}, [("a", "b")])
    assert (counts.total, backend.snapshot()) == (2, before)
    again("again")
    counts.reset()
    again("and again")
    messages, ends = 4, 2 + 2 + 1
    assert counts.total <= messages + ends


# transcripts


def test_every_node_has_a_linked_transcript(backend: Backend) -> None:
    """The orchestrator names the sessions of its nodes, they name it, and each has all that was said there."""
    graph(manager(backend), {"a": ["A"], "b/c%": ["B"]}, [("a", "b/c%")])("go")
    store = backend.store()
    links = [note.brief for note in store.view("s/multi/g").notes(kind="link")]
    assert links == [{"child": "s/multi/g/a", "task": "a"}, {"child": "s/multi/g/b%2Fc%25", "task": "b/c%"}]
    infos = [store.view(str(link["child"])).info for link in links]
    assert [(info.parent_session, info.task) for info in infos] == [("s/multi/g", "a"), ("s/multi/g", "b/c%")]
    assert told(backend, "s/multi/g/a") == ["go", "A"]
    assert store.verify("s/multi/g") == []


def test_a_run_that_begins_anew_is_a_branch_of_its_own(backend: Backend) -> None:
    """An orchestrator made its agent forget: the transcript has both conversations, and shows the last one."""
    for task in ("one", "two"):
        graph(manager(backend), {"a": [f"A {task}"]})(task)
    view = backend.store().view("s/multi/g/a")
    assert told(backend, "s/multi/g/a") == ["two", "A two"]
    assert len(view.nodes()) == 4
    assert len(view.leaves()) == 2
    assert [node.parent for node in view.nodes()].count(None) == 2


def test_an_agent_that_remembers_goes_on_in_its_transcript(backend: Backend) -> None:
    """Within one process a graph's agents keep their conversations, and so does the transcript."""
    same = graph(manager(backend), {"a": ["A1", "A2"]})
    same("one")
    same("two")
    assert told(backend, "s/multi/g/a") == ["one", "A1", "two", "A2"]
    assert len(backend.store().view("s/multi/g/a").leaves()) == 1


def test_messages_that_an_agent_brought_along(backend: Backend) -> None:
    """They are in the transcript once, and every run that begins with them branches behind them."""
    primer: Any = [
        {"role": "user", "content": [{"text": "be brief"}], "tracking_id": "p1"},
        {"role": "assistant", "content": [{"text": "ok"}], "tracking_id": "p2"},
    ]
    for task in ("one", "two"):
        graph(manager(backend), {"a": agent("a", [task.upper()], messages=json.loads(json.dumps(primer)))})(task)
    assert told(backend, "s/multi/g/a") == ["be brief", "ok", "two", "TWO"]
    view = backend.store().view("s/multi/g/a")
    assert len(view.nodes()) == 6
    assert len(view.children("p2")) == 2


def test_what_an_agent_says_elsewhere_is_not_recorded(backend: Backend) -> None:
    """An agent that is asked beside its graph speaks for itself."""
    same = graph(manager(backend), {"a": ["in", "out", "in again"]})
    same("one")
    executor: Any = same.nodes["a"].executor
    executor("beside")
    assert told(backend, "s/multi/g/a") == ["one", "in"]
    same("two")
    assert told(backend, "s/multi/g/a")[-2:] == ["two", "in again"]


def test_nested_orchestrators(backend: Backend) -> None:
    """A graph inside a node: its agents have transcripts below that node, its result is in the outer state."""
    inner = graph(None, {"x": ["X"], "y": ["Y"]}, [("x", "y")], name="inner")
    outer = graph(manager(backend), {"a": ["A"], "in": inner, "b": ["B"]}, [("a", "in"), ("in", "b")])
    assert outer("go").status == Status.COMPLETED
    assert told(backend, "s/multi/g/in/y")[-1] == "Y"
    assert "node_results:in" in backend.store().view("s/multi/g").state


def test_a_nested_orchestrator_with_a_manager_keeps_itself(backend: Backend) -> None:
    """One process, one manager, two orchestrators: each has its own session, and nothing is recorded twice."""
    shared = manager(backend)
    inner = graph(shared, {"x": ["X"]}, name="inner")
    graph(shared, {"a": ["A"], "in": inner}, [("a", "in")])("go")
    names = {info.id for info in backend.store().each_session()}
    assert names == {"s/multi/g", "s/multi/g/a", "s/multi/inner", "s/multi/inner/x"}


def test_what_a_guardrail_takes_back_in_a_node_is_erased(backend: Backend) -> None:
    """No byte of it is left in the transcript of the node, which goes on with what took its place."""
    graph(manager(backend), {"a": ["hello"], "b": [Redacted("[taken back]", "no")]}, [("a", "b")])("go")
    assert told(backend, "s/multi/g/b") == ["[taken back]", "no"]
    assert holding(backend.snapshot(), "Inputs from previous nodes") == []


# what is refused


def test_a_state_that_cannot_be_loaded_is_never_overwritten(backend: Backend) -> None:
    """The graph cannot be made, and saving it is an error."""
    shared = manager(backend)
    graph(shared, {"a": ["A"]})("go")
    shared.close()
    with backend.store().session("s/multi/g") as session:
        whole = session.checkpoint_id
        session.commit(state={"_internal_state": {}})
    before = backend.snapshot()
    other = manager(backend)
    with pytest.raises(KeyError):
        graph(other, {"a": ["A"]})
    with pytest.raises(SessionException, match="not attached"):
        other.sync_multi_agent(graph(None, {"a": ["A"]}))
    assert backend.snapshot() == before
    with backend.store().session("s/multi/g") as session:
        session.rewind(whole or "")
    assert graph(manager(backend), {"a": ["A"]})("go").status == Status.COMPLETED


def test_another_kind_under_the_same_id_is_refused(backend: Backend) -> None:
    """A swarm does not go on with the state of a graph."""
    graph(manager(backend), {"a": ["A"]})("go")
    with pytest.raises(SessionException, match="another orchestrator"):
        swarm(manager(backend), {"a": ["A"]}, name="g")


@pytest.mark.parametrize("name", ["g", "g/h"])
def test_ids_that_two_could_have(backend: Backend, name: str) -> None:
    """Two orchestrators of one id would overwrite each other; an id with a slash could be that of a node."""
    shared = manager(backend)
    graph(shared, {"a": ["A"]}, name="g")
    with pytest.raises(SessionException, match="unique"):
        graph(shared, {"a": ["A"]}, name=name)


def test_two_processes_are_told(backend: Backend) -> None:
    """Who comes second does not overwrite what the first one did, and no message of either is lost."""
    one = graph(manager(backend), {"a": ["A", "A"]})
    two = graph(manager(backend), {"a": ["B"]})
    one("go")
    with pytest.raises(ConflictError):
        two("go")
    kept: Any = backend.store().view("s/multi/g").state["node_results:a"]
    assert kept["result"]["message"]["content"] == [{"text": "A"}]
    assert len(backend.store().view("s/multi/g/a").leaves()) == 2


# beside agents, and from elsewhere


def test_a_deleted_session_has_no_orchestrator_any_more(backend: Backend) -> None:
    """Deleting the session deletes states and transcripts."""
    shared = manager(backend)
    graph(shared, {"a": ["A"]})("go")
    shared.delete_session()
    assert list(backend.store().each_session()) == []


def test_an_asynchronous_caller(backend: Backend) -> None:
    """Many graphs at once on one event loop keep what is theirs."""

    async def run() -> None:
        graphs = [graph(manager(backend), {"a": [f"A{number}"]}, name=f"g{number}") for number in range(5)]
        await asyncio.gather(*(each.invoke_async(f"go {number}") for number, each in enumerate(graphs)))

    asyncio.run(run())
    for number in range(5):
        assert told(backend, f"s/multi/g{number}/a") == [f"go {number}", f"A{number}"]


@pytest.mark.parametrize("layout", ["log", "snapshots"])
def test_an_orchestrator_of_strands_goes_on_here(backend: Backend, tmp_path: Path, layout: str) -> None:
    """What Strands' own managers kept of a graph is imported, and the answer to its question lets it go on."""
    theirs: Any = (
        FileSessionManager("s", storage_dir=str(tmp_path))
        if layout == "log"
        else SnapshotSessionManager("s", storage=LocalFileStorage(str(tmp_path)))
    )
    question = graph(theirs, {"a": ["A"], "b": [Calls(Call("ask"))]}, [("a", "b")])("go")
    (place,) = find_sessions(tmp_path)
    taken = FileImporter(backend.store()).load(place)
    assert (taken.session, taken.problems) == ("s/multi/g", [])
    again = graph(manager(backend), {"a": [], "b": ["B"]}, [("a", "b")])
    assert again(answer(question)).status == Status.COMPLETED
    assert asked(again) == {"a": 0, "b": 1}
