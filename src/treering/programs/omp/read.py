"""Session files of oh-my-pi: pi's format with a title slot, more types of entries, and images in separate files.

`docs/reference/programs/omp.md` says which record each type of entry becomes; `treering.programs.common.reader` reads
the lines. This module has the differences from pi.

References to blobs are resolved before the draft of an entry is made, so drafts hold the images. An export writes
references again. The import checks that this gives the same bytes, and otherwise keeps the bytes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from treering.format import values
from treering.format.values import Fields, fields_of
from treering.programs.common.chain import Place
from treering.programs.common.entry import SLOT, Entry, as_text
from treering.programs.common.growth import Growth
from treering.programs.common.lines import read_values
from treering.programs.common.read_file import ReadFile
from treering.programs.common.reader import Dialect, LinesSource, ReadEntry, Reader, Record, take, take_small, text_of
from treering.programs.common.rules import Rules
from treering.programs.common.source import Imported, open_stream, uncompressed
from treering.programs.common.times import read_time
from treering.programs.omp.blobs import Load, externalise, find_folder, has_reference, loader, resolve
from treering.programs.omp.policy import DIGEST_CHARACTERS
from treering.programs.omp.title_slot import TitleSlot, title_slot_of
from treering.programs.omp.views import NOTEBOOK, STRIPPED, is_rehydrated, native_of, replay_of
from treering.programs.pi import read as pi
from treering.transcript.node import Draft

NAME: Final = "omp"
POLICIES: Final = ("omp", "omp-transcript")
RULES: Final = Rules(moment=read_time, title=None, needs_id=True, cuts=frozenset({STRIPPED}))

CALLS_CHARACTERS_MAX: Final = 320
"""The most characters of a brief for digests of a message's calls. With more than 35 calls each digest is shorter."""
CALLS_MAX: Final = 64
"""The most calls of one message that get a digest, of at least 4 digits; all other calls count as answered."""
SMALL_BYTES_MAX: Final = 440
"""The most bytes of a brief for the data of a mode, or a list of rules."""

NOTES: Final = frozenset({"label", "model_usage", "title_change"})
OWN_TYPES: Final = frozenset({
    "archive", "credential_pin", "mode_change", "model_usage", "reset_boundary", "service_tier_change", "session_init",
    "title_change", "ttsr_injection",
})  # fmt: skip
"""Types of entries that only oh-my-pi writes."""
_OWN_FIELDS: Final = {
    "session": ("titleSource", "additionalDirectories", "previousReadFiles", "providerPromptCacheKey"),
    "thinking_level_change": ("configured",),
    "model_change": ("resolvedModelIsFallback",),
    "compaction": ("shortSummary", "fromExtension", "providerReplayThroughEntryId", "preserveData"),
    "branch_summary": ("fromExtension",),
    "custom_message": ("attribution",),
}
"""Fields that only oh-my-pi writes, by type of entry."""
_SPEAKERS: Final = ("developer", "assistant")
_REQUESTS: Final = ("skill-prompt", "collab-prompt")
_SAYING: Final = {"text": ("text",), "thinking": ("thinking", "thinkingSignature"), "redactedThinking": ("data",)}
"""Types of blocks of a turn, and their fields with text."""
_ROLLOVER: Final = "experimental-context-rollover"
_NOTEBOOK_BYTES_MAX: Final = 16_384
_FAMILIES: Final = ("openai", "anthropic", "google")
_TIERS: Final = frozenset({"auto", "default", "flex", "scale", "priority"})

encode = pi.encode
restore = pi.restore


def detect(head: bytes) -> bool:
    """Tell whether a file that begins with `head` is a session of oh-my-pi: it has something that pi never writes.

    That is a title slot, or a header or entry with a type or field of oh-my-pi only. A file without these could be from
    either program, and counts as a file of pi.
    """
    found = read_values(io.BytesIO(uncompressed(head)), lambda *_: None, pi.is_entry)
    records = [value.value for value in found if isinstance(value.value, dict)]
    slot = bool(records) and title_slot_of(records[0]) is not None
    rest = records[1:] if slot else records
    if not rest or not pi.is_header(rest[0]):
        return False
    return slot or any(_is_own(record) for record in rest)


def _is_own(record: Fields) -> bool:
    kind = text_of(record.get("type"))
    if kind in OWN_TYPES:
        return "parentId" in record
    return any(name in record for name in _OWN_FIELDS.get(kind, ()))


