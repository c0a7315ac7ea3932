"""Two shared writers and whoever reopens the session, driven by hypothesis beside a plain model of dicts and lists."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.sampling import few
from tests.session.at_rest import holding
from tests.session.backends import Backend, kill, local_backend, memory_backend, texts
from tests.session.oracle import names_of

from treering.api.session import Session
from treering.api.view import View
from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import HeadMovedError, NotFoundError, SessionDeletedError

WRITERS = st.sampled_from([0, 1])


class Model:
    """What all writers together recorded. Nodes are known by their text; the state is a matter of the node."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self.states: dict[str | None, dict[str, object]] = {None: {}}
        self.heads: dict[str, str | None] = {}
        self.points: dict[str, str] = {}
        """Nodes by the label of a checkpoint that was made there."""
        self.possible: dict[str, list[dict[str, object]]] = {}
        """Nodes whose checkpoint may have been pruned, with the states that may be found there now."""
        self.erased: dict[str, str] = {}
        """Ids of erased nodes by what they said."""

    def path(self, node: str | None) -> list[str]:
        """Nodes from a root down to `node`."""
        found: list[str] = []
        while node is not None:
            found.append(node)
            node = self.parents[node]
        return found[::-1]

    def shown(self, node: str | None) -> list[str]:
        """What a model sees at a node."""
        return ["[erased]" if text in self.erased else text for text in self.path(node)]

    def prune(self) -> None:
        """What a checkpoint kept is certain only where heads stand, and at labels. Elsewhere one above may tell."""
        certain = {*self.heads.values(), *self.points.values(), None}
        for text in self.parents:
            if text not in certain:
                above = self.path(text)
                found: list[dict[str, object]] = [{}]
                for each in above:
                    found += [state for state in self.possible.get(each, [self.states[each]]) if state not in found]
                self.possible[text] = found

    def drop(self, key: str) -> None:
        """No node has that key in its state any more."""
        for state in [*self.states.values(), *(state for states in self.possible.values() for state in states)]:
            state.pop(key, None)

    def free_name(self, base: str) -> str:
        """A name for a head beside `base`."""
        name, number = base, 1
        while name in self.heads:
            number += 1
            name = f"{base}-{number}"
        return name


class Standing:
    """Where one writer stands."""

    def __init__(self, head: str, node: str | None) -> None:
        self.head, self.node = head, node


