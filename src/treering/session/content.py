"""Read the contents of records: nodes with their payloads, the context and state at any node. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from treering._late import Kind
from treering.checkpoint.checkpoint import Checkpoint, CheckpointInfo
from treering.checkpoint.context import Context, replace, without
from treering.checkpoint.policy import Seen, extend_all, render
from treering.checkpoint.resolve import needs, resolve
from treering.errors import NotFoundError, UnavailableError
from treering.format import values
from treering.format.erasure import Erased
from treering.format.line import check_line
from treering.format.record import Record, Skeleton, body_of, decode_record
from treering.ids import time_of
from treering.journal.register import Attempts
from treering.session.blobs import Blobs
from treering.session.payload import decode_payload, stored_payload
from treering.session.replica import Replica
from treering.storage.requests import Steps
from treering.transcript.node import HERE, Here, Node, node_of

if TYPE_CHECKING:
    from treering.session.lookup import Lookup, Shown


def _whole(context: Context) -> Context:
    return context


class ContextItem(msgspec.Struct, frozen=True, kw_only=True):
    """One message as the model sees it."""

    node: str
    """The node it comes from."""
    message: Any
    """The message itself: the node's payload, an edited message, or the result of a view."""


class Restored(msgspec.Struct, frozen=True):
    """Context and state of a session at some node."""

    node: str | None
    context: Context
    lines: dict[str, bytes]
    """Record lines of the nodes in the context, and of the checkpoints that hold the state."""
    checkpoint: Checkpoint | None
    """The checkpoint at that node or above; its state belongs to the context."""


class Found(msgspec.Struct, frozen=True):
    """A node whose payload was read, except for its blobs."""

    row: Skeleton
    mark: Shown
    line: bytes
    """Its own line, or the line of the edit that replaces its payload."""


