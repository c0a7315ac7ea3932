from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Raw
from tests.checkpoint.records import Shelf, skeleton

from treering.checkpoint import delta
from treering.checkpoint.checkpoint import Checkpoint, chain_of, decode_checkpoint, encode_checkpoint
from treering.checkpoint.context import Context, Item, ItemForm, encode_items
from treering.checkpoint.delta import diff, outweighs, patched_bytes, write, write_steps
from treering.checkpoint.policies import DEFAULT_POLICY
from treering.checkpoint.resolve import apply_body, needs, resolve
from treering.errors import CorruptError, UsageError
from treering.format import record
from treering.format.record import BRIEF_BYTES_MAX, Record
from treering.format.values import encode
from treering.ids import new_id

OWN_FIELDS = ("id", "parent", "head", "node", "context", "state", "policy", "label", "step", "metadata", "time_ms")

nodes = st.sampled_from([*"abcdefgh", "\ud800", "é"])
edits = st.builds(
    Item, nodes, st.sampled_from(["", "summary@1"]), st.none() | st.just(b'{"role":"user","content":"x"}')
)
values = st.sampled_from(
    [None, 0, 1, True, 1.0, "", "\ud800", b"\0", float("nan"), [1], {"$x": 1}, (2,), 10**30, "long" * 50]
)
lists = st.lists(st.sampled_from(["a" * 40, "é, " * 9, "漢" * 7]), max_size=3).map(lambda more: ["x" * 90] * 3 + more)
"""Large values that have much in common."""
settings = st.dictionaries(st.sampled_from(["model", "mode", "$odd", "\ud800"]), values, max_size=3)


@dataclass
class Step:
    """What one checkpoint changes of the one it starts from."""

    parent: int
    navigated: bool
    put: dict[str, object]
    drop: set[str]
    context: tuple[tuple[str, int], ...]
    items: list[Item]
    settings: dict[str, object] | None
    manager: object
    policy: str
    brief: dict[str, Any] = field(default_factory=dict)


steps = st.builds(
    Step,
    parent=st.integers(0, 30) | st.just(-1) | st.just(-1) | st.just(-1),
    navigated=st.integers(0, 9).map(lambda number: number == 0),
    put=st.dictionaries(st.sampled_from(["k1", "k2", "k3", "\ud800", "$k"]), values | lists | lists, max_size=3),
    drop=st.sets(st.sampled_from(["k1", "k2", "k3"]), max_size=1),
    context=st.lists(st.tuples(st.sampled_from(["append", "cut", "edit"]), st.integers(0, 9)), max_size=3).map(tuple),
    items=st.lists(edits, min_size=1, max_size=3),
    settings=st.none() | settings,
    manager=values,
    policy=st.sampled_from(["default@1", "mine@2"]),
    brief=st.fixed_dictionaries(
        {},
        optional={
            "label": st.sampled_from(["good", "\ud800"]),
            "step": st.integers(0, 9),
            "metadata": st.dictionaries(st.just("m"), values, max_size=1),
        },
    ),
)


def changed_items(old: tuple[Item, ...], step: Step) -> tuple[Item, ...]:
    """Do to a context what agents do: add, forget the oldest, edit one."""
    items = list(old)
    for sort, number in step.context:
        if sort == "append":
            items += step.items
        elif sort == "cut":
            items = items[number:]
        elif number < len(items):
            items[number] = step.items[0]
    return tuple(items)


def play(plan: list[Step]) -> tuple[Shelf, dict[str, Checkpoint]]:
    """Write checkpoints, each from the last one or from any older one; return them and what they should be."""
    shelf, model = Shelf(), dict[str, Checkpoint]()
    for number, step in enumerate(plan):
        ids = list(model)
        parent = model[ids[step.parent % len(ids)] if step.parent >= 0 else ids[-1]] if ids else None
        state = {key: value for key, value in (parent.state if parent else {}).items() if key not in step.drop}
        context = parent.context if parent else Context()
        new = Checkpoint(
            id=f"c{number}",
            parent=parent.id if parent else None,
            head=f"main-{step.parent % 3}",
            node=f"n{number}" if number else None,
            context=Context(
                changed_items(context.items, step), context.settings if step.settings is None else step.settings
            ),
            state=state | {key: encode(value) for key, value in step.put.items()},
            manager=encode(step.manager),
            policy=step.policy,
            time_ms=number,
            **step.brief,
        )
        model[new.id] = new
        shelf.put(new, navigated=step.navigated)
    return shelf, model


