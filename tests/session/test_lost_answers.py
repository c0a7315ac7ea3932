"""What a session says and does behind an append without an answer, or behind a read that failed half way."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.session.faults import Unreliable, says, tail_write

from treering import journal
from treering.api.session import Session
from treering.errors import HeadMovedError, NotFoundError, UnavailableError, UsageError
from treering.storage.faulty import Fault
from treering.transcript.node import compaction, user

ANSWER = {"role": "assistant", "content": "yes"}


def others(bucket: Unreliable) -> Session:
    """Another process's session."""
    return bucket.sound.session("s", shared=True)


def path(session: Session) -> list[Any]:
    """What was said on the branch that a session stands on."""
    return [row.node.payload["content"] for row in reversed(session.history().rows)]


def seal_twice(session: Session) -> None:
    """Leave nothing of what was said so far in the registers, so that it has to be read."""
    session.refresh()
    for title in ("t", "u"):
        session.seal()
        session.set_title(title)


def test_an_append_that_lands_behind_a_refresh_leaves_the_state_that_it_showed() -> None:
    """Its message is behind the newest state, not behind the one from before the refresh."""
    bucket = Unreliable()
    session = bucket.store.session("s", shared=True)
    session.commit(["one"], state={"n": 0})
    others(bucket).commit(state={"n": 5})
    session.set_title("t")  # meets that, and shows it to nobody
    bucket.fails(Fault.LATE, lambda: session.append("mine"))
    session.refresh()
    bucket.settle()
    session.flush()
    assert (session.state, says(session)) == ({"n": 5}, ["one", "mine"])
    session.commit(state={"n": 6})
    assert (session.head, bucket.sound.view("s").state) == ("main", {"n": 6})


@pytest.mark.parametrize("refreshes", [False, True])
def test_a_message_on_a_head_that_was_dropped_meanwhile_is_gone_on_from(*, refreshes: bool) -> None:
    """A refresh that finds no such head shows nothing new of it."""
    bucket = Unreliable()
    session = bucket.store.session("s", shared=True)
    session.append("one")
    session.branch("side")
    bucket.fails(Fault.AFTER, lambda: session.append("mine"))
    other = others(bucket)
    other.switch("main")
    other.drop_head("side")
    if refreshes:
        session.refresh()
    session.append("next")
    assert path(session) == ["one", "mine", "next"]


def test_a_refresh_that_fails_shows_nothing() -> None:
    """Whichever of its reads fails: `latest` tells no older state then, and a commit does not go on over the newer."""
    for after in range(10):
        bucket = Unreliable()
        other = others(bucket)
        other.commit(["one"], state={"n": 0})
        session = bucket.store.session("s", shared=True)
        other.commit(state={"n": 5})
        session.set_title("t")
        other.refresh()
        other.seal()
        other.set_title("u")
        bucket.plan.arm(Fault.BEFORE, after=after)
        try:
            session.refresh()
        except UnavailableError:
            assert session.state == {"n": 0}
            session.seal()
            assert bucket.sound.view("s").state == {"n": 5}
            assert not [found for found in bucket.sound.verify("s") if found.severity == "damage"]
            session.commit(state={"n": 1})
            assert session.head == "main-2"
        else:
            assert (after > 1, session.state) == (True, {"n": 5})
            return
    raise AssertionError("a refresh reads without end")


@pytest.mark.parametrize("call", ["refresh", "flush"])
def test_no_context_is_shown_where_reading_it_failed(call: str) -> None:
    """In place of that of another head; the next call reads it."""
    raised = 0
    for after in range(10):
        bucket = Unreliable()
        other = others(bucket)
        other.commit(["one"], state={"n": 0})
        session = bucket.store.session("s", shared=True)
        other.commit(["two"], state={"n": 5})
        other.set_model("m")
        session.set_title("t")
        bucket.fails(Fault.AFTER, lambda: session.append("mine"))  # noqa: B023  # called at once
        if call == "refresh":
            session.flush()
        seal_twice(other)
        bucket.plan.arm(Fault.BEFORE, after=after)
        try:
            getattr(session, call)()
        except UnavailableError:
            wanted = {"main": ["one"], "main-2": ["one", "mine"]}
            try:
                assert (says(session), session.settings) == (wanted[session.head], {})
            except UnavailableError:
                raised += 1
            session.flush()
            assert (session.head, session.state, says(session)) == ("main-2", {"n": 0}, ["one", "mine"])
            assert session.settings == {}
        else:
            assert raised
            return
    raise AssertionError("it reads without end")


