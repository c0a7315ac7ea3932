"""One entry of a Claude Code session as a draft, and back: no files here, only what an entry means and where it stands.

Claude Code and its SDK write one JSON object for each event. Most name the one before as `parentUuid`, whatever it is:
messages, attachments, progress of tools, notes of the program. So the chain forks where nobody went back.

Rule 1: only what was said is a node: entries of the types `user` and `assistant`, prompts that were queued while the
model worked, and the boundaries of compactions. All else is a note beside the tree, on the nearest node above.
Rule 2: one answer and the results of its calls are one run. Claude Code writes an entry for each block of an answer,
and hangs each result on the block with its call. Here the nodes of a run follow each other as they came, and what names
any of them as its parent follows the last one. Only what comes back to a run that went on already is a branch.
Rule 3: an entry depends only on those before it.
Rule 4: nothing is lost. `write_entry` gives back the entry of a draft, equal in all its values and in their order.

`Course` knows where the next entry stands, `read_entry` makes its draft. A course can be carried on from what is
stored, see `Course.recall`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from treering.format.register import one_line
from treering.format.values import Fields, fields_of
from treering.importers.entry import RAW, as_bytes
from treering.importers.lines import decode
from treering.importers.pi import read_time, write_time
from treering.transcript.node import Draft

LINKED: Final = frozenset({"user", "assistant", "progress", "system", "attachment"})
"""Types of entries that are links of the chain, if they have a `uuid`."""
TYPES: Final = LINKED | {
    "agent-name", "agent_metadata", "ai-title", "api-request", "api-request-blob", "api-request-shape", "atis-latch",
    "bridge-session", "content-replacement", "cost-state", "custom-title", "file-history-snapshot", "frame-link",
    "last-prompt", "mode", "permission-mode", "pr-link", "queue-operation", "relocated", "result", "started", "summary",
    "tag", "worktree-state",
}  # fmt: skip
"""All types that were seen so far; new ones come with every version."""
SPEAKERS: Final = frozenset({"user", "assistant"})
TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle"}
"""Types of entries that name the session, and their fields; what a model made up counts until the user gives one."""
BRIEF_TEXT_BYTES_MAX: Final = 200
"""Of titles and tags; the payload has them whole."""

_HERE: Final = "$"
"""In the `source` of a draft: the draft itself has the value of this field. Other texts that begin so get one more."""
_WORD_CHARACTERS_MAX: Final = 64
_RESERVED: Final = frozenset(
    {"card", "damage", "import", "label", "link", "origin", "place", "status", "title", "usage"}
)
"""Kinds of notes that mean something here; a type of that name which nobody knows must not."""
_WORDED: Final = {"system": ("subtype",), "attachment": ("attachment", "type"), "progress": ("data", "type")}
"""By type of note: where a word stands that tells of what sort it is."""
_NO_MODEL: Final = "<synthetic>"
"""The model of messages that the program made up; those about errors are shown and not sent."""
_STARTS_AGENT: Final = frozenset({"Task", "Agent"})
_OF_PROGRAM: Final = re.compile(
    r"\s*<(?:command-(?:name|message)|local-command-|bash-std|session-start-hook|tick|goal|ide_)"
    r"|\[Request interrupted by user"
)
"""How texts begin that the program wrote in the user's name."""


# what an entry is


