"""Checkpoints: any value survives, any old one can be read, and pruning never breaks one that is kept."""

from __future__ import annotations

import datetime as dt
import inspect
import math
import struct
from collections.abc import Callable, Sequence

import pytest
from tests.session.at_rest import holding
from tests.session.backends import Backend, kill, memory_backend, texts

import treering
from treering import Changed, ContextItem, KeepCheckpoints
from treering.api.session import Session
from treering.api.store import Store
from treering.checkpoint.context import Context, Item
from treering.errors import HeadMovedError, NotFoundError
from treering.storage.requests import Get, Put

OFFSET = dt.timezone(dt.timedelta(hours=5, minutes=30))
VALUES: dict[str, object] = {
    "none": None,
    "text": "€ \U0001f600 \u2028 \x00 \x7f",
    "empty": ["", b"", [], {}, (), set()],
    "bytes": b"\x00\xff raw",
    "big": 2**80,
    "edge": [2**53, -(2**53), 2**53 - 1, 2**63, -(2**63) - 1],
    "infinite": [math.inf, -math.inf],
    "floats": [-0.0, 1e308, 5e-324, 0.1],
    "time": dt.datetime(2026, 1, 31, 12, 0, 0, 123456, OFFSET),
    "naive": dt.datetime(1, 1, 1),  # noqa: DTZ001
    "date": dt.date(9999, 12, 31),
    "delta": dt.timedelta(days=-1, microseconds=5),
    "tuple": (1, ("nested", [2])),
    "keys": {1: "int", (1, 2): "tuple", None: "none", 2.5: "float", "$x": "dollar", b"b": "bytes"},
    "surrogate": "\ud800 cut \udfff",
    "set": {1, 2, 3},
    "frozen": frozenset({"a"}),
    "$dollar": {"$blob": "mine", "$bytes": "not base64"},
    "long": "x" * 300_000,
    "image": "iVBORw0KGgo=" * 5000,
    "deep": [[[[[[[[{"a": [{}]}]]]]]]]],
}


def same(one: object, two: object) -> bool:
    """Equal, and of the same types all the way down; floats by their bits."""
    if type(one) is not type(two):
        return False
    if isinstance(one, float) and isinstance(two, float):
        return struct.pack("d", one) == struct.pack("d", two)
    if isinstance(one, dict) and isinstance(two, dict):
        return len(one) == len(two) and all(same(a, b) and same(one[a], two[b]) for a, b in zip(one, two, strict=True))
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two


@pytest.mark.parametrize("name", VALUES)
def test_a_state_value_survives(backend: Backend, name: str) -> None:
    """Each kind of value comes back as it was: at once, after a kill, from an old checkpoint, after seal and rewind."""
    value = VALUES[name]
    session = backend.store().session("s")
    made = session.commit(["a"], state={name: value}, manager={"m": value}).checkpoint or ""
    assert same(dict(session.state), {name: value})
    kill(session)
    session = backend.store().session("s")
    assert same(dict(session.state), {name: value})
    assert same(session.manager, {"m": value})
    session.commit(["b"], state={name: "another"}, manager=None)
    session.seal()
    session.append("c")
    assert same(dict(session.checkpoint(made).state), {name: value})
    session.rewind(made)
    assert same(dict(session.state), {name: value})
    kill(session)
    with backend.store().session("s") as session:
        assert same(dict(session.state), {name: value})
        assert same(session.manager, {"m": value})


@pytest.mark.parametrize("name", VALUES)
def test_a_payload_value_survives(backend: Backend, name: str) -> None:
    """Each kind of value in a message comes back as it was, in the context and from the history."""
    session = backend.store().session("s")
    message = {"role": "user", "content": VALUES[name]}
    node = session.append(message).node
    kill(session)
    with backend.store().session("s") as session:
        assert same(session.context[0].message, message)
        session.seal()
    view = backend.store().view("s")
    assert same(view.get(node).payload, message)


def test_nan_survives(store: Store) -> None:
    """Not a number is stored as that, not as null."""
    with store.session("s") as session:
        session.commit(state={"x": math.nan})
    assert math.isnan(store.view("s").state["x"])