def open_source(path: str | os.PathLike[str], *, blobs: Path | None = None) -> OmpSource:
    """Open a session file of oh-my-pi, compressed by gzip or not.

    Args:
        path: The file.
        blobs: The folder with the images; by default the nearest folder named `blobs` above the file.

    Raises:
        UsageError: The file is empty, or its first JSON object is neither title slot nor session header.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    place = Path(path)
    return OmpSource(place, loader(blobs or find_folder(place)))


def listing(file: ReadFile) -> dict[str, object]:
    """Return the entry of oh-my-pi's own list of sessions.

    A session without a title gets that of its latest compaction; a session without messages of a user shows another
    message. oh-my-pi reads only the first 4 KiB of a file; this function reads the whole file.
    """
    shown = {"title" if name == "name" else name: value for name, value in pi.listing(file).items()}
    compactions = [entry.record for entry in file.entries if entry.type == "compaction"]
    summaries = [record["shortSummary"] for record in compactions if isinstance(record.get("shortSummary"), str)]
    shown["title"] = shown["title"] or (summaries[-1] if summaries else None)
    if shown["firstMessage"] == pi.NO_MESSAGES:
        messages = [fields_of(entry.record.get("message")) for entry in file.entries if entry.type == "message"]
        spoken = [message.get("content") for message in messages if message.get("role") in _SPEAKERS]
        texts = (text for content in spoken for text in pi.texts_in(content) if text)
        shown["firstMessage"] = next(texts, pi.NO_MESSAGES)
    return shown


class OmpSource(LinesSource):
    """A session file of oh-my-pi. `ImportSource` documents its members."""

    def __init__(self, path: Path, load: Load) -> None:
        self._missing: list[str] = []
        super().__init__(_dialect(load, self._missing.append), lambda: open_stream(path), path)
        with open_stream(path) as stream:
            first = next(read_values(stream, lambda *_: None, pi.is_entry), None)
        self._slot_raw = first.raw if first is not None and fields_of(first.value).get("type") == "title" else b""
        if first is not None and (slot := title_slot_of(first.value)):
            self.header = with_slot(self.header, slot)

    def records(self, growth: Growth | None = None) -> Iterator[Record]:
        """Yield the records of the file with their drafts, in its order; the slot is kept in the header's note."""
        for entry, drafts in super().records(growth):
            if self._slot_raw and entry is None and drafts[0].kind == "import":
                note = drafts[0]
                kept = (note.source or {}) | {SLOT: as_text(self._slot_raw)}
                yield None, [msgspec.structs.replace(note, source=kept)]
            else:
                self._report_missing(entry)
                yield entry, drafts

    def _report_missing(self, entry: Entry | None) -> None:
        line, offset = (entry.line, entry.offset) if entry is not None else (0, 0)
        for reference in self._missing:
            message = f"a blob is missing or damaged, a text stands in its place. reference={reference!r}"
            self._log.report(line, offset, "blob", message)
        self._missing.clear()


def with_slot(header: Imported, slot: TitleSlot) -> Imported:
    """Return the header with the title of the slot, which takes precedence."""
    extra = {name: value for name, value in header.extra.items() if name not in ("title", "titleSource")}
    extra |= {"titleSource": slot.source} if slot.source else {}
    return msgspec.structs.replace(header, title=slot.title, extra=extra)


def _read_header(header: Fields, path: Path) -> Imported:
    return msgspec.structs.replace(pi.read_header(header, path), format=NAME)


# From an entry to a draft, if that differs from pi.


def _read_message(rest: Fields, place: Place, reader: Reader) -> Fields:
    """Read a message. The brief has the facts that decide whether and how it is shown."""
    fields = pi.read_message(rest, place, reader)
    message = fields.get("payload")
    if not isinstance(message, dict):
        return fields
    role = fields["role"]
    brief = fields["brief"]
    if role == "assistant":
        brief |= _turn(message)
    elif role == "toolResult":
        brief["result"] = _digest(message.get("toolCallId"))
    elif role == "custom":
        brief |= take_small({"customType": message.get("customType")}, customType="custom_type")
        brief |= _request(message)
    return fields


def _request(message: Fields) -> Fields:
    """Return the mark of a request, for a skill that the user called or a message of a peer; else nothing."""
    asked = message.get("customType") in _REQUESTS and message.get("attribution") == "user"
    return {"request": True} if asked else {}


def _turn(message: Fields) -> Fields:
    content = message.get("content")
    blocks = [fields_of(block) for block in content] if isinstance(content, list) else []
    kinds = [text_of(block.get("type")) for block in blocks]
    calls = [block.get("id") for block in blocks if block.get("type") == "toolCall"]
    facts = {
        "calls": _digests(calls),
        "bare": 0 < len(calls) <= CALLS_MAX and {"toolCall", "redactedThinking"}.issuperset(kinds),
        "failed": message.get("stopReason") in ("error", "aborted"),
        "retried": bool(message.get("retryRecovery")) or (message.get("stopReason") == "error" and _is_mute(content)),
        "rehydrated": is_rehydrated(message),
    }
    return {name: value for name, value in facts.items() if value}


