"""Session files of evva: one JSON document with the current session.

`docs/reference/programs/evva.md` says which record each part of a document becomes. evva keeps no history: when it
compacts, it replaces all messages by a summary. So a session is a list of messages; the parent of each is the message
before it. The rest of the document is the header. All bytes of the header and the messages are kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from treering.errors import UsageError
from treering.format.values import Fields, fields_of
from treering.kinds import Kind
from treering.programs.common.entry import Entry, as_text
from treering.programs.common.flat import Messages, Record
from treering.programs.common.lines import Value, decode
from treering.programs.common.read_file import ReadFile
from treering.programs.common.reader import text_of
from treering.programs.common.rfc3339 import canonical, read_time
from treering.programs.common.rules import Rules
from treering.programs.common.source import (
    Imported,
    Problem,
    ProblemLog,
    damage_note,
    header_note,
    open_stream,
    read_start,
    uncompressed,
)
from treering.programs.common.spans import Span, elements, members, skip_white, value_end
from treering.programs.common.usage import brief_of, numbers_in
from treering.programs.common.writing import cut_go, encode_go
from treering.programs.evva.policy import message_of, named
from treering.transcript.node import Draft

NAME: Final = "evva"
POLICIES: Final = ("evva",)
VERSION: Final = 1
"""The newest version that evva reads. It refuses newer ones, and reads 0 or none as 1."""
DOCUMENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""The largest document that is read, since the whole document is in memory."""
PREVIEW_BYTES_MAX: Final = 200
"""The most bytes of the first prompt that evva stores; it may be cut inside a character."""

ENVELOPE: Final[Fields] = {
    "version": 0,
    "session_id": "",
    "workdir": "",
    "workdir_slug": "",
    "profile": "",
    "provider": "",
    "model": "",
    "created_at": "0001-01-01T00:00:00Z",
    "updated_at": "0001-01-01T00:00:00Z",
    "first_user_prompt": "",
    "session": {},
}
"""The fields of a document in their order, with evva's defaults."""
USAGE: Final[Fields] = dict.fromkeys(
    ("InputTokens", "OutputTokens", "CacheReadTokens", "CacheCreationTokens", "ReasoningTokens"), 0
)
SESSION: Final[Fields] = {
    "messages": None,
    "usage": USAGE,
    "last_turn_input_tokens": 0,
    "micro_compacted": False,
    "full_compact_count": 0,
}
"""The fields of the document's `session` in their order, with evva's defaults."""

_MARKS: Final = ({"session_id", "workdir"}, {"session_id", "workdir_slug"}, {"session_id", "session"})
"""Groups of names; a document has all names of one group, in any case."""
BOM: Final = b"\xef\xbb\xbf"
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_SPACES: Final = str.maketrans({"\t": " "})


def detect(head: bytes) -> bool:
    """Tell whether a file that begins with `head` is a session of evva: a document with the names of its envelope."""
    text = uncompressed(head).removeprefix(BOM).decode("utf-8", "surrogateescape")
    names = {member.key.lower() for member in members(text, skip_white(text, 0))}
    return any(marks <= names for marks in _MARKS)