class Odd:
    """Something that is no data."""


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": Odd()}]}, r"\$.*a.*1.*b"),
        ([print], r"\$\[0\]"),
        ({"x": type("S", (str,), {})("subclass")}, r"\$.*x"),
        ({"x": complex(1, 2)}, r"\$.*x"),
    ],
)
def test_what_is_no_data_is_refused_with_its_path(backend: Backend, value: object, path: str) -> None:
    """A value that would not come back is refused; the message says where it is, and nothing is written."""
    with backend.store().session("s") as session:
        session.commit(["a"], state={"good": 1})
        before = backend.snapshot()
        with pytest.raises(treering.UsageError, match=path) as caught:
            session.commit(["b"], state={"tools": value})
        assert "tools" in str(caught.value)
        for call in (
            lambda: session.append({"role": "user", "content": value}),
            lambda: session.commit(manager=value),
            lambda: session.commit(metadata={"m": value}),
            lambda: session.amend(session.node or "", value),
            lambda: session.record_extension("e", value),
        ):
            with pytest.raises(treering.UsageError):
                call()
        assert backend.snapshot() == before
        assert session.state == {"good": 1}


@pytest.mark.parametrize("key", [1, None, "", b"k", ("a",)])
def test_state_keys_are_text(store: Store, key: object) -> None:
    """Keys of the state are non-empty text; others are refused."""
    with store.session("s") as session, pytest.raises(treering.UsageError):
        session.commit(state={key: 1})  # type: ignore[dict-item]


def test_a_nested_value_may_not_be_endless(store: Store) -> None:
    """A list inside itself is refused, not recursed into."""
    endless: list[object] = []
    endless.append(endless)
    with store.session("s") as session, pytest.raises(treering.UsageError, match="nested"):
        session.commit(state={"x": endless})


# lists of checkpoints


def test_checkpoints_form_a_tree(store: Store) -> None:
    """Each names its parent; after a rewind the next one hangs below the one gone back to."""
    with store.session("s") as session:
        made = [session.commit([f"m{number}"]).checkpoint for number in range(3)]
        session.rewind(made[0] or "")
        session.commit(["other"])
        entries = session.checkpoints()
        assert [entry.parent for entry in entries[:3]] == [None, made[0], made[1]]
        assert entries[3].parent == made[0]
        assert entries[4].parent == entries[3].id


def test_metadata_is_listed_without_bodies(backend: Backend) -> None:
    """Label, step and metadata are in lists, and a list of checkpoints reads no body."""
    with backend.store().session("s") as session:
        for number in range(20):
            session.commit(["x" * 2000], state={"big": "y" * 5000}, step=number, metadata={"n": number})
        session.seal()
        session.append("drop")
    store, counts = backend.counted()
    entries = store.view("s").checkpoints()
    assert [entry.metadata["n"] for entry in entries] == list(range(20))
    reads = [request for request in counts.requests if isinstance(request, Get) and "/segments/" in request.key]
    assert reads
    assert all((request.start or 0) < 0 for request in reads)


def test_metadata_too_large_is_refused(store: Store) -> None:
    """Metadata stands in every list, so it has to be small."""
    with store.session("s") as session, pytest.raises(treering.UsageError, match="metadata"):
        session.commit(metadata={"m": "x" * 1000})


# pruning


def fill(session: Session, count: int) -> list[str]:
    """Record turns with state that changes in parts; return the checkpoints."""
    made = []
    for number in range(count):
        state = {"step": number, f"part{number % 5}": f"value {number} " * 20}
        made.append(session.commit([f"m{number}"], state=state).checkpoint or "")
    return made


@pytest.mark.parametrize("seal_every", [0, 1, 7])
def test_kept_checkpoints_are_whole_after_pruning(backend: Backend, seal_every: int) -> None:
    """What is kept reads exactly as before, before and after tidying; what was pruned is refused."""
    session = backend.store().session("s")
    made = []
    for number in range(30):
        made += (
            fill(session, 1)
            if not number
            else [
                session.commit(
                    [f"m{number}"], state={"step": number, f"part{number % 5}": f"v{number} " * 20}
                ).checkpoint
                or ""
            ]
        )
        if seal_every and number % seal_every == 0:
            session.seal()
    session.label(made[11], "keep me")
    session.seal()
    before = {name: session.checkpoint(name) for name in made}
    pruned = session.prune(KeepCheckpoints(last=3, ids=[made[5]]))
    kept = {made[5], made[11], *made[-3:]}
    assert set(pruned.plan.kept) == kept
    kill(session)
    for _ in range(2):
        with backend.store().session("s") as session:
            assert {entry.id for entry in session.checkpoints()} == kept
            for name in made:
                if name in kept:
                    found = session.checkpoint(name)
                    assert (found.context, found.state) == (before[name].context, before[name].state)
                else:
                    with pytest.raises(treering.NotFoundError, match="pruned"):
                        session.checkpoint(name)
                    with pytest.raises(treering.NotFoundError, match="pruned"):
                        session.rewind(name)
            session.optimize(everything=True)
    with backend.store().session("s") as session:
        session.rewind(made[5])
        assert session.state == before[made[5]].state
        session.commit(["on"], state={"step": -1})
        assert session.state["step"] == -1