def test_an_erased_value_is_gone_from_an_append_that_turns_out_to_be_there() -> None:
    """Though the read behind it failed, and the next call has nothing to find out about."""
    for after in range(10):
        bucket = Unreliable()
        session = bucket.store.session("s", shared=True)
        session.commit(["one"], state={"n": 0})
        bucket.fails(Fault.AFTER, lambda: session.commit(state={"secret": "swordfish", "n": 1}))  # noqa: B023
        other = others(bucket)
        other.commit(state={"n": 2})
        other.erase(state=["secret"])
        seal_twice(other)
        bucket.plan.arm(Fault.BEFORE, after=after)
        try:
            session.flush()
        except UnavailableError:
            session.flush()
        assert session.state == {"n": 1}
        if bucket.plan.pending:
            return
    raise AssertionError("it reads without end")


def test_what_a_refresh_showed_is_not_shown_twice() -> None:
    """Buffered messages are not behind those of the same append, and their state does not lie over a newer one."""
    bucket = Unreliable()
    session = bucket.store.session("s", shared=True, durability="turn")
    session.commit(["zero"])
    session.append("a")
    bucket.fails(Fault.AFTER, session.commit)
    assert says(session) == ["zero", "a"]
    session.refresh()
    assert says(session) == ["zero", "a"]
    session = bucket.store.session("other", shared=True, first_write="assistant")
    session.commit(["hi"], state={"n": 1})
    bucket.plan.arm(Fault.AFTER, tail_write, after=1)
    with pytest.raises(UnavailableError):
        session.append(ANSWER)
    bucket.sound.session("other", shared=True).commit(state={"n": 2})
    session.refresh()
    assert (session.state, says(session)) == ({"n": 2}, ["hi", "yes"])


