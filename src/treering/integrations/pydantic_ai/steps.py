"""The records of the harness about runs, in one session of Treering: protocols without I/O.

Rule 1: a snapshot is a checkpoint: its history is the context, and the rest of it a key of the state. Its metadata name
the run by a digest, so that snapshots of a run are found in the skeletons of the session.
Rule 2: events are notes, and tool calls are effects: neither changes the state.
Rule 3: the id of an event's note is made from its idempotency key. Keys of snapshots are remembered in the way of the
harness: the highest number with which keys of a run began, and the keys with that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from treering.checkpoint.checkpoint import Checkpoint, CheckpointInfo
from treering.digests import sha256
from treering.errors import NotFoundError
from treering.format import values
from treering.format.erasure import is_erased
from treering.format.record import read_brief
from treering.format.values import fields_of
from treering.integrations.keys import escaped
from treering.integrations.pydantic_ai.conversation import MARK, Conversation
from treering.integrations.pydantic_ai.messages import Message
from treering.session.effects import KEY_BYTES_MAX
from treering.session.recording import Change, Recording
from treering.session.verbs import effects
from treering.session.verbs.effects import Effect
from treering.session.verbs.reading import payload_in
from treering.storage.requests import Steps
from treering.transcript.node import Draft

SNAPSHOT: Final = f"{MARK}/snapshot"
"""The key of the facts about the snapshot that was saved last."""
EVENT: Final = f"{MARK}_event"
"""The kind of the notes that are events."""
_RUN: Final = f"{MARK}/run/"
_KEYS: Final = f"{MARK}/keys/"
PAGE: Final = 32  # checkpoints to look at first for the newest of a run; then all

Facts = dict[str, Any]


class Saved(NamedTuple):
    """A snapshot, from the skeletons of the session."""

    checkpoint: str
    complete: bool
    key: str
    """A digest of its idempotency key; empty if it has none."""


class Snapshot(NamedTuple):
    """A snapshot with its history."""

    facts: Facts
    history: list[Any]


class StepSession(Conversation):
    """Reads and records the runs of one session."""

    # runs

    def register(self, run: str, record: Facts) -> Steps[None]:
        """Record the description of a run, which replaces an earlier one of the same run."""
        yield from self._write(partial(self._plan_state, {_RUN + run: record}))

    def runs(self) -> Steps[list[Facts]]:
        """Read the descriptions of all runs, in the order of their ids."""
        if not (yield from self.look()):
            return []
        runs = [raw for key, raw in sorted(self._keys.items()) if key.startswith(_RUN)]
        return [fields_of(values.decode(raw)) for raw in runs if not is_erased(raw)]

    def run(self, run: str) -> Steps[Facts | None]:
        """Read the description of a run; None if it was not registered, or was erased."""
        yield from self.look()
        raw = self._keys.get(_RUN + run)
        return None if raw is None or is_erased(raw) else fields_of(values.decode(raw))

    # events

    def add_event(self, run: str, event: Facts, key: str | None) -> Steps[None]:
        """Record an event, unless an event with this key is recorded."""
        name = None if key is None else f"event:{_digest(run)}:{_digest(key)}"
        draft = Draft(type="note", kind=EVENT, id=name, brief={"run": _digest(run)}, payload=event)
        yield from self._write(partial(self._plan_event, draft))

    def events(self, run: str) -> Steps[list[Facts]]:
        """Read the events of a run, in the order in which they were recorded."""
        if not (yield from self.look()):
            return []
        replica, wanted = self.writer.replica, _digest(run)
        rows = [row for row in (yield from replica.ask(_events)) if read_brief(row).get("run") == wanted]
        lines = yield from replica.lines_at(row.at for row in rows)
        yield from self.writer.blobs.fetch(lines.values())
        found = [payload_in(lines[row.at], self.writer) for row in rows]
        return [event for event in found if isinstance(event, dict)]  # else it was erased

    # snapshots

    def save(
        self, run: str, facts: Facts, history: Sequence[Message], *, key: str | None, keep: int | None
    ) -> Steps[None]:
        """Record a snapshot, and the removal of those that it replaces, in one append; durable when this returns."""
        yield from self._write(partial(self._plan_save, run, facts, history, key, keep))

    def newest(self, run: str, *, interrupted: bool) -> Steps[Snapshot | None]:
        """Read the snapshot of a run that was saved last; without `interrupted`, the last complete one."""
        if not (yield from self.look()):
            return None
        yield from self._stand()
        now = self.writer.replica.state.checkpoint
        if now is not None and (saved := _saved(run, now.id, now.metadata)) and (saved.complete or interrupted):
            return (yield from self._read([now]))[0]
        for limit in (PAGE, None):
            wanted = [each for each in (yield from self._of(run, limit)) if each.complete or interrupted]
            if wanted:
                return (yield from self._load_if_there(wanted[-1:]))[0]
        return None

    def every(self, run: str, *, interrupted: bool) -> Steps[list[Snapshot]]:
        """Read the snapshots of a run, in the order of saving; without `interrupted`, only the complete ones."""
        if not (yield from self.look()):
            return []
        yield from self._stand()
        wanted = [each for each in (yield from self._of(run)) if each.complete or interrupted]
        return [each for each in (yield from self._load_if_there(wanted)) if each is not None]

    def _of(self, run: str, limit: int | None = None) -> Steps[list[Saved]]:
        """List the snapshots of a run among the newest `limit` checkpoints."""
        infos: list[CheckpointInfo] = yield from self.writer.replica.ask(lambda look: look.checkpoints(limit=limit))
        found = (_saved(run, info.id, info.metadata) for info in infos)
        return [each for each in found if each is not None]

    def _load_if_there(self, wanted: Sequence[Saved]) -> Steps[list[Snapshot | None]]:
        """Read the listed snapshots; None for each that another writer removed after it was listed."""
        try:
            checkpoints = yield from self.writer.content.load_checkpoints([each.checkpoint for each in wanted])
        except NotFoundError:
            infos = yield from self.writer.replica.ask(lambda look: look.checkpoints())
            there = {info.id for info in infos}
            left = [each for each in wanted if each.checkpoint in there]
            read = yield from self._load_if_there(left)
            found = dict(zip(left, read, strict=True))
            return [found.get(each) for each in wanted]
        return [*(yield from self._read(checkpoints))]

    def _read(self, checkpoints: Sequence[Checkpoint]) -> Steps[list[Snapshot | None]]:
        """The snapshots in some checkpoints; None for each that was erased."""
        histories = yield from self.histories(checkpoints)
        kept = [each.state[SNAPSHOT] for each in checkpoints]
        return [
            None if is_erased(raw) else Snapshot(fields_of(values.decode(raw)), history)
            for raw, history in zip(kept, histories, strict=True)
        ]

    # effects

    def record_effect(self, run: str, call: str, record: Facts, *, outcome: str | None) -> Steps[None]:
        """Record the status of a tool call; `outcome` is None if it only started. The last status counts."""
        yield from self.look()  # another process may have recorded the one before
        key, found = yield from self._last_effect(run, call)
        if outcome is None and found is not None and not found.is_resolved:
            yield from effects.describe_effect(self.writer, key, record)
            return
        if found is None or found.is_resolved:
            if found is not None and found.result == record:
                return
            yield from effects.effect(self.writer, call, key=key, about=record)
        if outcome == "failed":
            yield from effects.end_effect(self.writer, key, error=record)
        elif outcome is not None:
            yield from effects.end_effect(self.writer, key, record)

    def effect(self, run: str, call: str) -> Steps[Facts | None]:
        """Read the last recorded status of a tool call; None if there is none."""
        if not (yield from self.look()):
            return None
        _, found = yield from self._last_effect(run, call)
        return None if found is None else _told(found)

    def unresolved(self) -> Steps[list[Facts]]:
        """Read the last status of each call, of all runs, that started and did not end."""
        if not (yield from self.look()):
            return []
        return [_told(each) for each in (yield from effects.unresolved_effects(self.writer))]

    def _last_effect(self, run: str, call: str) -> Steps[tuple[str, Effect | None]]:
        """Find the last effect of a call, and its key; if the effect has ended, the key of the next one."""
        number, last = 1, None
        while True:
            key = _effect_key(run, call, number)
            found = yield from effects.find_effect(self.writer, key)
            if found is None:
                return key, last
            if not found.is_resolved:
                return key, found
            number, last = number + 1, found

    # record

    def _write(self, plan: partial[Steps[Recording]]) -> Steps[None]:
        yield from self._be_ready()
        yield from self.writer.appender.write(plan)
        yield from self._tidy()

    def _plan_state(self, state: Mapping[str, object]) -> Steps[Recording]:
        yield from self._stand()
        recording = Recording(self.writer)
        recording.keep(Change(state=state))
        return recording

    def _plan_event(self, draft: Draft) -> Steps[Recording]:
        yield from self._stand()
        recording, replica = Recording(self.writer), self.writer.replica
        there = {}
        if draft.id is not None and replica.exists:
            there = yield from replica.ask(lambda look: look.records([draft.id or ""]))
        if not there:
            recording.draft(draft, here=True)
        return recording

    def _plan_save(
        self, run: str, facts: Facts, history: Sequence[Message], key: str | None, keep: int | None
    ) -> Steps[Recording]:
        yield from self._stand()
        recording, state = Recording(self.writer), {SNAPSHOT: facts}
        saved = (
            (yield from self._of(run)) if self.writer.replica.exists and (key is not None or keep is not None) else []
        )
        if key is not None:
            raw = self._keys.get(_KEYS + run, b"null")
            remembered = {} if is_erased(raw) else fields_of(values.decode(raw))
            number = _number_of(key)
            if _was_saved(key, number, remembered, saved):
                return recording
            if number is not None:
                same = number == remembered.get("number")
                state[_KEYS + run] = {"number": number, "keys": [*(remembered["keys"] if same else ()), key]}
        complete = facts.get("state") == "complete"
        metadata = {MARK: {"run": _digest(run), "complete": complete, "key": "" if key is None else _digest(key)}}
        yield from self.keep(recording, history, Change(state=state, metadata=metadata))
        if keep is not None:
            for each in _outside(saved, complete=complete, keep=keep):
                recording.give_up(each.checkpoint)
        return recording


def _events(look: Any) -> Steps[Any]:
    return (yield from look.notes(EVENT))


def _saved(run: str, checkpoint: str, metadata: Mapping[str, object]) -> Saved | None:
    facts = fields_of(metadata.get(MARK))
    if facts.get("run") != _digest(run):
        return None
    return Saved(checkpoint, facts.get("complete") is True, str(facts.get("key")))


def _number_of(key: str) -> int | None:
    """Return the number with which a key of the harness begins; None if there is none."""
    first, colon, _ = key.partition(":")
    return int(first) if colon and first.isascii() and first.isdigit() else None


def _was_saved(key: str, number: int | None, remembered: Mapping[str, Any], saved: Sequence[Saved]) -> bool:
    highest = remembered.get("number")
    if number is not None and isinstance(highest, int):
        return number < highest or (number == highest and key in remembered["keys"])
    return any(each.key == _digest(key) for each in saved)


def _outside(saved: Sequence[Saved], *, complete: bool, keep: int) -> Sequence[Saved]:
    """Return the snapshots to remove when one more is saved: all but the newest ones and the newest complete one."""
    old, window = (saved[: 1 - keep], saved[1 - keep :]) if keep > 1 else (saved, ())
    if complete or any(each.complete for each in window):
        return old
    last = next((each for each in reversed(old) if each.complete), None)
    return [each for each in old if each is not last]


def _effect_key(run: str, call: str, number: int) -> str:
    key = f"{escaped(run)}/{escaped(call)}"
    if number > 1:
        key += f"/{number}"
    return (
        key
        if len(key.encode("utf-8", "surrogatepass")) <= KEY_BYTES_MAX
        else f"{_digest(run)}/{_digest(call)}/{number}"
    )


def _told(effect: Effect) -> Facts:
    return fields_of(effect.result if effect.is_resolved else effect.about)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass"))[:16]