def test_pruning_removes_bodies(backend: Backend) -> None:
    """Bodies that no kept checkpoint needs are gone from the store: all but those since the last full record."""
    session = backend.store().session("s")
    for number in range(20):
        session.commit([f"m{number}"], state={"secret": f"secret-{number} " * 50})
    session.seal()
    session.append("drop")
    session.prune(KeepCheckpoints(last=1, heads=()))
    session.close()
    left = [line for line in backend.store().view("s").lines() if b"secret-" in line]
    assert len(left) < 5
    assert b"secret-19 " in left[-1]
    assert len(backend.store().view("s").nodes()) == 21


def test_pruning_again_and_again(backend: Backend) -> None:
    """What was pruned already is neither in the way of the next pruning nor pruned again."""
    with backend.store().session("s") as session:
        session.commit([f"m{number}" for number in range(50)], state={"a": 1})
        for number in range(4):
            session.commit([f"n{number}"], state={"k": number})
        assert len(session.prune(KeepCheckpoints(last=1)).plan.pruned) == 4
        session.append("more")
        assert session.prune(KeepCheckpoints(last=1)).plan.pruned == ()
        session.seal()
        session.commit(["last"], state={"k": 9})
        assert len(session.prune(KeepCheckpoints(last=1)).plan.pruned) == 1
        assert session.state == {"a": 1, "k": 9}
        assert [session.checkpoint(entry.id).state for entry in session.checkpoints()] == [session.state]


def test_a_dry_run_says_what_would_go(backend: Backend) -> None:
    """A dry run changes nothing."""
    with backend.store().session("s") as session:
        made = fill(session, 5)
        before = backend.snapshot()
        assert session.prune(KeepCheckpoints(last=2), dry_run=True).plan.pruned == tuple(made[:3])
        assert backend.snapshot() == before


def test_the_newest_of_every_head_is_kept(store: Store) -> None:
    """Every branch can be gone on with after pruning."""
    with store.session("s") as session:
        fill(session, 3)
        session.branch("side")
        session.commit(["side"], state={"where": "side"})
        session.switch("main")
        fill(session, 3)
        session.prune(KeepCheckpoints(last=1))
        session.switch("side")
        assert session.state["where"] == "side"
        assert texts(session.context) == ["m0", "m1", "m2", "side"]


def test_a_branch_without_a_checkpoint_of_its_own_keeps_its_state(store: Store) -> None:
    """What tells its state was made on another head, which has newer ones."""
    with store.session("s", shared=True) as first, store.session("s", shared=True) as second:
        first.commit(["one"], state={"n": 1})
        second.refresh()
        for number in (2, 3):
            first.commit([f"{number}"], state={"n": number})
        second.append("aside")
        assert (second.head, second.state) == ("main-2", {"n": 1})
        first.refresh()
        assert len(first.prune(KeepCheckpoints(last=1)).plan.pruned) == 1
    with store.session("s") as session:
        assert session.state == {"n": 3}
        session.switch("main-2")
        assert session.state == {"n": 1}


def test_going_on_after_the_newest_was_pruned_elsewhere(backend: Backend) -> None:
    """Commits after pruning are whole, whatever they would have been a change of."""
    session = backend.store().session("s")
    for _ in range(3):
        fill(session, 6)
        session.seal()
        session.prune(KeepCheckpoints(last=1))
    state, context = session.state, session.context
    kill(session)
    with backend.store().session("s") as session:
        assert (session.state, session.context) == (state, context)
        made = session.commit(["x"], state={"a": 1}).checkpoint or ""
    view = backend.store().view("s")
    assert view.checkpoint(made).state == dict(state) | {"a": 1}


