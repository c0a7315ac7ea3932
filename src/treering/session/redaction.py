"""Apply a function of the caller to every text before it is stored.

It is applied to drafts when they become records, to the content of checkpoints, and to the card of a new session: the
places where values become bytes. All stored data passed one of these places, or was stored before.

Rule 1: signed or encrypted texts stay as they are, with everything in the same object; see `blobs.is_signed`.
Rule 2: texts that give a session its structure stay: ids, roles, types, and names of fields. Inside the arguments of a
tool call these names have no such meaning, and the function gets every text.
Rule 3: base64 does not count as text: a `data:` URL, a value next to a media type, and any long base64 string.
Rule 4: the function may get a text a second time, in the form that it returned. So it must be idempotent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from treering.errors import UsageError
from treering.format.blobs import is_signed, read_base64
from treering.format.register import Card
from treering.kinds import Kind
from treering.messages import signed_fields
from treering.session.state import ORIGIN
from treering.transcript.node import Draft


class Redactor(Protocol):
    """A function that gets every text before it is stored, and returns the text to store. It must be idempotent."""

    def __call__(self, text: str, /) -> str: ...


BASE64_CHARACTERS_MIN: Final = 1024
"""Shorter base64 that is not marked as data counts as text: an API key may look like that."""
_MEDIA_TYPES: Final = frozenset({"mimeType", "mime_type", "mediaType", "media_type"})
IDENTIFYING: Final = _MEDIA_TYPES.union(
    {"id", "role", "type", "kind", "parentId", "parent_id"},
    {"tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "callId"},
)
"""Names of fields whose texts stay."""
_IDENTIFYING_IN: Final[Mapping[str, frozenset[str]]] = {
    "link": frozenset({"fork", "child"}),
    "compaction": frozenset({"kept"}),
    "context_edit": frozenset({"target"}),
    ORIGIN: frozenset(
        {"session", "format", "path", "digest", "header", "tail", "leaf", "head", "parent", "parent_session"}
    ),
}
"""Further fields whose texts stay, at the top of payload and brief, by kind. Imports recognise files by the origin."""
_ARGUMENTS: Final = frozenset({"arguments", "input", "Input", "args"})
_CARD_TEXTS: Final = ("title", "project", "cwd", "task", "status")
_RAW, _ORDER, _AT = "raw", "order", "at"  # in the source of a draft, see `treering.programs.common.entry`

_begin = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"  # also after a line break inside JSON text
_KEY_SHAPES: Final = (
    _begin + r"sk-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic and similar
    _begin + r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])",  # AWS, ids of access keys
    _begin + r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
    _begin + r"xox[a-z]-[A-Za-z0-9-]{10,}",  # Slack
    _begin + r"AIza[0-9A-Za-z_-]{35}",  # Google
    r"(?s:-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----)",
)


def redact_patterns(
    patterns: Iterable[str | re.Pattern[str]] = (), *, keys: bool = True, replacement: str = "[redacted]"
) -> Redactor:
    """Return a redactor that replaces every match of some regular expressions.

    Args:
        patterns: Searched one after the other, anywhere in a text.
        keys: Also search for keys of well-known shapes: `sk-...`, ids of AWS access keys, tokens of GitHub and Slack,
            API keys of Google, private keys in PEM. Texts that only look random are not found.
        replacement: Replaces each match, as it is. None of the patterns may match it.

    Raises:
        UsageError: A pattern is no regular expression, or matches the replacement.
    """
    try:
        compiled = [re.compile(pattern) for pattern in (*patterns, *(_KEY_SHAPES if keys else ()))]
    except re.error as error:
        raise UsageError(f"not a regular expression: {error}. pattern={error.pattern!r}", kind=Kind.REDACTOR) from error
    for pattern in compiled:
        if pattern.search(replacement):
            raise UsageError(
                f"pattern matches the replacement. pattern={pattern.pattern!r}, replacement={replacement!r}",
                kind=Kind.REDACTOR,
            )

    def redact(text: str) -> str:
        for pattern in compiled:
            text = pattern.sub(lambda _: replacement, text)
        return text

    return redact


class Redaction:
    """Applies a redactor to values before they are stored. The caller's objects are not changed."""

    def __init__(self, redactor: Redactor) -> None:
        if not callable(redactor):  # callers are not always type-checked
            raise UsageError(
                f"a redactor is a function from str to str. got={type(redactor).__name__}", kind=Kind.REDACTOR
            )
        self._redactor = redactor

    def text(self, text: str, where: str) -> str:
        """Return a text as it may be stored.

        Raises:
            UsageError: The redactor raised, or returned no text. The message has `where`, never the text itself.
        """
        try:
            found = self._redactor(text)
        except Exception as error:
            raise UsageError(
                f"redactor failed, nothing was written. at={where!r}, error={type(error).__name__}", kind=Kind.REDACTOR
            ) from error
        if type(found) is not str:
            got = type(found).__name__
            raise UsageError(
                f"redactor must return a str, nothing was written. at={where!r}, got={got}", kind=Kind.REDACTOR
            )
        return found

    def value(self, value: Any, where: str, identifying: frozenset[str] = frozenset()) -> Any:
        """Return a value with all its texts redacted.

        Args:
            value: As the caller passed it.
            where: Its place, for error messages.
            identifying: Further names of fields at its top whose texts stay.

        Raises:
            UsageError: As for `text`, or the value is nested too deep.
        """
        try:
            return self._value(value, where, identifying=IDENTIFYING | identifying)
        except RecursionError as error:
            raise UsageError(f"value is nested too deep. at={where[:40]!r}", kind=Kind.VALUE) from error

    def _value(self, value: Any, where: str, *, identifying: frozenset[str]) -> Any:
        kind = type(value)
        if kind is str:
            return value if _is_data(value) else self.text(value, where)
        if kind is dict:
            return value if is_signed(value) else self._fields(value, where, identifying)
        if kind in (list, tuple, set, frozenset):
            inner = identifying & IDENTIFYING
            return kind(self._value(item, f"{where}[{at}]", identifying=inner) for at, item in enumerate(value))
        return value

    def _fields(self, fields: dict[Any, Any], where: str, identifying: frozenset[str]) -> dict[Any, Any]:
        found = {}
        for name, signed in signed_fields().items():
            if fields.get(name):
                identifying |= signed
        holds_media = not _MEDIA_TYPES.isdisjoint(fields)
        for key, item in fields.items():
            stays = key in identifying or (holds_media and key == "data" and _is_base64(item))
            if type(item) is not str or not stays:
                inner = frozenset[str]() if key in _ARGUMENTS else identifying & IDENTIFYING
                item = self._value(item, f"{where}.{key}", identifying=inner)  # noqa: PLW2901  # as it is stored
            found[key] = item
        return found

    def draft(self, draft: Draft) -> Draft:
        """Return a draft as it may be stored: payload, brief, and the kept fields of a foreign record."""
        names = _IDENTIFYING_IN.get(draft.kind, frozenset())
        return msgspec.structs.replace(
            draft,
            payload=self.value(draft.payload, "payload", names),
            brief=self.value(draft.brief, "brief", names),
            source=None if draft.source is None else self._source(draft.source),
        )

    def _source(self, source: dict[str, object]) -> dict[str, object]:
        """Redact the kept fields of a foreign record, or its bytes."""
        rest = {name: part for name, part in source.items() if name not in (_RAW, _ORDER)}
        found: dict[str, object] = source | self.value(rest, "source")
        raw, at = source.get(_RAW), source.get(_AT)
        if not isinstance(raw, str | bytes):
            return found
        text = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")
        if type(at) is int and at >= 0:  # the rest of a document, and the place where a part was taken out of it
            before = self.text(text[:at], "source.raw")
            text, found[_AT] = before + self.text(text[at:], "source.raw"), len(before)
        else:
            text = self._record(text)
        found[_RAW] = text if isinstance(raw, str) else text.encode("utf-8", "surrogateescape")
        return found

    def _record(self, text: str) -> str:
        """Redact the text of a foreign record: part by part if it is JSON, so that signed parts stay."""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text, "source.raw")
        found = self.value(record, "source.raw")
        return text if found == record else json.dumps(found, separators=(",", ":"))

    def card(self, card: Card) -> Card:
        """Return the card of a new session as it may be stored."""
        texts = {name: self.text(text, name) for name in _CARD_TEXTS if (text := getattr(card, name))}
        return msgspec.structs.replace(card, **texts, extra=self.value(card.extra, "extra"))


def _is_data(text: str) -> bool:
    """Whether a text is base64 beyond doubt."""
    if len(text) < BASE64_CHARACTERS_MIN and not text.startswith("data:"):
        return False
    found = read_base64(text)
    return found is not None and (found[1] != "" or len(text) >= BASE64_CHARACTERS_MIN)


def _is_base64(text: object) -> bool:
    return type(text) is str and read_base64(text) is not None
