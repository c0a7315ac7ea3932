"""A context that is handed out is valid for providers, whatever was recorded, cut, hidden, or never came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.session.backends import Backend, kill, memory_backend
from tests.test_calls import MADE, results

import treering
from treering import ContextItem, HeadMovedError, OpenCall, Session, Store, UsageError
from treering.calls import pairing
from treering.programs.formats import find_format

POLICIES = [find_format(name).POLICIES[0] for name in ("claude", "pi", "omp", "kit", "operator", "evva")]
ASK = {"role": "user", "content": "go"}


def words(items: Any) -> list[str]:
    """What a context says, in short: small letters call, capitals answer."""
    said = []
    for item in items:
        found = pairing([item.message])
        calls = "".join(each.call.id for each in (*found.open, *found.passed))
        answers = "".join(each.result.id.upper() for each in found.orphans)
        said.append(calls + answers or "t")
    return said


def call(*ids: str) -> dict[str, Any]:
    """A message that makes calls."""
    made: dict[str, Any] = MADE["anthropic"](*ids)
    return made


def result(*ids: str) -> dict[str, Any]:
    """A message with results."""
    (made,) = results("anthropic", *ids)
    return dict(made)


def test_killed_between_call_and_result(backend: Backend) -> None:
    """Two reads tell what was recorded and what can be sent; closing makes them the same."""
    session = backend.store().session("s")
    session.append(ASK)
    node = session.append(call("a", "b")).node
    session.append(result("a"))
    assert words(session.context) == ["t", "a", "A"]
    recorded = session.recorded_context
    assert words(recorded) == ["t", "ab", "A"]
    kill(session)
    store, counts = backend.counted()
    with store.session("s") as session:
        assert session.recorded_context == recorded
        assert words(session.context) == ["t", "a", "A"]
        assert session.open_calls() == (OpenCall(id="b", name="ls", arguments={"a": 1}, node=node),)
        assert counts.counts == {"Get": 2}
        (closing,) = session.close_open_calls("killed").nodes
        found = session.get(closing)
        block = {"type": "tool_result", "tool_use_id": "b", "content": "killed", "is_error": True}
        assert (found.payload, found.role, found.brief) == (
            {"role": "user", "content": [block]},
            "user",
            {"interrupted": True},
        )
        assert session.open_calls() == ()
        assert session.context == session.recorded_context
        end = session.node
        assert session.close_open_calls("killed").nodes == ()
        assert session.node == end


@pytest.mark.parametrize("shape", MADE)
def test_calls_are_closed_in_their_shape(store: Store, shape: str) -> None:
    """All of them in one append; what was recorded is then what is sent."""
    with store.session("s") as session:
        node = session.append(ASK, MADE[shape]("a", "b")).node
        assert [(each.id, each.name, each.arguments, each.node) for each in session.open_calls()] == [
            ("a", "ls", {"a": 1}, node), ("b", "ls", {"a": 1}, node)]  # fmt: skip
        before = session.info.nodes
        made = session.close_open_calls("killed").nodes
        assert session.info.nodes == before + len(made)
        assert session.context == session.recorded_context
        assert session.open_calls() == ()
        assert all("killed" in str(session.get(each).payload) for each in made)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("shape", [name for name in MADE if name != "kit, sent"])
def test_calls_are_closed_as_programs_show_them(policy: str, shape: str) -> None:
    """The policy of another program shows calls in the shape of that, and so their results."""
    with memory_backend().store().session("s", policy=policy) as session:
        session.append(ASK, MADE[shape]("a"))
        assert [each.id for each in session.open_calls()] == ["a"]
        session.close_open_calls("killed")
        assert session.open_calls() == ()
        assert len(session.context) == len(session.recorded_context) == 3
        assert "killed" in str(session.context[-1].message)


def test_calls_that_were_put_off(store: Store) -> None:
    """They are open before they are recorded, and recorded before they are closed."""
    with store.session("s", durability="turn") as session:
        session.append(ASK, call("a"))
        assert [each.id for each in session.open_calls()] == ["a"]
        assert words(session.context) == ["t", "t"]
        assert words(session.recorded_context) == ["t", "a"]
        session.close_open_calls("killed")
        session.flush()
        assert words(session.context) == ["t", "a", "A"]


def test_an_answer_without_open_calls(store: Store) -> None:
    """Where nothing is open nothing is written, not even a session; and a reason is needed."""
    with store.session("s") as session:
        assert session.open_calls() == ()
        assert session.close_open_calls("killed").nodes == ()
        with pytest.raises(UsageError, match="say why"):
            session.close_open_calls(" ")
        assert session.is_new


def test_the_conversation_went_on(store: Store) -> None:
    """A call that was passed by is left out for good, and a result that comes late with it."""
    with store.session("s") as session:
        session.append(ASK, call("a"), "never mind", result("a"), call("b"), result("b"))
        assert words(session.context) == ["t", "t", "t", "b", "B"]
        assert session.open_calls() == ()
        assert words(session.recorded_context) == ["t", "a", "t", "A", "b", "B"]


@pytest.mark.parametrize("hide", ["retract", "amend", "erase"])
def test_a_call_that_was_hidden(store: Store, hide: str) -> None:
    """Its result is not sent without it; an erased call leaves what makes it one."""
    with store.session("s") as session:
        node = session.append(ASK, call("a")).node
        session.append(result("a"), "on")
        if hide == "amend":
            session.amend(node, {"role": "assistant", "content": "no call"})
        else:
            getattr(session, hide)(node)
        assert (
            words(session.context)
            == {"retract": ["t", "t"], "amend": ["t", "t", "t"], "erase": ["t", "a", "A", "t"]}[hide]
        )
        if hide == "retract":
            session.unretract(node)
            assert words(session.context) == ["t", "a", "A", "t"]


def test_a_node_in_between(store: Store) -> None:
    """Standing between call and result, the call is open again; also where one only looks."""
    with store.session("s") as session:
        node = session.append(ASK, call("a", "b")).node
        middle = session.append(result("a")).node
        session.append(result("b"), "on")
        assert words(session.context_at(node)) == ["t", "t"]
        assert words(session.context_at(node, recorded=True)) == ["t", "ab"]
        assert words(session.context_at(middle)) == ["t", "a", "A"]
        session.checkout(middle)
        assert [each.id for each in session.open_calls()] == ["b"]
        assert words(session.context) == ["t", "a", "A"]
        session.close_open_calls("went back")
        assert words(session.context) == ["t", "ab", "A", "B"]
    assert store.view("s").open_calls() == ()


def counted_nodes(session: Session) -> tuple[object, ...]:
    """What a refused call must not change."""
    return session.node, session.info.nodes, session.info.checkpoints, session.recorded_context


def test_a_compaction_that_parts_a_pair(backend: Backend) -> None:
    """It is refused before anything is written, and told where to begin; there it is taken."""
    with backend.store().session("s") as session:
        session.append(ASK)
        first, second = session.append(call("a")).node, session.append(call("b")).node
        third, fourth = session.append(result("a")).node, session.append(result("b")).node
        last = session.append("on").node
        before, stored = counted_nodes(session), backend.snapshot()
        for kept in (second, third, fourth):
            with pytest.raises(UsageError, match="without its call") as refused:
                session.compact("gist", kept=kept)
            assert refused.value.kind == "parted"
            assert repr(first) in str(refused.value)
            assert counted_nodes(session) == before
            assert backend.snapshot() == stored
        session.compact("gist", kept=last)
        session.checkout(last)
        session.compact("gist", kept=first)
        assert words(session.context) == ["t", "a", "b", "A", "B", "t"]


def test_a_compaction_of_messages_put_off(store: Store) -> None:
    """A pair that is not recorded yet is not parted, either."""
    with store.session("s", durability="turn") as session:
        session.append(ASK)
        node = session.append(call("a")).node
        kept = session.append(result("a")).node
        with pytest.raises(UsageError, match=repr(node)):
            session.compact("gist", kept=kept)
        session.compact("gist", kept=node)
        assert words(session.context) == ["t", "a", "A"]


@pytest.mark.parametrize("again", ["compact", "commit", "append"])
def test_a_pair_that_an_earlier_compaction_left_out(backend: Backend, again: str) -> None:
    """Where the context does not show the call, the path tells it."""
    with backend.store().session("s") as session:
        session.append(ASK)
        node = session.append(call("a")).node
        kept = session.append(result("a")).node
        last = session.append("on").node
        session.compact("first", kept=last)
        before, stored = counted_nodes(session), backend.snapshot()
        verbs: dict[str, Callable[[], object]] = {
            "compact": lambda: session.compact("second", kept=kept),
            "append": lambda: session.append(treering.compaction("second", kept=kept)),
            "commit": lambda: session.commit(context=[kept, last]),
        }
        with pytest.raises(UsageError, match=repr(node)):
            verbs[again]()
        assert counted_nodes(session) == before
        assert backend.snapshot() == stored
        session.compact("second", kept=node)
        assert words(session.context)[:4] == ["t", "a", "A", "t"]


def test_a_commit_that_parts_a_pair(store: Store) -> None:
    """A context that a caller made is held to the same rule, by node or by item; a call may go with its result."""
    with store.session("s") as session:
        ask = session.append(ASK).node
        node = session.append(call("a")).node
        answer = session.append(result("a")).node
        before = counted_nodes(session)
        parted: tuple[list[ContextItem | str], ...] = (
            [ask, answer],
            [ask, ContextItem(node=answer, message=result("a"))],
        )
        for context in parted:
            with pytest.raises(UsageError, match=repr(node)):
                session.commit(context=context)
            assert counted_nodes(session) == before
        session.commit(context=[ask, ContextItem(node=answer, message={"role": "user", "content": "it said x"})])
        assert words(session.context) == ["t", "t"]
        session.commit(context=[ask])
        assert words(session.context) == ["t"]


def test_what_had_no_call_before(store: Store) -> None:
    """A result that never had a call is nobody's cut: it may be kept, and is not sent."""
    with store.session("s") as session:
        ask = session.append(ASK).node
        node = session.append(result("a")).node
        session.commit(context=[ask, node])
        session.compact("gist", kept=node)
        assert words(session.recorded_context) == ["t", "A"]
        assert words(session.context) == ["t"]