def test_many_checkpoints_together_are_those_read_one_by_one(backend: Backend) -> None:
    """Asked for in any order, twice, after edits, a pruning and an erasure: each is as it is alone."""
    store = backend.store()
    session = store.session("s")
    fill(session, 30)
    session.seal()
    nodes = session.path()
    session.amend(nodes[3], {"role": "user", "content": "said otherwise"})
    session.commit(["edited"], state={"big": "y" * 5_000, "image": "iVBORw0KGgo=" * 5_000})
    session.commit(["other"], state={"big": "z" * 5_000})
    session.rewind(session.checkpoints()[5].id)
    session.commit(["elsewhere"], state={"where": "there"}, label="mine")
    session.erase(nodes[1])
    every = [entry.id for entry in session.checkpoints()]
    session.label(every[2], "given later")
    session.prune(KeepCheckpoints(last=1, ids=every[::2]))
    left = [entry.id for entry in session.checkpoints()]
    asked = [*left[::-1], left[0], left[-1]]
    for reader in (session, backend.store().view("s")):
        assert reader.checkpoints_at(asked) == tuple(reader.checkpoint(name) for name in asked)
    assert [each.info.label for each in session.checkpoints_at([every[2]])] == ["given later"]
    assert session.checkpoints_at([]) == ()
    with pytest.raises(NotFoundError):
        session.checkpoints_at([left[0], *sorted({*every} - {*left})])


@pytest.mark.parametrize("sealed_by", ["nobody", "first", "second"])
def test_a_checkpoint_pruned_by_another_is_not_built_upon(backend: Backend, sealed_by: str) -> None:
    """If another handle gives up the state that a shared one stands on, that one is told, whoever sealed records."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    fill(first, 4)
    if sealed_by == "first":
        first.seal()
    second.refresh()
    second.branch("other")
    second.commit(["x"], state={"where": "other"})
    if sealed_by == "second":
        second.seal()
    assert first.checkpoint_id in second.prune(KeepCheckpoints(last=1, heads=())).plan.pruned
    with pytest.raises(HeadMovedError, match="was pruned"):
        first.commit(["y"], state={"new": 1})
    assert first.refresh()
    assert first.state == {}
    expected = {"new": 1}
    made = first.commit(["y"], state={"new": 1}).checkpoint or ""
    assert first.state == expected
    kill(first)
    kill(second)
    for _ in range(2):
        view = backend.store().view("s")
        assert view.checkpoint(made).state == expected
        assert backend.store().verify("s") == []
        with backend.store().session("s") as session:
            session.seal()
            session.prune(KeepCheckpoints(last=1, heads=(), ids=[made]))
            session.optimize(everything=True)


def test_bodies_that_were_given_up_are_no_damage(backend: Backend) -> None:
    """A segment without them, beside a tail that still has them, is as sound as the other way round."""
    session = backend.store().session("s")
    for number in range(4):
        session.commit([f"m{number}"], state={"a": "x" * 500 * (number % 2)}, context=[])
    session.seal()
    assert session.prune(KeepCheckpoints(last=1)).plan.droppable
    session.optimize(everything=True)
    assert backend.store().verify("s") == []


def test_labels_and_metadata_go_with_a_pruned_checkpoint(backend: Backend) -> None:
    """From all objects, whether another checkpoint needs its record or not; and no copy is taken for damage."""
    store = backend.store()
    session = store.session("s")
    for step in range(3):
        label, metadata = (f"swordfish {step}", {"why": "swordfish"}) if step < 2 else (None, None)
        session.commit([f"a{step}"], state={"k": step}, label=label, metadata=metadata)
    session.seal()
    assert len(holding(backend.snapshot(), "swordfish")) >= 2  # a segment, and the tail
    pruned = session.prune(KeepCheckpoints(last=1, labelled=False)).plan
    assert len(pruned.pruned) == 2
    assert set(pruned.pruned) - set(pruned.droppable)  # one is needed
    assert holding(backend.snapshot(), "swordfish") == []
    session.close()
    view = store.view("s")
    assert [(entry.label, entry.metadata) for entry in view.checkpoints()] == [(None, {})]
    assert view.state == view.checkpoint(view.checkpoints()[0].id).state == {"k": 2}
    assert store.verify("s") == []


def test_a_copy_with_the_label_of_a_pruned_checkpoint_is_no_damage() -> None:
    """A process that was killed left the older segment beside the one that pruning made of it."""
    backend = memory_backend()
    session = backend.store().session("s")
    for step in range(3):
        session.commit([f"a{step}"], state={"k": step}, label=f"label {step}")
    session.seal()
    before = {key: data for key, data in backend.snapshot().items() if "/segments/" in key}
    session.prune(KeepCheckpoints(last=1, labelled=False))
    backend.driver().execute(tuple(Put(key, data) for key, data in before.items()))
    assert before.keys() < {key for key in backend.snapshot() if "/segments/" in key}
    session.close()
    assert [finding for finding in backend.store().verify("s") if finding.severity == "damage"] == []


def test_what_an_old_context_costs_grows_with_its_length_and_not_with_its_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its items are gone through a fixed number of times, also where every second one was hidden."""

    def looks(count: int) -> int:
        """How often a context is gone through to tell what it was at a node."""
        with treering.open(f"memory://old-{count}").session("s") as session:
            nodes = session.commit([f"message {number}" for number in range(count)]).nodes
            hidden = [treering.Draft(type="edit", kind="retract", target=node) for node in nodes[::2]]
            session.commit([*hidden, "later"], state={"step": 1})
            session.commit(["last"])
            asked = 0
            known: Callable[[Context], tuple[str, ...]] = inspect.getattr_static(Context, "nodes").fget

            def counted(context: Context) -> tuple[str, ...]:
                nonlocal asked
                asked += 1
                return known(context)

            def made(context: Context, items: Sequence[Item]) -> Context:
                nonlocal asked
                asked += 1
                return Context(tuple(items), context.settings)

            with monkeypatch.context() as patched:
                patched.setattr(Context, "nodes", property(counted))
                patched.setattr(Context, "with_items", made)
                assert len(session.context_at(nodes[-1])) == count // 2
                session.checkout(nodes[-1])
            return asked

    assert looks(10) == looks(200)


