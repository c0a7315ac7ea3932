"""Records that are folded together give the state that they give one by one, with work that follows their number."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

import treering
from treering.api.session import Session
from treering.api.store import Store
from treering.checkpoint.context import Context
from treering.checkpoint.policies import DefaultPolicy
from treering.checkpoint.policy import find_policy, register_policy
from treering.format.record import Skeleton, decode_record
from treering.session.state import TOGETHER_MIN, SessionState
from treering.storage.memory import MemoryDriver
from treering.store.place import Place
from treering.transcript.node import change, user

MANY = 2_000


class Weighed(DefaultPolicy):
    """The default policy, which counts the items that it is given."""

    name = "weighed@1"
    items_given = 0

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        self.items_given += len(context.items)
        return super().extend(context, skeleton)


WEIGHED = Weighed()
register_policy(WEIGHED)


def act(session: Session, rng: random.Random) -> None:
    """Record something, often many nodes in one append."""
    shown = [item.node for item in session.context]
    match rng.randrange(8):
        case 0 | 1 | 2:
            messages = [user(f"text {rng.random()}") for _ in range(rng.randrange(1, 3 * TOGETHER_MIN))]
            drafts = [*messages, change("model_change", model=rng.choice("ab"))]
            session.append(*rng.sample(drafts, len(drafts)))
        case 3:
            session.commit([user("a")] * rng.randrange(20), state={"k": rng.random()})
        case 4:
            session.compact("gist", kept=rng.choice([None, *shown[-3:]]))
        case 5:
            session.record_usage(tokens=3)
        case 6 if shown:
            node = rng.choice(shown)
            session.retract(node) if rng.random() < 0.5 else session.amend(node, {"role": "user", "content": "b"})
        case _:
            session.checkout(rng.choice([None, *session.path()]))


def told(state: SessionState) -> Mapping[str, object]:
    """What two folds must agree on."""
    return {
        "context": state.context,
        "at": state.context_at,
        "lines": dict(state.lines),
        "lacks": state.lacks_lines,
        "heads": state.heads,
        "checkpoint": state.checkpoint,
        "since": state.nodes_since,
        "card": state.card,
    }


@pytest.mark.parametrize("seed", range(30))
def test_records_folded_together_give_what_they_give_one_by_one(seed: int) -> None:
    """Wherever the parts that are folded together begin and end."""
    rng = random.Random(seed)
    with Store(Place(MemoryDriver())).session("s") as session:
        for _ in range(25):
            act(session, rng)
        lines = list(session.lines())
        card = session._reader.creation.card
    single, together = (SessionState(card, find_policy("default@1")) for _ in range(2))
    at = 0
    while at < len(lines):
        part = lines[at : at + rng.randrange(1, 4 * TOGETHER_MIN)]
        at += len(part)
        for line in part:
            single.apply(decode_record(line), line)
        together.advance(part)
        assert told(together) == told(single)


@pytest.mark.parametrize("commits", [False, True])
def test_a_call_with_many_messages_looks_at_each_a_few_times(*, commits: bool) -> None:
    """The context is not copied for each of them: not when they are planned, nor recorded, nor read by others."""
    store = Store(Place(MemoryDriver()))
    with store.session("s", policy=WEIGHED.name) as session:
        session.append("a", "b", "c")
        reader = store.view("s")
        WEIGHED.items_given = 0
        messages = [treering.user(f"m{number}") for number in range(MANY)]
        if commits:
            session.commit(messages, state={"k": 1})
        else:
            session.append(*messages)
        reader.refresh()
        assert 0 < WEIGHED.items_given < 20 * MANY
        assert len(reader.context) == len(session.context) == MANY + 3
