"""Find things in a session: its state in two reads, its skeleton, single payloads, any old checkpoint. Never writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from treering.checkpoint.checkpoint import Checkpoint, chain_of
from treering.checkpoint.context import Context, replace, without
from treering.checkpoint.delta import needs, resolve
from treering.checkpoint.policy import Policy, Seen, find_policy, render
from treering.errors import CorruptError, NotFoundError, TreeringError, UnavailableError
from treering.format import values
from treering.format.erasure import NONE, Burials, Erased, erased_of, is_erased
from treering.format.paths import SessionKeys
from treering.format.record import Record, Skeleton, decode_record, skeleton_of
from treering.format.register import Tail
from treering.ids import time_of
from treering.journal.read import LOOKS_MAX, record_at, records_at, skeletons
from treering.journal.resume import resume
from treering.journal.view import View
from treering.session.burial import bury_state
from treering.session.index import Index
from treering.session.payload import blobs_in, decode_payload
from treering.session.savepoint import Followed, Savepoint
from treering.session.state import DEFAULT_POLICY, UNKNOWN, SessionState, decode_state
from treering.storage.requests import Found, Get, Steps
from treering.transcript.node import HERE, Here, Node

BLOBS_AT_ONCE_MAX = 16  # each may be many megabytes


class ContextItem(NamedTuple):
    """One message as the model sees it."""

    node: str
    """The node it comes from."""
    message: object
    """The message itself: the node's payload, an edit of it, or what a view makes of it."""


class Restored(NamedTuple):
    """What a session would be like at some node."""

    node: str | None
    context: Context
    lines: dict[str, bytes]
    """Record lines of the nodes in the context, and of the checkpoints that hold the state."""
    checkpoint: Checkpoint | None
    """The checkpoint that stood there or above; its state goes with the context."""


