"""Agents that use a session: real writers with real verbs, compared with a plain replay of the journal.

After every resume, the state read from `latest` and the tail is compared with the state that a fold of all records
gives. Each record that was acknowledged to an agent must be in the graph, on the path that it belongs to.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence

import msgspec

from tests.simulation.actors import Actors
from tests.simulation.codec import TEXT, content_of
from tests.simulation.copier import Copier, is_of_copy
from tests.simulation.ghost import SHOWN
from tests.simulation.places import check_place, is_moving, place_of
from tests.simulation.process import Process
from tests.simulation.world import World
from treering.api.session_body import close
from treering.checkpoint.policy import find_policy
from treering.erasure.erasing import erase
from treering.errors import ConflictError, NotFoundError, UnavailableError, UsageError
from treering.format.blobs import blob_refs_in
from treering.format.paths import SessionKeys
from treering.format.record import Record, decode_record
from treering.format.register import Card, Tail, TailHeader, encode_latest, encode_tail
from treering.ids import new_id
from treering.journal.resume import resume
from treering.journal.view import View
from treering.session.content import ContextItem
from treering.session.loader import Loader
from treering.session.options import Options
from treering.session.payload import decoded_state
from treering.session.reader import Readable, Reader
from treering.session.record import discard
from treering.session.state import SessionState
from treering.session.upkeep import SEALS_PER_MERGE_OPEN
from treering.session.verbs import conversation, edits, navigation, notes
from treering.session.verbs.forking import fork
from treering.session.writer import Writer
from treering.storage.requests import Steps, Version
from treering.transcript.node import Draft, user

POLICY = "default@1"
PARTS = tuple(bytes([number]) * 80 for number in range(3))
KEYS = "abc"  # keys of the state
_ENTRIES_MAX = 4  # entries of a value that grows
_CARD_EVERY = 4  # texts after which a card is due again


def facts_of(state: SessionState) -> dict[str, object]:
    """Return the facts that must be equal in two folds of the same records."""
    card = state.card
    newest = state.checkpoint
    return {
        "heads": state.heads,
        "context": state.context.items,
        "settings": dict(state.context.settings),
        "context at": state.context_at,
        "checkpoint": newest and newest.id,
        "state": state.state,
        "counts": (card.nodes, card.messages, card.checkpoints, card.head, card.node, card.max_id),
        "texts": (card.title, card.first_prompt),
        "usage": state.usage,
    }


class Agents(Actors):
    """Makes processes that use whole sessions."""

    def __init__(self, world: World, rng: random.Random) -> None:
        super().__init__(world, rng)
        self._replays: dict[tuple[str, int, tuple[bytes, ...]], dict[str, object]] = {}
        self.weights = (6, 6, 2, 2, 2, 1, 1, 2, 3, 0, 0, 0)
        """How often an agent does each action, in the order of `_work`: says something, ends a turn, compacts, ..."""
        self.parts = 0.0
        """The share of messages with a large part, which other messages have as well."""
        self.states = 0.0
        """The share of erasures that erase state instead of payloads of nodes."""
        self.grows = False
        """Whether values of the state are lists that grow, so that their changes are recorded as patches."""
        self.turns = 0.3
        """The share of agents that buffer messages until the end of their turn."""
        self.looks_again = 0.0
        """The share of refreshes among the calls that follow an append without an answer."""
        self.chosen = 0.0
        """The share of messages whose id the agent chooses, from a few ids that other agents choose as well."""
        self._marks = 0
        self._told: dict[str, list[str]] = {}
        """Ids that were returned to a writer, by its nonce; they must be durable at the end of its turn."""
        self._said: dict[tuple[str, str], str] = {}
        """The text of a message with a chosen id, by the nonce of its writer and that id."""
        self._looked: dict[str, tuple[int, tuple[str, ...]]] = {}
        """When a writer last opened or refreshed, and the ids of the records that it was shown, by its nonce."""
        self._hidden: dict[str, list[str]] = {}
        """Messages that an agent retracted, by life."""
        self._merged: set[str] = set()
        """Nonces of writers whose last call merged its state into the newest, wherever that is."""

    def look(self) -> Steps[None]:
        """Open the session for reading, and perhaps refresh it."""
        reader = Reader(self.keys, find_policy(POLICY))
        moment = self.ghost.now()
        try:
            yield from reader.resume()
            self._resumed("a view", moment, reader)
            if self.rng.random() < 0.5:
                moment = self.ghost.now()
                yield from reader.refresh()
                self._resumed("a second look", moment, reader)
        except (NotFoundError, UnavailableError) as error:
            self.excuse(error)

    def look_once(self) -> Steps[None]:
        """Resume, and do nothing else."""
        yield from Reader(self.keys, find_policy(POLICY)).resume()

    def look_at_end(self) -> Steps[View]:
        return (yield from resume(self.keys))

    def looks(self) -> Sequence[Callable[[], Steps[object]]]:
        return (self.look, self.look_at_graph, self.walk, self.look_back, self.look_at_list)

    def writer(self, *, shared: bool) -> Steps[None]:
        return self.agent(shared=shared, turns=self.rng.random() < self.turns)

    def creators(self, *, shared: bool) -> Sequence[Callable[[], Steps[None]]]:
        return (lambda: self.writer(shared=shared), lambda: self.writer(shared=shared), self.loader)

    def loader(self) -> Steps[None]:
        """Load a whole session, as imports, forks and copies do."""
        loader = Loader(self.keys, find_policy(POLICY), self.card())
        nodes: list[str | None] = [None]
        try:
            for _ in range(self.rng.randrange(1, 6)):
                draft = msgspec.structs.replace(user(self._mark()), id=new_id(), parent=self.rng.choice(nodes[-2:]))
                yield from loader.add_draft(draft)
                nodes.append(draft.id)
            yield from loader.stand("main", nodes[-1])
            yield from loader.finish()
        except (ConflictError, UnavailableError) as error:
            self.excuse(error)
            return
        self.ghost.created.add(loader.life)
        for node in nodes[1:]:
            self.ghost.acknowledge(loader.life, [str(node)])

    def agent(self, *, shared: bool, turns: bool) -> Steps[None]:
        """Open a session, work in it, close it.

        Args:
            shared: Whether the handle allows other writers.
            turns: Whether messages are buffered until the end of their turn.
        """
        options = Options(shared=shared, durability="turn" if turns else "sync")
        writer = Writer(self.keys, find_policy(POLICY), self.card(), options, nothing)
        self._told[writer.replica.nonce] = []
        try:
            yield from self._open(writer)
            if self.strict:
                yield from self._unless_taken(writer, self._say)
            for _ in range(self.rng.randrange(1, self.works_max)):
                doubts = self.looks_again and writer.appender.pending is not None
                does = self._refresh if doubts and self.rng.random() < self.looks_again else self._work
                try:
                    yield from does(writer)
                except UnavailableError as error:
                    self.excuse(error)
                    if self.rng.random() < 0.3:
                        return
            yield from self._unless_taken(writer, close)
            yield from close(writer)
            self._written(writer)
            self._promised(writer)
        except ConflictError as error:
            self.excuse(error)
            self._check_refusal(writer)
        except (NotFoundError, UnavailableError) as error:
            self.excuse(error)

    def _open(self, writer: Writer) -> Steps[None]:
        moment = self.ghost.now()
        yield from writer.open()
        self._note_looked(writer, moment)
        if writer.replica.exists:
            self._resumed("an open", moment, writer)

    def _note_looked(self, writer: Writer, moment: int) -> None:
        """Note the records that a writer is shown now; in a log, the last of them may not be durable."""
        shown: tuple[str, ...] = ()
        if writer.replica.exists:
            tail, log = writer.replica.view.tail, self.ghost.logs[writer.replica.view.life]
            lines = (*log[: tail.header.base], *tail.lines)
            shown = tuple(map(self.ghost.id_of, lines))
        self._looked[writer.replica.nonce] = moment, shown

    def _was_shown(self, writer: Writer, record: Record) -> bool:
        """Whether a record existed when a writer last read the registers."""
        return self._looked[writer.replica.nonce][1][record.at : record.at + 1] == (record.id,)

    # what agents do

    def _work(self, writer: Writer) -> Steps[None]:
        does: tuple[Callable[[Writer], Steps[None]], ...] = (
            self._say, self._end_turn, self._compact, self._note, self._checkout, self._branch, self._switch,
            self._rewind, self._refresh, self._seal, self._edit, self._fork,
        )  # fmt: skip
        records = (self._say, self._end_turn, self._compact, self._note, self._seal, self._edit)
        do = self.rng.choices(does, self.weights)[0]
        if not self._marks % _CARD_EVERY:
            writer.upkeep._card_ms = 1  # as if the card was written long ago
            writer.upkeep._seals = SEALS_PER_MERGE_OPEN  # and segments were merged long ago
        before = place_of(writer) if do in records and not is_moving(writer) else None
        self._merged.discard(writer.replica.nonce)
        yield from self._unless_taken(writer, do)
        self._written(writer)
        self._check_own(writer)
        check_place(self.ghost, writer, before if writer.replica.nonce not in self._merged else None)

    def _unless_taken(self, writer: Writer, do: Callable[[Writer], Steps[None]]) -> Steps[None]:
        """Run a verb; if another writer has recorded an id that the agent chose, discard the buffered drafts."""
        try:
            yield from do(writer)
        except UsageError as error:
            if error.kind != "duplicate_id":
                raise
            gone = {draft.id for draft in (yield from discard(writer, ()))}
            told = self._told[writer.replica.nonce]
            told[:] = [name for name in told if name not in gone]

    def _mark(self) -> str:
        self._marks += 1
        return f"text {self._marks}"

    def _say(self, writer: Writer) -> Steps[None]:
        messages = [self._message(writer) for _ in range(self.rng.choice((1, 1, 2)))]
        done = yield from conversation.append(writer, *messages)
        self._told[writer.replica.nonce].append(done.node)
        for message in messages:
            if message.id is not None:
                self._said[writer.replica.nonce, message.id] = message.payload["content"]
        if writer.options.durability == "sync":
            self._promised(writer)

    def _end_turn(self, writer: Writer) -> Steps[None]:
        messages = [user(self._mark()) for _ in range(self.rng.randrange(3))]
        merge = self.rng.random() < 0.2
        self._merged |= {writer.replica.nonce} if merge else set()
        state = self._state(writer, self.rng.choice(KEYS)) | ({} if merge else self._shown(writer))
        epoch = writer.replica.epoch if writer.replica.exists else None
        again = {text.encode() for value in state.values() if type(value) is list for text in value}
        said = {*TEXT.findall(b" ".join(again))}
        self.ghost.said_again.update(said)
        done = yield from conversation.commit(writer, messages, state=state, merge=merge)
        if writer.replica.epoch == epoch:
            self.ghost.said_again.subtract(said)
        self._told[writer.replica.nonce] += done.nodes
        self._promised(writer)

    def _state(self, writer: Writer, key: str) -> dict[str, object]:
        if not self.grows:
            return {key: self._mark()}
        value = decoded_state(writer.state_values).get(key) if writer.replica.exists else None
        return {key: [*(value or [])[-_ENTRIES_MAX:], f"{self._mark()} {'-' * 120}"]}

    def _shown(self, writer: Writer) -> dict[str, str]:
        """Return an entry of the state: it names the checkpoint that the agent was shown; see `Ghost.check`."""
        return {SHOWN: writer.checkpoint.id} if writer.replica.exists and writer.checkpoint is not None else {}

    def _compact(self, writer: Writer) -> Steps[None]:
        shown = writer.replica.state.context.nodes
        kept = self.rng.choice(shown) if shown and self.rng.random() < 0.7 else None
        yield from conversation.compact(writer, self._mark(), kept=kept)

    def _note(self, writer: Writer) -> Steps[None]:
        if self.rng.random() < 0.5:
            yield from notes.set_title(writer, self._mark())
        else:
            yield from notes.record_usage(writer, tokens=self.rng.randrange(9))

    def _checkout(self, writer: Writer) -> Steps[None]:
        yield from navigation.checkout(writer, (yield from self._any_node(writer)), keep_state=self.rng.random() < 0.3)

    def _branch(self, writer: Writer) -> Steps[None]:
        at = yield from self._any_node(writer)
        summary = self._mark() if self.rng.random() < 0.3 else None
        yield from navigation.branch(writer, self._mark(), node=at, summary=summary)

    def _switch(self, writer: Writer) -> Steps[None]:
        if heads := list(writer.replica.state.heads.heads):
            yield from navigation.switch(writer, self.rng.choice(heads))

    def _rewind(self, writer: Writer) -> Steps[None]:
        if not writer.replica.exists:
            return
        index = yield from writer.replica.index()
        writer.replica.let_index_go()
        if index.checkpoints:
            yield from navigation.rewind(writer, self.rng.choice(list(index.checkpoints)))

    def _refresh(self, writer: Writer) -> Steps[None]:
        moment = self.ghost.now()
        yield from writer.refresh()
        if writer.replica.stopped is None:  # a stopped handle is not shown anything new
            self._note_looked(writer, moment)

    def _seal(self, writer: Writer) -> Steps[None]:
        if writer.replica.exists:
            yield from writer.upkeep.seal()

    def _message(self, writer: Writer) -> Draft:
        """Return a message. A chosen id may be new, or another writer may have it, or it is sent again."""
        if not self.chosen or not writer.replica.exists or self.rng.random() >= self.chosen:
            return user(self._content())
        at = writer.replica.state.end // 8  # other agents choose the same id at about this time
        name = f"{writer.replica.view.life}-{at}-{self.rng.randrange(2)}"
        return user(f"said {self.rng.randrange(2)}", id=name)

    def _content(self) -> object:
        if self.rng.random() >= self.parts:
            return self._mark()
        return [{"type": "text", "text": self._mark()}, {"type": "file", "data": self.rng.choice(PARTS)}]

    def _edit(self, writer: Writer) -> Steps[None]:
        """Change how a message is shown: by an edit, or only in the context that the model sees."""
        if not (shown := writer.replica.state.context.items):
            return
        node = self.rng.choice(shown).node
        if self.rng.random() < 0.5:
            if self._marks % 3 == 0:
                yield from self._hide(writer, node)
                return
            try:
                yield from edits.amend(writer, node, {"role": "user", "content": self._mark()})
            except UsageError as error:
                if error.kind != "erased":
                    raise
            return
        edit = ContextItem(node=node, message={"role": "user", "content": self._mark()})
        edited = [edit if each.node == node else each.node for each in shown]
        try:
            yield from conversation.commit(writer, [user(self._mark())], context=edited, state=self._shown(writer))
        except UsageError as error:
            if error.kind != "node":  # another agent hid one of these messages
                raise

    def _hide(self, writer: Writer, node: str) -> Steps[None]:
        """Hide a message, or show one again that some agent hid."""
        hidden = self._hidden.setdefault(writer.replica.view.life, [])
        try:
            if hidden and self._marks % 2:
                yield from edits.unretract(writer, hidden.pop(0))
                return
            yield from edits.retract(writer, node)
            hidden.append(node)
        except UsageError as error:
            if error.kind != "node":  # another agent showed it again, or it was not hidden in the end
                raise

    def _fork(self, writer: Writer) -> Steps[None]:
        if writer.replica.exists:
            name, node = f"fork-{self.rng.randrange(3)}", (yield from self._any_node(writer))
            with contextlib.suppress(ConflictError):
                yield from fork(writer, name, node=node)
                copy = msgspec.structs.replace(writer.keys, session=name)
                said = TEXT.findall(content_of(self.world.objects[copy.latest][1]))
                if found := self.ghost.texts(writer.replica.view.life, told=True) & set(said):
                    self.ghost.problems.append(f"a fork is made, and holds what was erased: {sorted(found)}")

    def copier(self) -> Steps[None]:
        """Copy the session under another name."""
        try:
            yield from Copier(self).copy()
        except (ConflictError, NotFoundError, UnavailableError) as error:
            self.excuse(error)

    def eraser(self) -> Steps[None]:
        """Erase the payloads of some nodes, also in forks."""
        for _ in range(self.rng.randrange(1, 3)):
            try:
                writer = yield from self._stranger()
                if self.states and self.rng.random() < self.states:
                    yield from self._erase_state(writer)
                    continue
                nodes = [row.id for row in (yield from writer.replica.index()).graph]
                if nodes:
                    chosen = self.rng.sample(nodes, min(self.rng.choice((1, 1, 2)), len(nodes)))
                    receipt = yield from erase(writer, *chosen)
                    self.ghost.receipt(writer.replica.view.life, receipt.epoch)
                    if not receipt.unreachable:  # else the receipt says that a fork may still hold them
                        self.ghost.told |= set(receipt.ids)
            except (NotFoundError, UnavailableError) as error:
                self.excuse(error)

    def _erase_state(self, writer: Writer) -> Steps[None]:
        """Erase all values of a key; the receipt covers every act of erasing that key so far."""
        key = self.rng.choice(KEYS)
        try:
            receipt = yield from erase(writer, state=key)
        except NotFoundError as error:
            if error.kind != "state_key":
                raise
            return  # no agent has set it yet
        self.ghost.receipt(writer.replica.view.life, receipt.epoch)
        if not receipt.unreachable:
            acts = [act for act in writer.replica.burials.of_state() if key in act.state]
            self.ghost.told_acts |= {(writer.replica.view.life, act.epoch) for act in acts}

    def _stranger(self) -> Steps[Writer]:
        """Open the session as another process, which does not create it."""
        options = Options(shared=True, create=False)
        writer = Writer(self.keys, find_policy(POLICY), self.card(), options, nothing)
        yield from writer.open()
        return writer

    def lister(self) -> Steps[None]:
        """Tidy up, as a process does at any later time: seal, finish the erasures, and optimize."""
        writer = yield from self._stranger()
        yield from writer.upkeep.seal()  # if an erasure is under way, this one only heals
        yield from writer.upkeep.seal()
        if writer.replica.view.unsealed_lines:
            self.ghost.problems.append("nobody can seal any more")
        yield from erase(writer)
        yield from writer.upkeep.optimize(everything=True)
        self._check_texts(writer.replica.view.life)
        self._check_blobs(writer.replica.view.life)

    def _check_blobs(self, life: str) -> None:
        """Check that the blobs exist to which records refer, and that those of erased records alone do not."""
        living = {digest for line in self.ghost.logs[life] for digest in blob_refs_in(line)}
        there = {key.rpartition("/")[2] for key in self.world.objects if key.startswith(self.keys.blobs(life))}
        listed = self.ghost.marks[life].blobs if life in self.ghost.marks else frozenset()
        if living - there:
            self.ghost.problems.append(f"blobs are missing: {sorted(living - there)}")
        if left := (listed - living) & there:
            self.ghost.problems.append(f"blobs of erased records are still stored: {sorted(left)}")

    def _check_texts(self, life: str) -> None:
        """Check that no object of this session or of a fork holds an erased text."""
        gone = self.ghost.texts(life)
        for key, (_, data) in self.world.objects.items():
            if (found := gone & set(TEXT.findall(content_of(data)))) and not is_of_copy(key):
                self.ghost.problems.append(f"erased, and still in {key}: {sorted(found)}")

    def _any_node(self, writer: Writer) -> Steps[str | None]:
        index = yield from writer.replica.index()
        node = self.rng.choice([None, *(row.id for row in index.graph)])
        writer.replica.let_index_go()  # so that the next calls read rows as needed, as in a long session
        rows = yield from writer.replica.ask(lambda look: look.path(node))
        children = yield from writer.replica.ask(lambda look: look.children(node))
        expected = [row.id for row in index.graph.path(node)], index.graph.children(node)
        if ([row.id for row in rows], children) != expected:
            self.ghost.problems.append(f"rows say otherwise than the index of node {node}: {rows}, {children}")
        if node is not None:
            leaf = yield from writer.replica.ask(lambda look: look.newest_leaf(node))
            if leaf != index.graph.newest_leaf(node):
                self.ghost.problems.append(f"rows say otherwise than the index of the leaf below {node}: {leaf}")
        return node

    # what must hold

    def _promised(self, writer: Writer) -> None:
        """Note as acknowledged the records that a writer recorded, including those that it buffered until now."""
        for name in self._told[writer.replica.nonce]:
            self.ghost.acknowledge(writer.replica.view.life, [name])
            if (writer.replica.nonce, name) in self._said:
                said = self._said[writer.replica.nonce, name]
                self.ghost.contents.setdefault((writer.replica.view.life, name), set()).add(said)
        self._told[writer.replica.nonce].clear()

    def _check_refusal(self, writer: Writer) -> None:
        """Check that an exclusive writer was refused only because another writer recorded something."""
        if writer.options.shared or not writer.replica.exists:
            return
        moment, shown = self._looked[writer.replica.nonce]
        for life, ids in self.ghost.states_since(moment):
            new = (name for at, name in enumerate(ids) if shown[at : at + 1] != (name,))
            if life == writer.replica.view.life and any(
                self.ghost.authors[name] != writer.replica.nonce for name in new
            ):
                return
        self.ghost.problems.append("an exclusive writer was refused, though nobody else wrote")

    def _written(self, writer: Writer) -> None:
        """Check that the records that a writer folded as its own are durable.

        An exclusive writer must not have recorded anything after a record of another writer that it was not shown.
        """
        if not writer.replica.exists:
            return
        life, mine = writer.replica.view.life, f"{writer.replica.nonce}."
        overtaken = False
        for line in self.ghost.logs[life][: writer.replica.state.end]:
            record = decode_record(line)
            if not record.by.startswith(mine):
                overtaken = overtaken or not self._was_shown(writer, record)
                continue
            self.ghost.acknowledge(life, [record.id])
            if overtaken and not writer.options.shared:
                self.ghost.problems.append(f"an exclusive writer recorded {record.id} behind a record of others")
                return

    def _check_own(self, writer: Writer) -> None:
        """Check that a writer's own fold equals a replay, as long as the writer follows the session's current head.

        A writer that met other writers after its last append, and has to stop, still shows its last position.
        """
        state, alone = writer.replica.state, not (writer.options.shared or writer.replica.met)
        if writer.replica.exists:
            there = {self.ghost.id_of(line) for line in self.ghost.logs[writer.replica.view.life]}
            for node in (*state.heads.heads.values(), *state.context.nodes):
                if node is not None and node not in there:
                    self.ghost.problems.append(f"a writer builds on {node}, which is not in the journal")
        if writer.replica.exists and alone and not state.adrift and not writer.position.behind:
            self.compare("a writer", writer.replica.view.life, state, writer.replica.epoch)

    def _resumed(self, what: str, moment: int, reader: Readable) -> None:
        state, life = reader.replica.state, reader.replica.view.life
        if not any(there == life and len(ids) == state.end for there, ids in self.ghost.states_since(moment)):
            self.ghost.problems.append(f"{what} resumed at {state.end} of life {life}; it never ended there since")
        elif state.adrift:
            self.ghost.problems.append(f"{what} resumed at {state.end} without knowing its context")
        else:
            self.compare(what, life, state, reader.replica.epoch)

    def compare(self, what: str, life: str, state: SessionState, epoch: int) -> None:
        expected = self._replayed(life, state.end, epoch)
        for name, got in facts_of(state).items():
            if got != expected[name]:
                # A process that reads during an erasure may see a part as erased already.
                later = range(epoch + 1, self.ghost.epochs.get(life, 0) + 1)
                since = (self._replayed(life, state.end, each)[name] for each in later)
                if any(_is_between(got, expected[name], after) for after in since):
                    continue
                self.ghost.problems.append(
                    f"{what} at {state.end} of life {life}: {name} is {got!r}, a replay says {expected[name]!r}"
                )

    def _replayed(self, life: str, end: int, epoch: int) -> dict[str, object]:
        """Return the facts of a resume that folds all records, from the first one on."""
        lines = tuple(self.ghost.log_under(life, epoch)[:end])
        place = (life, end, lines)
        if place not in self._replays:
            keys = SessionKeys("", self.keys.session, False)
            world = World(self.rng, keys, faults=0.0, page=1000, sends_max=1)
            card = msgspec.structs.replace(self.card(), life=life)
            tail = Tail(header=TailHeader(session=keys.session, life=life, base=0, nonce="replay"), lines=lines)
            world.objects[keys.latest] = (Version("1"), encode_latest(card, ()))
            world.objects[keys.tail] = (Version("2"), encode_tail(tail, compressed=True))
            reader = Reader(keys, find_policy(POLICY))
            process = Process("replay", world, reader.resume())
            while process.step():
                pass
            if process.failure is not None:
                raise process.failure
            self._replays[place] = facts_of(reader.replica.state)
        return self._replays[place]

    def card(self) -> Card:
        return Card(session=self.keys.session, life="", write="", created=1, updated=1)


def _is_between(got: object, before: object, after: object) -> bool:
    """Whether a fact is as before or after an erasure; for the agent's state, whether each value is."""
    if isinstance(got, dict) and isinstance(before, dict) and isinstance(after, dict):
        return got.keys() == before.keys() and all(got[key] in (before[key], after.get(key)) for key in got)
    return got == after


def nothing() -> Steps[None]:
    """Do nothing before the first write."""
    yield from ()