def told(checkpoint: Checkpoint) -> dict[str, bytes]:
    """All that a caller stored, in a form in which NaN equals NaN and True is not 1."""
    fields = {name: getattr(checkpoint, name) for name in OWN_FIELDS} | {"manager": checkpoint.manager or b"null"}
    context: Context = fields.pop("context")
    fields["items"] = [[item.node, item.view, item.message] for item in context.items]
    fields["settings"] = dict(sorted(context.settings.items()))
    fields["state"] = dict(sorted(checkpoint.state.items()))
    return {name: encode(value) for name, value in fields.items()}


@given(st.lists(steps, min_size=1, max_size=14))
def test_every_checkpoint_of_a_tree_is_read_as_it_was_written(plan: list[Step]) -> None:
    """Whatever changed, and from whichever older one, each is resolved from its chain and the records it needs."""
    shelf, model = play(plan)
    for identifier, expected in model.items():
        found = shelf.read(identifier)
        assert told(found) == told(expected)
        assert bookkeeping(found) == bookkeeping(shelf.written[identifier])


@given(st.lists(steps, min_size=1, max_size=14))
def test_the_brief_of_a_full_record_names_what_it_needs(plan: list[Step]) -> None:
    """So whoever has the graph reads the records of a checkpoint together. A delta names none."""
    shelf, model = play(plan)
    for identifier in model:
        assert sorted(shelf.entries[identifier].needs) == sorted(needs(shelf.record(identifier)))


@pytest.mark.parametrize(("label", "count"), [(None, 13), ("x" * 300, 5)])
def test_a_brief_names_as_many_as_it_has_room_for(label: str | None, count: int) -> None:
    """Label, step and metadata come first; the body names all."""
    shelf, parent, state = Shelf(), None, dict[str, bytes]()
    for number in range(40):
        state = {f"k{key}": b"1" for key in range(number + 1)}
        new = Checkpoint(id=f"{number:032}", parent=parent, head="main", node=None, state=state)
        shelf.put(new)
        parent = new.id
    last = Checkpoint(id="n", parent=parent, head="main", node=None, state=state, label=label)
    assert len(shelf.put(last, navigated=True).brief) <= BRIEF_BYTES_MAX
    assert len(shelf.entries["n"].needs) == count
    assert len(needs(shelf.record("n"))) == 40
    assert shelf.read("n").state == state


LARGEST = 640


def fits(body: bytes) -> bool:
    """Whether a step is small enough; the settings of a context are one thing, which no step can part."""
    return len(body) - len(json.dumps(json.loads(body).get("settings", ""))) <= LARGEST