def is_node(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry is a step of the conversation; others are notes."""
    said = entry.get("type") in SPEAKERS and isinstance(entry.get("message"), dict)
    return said or is_boundary(entry) or is_queued(entry)


def is_boundary(entry: Mapping[str, object]) -> bool:
    """Tell the boundary of a compaction: what follows does not see what came before, but in a summary."""
    return entry.get("type") == "system" and entry.get("subtype") == "compact_boundary"


def is_queued(entry: Mapping[str, object]) -> bool:
    """Tell a prompt that the user gave while the model worked; there is no other entry with its words."""
    attached = fields_of(entry.get("attachment")) if entry.get("type") == "attachment" else {}
    typed = attached.get("commandMode", "prompt") == "prompt" and attached.get("isMeta") is not True
    return attached.get("type") == "queued_command" and typed and isinstance(attached.get("prompt"), str | list)


def is_result(entry: Mapping[str, object]) -> bool:
    """Tell an entry that answers calls of tools."""
    return entry.get("type") == "user" and any(block.get("type") == "tool_result" for block in _blocks(entry))


def is_side(entry: Mapping[str, object]) -> bool:
    """Tell what is not said in the conversation itself, but by a subagent or in a team."""
    return bool(entry.get("isSidechain") or entry.get("teamName"))


def role_of(entry: Mapping[str, object]) -> str:
    """Return whose words a node says: the program speaks as `system`, though to a model it does as the user."""
    if entry.get("type") == "assistant":
        return "assistant"
    if is_result(entry):
        return "tool"
    first = next(iter(texts_of(entry)), "")
    by_program = entry.get("isMeta") or entry.get("isCompactSummary") or _OF_PROGRAM.match(first)
    return "system" if by_program else "user"


def texts_of(entry: Mapping[str, object]) -> list[str]:
    """Return the texts of what was said in an entry, as far as it is text."""
    content = fields_of(entry.get("message")).get("content")
    texts = [content, *(block.get("text") for block in _blocks(entry) if block.get("type") == "text")]
    return [text for text in texts if isinstance(text, str)]


def _blocks(entry: Mapping[str, object]) -> list[Fields]:
    content = fields_of(entry.get("message")).get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _word(value: object) -> str:
    """Return a text that is short enough for a brief; of a longer one, its digest."""
    text = _text(value)
    if len(text) <= _WORD_CHARACTERS_MAX:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# where it stands


class Spot(NamedTuple):
    """Where an entry stands."""

    id: str
    parent: str | None
    """The parent of a node, which may be missing or come later; the node that a note is about, if it is about one."""
    note: bool
    """It stands beside the tree."""
    spawned_by: str | None = None
    """The node whose call began this sidechain."""
    named: bool = False
    """The session has a title that the user gave it."""
    missing: str | None = None
    """What the entry names as its parent, if that did not come before it; it goes on from the newest node then."""


class _Traits(NamedTuple):
    """What decides to which run a node belongs."""

    answer: str = ""
    """The id of the answer that it is part of."""
    joins: bool = False
    """It goes with what it follows: the result of a call, or what came while a model worked."""
    writer: str = ""
    """Of what stands beside the conversation: who wrote it."""


class _Run:
    """Nodes that say one thing together."""

    def __init__(self, tip: str, writer: str) -> None:
        self.tip = tip
        self.writer = writer
        self.ended = False
        """Something follows that is not of the run."""


class _Step(NamedTuple):
    """What the choice of the leaf must know of an entry."""

    parent: str
    speaks: bool
    main: bool


class Course:
    """Gives the entries of one session their places, one after the other.

    Memory: a few small objects for each entry with a `uuid`, and nothing of its content.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        """Begin before the first entry.

        Args:
            new_id: Makes ids for entries that have none, or one that was used before.
        """
        self._new_id = new_id
        self._runs: dict[str, _Run] = {}  # of each node
        self._answers: dict[str, _Run] = {}  # the run that the id of an answer means from here on
        self._anchors: dict[str, str | None] = {}  # of each note: the nearest node above it
        self._renamed: dict[str, str] = {}  # uuids that were used before, and the id of the latest such entry
        self._tasks: dict[bytes, str] = {}  # nodes that started subagents, by what these were told
        self._steps: dict[str, _Step] = {}
        self._newest: dict[str, str] = {}  # by writer
        self._chosen = ""
        self._named = False

    def add(self, entry: Mapping[str, object]) -> Spot:
        """Return the place of the next entry."""
        own = _text(entry.get("uuid"))
        above, missing = self._above(entry)
        name = self._free_name(own)
        if own and entry.get("type") in LINKED:
            self._steps.pop(own, None)  # of two with one uuid, the later one counts, and its place
            speaks = entry.get("type") in SPEAKERS
            self._steps[own] = _Step(_text(entry.get("parentUuid")), speaks, speaks and not is_side(entry))
        if entry.get("type") == "last-prompt":
            self._chosen = _text(entry.get("leafUuid"))
        self._named = self._named or (entry.get("type") == "custom-title" and bool(_text(entry.get("customTitle"))))
        if is_node(entry):
            return self._add_node(entry, name, above, missing)
        return self._add_note(entry, name, above)

    def recall(
        self, name: str, parent: str | None, *, note: bool, kind: str, role: str, brief: Mapping[str, object]
    ) -> None:
        """Take in a node or note that was recorded before. Give all of them, in the order of their records.

        What follows has the places that it would have had, but for the leaf: that needs the entries themselves.

        Args:
            name: Its id.
            parent: The parent of a node, the target of a note.
            note: It is a note.
            kind: Its kind.
            role: Its role.
            brief: Its brief, as `read_entry` made it.
        """
        uuid = _text(brief.get("uuid"))
        if uuid:
            self._renamed[uuid] = name
        if note:
            self._anchors[name] = parent
            self._named = self._named or (kind == "title" and brief.get("by") != "ai")
            return
        traits = _Traits(_text(brief.get("answer")), role == "tool" or "queued" in brief, _text(brief.get("side")))
        run = self._answers.get(traits.answer) or (self._runs.get(parent or "") if traits.joins else None)
        self._settle(name, parent, traits, run if run is not None and run.tip == parent else None)

    def _free_name(self, own: str) -> str:
        if own and own not in self._runs and own not in self._anchors:
            return own
        name = self._new_id()
        if own:
            self._renamed[own] = name
        return name

    def _find(self, uuid: str | None) -> str | None:
        return self._renamed.get(uuid, uuid) if uuid else None

    def _above(self, entry: Mapping[str, object]) -> tuple[str | None, str | None]:
        """The entry that one follows, and what it names instead if that is not there.

        Claude Code lost parents in many versions: a process that ended had not written them. It goes on from the entry
        before then, and so does this. Old entries have no `uuid` and name nothing; a root does.
        """
        named = _text(entry.get("parentUuid"))
        boundary = is_boundary(entry) and not named
        if boundary:
            named = _text(entry.get("logicalParentUuid"))
        if named and named != entry.get("uuid"):
            found = self._find(named)
            if found in self._runs or found in self._anchors:
                return found, None
            return (None if boundary else self._newest.get(_writer(entry))), named
        rootless = "uuid" not in entry and "parentUuid" not in entry
        return (self._newest.get(_writer(entry)) if rootless else None), None

    def _node_at(self, name: str | None) -> str | None:
        """Return `name`, or the nearest node above it if it is a note."""
        return name if name is None else self._anchors.get(name, name)

    def _add_note(self, entry: Mapping[str, object], name: str, above: str | None) -> Spot:
        linked = _text(entry.get("parentUuid"))
        if not linked:
            above = self._find(_text(entry.get("messageId")) or _text(entry.get("leafUuid")))
        node = self._node_at(above)
        self._anchors[name] = target = node if node in self._runs else None
        return Spot(name, target, note=True, named=self._named)

    def _add_node(self, entry: Mapping[str, object], name: str, above: str | None, missing: str | None) -> Spot:
        traits = _traits(entry)
        node = self._node_at(above)
        run = self._joined(entry, traits, node)
        parent = run.tip if run is not None else self._below(node, traits)
        self._settle(name, parent, traits, run)
        task = _text(fields_of(entry.get("message")).get("content")) if parent is None and is_side(entry) else ""
        for told in _told(entry):
            self._tasks[_digest(told)] = name
        spawned_by = self._tasks.get(_digest(task)) if task else None
        return Spot(name, parent, note=False, spawned_by=spawned_by, missing=missing)

    def _joined(self, entry: Mapping[str, object], traits: _Traits, node: str | None) -> _Run | None:
        """The run that a node goes on; None if it begins one."""
        runs = [self._answers.get(traits.answer)]
        if traits.joins:
            source = self._find(_text(entry.get("sourceToolAssistantUUID")))
            runs = [self._runs.get(node or ""), self._runs.get(source or "")]
        going_on = (run for run in runs if run is not None and not run.ended and run.writer == traits.writer)
        return next(going_on, None)

    def _below(self, node: str | None, traits: _Traits) -> str | None:
        """What a node follows that names another: the end of that one's run. A sidechain is told where it began."""
        run = self._runs.get(node or "")
        return node if run is None or run.writer != traits.writer else run.tip

    def _settle(self, name: str, parent: str | None, traits: _Traits, run: _Run | None) -> None:
        before = self._runs.get(parent or "")
        if run is None:
            if before is not None and before.writer == traits.writer:
                before.ended = True
            run = _Run(name, traits.writer)
        run.tip = name
        self._runs[name] = run
        if traits.answer:
            self._answers[traits.answer] = run
        self._newest[traits.writer] = name

    # the leaf

    def leaf(self) -> str | None:
        """Return the node at which Claude Code would go on; None if nothing was said.

        An end of the chain stands for the nearest message above it. The one that counts is that which the last entry of
        the type `last-prompt` names, if it is still an end; else the last one in the file that is no sidechain; else
        the last. (As Claude Code 2.1.330 was seen to do it. Its SDK leaves out the first of these, and passes over what
        the program wrote last.)
        """
        followed = {step.parent for step in self._steps.values()}
        speaker: dict[str, str | None] = {}
        ends = {uuid: self._speaker_above(uuid, speaker) for uuid in self._steps if uuid not in followed}
        leaves = {*ends.values()}
        last = [uuid for uuid in self._steps if uuid in leaves]
        main = [uuid for uuid in last if self._steps[uuid].main]
        chosen = ends.get(self._chosen) or next(iter((main or last)[::-1]), None)
        if chosen is None:
            return self._newest.get("")
        node = self._node_at(self._find(chosen))
        run = self._runs.get(node or "")
        return None if run is None else run.tip

    def _speaker_above(self, uuid: str, known: dict[str, str | None]) -> str | None:
        """The nearest message at or above an entry; `known` remembers answers."""
        passed: list[str] = []
        found: str | None = None
        cursor = uuid
        while cursor in self._steps and cursor not in known:
            known[cursor] = None  # a chain may come round in a circle
            passed.append(cursor)
            if self._steps[cursor].speaks:
                found = cursor
                break
            cursor = self._steps[cursor].parent
        else:
            found = known.get(cursor)
        known.update(dict.fromkeys(passed, found))
        return found


def _traits(entry: Mapping[str, object]) -> _Traits:
    answer = _word(fields_of(entry.get("message")).get("id")) if entry.get("type") == "assistant" else ""
    injected = entry.get("isMeta") is True and "sourceToolUseID" in entry
    return _Traits(answer, is_result(entry) or is_queued(entry) or injected, _writer(entry))


def _writer(entry: Mapping[str, object]) -> str:
    return (_word(entry.get("agentId")) or "side") if is_side(entry) else ""


def _told(entry: Mapping[str, object]) -> Iterable[str]:
    """What subagents are told that an answer starts."""
    calls = (block for block in _blocks(entry) if block.get("type") == "tool_use")
    prompts = (_text(fields_of(call.get("input")).get("prompt")) for call in calls if call.get("name") in _STARTS_AGENT)
    return (prompt for prompt in prompts if prompt)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


# from an entry to a draft, and back


def read_entry(entry: Fields, spot: Spot, time_ms: int | None) -> Draft:
    """Return what becomes of an entry.

    Args:
        entry: As it stands in the file.
        spot: Its place.
        time_ms: For an entry that has no time of its own.
    """
    time = read_time(entry.get("timestamp"))
    time = time_ms if time is None else time
    own = _text(entry.get("uuid"))
    brief: Fields = {"uuid": _word(own)} if own and own != spot.id else {}
    if spot.note:
        kind, told = _note_brief(entry, named=spot.named)
        return Draft(
            type="note", kind=kind, id=spot.id, parent=None, target=spot.parent, time_ms=time, payload=entry,
            brief=brief | told or None,
        )  # fmt: skip
    if not is_boundary(entry):
        return _message(entry, spot, time, brief)
    logical = _text(entry.get("logicalParentUuid"))
    return Draft(
        kind="compaction",
        id=spot.id,
        parent=spot.parent,
        time_ms=time,
        payload=entry,
        brief=brief | _boundary_brief(entry),
        links={"logical_parent": spot.parent or logical} if logical else None,
    )


def _message(entry: Fields, spot: Spot, time: int | None, brief: Fields) -> Draft:
    attached = fields_of(entry.get("attachment"))
    queued = is_queued(entry)
    payload = {"role": "user", "content": attached["prompt"]} if queued else entry["message"]
    brief |= {"queued": True} if _traits(entry).joins and not is_result(entry) else {}
    brief |= {"side": _writer(entry)} if is_side(entry) else {}
    brief |= {"meta": True} if entry.get("isMeta") is True else {}
    brief |= {"summary": True} if entry.get("isCompactSummary") is True else {}
    if entry.get("type") == "assistant":
        message = fields_of(entry.get("message"))
        answer, model = _word(message.get("id")), _word(message.get("model"))
        brief |= {"answer": answer} if answer else {}
        brief |= {"model": model} if model and model != _NO_MODEL else {}
        brief |= {"context": False} if model == _NO_MODEL and entry.get("isApiErrorMessage") is True else {}
    links = {"spawned_by": spot.spawned_by} if spot.spawned_by else {}
    links |= {"source_parent": spot.missing} if spot.missing else {}
    links |= {"subagent": f"agent-{agent}"} if (agent := _agent_in(entry)) else {}
    draft = Draft(
        role="user" if queued else role_of(entry),
        id=spot.id,
        parent=spot.parent,
        time_ms=time,
        payload=payload,
        brief=brief or None,
        links=links or None,
    )
    return _with_rest(draft, entry)


def _agent_in(entry: Fields) -> str:
    """The subagent whose work the result of a call is; it has a file of its own."""
    return _word(fields_of(entry.get("toolUseResult")).get("agentId")) if is_result(entry) else ""


def _with_rest(draft: Draft, entry: Fields) -> Draft:
    """Return a draft of a message with all of its entry that the draft does not tell, in the order of the fields."""
    derived = _derived(draft)
    rest: Fields = {}
    for name, value in entry.items():
        told = name in derived and _tells(name, derived[name], value)
        rest[name] = _HERE if told else _escaped(value) if name in derived else value
    if is_queued(entry):
        rest["attachment"] = fields_of(entry["attachment"]) | {"prompt": None}
    return msgspec.structs.replace(draft, source=rest)


def _derived(draft: Draft) -> Fields:
    """Return the fields of an entry that a draft tells by itself."""
    return {
        "type": "assistant" if draft.role == "assistant" else "user",
        "uuid": draft.id,
        "parentUuid": draft.parent,
        "timestamp": write_time(draft.time_ms),
        "message": draft.payload,
    }


def _tells(name: str, ours: object, value: object) -> bool:
    if name in ("message", "parentUuid"):  # a root has null there
        return ours is value or (isinstance(ours, str) and ours == value)
    return isinstance(ours, str) and ours == value


def _escaped(value: object) -> object:
    return f"{_HERE}{value}" if isinstance(value, str) and value.startswith(_HERE) else value


def _note_brief(entry: Fields, *, named: bool) -> tuple[str, Fields]:
    """Return the kind of a note, and what can be told of it without its payload."""
    kind = _kind(entry)
    field = TITLES.get(kind)
    if field is not None:
        title = one_line(_text(entry.get(field)), BRIEF_TEXT_BYTES_MAX)
        by_model = {"by": "ai"} if kind == "ai-title" else {}
        counts = title and not (by_model and named)
        return ("title", {"title": title, **by_model}) if counts else (kind, {})
    if kind == "tag":
        return kind, {"tag": one_line(_text(entry.get("tag")), BRIEF_TEXT_BYTES_MAX)}
    found: object = entry
    for name in _WORDED.get(kind, ()):
        found = fields_of(found).get(name)
    word = _word(found)
    return kind, {_WORDED[kind][0]: word} if word else {}


def _kind(entry: Fields) -> str:
    """Return the kind of an entry that is no message: its type."""
    kind = _word(entry.get("type"))
    return kind if kind and kind not in _RESERVED else f"claude:{kind}"


def _boundary_brief(entry: Fields) -> Fields:
    """Return what the context must know of a compaction: the size before it, and which messages stay, and where."""
    facts = fields_of(entry.get("compactMetadata"))
    tokens = facts.get("preTokens")
    brief: Fields = {"tokens_before": tokens} if isinstance(tokens, int) else {}
    segment, listed = fields_of(facts.get("preservedSegment")), fields_of(facts.get("preservedMessages"))
    uuids = listed.get("uuids")
    ends = (
        [uuids[0], uuids[-1]]
        if isinstance(uuids, list) and uuids
        else [segment.get("headUuid"), segment.get("tailUuid")]
    )
    words = [*map(_word, ends), _word(listed.get("anchorUuid") or segment.get("anchorUuid"))]
    names = ("kept", "kept_last", "kept_after")
    return brief | (dict(zip(names, words, strict=True)) if all(words) else {}) | {"boundary": True}


def write_entry(draft: Draft) -> Fields:
    """Return the entry that a draft was made of, equal in all its values and in the order of its fields."""
    source = draft.source or {}
    if RAW in source:
        return fields_of(decode(as_bytes(source[RAW]))[0])
    if draft.type != "node" or draft.kind != "message":
        return fields_of(draft.payload)
    derived = _derived(draft)
    entry: Fields = {}
    for name, value in source.items():
        if name in derived and isinstance(value, str) and value.startswith(_HERE):
            entry[name] = derived[name] if value == _HERE else value[1:]
        else:
            entry[name] = value
    if entry.get("type") == "attachment":
        prompt = fields_of(draft.payload).get("content")
        entry["attachment"] = fields_of(entry["attachment"]) | {"prompt": prompt}
    return entry
