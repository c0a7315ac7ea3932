"""What was hidden stays hidden, whatever else is done to it, in whichever order, and whoever looks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest
from tests.sampling import few
from tests.session.backends import Backend, kill, memory_backend, texts

import treering
from treering.api.session import Session
from treering.api.view import View
from treering.transcript.node import Draft

ORDERS = [order for order in permutations(["retract", "checkpoint", "erase", "seal"]) if order[-1] != "seal"]

VERBS = ["append", "append", "retract", "unretract", "erase", "amend", "keep", "turn", "optimize", "reopen"]


def said(text: str, role: str = "user") -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": text}


def seen(reader: Session | View) -> Iterator[tuple[str, list[str]]]:
    """By who looks: the messages of the branch in hand."""
    yield "context", texts(reader.context)
    yield "context_at", texts(reader.context_at(reader.node))
    yield "history", [_text(row.node.payload) for row in reversed(reader.history(limit=100).rows)]


def _text(payload: object) -> str:
    message = payload.message if isinstance(payload, treering.Erased) else payload
    assert isinstance(message, dict)
    return str(message["content"])


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_a_hidden_message_stays_hidden_when_it_is_erased(backend: Backend, order: tuple[str, ...]) -> None:
    """Whether it was hidden before or after that, and whatever a checkpoint or a segment holds of it."""
    with backend.store().session("s") as session:
        _, node, _ = [session.append(text).node for text in ("a", "secret", "c")]
        steps: dict[str, Callable[[], object]] = {
            "retract": lambda: session.retract(node),
            "checkpoint": lambda: session.commit(["d"], state={"step": 1}),
            "erase": lambda: session.erase(node),
            "seal": session.seal,
        }
        for step in order:
            steps[step]()
        for who, shown in seen(session):
            assert shown == ["a", "c", "d"], who
        assert session.get(node).retracted
        session.fork("fork")
        kill(session)
    for name in ("s", "fork"):
        view = backend.store().view(name)
        for who, shown in seen(view):
            assert shown == ["a", "c", "d"], f"{who} of {name}"
        assert view.get(node).retracted
        assert view.get(node).erased
        assert backend.store().verify(name) == []
    with backend.store().session("s") as session:
        session.optimize(everything=True)
        here = session.node
        session.checkout(session.path()[0])
        session.checkout(here)
        assert texts(session.context) == ["a", "c", "d"]
        session.unretract(node)
        assert texts(session.context) == ["a", "[erased]", "c", "d"]


@pytest.mark.parametrize("again", [False, True])
def test_a_message_that_was_shown_again_stays_shown_when_it_is_erased(backend: Backend, *, again: bool) -> None:
    """As erased, in its place; an edit that hid it does not come to count again, also one with words of its own."""
    with backend.store().session("s") as session:
        _, node, _ = session.commit(["a", "secret", "c"]).nodes
        session.append(Draft(type="edit", kind="retract", target=node, payload="because it is secret"))
        session.retract(node)
        session.unretract(node)
        assert texts(session.context) == ["a", "secret", "c"]
        if again:
            session.retract(node)
        session.erase(node)
    expected = ["a", "c"] if again else ["a", "[erased]", "c"]
    assert b"because" not in b"".join(backend.store().view("s").lines())
    for who, shown in seen(backend.store().view("s")):
        assert shown == expected, who


def test_a_message_is_hidden_by_an_edit_that_says_why(backend: Backend) -> None:
    """Also in the checkpoint that is recorded in one append with it."""
    with backend.store().session("s") as session:
        node = session.append("secret").node
        session.commit([Draft(type="edit", kind="retract", target=node, brief={"why": "secret"}), "b"], state={"n": 1})
        assert texts(session.context) == ["b"]
        kill(session)
    assert texts(backend.store().view("s").context) == ["b"]


class Play:
    """A session and, by node, what it is to show."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.session = backend.store().session("s")
        self.shown: dict[str, str] = {}
        self.hidden: set[str] = set()

    def append(self, text: str) -> None:
        """A message."""
        self.shown[self.session.append(text).node] = text

    def edit(self, verb: str, node: str, text: str) -> None:
        """What is possible with a node now."""
        if verb == "unretract":
            if node in self.hidden:
                self.session.unretract(node)
                self.hidden.discard(node)
        elif verb == "amend":
            if self.shown[node] != "[erased]":
                self.session.amend(node, said(text))
                self.shown[node] = text
        else:
            getattr(self.session, verb)(node)
            if verb == "retract":
                self.hidden.add(node)
            else:
                self.shown[node] = "[erased]"

    def turn(self, node: str) -> None:
        """Go elsewhere and come back."""
        here = self.session.node
        self.session.checkout(node)
        self.session.checkout(here)

    def optimize(self) -> None:
        """Seal and merge."""
        self.session.seal()
        self.session.optimize(everything=True)

    def reopen(self) -> None:
        """Go on after a kill."""
        kill(self.session)
        self.session = self.backend.store().session("s")

    def check(self) -> None:
        """All who look see the messages that are not hidden, in order."""
        expected = [text for node, text in self.shown.items() if node not in self.hidden]
        for reader in (self.session, self.backend.store().view("s")):
            for who, there in seen(reader):
                assert there == expected, who
            assert {row.id for row in reader.nodes() if row.retracted} == self.hidden


@pytest.mark.parametrize("seed", range(few(14, whole=40)))
def test_hiding_erasing_and_showing_again_in_any_order(seed: int) -> None:
    """After every step, all who look see the messages that are not hidden, in order; what was erased says so."""
    rng = random.Random(seed)
    play = Play(memory_backend(appends=seed % 2 == 0))
    for number in range(25):
        nodes = list(play.shown)
        verb = rng.choice(VERBS)
        if not nodes or verb == "append":
            play.append(f"said {number}")
        elif verb in ("optimize", "reopen"):
            getattr(play, verb)()
        elif verb == "keep":
            play.session.commit(state={"n": number})
        elif verb == "turn":
            play.turn(rng.choice(nodes))
        else:
            play.edit(verb, rng.choice(nodes), f"amended {number}")
        play.check()


def test_what_a_context_edit_of_pi_hides_stays_hidden_when_the_edit_is_erased() -> None:
    """The edit is a node; what it says of another one is no payload."""
    store = memory_backend().store()
    with store.session("s", policy="pi-1.5") as session:
        node = session.append("hidden").node
        brief: dict[str, object] = {"target": node, "edit": "retract"}
        edit = session.append(Draft(kind="context_edit", brief=brief, payload={"replacement": None})).node
        session.append("shown")
        assert texts(session.context_at(session.node)) == ["shown"]
        session.erase(edit)
        assert texts(session.context_at(session.node)) == ["shown"]
        assert texts(session.context) == ["shown"]
