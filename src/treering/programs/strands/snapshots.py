"""Sessions of Strands Agents as snapshots: each has all messages of the context, and the state of the agent.

`SnapshotSessionManager` writes them, and the `SessionManager` of the TypeScript SDK. Every kept snapshot becomes a
checkpoint with its own id, and every message one node, however many snapshots have it. The latest snapshot, a file that
is replaced each time, becomes the last checkpoint.

Rule 1: a message is identified by its id. A message without an id is identified with an equal message of the snapshot
before, at the matching place.
Rule 2: the parent of new messages is the deepest node in the snapshot. So a branch begins where the user went back to
an older snapshot.
Rule 3: a changed or moved message is stored in the checkpoint's context. Its node keeps the first version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from treering.format import values
from treering.format.values import Fields, fields_of
from treering.programs.common.entry import Entry
from treering.programs.common.folder import Folder
from treering.programs.common.reader import text_of
from treering.programs.common.source import Imported, Problem, ProblemLog, damage_note
from treering.programs.common.times import read_time
from treering.programs.strands.keys import OURS
from treering.programs.strands.shapes import agent_state, read_snapshot
from treering.programs.strands.unit import Record, Unit, import_note, read_object
from treering.session.content import ContextItem
from treering.session.foreign import checkpoint_draft
from treering.transcript.node import Draft

LATEST: Final = "snapshots/snapshot_latest.json"
_KEPT: Final = re.compile(r"snapshots/immutable_history/snapshot_([\w-]+)\.json")


class Woven(NamedTuple):
    """The nodes and context that a snapshot adds to the transcript."""

    drafts: list[Draft]
    context: list[ContextItem | str]
    node: str | None
    """The agent's node."""


