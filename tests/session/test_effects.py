"""Calls that change something outside: recorded before they are made and after, so that each is made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.session.backends import Backend, kill, memory_backend
from tests.session.faults import Meeting, Unreliable, tail_write

import treering
from treering import Kind
from treering.api.session import Session
from treering.api.store import Store
from treering.session.effects import ABOUT_BYTES_MAX, KEY_BYTES_MAX, UNRESOLVED_MAX
from treering.storage.faulty import Fault
from treering.store.place import Place


def test_a_call_whose_outcome_is_known_is_not_made_again(backend: Backend) -> None:
    """Who asks again gets the result or the error, in this process and in another one, sealed or not."""
    with backend.store().session("s") as session:
        session.append("pay, and mail")
        assert session.effect("call-1", key="pay").outcome == "unresolved"
        session.end_effect("pay", {"id": 7, "raw": b"\x00"})
        session.effect("call-2", key="mail")
        session.end_effect("mail", error="no such address")
        assert session.effect("call-1", key="pay").result == {"id": 7, "raw": b"\x00"}
        session.seal()
        assert session.effect("call-1", key="pay").result == {"id": 7, "raw": b"\x00"}
    with backend.store().session("s") as session:
        again = session.effect("call-3", key="pay")
        assert (again.outcome, again.call, again.is_resolved) == ("done", "call-1", True)
        assert (session.effect("call-2", key="mail").outcome, session.effect("call-2", key="mail").result) == (
            "failed", "no such address",
        )  # fmt: skip
        assert session.find_effect("other") is None
        assert session.unresolved_effects() == ()


@pytest.mark.parametrize("sealed", [False, True])
def test_an_unresolved_call_is_told_after_a_kill(sealed: bool, backend: Backend) -> None:  # noqa: FBT001
    """Whoever resumes is told of it, with what was said of it; it cannot begin until its end is recorded."""
    session = backend.store().session("s")
    node = session.append("pay").node
    session.effect("call-1", key="pay", about={"amount": 20})
    session.effect("call-2")
    session.describe_effect("pay", {"amount": 20, "order": 8})
    if sealed:
        session.seal()
    kill(session)
    view = backend.store().view("s")
    first, second = view.unresolved_effects()
    assert (first.key, first.call, first.node, first.about) == ("pay", "call-1", node, {"amount": 20, "order": 8})
    assert (second.key, second.call, second.about, second.outcome) == ("call-2", "call-2", None, "unresolved")
    assert view.find_effect("pay") == first
    with backend.store().session("s") as session:
        with pytest.raises(treering.UnresolvedEffectError, match="pay") as caught:
            session.effect("call-1", key="pay")
        assert caught.value.kind == Kind.UNRESOLVEDEFFECT
        session.end_effect("pay", "paid")
        session.end_effect("call-2", made=False)
        session.end_effect("call-2", made=False)  # once more, as after a lost reply
        assert session.unresolved_effects() == ()
        assert session.effect("call-1", key="pay").result == "paid"
        assert session.find_effect("call-2") is None
        assert session.effect("call-2").outcome == "unresolved"  # it was not made, so now it is
    assert [each.key for each in backend.store().view("s").unresolved_effects()] == ["call-2"]
    assert backend.store().verify("s") == []


def test_an_end_is_recorded_once(backend: Backend) -> None:
    """The same end again is nothing new; another end is refused, and so is one of an effect that never began."""
    with backend.store().session("s") as session:
        session.effect("c")
        session.end_effect("c", 1)
        end = session.stored().records
        session.end_effect("c", 1)
        assert session.stored().records == end
        for again in ({"result": 2}, {"error": 1}, {"made": False}):
            with pytest.raises(treering.UsageError, match="otherwise") as refused:
                session.end_effect("c", **again)
            assert refused.value.kind == Kind.EFFECT
        with pytest.raises(treering.NotFoundError, match="never"):
            session.end_effect("never")
        with pytest.raises(treering.NotFoundError, match="'c'"):
            session.describe_effect("c", "late")
        session.effect("d")
        with pytest.raises(treering.UsageError, match="no result"):
            session.end_effect("d", 1, made=False)


async def test_asynchronous_code_has_the_same() -> None:
    """Begun, told, ended, known."""
    store = memory_backend().async_store()
    async with await store.session("s") as session:
        begun = await session.effect("c", about=[1])
        assert await session.unresolved_effects() == (begun,)
        await session.end_effect("c", 5)
        found = await session.find_effect("c")
        assert found is not None
        assert found.result == (await session.effect("c")).result == 5


def test_limits_are_told() -> None:
    """A key, what is said of an effect and the number of unresolved ones are bounded; at the bounds all is well."""
    backend = memory_backend()
    with backend.store().session("s") as session:
        for number in range(UNRESOLVED_MAX - 1):
            session.effect(f"c{number}")
        session.effect("k" * KEY_BYTES_MAX, about="x" * (ABOUT_BYTES_MAX - 2))
        with pytest.raises(treering.UsageError, match="too many") as refused:
            session.effect("one more")
        assert refused.value.kind == Kind.TOO_MANY_EFFECTS
        session.end_effect("c0")
        session.effect("one more")
        for key in ("", "k" * (KEY_BYTES_MAX + 1)):
            with pytest.raises(treering.UsageError, match="1 to 256 bytes"):
                session.effect("c", key=key)
        with pytest.raises(treering.UsageError, match="too much"):
            session.effect("c", about="x" * (ABOUT_BYTES_MAX - 1))
    assert len(backend.store().view("s").unresolved_effects()) == UNRESOLVED_MAX


def test_a_call_costs_an_append_before_and_one_after() -> None:
    """One request each, also behind segments that were looked at once; resuming stays two."""
    backend = memory_backend()
    store, counts = backend.counted()
    session = store.session("s")
    session.append("go")
    for _ in range(3):
        counts.reset()
        session.effect(f"c{_}")
        assert counts.counts == {"Put": 1}
        session.end_effect(f"c{_}", "done")
        assert counts.counts == {"Put": 2}
    session.effect("open", about="x")
    session.seal()
    kill(session)
    store, counts = backend.counted()
    session = store.session("s")
    assert [each.about for each in session.unresolved_effects()] == ["x"]
    assert counts.counts == {"Get": 2}
    session.end_effect("open")
    session.effect("next")
    counts.reset()
    session.end_effect("next", "done")
    session.effect("and next")
    assert counts.counts == {"Put": 2}


def test_an_end_may_wait_for_the_end_of_the_turn() -> None:
    """With `durability="turn"` it rides with the next append; the same handle knows it at once."""
    backend = memory_backend()
    store, counts = backend.counted()
    session = store.session("s", durability="turn")
    session.append("go")
    session.effect("c1")
    counts.reset()
    session.end_effect("c1", "paid")
    assert counts.total == 0
    assert session.unresolved_effects() == ()
    assert session.effect("c1").result == "paid"
    assert [each.key for each in backend.store().view("s").unresolved_effects()] == ["c1"]
    session.effect("c2")  # with the end of the other, in one append
    assert counts.counts == {"Put": 1}
    session.end_effect("c2", made=False)
    session.effect("c2")
    session.end_effect("c2", "made")
    session.commit(["done"])
    kill(session)
    view = backend.store().view("s")
    assert view.unresolved_effects() == ()
    assert [found.result for key in ("c1", "c2") if (found := view.find_effect(key))] == ["paid", "made"]


def test_effects_belong_to_the_session_and_to_forks_behind_them(backend: Backend) -> None:
    """Other branches know them; a fork knows those that began on the path that it copies, and ends its own."""
    with backend.store().session("s") as session:
        question = session.append("pay").node
        session.append(treering.assistant("I pay"))
        session.effect("c1")
        session.end_effect("c1", "paid")
        session.effect("c2")
        session.fork("behind")
        session.fork("before", node=question)
        session.branch("other", node=question)
        assert session.effect("c1").result == "paid"
        session.end_effect("c2", "mine")
    store = backend.store()
    assert store.view("before").find_effect("c1") is None
    with store.session("behind") as fork:
        assert fork.effect("c1").result == "paid"
        assert [each.key for each in fork.unresolved_effects()] == ["c2"]
        fork.end_effect("c2", "unknown")
    assert store.view("s").unresolved_effects() == store.view("behind").unresolved_effects() == ()
    store.copy("s", name="copy")
    assert store.view("copy").find_effect("c2") == store.view("s").find_effect("c2")


def test_a_view_of_the_past_tells_what_was_unresolved_then() -> None:
    """With what was said of it by then."""
    with memory_backend().store().session("s") as session:
        session.append("x")
        session.effect("c", about=1)
        session.describe_effect("c", 2)
        session.end_effect("c")
        session.seal()
        told = [[each.about for each in session.at(position).unresolved_effects()] for position in range(5)]
    assert told == [[], [], [1], [2], []]


@pytest.mark.parametrize("ended", [False, True])
def test_erasing_takes_what_was_said_and_the_result(ended: bool, backend: Backend) -> None:  # noqa: FBT001
    """Nothing of them is stored any more, also in forks; that the call was made, or may have been, is still known."""
    store = backend.store()
    with store.session("s") as session:
        session.append("x")
        effect = session.effect("call", key="c", about="SECRET-ONE")
        session.describe_effect("c", "SECRET-TWO")
        if ended:
            session.end_effect("c", "SECRET-THREE" * 10_000)
        session.seal()
        session.fork("t")
        session.erase(effect.note)
    for name in ("s", "t"):
        view = backend.store().view(name)
        found = view.find_effect("c")
        assert found is not None
        assert (found.outcome, found.call) == ("done" if ended else "unresolved", "call")
        assert isinstance(found.result, treering.Erased) is ended
        assert [each.about for each in view.unresolved_effects()] == ([] if ended else [None])
        assert all(b"SECRET" not in line for line in view.lines())
    assert all(b"SECRET" not in data for data in backend.snapshot().values())


def two_handles() -> tuple[Meeting, Session, Session]:
    """A shared session in two processes, and the way of the first one to the store."""
    backend = memory_backend()
    driver = Meeting(backend.driver())
    mine = Store(Place(driver)).session("s", shared=True)
    mine.append("go")
    return driver, mine, backend.store().session("s", shared=True)


def test_of_two_writers_one_begins() -> None:
    """The one whose record comes second is told so by an error, or gets the result if there is one by then."""
    driver, mine, other = two_handles()
    driver.before(tail_write, lambda: other.effect("c1"))
    with pytest.raises(treering.UnresolvedEffectError):
        mine.effect("c1")

    def whole() -> None:
        other.effect("c2")
        other.end_effect("c2", "by the other")

    driver.before(tail_write, whole)
    assert mine.effect("c2").result == "by the other"
    other.end_effect("c1", "late")
    assert mine.effect("c1").result == "late"  # found out before it is called unresolved
    driver.before(tail_write, lambda: other.append("something else"))
    assert mine.effect("c3").outcome == "unresolved"
    assert [each.key for each in mine.unresolved_effects()] == ["c3"]


def test_of_two_ends_one_counts() -> None:
    """Two who find out what became of a call cannot record different ends of it."""
    driver, mine, other = two_handles()
    mine.effect("c1")
    driver.before(tail_write, lambda: other.end_effect("c1", "paid"))
    with pytest.raises(treering.UsageError, match="otherwise"):
        mine.end_effect("c1", made=False)
    assert mine.effect("c1").result == other.effect("c1").result == "paid"


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_begin_without_an_answer_may_be_repeated(fault: Fault) -> None:
    """The handle whose call raised knows that nothing was made; others are told that it is unresolved."""
    unreliable = Unreliable()
    session = unreliable.store.session("s")
    session.append("go")
    unreliable.fails(fault, lambda: session.effect("c"))
    assert session.effect("c").outcome == "unresolved"
    with pytest.raises(treering.UnresolvedEffectError):
        session.effect("c")
    unreliable.fails(fault, lambda: session.end_effect("c", made=False))
    session.end_effect("c", made=False)
    assert session.unresolved_effects() == ()


def test_a_note_of_somebody_else_is_no_effect(tmp_path: Path) -> None:
    """A note of the same kind with an id of another shape says nothing of effects."""
    with treering.open(tmp_path).session("s") as session:
        session.note("effect", {"call": "x"})
        session.note("effect_done")
        assert session.unresolved_effects() == ()


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_begin_without_an_answer_that_another_writer_ended_is_not_begun_again(*, shared: bool, made: bool) -> None:
    """It found out that the call was not made, or it made the call itself: nobody else makes it then."""
    bucket = Unreliable()
    session = bucket.store.session("s", shared=shared)
    session.append("go")
    bucket.fails(Fault.AFTER, lambda: session.effect("pay"))
    session.flush()
    if not shared:
        session._holds.pop().release()  # no bucket has locks
    other = bucket.sound.session("s", shared=True)
    if not made:
        other.end_effect("pay", made=False)
        other.effect("pay")
    other.end_effect("pay", "paid")
    if shared:
        assert (session.effect("pay").outcome, session.effect("pay").result) == ("done", "paid")
    else:
        with pytest.raises(treering.ConflictError):
            session.effect("pay")


def test_an_end_is_refused_for_its_own_id_only() -> None:
    """That the id of a buffered message is taken says nothing of the effect."""
    store = Unreliable().store
    session = store.session("s", shared=True, first_write="assistant")
    session.append(treering.user("mine", id="x"))
    other = store.session("s", shared=True)
    other.append(treering.user("theirs", id="x"))
    other.effect("e")
    session.refresh()
    with pytest.raises(treering.UsageError, match="discard") as caught:
        session.end_effect("e", 1)
    assert caught.value.kind == Kind.DUPLICATE_ID
    session.discard("x")
    session.end_effect("e", 1)
    assert session.effect("e").result == 1


def test_an_effect_whose_end_is_buffered_makes_room_for_another() -> None:
    """As `unresolved_effects` tells it."""
    session = Unreliable().store.session("s", durability="turn")
    session.commit(["one"])
    for number in range(UNRESOLVED_MAX):
        session.effect(f"e{number}")
    session.end_effect("e0", 1)
    assert len(session.unresolved_effects()) == UNRESOLVED_MAX - 1
    assert session.effect("new").outcome == "unresolved"