@given(st.lists(steps, min_size=1, max_size=8), st.booleans())
def test_what_is_too_large_for_a_record_is_written_in_steps(plan: list[Step], navigated: bool) -> None:  # noqa: FBT001
    """Each fits into a record, is a change of the one before, and the last one is what was to be written."""
    shelf, model = play(plan)
    for expected in model.values():
        parent = None if expected.parent is None else shelf.written[expected.parent]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record, "RECORD_BYTES_MAX", LARGEST)
            patch.setattr(delta, "BODY_BYTES_MAX", LARGEST - LARGEST // 16)
            written = write_steps(parent, expected, new_id=new_id, navigated=navigated)
        if len(written) > 1:
            assert all(fits(step.body) for step in written)
        found, steps = parent, dict[str, Record]()
        for step in written:
            made = step.checkpoint
            line = Record(
                at=0, by="", type="checkpoint", id=made.id, parent=made.parent, head=made.head, target=made.node,
                time=made.time_ms, brief=Raw(step.brief), body=Raw(step.body),
            )  # fmt: skip
            found = apply_body(found, line, lambda name, steps=steps: steps.get(name) or shelf.record(name))  # type: ignore[misc]
            steps[made.id] = line  # a later one may refer to what this one holds
            assert bookkeeping(found) == bookkeeping(made)
        assert found is not None
        assert told(found) == told(msgspec.structs.replace(expected, parent=found.parent))


def bookkeeping(checkpoint: Checkpoint) -> tuple[dict[str, str], str | None, int, int]:
    """What a checkpoint knows of how it is stored."""
    return checkpoint.origins, checkpoint.manager_at, checkpoint.pending_bytes, checkpoint.context_bytes


@given(st.lists(steps, min_size=1, max_size=6))
def test_a_whole_checkpoint_survives_in_latest(plan: list[Step]) -> None:
    """What `latest` holds needs no other record, and goes on with the same origins and sizes."""
    shelf, _ = play(plan)
    for checkpoint in shelf.written.values():
        raw = encode_checkpoint(checkpoint)
        assert b"\n" not in raw
        assert told(decode_checkpoint(raw)) == told(checkpoint)
        assert bookkeeping(decode_checkpoint(raw)) == bookkeeping(checkpoint)


@given(st.lists(steps, min_size=1, max_size=14))
def test_a_value_is_stored_once(plan: list[Step]) -> None:
    """A value of the state stands in the record of the checkpoint that set it and in no later one, full or not.

    Patched values stand in the next full record.
    """
    shelf, _ = play(plan)
    for checkpoint in shelf.written.values():
        parent = shelf.written[checkpoint.parent].state if checkpoint.parent else {}
        body = json.loads(bytes(shelf.record(checkpoint.id).body))
        changed = {key for key, value in checkpoint.state.items() if parent.get(key) != value}
        held = shelf.written[checkpoint.parent].origins if checkpoint.parent else {}
        patched = {key for key in checkpoint.state if key not in held and body.get("full")}
        assert set(body.get("set", {})) == changed | patched


@given(st.lists(steps, min_size=1, max_size=14))
def test_changes_never_outweigh_a_full_record(plan: list[Step]) -> None:
    """A full record is written as soon as the changes since the last one would weigh more, and after navigation.

    Patched values count twice.
    """
    shelf, _ = play(plan)
    for entry, step in zip(shelf.entries.values(), plan, strict=True):
        new = shelf.written[entry.id]
        whole = len(diff(None, new, full=True))
        assert changes_bytes(shelf, entry.id) <= whole + patched_bytes(new)
        if entry.parent is None or step.navigated:
            assert entry.full
        elif entry.full:
            change = len(diff(shelf.written[entry.parent], new, full=False))
            assert changes_bytes(shelf, entry.parent) + change > whole


def changes_bytes(shelf: Shelf, checkpoint: str) -> int:
    """Return the size of the changes that a reader of a checkpoint goes through."""
    return sum(len(bytes(shelf.record(part).body)) for part in chain_of(checkpoint, shelf.entries)[1:])


def base(**fields: object) -> Checkpoint:
    """Return a checkpoint with a context and state of some size."""
    values: dict[str, object] = {
        "id": "c0",
        "head": "main",
        "node": "n9",
        "context": Context(tuple(Item(f"n{number}") for number in range(10)), {"model": "m", "mode": "plan"}),
        "state": {"plan": encode(["x"] * 50), "step": b"1"},
        "manager": b'{"removed":1}',
        **fields,
    }
    return Checkpoint(**values)  # type: ignore[arg-type]


def after(parent: Checkpoint, **fields: object) -> Checkpoint:
    """Return a child of `parent` that differs in `fields`."""
    return msgspec.structs.replace(parent, **{"id": f"{parent.id}+", "parent": parent.id, **fields})


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({}, {}),
        ({"state": {"plan": encode(["x"] * 50), "step": b"2"}}, {"set": {"step": 2}}),
        ({"state": {"step": b"1"}}, {"drop": ["plan"]}),
        ({"context": Context(base().context.items, {"model": "n"})}, {"settings": {"model": "n"}, "unset": ["mode"]}),
        ({"context": Context(base().context.items[4:], {"model": "m", "mode": "plan"})}, {"context": [[0, 4, []]]}),
        (
            {"context": Context((*base().context.items, Item("s", "summary@1")), {"model": "m", "mode": "plan"})},
            {"context": [[10, 0, [{"node": "s", "view": "summary@1"}]]]},
        ),
        ({"manager": None}, {"manager": None}),
        ({"manager": b"[]", "policy": "mine@1"}, {"manager": [], "policy": "mine@1"}),
        ({"label": "here", "step": 4, "metadata": {"cost": 2}}, {}),
    ],
)
def test_a_change_mentions_nothing_that_did_not_change(fields: dict[str, object], body: dict[str, object]) -> None:
    """Each kind of change is written alone, in the fewest words."""
    shelf = Shelf()
    shelf.put(base())
    written = shelf.put(after(base(), **fields))
    assert not written.full
    assert json.loads(written.body) == body