def test_what_was_handed_out_is_handed_back(store: Store) -> None:
    """Messages without what was left out are not taken for edits of theirs."""
    with store.session("s") as session:
        session.append(ASK, call("a", "b"), result("a"), "on")
        recorded = session.recorded_context
        session.commit(context=session.context, state={"n": 1})
        assert session.recorded_context == recorded


def test_somebody_answered_meanwhile(backend: Backend) -> None:
    """Two handles that close the same calls: the second is told, and finds nothing to do."""
    with backend.store().session("s", shared=True) as one, backend.store().session("s", shared=True) as two:
        one.append(ASK, call("a"))
        two.refresh()
        assert [each.id for each in two.open_calls()] == ["a"]
        one.append(result("a"))
        with pytest.raises(HeadMovedError):
            two.close_open_calls("killed")
        assert len(one.heads) == 1


def test_awaited(backend: Backend) -> None:
    """The same, awaited."""

    async def work() -> None:
        async with await backend.async_store().session("s") as session:
            node = (await session.append(ASK, call("a"))).node
            assert words(session.context) == ["t", "t"]
            assert words(session.recorded_context) == ["t", "a"]
            assert [each.node for each in await session.open_calls()] == [node]
            assert words(await session.context_at(node)) == ["t", "t"]
            await session.close_open_calls("killed")
            assert words(session.context) == ["t", "a", "A"]

    asyncio.run(work())
