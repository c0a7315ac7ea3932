"""The compare-and-swap register: against a model, with lost and late requests, and as the only place that swaps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.drivers import PassingDriver

import treering
from treering.errors import UnavailableError
from treering.journal.register import ATTEMPTS_MAX, Attempts, Cell, Lost, Register, Swapped, extend, swap_all
from treering.storage.memory import MemoryDriver
from treering.storage.requests import ABSENT, Answer, Batch, Delete, Get, Put, Request
from treering.storage.run import run

PACKAGE = Path(treering.__file__).parent
KEY = "latest/x"
WRITERS = st.sampled_from(range(3))
ANSWERED = st.sampled_from(["none", "again"])
FAULTS = st.sampled_from(["none", "again", "before", "after", "late"])


class Words(Register[str]):
    """A register of one word, which is the id of its write."""

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def write_id(self, value: str) -> str:
        return value


class Network(PassingDriver):
    """Does with the next write what `fault` says; `again`: the client sends it twice and sees the second answer."""

    def __init__(self) -> None:
        super().__init__(MemoryDriver())
        self.fault = "none"
        self.late: list[Request] = []

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        return tuple(self._send(request) for request in batch)

    def _send(self, request: Request) -> Answer:
        if isinstance(request, Get):
            return self.inner.execute((request,))[0]
        fault, self.fault = self.fault, "none"
        if fault == "late":
            self.late.append(request)
        if fault in ("before", "late"):
            return UnavailableError("no answer")
        answers = [self.inner.execute((request,))[0] for _ in range(2 if fault == "again" else 1)]
        return UnavailableError("no answer") if fault == "after" else answers[-1]


class Races(RuleBasedStateMachine):
    """Writers that read, swap and remove one register; the model is the word that stands there."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        self.register = Words(KEY)
        self.words = 0
        self.there: str | None = None
        self.seen: dict[int, Cell[str]] = dict.fromkeys(range(3), Cell(None, ABSENT))
        self.late: list[tuple[str | None, str]] = []

    @rule(writer=WRITERS)
    def read(self, writer: int) -> None:
        """A read shows what stands there."""
        self.seen[writer] = run(self.register.read(), self.network)
        assert self.seen[writer].value == self.there

    @rule(writer=WRITERS, fault=FAULTS)
    def swap(self, writer: int, fault: str) -> None:
        """A swap succeeds if the version is unchanged; its repetition gets the answer that it lost."""
        word, wins = self._begin(writer, fault)
        try:
            outcome = run(self.register.swap(word, expect=self.seen[writer].version), self.network)
        except UnavailableError:
            assert fault in ("before", "after", "late")
        else:
            assert isinstance(outcome, Swapped if wins and fault == "none" else Lost)
            assert outcome.sent_bytes == len(word)
            if isinstance(outcome, Swapped):
                self.seen[writer] = Cell(word, outcome.version)

    @rule(writer=WRITERS, fault=FAULTS)
    def replace(self, writer: int, fault: str) -> None:
        """Who reads back learns whether the word stands there, also when it was sent again, and else what does."""
        word, wins = self._begin(writer, fault)
        try:
            outcome = run(self.register.replace(word, expect=self.seen[writer].version), self.network)
        except UnavailableError:
            assert fault in ("before", "after", "late")
        else:
            assert isinstance(outcome, Swapped if wins else Cell)
            self.seen[writer] = Cell(word, outcome.version) if isinstance(outcome, Swapped) else outcome
            assert self.seen[writer].value == self.there

    def _begin(self, writer: int, fault: str) -> tuple[str, bool]:
        """A new word, and whether it takes the place of what this writer saw, if it arrives."""
        self.words += 1
        self.network.fault = fault
        word, expected = f"word {self.words}", self.seen[writer].value
        wins = self.there == expected
        if fault == "late":
            self.late.append((expected, word))
        elif fault != "before" and wins:
            self.there = word
        return word, wins

    @precondition(lambda self: self.late)
    @rule(chosen=st.integers(0, 9))
    def arrive(self, chosen: int) -> None:
        """A swap that comes late takes effect if what it names stands there again or still."""
        at = chosen % len(self.late)
        expected, word = self.late.pop(at)
        self.network.inner.execute((self.network.late.pop(at),))
        self.there = word if self.there == expected else self.there

    @rule(writer=WRITERS, fault=ANSWERED)
    def remove(self, writer: int, fault: str) -> None:
        """A removal takes the version that was seen, and no other."""
        expected = self.seen[writer]
        self.network.fault = fault if expected.version != ABSENT else "none"
        gone = run(self.register.remove(expect=expected.version), self.network)
        if expected.version != ABSENT:
            self.there = None if self.there == expected.value else self.there
            assert gone == (self.there is None)

    @invariant()
    def stands(self) -> None:
        """The store holds the values of the model."""
        assert run(self.register.read(), self.network.inner).value == self.there