def open_source(path: str | os.PathLike[str], *, blobs: Path | None = None) -> EvvaSource:  # noqa: ARG001
    """Open a session file of evva, compressed by gzip or not. evva keeps no parts in separate files.

    Raises:
        UsageError: The file is empty, no such document, too large, or has a newer version.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    place = Path(path)
    with open_stream(place) as stream:
        data = read_start(stream, DOCUMENT_BYTES_MAX + 1)
    if len(data) > DOCUMENT_BYTES_MAX:
        raise UsageError(
            f"document is larger than can be read. path={str(place)!r}, bytes_max={DOCUMENT_BYTES_MAX}",
            kind=Kind.TOO_LONG,
        )
    return EvvaSource(data, place)


def restore(entries: Sequence[Entry]) -> str | None:
    """Return the last message, the only place at which evva continues."""
    return entries[-1].id if entries else None


def encode(record: Mapping[str, object]) -> bytes:
    """Return the bytes that evva writes for a message, indented as in its document."""
    return indent(encode_go(record), levels=3)


def to_record(draft: Draft, parent: str | None) -> Fields:  # noqa: ARG001  # messages name no parent
    """Return the message from which a draft was made."""
    return fields_of(draft.payload)


def indent(data: bytes, *, levels: int = 0) -> bytes:
    """Return JSON indented like that of Go's `MarshalIndent` with two spaces, from a nesting level on."""
    texts: list[bytes] = []

    def hold(text: re.Match[bytes]) -> bytes:
        texts.append(text[0])
        return b'"%d"' % (len(texts) - 1)

    # msgspec refuses lone surrogates, which only programs in JavaScript write. So texts are replaced before formatting.
    lone = b"\\ud" in data
    indented = msgspec.json.format(_TEXT.sub(hold, data) if lone else data, indent=2)
    indented = indented.replace(b"\n", b"\n" + b"  " * levels)
    return _TEXT.sub(lambda name: texts[int(name[0][1:-1])], indented) if lone else indented


def listing(file: ReadFile) -> dict[str, object]:
    """Return the entry of evva's list of sessions."""
    envelope = named({**file.header_record, **file.header.extra}, ENVELOPE)  # only the latter has the first prompt
    shown = ("session_id", "workdir", "profile", "provider", "model", "first_user_prompt")
    times = {name: canonical(envelope[name]) or envelope[name] for name in ("created_at", "updated_at")}
    return {**{name: envelope[name] for name in shown}, **times, "message_count": len(file.entries)}


RULES: Final = Rules(moment=None, label=None, title=None, unknown="empty")


def first_user_prompt(messages: Iterable[Fields]) -> str:
    """Return the prompt that evva shows for a list of its messages: the first text of a user.

    White space at its ends is removed, line breaks are spaces, runs of spaces and tabs are one.
    """
    for message in messages:
        text = str(message["Content"]).strip(_GO_WHITE) if message["Role"] == "user" else ""
        if text:
            line = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ").translate(_SPACES)
            return cut_go(_collapsed(line), PREVIEW_BYTES_MAX)
    return ""


_GO_WHITE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space by Go's `unicode.IsSpace`; Python's `strip` has four more characters."""


def _collapsed(line: str) -> str:
    while "  " in line:
        line = line.replace("  ", " ")
    return line


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of a session."""

    usage: Mapping[str, int] = msgspec.field(default_factory=lambda: dict(USAGE))
    """Tokens since the session began, or since it was last compacted."""
    last_turn_input_tokens: int = 0
    micro_compacted: bool = False
    full_compact_count: int = 0

    def add_usage(self, usage: Mapping[str, int]) -> Counters:
        """Return the counters after a call of a model outside a turn, such as a summary."""
        total = {name: self.usage.get(name, 0) + usage.get(name, 0) for name in USAGE}
        return msgspec.structs.replace(self, usage=total)

    def record_turn(self, usage: Mapping[str, int]) -> Counters:
        """Return the counters after a turn, whose input is the size of the context."""
        return msgspec.structs.replace(self.add_usage(usage), last_turn_input_tokens=usage.get("InputTokens", 0))

    def micro_compact(self) -> Counters:
        """Return the counters after a compaction of tool results only."""
        return msgspec.structs.replace(self, micro_compacted=True)

    def full_compact(self, tokens: int) -> Counters:
        """Return the counters after a compaction to a summary of `tokens` tokens, with which usage restarts."""
        return Counters(
            usage=USAGE | {"InputTokens": tokens},
            last_turn_input_tokens=tokens,
            full_compact_count=self.full_compact_count + 1,
        )