class Content:
    """Reads the contents of records, later edits applied."""

    def __init__(self, replica: Replica, blobs: Blobs) -> None:
        self._replica = replica
        self._blobs = blobs

    # the current context
    def rebuild(self) -> Steps[None]:
        """Make the current context known; reads the graph of the whole session if the last records do not suffice."""
        attempts = Attempts(self._replica.keys.tail)
        while attempts.another():
            yield from self.fetch_lines()
            state = self._replica.state
            if not state.adrift:
                return
            head, tip = state.head, state.tip
            restored = yield from self.restore(tip, head=head)
            state = self._replica.state  # it may have been replaced by a second read, and the head may have moved
            if (state.head, state.tip) == (head, tip):
                self.restore_to(restored)

    def complete(self) -> Steps[None]:
        """Make the current context known, with its blobs."""
        yield from self.rebuild()
        yield from self._blobs.fetch_shown()

    def fetch_lines(self) -> Steps[None]:
        """Read the context's records that `latest` had no room for, if it lists the positions of all of them."""
        state = self._replica.state
        places = {node: state.places.get(node) for node in state.context.nodes if node not in state.lines}
        known = {node: at for node, at in places.items() if at is not None}
        if not places or len(known) < len(places):
            return
        lines = yield from self._replica.lines_at([*known.values()])
        found = {node: lines[at] for node, at in known.items() if decode_record(lines[at]).id == node}
        if self._replica.state is state:  # else a second read replaced it
            state.lines |= found
            state.borrowed |= found.keys()
            yield from self._blobs.fetch_shown()

    def fetch_blobs(self) -> Steps[None]:
        """Read the blobs that the context shows and that are not in memory."""
        return self._blobs.fetch_shown()

    def restore_to(self, restored: Restored) -> None:
        """Put the context and checkpoint of `restored` into the state."""
        state = self._replica.state
        state.context, state.context_at = restored.context, restored.node
        state.lines = dict(restored.lines)
        state.borrowed = frozenset(state.lines)
        state.checkpoint = restored.checkpoint
        self._replica.has_unread_blobs = False

    # nodes

    def nodes(
        self, rows: Iterable[Skeleton], shown: Sequence[Shown] | None = None, *, blobs: bool = True
    ) -> Steps[list[Node]]:
        """Nodes with their payloads, later edits applied.

        Args:
            rows: Skeletons of the nodes.
            shown: Their labels and edits, if the caller knows them.
            blobs: Put blobs in their places; else `BlobRef`s stand there.
        """
        found = yield from self.read(list(rows), shown)
        return (yield from self.made(found, blobs=blobs))

    def read(self, rows: Sequence[Skeleton], shown: Sequence[Shown] | None = None) -> Steps[list[Found]]:
        """The lines that hold the payloads of nodes as they are shown now."""
        if shown is None:
            shown = yield from self._replica.ask(lambda look: look.shown(rows))
        places = [row.at if mark.amended is None else mark.amended for row, mark in zip(rows, shown, strict=True)]
        lines = yield from self._replica.lines_at(places)
        return [Found(row, mark, lines[at]) for row, mark, at in zip(rows, shown, places, strict=True)]

    def made(self, found: Sequence[Found], *, blobs: bool = True) -> Steps[list[Node]]:
        """The nodes whose lines were read."""
        if blobs:
            yield from self._blobs.fetch([each.line for each in found])
        return [
            node_of(
                each.row,
                self._payload(body_of(each.line), blobs=blobs),
                label=each.mark.label,
                retracted=each.mark.retracted,
                amended=each.mark.amended is not None,
            )
            for each in found
        ]

    def _payload(self, body: bytes, *, blobs: bool) -> object:
        return decode_payload(body, self._blobs.at_hand) if blobs else stored_payload(body)

    # the context of any node

    def messages(self, context: Context, lines: dict[str, bytes]) -> tuple[ContextItem, ...]:
        """The messages of a context whose records and blobs are in memory.

        Raises:
            UnavailableError: A record could not be read when it was looked for.
        """
        if not lines.keys() >= set(context.nodes):
            raise self._not_read()
        return tuple(
            [
                ContextItem(node=item.node, message=self._message(item.view, item.message, lines[item.node]))
                for item in context.items
            ]
        )

    def require_at(self, node: str | None, *, blobs: bool = True) -> None:
        """Refuse the current context if it is that of another node, or lacks `blobs`, since reading that failed.

        A handle that another writer stopped shows what it has: its caller looks for what was not recorded.
        """
        replica = self._replica
        lacks = replica.state.context_at != node or (blobs and replica.has_unread_blobs)
        if lacks and replica.exists and not replica.met:
            raise self._not_read()

    def _not_read(self) -> UnavailableError:
        return UnavailableError(
            "not all messages of the context could be read when they were looked for",
            kind=Kind.CONTEXT,
            key=self._replica.keys.latest,
            remedy="call refresh",
        )

    def _message(self, view: str, inline: bytes | None, line: bytes) -> object:
        if inline is not None:
            return decode_payload(inline, self._blobs.at_hand)
        payload = decode_payload(body_of(line), self._blobs.at_hand)
        if isinstance(payload, Erased):
            return payload.message
        return render(view, payload, _seen(decode_record(line))) if view else payload

    def restore(
        self,
        node: str | None,
        *,
        checkpoint: str | Here | None = HERE,
        head: str | None = None,
        before: int | None = None,
        part: Callable[[Context], Context] = _whole,
        state: bool = True,
    ) -> Steps[Restored]:
        """Compute the context at `node` and the state that belongs to it.

        Starts from the nearest checkpoint at or above `node`, whose context may have been edited, and applies the
        policy to the nodes below it.

        Args:
            node: The node; None is the place before the first one.
            checkpoint: Start from this checkpoint, made at `node` or above; None: from no checkpoint. By default start
                from the nearest one.
            head: The head that points to the node or will; checkpoints made on it take precedence.
            before: Ignore checkpoints and edits at this position or later.
            part: Read only the messages of the context that this function returns.
            state: Read the records that hold the state, too: a handle that moves to the node needs them.

        Raises:
            NotFoundError: There is no such node or checkpoint.
        """
        end = -1
        while True:
            try:
                return (yield from self._restored(node, checkpoint, head, before, part, state=state))
            except NotFoundError as error:
                if checkpoint is not HERE or error.kind != Kind.CHECKPOINT or end == self._replica.state.end:
                    raise
            end = self._replica.state.end
            yield from self._replica.catch_up()  # another writer pruned the nearest checkpoint

    def _restored(
        self,
        node: str | None,
        checkpoint: str | Here | None,
        head: str | None,
        before: int | None,
        part: Callable[[Context], Context],
        *,
        state: bool,
    ) -> Steps[Restored]:
        entry, below = yield from self._replica.ask(lambda look: _start(look, node, checkpoint, head, before))
        found = (yield from self.load_checkpoint(entry.id)) if entry is not None else None
        extended = self._extended(found, below)
        # The context of a checkpoint has all earlier edits applied; nodes added after the checkpoint have none.
        done = found.context.nodes if found and extended is not None else ()
        since = dict.fromkeys(done, entry.at) if entry is not None else {}
        built = extended if extended is not None else (yield from self._built(node))
        context = yield from self.edited(built, since=since, before=before)
        read = part(context)
        lines = yield from self.context_lines(read)
        lines |= (yield from self._state_lines(found)) if state else {}
        yield from self._blobs.fetch(lines.values(), read)
        return Restored(node, context, lines, found)

    def _extended(self, found: Checkpoint | None, below: Iterable[Skeleton]) -> Context | None:
        """The context of a checkpoint with the nodes after it; None if it has to be computed from the whole path."""
        return extend_all(self._replica.policy, found.context, below) if found else None

    def _built(self, node: str | None) -> Steps[Context]:
        """The context that the policy makes of the whole path."""
        index = yield from self._replica.index()
        return self._replica.policy.build(index.graph.path(node), index.graph)

    def newest_checkpoint(self, node: str | None, *, head: str) -> Steps[str | None]:
        """The checkpoint that holds the state of a head at a node, or None."""
        entry, _ = yield from self._replica.ask(lambda look: look.nearest_checkpoint(node, head=head))
        return None if entry is None else entry.id

    def edited(
        self, context: Context, *, since: Mapping[str, int] | None = None, before: int | None = None
    ) -> Steps[Context]:
        """Apply edits to a context: show amended payloads, and leave out retracted nodes.

        Args:
            context: The context to be edited.
            since: By node: edits up to that position are in `context` already.
            before: Leave out only nodes retracted before that position.
        """
        marks = yield from self._replica.ask(lambda look: look.edits(context.nodes, before=before))
        retracted = {node for node, mark in marks.items() if mark.retracted}
        amended = {
            node: mark.amended
            for node, mark in marks.items()
            if mark.amended is not None and mark.amended > (since or {}).get(node, -1)
        }
        lines = yield from self._replica.lines_at(amended.values())
        bodies = {node: body_of(lines[at]) for node, at in amended.items()}
        return replace(without(context, retracted), bodies)

    def context_lines(self, context: Context) -> Steps[dict[str, bytes]]:
        """The record lines of the nodes in a context, by node."""
        shown = dict.fromkeys(context.nodes)
        lines = {node: line for node, line in self._replica.state.lines.items() if node in shown}
        missing = [node for node in shown if node not in lines]
        if not missing:
            return lines
        rows = yield from self._replica.ask(lambda look: look.all_nodes(missing))
        found = yield from self._replica.lines_at(row.at for row in rows)
        for line in found.values():
            check_line(line)
        return lines | {row.id: found[row.at] for row in rows}

    def _state_lines(self, checkpoint: Checkpoint | None) -> Steps[dict[str, bytes]]:
        """Records of the checkpoints that hold state values, except values that the newest state holds as well."""
        if checkpoint is None:
            return {}
        newest = self._replica.state.checkpoint
        held = set(newest.origins.items()) | {("", newest.manager_at)} if newest else set()
        wanted = {*checkpoint.origins.items(), ("", checkpoint.manager_at)} - held
        names = {name for _, name in wanted if name is not None}
        return (yield from self._checkpoint_lines(names))

    def _checkpoint_lines(self, names: Collection[str]) -> Steps[dict[str, bytes]]:
        """The record lines of some checkpoints, pruned ones too, by checkpoint."""
        if not names:
            return {}
        entries = yield from self._replica.ask(lambda look: look.all_checkpoints(names))
        lines = yield from self._replica.lines_at(entry.at for entry in entries)
        return {entry.id: lines[entry.at] for entry in entries}

    def load_checkpoint(self, checkpoint: str) -> Steps[Checkpoint]:
        """Read one checkpoint of any age: its record and its ancestors' up to the nearest full one.

        Raises:
            NotFoundError: There is no such checkpoint, or it was pruned.
        """
        [found] = yield from self.load_checkpoints([checkpoint])
        return found

    def load_checkpoints(self, checkpoints: Sequence[str]) -> Steps[list[Checkpoint]]:
        """Read checkpoints of any age together, in the order asked for: each record is read once.

        Values and items that several of them share are the same objects.

        Raises:
            NotFoundError: There is no such checkpoint, or it was pruned.
        """
        newest = self._replica.state.checkpoint
        known = {newest.id: newest} if newest is not None else {}
        others = [name for name in checkpoints if name not in known]
        if not others:
            return [known[name] for name in checkpoints]
        chains, beside = yield from self._replica.ask(lambda look: _chains(look, others))
        lines = yield from self._replica.lines_at({entry.at for each in (*chains, beside) for entry in each})
        records = {record.id: record for record in map(decode_record, lines.values())}
        referred = {name for chain in chains for name in needs(records[chain[0].id])}
        more = yield from self._checkpoint_lines(referred - records.keys())
        records |= {name: decode_record(line) for name, line in more.items()}
        for chain in chains:
            _ = resolve([records[entry.id] for entry in chain], records.__getitem__, known)
        return [known[name] for name in checkpoints]


def _chains(look: Lookup, checkpoints: Sequence[str]) -> Steps[tuple[list[list[CheckpointInfo]], list[CheckpointInfo]]]:
    """The chains of some checkpoints, and the further checkpoints that the briefs of full records name as needed."""
    chains = yield from look.chains(checkpoints)
    here = {entry.id for chain in chains for entry in chain}
    beside = {name for chain in chains for name in chain[0].needs} - here
    return chains, (yield from look.all_checkpoints(sorted(beside)))


def _start(
    look: Lookup, node: str | None, checkpoint: str | Here | None, head: str | None, before: int | None
) -> Steps[tuple[CheckpointInfo | None, list[Skeleton]]]:
    """The checkpoint to start from, and the nodes of the path below its node."""
    if isinstance(checkpoint, Here):
        return (yield from look.nearest_checkpoint(node, head=head, before=before))
    below = yield from look.since_checkpoint(checkpoint, node)
    return None if checkpoint is None else (yield from look.checkpoint(checkpoint)), below


def _seen(record: Record) -> Seen:
    brief = values.decode(record.brief)
    time = record.time if record.time is not None else time_of(record.id) or 0
    return Seen(record.id, time, record.links or {}, brief if isinstance(brief, dict) else {})
