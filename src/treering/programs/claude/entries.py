"""One entry of a Claude Code session as a draft, and back: no files here, and no other entries.

Claude Code and its SDK write one JSON object for each event. What was said is a node: entries of the types `user` and
`assistant`, prompts that were queued while the model worked, the boundaries of compactions, and what the program tells
the model by an attachment or a local command. All else is a note beside the tree. Where they stand is decided by
`treering.programs.claude.course`.

Rule: nothing is lost. `write_entry` gives back the entry of a draft, equal in all its values and in their order.
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
    {"card", "damage", "exported", "import", "label", "link", "origin", "place", "status", "title", "usage"}
)
"""Kinds of notes that mean something here; a type of that name which nobody knows must not."""
_WORDED: Final = {"system": ("subtype",), "attachment": ("attachment", "type"), "progress": ("data", "type")}
"""By type of note: where a word stands that tells of what sort it is."""
_NO_MODEL: Final = "<synthetic>"
"""The model of messages that the program made up; those about errors are shown and not sent."""
_OF_PROGRAM: Final = re.compile(
    r"\s*<(?:command-(?:name|message)|local-command-|bash-std|session-start-hook|tick|goal|ide_)"
    r"|\[Request interrupted by user"
)
"""How texts begin that the program wrote in the user's name."""


# what an entry is


def is_node(entry: Mapping[str, object]) -> bool:
    """Tell whether an entry is a step of the conversation; others are notes, but for what attachments tell."""
    said = text_of(entry.get("type")) in SPEAKERS and isinstance(entry.get("message"), dict)
    return said or is_boundary(entry) or is_queued(entry)


def is_boundary(entry: Mapping[str, object]) -> bool:
    """Tell the boundary of a compaction: what follows does not see what came before, but in a summary."""
    return entry.get("type") == "system" and entry.get("subtype") == "compact_boundary"


def is_queued(entry: Mapping[str, object]) -> bool:
    """Tell a prompt that the user gave while the model worked; there is no other entry with its words."""
    attached = fields_of(entry.get("attachment")) if entry.get("type") == "attachment" else {}
    typed = attached.get("commandMode", "prompt") == "prompt" and attached.get("isMeta") is not True
    return attached.get("type") == "queued_command" and typed and isinstance(attached.get("prompt"), str | list)


def is_local_command(entry: Mapping[str, object]) -> bool:
    """Tell a command that the user gave to the program, or its output, which the model is told of."""
    local = entry.get("type") == "system" and entry.get("subtype") == "local_command"
    return local and bool(text_of(entry.get("content")))


def told_by(entry: Mapping[str, object]) -> str:
    """Return what an attachment or a local command tells the model, nothing for all else.

    Newer versions of Claude Code keep the text of an attachment beside it. What is known of older ones is worded here.
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
    """Tell an entry that answers calls of tools."""
    return entry.get("type") == "user" and any(block.get("type") == "tool_result" for block in blocks_of(entry))


def is_side(entry: Mapping[str, object]) -> bool:
    """Tell what is not said in the conversation itself, but by a subagent or in a team."""
    return bool(entry.get("isSidechain") or entry.get("teamName") or entry.get("parent_tool_use_id"))


def is_unlinked(entry: Mapping[str, object]) -> bool:
    """Tell an entry that does not say what it follows, as they stand in the output of `--output-format stream-json`.

    The first one of a session file says that it follows nothing.
    """
    return text_of(entry.get("type")) in LINKED and "parentUuid" not in entry


def is_meta(entry: Mapping[str, object]) -> bool:
    """Tell what the program said in the user's name, by the mark that it has in a session file or in its output."""
    return entry.get("isMeta") is True or entry.get("isSynthetic") is True


def role_of(entry: Mapping[str, object]) -> str:
    """Return whose words a node says: the program speaks as `system`, though to a model it does as the user."""
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
    """Return the texts of what was said in an entry without the reminders in them, as far as anything is left."""
    texts = map(without_reminders, texts_of(entry))
    return [text for text in texts if text.strip()]


def texts_of(entry: Mapping[str, object]) -> list[str]:
    """Return the texts of what was said in an entry, as far as it is text."""
    content = fields_of(entry.get("message")).get("content")
    texts = [content, *(block.get("text") for block in blocks_of(entry) if block.get("type") == "text")]
    return [text for text in texts if isinstance(text, str)]


def blocks_of(entry: Mapping[str, object]) -> list[Fields]:
    """Return the blocks of the message in an entry; none if that is a text."""
    content = fields_of(entry.get("message")).get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _word(value: object) -> str:
    """Return a text that is short enough for a brief; of a longer one, its digest."""
    text = text_of(value)
    if len(text) <= _WORD_CHARACTERS_MAX:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# where it stands, and with what


class Traits(msgspec.Struct, frozen=True, gc=False):
    """What decides to which run a node belongs."""

    answer: str = ""
    """The id of the answer that it is part of."""
    result: bool = False
    """It answers calls of tools."""
    along: bool = False
    """It came while a model worked: it goes with what it follows, though it need not answer a call."""
    writer: str = ""
    """Of what stands beside the conversation: who wrote it."""

    @property
    def joins(self) -> bool:
        """It goes with what it follows."""
        return self.result or self.along


class Spot(msgspec.Struct, frozen=True, gc=False):
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
    traits: Traits = Traits()
    """Of a node."""


def traits_of(entry: Mapping[str, object]) -> Traits:
    """Return what decides to which run an entry belongs."""
    answer = _word(fields_of(entry.get("message")).get("id")) if entry.get("type") == "assistant" else ""
    injected = entry.get("isMeta") is True and "sourceToolUseID" in entry
    along = injected or entry.get("type") == "attachment" or is_local_command(entry)
    return Traits(answer, is_result(entry), along, writer_of(entry))


def writer_of(entry: Mapping[str, object]) -> str:
    """Return who wrote an entry that stands beside the conversation; nothing for one of the conversation."""
    return (_word(entry.get("agentId") or entry.get("parent_tool_use_id")) or "side") if is_side(entry) else ""


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
    """Return an attachment or a local command as a message of the program's own."""
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
    """The subagent whose work the result of a call is; it has a file of its own."""
    found = fields_of(entry.get("toolUseResult")) or fields_of(entry.get("tool_use_result"))
    return _word(found.get("agentId"))


def _with_rest(draft: Draft, entry: Fields) -> Draft:
    """Return a draft of a message with all of its entry that the draft does not tell, in the order of the fields."""
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
"""The fields of an entry that a draft tells by itself."""


def _is_told(name: str, ours: object, value: object) -> bool:
    if ours is value:
        return ours is not None or name == "parentUuid"  # a root has null there
    return ours == value and (isinstance(ours, str) or name == "rendered")


def _escaped(value: object) -> object:
    return f"{_HERE}{value}" if isinstance(value, str) and value.startswith(_HERE) else value


def _note_brief(entry: Fields, *, named: bool) -> tuple[str, Fields]:
    """Return the kind of a note, and what can be told of it without its payload."""
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
    """Return what the context must know of a compaction: the size before it, and which messages stay, and where."""
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
    """Which messages a compaction keeps."""

    first: str
    last: str
    after: str
    """What they stand behind: mostly the summary."""
    names: tuple[str, ...]
    """All of them; empty if only the first and the last are named."""


def kept_of(entry: Mapping[str, object]) -> Kept | None:
    """Return what the boundary of a compaction keeps; None if that is nothing."""
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
    """Return the entry that a draft was made of, equal in all its values and in the order of its fields."""
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