TestRaces = Races.TestCase


def test_of_two_swaps_sent_at_once_each_has_its_own_outcome() -> None:
    """One that loses takes nothing from the other."""
    driver, one, two = MemoryDriver(), Words("latest/1"), Words("latest/2")
    run(two.swap("before", expect=ABSENT), driver)
    outcomes = run(swap_all(one.prepare("a", expect=ABSENT), two.prepare("b", expect=ABSENT)), driver)
    assert [type(outcome) for outcome in outcomes] == [Swapped, Lost]
    assert [run(each.read(), driver).value for each in (one, two)] == ["a", "before"]


def test_a_log_is_extended_only_where_it_ends_as_was_seen() -> None:
    """Of two that add to the same end, one wins."""
    driver, register = MemoryDriver(appends=True), Words("sessions/s/tail.jsonl")
    begun = run(register.swap("head\n", expect=ABSENT), driver)
    assert isinstance(begun, Swapped)
    assert isinstance(run(extend(register.key, b"one\n", expect=begun.version), driver), Swapped)
    assert isinstance(run(extend(register.key, b"two\n", expect=begun.version), driver), Lost)
    assert run(register.read(), driver).value == "head\none\n"


def test_attempts_end() -> None:
    """After the last attempt the one error for all that is busy is raised; it names the object."""
    attempts = Attempts(KEY)
    assert all(attempts.another() for _ in range(ATTEMPTS_MAX))
    with pytest.raises(UnavailableError) as caught:
        attempts.another()
    assert (caught.value.kind, caught.value.key) == ("busy", KEY)


def test_what_was_seen_counts_in_a_row() -> None:
    """Something else in between begins the count again."""
    attempts = Attempts(KEY)
    assert [attempts.in_a_row(seen) for seen in "aabaa"] == [1, 2, 1, 1, 2]


def conditions(tree: ast.AST) -> Iterator[ast.Call]:
    """Requests in a program that put a condition on a change: by keyword, by place, or by what cannot be seen."""
    allowed = {Put.__name__: 2, Delete.__name__: 1, "Append": -1}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            unseen = [each for each in node.args if isinstance(each, ast.Starred)]
            given = any(keyword.arg in ("expect", None) for keyword in node.keywords)
            if name in allowed and (given or unseen or len(node.args) > allowed[name]):
                yield node


def test_a_condition_is_found_however_it_is_given() -> None:
    """By keyword, by place, unpacked, and through the module."""
    code = "Put(k, d, expect=v); Put(k, d, v); Put(*a); Put(**a); r.Delete((k,), v); Append(k, d, v); Put(k, d)"
    assert len(list(conditions(ast.parse(code)))) == 6


def parsed(path: Path, *names: str) -> ast.AST:
    """A program; nothing of it if it has none of these names, since parsing all takes seconds."""
    text = path.read_text(encoding="utf-8")
    return ast.parse(text if any(name in text for name in names) else "")


def test_nothing_else_compares_and_swaps() -> None:
    """Only the register and the drivers below it put a condition on a write; the conformance suite tries drivers."""
    exempt = {PACKAGE / "journal/register.py", *(PACKAGE / "storage").glob("*.py"), *(PACKAGE / "testing").glob("*.py")}
    found = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in exempt
        for call in conditions(parsed(path, "Put", "Delete", "Append"))
    ]
    assert found == [], "let a `Register` do it: src/treering/journal/register.py"


def test_answers_are_raised_in_one_place() -> None:
    """Whoever needs a certain answer calls `checked`, `found_in` or `ask`, which raise any other error."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(parsed(path, "answer"))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.IfExp | ast.Name)
        if "answer" in {each.id for each in ast.walk(node.exc) if isinstance(each, ast.Name)}
        if path != PACKAGE / "storage/run.py"
    ]
    assert found == []
