"""Convert one entry of a Claude Code session to a draft, and back, without files and other entries.

Claude Code and its SDK write one JSON object for each event. These entries are nodes: entries of the types `user` and
`assistant`, prompts that were queued while the model worked, the boundaries of compactions, and texts that the program
gives the model by an attachment or a local command. All other entries are notes. `treering.programs.claude.course`
decides their places in the tree.

Rule: no value is lost. `write_entry` returns the entry of a draft, equal in all its values and in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from treering.format.register import one_line
from treering.format.values import Fields, fields_of
from treering.messages import without_reminders
from treering.programs.claude.kept import NAMES_MAX, names_of
from treering.programs.common.entry import RAW, as_bytes
from treering.programs.common.lines import decode
from treering.programs.common.reader import text_of
from treering.programs.common.times import read_time, write_time
from treering.transcript.node import Draft

LINKED: Final = frozenset({"user", "assistant", "progress", "system", "attachment"})
"""Types of entries that are links of the chain, if they have a `uuid`."""
TYPES: Final = LINKED | {
    "agent-name", "agent_metadata", "ai-title", "api-request", "api-request-blob", "api-request-shape", "atis-latch",
    "bridge-session", "content-replacement", "cost-state", "custom-title", "file-history-snapshot", "frame-link",
    "last-prompt", "mode", "permission-mode", "pr-link", "queue-operation", "relocated", "result", "started", "summary",
    "tag", "worktree-state",
}  # fmt: skip
"""All known types; new versions of Claude Code add others."""
SPEAKERS: Final = frozenset({"user", "assistant"})
TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle"}
"""Types of entries with a title, and their fields; a model's title counts until the user gives one."""
BRIEF_TEXT_BYTES_MAX: Final = 200
"""The most bytes of titles and tags in a brief; the payload has the whole text."""

_HERE: Final = "$"
"""A mark in the `source` of a draft: the draft has the field's value. Texts that begin with it get another one."""
_WORD_CHARACTERS_MAX: Final = 64
_RESERVED: Final = frozenset(
    {"card", "damage", "exported", "import", "label", "link", "origin", "place", "status", "title", "usage"}
)
"""Kinds of notes with a meaning in Treering; an unknown type of the same name must not get that meaning."""
_WORDED: Final = {"system": ("subtype",), "attachment": ("attachment", "type"), "progress": ("data", "type")}
"""By type of note: the path to a word for its subtype."""
_NO_MODEL: Final = "<synthetic>"
"""The model in messages that the program made up; messages about errors are shown and not sent."""
_OF_PROGRAM: Final = re.compile(
    r"\s*<(?:command-(?:name|message)|local-command-|bash-std|session-start-hook|tick|goal|ide_)"
    r"|\[Request interrupted by user"
)
"""The beginnings of texts that the program wrote in the user's name."""


# the sort of an entry