def counters_in(document: Fields) -> Counters:
    """Return the counters of a document; missing or invalid counters have the values of a new session."""
    session = named(fields_of(named(document, {"session": {}})["session"]), SESSION)
    usage = {name: _count(value) for name, value in named(fields_of(session["usage"]), USAGE).items()}
    return Counters(
        usage=usage,
        last_turn_input_tokens=_count(session["last_turn_input_tokens"]),
        micro_compacted=session["micro_compacted"] is True,
        full_compact_count=_count(session["full_compact_count"]),
    )


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def spent_between(before: Counters, now: Counters, time_ms: int | None) -> list[Draft]:
    """Return notes of the usage between two states of a document: of the last turn, and of all other calls.

    If the last turn was in the sums before, as in a document that was cut at its counters, it is taken back from those.
    """
    more = {name: max(0, now.usage[name] - before.usage.get(name, 0)) for name in USAGE}
    size = now.last_turn_input_tokens
    told = 0 if size == before.last_turn_input_tokens else size
    beside = numbers_in(more | {"InputTokens": more["InputTokens"] - told})
    return [
        Draft(type="note", kind="usage", parent=None, time_ms=time_ms, brief=brief_of(spent, turn=turn))
        for spent, turn in (({name: value for name, value in beside.items() if value}, False), ({"input": told}, True))
        if any(spent.values())
    ]


OTHERS: Final = "others"
"""In the source of the header: by index in the list of messages, the bytes of items that are no messages."""
PROMPT_AT: Final = "prompt_at"
"""In the source of the header: where the first prompt stood in the text, in characters; an empty text stands there.

The prompt follows from the messages. A second copy would stay when its message is erased.
"""
_PROMPT: Final = "first_user_prompt"


class Document(NamedTuple):
    """A parsed document."""

    fields: Fields
    """Its members and those of its session, without the messages; for a damaged document, the complete members."""
    rest: str
    """Its text without the contents of its list of messages."""
    at: int
    """The place of the removed contents, in characters; -1 if there is no list."""
    messages: list[Span]
    gaps: list[str]
    """The texts before, between and after the messages."""
    end: int
    """The end of the document, or the beginning of the damage."""
    whole: bool
    """Whether it is complete."""


def take_apart(text: str) -> Document:
    """Find the messages of a document, and the texts between them."""
    start = skip_white(text, 0)
    top = [*members(text, start)]
    session = next((span for span in reversed(top) if span.key.lower() == "session"), None)
    inner = [*members(text, session.start)] if session is not None else []
    found = next((span for span in reversed(inner) if span.key.lower() == "messages"), None)
    fields = {span.key: _value(text, span) for span in top if span.end is not None and span is not session}
    if session is not None:
        whole = [span for span in inner if span.end is not None and span is not found]
        fields[session.key] = {span.key: _value(text, span) for span in whole}
    end, is_whole = _end(text, start, [*top, *inner]), value_end(text, start) is not None
    if found is None or text[found.start : found.start + 1] != "[":
        return Document(fields, text[:end], -1, [], [], end, is_whole)
    messages = [span for span in elements(text, found.start) if span.end is not None]
    at, last = found.start + 1, (messages[-1].end or 0) if messages else found.start + 1
    if found.end is None:
        return Document(fields, text[:at], at, messages, [], last, is_whole)
    ends = [at, *(span.end or 0 for span in messages)]
    starts = [*(span.start for span in messages), found.end - 1]
    gaps = [text[left:right] for left, right in zip(ends, starts, strict=True)]
    return Document(fields, text[:at] + text[found.end - 1 : end], at, messages, gaps, end, is_whole)


def _value(text: str, span: Span) -> Any:
    return decode(as_bytes(text[span.start : span.end]))[0]


def _end(text: str, start: int, spans: Sequence[Span]) -> int:
    """Return the end of the document with the white space after it, or the start of its first unreadable part."""
    broken = [span.start for span in spans if span.end is None]
    whole = value_end(text, start)
    return skip_white(text, whole) if whole is not None else max(broken, default=start)


def put_together(rest: str, at: int, gaps: Sequence[str], messages: Sequence[bytes]) -> bytes:
    """Return the document from the parts that `take_apart` found."""
    data = [as_bytes(rest[:at])]
    for gap, message in zip(gaps, (*messages, b""), strict=True):
        data += [as_bytes(gap), message]
    return b"".join((*data, as_bytes(rest[at:])))