@pytest.mark.parametrize("lost", range(4))
def test_state_of_buffered_turns_is_kept_when_one_of_several_appends_has_no_answer(
    monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """They are too large for one append."""
    monkeypatch.setattr(journal.append, "APPEND_BYTES_MAX", 200_000)
    bucket, rng = Unreliable(), random.Random(1)
    session = bucket.store.session("s", first_write="assistant")
    for key in "abc":
        parts = [{"type": "text", "text": rng.randbytes(1000).hex()} for _ in range(90)]  # none is put apart as a blob
        session.commit([{"role": "user", "content": parts}], state={key: 1})
    bucket.plan.arm(Fault.AFTER, tail_write, after=lost)
    try:
        session.append(ANSWER)
    except UnavailableError:
        session.append(ANSWER)
    assert session.state == {"a": 1, "b": 1, "c": 1}
    assert bucket.sound.view("s").state == session.state


def test_an_answer_whose_end_had_no_answer_can_be_finished_again() -> None:
    """Although another message is buffered behind it."""
    bucket = Unreliable()
    session = bucket.store.session("s", durability="turn")
    session.commit(["one"])
    answer = session.stream()
    answer.write("hello")
    bucket.fails(Fault.AFTER, answer.finish)
    session.append("two")
    answer.finish()
    session.flush()
    assert says(session) == ["one", "hello", "two"]


def test_a_stream_can_be_kept_again() -> None:
    """The call before recorded its node, and had no answer."""
    bucket = Unreliable()
    session = bucket.store.session("s", shared=True)
    session.commit(["one"])
    answer = session.stream()
    answer.write("hello")
    answer.fail("lost")
    bucket.plan.arm(Fault.AFTER, tail_write, after=1)  # behind the note that it is taken over
    with pytest.raises(UnavailableError):
        session.keep_stream(answer.id)
    kept = session.keep_stream(answer.id)
    assert (kept.node, kept.head) == (answer.id, "main")
    assert says(session) == ["one", "hello"]
    with pytest.raises(NotFoundError, match="no such stream"):
        session.keep_stream("another")


@pytest.mark.parametrize("shared", [False, True])
def test_the_head_that_a_session_turns_out_to_stand_on_is_not_dropped(*, shared: bool) -> None:
    """It is the current one since an append without an answer."""
    bucket = Unreliable()
    session = bucket.store.session("s", shared=shared)
    session.append("one")
    session.branch("side")
    session.append("two")
    session.switch("main")
    bucket.fails(Fault.AFTER, lambda: session.switch("side"))
    with pytest.raises(UsageError, match="cannot drop the current head"):
        session.drop_head("side")
    assert (session.head, says(session), set(session.heads)) == ("side", ["one", "two"], {"main", "side"})


@pytest.mark.parametrize("way", ["no answer", "buffered", "plain"])
def test_a_model_for_a_role_leaves_the_model_that_answers(way: str) -> None:
    """Also if the change of that is not recorded yet, or not known to be."""
    bucket = Unreliable()
    session = bucket.store.session("s", durability="turn" if way == "buffered" else "sync")
    session.set_model("a", provider="p")
    session.flush()
    if way == "no answer":
        bucket.fails(Fault.AFTER, lambda: session.set_model("b"))
    else:
        session.set_model("b")
    session.set_model("tiny", role="smol")
    session.set_model("large", role="plan")
    session.flush()
    assert session.settings == {"model": "b", "provider": "p", "models": {"smol": "tiny", "plan": "large"}}


@pytest.mark.parametrize("reads", ["view", "blob"])
def test_a_view_whose_refresh_fails_shows_one_moment(reads: str) -> None:
    """The one from before; and the next refresh tells that there is something new."""
    for after in range(20):
        bucket = Unreliable()
        other = others(bucket)
        other.commit(["one"], state={"n": 1})
        other.branch("side")
        other.commit(["two"], state={"n": 2})
        other.switch("main")
        if reads == "blob":
            other.amend(other.path()[0], PICTURE)
        seal_twice(other)
        other.switch("side")
        view = bucket.store.view("s")
        other.switch("main")
        bucket.plan.arm(Fault.BEFORE, after=after)
        try:
            view.refresh()
        except UnavailableError:
            assert (view.head, view.state, says(view)[-1]) == ("side", {"n": 2}, "two")
            assert view.refresh()
        assert (view.head, view.state, says(view)) == ("main", {"n": 1}, says(bucket.sound.view("s")))
        if bucket.plan.pending:
            return
    raise AssertionError("it reads without end")


PICTURE: dict[str, Any] = {"role": "user", "content": [{"type": "file", "data": b"x" * 500_000}]}


@pytest.mark.parametrize("call", ["append", "set_title", "effect"])
def test_a_picture_that_another_writer_put_into_the_context_is_read(call: str) -> None:
    """Not shown as missing; if the store does not answer meanwhile, the context says so until a call reads it."""
    for after in range(20):
        bucket = Unreliable()
        other = others(bucket)
        node = other.append("one").node
        session = bucket.store.session("s", shared=True)
        other.amend(node, PICTURE)
        bucket.plan.arm(Fault.BEFORE, lambda request: "/blobs/" in getattr(request, "key", ""), after=after)
        getattr(session, call)("t")
        if not bucket.plan.pending:
            with pytest.raises(UnavailableError, match="could be read"):
                says(session)
            session.flush()
        assert says(session)[0] == PICTURE["content"]
        if bucket.plan.pending:
            return
    raise AssertionError("it reads without end")


def test_an_erasure_is_news() -> None:
    """Though no record is added."""
    store = Unreliable().store
    session = store.session("s", shared=True)
    node = session.commit(["one"], state={"k": 1}).node
    view, other = store.view("s"), store.session("s", shared=True)
    session.erase(node, state=["k"])
    assert (view.refresh(), other.refresh(), view.refresh(), other.refresh()) == (True, True, False, False)
    assert (says(view), says(other), view.state) == (["[erased]"], ["[erased]"], {})


@pytest.mark.parametrize("meets", [False, True])
def test_a_message_shown_again_is_in_the_context_of_every_head(*, meets: bool) -> None:
    """Whatever a process has in memory that records it, or reads of it."""
    store = Unreliable().store
    first = store.session("s", shared=True)
    node = first.commit(["one"], state={"n": 0}).node
    session = store.session("s", shared=True)
    first.branch("side")
    first.switch("main")
    other = store.session("s", shared=True)
    other.switch("side")
    first.refresh()
    first.switch("main")
    other.retract(node)
    if meets:
        session.set_title("t")
    other.unretract(node)
    assert says(store.view("s")) == ["one"]
    session.set_title("u")
    session.refresh()
    assert says(session) == ["one"]
    session.seal()
    session.commit(["two"])
    assert says(store.view("s")) == ["one", "two"]
    assert store.verify("s") == []


def test_a_message_is_shown_again_by_a_session_that_is_behind() -> None:
    """It does not stand on the message, so it records only that; every reader puts it back."""
    store = Unreliable().store
    other = store.session("s", shared=True)
    other.append("one")
    session = store.session("s", shared=True)
    node = other.append("two").node
    other.retract(node)
    session.set_title("t")
    session.unretract(node)
    other.refresh()
    assert (says(store.view("s")), says(other)) == (["one", "two"], ["one", "two"])
    session.refresh()
    session.seal()
    assert says(store.view("s")) == ["one", "two"]
    assert not [found for found in store.verify("s") if found.severity == "damage"]


def test_latest_is_right_behind_a_head_that_was_dropped() -> None:
    """`verify` makes nothing of what records alone cannot say."""
    store = Unreliable().store
    other = store.session("s", shared=True)
    other.commit(["one"], state={"n": 1})
    session = store.session("s", shared=True)
    other.commit(["two"], state={"n": 2})
    session.commit(state={"n": 5})
    session.drop_head("main")
    session.seal()
    assert (store.view("s").head, store.view("s").state) == ("main-2", {"n": 5})
    assert store.verify("s") == []


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_a_commit_without_an_answer_can_be_repeated_with_its_expectation(*, with_checkpoint: bool) -> None:
    """What it expected was there when it was recorded; another writer's message is still refused."""
    bucket = Unreliable()
    session = bucket.store.session("s", shared=True)
    before = session.commit(["one"], state={"n": 0})
    wish: dict[str, Any] = {"expect": before.node}
    wish |= {"expect_checkpoint": before.checkpoint} if with_checkpoint else {}
    message = user("two", id="x")
    bucket.fails(Fault.AFTER, lambda: session.commit([message], state={"n": 1}, **wish))
    done = session.commit([message], state={"n": 1}, **wish)
    assert (done.nodes, done.head, session.state, path(session)) == (("x",), "main", {"n": 1}, ["one", "two"])
    others(bucket).append("theirs")
    with pytest.raises(HeadMovedError):
        session.commit(["three"], state={"n": 2}, expect="x")


@pytest.mark.parametrize("options", [{"durability": "turn"}, {"first_write": "assistant"}])
def test_a_turn_that_ends_behind_a_buffered_compaction_is_recorded(options: Any) -> None:
    """As one that is recorded at once."""
    shown = []
    plain: dict[str, Any] = {}
    for each in (plain, options):
        store = Unreliable().store
        session = store.session("s", **each)
        node = session.append("a").node
        session.checkout(None)
        session.append("b")
        session.compact("sum", kept=node)
        session.commit(state={"n": 1})
        session.append(ANSWER)
        session.flush()
        shown.append((says(session), says(store.view("s")), session.state, store.verify("s")))
    assert shown[0] == shown[1]


def test_what_changes_the_context_is_not_put_off() -> None:
    """The context shows it at once, and an edited copy of that takes nothing back."""
    store = Unreliable().store
    session = store.session("s", durability="turn")
    first, second = session.commit(["a", "b"]).nodes
    session.append("c")
    session.retract(first)
    session.amend(second, {"role": "user", "content": "B"})
    assert says(session) == ["B", "c"]
    session.commit(context=session.recorded_context)
    assert says(store.view("s")) == ["B", "c"]
    session.append(compaction("sum"))
    assert "sum" in str(says(session)[0])
    assert store.verify("s") == []