def is_node(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry is always a node; others are notes, unless `told_by` returns a text for them."""
    said = text_of(entry.get("type")) in SPEAKERS and isinstance(entry.get("message"), dict)
    return said or is_boundary(entry) or is_queued(entry)


def is_boundary(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry is the boundary of a compaction: later messages replace earlier ones by a summary."""
    return entry.get("type") == "system" and entry.get("subtype") == "compact_boundary"


def is_queued(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry is a prompt that the user gave while the model worked; no other entry has its text."""
    attached = fields_of(entry.get("attachment")) if entry.get("type") == "attachment" else {}
    typed = attached.get("commandMode", "prompt") == "prompt" and attached.get("isMeta") is not True
    return attached.get("type") == "queued_command" and typed and isinstance(attached.get("prompt"), str | list)


def is_local_command(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry is a command that the user gave to the program, or its output; the model gets both."""
    local = entry.get("type") == "system" and entry.get("subtype") == "local_command"
    return local and bool(text_of(entry.get("content")))


def told_by(entry: Mapping[str, object]) -> str:
    """Return the text that the model gets for an attachment or a local command; empty for any other entry.

    Newer versions of Claude Code store the text with an attachment. For older versions it is made here.
    """
    if is_local_command(entry):
        return text_of(entry["content"])
    if entry.get("type") != "attachment":
        return ""
    rendered = entry.get("rendered")
    if isinstance(rendered, list):
        return "\n".join(text for part in rendered if (text := text_of(fields_of(part).get("content"))))
    attached = fields_of(entry.get("attachment"))
    word = _TELLS.get(text_of(attached.get("type")))
    return word(attached) if word is not None else ""


def _tell_file(attached: Fields) -> str:
    text = text_of(fields_of(fields_of(attached.get("content")).get("file")).get("content"))
    return f"Contents of {text_of(attached.get('filename'))}:\n{text}" if text else ""


def _tell_change(attached: Fields) -> str:
    text = text_of(attached.get("snippet"))
    return f"{text_of(attached.get('filename'))} was changed:\n{text}" if text else ""


def _tell_hook(attached: Fields) -> str:
    content = attached.get("content")
    return "\n".join(map(text_of, content)) if isinstance(content, list) else text_of(content)


_TELLS: Final[Mapping[str, Callable[[Fields], str]]] = {
    "edited_text_file": _tell_change,
    "file": _tell_file,
    "hook_additional_context": _tell_hook,
}


def is_result(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry has results of tool calls."""
    return entry.get("type") == "user" and any(block.get("type") == "tool_result" for block in blocks_of(entry))


def is_side(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry is not part of the conversation itself, but of a subagent's or a team's."""
    return bool(entry.get("isSidechain") or entry.get("teamName") or entry.get("parent_tool_use_id"))


def is_unlinked(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry names no parent, as in the output of `--output-format stream-json`.

    The first entry of a session file has a `parentUuid` of null, and so is not meant here.
    """
    return text_of(entry.get("type")) in LINKED and "parentUuid" not in entry


def is_meta(entry: Mapping[str, object]) -> bool:
    """Tell whether the program wrote an entry in the user's name: session files and outputs mark such entries."""
    return entry.get("isMeta") is True or entry.get("isSynthetic") is True


def role_of(entry: Mapping[str, object]) -> str:
    """Return the role of a node: the program's own messages are `system`, though a model gets them as the user's."""
    return _role(entry, result=is_result(entry))


def _role(entry: Mapping[str, object], *, result: bool) -> str:
    if entry.get("type") == "assistant":
        return "assistant"
    if result:
        return "tool"
    typed, blocks = typed_in(entry), blocks_of(entry)
    reminds = any(map(str.strip, texts_of(entry))) and not typed and {block.get("type") for block in blocks} <= {"text"}
    by_program = is_meta(entry) or entry.get("isCompactSummary") or reminds or _OF_PROGRAM.match("".join(typed[:1]))
    return "system" if by_program else "user"


def typed_in(entry: Mapping[str, object]) -> list[str]:
    """Return the texts in an entry's message without reminders; texts that are blank then are left out."""
    texts = map(without_reminders, texts_of(entry))
    return [text for text in texts if text.strip()]


def texts_of(entry: Mapping[str, object]) -> list[str]:
    """Return the texts in an entry's message."""
    content = fields_of(entry.get("message")).get("content")
    texts = [content, *(block.get("text") for block in blocks_of(entry) if block.get("type") == "text")]
    return [text for text in texts if isinstance(text, str)]


def blocks_of(entry: Mapping[str, object]) -> list[Fields]:
    """Return the blocks of the message in an entry; empty if its content is a text."""
    content = fields_of(entry.get("message")).get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _word(value: object) -> str:
    """Return a text if it is short enough for a brief, else its digest."""
    text = text_of(value)
    if len(text) <= _WORD_CHARACTERS_MAX:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# the place of an entry


class Traits(msgspec.Struct, frozen=True, gc=False):
    """The facts that decide to which run a node belongs."""

    answer: str = ""
    """The id of the answer to which it belongs."""
    result: bool = False
    """Whether it has results of tool calls."""
    along: bool = False
    """Whether it was inserted while a model worked: it belongs to its parent's run without answering a call."""
    writer: str = ""
    """The subagent or team that wrote it; empty in the conversation itself."""

    @property
    def joins(self) -> bool:
        """Whether it belongs to the run of its parent."""
        return self.result or self.along


class Spot(msgspec.Struct, frozen=True, gc=False):
    """The place of an entry."""

    id: str
    parent: str | None
    """The parent of a node, which may be missing or come later; for a note, its target, if it has one."""
    note: bool
    """Whether it is a note, and no node of the tree."""
    spawned_by: str | None = None
    """The node whose call began this sidechain."""
    named: bool = False
    """Whether the session has a title from the user."""
    missing: str | None = None
    """The parent that the entry names, if no earlier entry has that id; `parent` is the newest node then."""
    traits: Traits = Traits()
    """The traits of a node."""


def traits_of(entry: Mapping[str, object]) -> Traits:
    """Return the facts that decide to which run an entry belongs."""
    answer = _word(fields_of(entry.get("message")).get("id")) if entry.get("type") == "assistant" else ""
    injected = entry.get("isMeta") is True and "sourceToolUseID" in entry
    along = injected or entry.get("type") == "attachment" or is_local_command(entry)
    return Traits(answer, is_result(entry), along, writer_of(entry))


def writer_of(entry: Mapping[str, object]) -> str:
    """Return the subagent or team that wrote an entry; empty for an entry of the conversation itself."""
    return (_word(entry.get("agentId") or entry.get("parent_tool_use_id")) or "side") if is_side(entry) else ""


# from an entry to a draft, and back


def read_entry(entry: Fields, spot: Spot, time_ms: int | None) -> Draft:
    """Return the draft of an entry.

    Args:
        entry: The entry in the file.
        spot: Its place.
        time_ms: The time for an entry without one.
    """
    time = read_time(entry.get("timestamp"))
    time = time_ms if time is None else time
    own = text_of(entry.get("uuid"))
    brief: Fields = {"uuid": _word(own)} if own and own != spot.id else {}
    if spot.note:
        kind, told = _note_brief(entry, named=spot.named)
        return Draft(
            type="note", kind=kind, id=spot.id, parent=None, target=spot.parent, time_ms=time, payload=entry,
            brief=brief | told or None,
        )  # fmt: skip
    if not is_boundary(entry):
        return _message(entry, spot, time, brief) if is_node(entry) else _told(entry, spot, time, brief)
    logical = text_of(entry.get("logicalParentUuid"))
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
    queued, kind = is_queued(entry), text_of(entry.get("type"))
    payload = {"role": "user", "content": attached["prompt"]} if queued else entry["message"]
    traits = spot.traits
    _add_marks(brief, entry, traits)
    if kind == "assistant":
        _add_answer(brief, entry, traits.answer)
    if entry.get("isVirtual") is True:
        brief["context"] = False
    if not queued and fields_of(payload).get("role") != kind:
        brief["as"] = kind
    links = {"spawned_by": spot.spawned_by} if spot.spawned_by else {}
    if spot.missing:
        links["source_parent"] = spot.missing
    if traits.result and (agent := _agent_in(entry)):
        links["subagent"] = f"agent-{agent}"
    draft = Draft(
        role="user" if queued else _role(entry, result=traits.result),
        id=spot.id,
        parent=spot.parent,
        time_ms=time,
        payload=payload,
        brief=brief or None,
        links=links or None,
    )
    return _with_rest(draft, entry)


def _add_marks(brief: Fields, entry: Fields, traits: Traits) -> None:
    if traits.along and not traits.result:
        brief["queued"] = True
    if traits.writer:
        brief["side"] = traits.writer
    if is_meta(entry):
        brief["meta"] = True
    if entry.get("isCompactSummary") is True:
        brief["summary"] = True


def _add_answer(brief: Fields, entry: Fields, answer: str) -> None:
    model = _word(fields_of(entry.get("message")).get("model"))
    if answer:
        brief["answer"] = answer
    if model and model != _NO_MODEL:
        brief["model"] = model
    elif model and entry.get("isApiErrorMessage") is True:
        brief["context"] = False


def _told(entry: Fields, spot: Spot, time: int | None, brief: Fields) -> Draft:
    """Return the draft of an attachment or a local command: a message of the program."""
    kind = _word(fields_of(entry.get("attachment")).get("type") or entry.get("subtype"))
    brief |= {"custom_type": kind} | ({"side": spot.traits.writer} if spot.traits.writer else {})
    draft = Draft(
        kind="custom_message",
        id=spot.id,
        parent=spot.parent,
        time_ms=time,
        payload={"custom_type": kind, "content": told_by(entry)},
        brief=brief,
        links={"source_parent": spot.missing} if spot.missing else None,
    )
    return _with_rest(draft, entry)


def _agent_in(entry: Fields) -> str:
    """Return the subagent that made the result of a call; its conversation is in a separate file."""
    found = fields_of(entry.get("toolUseResult")) or fields_of(entry.get("tool_use_result"))
    return _word(found.get("agentId"))


def _with_rest(draft: Draft, entry: Fields) -> Draft:
    """Return the draft of a message with all fields of its entry in `source`; values that the draft has are marked."""
    rest = dict(entry)
    for name, tell in _TOLD.items():
        if name in entry:
            value = entry[name]
            rest[name] = _HERE if _is_told(name, tell(draft), value) else _escaped(value)
    if entry.get("type") == "attachment" and is_queued(entry):
        rest["attachment"] = fields_of(entry["attachment"]) | {"prompt": None}
    return msgspec.structs.replace(draft, source=rest)


def _content_of(draft: Draft) -> object:
    return fields_of(draft.payload).get("content")


_TOLD: Final[Mapping[str, Callable[[Draft], object]]] = {
    "type": lambda draft: "assistant" if draft.role == "assistant" else "user",
    "uuid": attrgetter("id"),
    "parentUuid": attrgetter("parent"),
    "timestamp": lambda draft: write_time(draft.time_ms),
    "message": attrgetter("payload"),
    "content": _content_of,
    "rendered": lambda draft: [{"content": _content_of(draft)}],
}
"""The fields of an entry that can be computed from its draft."""


def _is_told(name: str, ours: object, value: object) -> bool:
    if ours is value:
        return ours is not None or name == "parentUuid"  # a root has null there
    return ours == value and (isinstance(ours, str) or name == "rendered")


def _escaped(value: object) -> object:
    return f"{_HERE}{value}" if isinstance(value, str) and value.startswith(_HERE) else value


def _note_brief(entry: Fields, *, named: bool) -> tuple[str, Fields]:
    """Return the kind of a note, and the facts for its brief."""
    kind = _kind(entry)
    field = TITLES.get(kind)
    if field is not None:
        title = one_line(text_of(entry.get(field)), BRIEF_TEXT_BYTES_MAX)
        by_model = {"by": "ai"} if kind == "ai-title" else {}
        counts = title and not (by_model and named)
        return ("title", {"title": title, **by_model}) if counts else (kind, {})
    if kind == "tag":
        return kind, {"tag": one_line(text_of(entry.get("tag")), BRIEF_TEXT_BYTES_MAX)}
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
    """Return the facts of a compaction that the context needs: the size before it, and the kept messages' place."""
    facts = _boundary_facts(entry)
    tokens = facts.get("preTokens", facts.get("pre_tokens"))
    kept = kept_of(entry)
    return {
        **({"tokens_before": tokens} if isinstance(tokens, int) else {}),
        **({"kept": kept.first, "kept_last": kept.last, "kept_after": kept.after} if kept else {}),
        **({"kept_all": names_of(kept.names)} if kept and 0 < len(kept.names) <= NAMES_MAX else {}),
        "boundary": True,
    }


class Kept(NamedTuple):
    """The messages that a compaction keeps."""

    first: str
    last: str
    after: str
    """The message after which they are shown: mostly the summary."""
    names: tuple[str, ...]
    """All kept messages; empty if only the first and the last are named."""


def kept_of(entry: Mapping[str, object]) -> Kept | None:
    """Return the messages that the boundary of a compaction keeps; None if it keeps none."""
    facts = _boundary_facts(entry)
    segment, listed = fields_of(facts.get("preservedSegment")), fields_of(facts.get("preservedMessages"))
    uuids = listed.get("uuids")
    names = tuple(map(_word, uuids)) if isinstance(uuids, list) else ()
    ends = (names[0], names[-1]) if names else (_word(segment.get("headUuid")), _word(segment.get("tailUuid")))
    kept = Kept(*ends, _word(listed.get("anchorUuid") or segment.get("anchorUuid")), names)
    return kept if all(kept[:3]) else None


def _boundary_facts(entry: Mapping[str, object]) -> Fields:
    return fields_of(entry.get("compactMetadata")) or fields_of(entry.get("compact_metadata"))


def write_entry(draft: Draft) -> Fields:
    """Return the entry from which a draft was made, equal in all its values and in the order of its fields."""
    source = draft.source or {}
    if RAW in source:
        return fields_of(decode(as_bytes(source[RAW]))[0])
    if draft.type != "node" or draft.kind not in ("message", "custom_message"):
        return fields_of(draft.payload)
    entry = dict(source)
    for name, tell in _TOLD.items():
        value = source.get(name)
        if isinstance(value, str) and value.startswith(_HERE):
            entry[name] = tell(draft) if value == _HERE else value[1:]
    if draft.kind == "message" and entry.get("type") == "attachment":
        prompt = fields_of(draft.payload).get("content")
        entry["attachment"] = fields_of(entry["attachment"]) | {"prompt": prompt}
    return entry
