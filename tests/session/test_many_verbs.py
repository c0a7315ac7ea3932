"""One writer does everything that can be done, by chance; after each verb others see what it sees, in two reads."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from msgspec import UNSET
from tests.sampling import few
from tests.session.backends import kill
from tests.session.faults import seen

from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.checkpoint.prune import KeepCheckpoints
from treering.session.recording import Message
from treering.session.state import SessionState
from treering.session.verbs.reading import read_all
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Get
from treering.storage.run import run
from treering.store.place import Place
from treering.transcript.node import assistant

SEEDS = few(6, whole=20)
VERBS_PER_WALK = 60
VERBS_PER_REPLAY = 7
LARGE_CHARACTERS = 270_000  # more than a record holds inline


class Walk:
    """A session, all nodes it has, and what can be done next."""

    def __init__(self, seed: int, *, appends: bool) -> None:
        self.rng = random.Random(seed)
        self.memory = MemoryDriver(appends=appends)
        self.store = Store(Place(self.memory))
        self.session = self.store.session("s")
        self.session.append("first")
        self.retracted: set[str] = set()
        self.text = ""

    @property
    def verbs(self) -> dict[str, tuple[int, Callable[[], object]]]:
        """How often each verb is done, and how."""
        session, rng = self.session, self.rng
        return {
            "append": (3, lambda: session.append(self.text)),
            "append large": (1, lambda: session.append(self.text + "B" * LARGE_CHARACTERS)),
            "commit": (4, self.commit),
            "commit context": (1, self.commit_context),
            "compact": (1, lambda: session.compact(self.text)),
            "compact keeping": (1, lambda: session.compact(self.text, kept=self.node())),
            "amend": (1, lambda: session.amend(self.node(), {"role": "user", "content": self.text})),
            "retract": (1, self.retract),
            "unretract": (1, self.unretract),
            "checkout": (1, lambda: session.checkout(self.node(), keep_state=rng.random() < 0.3)),
            "checkout root": (1, lambda: session.checkout(None)),
            "switch": (1, lambda: session.switch(rng.choice(list(session.heads)), keep_state=rng.random() < 0.3)),
            "branch": (1, lambda: session.branch(self.text, keep_state=rng.random() < 0.5)),
            "branch at": (1, lambda: session.branch(self.text, node=self.node(), keep_state=rng.random() < 0.5)),
            "branch summary": (1, lambda: session.branch(self.text, summary=rng.choice(["left", ""]))),
            "drop head": (1, self.drop_head),
            "rewind": (1, self.rewind),
            "prune": (1, self.prune),
            "set model": (1, lambda: session.set_model(self.text, provider="p")),
            "note": (1, lambda: session.note("todo", {"a": 1}, target=self.node())),
            "usage": (1, lambda: session.record_usage(input=3)),
            "label": (1, lambda: session.label(self.node(), self.text)),
            "title": (1, lambda: session.set_title(self.text)),
            "extension": (1, lambda: session.record_extension("x", [self.text])),
            "seal": (1, session.seal),
            "optimize": (1, lambda: session.optimize(everything=rng.random() < 0.5)),
            "refresh": (1, session.refresh),
            "reopen": (1, self.reopen),
            "be killed": (1, self.be_killed),
            "fork": (1, self.fork),
            "fork at": (1, self.fork_at),
            "copy": (1, self.copy),
        }

    def step(self, number: int) -> None:
        """Do one verb, and look at the session anew."""
        self.text = f"text {number}"
        weights = self.verbs
        name = self.rng.choices(list(weights), [weight for weight, _ in weights.values()])[0]
        weights[name][1]()
        self.check()

    # what can be done

    def node(self) -> str:
        """Any node."""
        return self.rng.choice([row.id for row in self.session.nodes()])

    def commit(self) -> None:
        messages: list[Message] = [self.text, assistant(f"answer to {self.text}")]
        self.session.commit(
            messages[: self.rng.randint(0, 2)],
            state=self.rng.choice([None, {self.rng.choice("xyz"): self.text}]),
            manager=self.rng.choice([UNSET, UNSET, None, {"m": self.text}]),
            drop=self.rng.choice([(), (), ("x",)]),
            metadata=self.rng.choice([None, {"q": 1}]),
        )

    def commit_context(self) -> None:
        nodes = [node for node in (self.node() for _ in range(self.rng.randint(0, 3))) if node not in self.retracted]
        nodes += [item.node for item in self.session.context if self.rng.random() < 0.7]
        self.session.commit(self.rng.choice([[], [self.text]]), context=list(dict.fromkeys(nodes)))

    def retract(self) -> None:
        node = self.node()
        self.session.retract(node)
        self.retracted.add(node)

    def unretract(self) -> None:
        if self.retracted:
            node = self.rng.choice(sorted(self.retracted))
            self.session.unretract(node)
            self.retracted.discard(node)

    def drop_head(self) -> None:
        others = [head for head in self.session.heads if head != self.session.head]
        if len(others) > 2:
            self.session.drop_head(self.rng.choice(others))

    def rewind(self) -> None:
        if made := self.session.checkpoints():
            self.session.rewind(self.rng.choice(made).id)

    def prune(self) -> None:
        self.session.prune(
            self.rng.choice([KeepCheckpoints(last=3), KeepCheckpoints(last=1), KeepCheckpoints(last=1, heads=())])
        )

    def reopen(self) -> None:
        self.session.close()
        self.session = self.store.session("s")

    def be_killed(self) -> None:
        kill(self.session)
        self.session = self.store.session("s")

    def fork(self) -> None:
        name = f"fork {self.text}"
        self.session.fork(name)
        found, expected = seen(self.store.view(name)), seen(self.session)
        for fact in ("context", "settings", "state", "manager", "node"):
            assert found[fact] == expected[fact]

    def fork_at(self) -> None:
        name, node = f"fork {self.text}", self.node()
        self.session.fork(name, node=node)
        assert self.store.view(name).context == self.session.context_at(node)

    def copy(self) -> None:
        name = f"copy {self.text}"
        self.store.copy("s", name=name)
        assert all_of(self.store.view(name)) == all_of(self.session)

    # what must be so

    def check(self) -> None:
        """A new process sees what this one sees, in two reads and its large parts."""
        counts = CountingDriver(self.memory, keep=True)
        view = Store(Place(counts)).view("s")
        assert all_of(view) == all_of(self.session)
        assert len([each for each in counts.requests if not (isinstance(each, Get) and "/blobs/" in each.key)]) == 2

    def check_replay(self) -> None:
        """All records, folded from the first on, make the state that was resumed; and nothing is broken."""
        reader = self.store.view("s")._reader
        resumed = reader.replica.state
        replayed = SessionState(msgspec.structs.replace(resumed.card, born=0), reader.replica.policy)
        for steps in read_all(reader):
            replayed.advance(run(steps, self.memory))
        assert replayed.end == resumed.end
        assert replayed.heads == resumed.heads
        assert replayed.usage == resumed.usage
        if not replayed.adrift:  # what was pruned is not told by the records any more
            assert replayed.context == resumed.context
            assert replayed.state == resumed.state
            assert replayed.manager == resumed.manager
        assert not self.session.problems()
        assert not self.store.verify("s")
        for entry in self.session.checkpoints():
            self.session.checkpoint(entry.id)


def all_of(handle: Session | View) -> dict[str, object]:
    """All that a handle shows without asking the store."""
    return seen(handle) | {
        "usage": dict(handle.usage),
        "last usage": dict(handle.last_usage),
        "checkpoint": handle.checkpoint_id,
        "title": handle.info.title,
        "messages": handle.info.messages,
    }


@pytest.mark.parametrize("appends", [False, True], ids=["objects", "logs"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_a_session_does_others_see_the_same(seed: int, *, appends: bool) -> None:
    """After each of sixty verbs by chance a new process sees the same, in two reads; so do replays, copies, forks."""
    walk = Walk(seed, appends=appends)
    for number in range(VERBS_PER_WALK):
        walk.step(number)
        if number % VERBS_PER_REPLAY == 0:
            walk.check_replay()
    walk.check_replay()