def test_a_full_record_refers_to_what_others_hold() -> None:
    """State and manager of older records are named, not repeated; needs lists those records."""
    shelf = Shelf()
    first = base()
    second = after(first, state=first.state | {"step": b"2"})
    third = after(second, state=second.state | {"new": b"3"})
    for checkpoint in (first, second):
        shelf.put(checkpoint)
    written = shelf.put(third, navigated=True)
    assert written.full
    assert json.loads(written.body) == {
        "full": True,
        "set": {"new": 3},
        "keys": {"plan": "c0", "step": "c0+"},
        "context": [f"n{number}" for number in range(10)],
        "settings": {"model": "m", "mode": "plan"},
        "manager_at": "c0",
        "policy": "default@1",
    }
    assert needs(shelf.record("c0++")) == {"c0", "c0+"}
    assert needs(shelf.record("c0+")) == frozenset()


def test_lists_read_the_skeleton_alone() -> None:
    """Head, node, parent, label, step and metadata of a checkpoint stand in its skeleton."""
    shelf = Shelf()
    shelf.put(base(label="good", step=7, metadata={"cost": 0.5}, time_ms=1234))
    shelf.put(after(base(), node=None))
    first, second = shelf.entries.values()
    assert (first.id, first.parent, first.head, first.node, first.full) == ("c0", None, "main", "n9", True)
    assert (first.label, first.step, first.metadata, first.time_ms, first.at) == ("good", 7, {"cost": 0.5}, 1234, 0)
    assert first.length == len(shelf.lines["c0"])
    assert (second.parent, second.node, second.full, second.label) == ("c0", None, False, None)
    assert second.with_label("later").label == "later"


def test_small_changes_of_a_large_checkpoint_get_a_full_record_now_and_then() -> None:
    """Neither never nor every time: full records and the small changes between them weigh about the same."""
    shelf, last = Shelf(), base()
    shelf.put(last)
    for number in range(200):
        last = after(last, id=f"d{number}", state=last.state | {"step": encode(number)})
        shelf.put(last)
    sizes = {full: [len(body) for body in shelf.bodies if (b'"full"' in body) == full] for full in (True, False)}
    assert 0.8 < sum(sizes[True]) / sum(sizes[False]) < 1.25


@given(st.lists(steps, min_size=1, max_size=6))
def test_a_context_takes_at_least_its_least_bytes(plan: list[Step]) -> None:
    """So a delta that does not outweigh these does not outweigh a full record."""
    shelf, _ = play(plan)
    for checkpoint in shelf.written.values():
        assert 0 <= checkpoint.context_bytes <= len(diff(None, checkpoint, full=True))