class Reader:
    """One look at a session, extended by `refresh`."""

    def __init__(self, keys: SessionKeys, policy: Policy | None = None) -> None:
        self.keys = keys
        self._policy = policy
        self.blobs: dict[str, bytes | None] = {}
        self._view: View | None = None
        self._state: SessionState | None = None
        self._index: Index | None = None
        self._saved: Savepoint | None = None

    @property
    def view(self) -> View:
        if self._view is None:
            raise NotFoundError(
                f"session {self.keys.session!r} has no record yet", kind="session", key=self.keys.latest
            )
        return self._view

    @property
    def state(self) -> SessionState:
        if self._state is None:
            raise NotFoundError(
                f"session {self.keys.session!r} has no record yet", kind="session", key=self.keys.latest
            )
        return self._state

    @property
    def policy(self) -> Policy:
        """What was asked for; else that of the newest checkpoint when this was last resumed, else ours."""
        if self._policy is not None:
            return self._policy
        return self._state.policy if self._state is not None else find_policy(DEFAULT_POLICY)

    @property
    def begun(self) -> bool:
        """The session exists in the store."""
        return self._view is not None

    @property
    def head(self) -> str:
        """The head that is followed."""
        return self.state.head

    @property
    def node(self) -> str | None:
        """The node that the followed head stands on."""
        return self.state.tip

    @property
    def shown(self) -> Checkpoint | None:
        """The checkpoint whose state is shown."""
        return self.state.checkpoint

    # what is gone back to

    def save(self) -> None:
        """Make this moment the one to go back to if what follows is interrupted; see `treering.session.savepoint`."""
        if (state := self._state) is not None:
            self._saved = Savepoint(self._view, state, Followed.of(state), self.blobs, self._stand())

    def roll_back(self) -> None:
        """Go back to the last savepoint, whatever an interrupted call left; asks the store nothing."""
        if (saved := self._saved) is None:
            return
        self._view, self._index, self.blobs = saved.view, None, saved.blobs
        state = saved.state
        if saved.view is not None:
            state = self._decoded(saved.view)
            state.advance(saved.view.fresh_lines)
        saved.followed.give_back(state)
        self._state = state
        self._stand_at(saved.stand)

    def _stand(self) -> object:
        """What else a savepoint keeps."""
        return None

    def _stand_at(self, stand: Any) -> None:
        """Go back to that."""

    # where it stands

    def resume(self) -> Steps[None]:
        """Read the session's state: two GETs, and its context's blobs if it has any.

        Raises:
            NotFoundError: There is no such session, or it was deleted (`SessionDeletedError`).
            CorruptError: It is damaged.
        """
        yield from self.look()
        yield from self.mend()
        yield from self.fetch_shown_blobs()

    def look(self) -> Steps[None]:
        """Read both registers, and nothing else: what the model sees may then be unknown; see `resume`."""
        view = yield from resume(self.keys)
        self._state = self._decoded(view)
        self._view, self._index = view, None
        self._absorb(view)

    def refresh(self) -> Steps[bool]:
        """Look again; true if there is something new."""
        if not self.begun:
            yield from self.resume()
            return True
        end, new = self.state.end, (yield from self._look_again())
        yield from self.mend()
        yield from self.fetch_shown_blobs()
        return new or self.state.end > end

    def _look_again(self) -> Steps[bool]:
        """Look again; true if there is something new, or something is gone that was never safe."""
        end = self.state.end
        view = yield from resume(self.keys)
        view.require_same_life(self.view.life)
        return bool(self._absorb(view)) or self.state.end != end

    def _absorb(self, view: View) -> list[Record]:
        """Fold what `view` shows beyond our state.

        Returns:
            The records that are new to us, as far as the tail reaches back; also where another one was shown before.
        """
        known, state, tail = self.view, self.state, view.tail
        if known.durable and view.end < known.end:
            raise CorruptError(
                f"records that were safe are gone. end={view.end}, before={known.end}", kind="lost", key=self.keys.tail
            )
        base = tail.header.base
        vanished = may_have_vanished(known, tail)
        since = _same_to(known, tail) if vanished else state.end
        outdated = vanished or known.epoch != view.epoch
        if outdated:
            self._index = None
        self._look_at(view)
        if outdated or since < base:
            follow = state.follow
            state = self._state = self._decoded(view)
            if follow not in (None, state.head):
                state.context_at = UNKNOWN  # it is another head's
            state.follow = follow
        covered = state.end
        new = [decode_record(line, key=self.keys.tail) for line in tail.lines[max(0, since - base) : covered - base]]
        new += state.advance(tail.lines[max(0, covered - base) :])
        return [record for record in new if record.at >= since]

    def _decoded(self, view: View) -> SessionState:
        """The state that `latest` holds, without what the tail says was erased."""
        state = decode_state(view.latest, self._policy, key=self.keys.latest)
        if view.torn:
            bury_state(state, view.burials, since=view.latest.card.epoch)
        return state

    @property
    def epoch(self) -> int:
        """How often something was erased, as of the last look."""
        return self._view.epoch if self._view is not None else 0

    @property
    def burials(self) -> Burials:
        """Which records were erased, as of the last look."""
        return self._view.burials if self._view is not None else NONE

    def mend(self) -> Steps[None]:
        """If the records alone do not tell the context, read what does from the graph."""
        for _ in range(LOOKS_MAX):
            yield from self.fetch_lines()
            if not self.state.adrift:
                return
            head, tip = self.state.head, self.state.tip
            restored = yield from self.restore(tip, head=head)
            if (self.state.head, self.state.tip) == (head, tip):  # else it had to look again, and the head moved on
                self.adopt(restored)
        raise UnavailableError("others write faster than we can look", kind="busy", key=self.keys.tail)

    def fetch_lines(self) -> Steps[None]:
        """Read the records of the context that `latest` had no room for, if it tells where all of them stand."""
        state = self.state
        places = {node: state.places.get(node) for node in state.context.nodes if node not in state.lines}
        known = {node: at for node, at in places.items() if at is not None}
        if not places or len(known) < len(places):
            return
        lines = yield from self.lines_at([*known.values()])
        found = {node: lines[at] for node, at in known.items() if decode_record(lines[at]).id == node}
        if self.state is state:  # else it had to look again
            state.lines |= found
            state.borrowed |= found.keys()
            yield from self.fetch_shown_blobs()

    def adopt(self, restored: Restored) -> None:
        """Make the state one that stands at `restored`."""
        state = self.state
        state.context, state.context_at = restored.context, restored.node
        state.lines = dict(restored.lines)
        state.borrowed = frozenset(state.lines)
        state.checkpoint = restored.checkpoint

    # what happened

    def _look_at(self, view: View) -> None:
        """Make `view` what we know; the index, if there is one, follows as long as the tail reaches back to it."""
        self._view = view
        if self._index is not None:
            self._index = self._extended_index(self._index, view)

    def _extended_index(self, index: Index, view: View) -> Index | None:
        start = index.end - view.tail.header.base
        if start < 0:
            return None
        index.extend(skeleton_of(line) for line in view.tail.lines[start:])
        return index

    def index(self) -> Steps[Index]:
        """The skeleton of the whole session, read once and then kept up to date; empty before its first record."""
        if self._view is None and self._state is not None:
            return Index()
        while self._index is None:
            found, rows = yield from skeletons(self.keys, self.view.life)
            if not may_have_vanished(self.view, found.tail):  # else others may have their places by now
                self._index = self._extended_index(Index(rows[: self.view.end]), self.view)
            if self._index is None:
                yield from self._look_again()
        return self._index

    def nodes(self, rows: Iterable[Skeleton]) -> Steps[list[Node]]:
        """Nodes with their payloads, as later edits show them."""
        index = yield from self.index()
        rows = list(rows)
        amended = index.graph.annotations.amended
        lines = yield from self.lines_at([amended.get(row.id, row.at) for row in rows])
        yield from self.fetch_blobs(lines.values())
        found = []
        for row in rows:
            body = bytes(decode_record(lines[amended.get(row.id, row.at)]).body)
            found.append(index.graph.view(row.id, decode_payload(body, self.blobs)))
        return found

    def lines_at(self, positions: Sequence[int]) -> Steps[dict[int, bytes]]:
        """Record lines by position, from memory where they are at hand."""
        return (yield from records_at(self.view, sorted(set(positions)))) if positions else {}

    def record(self, at: int) -> Steps[Record]:
        """One record by position.

        Raises:
            NotFoundError: The journal ends before it.
        """
        line = yield from record_at(self.view, at)
        if line is None:
            raise NotFoundError(f"no record at position {at}", kind="position", key=self.keys.tail)
        return decode_record(line, key=self.keys.tail)

    # what the model sees

    def messages(self, context: Context, lines: dict[str, bytes]) -> tuple[ContextItem, ...]:
        """The messages of a context whose records and blobs are at hand.

        Raises:
            UnavailableError: A record could not be read when it was looked for.
        """
        if any(item.node not in lines for item in context.items):
            raise UnavailableError(
                "not all messages of the context could be read when they were looked for",
                kind="context",
                key=self.keys.latest,
                remedy="call refresh",
            )
        return tuple(
            ContextItem(item.node, self._message(item.view, item.message, lines[item.node])) for item in context.items
        )

    def _message(self, view: str, inline: bytes | None, line: bytes) -> object:
        if inline is not None:
            return decode_payload(inline, self.blobs)
        record = decode_record(line)
        payload = decode_payload(bytes(record.body), self.blobs)
        if isinstance(payload, Erased):
            return payload.message
        return render(view, payload, _seen(record)) if view else payload

    def restore(
        self,
        node: str | None,
        *,
        checkpoint: str | Here | None = HERE,
        head: str | None = None,
        before: int | None = None,
    ) -> Steps[Restored]:
        """What the session would be like at `node`: its context and the state that went with it.

        Starts from the nearest checkpoint above, whose context may have been edited, and goes on by the policy.

        Args:
            node: The node to stand at; None is the place before the first one.
            checkpoint: Start from this one, made at `node` or above; None: from none. Else from the nearest one.
            head: The head that stands there or will; what was made on it comes first.
            before: Pass over checkpoints made at this position or later, and edits as well.

        Raises:
            NotFoundError: There is no such node or checkpoint.
        """
        end = -1
        while True:
            try:
                return (yield from self._restored(node, checkpoint, head, before))
            except NotFoundError as error:
                if checkpoint is not HERE or error.kind != "checkpoint" or end == self.state.end:
                    raise
            end = self.state.end
            yield from self._look_again()  # others pruned what we took for the nearest

    def _restored(
        self, node: str | None, checkpoint: str | Here | None, head: str | None, before: int | None
    ) -> Steps[Restored]:
        index = yield from self.index()
        path = index.graph.path(node)
        if isinstance(checkpoint, Here):
            checkpoint, depth = index.nearest_checkpoint(path, head=head, before=before)
        else:
            depth = index.depth_of(checkpoint, path)
        found = (yield from self.load_checkpoint(checkpoint)) if checkpoint else None
        extended = self._extended(found, path, depth)
        # What a checkpoint shows was edited when it was made; what the policy added behind it was not.
        done = found.context.nodes if found and extended else ()
        since = dict.fromkeys(done, index.checkpoint(checkpoint).at) if checkpoint else {}
        built = extended or self.policy.build(path, index.graph)
        context = yield from self.edited(index, built, since=since, before=before)
        lines = yield from self.context_lines(index, context)
        lines |= yield from self._state_lines(index, found)
        yield from self.fetch_blobs(lines.values(), context)
        return Restored(node, context, lines, found)

    def _extended(self, found: Checkpoint | None, path: list[Skeleton], depth: int) -> Context | None:
        """The context of a checkpoint with the nodes behind it; None if only the path tells it."""
        context = found.context if found else None
        for skeleton in path[depth:]:
            context = self.policy.extend(context, skeleton) if context is not None else None
        return context

    def edited(
        self, index: Index, context: Context, *, since: Mapping[str, int] | None = None, before: int | None = None
    ) -> Steps[Context]:
        """Show what was amended as amended, and leave out what was retracted.

        Args:
            index: The session's.
            context: To be edited.
            since: By node: edits up to that position are in `context` already.
            before: Leave out only what was retracted before that position.
        """
        since = since or {}
        annotations = index.graph.annotations
        shown = set(context.nodes)
        retracted = index.retracted_before(before) if before is not None else annotations.retracted
        amended = {node: at for node, at in annotations.amended.items() if node in shown and at > since.get(node, -1)}
        lines = yield from self.lines_at(list(amended.values()))
        bodies = {node: bytes(decode_record(lines[at]).body) for node, at in amended.items()}
        return replace(without(context, shown & retracted), bodies)

    def context_lines(self, index: Index, context: Context) -> Steps[dict[str, bytes]]:
        shown = dict.fromkeys(context.nodes)
        lines = {node: line for node, line in self.state.lines.items() if node in shown}
        missing = {node: index.graph.node(node).at for node in shown if node not in lines}
        found = yield from self.lines_at(list(missing.values()))
        return lines | {node: found[at] for node, at in missing.items()}

    def _state_lines(self, index: Index, checkpoint: Checkpoint | None) -> Steps[dict[str, bytes]]:
        """Records of the checkpoints that hold state values which the newest state does not hold anyway."""
        if checkpoint is None:
            return {}
        newest = self.state.checkpoint
        held = set(newest.origins.items()) | {("", newest.manager_at)} if newest else set()
        wanted = {*checkpoint.origins.items(), ("", checkpoint.manager_at)} - held
        places = {name: index.any_checkpoint(name).at for _, name in wanted if name is not None}
        lines = yield from self.lines_at(list(places.values()))
        return {name: lines[at] for name, at in places.items()}

    def load_checkpoint(self, checkpoint: str) -> Steps[Checkpoint]:
        """Read one checkpoint of any age: its record and those up to the last full one.

        Raises:
            NotFoundError: There is none, or it was pruned.
        """
        newest = self.state.checkpoint
        if newest is not None and newest.id == checkpoint:
            return newest
        index = yield from self.index()
        index.checkpoint(checkpoint)
        chain = chain_of(checkpoint, index.all_checkpoints)
        lines = yield from self.lines_at([index.any_checkpoint(name).at for name in chain])
        records = {name: decode_record(lines[index.any_checkpoint(name).at]) for name in chain}
        places = {name: index.any_checkpoint(name).at for name in needs(records[chain[0]])}
        found = yield from self.lines_at(list(places.values()))
        records |= {name: decode_record(found[at]) for name, at in places.items()}
        return resolve([records[name] for name in chain], records.__getitem__)

    # large parts

    def read_blob(self, digest: str) -> Steps[bytes | None]:
        """One large part, or None if it is missing or damaged."""
        if digest in self.blobs:
            return self.blobs[digest]
        return (yield from self._read_blobs([digest]))[digest]

    def _read_blobs(self, digests: Sequence[str]) -> Steps[dict[str, bytes | None]]:
        """Large parts by digest. What is not as its name says is asked for once more: it may have come over damaged."""
        found: dict[str, bytes | None] = {}
        for _ in range(2):
            answers = yield tuple(Get(self.keys.blob(self.view.life, digest)) for digest in digests)
            found |= {digest: _blob(answer, digest) for digest, answer in zip(digests, answers, strict=True)}
            came = [digest for digest, answer in zip(digests, answers, strict=True) if isinstance(answer, Found)]
            digests = [digest for digest in came if found[digest] is None]
            if not digests:
                break
        return found

    def fetch_blobs(self, lines: Iterable[bytes], context: Context | None = None) -> Steps[None]:
        """Read the blobs that some records and a context's inline messages refer to, in parallel.

        A missing or damaged one is remembered as missing. Those that neither these nor the context in hand need are
        forgotten.
        """
        wanted = _blobs_of(lines, context)
        self._forget_blobs(wanted)
        digests = sorted(wanted - self.blobs.keys())
        for start in range(0, len(digests), BLOBS_AT_ONCE_MAX):
            self.blobs |= yield from self._read_blobs(digests[start : start + BLOBS_AT_ONCE_MAX])

    def fetch_shown_blobs(self) -> Steps[None]:
        """Read the blobs of the context in hand."""
        yield from self.fetch_blobs(self._shown_lines(), self.state.context)

    def _shown_lines(self) -> list[bytes]:
        """Records of the messages in the context; others are at hand for a move, and shown only after it."""
        state = self.state
        return [state.lines[node] for node in set(state.context.nodes) if node in state.lines]

    def _forget_blobs(self, wanted: set[str]) -> None:
        if self.blobs.keys() - wanted:
            needed = wanted | _blobs_of(self._shown_lines(), self.state.context)
            self.blobs = {digest: data for digest, data in self.blobs.items() if digest in needed}