class Sessions(RuleBasedStateMachine):
    """Rules for two writers."""

    def __init__(self) -> None:
        super().__init__()
        self.backend = self.place()
        self.model = Model()
        self.sessions = [self._open() for _ in range(2)]
        self.standing = [Standing("main", None) for _ in range(2)]
        self.count = 0

    def place(self) -> Backend:
        """A store of its own for each run."""
        raise AssertionError("a subclass says which")

    def _open(self) -> Session:
        return self.backend.store().session("s", shared=True)

    def _texts(self, count: int) -> list[str]:
        self.count += count
        return [f"m{self.count - place}" for place in range(count)]

    def _add(self, writer: int, new: list[str], state: dict[str, object]) -> None:
        """The effect of an append: after the writer's node, on its head or, if that was moved, on a new one."""
        model, here = self.model, self.standing[writer]
        if model.heads.get(here.head) != here.node:
            here.head = model.free_name(here.head)
        for text in new:
            model.parents[text] = here.node
            model.states[text] = dict(model.states[here.node])
            here.node = model.heads[here.head] = text
        model.states[here.node] = {**model.states[here.node], **state}

    def _names(self, reader: Session | View) -> dict[str, str]:
        """Ids of all nodes by what they say, or said before that was erased."""
        return {text: node for text, node in names_of(reader).items() if text} | self.model.erased

    def _arrived(self, writer: int) -> None:
        """Find out which of the states is left at a node whose checkpoint may have been pruned."""
        here, model = self.standing[writer], self.model
        if here.node in model.possible:
            states = model.possible.pop(here.node)
            assert self.sessions[writer].state in states
            model.states[here.node] = dict(self.sessions[writer].state)

    # rules

    @rule(writer=WRITERS, count=st.integers(1, 3))
    def append(self, writer: int, count: int) -> None:
        """Record messages."""
        new = self._texts(count)
        self.sessions[writer].append(*new)
        self._add(writer, new, {})

    @rule(writer=WRITERS, key=st.sampled_from("ab"), value=st.integers(0, 9))
    def commit(self, writer: int, key: str, value: int) -> None:
        """Record a message and state."""
        new = self._texts(1)
        self.sessions[writer].commit(new, state={key: value})
        self._add(writer, new, {key: value})

    @rule(writer=WRITERS)
    def append_where_expected(self, writer: int) -> None:
        """Record a message only if nobody moved the head."""
        here, session = self.standing[writer], self.sessions[writer]
        moved = self.model.heads.get(here.head) != here.node
        new = self._texts(1)
        if moved:
            with pytest.raises(HeadMovedError):
                session.append(*new, expect=session.node)
        else:
            session.append(*new, expect=session.node)
            self._add(writer, new, {})

    @rule(writer=WRITERS)
    def refresh(self, writer: int) -> None:
        """Look again, and go along with the head; who finds the session only now opens it only now."""
        session, here = self.sessions[writer], self.standing[writer]
        begun = session._reader.replica.exists
        session.refresh()
        if not begun:
            here.head = session.head
        if here.head in self.model.heads:
            here.node = self.model.heads[here.head]
        self._arrived(writer)

    @precondition(lambda self: self.model.parents)
    @rule(writer=WRITERS, data=st.data())
    def checkout(self, writer: int, data: st.DataObject) -> None:
        """Go to any node, perhaps before the first one."""
        session, here, model = self.sessions[writer], self.standing[writer], self.model
        self.refresh(writer)
        node = data.draw(st.sampled_from([None, *model.parents]))
        session.checkout(None if node is None else self._names(session)[node])
        here.node = model.heads[here.head] = node
        self._arrived(writer)

    @precondition(lambda self: self.model.heads)
    @rule(writer=WRITERS, data=st.data(), stale=st.booleans())
    def switch(self, writer: int, data: st.DataObject, *, stale: bool) -> None:
        """Go on with another head, wherever that is by now."""
        session, here, model = self.sessions[writer], self.standing[writer], self.model
        if not stale:
            self.refresh(writer)
        known = [head for head in session.heads if head in model.heads]
        if known:
            here.head = data.draw(st.sampled_from(known))
            session.switch(here.head)
            here.node = model.heads[here.head]
            self._arrived(writer)

    @rule(writer=WRITERS)
    def branch(self, writer: int) -> None:
        """Begin a head where the writer stands."""
        here, model = self.standing[writer], self.model
        name = f"branch-{self._texts(1)[0]}"
        self.sessions[writer].branch(name)
        here.head = name
        model.heads[name] = here.node

    @rule(writer=WRITERS)
    def seal(self, writer: int) -> None:
        """Move records to a segment."""
        if self.sessions[writer]._reader.replica.exists:
            self.sessions[writer].seal()

    @precondition(lambda self: self.model.parents)
    @rule(writer=WRITERS)
    def optimize(self, writer: int) -> None:
        """Merge segments."""
        self.refresh(writer)
        self.sessions[writer].optimize(everything=True)

    @precondition(lambda self: self.model.parents)
    @rule(writer=WRITERS, last=st.integers(1, 3))
    def prune(self, writer: int, last: int) -> None:
        """Give up old checkpoints; where heads stand, and at labels, nothing changes."""
        for each in (0, 1):
            self.refresh(each)
        self.sessions[writer].prune(KeepCheckpoints(last=last))
        self.model.prune()

    @precondition(lambda self: self.model.parents)
    @rule(writer=WRITERS, data=st.data())
    def erase(self, writer: int, data: st.DataObject) -> None:
        """Erase what a node says: no object has it any more, in the session and in its forks."""
        text = data.draw(st.sampled_from(sorted(self.model.parents)))
        self.refresh(writer)
        node = self._names(self.sessions[writer])[text]
        self.sessions[writer].erase(node)
        self.model.erased[text] = node
        assert holding(self.backend.snapshot(), f'"{text}"') == []
        for each in (0, 1):
            self.refresh(each)

    @precondition(lambda self: any("a" in state for state in self.model.states.values()))
    @rule(writer=WRITERS)
    def erase_state(self, writer: int) -> None:
        """Erase what a key of the state ever was; a checkpoint that had it may have been pruned since."""
        self.refresh(writer)
        with suppress(NotFoundError):
            self.sessions[writer].erase(state=["a"])
        self.model.drop("a")
        for each in (0, 1):
            self.refresh(each)

    @rule(writer=WRITERS, killed=st.booleans())
    def reopen(self, writer: int, *, killed: bool) -> None:
        """Open the session again, after a kill or a close; it is at the current head."""
        session = self.sessions[writer]
        kill(session) if killed else session.close()
        self.sessions[writer] = session = self._open()
        here, model = self.standing[writer], self.model
        here.head = session.head
        here.node = model.heads.get(here.head)
        assert here.head in model.heads or not model.heads
        self._arrived(writer)

    @rule(writer=WRITERS, value=st.integers(0, 9))
    def keep(self, writer: int, value: int) -> None:
        """Record a message, state and a checkpoint that can be found again."""
        new = self._texts(1)
        self.sessions[writer].commit(new, state={"c": value}, label=f"point {new[0]}")
        self._add(writer, new, {"c": value})
        self.model.points[f"point {new[0]}"] = new[0]

    @precondition(lambda self: self.model.points)
    @rule(writer=WRITERS, data=st.data())
    def rewind(self, writer: int, data: st.DataObject) -> None:
        """Go back to such a checkpoint: node, context and state together."""
        session, here, model = self.sessions[writer], self.standing[writer], self.model
        self.refresh(writer)
        label = data.draw(st.sampled_from(sorted(model.points)))
        session.rewind(next(entry.id for entry in session.checkpoints() if entry.label == label))
        here.node = model.heads[here.head] = model.points[label]

    @precondition(lambda self: self.model.parents)
    @rule(writer=WRITERS)
    def fork(self, writer: int) -> None:
        """Make another session from where the writer stands; the first one does not change."""
        session, here = self.sessions[writer], self.standing[writer]
        self.refresh(writer)
        name = f"fork {self._texts(1)[0]}"
        session.fork(name)
        view = self.backend.store().view(name)
        assert texts(view.context) == self.model.shown(here.node)
        assert view.state == self.model.states[here.node]
        assert self.backend.store().verify(name) == []

    @precondition(lambda self: self.model.parents)
    @rule(writer=WRITERS, again=st.booleans())
    def delete(self, writer: int, *, again: bool) -> None:
        """Delete the session under both handles, and perhaps begin it anew; the old handles find that out."""
        old = self.sessions
        for session in old:
            kill(session)
        self.backend.store().delete("s")
        self.model = Model()
        self.sessions = [self._open() for _ in range(2)]
        self.standing = [Standing("main", None) for _ in range(2)]
        if again:
            self.append(writer, 1)
        if old[writer]._reader.replica.exists:
            with pytest.raises(SessionDeletedError):
                old[writer].append("to the one that is gone")

    # what must hold

    @invariant()
    def writers_stand_where_they_should(self) -> None:
        """Each writer sees the context and state of the node it stands on."""
        for session, here in zip(self.sessions, self.standing, strict=True):
            assert texts(session.context) == self.model.shown(here.node)
            assert session.state == self.model.states[here.node]

    @invariant()
    def nothing_is_lost(self) -> None:
        """Whoever looks sees every node that was acknowledged, in the order it was, and every head."""
        if not self.model.heads:
            return
        view = self.backend.store().view("s")
        names = {node: text for text, node in self._names(view).items()}
        assert {names[row.id]: names.get(row.parent or "") for row in view.nodes()} == self.model.parents
        assert list(map(names.__getitem__, (row.id for row in view.nodes()))) == list(self.model.parents)
        assert {head: names.get(node or "") for head, node in view.heads.items()} == self.model.heads

    def teardown(self) -> None:
        """Close both writers; what is left must be sound."""
        for session in self.sessions:
            session.close()
        self.nothing_is_lost()
        if self.model.heads:
            assert [found for found in self.backend.store().verify("s") if found.severity == "damage"] == []


class InMemory(Sessions):
    """As on an object store."""

    def place(self) -> Backend:
        """A store in memory."""
        return memory_backend()


class OnDisk(Sessions):
    """On a local disk."""

    def place(self) -> Backend:
        """A store in a folder of its own."""
        self.folder = TemporaryDirectory()
        return local_backend(Path(self.folder.name))

    def teardown(self) -> None:
        """Remove the folder as well."""
        super().teardown()
        self.folder.cleanup()


@pytest.mark.parametrize("machine", [InMemory, OnDisk])
def test_two_writers_equal_the_model(machine: type[Sessions]) -> None:
    """Whatever two shared writers do, and whichever is killed, all handles agree with the model."""
    run_state_machine_as_test(
        machine, settings=settings(max_examples=few(8, whole=25), stateful_step_count=30, print_blob=True)
    )