# comparing


def test_two_points_differ_by_state_settings_and_context(backend: Backend) -> None:
    """A checkpoint, a node and where the session stands are compared in any order; blobs and seals change nothing."""
    large = "large " * 60_000
    with backend.store().session("s") as session:
        done = session.commit(["a", "b", large], state={"kept": [1], "changed": 1, "gone": 1})
        first, nodes = done.checkpoint or "", done.nodes
        session.seal()
        session.set_model("m")
        session.retract(nodes[0])
        session.amend(nodes[1], {"role": "user", "content": "B"})
        last = session.commit(["c"], state={"changed": 2, "new": {"x": 1}}, drop=["gone"])
        now = session.diff(first)
        session.append("d")
    view = backend.store().view("s")
    found = view.diff(first, last.checkpoint)
    assert found == view.diff(first, last.node) == now
    assert found.state == treering.ValueChanges(
        added={"new": {"x": 1}}, changed={"changed": Changed(before=1, after=2)}, removed={"gone": 1}
    )
    assert found.settings == treering.ValueChanges(added={"model": "m"}, changed={}, removed={})
    context = found.context
    assert [(item.node, item.message["content"]) for item in context.added] == [(last.node, "c")]
    assert [(item.node, item.message["content"]) for item in context.edited] == [(nodes[1], "B")]
    assert [(item.node, item.message["content"]) for item in context.removed] == [(nodes[0], "a")]
    assert context.kept == 1
    back = view.diff(last.checkpoint or "", first)
    assert (back.state.added, back.state.removed) == (found.state.removed, found.state.added)
    assert back.state.changed == {"changed": Changed(before=2, after=1)}
    assert (back.context.added, back.context.removed) == (context.removed, context.added)
    assert texts(view.diff(last.node).context.added) == ["d"]
    same = view.diff(first, first)
    assert (same.state.changed, same.context.edited, same.context.kept) == ({}, (), 3)


def test_a_node_shown_twice_is_compared_by_its_places(store: Store) -> None:
    """A context may show one node more than once: each place is compared with the one of the same number."""
    with store.session("s") as session:
        node = session.append("a").node
        before = session.commit(state={"n": 1}).checkpoint or ""
        item = ContextItem(node=node, message={"role": "user", "content": "A"})
        session.commit(context=[node, item])
        found = session.diff(before).context
        assert (texts(found.added), found.edited, found.removed, found.kept) == (["A"], (), (), 1)


def test_what_does_not_exist_is_not_compared(store: Store) -> None:
    """Neither is a checkpoint that was pruned."""
    with store.session("s") as session:
        pruned = session.commit(["a"], state={"n": 1}).checkpoint or ""
        session.commit(["b"], state={"n": 2})
        session.prune(KeepCheckpoints(last=1))
        for name in ("nobody", pruned):
            with pytest.raises(treering.NotFoundError, match=name):
                session.diff(name)


def test_messages_that_wait_are_not_compared(store: Store) -> None:
    """Where the session stands is what is recorded there."""
    with store.session("s", durability="turn") as session:
        before = session.commit(["a"], state={"n": 1}).checkpoint or ""
        session.append("waits")
        assert session.diff(before).context.added == ()
        session.flush()
        assert texts(session.diff(before).context.added) == ["waits"]
