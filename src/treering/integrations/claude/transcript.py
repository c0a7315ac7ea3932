"""One transcript, open for appending: a batch of entries becomes one durable append.

Rule 1: a `uuid` is recorded once, however many processes append it. Each attempt of an append looks for it in all
records so far, also in records that another writer added in between.
Rule 2: before the next append, the outcome of an unanswered append is determined. If the next append has the same
entries it is a retry, and recorded entries are not recorded again; this matters for entries without a `uuid`.
Rule 3: the head points to the last message of the main conversation. If a new message has another parent, the user went
back: the head moves there in the same append, and the old messages stay as a branch.
Rule 4: an append is one request of limited size. A large batch takes several appends, and so does a batch in which the
user goes back to a message of the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec
from claude_agent_sdk import SessionKey

from treering.digests import blake2b
from treering.errors import TreeringError, UsageError
from treering.format.record import Record, skeleton_of_record
from treering.ids import now_ms, time_of
from treering.integrations.claude.entries import as_text, entry_of, is_entry
from treering.integrations.claude.loading import walk
from treering.integrations.claude.recorded import Entry, Recorded
from treering.integrations.claude.summary import Summary, caught_up, changed_card, summary_on
from treering.integrations.shared import is_recorded
from treering.kinds import Kind
from treering.programs.claude.entries import Spot, read_entry
from treering.session.content import Restored
from treering.session.context_changes import rebuilt
from treering.session.reader import Reader
from treering.session.recording import Change, Recording
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft, Here

BYTES_PER_APPEND = 2 * 1024 * 1024  # of record lines; the SDK flushes at 1 MiB, but forks a session in one call


class _Tried(NamedTuple):
    """The last batch, and how much of it is recorded."""

    entries: tuple[Entry, ...]
    done: int
    """The number of recorded entries."""
    planned: int
    """The number of recorded entries if the last append succeeded."""
    record: str = ""
    """The first record of that append."""


class Transcript:
    """Appends the entries of one key of the SDK to its session."""

    def __init__(self, writer: Writer, listed: SessionKey | None) -> None:
        """Make a transcript. The caller must open the writer before the first append.

        Args:
            writer: The session's writer, which allows other writers.
            listed: The key under which lists show a summary; None for the transcript of a subagent.
        """
        self.writer = writer
        self._listed = listed
        self._recorded: Recorded | None = None
        self._tried: _Tried | None = None

    def append(self, entries: Sequence[Entry]) -> Steps[None]:
        """Append entries, which are durable when this returns. Entries that are recorded already are skipped.

        Raises:
            TreeringError: Some entries may not be recorded. Call again with the same entries.
        """
        batch = tuple(entries)
        yield from self._settle()
        done = self._tried.done if self._tried is not None and self._tried.entries == batch else 0
        while done < len(batch):
            planned = yield from self.writer.appender.write(partial(self._plan, batch, done))
            self._take(planned)
            done, self._tried = planned.done, None
        if self.writer.upkeep.should_optimize(quiet=True):
            yield from self._tidy()

    def _settle(self) -> Steps[None]:
        """Determine how much of the last batch is recorded."""
        yield from self.writer.appender.settle()
        if (tried := self._tried) is not None:
            done = tried.planned if tried.record in self.writer.appender.found else tried.done
            self._tried = _Tried(tried.entries, done, done)

    def _tidy(self) -> Steps[None]:
        """Merge segments: the SDK never closes a transcript, and a load reads every segment."""
        with suppress(TreeringError):
            yield from self.writer.upkeep.optimize()

    def link(self, child: str) -> Steps[None]:
        """Record at the current node, once, that a subagent began; do nothing if there is no conversation yet."""
        if not self.writer.replica.exists:
            return
        yield from self._settle()
        name = f"link-{blake2b(child.encode('utf-8', 'surrogatepass'), 16)}"

        def plan() -> Steps[Recording]:
            known = yield from is_recorded(self.writer, name)
            self.writer.position.follow_session()
            recording = Recording(self.writer)
            if not known:
                brief: dict[str, object] = {"child": child, "task": ""}
                recording.draft(Draft(type="note", kind="link", id=name, target=recording.node, brief=brief))
            return recording

        yield from self.writer.appender.write(plan)

    def close(self) -> Steps[None]:
        """Update the card, and merge segments if there are many."""
        writer = self.writer
        yield from self._settle()
        if writer.replica.exists and writer.replica.view.end > writer.replica.view.covers:
            writer.position.follow_session()
            yield from writer.position.ensure_context()
            yield from writer.upkeep.cover(seal=False)
        yield from writer.close()

    def _plan(self, batch: tuple[Entry, ...], first: int) -> Steps[_Append]:
        writer = self.writer
        writer.position.follow_session()
        if not writer.position.is_known:
            yield from writer.position.ensure_context()
        recorded = yield from self._up_to_date()
        rest = batch[first:]
        repeats = yield from recorded.repeats(rest)
        planned = _Append(writer, recorded)
        planned.done = first
        if self._listed is not None:
            planned.summary = yield from self._summary_so_far(self._listed, planned)
        self._recorded = None  # until this append is known to be recorded, the course is ahead of the journal
        for entry, repeated in zip(rest, repeats, strict=True):
            if not repeated and not (yield from planned.add(entry)):
                break
            planned.done += 1
        yield from planned.finish()
        self._tried = _Tried(batch, first, planned.done, planned.records[0].id if planned.records else "")
        return planned

    def _summary_so_far(self, key: SessionKey, planned: _Append) -> Steps[Summary]:
        """Return the summary on the card; if entries were recorded without one, as by an import, make it from them."""
        data = summary_on(self.writer.replica.state.card.extra)
        if data is None and planned.recorded.count:
            rows = yield from self._entries()
            data, notes = caught_up(key, rows)
            for note in notes:
                planned.draft(note)
        return Summary(key, data)

    def _entries(self) -> Steps[list[tuple[str, Entry]]]:
        reader = Reader(self.writer.keys)
        yield from reader.replica.load()
        rows: list[tuple[str, Entry]] = []

        def take(record: Record) -> None:
            if entry := entry_of(record, reader.blobs.at_hand):
                rows.append((record.id, entry))

        yield from walk(reader, take)
        return rows

    def _up_to_date(self) -> Steps[Recorded]:
        index = yield from self.writer.replica.index()
        recorded = self._recorded
        if recorded is None or recorded.index is not index:  # records that were read before may be erased
            recorded = Recorded(index, self.writer)
        if recorded.end < index.end:
            recorded.catch_up()
        return recorded

    def _take(self, planned: _Append) -> None:
        """Add the records of this append, unless another writer appended too: then they are read again."""
        writer, recorded = self.writer, planned.recorded
        end = recorded.end + len(planned.records)
        if writer.replica.state.end != end:
            return
        for at, record in enumerate(planned.records, recorded.end):
            row = skeleton_of_record(msgspec.structs.replace(record, at=at), 0)
            if is_entry(row):
                recorded.note_down(row)
        recorded.end = end
        self._recorded = recorded


class _Append(Recording):
    """The records of one append."""

    summary: Summary | None = None
    """The summary; None if lists do not show the session."""

    def __init__(self, writer: Writer, recorded: Recorded) -> None:
        super().__init__(writer)
        self.recorded = recorded
        self.done = 0
        """The number of entries of the batch that are recorded after this append."""
        self._uuids: set[str] = set()
        self._bytes = 0
        self._beside = False

    def add(self, entry: Entry) -> Steps[bool]:
        """Add one entry; False if it must wait for the next append."""
        uuid = entry.get("uuid")
        if isinstance(uuid, str) and uuid in self._uuids:
            return True
        recorded = self.recorded
        if self._bytes >= BYTES_PER_APPEND:
            return False
        spot, recorded.ahead = recorded.ahead or recorded.course.add(entry, recorded.count), None
        self._beside = recorded.stands_aside(entry)
        if not spot.note and not self._beside and self._goes_back(spot.parent):
            if self.records:
                recorded.ahead = spot
                return False
            yield from self._go_back(spot.parent)
        self._record(dict(entry), spot)
        if isinstance(uuid, str):
            self._uuids.add(uuid)
        return True

    def _record(self, entry: dict[str, Any], spot: Spot) -> None:
        draft = read_entry(entry, spot, now_ms())
        if entry.get("uuid") == spot.id and time_of(spot.id) is not None:
            draft = msgspec.structs.replace(draft, brief=(draft.brief or {}) | {"uuid": spot.id})
        try:
            self.draft(draft)
        except UsageError as error:
            if error.kind != Kind.VALUE:
                raise
            self.draft(as_text(draft, entry))  # otherwise the SDK would drop the whole batch
        self._bytes += len(self.records[-1].body)
        if self.summary is not None and (changed := self.summary.add(entry)):
            self.draft(changed_card(changed, spot.id))

    def finish(self) -> Steps[None]:
        """Record the context if only the whole path determines it, and a first checkpoint, which names the policy."""
        if self.compacts and self.context is None:
            self.context = yield from rebuilt(self.writer, self, as_it_is=True)
            self.keep(Change(navigated=True))
        elif self.moved and self.checkpoint is None:
            self.keep(Change())

    def _goes_back(self, parent: str | None) -> bool:
        return parent != self.node and (self.node is not None or len(self.recorded.index.graph) > 0)

    def _go_back(self, parent: str | None) -> Steps[None]:
        """Move the head to the parent of the next message, so that two reads resume there even if no record follows."""
        writer, node = self.writer, parent if parent in self.recorded.index.graph else None
        restored = Restored(None, writer.replica.policy.build([]), {}, None)
        if node is not None:
            restored = yield from writer.content.restore(node, head=self.head)
        yield from writer.upkeep.pin(restored)
        self.move("checkout", self.head, node, {"by": "claude"})
        self.context, self.checkpoint = restored.context, restored.checkpoint
        self.keep(Change(navigated=True))

    def _place_node(self, node: str, parent: str | Here | None) -> tuple[str | None, str]:
        """Keep the parent that the entry names, even if no such node exists."""
        above = None if isinstance(parent, Here) else parent
        if self._beside:
            return above, ""
        self._nodes += 1
        self.node, self.moved = node, True
        return above, self.head
