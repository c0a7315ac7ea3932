"""Makes sessions of oh-my-pi: single entries by hand, whole files by chance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from tests.programs.pi.reading import HEADER

from treering.programs.common.writing import encode_javascript
from treering.programs.omp.title_slot import TitleSlot, build_title_slot

SLOT = build_title_slot(TitleSlot("A title", "auto", "2026-01-05T08:00:01.000Z"))
Entry = dict[str, Any]

_TEXTS = st.sampled_from(["", "hello", "日本語", "a\u2028b", "\ud83d", 'quote"s'])
_CALLS = st.sampled_from(["c1", "c2", "c3", "call_4|fc_" + "x" * 200])


def entry(kind: str, identifier: str, parent: str | None, /, **fields: Any) -> Entry:
    """Return an entry; entries of one file are a second apart."""
    seconds = int(identifier[1:]) if identifier[1:].isdigit() else 1
    time = f"2026-01-05T08:{seconds // 60:02}:{seconds % 60:02}.000Z"
    return {"type": kind, "id": identifier, "parentId": parent, "timestamp": time, **fields}


def user(identifier: str, parent: str | None, text: object = "hello") -> Entry:
    """Return a message of a user."""
    return entry("message", identifier, parent, message={"role": "user", "content": text, "timestamp": 1767600000001})


def assistant(identifier: str, parent: str | None, *blocks: Entry, stop: str = "stop", **more: Any) -> Entry:
    """Return a turn of the model."""
    named = {"api": "x", "provider": "anthropic", "model": "claude"}
    message = {"role": "assistant", "content": list(blocks), **named, "stopReason": stop, "timestamp": 1767600000002}
    return entry("message", identifier, parent, message=message | more)


def result(identifier: str, parent: str | None, call: str) -> Entry:
    """Return the result of a tool call."""
    message = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": [text("ok")], "isError": False}
    return entry("message", identifier, parent, message=message)


def text(words: str = "words") -> Entry:
    """Return a block of text."""
    return {"type": "text", "text": words}


def call(identifier: str) -> Entry:
    """Return a block with a tool call."""
    return {"type": "toolCall", "id": identifier, "name": "bash", "arguments": {}}


def thinking(signature: str | None = "sig") -> Entry:
    """Return a block of thinking."""
    return {"type": "thinking", "thinking": "hmm"} | ({"thinkingSignature": signature} if signature else {})


def redacted() -> Entry:
    """Return a block of encrypted thinking."""
    return {"type": "redactedThinking", "data": "secret"}


def file_of(*entries: Any, header: Any = HEADER, slot: bytes = SLOT) -> bytes:
    """Return a session file."""
    return slot + b"".join(encode_javascript(record) + b"\n" for record in (header, *entries))


def written(folder: Path, *entries: Any, header: Any = HEADER, slot: bytes = SLOT) -> Path:
    """Write a session file and return its path."""
    path = folder / "session.jsonl"
    path.write_bytes(file_of(*entries, header=header, slot=slot))
    return path


@st.composite
def sessions(draw: st.DrawFn, entries_max: int = 24) -> list[Entry]:
    """Draw the entries of a session: a tree with all that a policy looks at, and ids that are used for many calls."""
    count = draw(st.integers(1, entries_max))
    made: list[Entry] = []
    for number in range(count):
        ids = [row["id"] for row in made]
        parent = draw(st.sampled_from([None, *ids[-3:], *ids[-1:] * 6])) if ids else None
        made.append(draw(_entry(f"n{number}", parent, ids)))
    return made


@st.composite
def _entry(draw: st.DrawFn, name: str, parent: str | None, ids: list[str]) -> Entry:
    some = st.sampled_from([*ids, name, "gone"])
    kind = draw(st.sampled_from([*["turn"] * 6, *["result"] * 4, *["user"] * 3, *_OTHERS]))
    match kind:
        case "user":
            return user(name, parent, draw(_TEXTS))
        case "turn":
            return draw(_turn(name, parent))
        case "result":
            return result(name, parent, draw(_CALLS))
        case "compaction":
            kept: Entry = draw(_compaction(some))
            return entry("compaction", name, parent, **kept)
        case "branch_summary":
            return entry(kind, name, parent, fromId=draw(some), summary=draw(_TEXTS))
        case "label":
            own: Entry = draw(st.sampled_from([{}, {"label": "here"}]))
            return entry(kind, name, parent, targetId=draw(some), **own)
        case "custom_message":
            return _first(entry(kind, name, parent), draw(_custom_message()))
        case "custom":
            return _first(entry(kind, name, parent), draw(_OTHERS[kind]))
    return entry(kind, name, parent, **draw(_OTHERS[kind]))


@st.composite
def _turn(draw: st.DrawFn, name: str, parent: str | None) -> Entry:
    blocks = st.one_of(
        _TEXTS.map(text), _CALLS.map(call), _CALLS.map(call), st.builds(thinking), st.builds(redacted),
        st.just(thinking(None)),
    )  # fmt: skip
    stop = draw(st.sampled_from(["stop", "toolUse", "toolUse", "error", "aborted"]))
    more: Entry = draw(
        st.sampled_from([{}, {}, {}, {"retryRecovery": True}, {"provider": "openai", "model": "gpt"}, COPILOT])
    )
    return assistant(name, parent, *draw(st.lists(blocks, max_size=4)), stop=stop, **more)


@st.composite
def _compaction(draw: st.DrawFn, some: st.SearchStrategy[str]) -> Entry:
    fields = {"summary": "S", "firstKeptEntryId": draw(some), "tokensBefore": 1000}
    replay = {"openaiRemoteCompaction": {"provider": "openai", "replacementHistory": [{"type": "message"}]}}
    native = {"anthropicCompaction": {"provider": "anthropic", "content": "S", "encryptedContent": ""}}
    more = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "shortSummary": st.just("s"),
                "tokensAfter": st.just(10),
                "method": st.sampled_from(["soft", "snapcompact", "snapcompact"]),
                "warning": st.just("full"),
                "providerReplayThroughEntryId": some,
                "preserveData": st.sampled_from([replay, {"hook": 1}, native, native | replay]),
                "details": st.just({"kind": "experimental-context-rollover"}),
            },
        )
    )
    order = ("summary", "shortSummary", "firstKeptEntryId", "tokensBefore", "tokensAfter", "method")
    all_fields = fields | more
    return {name: all_fields[name] for name in (*order, *all_fields) if name in all_fields}


@st.composite
def _custom_message(draw: st.DrawFn) -> Entry:
    kinds = ["ext", "interrupted-thinking", "interrupted-thinking", "prewalk-plan", "vibe-mode-context", "skill-prompt"]
    kind = draw(st.sampled_from(kinds))
    content = draw(st.sampled_from(["text", [text()], None]))
    fields = {"customType": kind, "content": content, "display": draw(st.booleans())}
    return fields | draw(
        st.sampled_from([{}, {"details": {"d": 1}}, {"attribution": "agent"}, {"attribution": "user"}])
    )


def _first(envelope: Entry, own: Entry) -> Entry:
    """Put own fields before id, parent and time, as oh-my-pi does it here."""
    return {"type": envelope["type"], **own, **envelope}


COPILOT = {"provider": "github-copilot", "providerPayload": {"type": "openaiResponsesHistory", "items": []}}
"""Of a turn with a replay that is good only as long as a connection lasts."""
_NOTES = st.sampled_from([{"version": 1, "text": "remember"}, {"version": 1, "text": ""}, {"version": 2, "text": "x"}])
_LEVELS = st.sampled_from([None, "low", "high"])
_OTHERS: dict[str, st.SearchStrategy[Entry]] = {
    "compaction": st.nothing(),
    "branch_summary": st.nothing(),
    "label": st.nothing(),
    "custom_message": st.nothing(),
    "custom": _NOTES.map(lambda data: {"customType": "experimental_context_notes", "data": data}),
    "reset_boundary": st.just({}),
    "thinking_level_change": st.builds(lambda level, own: {"thinkingLevel": level, **own}, _LEVELS, st.one_of(
        st.just({}), _LEVELS.map(lambda level: {"configured": level}))),
    "model_change": st.sampled_from([
        {"model": "openai/gpt-4o"}, {"model": "a/b/c", "role": "default"}, {"model": "groq/l", "role": "smol"},
        {"model": "local", "role": "fallback", "resolvedModelIsFallback": True},
    ]),
    "mode_change": st.sampled_from([{"mode": "plan", "data": {"planFile": "/p"}}, {"mode": "none"}]),
    "service_tier_change": st.sampled_from([{"serviceTier": {"openai": "flex"}}, {"serviceTier": None}]),
    "ttsr_injection": st.lists(st.sampled_from("abc"), max_size=3).map(lambda rules: {"injectedRules": rules}),
    "title_change": st.just({"title": "New", "source": "user", "previousTitle": "Old"}),
    "credential_pin": st.just({"provider": "anthropic", "hash": "00ff"}),
    "session_init": st.just({"systemPrompt": "sp", "task": "do", "tools": ["read"]}),
    "model_usage": st.just({"purpose": "title", "api": "x", "provider": "p", "model": "m", "usage": {"input": 1}}),
    "unheard_of": st.just({"x": [1.5, None, {"y": "z"}]}),
}  # fmt: skip


_VALUES: st.SearchStrategy[Any] = st.sampled_from([
    None, 0, -1.5, "", "n0", [], {}, [None], {"a": 1}, True, "blob:sha256:zz", [[]],
    {"type": "image", "data": "blob:sha256:" + "0" * 64}, {"type": "toolCall", "id": ["c1"]},
])  # fmt: skip


@st.composite
def damaged_sessions(draw: st.DrawFn) -> list[Any]:
    """Draw a session of which some fields hold anything at all."""
    entries: list[Any] = json.loads(json.dumps(draw(sessions(entries_max=10))))
    for _ in range(draw(st.integers(1, 4))):
        holder, name = draw(st.sampled_from(_places(entries)))
        holder[name] = json.loads(json.dumps(draw(_VALUES)))
    return entries


def _places(value: Any) -> list[tuple[Any, Any]]:
    names = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for name in names for place in [(value, name), *_places(value[name])]]