class Weave:
    """Merges the messages of many snapshots, oldest first, into one transcript. Only ids and digests are in memory."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._digests: dict[str, bytes] = {}
        self._depths: dict[str, int] = {}
        self._before: list[tuple[str, bytes]] = []
        """Ids and digests of the messages of the previous snapshot."""
        self._made: dict[bytes, int] = {}
        self.node: str | None = None

    def add(self, messages: Sequence[Fields], time_ms: int) -> Woven:
        """Add the messages of the next snapshot."""
        digests = [_digest(message) for message in messages]
        names = self._names(messages, digests)
        known = [name in self._depths for name in names]
        last_known = max((at for at, is_known in enumerate(known) if is_known), default=-1)
        shown = [name for name in names if name in self._depths]
        above = max(shown, key=self._depths.__getitem__) if shown else self.node
        drafts: list[Draft] = []
        context: list[ContextItem | str] = []
        for at, (name, message) in enumerate(zip(names, messages, strict=True)):
            if name not in self._depths:
                brief: dict[str, object] | None = {"injected": True} if at < last_known else None
                role = text_of(message.get("role"))
                drafts.append(Draft(role=role, payload=message, id=name, parent=above, time_ms=time_ms, brief=brief))
                self._depths[name] = self._depths.get(above or "", 0) + 1
                self._digests[name] = digests[at]
                above = name
            context.append(name if self._digests[name] == digests[at] else ContextItem(node=name, message=message))
        self._before, self.node = list(zip(names, digests, strict=True)), above
        return Woven(drafts, context, above)

    def _names(self, messages: Sequence[Fields], digests: Sequence[bytes]) -> list[str]:
        """Return the ids of messages: their own, those of equal messages in the previous snapshot, or new ones."""
        own = [text_of(message.get("tracking_id")) for message in messages]
        if "" in own:
            before = [digest for _, digest in self._before]
            for there, here, size in SequenceMatcher(None, before, digests, autojunk=False).get_matching_blocks():
                for at in range(size):
                    own[here + at] = own[here + at] or self._before[there + at][0]
        return [name or self._new_name(digest) for name, digest in zip(own, digests, strict=True)]

    def _new_name(self, digest: bytes) -> str:
        """Return an id made of the digest of a message, and the number of messages so far with the same digest."""
        self._made[digest] = self._made.get(digest, 0) + 1
        return self._unit.made_id("message", digest.hex(), self._made[digest])


def _time_of(raw: bytes) -> str:
    """Return the time that a snapshot states; empty if it states none."""
    document = read_object(raw, LATEST, ProblemLog()) if raw else None
    return text_of(read_snapshot(document).get("created_at")) if document is not None else ""


def _digest(message: Fields) -> bytes:
    said = {name: part for name, part in message.items() if name != "tracking_id"}
    return blake2b(values.encode(said), digest_size=16).digest()


class SnapshotSource:
    """An agent as snapshots. `treering.programs.common.source.ClosingSource` documents its members."""

    def __init__(self, folder: Folder, unit: Unit) -> None:
        self._folder = folder
        self._unit = unit
        files = folder.files()
        self._changed_ms = max((file.modified_ns for file in files), default=0) // 1_000_000
        found = ((_KEPT.fullmatch(file.name), file.name) for file in files)
        self._kept = sorted((match[1], name) for match, name in found if match)
        self._raw = next(folder.read([LATEST]), b"") if any(file.name == LATEST for file in files) else b""
        first = next(folder.read([name for _, name in self._kept[:1]]), self._raw)
        self._created, self._updated = _time_of(first), _time_of(self._raw)
        self.leaf: str | None = None
        self._begin()

    def _begin(self) -> None:
        self._log, self.leaf = ProblemLog(), None
        self._weave = Weave(self._unit)
        self._prompt: object = None
        self._ending: list[Draft] = []

    @property
    def header(self) -> Imported:
        """The facts of the first snapshot about the session."""
        return self._unit.header(self._created, {"updated_at": self._updated} if self._updated else {})

    @property
    def problems(self) -> list[Problem]:
        """The problems found so far."""
        return self._log.problems

    def records(self) -> Iterator[Record]:
        """Yield the kept snapshots with their drafts, the oldest first."""
        self._begin()
        yield None, [import_note(self.header)]
        before: str | None = None
        raws = self._folder.read([name for _, name in self._kept])
        for line, ((name, path), raw) in enumerate(zip(self._kept, raws, strict=True), 1):
            snapshot = read_object(raw, path, self._log)
            if snapshot is None:
                yield None, [damage_note(self._unit.made_id("damage", name), "json", line, 0, raw)]
                continue
            yield (
                Entry(id=name, parent=before, type="snapshot", record=snapshot, raw=raw, line=line, offset=0),
                self._read(snapshot, name),
            )
            before = name
        self._read_latest()
        self.leaf = self._weave.node

    def _read_latest(self) -> None:
        latest = read_object(self._raw, LATEST, self._log) if self._raw else None
        if latest is not None:
            self._ending = self._read(latest, self._unit.made_id("latest", self._raw.hex()))
        elif not self._raw:
            self._log.report(0, 0, "latest", f"the latest snapshot is missing. name={LATEST!r}")

    def drafts(self) -> Iterator[Draft]:
        """Yield the drafts of the folder."""
        for _, drafts in self.records():
            yield from drafts
        yield from self.closing()

    def closing(self) -> list[Draft]:
        """Return the new nodes of the latest snapshot, and its checkpoint; empty if there is no latest snapshot."""
        return self._ending

    def _read(self, document: Fields, name: str) -> list[Draft]:
        """Return the drafts of a snapshot: nodes of new messages, the system prompt if it changed, the checkpoint."""
        snapshot = read_snapshot(document)
        data, time_ms = fields_of(snapshot.get("data")), read_time(snapshot.get("created_at")) or self._changed_ms or 1
        woven = self._weave.add(self._messages(data, name), time_ms)
        state = agent_state(data)
        if snapshot.get("app_data"):
            state[f"{OURS}app_data"] = snapshot["app_data"]
        checkpoint = checkpoint_draft(
            woven.node,
            id=name,
            context=woven.context,
            state=state,
            manager=data.get("conversation_manager_state") or None,
            time_ms=time_ms,
        )
        return [*woven.drafts, *self._prompted(data.get("system_prompt"), woven.node, time_ms), checkpoint]

    def _messages(self, data: Fields, name: str) -> list[Fields]:
        messages = data.get("messages")
        found = [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
        if isinstance(messages, list) and len(found) < len(messages):
            self._log.report(0, 0, "no_message", f"snapshot has messages that are none, left out. snapshot={name}")
        return found

    def _prompted(self, prompt: Any, node: str | None, time_ms: int) -> list[Draft]:
        """Return a note with a changed system prompt, for information only: the program's code sets the prompt."""
        if not prompt or prompt == self._prompt:
            return []
        self._prompt = prompt
        name = self._unit.made_id("system", values.encode(prompt).hex(), node)
        payload = {"prompt": prompt, "tools": []}
        return [Draft(type="note", kind="system", id=name, parent=None, target=node, payload=payload, time_ms=time_ms)]