def _seen(record: Record) -> Seen:
    brief = values.decode(record.brief)
    time = record.time if record.time is not None else time_of(record.id) or 0
    return Seen(record.id, time, record.links or {}, brief if isinstance(brief, dict) else {})


def _blobs_of(lines: Iterable[bytes], context: Context | None) -> set[str]:
    """Digests of the blobs that records and inline messages refer to."""
    bodies = [bytes(decode_record(line).body) for line in lines if b'"$blob"' in line]
    items = context.items if context is not None else ()
    bodies += [item.message for item in items if item.message is not None and b'"$blob"' in item.message]
    return {digest for body in bodies for digest in blobs_in(body)}


def may_have_vanished(before: View, now: Tail) -> bool:
    """Whether records that `before` shows may be gone: a log shows them before they are safe, and is then replaced."""
    return not before.durable and (before.tail.header.nonce != now.header.nonce or now.end < before.end)


def _same_to(before: View, now: Tail) -> int:
    """Up to which position a log that replaced another is known to show what `before` shows."""
    first = min(before.covers, before.end)
    if now.header.base > first:
        return first
    shown, there = (tail.lines[first - tail.header.base :] for tail in (before.tail, now))
    pairs = enumerate(zip(shown, there, strict=False), first)
    other = (at for at, (old, new) in pairs if old != new and decode_record(old).id != decode_record(new).id)
    return next(other, min(before.end, now.end))


def _blob(answer: object, digest: str) -> bytes | None:
    """The bytes of a large part, held to their name; None if it is missing, or is not what its name says.

    One damaged picture must not hide a conversation: a note stands in its place, and `verify` names the object.
    """
    if isinstance(answer, Found):
        return answer.data if hashlib.sha256(answer.data).hexdigest() == digest else None
    if isinstance(answer, NotFoundError):
        return None
    raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")


def decoded_state(state: Mapping[str, bytes]) -> dict[str, object]:
    """State values as the agent handed them in; those that were erased are left out."""
    return {key: values.decode(value) for key, value in state.items() if not is_erased(value)}


def decoded_manager(manager: bytes | None) -> object:
    """The state of a conversation manager as it was handed in; None if there is none, or it was erased."""
    return None if manager is None or is_erased(manager) else values.decode(manager)


def erased_state(state: Mapping[str, bytes], manager: bytes | None) -> dict[str | None, Erased]:
    """What is left of state values that were erased, by key; None stands for the state of the conversation manager."""
    left: dict[str | None, Erased] = {key: erased_of(value) for key, value in state.items() if is_erased(value)}
    return left | ({None: erased_of(manager)} if manager is not None and is_erased(manager) else {})