def replaced(text: str, at: int, old: str, new: str) -> str:
    """Return a document's text with another JSON text at a place, as evva writes it."""
    before, after = encode_go(old).decode(), encode_go(new).decode()
    return text[:at] + after + text[at + len(before) :]


def _place_of_prompt(text: str, prompt: str) -> int | None:
    """Return where a document repeats the first prompt as evva writes it; None if it does not."""
    written = encode_go(prompt).decode()
    spans = (span for span in members(text, skip_white(text, 0)) if span.key.lower() == _PROMPT)
    return next((span.start for span in spans if prompt and text[span.start : span.end] == written), None)


def gaps_of(messages: int) -> list[str]:
    """Return the texts that evva writes before, between and after a number of messages."""
    return ["\n      ", *[",\n      "] * (messages - 1), "\n    "] if messages else [""]


def as_bytes(text: str) -> bytes:
    """Return the original bytes of a part of a document's text."""
    return text.encode("utf-8", "surrogateescape")


class EvvaSource:
    """A session file of evva. `ImportSource` documents its members.

    The whole document is in memory, as in evva.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self._bom = data.startswith(BOM)
        self._text = data.removeprefix(BOM).decode("utf-8", "surrogateescape")
        self._document = take_apart(self._text)
        self._log = ProblemLog()
        self.leaf: str | None = None
        if not _is_session(self._document.fields):
            raise UsageError(
                "this is no session file of evva: it is empty, cut short, or no object with a session. "
                f"path={str(path)!r}",
                kind=Kind.FORMAT,
                remedy="name a file that begins with an object that has session_id and session",
            )
        self.header = _read_header(self._document.fields, path)
        if self.header.version > VERSION:
            raise UsageError(
                f"this session of evva is of a newer version than is known. path={str(path)!r}, "
                f"version={self.header.version}, max={VERSION}",
                kind=Kind.VERSION,
                remedy="upgrade treering",
            )

    @property
    def problems(self) -> list[Problem]:
        """The problems found so far."""
        return self._log.problems

    def records(self) -> Iterator[Record]:
        """Yield the messages of the document with their drafts, in its order."""
        self._log, self.leaf = ProblemLog(), None
        if self._bom:
            self._log.report(1, 0, "bom", "byte order mark, skipped")
        yield None, [self._note(), self._on_card()]
        messages = Messages(self.header.session_id, self.header.created_ms, encode)
        settings = self._settings()
        for value in self._values():
            if isinstance(value.value, dict):
                role = named(value.value, {"Role": ""})["Role"]
                first = [messages.settle(settings)] if settings else []
                settings = {}
                entry, drafts = messages.add(value.value, value, str(role))
                yield entry, [*first, *drafts]
            else:
                self._log.report(value.line, value.offset, "no_object", "this is no message, kept as a note")
                yield None, [damage_note(messages.aside(), "no_object", value.line, value.offset, value.raw)]
        yield from self._behind(messages)
        self.leaf = messages.leaf

    @staticmethod
    def word(message: object) -> Fields:
        """Return a message in evva's format; equal for messages with the same contents."""
        return message_of(message)

    @staticmethod
    def write(message: Fields) -> bytes:
        """Return the bytes that evva writes for a message in its format, indented as in its document."""
        return encode(message)

    def drafts(self) -> Iterator[Draft]:
        """Yield the drafts of the document, in its order."""
        for _, drafts in self.records():
            yield from drafts

    def _settings(self) -> Fields:
        """Return the model of the session, which becomes a change of settings before the first message."""
        found = named(self._document.fields, {"provider": None, "model": None})
        return {name: value for name, value in found.items() if isinstance(value, str) and value}

    def _note(self) -> Draft:
        """Return the note with the header: the members of a damaged document; otherwise also its exact text."""
        document, header = self._document, self.header
        text = document.rest if document.whole else encode_go(document.fields).decode("utf-8", "surrogateescape")
        prompt = self._first_prompt()
        at = _place_of_prompt(text, prompt)
        if at is not None:
            text = replaced(text, at, prompt, "")
            extra = {name: value for name, value in header.extra.items() if (name.lower(), value) != (_PROMPT, prompt)}
            header = msgspec.structs.replace(header, extra=extra)
        note = header_note(header, as_bytes(text))
        if not document.whole:
            return note
        source = dict(note.source or {})
        if at is not None:
            source[PROMPT_AT] = at
        if document.at >= 0:
            source["at"] = document.at
        others = {str(at): self._raw(span) for at, span in enumerate(document.messages) if not self._is_object(span)}
        if others:
            source[OTHERS] = {at: as_text(raw) for at, raw in others.items()}
        if document.gaps not in ([], gaps_of(len(document.messages))):
            source["gaps"] = document.gaps
        return msgspec.structs.replace(note, source=source)

    def _on_card(self) -> Draft:
        """Return the note that puts facts on the card, so that lists show the same as evva's own list and screen."""
        counters = msgspec.to_builtins(counters_in(self._document.fields))
        facts = {"profile": text_of(named(self._document.fields, {"profile": ""})["profile"]), **counters}
        facts = {name: value for name, value in facts.items() if name != "usage" and value not in ("", 0)}
        fields: Fields = {"fields": [f"{NAME}/{name}" for name in facts]}
        created = self.header.created_ms or 0
        return Draft(type="note", kind="card", parent=None, time_ms=created, payload={NAME: facts}, brief=fields)

    def spent(self, before: Counters | None) -> list[Draft]:
        """Return notes of the usage that the document counts, without the usage that was known before."""
        return spent_between(before or Counters(), counters_in(self._document.fields), self.header.created_ms or 0)

    def _first_prompt(self) -> str:
        spans = filter(self._is_object, self._document.messages)
        return first_user_prompt(message_of(decode(self._raw(span))[0]) for span in spans)

    def _raw(self, span: Span) -> bytes:
        return as_bytes(self._text[span.start : span.end])

    def _is_object(self, span: Span) -> bool:
        return self._text.startswith("{", span.start)

    def _values(self) -> Iterator[Value]:
        line, offset, done = 1, len(BOM) if self._bom else 0, 0
        for span in self._document.messages:
            before = self._text[done : span.start]
            line, offset = line + before.count("\n"), offset + len(as_bytes(before))
            raw = self._raw(span)
            value, replaced = decode(raw)
            if replaced:
                self._log.report(line, offset, "utf8", "bytes that are not UTF-8 were replaced by U+FFFD")
            yield Value(value, line, offset, intact=True, raw=raw)
            line, offset, done = line + raw.count(b"\n"), offset + len(raw), span.end or 0

    def _behind(self, messages: Messages) -> Iterator[Record]:
        """Keep the bytes after the document, or after the last readable message."""
        left = self._text[self._document.end :]
        if left.strip() or not self._document.whole:
            line = self._text.count("\n", 0, self._document.end) + 1
            offset = len(as_bytes(self._text[: self._document.end]))
            kind = "garbage" if self._document.whole else "torn"
            what = "this is no part of the document" if kind == "garbage" else "the document ends early"
            self._log.report(line, offset, kind, f"{what}. bytes={len(as_bytes(left))}, text={left[:60]!r}")
            yield None, [damage_note(messages.aside(), kind, line, offset, as_bytes(left))]


def _is_session(fields: Mapping[str, object]) -> bool:
    names = {name.lower(): value for name, value in fields.items()}
    return any(marks <= names.keys() for marks in _MARKS) and isinstance(names.get("session"), dict)


def _read_header(fields: Fields, path: Path) -> Imported:
    """Return the facts of a document; a session without an id gets the file's name."""
    envelope = named(fields, ENVELOPE)
    version = envelope["version"]
    return Imported(
        format=NAME,
        version=version if type(version) is int else VERSION,
        session_id=text_of(envelope["session_id"]) or path.name.removesuffix(".gz").removesuffix(".json"),
        cwd=text_of(envelope["workdir"]),
        created_ms=read_time(envelope["created_at"]),
        extra={name: value for name, value in fields.items() if name not in ("version", "session_id", "workdir")},
    )
