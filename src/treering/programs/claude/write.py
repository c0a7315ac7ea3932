"""Sessions as files of Claude Code.

Imported records are written with their own bytes, in their order, so an unchanged session gives the file from which it
was imported. Records made in Treering follow as entries with the ids of their nodes: Claude Code accepts any text as a
`uuid`. It continues at the end of the chain that its last entry of the type `last-prompt` names. So such an entry is
added if Claude Code would continue at another node; if the session's node has children, a note of the program is added
as a leaf below it.

The path that Claude Code will find is not guessed: the importer reads the written entries again. For example, Claude
Code sees the results of calls on every branch that continues an answer, which other programs do not.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final
from uuid import NAMESPACE_URL

from treering.api.view import View
from treering.checkpoint.policy import Seen, render
from treering.format.values import Fields, fields_of
from treering.programs.claude.course import Course
from treering.programs.claude.entries import LINKED, is_unlinked, texts_of, write_entry
from treering.programs.claude.policy import BRANCH_SUMMARY, SUMMARY, in_claude, lost_in
from treering.programs.claude.read import NAME, Ids, encode
from treering.programs.claude.session_id import uuid_of
from treering.programs.claude.unsent import unsent
from treering.programs.common.blocks import LOST
from treering.programs.common.entry import BEFORE, RAW, as_bytes, framed
from treering.programs.common.in_force import InForce
from treering.programs.common.line_buffer import LineBuffer, broken
from treering.programs.common.lines import decode
from treering.programs.common.named_uuid import named_uuid
from treering.programs.common.reader import text_of
from treering.programs.common.source_record import record_bytes
from treering.programs.common.stored import NO_JSON, VALUES, is_circular, let_index_go, stored_drafts, title_of_creation
from treering.programs.common.target import Composed, LeftOut
from treering.programs.common.times import write_time
from treering.programs.formats import find_format
from treering.session.reader import Readable
from treering.storage.requests import Steps
from treering.transcript.node import Draft

_NOT_WRITTEN: Final = frozenset({"card", "created", "exported", "import", "link", "origin", "request_mark"})
"""Notes about the store or the import, which are not part of the conversation."""
_SHOWN: Final = frozenset({"message", "custom_message", "branch_summary"})
_REASONS: Final = LOST | {
    VALUES: NO_JSON,
    "agent": "what is known of a subagent is kept in a file beside its own, which is not written",
    "branch": "Claude Code finds another way to where the session stands",
    "damage": "bytes in which there is no record",
    "leaf": "Claude Code does not go on before the first message",
    "link": "links to other sessions of the store",
    "no_parent": "entries do not say what they follow, so Claude Code sees the last of them alone; "
    "`treering doctor FILE --write COPY` gives them parents",
    "retract": "the format cannot hide a message",
    "thinking": "the API takes no thinking that it has not signed itself",
}
_NO_WORD: Final = "the format has no such record"
_NOTHING: Final = "there is nothing in it that the program would send"
_VERSION: Final = "2.1.330"
"""The version of Claude Code whose format new entries have; written if the session has no entry with a version."""
_PROMPT_CHARACTERS_MAX: Final = 200
_ENVELOPE: Final = ("userType", "entrypoint", "cwd", "version", "gitBranch")
"""Fields whose values a new entry copies from the entry before it."""

id_of: Final = uuid_of
"""The id of a session in its file."""


def compose(view: View) -> Composed:
    """Make a session file of Claude Code."""
    return _Composer(view).compose()


class _Entries:
    """The entries written so far, with the tree that Claude Code builds from them."""

    def __init__(self) -> None:
        self.lines = LineBuffer()
        self.names: list[str | None] = []
        """The ids of the entries; those of notes are empty."""
        self.cut = 0
        """The number of entries that name no parent."""
        self._parents: list[str | None] = []
        self._entry_at = partial(_entry_at, self.lines)
        self._course = Course(Ids(), self._entry_at)

    def __iter__(self) -> Iterator[Fields]:
        return map(self._entry_at, range(len(self.lines)))

    def add(self, line: bytes, entry: Fields | None = None) -> None:
        """Write an entry.

        Args:
            line: Its bytes in the file.
            entry: The decoded entry, if the caller has it.
        """
        self.lines.append(line)
        place = len(self.names)
        entry = self._entry_at(place) if entry is None else entry
        spot = self._course.add(entry, place)
        self.names.append("" if spot.note else spot.id)
        self._parents.append(spot.parent)
        self.cut += spot.parent is not None and not spot.note and is_unlinked(entry)

    @property
    def leaf(self) -> str | None:
        """The entry at which Claude Code will continue."""
        return self._course.leaf()

    def way(self) -> list[str]:
        """Return the path to the leaf as Claude Code finds it."""
        parents = {name: parent for name, parent in zip(self.names, self._parents, strict=True) if name}
        way: list[str] = []
        node = self.leaf
        while node is not None and node in parents and len(way) <= len(parents):
            way.append(node)
            node = parents[node]
        return way[::-1]


def _entry_at(lines: LineBuffer, place: int) -> Fields:
    return fields_of(decode(lines[place].strip())[0])


class _Composer:
    """Makes one file."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._claude = True
        """Whether records may be entries of Claude Code: the session was not imported from another program."""
        self._session = uuid_of(view.info.id)
        self._titled = False
        self._forked_from = ""
        self._before = b""
        self._entries = _Entries()
        self._changed = False
        self._parents: dict[str, str | None] = {}
        """The parent of each node."""
        self._links: dict[str, str | None] = {}
        """By node: the `uuid` that its children name as their parent, if that is not the id of the node."""
        self._unwritten: set[str] = set()
        """Nodes for which no entry was written."""
        self._amended: dict[str | None, object] = {}
        self._later: list[Fields] = []
        self._left: Counter[tuple[str, bool]] = Counter()
        self._unseen: dict[str, tuple[str, str]] = {}
        self._pieces: set[str] = set()
        self._summaries: set[str] = set()
        """Compactions, which a later compaction never keeps."""
        self._envelope: Fields = {"userType": "external", "cwd": view.info.cwd, "version": _VERSION, "gitBranch": ""}
        self._hidden: set[str] = view.perform(_hidden)
        self._circular = is_circular(view)
        self._settings = InForce(view)

    def compose(self) -> Composed:
        self._view.perform(let_index_go)
        edits = (stored.draft for stored in stored_drafts(self._view, NAME))
        self._amended = {draft.target: draft.payload for draft in edits if draft.kind == "amend"}
        for stored in stored_drafts(self._view, NAME):
            self._take(stored.draft)
            self._left.update({(VALUES, stored.draft.type != "note"): stored.lacked} if stored.lacked else {})
        if not self._titled and (title := title_of_creation(self._view.info)) is not None:
            self._take_note(title)
        for entry in self._later:
            self._write(entry)
        if not self._entries.names:  # a file without an entry is no session file
            self._write({"type": "mode", "mode": "normal", "sessionId": self._session})
        leaf = self._entries.leaf
        if self._changed or leaf != self._view.node:
            self._settle(leaf)
        self._left.update({("no_parent", True): self._entries.cut} if self._entries.cut else {})
        left = [LeftOut(kind, count, _REASONS.get(kind, _NO_WORD), seen) for (kind, seen), count in self._left.items()]
        left += unsent(item.message for item in self._view.recorded_context)
        return Composed(
            data=broken(chain([self._before] if self._before else [], self._entries.lines), ended=False),
            entry_ids=self._entries.names,
            labels=None,
            left_out=left,
            pieces=frozenset(self._pieces),
            unseen=self._unseen,
            ambiguous=self._circular,
        )

    # imported records

    def _take(self, draft: Draft) -> None:
        self._titled = self._titled or (draft.type == "note" and draft.kind == "title")
        if draft.type == "note" and draft.kind == "import":
            self._open(draft)
        elif draft.type == "edit":
            self._take_edit(draft)
        elif draft.type == "note" and draft.kind in (*_NOT_WRITTEN, "damage"):
            self._left.update([(draft.kind, False)] if draft.kind in ("link", "damage") else [])
        elif self._claude and _is_entry(draft):
            self._take_entry(draft)
        elif draft.type == "note":
            self._take_note(draft)
        else:
            self._take_own(draft)
        if draft.type == "node":
            parent = _parent_of(draft)
            newest = next(reversed(self._parents), None)
            self._parents[str(draft.id)] = newest if newest == parent else parent  # share the text

    def _open(self, note: Draft) -> None:
        facts = fields_of(note.payload)
        self._claude = facts.get("format") == NAME
        if not self._claude:
            return
        if self._view.info.parent_node is not None:
            self._forked_from, self._changed = str(facts.get("session_id", "")), True
        else:
            self._session = str(facts.get("session_id", self._session)).partition("/")[0]
        self._before += as_bytes((note.source or {}).get(BEFORE))
        self._left.update([("agent", False)] if "agent" in fields_of(facts.get("extra")) else [])

    def _take_entry(self, draft: Draft) -> None:
        """Write an entry of Claude Code unchanged."""
        entry = write_entry(draft)
        if entry.get("type") == "custom-title":
            self._settle_titles(text_of(entry.get("customTitle")))
        amended = draft.type == "node" and draft.id in self._amended
        if amended:
            entry = {**entry, "message": in_claude(fields_of(self._amended[draft.id]))}
            self._changed = True
        if self._forked_from:
            forked = {"sessionId": self._forked_from, "messageUuid": entry["uuid"]} if "uuid" in entry else None
            entry = {**entry, "sessionId": self._session} | ({"forkedFrom": forked} if forked else {})
        as_it_was = not amended and not self._forked_from
        line = record_bytes(draft, None, find_format(NAME), encode) if as_it_was else encode(entry)
        self._entries.add(framed(draft, line), entry if as_it_was else None)
        if text_of(entry.get("type")) in LINKED:
            self._envelope |= {name: entry[name] for name in _ENVELOPE if name in entry}
        if draft.type == "node" and entry.get("uuid") != draft.id:
            self._links[str(draft.id)] = str(entry.get("uuid") or "") or None

    def _write(self, entry: Fields) -> None:
        self._entries.add(encode(entry) + b"\n")

    # records made in Treering

    def _take_edit(self, edit: Draft) -> None:
        if edit.kind != "amend" and not (edit.brief or {}).get("undo"):
            self._left[edit.kind, edit.kind == "retract" and edit.target in self._hidden] += 1

    def _take_note(self, note: Draft) -> None:
        title = (note.brief or {}).get("title")
        if note.kind != "title" or not isinstance(title, str) or not title:
            self._left[note.kind, False] += 1
            return
        self._changed = True
        self._later.append({"type": "custom-title", "customTitle": title, "sessionId": self._session})

    def _settle_titles(self, given: str) -> None:
        """Write titles recorded in Treering before a title of the file, which may be the first of them, reimported."""
        if self._later and self._later[0]["customTitle"] == given:
            del self._later[0]
            return
        for entry in self._later:
            self._write(entry)
        self._later.clear()

    def _take_own(self, draft: Draft) -> None:
        self._changed = True
        parent = self._link(_parent_of(draft))
        written = False
        if (draft.brief or {}).get("stand_in"):
            pass
        elif draft.kind == "compaction":
            written = self._compact(draft, parent)
        elif draft.kind in _SHOWN and (draft.brief or {}).get("context") is not False:
            written = self._say(draft, parent)
        else:
            self._left[draft.kind, False] += 1
        if not written:
            self._unwritten.add(str(draft.id))
            self._links[str(draft.id)] = parent

    def _link(self, node: str | None) -> str | None:
        """Return the `uuid` that children of a node name as their parent."""
        return self._links.get(node, node) if node in self._parents else None

    def _say(self, draft: Draft, parent: str | None) -> bool:
        """Write the entries of a message; False if there are none."""
        messages = self._messages(draft)
        if not messages:
            self._unseen[str(draft.id)] = (draft.kind, _NOTHING)
            return False
        names = [*(f"{draft.id}-part{number}" for number in range(1, len(messages))), str(draft.id)]
        self._pieces.update(names[:-1])
        for name, message in zip(names, messages, strict=True):
            self._write(self._entry(draft, name, parent, message))
            parent = name
        return True

    def _messages(self, draft: Draft) -> list[Fields]:
        """Return the messages of Claude Code for a node: an answer with results in it becomes two messages."""
        if draft.kind == "branch_summary":
            text = fields_of(draft.payload).get("summary")
            return [fields_of(render(BRANCH_SUMMARY, draft.payload, _seen(draft)))] if text else []
        payload = self._amended.get(draft.id, draft.payload)
        message = in_claude(payload if isinstance(payload, dict) else {"role": draft.role, "content": payload})
        content = message.get("content")
        if isinstance(content, str):
            return [message] if content else []
        parts = [fields_of(part) for part in content] if isinstance(content, list) else []
        signed = [part for part in parts if part.get("type") != "thinking" or part.get("signature")]
        self._left.update((kind, True) for kind in lost_in(fields_of(payload)))
        if len(signed) < len(parts) or _thought(payload, signed):
            self._left["thinking", True] += 1
        results = [part for part in signed if part.get("type") == "tool_result"]
        if message.get("role") != "assistant" or not results:
            return [{**message, "content": signed}] if signed else []
        rest = [part for part in signed if part.get("type") != "tool_result"]
        said = [{**message, "content": rest}] if rest else []
        return [*said, {"role": "user", "content": results}]

    def _entry(self, draft: Draft, name: str, parent: str | None, message: Fields) -> Fields:
        said = message.get("role") == "assistant"
        meta = {} if said or draft.role in ("user", "tool", "toolResult", "human") else {"isMeta": True}
        model = str(fields_of(draft.brief).get("model") or self._settings.at(draft, None).get("model") or "unknown")
        return {
            "parentUuid": parent,
            "isSidechain": False,
            "type": "assistant" if said else "user",
            "message": _answer(message, name, model) if said else {"role": "user", "content": message["content"]},
            **meta,
            "uuid": name,
            "timestamp": write_time(draft.time_ms or 0),
            **self._envelope,
            "sessionId": self._session,
        }

    def _compact(self, draft: Draft, parent: str | None) -> bool:
        """Write a compaction as a boundary, followed by its summary as a message."""
        brief, name = draft.brief or {}, str(draft.id)
        boundary, facts = f"{name}-part1", self._kept(draft, name)
        tokens = brief.get("tokens_before")
        entry = self._entry(draft, name, boundary, fields_of(render(SUMMARY, draft.payload, _seen(draft))))
        envelope = {each: value for each, value in entry.items() if each not in ("message", "isMeta", "type")}
        self._write(
            {
                **envelope,
                "parentUuid": None,
                "logicalParentUuid": parent,
                "type": "system",
                "subtype": "compact_boundary",
                "content": "Conversation compacted",
                "isMeta": False,
                "uuid": boundary,
                "compactMetadata": {
                    "trigger": "manual",
                    "preTokens": tokens if isinstance(tokens, int) else 0,
                    **facts,
                },
            }
        )
        self._write(entry | {"isCompactSummary": True, "isVisibleInTranscriptOnly": True})
        self._pieces.add(boundary)
        self._summaries.add(name)
        return True

    def _kept(self, draft: Draft, anchor: str) -> Fields:
        """Return the row of kept messages, if any of them is on the path to the compaction."""
        kept = (draft.brief or {}).get("kept")
        path = [*self._path(_parent_of(draft))]
        if kept not in path:
            return {}
        nodes = [node for node in path[path.index(str(kept)) :: -1] if node not in self._unwritten]
        row = [name for node in nodes for name in self._names(node) if node not in self._summaries]
        if not row:
            return {}
        segment = {"headUuid": row[0], "anchorUuid": anchor, "tailUuid": row[-1]}
        listed = {"anchorUuid": anchor, "uuids": row, "allUuids": row}
        return {"preservedSegment": segment, "preservedMessages": listed}

    def _path(self, node: str | None) -> Iterator[str]:
        """Yield the nodes from `node` up to a root."""
        seen: set[str] = set()
        while node is not None and node in self._parents and node not in seen:
            seen.add(node)
            yield node
            node = self._parents[node]

    # where Claude Code will continue

    def _settle(self, leaf: str | None) -> None:
        """Make Claude Code continue at the session's head, on the same path; report it if that fails."""
        path = [*self._path(self._view.node)][::-1]
        wanted = [name for node in path if node not in self._unwritten for name in self._names(node)]
        if not wanted:
            self._left.update([("leaf", True)] if leaf is not None else [])
            return
        if leaf != wanted[-1]:
            self._write_last_prompt(wanted[-1])
        way = self._entries.way()
        if way != wanted:
            self._left["branch", True] += max(1, len(set(wanted) - set(way)))

    def _names(self, node: str) -> list[str]:
        """Return the names of the entries of a node."""
        stem, number = f"{node}-part", 1
        names = []
        while f"{stem}{number}" in self._pieces:
            names.append(f"{stem}{number}")
            number += 1
        return [*names, node]

    def _write_last_prompt(self, node: str) -> None:
        uuid = self._link(node)
        if any(entry.get("parentUuid") == uuid for entry in self._entries if text_of(entry.get("type")) in LINKED):
            uuid = self._write_end(node, uuid)
        said = (texts for entry in self._entries if entry.get("type") == "user" and (texts := texts_of(entry)))
        text = next((texts[0] for texts in deque(said, maxlen=1)), "")[:_PROMPT_CHARACTERS_MAX]
        self._write({"type": "last-prompt", "lastPrompt": text, "leafUuid": uuid, "sessionId": self._session})

    def _write_end(self, node: str, parent: str | None) -> str:
        """Write a note of the program as a child of an entry that has children, so that the entry ends a chain."""
        number = len(self._entries.names)  # an earlier export may have written one
        name = named_uuid(NAMESPACE_URL, f"{self._session}/{node}/end/{number}")
        draft = Draft(id=name, role="system", time_ms=self._view.info.updated_ms)
        entry = self._entry(draft, name, parent, {"role": "user", "content": ""})
        del entry["message"]
        self._write(entry | {"type": "system", "subtype": "informational", "content": "Back to here", "level": "info"})
        return name


