"""One thread of LangGraph, in one session of Treering: the operations of a saver, as protocols without I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from treering.checkpoint.checkpoint import Checkpoint, CheckpointInfo
from treering.checkpoint.context import Context, Item
from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import HeadMovedError, NotFoundError, UsageError
from treering.format.erasure import is_erased
from treering.format.values import fields_of
from treering.integrations.langgraph import names
from treering.integrations.langgraph.append import Base, ThreadAppend
from treering.integrations.langgraph.codec import Codec, sameness_of
from treering.integrations.langgraph.kept import Kept, NewCheckpoint, Writes, digest_of, facts_in, kept_in, writes_in
from treering.integrations.langgraph.names import WriteName
from treering.integrations.shared import SharedSession
from treering.kinds import Kind
from treering.session.content import Restored
from treering.session.verbs import pruning
from treering.session.writer import Writer
from treering.storage.requests import Steps

DIGESTS_MAX: Final = 20_000
"""The most messages of a thread whose digests are kept in memory, at about 150 bytes each."""


class Entry(msgspec.Struct):
    """One checkpoint of a thread, from the skeletons of its session."""

    ns: str
    """The shortened namespace; see `names.short`."""
    id: str
    parent: str | None
    meta: Mapping[str, object]
    """The part of its metadata that skeletons hold."""
    whole: bool
    """Whether `meta` is all of its metadata."""
    put: str | None
    """The checkpoint of Treering that holds it; None if that was pruned, and only the session's state holds it."""
    states: list[str] = []
    """The checkpoints of Treering with its pending writes, the oldest first: `put`, and those that added some."""


Entries = dict[tuple[str, str], Entry]
"""Checkpoints by shortened namespace and id."""


