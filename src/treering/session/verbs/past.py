"""Read a session as it was at an earlier position."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from treering.checkpoint.policy import find_policy
from treering.errors import CorruptError, NotFoundError, UsageError
from treering.format.record import decode_record
from treering.format.register import Tail
from treering.journal import read
from treering.journal.view import View
from treering.kinds import Kind
from treering.session.effects import places_in, told
from treering.session.index import Index
from treering.session.reader import Readable, Reader
from treering.session.replica import Replica, Savepoint
from treering.session.state import SessionState
from treering.session.streams import BEGIN, END, fold_note
from treering.storage.requests import Steps


class PastReplica(Replica):
    """The replica of a session as of an earlier position: no later record is read.

    Args:
        now: The replica of the session today.
        view: The registers, without later records.
        index: The index of the records before the position.
        state: The state folded from these records.
    """

    def __init__(self, now: Replica, view: View, index: Index, state: SessionState) -> None:
        super().__init__(now.keys, now.asked_policy, memory=now.memory)
        self.known_view, self._index, self.state = view, index, state
        self.until = index.end

    def catch_up(self) -> Steps[bool]:
        """Return False: the past does not change."""
        yield from ()
        return False

    def let_index_go(self) -> None:
        """Keep the index: it cannot be read again from the registers."""

    def go_back(self, there: Savepoint) -> None:
        """Restore the state, and drop the rows in memory: reading changes nothing else."""
        self._rows = None
        self.state = there.state


class PastReader(Reader):
    """A reader of a session as of an earlier position."""

    def __init__(self, replica: PastReplica) -> None:
        super().__init__(replica.keys, replica=replica)

    def refresh(self) -> Steps[bool]:
        """Return False: the past does not change."""
        yield from ()
        return False


def at(reader: Readable, position: int) -> Steps[Reader]:
    """The session as of its first `position` records: heads, context, state, pages, and all else that views have.

    Payloads erased since are erased there, too, and checkpoints pruned since are missing. `info` is that of today,
    except for counts, times, head and node; `stored` counts what is stored today.

    Args:
        reader: The session.
        position: The position of the first record to leave out: `at(event.at + 1)` is the session as of an event.

    Raises:
        UsageError: The session has fewer records.
        NotFoundError: The checkpoint that held the state then was pruned.
    """
    view = reader.replica.view
    if not 0 <= position <= view.end:
        raise UsageError(
            f"no such position. position={position}, end={view.end}",
            kind=Kind.POSITION,
            remedy="give one from 0, before the first record, to the end",
        )
    today = yield from reader.replica.index()
    _, skeletons = yield from read.skeletons(reader.keys, view.life, end=position)
    if len(skeletons) < position:
        raise CorruptError(f"records are gone. end={len(skeletons)}", kind=Kind.LOST, key=reader.keys.tail)
    index = Index(skeletons)
    _require_kept(index, today)
    index.give_up(today.pruned)
    replica = PastReplica(reader.replica, _cut(view, position), index, (yield from _state_of(reader, index)))
    past = PastReader(replica)
    yield from _restore(past)
    return past


def _require_kept(index: Index, today: Index) -> None:
    """Raise if the checkpoint that held the state was pruned: an older checkpoint has another state."""
    heads = index.heads
    held, _ = index.nearest_checkpoint(index.graph.path_rows(heads.tip), head=heads.current)
    if held is not None and held in today.pruned:
        raise NotFoundError(
            f"the checkpoint that held the state there was pruned. checkpoint={held!r}",
            kind=Kind.CHECKPOINT,
            remedy="go to the position of a checkpoint that was kept; pages of nodes show what was said",
        )


def _cut(view: View, position: int) -> View:
    """The registers with a tail that ends at a position."""
    header, lines = view.tail.header, view.tail.lines
    kept = lines[: max(0, position - header.base)]
    if position < header.base:
        header = msgspec.structs.replace(header, base=position, before=UNSET)
    return msgspec.structs.replace(view, tail=Tail(header=header, lines=kept))


def _state_of(reader: Readable, index: Index) -> Steps[SessionState]:
    """The state folded from the records of an index, except for context and checkpoint."""
    now, skeletons = reader.replica.state, index.graph.skeletons
    card = msgspec.structs.replace(
        now.card,
        nodes=len(index.graph),
        messages=len(skeletons.rows(lambda name: name[:2] == ("node", "message"))),
        checkpoints=len(index.all_checkpoints),
        updated=max(skeletons.times(), default=now.card.created),
    )
    state = SessionState(card, reader.replica.policy)
    state.end, state.heads = index.end, index.heads
    for row in skeletons.take(skeletons.rows(lambda name: name[0] == "note")):
        state.add_note(row)
        if row.kind in (BEGIN, END):
            state.streams = fold_note(state.streams, row, "")
    state.streams = {name: facts for name, facts in state.streams.items() if name not in index.graph}
    if state.effects:
        lines = yield from reader.replica.lines_at(places_in(state.effects))
        state.effects = told(state.effects, {at: decode_record(line).body for at, line in lines.items()})
    return state


def _restore(past: PastReader) -> Steps[None]:
    """Put the context and the checkpoint of the current head into the state."""
    state = past.replica.state
    restored = yield from past.content.restore(state.tip, head=state.head)
    made_by = restored.checkpoint.policy if restored.checkpoint is not None else ""
    if past.replica.asked_policy is None and made_by not in ("", state.policy.name):
        try:
            state.policy = find_policy(made_by)
        except UsageError:
            pass  # that policy is not registered in this process: contexts are extended by another one
        else:
            restored = yield from past.content.restore(state.tip, head=state.head)
    past.content.restore_to(restored)
    yield from past.blobs.fetch_shown()