def _hidden(reader: Readable) -> Steps[set[str]]:
    index = yield from reader.replica.index()
    hidden = index.graph.annotations.retracted
    return {row.id for row in index.graph.path(reader.replica.state.tip) if row.id in hidden}


def _is_entry(draft: Draft) -> bool:
    """Tell whether a record was made from an entry of Claude Code."""
    source, payload = draft.source or {}, fields_of(draft.payload)
    if RAW in source:
        return True
    if draft.type == "node" and draft.kind in ("message", "custom_message"):
        return "type" in source
    return "type" in payload and bool(draft.type == "note" or (draft.brief or {}).get("boundary"))


def _parent_of(draft: Draft) -> str | None:
    return draft.parent if isinstance(draft.parent, str) else None


def _seen(draft: Draft) -> Seen:
    return Seen(str(draft.id), draft.time_ms or 0, draft.links or {}, draft.brief or {})


def _thought(payload: object, signed: Sequence[Fields]) -> bool:
    """Tell whether a message of another program had thinking that is not written."""
    content = fields_of(payload).get("content")
    blocks = [fields_of(part) for part in content] if isinstance(content, list) else []
    thoughts = [block for block in blocks if block.get("type") in ("thinking", "reasoning")]
    return len(thoughts) > len([part for part in signed if part.get("type") == "thinking"])


def _answer(message: Fields, name: str, model: str) -> Fields:
    """Return an answer with the fields that Claude Code needs."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    calls = any(fields_of(part).get("type") == "tool_use" for part in blocks)
    made = {"id": f"msg_{name}", "type": "message", "role": "assistant", "model": model}
    usage = {"input_tokens": 0, "output_tokens": 0}
    ended = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None, "usage": usage}
    return made | ended | message | {"content": blocks}