class Thread(SharedSession):
    """Reads and records one thread.

    Args:
        writer: The writer of its session, which allows other writers.
        listed: The channel whose messages are kept as nodes.
    """

    def __init__(self, writer: Writer, listed: str) -> None:
        super().__init__(writer)
        self.listed = listed
        self.known: frozenset[bytes] = frozenset()
        """Digests of the messages in the context of the checkpoint that this object recorded last."""
        self._digests: dict[Item, bytes] = {}
        self._former: dict[Item, bytes] = {}
        """The digests that messages had when this object first saw them; empty until something is erased."""
        self._epoch = 0

    # read

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that have a checkpoint."""
        return [ns for ns in dict.fromkeys(map(names.namespace_of, self._keys)) if facts_in(self._keys, ns) is not None]

    def newest_id(self, ns: str) -> str | None:
        """Return the id of the newest checkpoint of a namespace; None if there is none."""
        facts = facts_in(self._keys, ns)
        return facts["id"] if facts is not None else None

    def newest(self, ns: str) -> Kept | None:
        """Return the newest checkpoint of a namespace with all its values, as `look` read it; None if there is none."""
        state, content = self.writer.replica.state, self.writer.content
        shown = () if ns else tuple([item.message for item in content.messages(state.context, state.lines)])
        return kept_in(self._keys, ns, shown)

    def find(self, ns: str, checkpoint: str) -> Steps[Kept | None]:
        """Read any checkpoint by its id; None if there is none."""
        if self.newest_id(ns) == checkpoint:
            return self.newest(ns)
        entry = (yield from self.entries()).get((names.short(ns), checkpoint))
        if entry is None:
            return None
        [found] = yield from self.load([entry])
        return found

    def entries(self) -> Steps[Entries]:
        """Return all checkpoints, from the skeletons and the state of the session only."""
        found: Entries = {}
        states: dict[tuple[str, str], list[str]] = {}
        for info in (yield from self._infos()):
            facts = fields_of(info.metadata.get(names.MARK))
            ns, put, written = str(facts.get("ns", "")), facts.get("put"), facts.get("writes")
            if isinstance(put, str):
                meta = fields_of(facts.get("meta"))
                meta |= {} if info.step is None else {"step": info.step}
                found[ns, put] = Entry(ns, put, facts.get("parent"), meta, facts.get("part") is not True, info.id)
                states.setdefault((ns, put), []).append(info.id)
            elif isinstance(written, str):
                states.setdefault((ns, written), []).append(info.id)
        for ns in self.namespaces:
            facts = facts_in(self._keys, ns) or {}
            place = names.short(ns), facts["id"]
            if place not in found:
                found[place] = Entry(*place, facts["parent"], {}, whole=False, put=None)
        for place, entry in found.items():
            entry.states = states.get(place, [])
        return found

    def _infos(self) -> Steps[Sequence[CheckpointInfo]]:
        if not self.writer.replica.exists:
            return ()
        return (yield from self.writer.replica.ask(lambda look: look.checkpoints(), whole=True))

    def load(self, entries: Sequence[Entry]) -> Steps[list[Kept]]:
        """Read the listed checkpoints with all their values; data that they share is read once.

        Raises:
            NotFoundError: A checkpoint was removed.
            UsageError: A checkpoint was erased.
        """
        found: list[Kept] = []
        for entry, kept in zip(entries, (yield from self._read(entries)), strict=True):
            if kept is None:
                raise UsageError(f"what a checkpoint held was erased. checkpoint={entry.id!r}", kind=Kind.ERASED)
            found.append(kept)
        return found

    def _read(self, entries: Sequence[Entry]) -> Steps[list[Kept | None]]:
        """Read the listed checkpoints; None for each that was erased."""
        order = sorted({name for entry in entries for name in entry.states})
        loaded = dict(zip(order, (yield from self.writer.content.load_checkpoints(order)), strict=True))
        told = [entry.put for entry in entries if not entry.ns and entry.put is not None]
        contexts = yield from self._as_edited([loaded[name].context for name in told])
        messages = yield from self._messages(contexts)
        said = {
            name: tuple([messages[item] for item in context.items])
            for name, context in zip(told, contexts, strict=True)
        }
        return [self._kept(entry, loaded, said) for entry in entries]

    def load_again(self, entries: Sequence[Entry]) -> Steps[list[tuple[Entry, Kept]]]:
        """Do the same for a list from an earlier call; checkpoints that were removed since, or erased, are left out."""
        if not self._opened:
            yield from self.look()
        try:
            read = yield from self._read(entries)
        except NotFoundError:
            yield from self.look()
            now = yield from self.entries()
            entries = [now[each.ns, each.id] for each in entries if (each.ns, each.id) in now]
            read = yield from self._read(entries)
        return [(entry, kept) for entry, kept in zip(entries, read, strict=True) if kept is not None]

    def _messages(self, contexts: Iterable[Context]) -> Steps[dict[Item, object]]:
        """Read the messages of some contexts, by item."""
        items = dict.fromkeys(item for each in contexts for item in each.items)
        shown = Context(tuple(items))
        content = self.writer.content
        lines = yield from content.context_lines(shown)
        yield from self.writer.blobs.fetch(lines.values(), shown)
        return dict(zip(items, [each.message for each in content.messages(shown, lines)], strict=True))

    def _kept(
        self, entry: Entry, loaded: Mapping[str, Checkpoint], said: Mapping[str, tuple[object, ...]]
    ) -> Kept | None:
        ns = next((ns for ns in self.namespaces if names.short(ns) == entry.ns), entry.ns)
        put = entry.put
        kept = self.newest(ns) if put is None else kept_in(loaded[put].state, ns, said.get(put, ()))
        if kept is None:
            return None
        states = [loaded[name].state for name in entry.states]
        return kept._replace(writes=_joined([writes_in(state, ns, entry.id) for state in (*states, self._keys)]))

    # record

    def put(self, put: NewCheckpoint) -> Steps[None]:
        """Record a checkpoint; it is durable when this returns.

        Raises:
            HeadMovedError: Another writer put a checkpoint since LangGraph got the parent as the newest one.
        """
        yield from self._be_ready()
        done = yield from self.writer.appender.write(partial(self._plan_put, put))
        if not put.ns:
            self.known = frozenset(done.digests)
        yield from self._tidy()

    def put_writes(self, writes: Writes) -> Steps[None]:
        """Record pending writes; they are durable when this returns."""
        yield from self._be_ready()
        yield from self.writer.appender.write(partial(self._plan_writes, writes))
        yield from self._tidy()

    def _be_ready(self) -> Steps[None]:
        yield from super()._be_ready()
        replica = self.writer.replica
        if replica.exists and replica.state.end and names.MARK not in replica.state.card.extra and not self.namespaces:
            raise UsageError(
                f"this session was not made by LangGraph. session={self.writer.keys.session!r}",
                kind=Kind.OPTION,
                remedy="choose another thread_id, or a namespace of the store for threads",
            )

    def _plan_put(self, put: NewCheckpoint) -> Steps[ThreadAppend]:
        yield from self._stand()
        newest = self.newest_id(put.ns)
        if put.expected and newest not in (put.parent, put.id):
            raise HeadMovedError(
                f"another run continued this thread. expected={put.parent!r}, got={newest!r}",
                key=self.writer.keys.tail,
                remedy="read the state of the graph again, and decide whether to go on; nothing that was put is lost",
            )
        put = put.above((yield from self._continued(put))) if put.deltas else put
        here = yield from self._here(put.codec)
        base = here
        if not put.ns and newest is not None and put.parent not in (None, newest) and put.id != newest:
            base = (yield from self._base_at(put.parent or "", put.codec)) or here
        append = ThreadAppend(self.writer)
        before = dict(self._keys)
        append.put(put, base)
        if newest is not None and put.id < newest:
            append.put_back(before, here)
        return append

    def _continued(self, put: NewCheckpoint) -> Steps[Kept | None]:
        """Return the checkpoint that a new one continues; None if it continues none, or if that was removed."""
        return None if put.parent is None else (yield from self.find(put.ns, put.parent))

    def _plan_writes(self, writes: Writes) -> Steps[ThreadAppend]:
        yield from self._stand()
        append = ThreadAppend(self.writer)
        # The task of a write that was erased runs again.
        there = {key for key in writes.keys if key in append.keys and not is_erased(append.keys[key])}
        new = {
            key: raw
            for key, raw in writes.keys.items()
            if key not in there or (name := names.write_of(writes.ns, key)) is None or name.place < 0
        }
        if new:
            append.add(new, writes.brief)
        return append

    # messages that are nodes

    def _here(self, codec: Codec) -> Steps[Base]:
        """Return the current position of the session."""
        state = self.writer.replica.state
        digests = self._digests_of(state.context.items, state.lines, codec)
        yield from ()
        return Base(self.writer.position.node, state.context.items, digests, self._erased(state.context.items))

    def _base_at(self, checkpoint: str, codec: Codec) -> Steps[Base | None]:
        """Return the position of an old checkpoint, and pin it so that two reads resume the session there."""
        entry = (yield from self.entries()).get(("", checkpoint))
        if entry is None or entry.put is None:
            return None
        [found] = yield from self.writer.content.load_checkpoints([entry.put])
        return (yield from self._base_of(found, codec))

    def _base_of(self, found: Checkpoint, codec: Codec) -> Steps[Base]:
        [context] = yield from self._as_edited([found.context])
        lines = yield from self.writer.content.context_lines(context)
        yield from self.writer.blobs.fetch(lines.values(), context)
        digests = self._digests_of(context.items, lines, codec)
        yield from self.writer.upkeep.pin(Restored(found.node, context, lines, None))
        return Base(found.node, context.items, digests, self._erased(context.items))

    def _erased(self, items: Sequence[Item]) -> dict[bytes, Item]:
        """Return the items whose messages were erased since this object saw them, by the digests that these had."""
        seen = [item for item in items if item in self._former] if self._former else []
        return {self._former[item]: item for item in seen if self._former[item] != self._digests[item]}

    def _digests_of(self, items: Sequence[Item], lines: dict[str, bytes], codec: Codec) -> tuple[bytes, ...]:
        if self._epoch != self.writer.replica.epoch or len(self._digests) > DIGESTS_MAX:
            if self._epoch != self.writer.replica.epoch:  # erased messages have other digests now
                self._former = {**self._digests, **self._former}
            self._digests, self._epoch = {}, self.writer.replica.epoch
        missing = [item for item in items if item not in self._digests]
        shown = self.writer.content.messages(Context(tuple(missing)), lines) if missing else ()
        for item, each in zip(missing, shown, strict=True):
            self._digests[item] = digest_of(sameness_of(codec.message_of(each.message)))
        return tuple([self._digests[item] for item in items])

    # remove

    def prune(self) -> Steps[None]:
        """Remove all checkpoints except the newest of each namespace, with its writes.

        The next `put` replaces these in the state of the session, so the checkpoints of Treering that hold them stay.
        """
        entries = yield from self.entries()
        newest = [entries[names.short(ns), self.newest_id(ns) or ""] for ns in self.namespaces]
        kept = [name for entry in newest for name in entry.states]
        yield from pruning.prune(self.writer, KeepCheckpoints(last=1, labelled=False, heads=(), ids=kept))

    def drop(self, gone: Collection[tuple[str, str]], codec: Codec) -> Steps[None]:
        """Remove some checkpoints, with their writes; if the newest is removed, its predecessor becomes the newest."""
        entries = yield from self.entries()
        removed = {name for place in gone for name in entries[place].states}
        yield from self.writer.appender.write(partial(self._plan_drop, gone, codec))
        kept = [info.id for info in (yield from self._infos()) if info.id not in removed]
        yield from pruning.prune(self.writer, KeepCheckpoints(last=1, ids=kept, heads=()))

    def _plan_drop(self, gone: Collection[tuple[str, str]], codec: Codec) -> Steps[ThreadAppend]:
        yield from self._stand()
        base = yield from self._here(codec)
        back = yield from self._before(gone)
        if ("", self.newest_id("")) in gone:
            base = Base(base.node, (), ())
        state = {key: raw for key, raw in self._keys.items() if not self._is_of(key, gone)}
        for entry, kept in zip(back, (yield from self.load(back)), strict=True):
            state |= kept.keys()
            if not entry.ns and entry.put is not None:
                [found] = yield from self.writer.content.load_checkpoints([entry.put])
                base = yield from self._base_of(found, codec)
        append = ThreadAppend(self.writer)
        append.put_back(state, base)
        return append

    def _before(self, gone: Collection[tuple[str, str]]) -> Steps[list[Entry]]:
        """Return the next newest checkpoint of each namespace whose newest checkpoint is removed."""
        entries = yield from self.entries()
        back: list[Entry] = []
        for ns in map(names.short, [ns for ns in self.namespaces if (names.short(ns), self.newest_id(ns)) in gone]):
            left = [entry for place, entry in entries.items() if place not in gone and entry.ns == ns]
            back += [max(left, key=lambda entry: entry.id)] if left else []
        return back

    def _is_of(self, key: str, gone: Collection[tuple[str, str]]) -> bool:
        """Tell whether a key of the state belongs to a removed checkpoint."""
        ns = names.namespace_of(key)
        name = names.write_of(ns, key)
        newest = facts_in(self._keys, ns) or {}
        holder = newest.get("id")
        if name is not None and name.checkpoint not in newest.get("above", ()):
            holder = name.checkpoint
        return (names.short(ns), holder) in gone


def _joined(found: Iterable[Mapping[WriteName, bytes]]) -> dict[WriteName, bytes]:
    """Join the writes of one checkpoint, from oldest to newest: a regular write is kept, a special one replaced."""
    writes: dict[WriteName, bytes] = {}
    for each in found:
        for name, raw in each.items():
            if name.place < 0 or name not in writes:
                writes[name] = raw
    return writes