def _is_mute(content: object) -> bool:
    """Tell whether a turn has no text."""
    blocks = content if isinstance(content, list) else [None]
    return all(isinstance(block, dict) and _is_blank(block) for block in blocks)


def _is_blank(block: Fields) -> bool:
    kind = text_of(block.get("type"))
    texts = (text_of(block.get(name)) for name in _SAYING.get(kind, ()))
    return kind == "fallback" or (kind in _SAYING and not any(text.strip() for text in texts))


def _digests(calls: Sequence[object]) -> str:
    size = min(DIGEST_CHARACTERS, CALLS_CHARACTERS_MAX // max(1, len(calls[:CALLS_MAX])) - 1)
    return " ".join(_digest(call)[:size] for call in calls[:CALLS_MAX])


def _digest(call: object) -> str:
    data = text_of(call).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=DIGEST_CHARACTERS // 2).hexdigest()


def _read_compaction(rest: Fields, place: Place, reader: Reader) -> Fields:
    """Read a compaction. A provider's replay replaces the kept messages; only messages after its end are shown then."""
    named = pi.find_first_kept(rest, reader)
    fields = pi.read_compaction(rest, place, reader)
    fields["payload"] |= take(rest, "shortSummary", "method", "fromExtension", "preserveData", "warning")
    fields["brief"].pop("system", None)  # a fact for pi only; oh-my-pi has no such rule
    fields["brief"] |= take_small(rest, tokensAfter="tokens_after")
    kept = fields_of(fields["payload"].get("preserveData"))
    facts = {
        "native": native_of(kept) is not None,
        "rollover": fields_of(fields["payload"].get("details")).get("kind") == _ROLLOVER,
        "pictures": fields["payload"].get("method") == "snapcompact",
    }
    fields["brief"] |= {name: True for name, holds in facts.items() if holds}
    if ("native" in fields["brief"] or "rollover" in fields["brief"]) and reader.chain.has_note_above(named, place):
        fields["brief"]["kept_time"] = read_time(reader.recall(named).get("timestamp"))
    if replay_of(kept):
        through = reader.chain.find(rest.get("providerReplayThroughEntryId"))
        fields["brief"] |= {"replay": True, "through": _above(reader, through, place)}
    return fields


def _above(reader: Reader, name: str | None, place: Place) -> str | None:
    """Return the entry, or its nearest ancestor that is a node if it is on the path to `place`."""
    on_the_way = reader.chain.kept_from(name, place) != name
    return reader.chain.node_at(name) or "" if on_the_way else name


def _read_branch_summary(rest: Fields, place: Place, reader: Reader) -> Fields:
    fields = pi.read_branch_summary(rest, place, reader)
    fields["payload"] |= take(rest, "fromExtension")
    return fields


def _read_custom(rest: Fields, place: Place, reader: Reader) -> Fields:
    fields = pi.read_custom(rest, place, reader)
    fields["payload"] |= take(rest, "attribution")
    return fields


def _read_extension(rest: Fields, place: Place, reader: Reader) -> Fields:
    """Read the state of an extension; for the model's notebook, the brief tells whether it is empty."""
    fields = _read_custom(rest, place, reader)
    if fields["brief"].get("custom_type") == NOTEBOOK and _is_notebook(fields["payload"].get("data")):
        fields["brief"]["notes"] = bool(fields["payload"]["data"]["text"])
    return fields


def _is_notebook(data: object) -> bool:
    if not (isinstance(data, dict) and data.keys() == {"version", "text"} and data["version"] == 1):
        return False
    text = data["text"]
    return isinstance(text, str) and len(text.encode("utf-8", "surrogatepass")) <= _NOTEBOOK_BYTES_MAX


def _read_custom_message(rest: Fields, place: Place, reader: Reader) -> Fields:
    fields = _read_custom(rest, place, reader)
    payload = fields["payload"]
    if not isinstance(payload.get("content"), str | list):
        fields["brief"]["context"] = False
        return fields
    fields["brief"] |= _request({"customType": payload.get("custom_type"), "attribution": payload.get("attribution")})
    return fields


def _read_model_change(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a change of model. The default model is the session's, as in other formats; other roles get own settings."""
    payload = take(rest, "model", "role", "resolvedModelIsFallback")
    name, role = text_of(payload.get("model")), payload.get("role")
    if not name:
        return {"payload": payload}
    if role is not None and role != "default":
        return {"payload": payload, "brief": {"models": {str(role): name}}}
    provider, slash, model = name.partition("/")
    return {"payload": payload, "brief": {"provider": provider, "model": model} if slash else {"model": name}}


def _read_thinking_change(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    return {"kind": "thinking_change", "brief": take_small(rest, thinkingLevel="thinking", configured="configured")}


def _read_tier_change(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    return {"brief": {"tiers": _tiers(rest.get("serviceTier"))}, "payload": take(rest, "serviceTier")}


def _tiers(value: Any) -> dict[str, str] | None:
    """Return tiers by family of models; old files have one word for all families."""
    if isinstance(value, dict):
        return {family: value[family] for family in _FAMILIES if _is_tier(value.get(family))} or None
    if value == "priority":
        return dict.fromkeys(_FAMILIES, "priority")
    if value in ("openai-only", "claude-only"):
        return {"openai" if value == "openai-only" else "anthropic": "priority"}
    return {"openai": value} if _is_tier(value) else None


def _is_tier(value: object) -> bool:
    return isinstance(value, str) and value in _TIERS


def _read_mode_change(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a change of mode. The data of the mode are a setting if they are small."""
    payload = take(rest, "data")
    brief = take_small(rest, mode="mode")
    return {"payload": payload, "brief": brief | ({"data": payload["data"]} if _is_small(payload.get("data")) else {})}


def _read_rules(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read injected rules. Their names are a setting, as many as fit."""
    payload = take(rest, "injectedRules")
    names = payload.get("injectedRules")
    rules = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    while not _is_small(rules):
        rules.pop()
    return {"payload": payload, "brief": {"rules": rules}}


def _is_small(value: object) -> bool:
    return value is not None and len(values.encode(value)) <= SMALL_BYTES_MAX


def _read_title_change(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read an earlier change of the title. The current title is in the slot."""
    return {"payload": take(rest, "title", "previousTitle", "source", "trigger")}


def _read_usage(rest: Fields, place: Place, reader: Reader) -> Fields:
    return {"kind": "usage", **pi.read_usage(rest, place, reader)}


READERS: Final[Mapping[str, ReadEntry]] = {
    "branch_summary": _read_branch_summary,
    "compaction": _read_compaction,
    "custom": _read_extension,
    "custom_message": _read_custom_message,
    "label": pi.read_label,
    "message": _read_message,
    "mode_change": _read_mode_change,
    "model_change": _read_model_change,
    "model_usage": _read_usage,
    "service_tier_change": _read_tier_change,
    "thinking_level_change": _read_thinking_change,
    "title_change": _read_title_change,
    "ttsr_injection": _read_rules,
}


# From a draft back to an entry.


WORDS: Final = pi.Words(
    written={
        "branch_summary": ("fromId", "summary", "details", "fromExtension"),
        "compaction": (
            "summary", "shortSummary", "firstKeptEntryId", "tokensBefore", "tokensAfter", "method",
            "providerReplayThroughEntryId", "details", "fromExtension", "preserveData", "warning",
        ),
        "custom": ("customType", "data"),
        "custom_message": ("customType", "content", "display", "details", "attribution"),
        "label": ("targetId", "label"),
        "message": ("message",),
        "mode_change": ("mode", "data"),
        "model_change": ("model", "role", "resolvedModelIsFallback"),
        "service_tier_change": ("serviceTier",),
        "thinking_level_change": ("thinkingLevel", "configured"),
        "title_change": ("title", "source", "previousTitle", "trigger"),
        "ttsr_injection": ("injectedRules",),
    },
    types={"thinking_change": "thinking_level_change", "note:usage": "model_usage"},
    briefs={
        "firstKeptEntryId": "kept",
        "tokensBefore": "tokens_before",
        "tokensAfter": "tokens_after",
        "thinkingLevel": "thinking",
        "configured": "configured",
        "mode": "mode",
        "label": "label",
    },
    nullable=frozenset({"thinkingLevel", "configured"}),
)  # fmt: skip


def _dialect(load: Load, missing: Callable[[str], None]) -> Dialect:
    """Return the dialect of oh-my-pi for a file with these blobs."""
    return msgspec.structs.replace(
        pi.DIALECT,
        name=NAME,
        notes=NOTES,
        readers={kind: _Resolving(read, load, missing) for kind, read in READERS.items()},
        unknown=_Resolving(pi.read_unknown, load, missing),
        recalled=NOTES,
        read_header=_read_header,
        write=_written,
        one_header=False,
        passed=frozenset({"title"}),
    )


class _Resolving(NamedTuple):
    """A function that resolves the references of an entry, and then reads it by another function."""

    read: ReadEntry
    load: Load
    missing: Callable[[str], None]

    def __call__(self, rest: Fields, place: Place, reader: Reader) -> Fields:
        if has_reference(rest):
            rest |= {name: resolve(part, self.load, self.missing, name) for name, part in rest.items()}
        return self.read(rest, place, reader)


def _written(draft: Draft, parent: str | None) -> Fields:
    return fields_of(externalise(to_record(draft, parent), lambda data: sha256(data).hexdigest()))


def to_record(draft: Draft, parent: str | None) -> Fields:
    """Return the entry from which a draft was made, including its images."""
    return pi.write_record(WORDS, draft, parent)