def test_a_delta_over_a_long_context_encodes_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole context is only encoded when a full record may be due."""
    encoded = 0

    def counted(items: Iterable[Item]) -> list[str | ItemForm]:
        nonlocal encoded
        found = encode_items(items)
        encoded += len(found)
        return found

    monkeypatch.setattr(delta, "encode_items", counted)
    long = Context(tuple(Item(new_id()) for _ in range(1000)))
    last = write(None, base(context=long, id="c0")).checkpoint
    encoded, written = 0, 0
    for number in range(100):
        longer = Context((*last.context.items, Item(new_id())))
        done = write(last, after(last, id=f"d{number}", context=longer, state=last.state | {"n": encode(number)}))
        last, written = done.checkpoint, written + done.full
    assert written == 0
    assert encoded == 100


def test_equal_weight_is_not_more() -> None:
    """A full record is due when the changes weigh more, not when they weigh the same."""
    assert not outweighs(100, 100)
    assert outweighs(101, 100)


def test_too_much_for_a_list_is_refused() -> None:
    """Label and metadata stand in every skeleton, so they must be small."""
    with pytest.raises(UsageError, match="too large, put them into the state"):
        write(None, base(metadata={"note": "x" * 600}))


def test_a_parent_must_be_the_parent() -> None:
    """A change is only right over the checkpoint it names."""
    with pytest.raises(UsageError, match="parent is another"):
        write(base(), base(id="c1", parent="c7"))
    with pytest.raises(UsageError, match="parent is another"):
        write(None, base(parent="c7"))


def test_gaps_are_corrupt_and_named() -> None:
    """A missing parent, a value that is not where it is said to be, and damaged bodies are told apart from nothing."""
    shelf = Shelf()
    first = base()
    second = after(first, state=first.state | {"step": b"2"})
    third = after(second, id="c2")
    shelf.put(first)
    shelf.put(second)
    shelf.put(third, navigated=True)
    with pytest.raises(CorruptError, match="not at hand"):
        apply_body(None, shelf.record("c0+"), shelf.record)
    with pytest.raises(CorruptError, match="not at hand"):
        apply_body(shelf.written["c2"], shelf.record("c0+"), shelf.record)
    with pytest.raises(CorruptError, match="lacks a value"):
        resolve([shelf.record("c2")], lambda _: shelf.record("c0+"))
    emptied = msgspec.structs.replace(shelf.record("c0"), body=msgspec.Raw(b'{"full":true,"set":{"plan":1}}'))
    with pytest.raises(CorruptError, match="lacks the manager state"):
        resolve([shelf.record("c2")], lambda name: emptied if name == "c0" else shelf.record(name))
    for body in (b"{", b'{"set":[]}', b"[]", b'{"full":true,"context":[[0,0,[]]]}', b'{"full":true,"settings":[1]}'):
        with pytest.raises(CorruptError):
            resolve([msgspec.structs.replace(shelf.record("c0"), body=msgspec.Raw(body))], shelf.record)
    with pytest.raises(CorruptError, match="no full record"):
        chain_of("c0+", {"c0+": shelf.entries["c0+"]})
    with pytest.raises(CorruptError):
        decode_checkpoint(b'{"id":"c0"}')
    with pytest.raises(UsageError, match="at least one"):
        resolve([], shelf.record)


def test_fields_of_newer_versions_are_passed_over() -> None:
    """A body with more than we know is read for what we know."""
    shelf = Shelf()
    shelf.put(base())
    body = bytes(shelf.record("c0").body)[:-1] + b',"hologram":{"deep":[1]}}'
    newer = msgspec.structs.replace(shelf.record("c0"), body=msgspec.Raw(body))
    assert told(resolve([newer], shelf.record)) == told(base())


def test_500_turns_cost_a_few_hundred_bytes_each() -> None:
    """A checkpoint after every two messages, contexts of at most 40 with compactions: small, whatever came before."""
    shelf = Shelf()
    context, parent = Context(), None
    plan = encode(["look", "fix", "test"])
    for turn in range(500):
        if len(context.items) > 38:
            context = extended(context, "compaction", kept=context.items[-20].node)
        context = extended(extended(context, "message"), "message")
        new = Checkpoint(
            id=new_id(),
            parent=parent,
            head="main",
            node=context.items[-1].node,
            context=context,
            state={"turn": encode(turn), "plan": plan},
            manager=b'{"removed":0}',
        )
        shelf.put(new)
        parent = new.id
        assert len(context.items) <= 40
    sizes = [len(body) for body in shelf.bodies]
    assert sum(sizes) / len(sizes) < 250
    assert max(sizes) < 2000


def extended(context: Context, kind: str, **brief: object) -> Context:
    """Return `context` with a new node of ours."""
    longer = DEFAULT_POLICY.extend(context, skeleton(new_id(), kind, **brief))
    assert longer is not None
    return longer
