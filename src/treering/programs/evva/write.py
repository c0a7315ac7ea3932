"""Sessions as files of evva: one document, with the context at the session's head.

evva keeps no history. An unchanged session gives exactly the bytes of its document. Otherwise the messages are those of
the context, imported messages with their own bytes, and the counters continue. Other branches, labels and nodes outside
the context are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from treering.api.view import View
from treering.checkpoint.context import Context
from treering.checkpoint.policy import Seen, find_policy, render
from treering.format import values
from treering.format.values import Fields, fields_of
from treering.programs.common.blocks import LOST, lost
from treering.programs.common.entry import RAW, as_bytes
from treering.programs.common.rfc3339 import write_time
from treering.programs.common.stored import NO_JSON, VALUES, Stored, header_in, is_fork, stored_drafts
from treering.programs.common.target import NOT_WRITTEN, UNTOLD, Composed, LeftOut
from treering.programs.common.usage import spelled
from treering.programs.common.words import SPELLED, WORDS, digest_of
from treering.programs.common.writing import encode_go, plain
from treering.programs.evva.policy import MESSAGE, named
from treering.programs.evva.read import (
    ENVELOPE,
    NAME,
    OTHERS,
    PROMPT_AT,
    SESSION,
    USAGE,
    VERSION,
    Counters,
    counters_in,
    encode,
    first_user_prompt,
    gaps_of,
    indent,
    put_together,
    replaced,
)
from treering.session.reader import Readable
from treering.session.state import ORIGIN
from treering.storage.requests import Steps
from treering.store.info import SessionInfo
from treering.transcript.node import MESSAGES, Draft

_PERSISTED: Final = MESSAGES | {"branch_summary", "compaction", "model_change", "usage"}
"""Kinds that are part of the document, as a message or in a counter."""
_NO_WORD: Final = "evva has no such record"
_NUMBERS: Final = {
    "input": "InputTokens",
    "output": "OutputTokens",
    "cache_read": "CacheReadTokens",
    "cache_write": "CacheCreationTokens",
    "reasoning": "ReasoningTokens",
}
"""Names of usage counts in Treering, and in evva."""


def compose(view: View) -> Composed:
    """Make evva's document of a session."""
    records = [*stored_drafts(view, NAME, copies=True)]
    drafts = {each.draft.id: each for each in records if each.draft.type == "node"}
    context = view.perform(_context)
    messages = [_rendered(item.node, item.view, item.message, drafts) for item in context.items]
    parts = [_bytes_of(item.node, item.view, item.message, drafts) for item in context.items]
    header = _header_among(records)
    since = _since(view, records)
    if header is not None and not is_fork(view.info) and not _is_changed(view, records, since, header, messages):
        prompt = first_user_prompt(map(fields_of, messages))
        data = _as_it_was(header, _spelled(header, messages) or parts, prompt)
        records = [each for each in records if not _is_damage(each.draft, "no_object")]  # these are included
    else:
        model = _model(context, header, since)
        document = _document(view.info, header, model, messages, _counted(view, since, header))
        data = _written(document, parts)
    left_out = [*_left(view.info, records, context), *_lost(context, drafts)]
    return Composed(data=[data], entry_ids=None, labels=None, left_out=left_out, messages=messages)


def counters_of(view: View) -> Counters:
    """Return the counters that a document of the session has now."""
    records = [*stored_drafts(view, NAME, copies=True)]
    return _counted(view, _since(view, records), _header_among(records))


def _header_among(records: Sequence[Stored]) -> Draft | None:
    """Return the newest header that is one of evva's."""
    header = header_in(records)
    return header if header is not None and fields_of(header.payload).get("format") == NAME else None


def _context(reader: Readable) -> Steps[Context]:
    """Return the context by evva's policy, including edits."""
    index = yield from reader.replica.index()
    built = find_policy(NAME).build(index.graph.path(reader.replica.state.tip), index.graph)
    return (yield from reader.content.edited(built))


def _rendered(node: str, view: str, inline: bytes | None, drafts: Mapping[str | None, Stored]) -> object:
    if inline is not None:
        return render(MESSAGE, plain(values.decode(inline)), Seen(node, 0, {}, {}))
    draft = drafts[node].draft
    return render(view, draft.payload, Seen(node, draft.time_ms or 0, draft.links or {}, draft.brief or {}))


def _bytes_of(node: str, view: str, inline: bytes | None, drafts: Mapping[str | None, Stored]) -> bytes:
    """Return the bytes of a message: the original ones if it was imported and not edited."""
    stored = drafts[node]
    if inline is None and stored.imported and view == MESSAGE:
        raw = (stored.draft.source or {}).get(RAW)
        return as_bytes(raw) if raw is not None else encode(fields_of(stored.draft.payload))
    return encode(fields_of(_rendered(node, view, inline, drafts)))


def _since(view: View, records: Sequence[Stored]) -> list[Draft]:
    """Return the records that were made in Treering and are in no imported document yet.

    Records that are no nodes count as included in a document if they were recorded before it was read.
    """
    path = set(view.path())
    since: list[Draft] = []
    above: dict[str | None, str | None] = {}
    read_ms = None
    for draft, imported, *_ in records:
        if draft.type == "node":
            above[draft.id] = draft.parent if isinstance(draft.parent, str) else None
        if draft.kind == ORIGIN:
            facts = fields_of(draft.payload)
            if facts.get("format") == NAME and facts.get("size") and facts.get("imported_ms") != read_ms:
                read_ms, leaf = facts.get("imported_ms"), facts.get("leaf")
                held = _way(leaf, above) if any(each.type == "node" for each in since) else set()
                if all(each.id in held for each in since if each.type == "node" and each.id in path):
                    since = []
        elif not imported and draft.kind not in NOT_WRITTEN:
            since.append(draft)
    return since


def _way(leaf: Any, above: Mapping[str | None, str | None]) -> set[str | None]:
    found: set[str | None] = set()
    while leaf is not None and leaf not in found:
        found.add(leaf)
        leaf = above.get(leaf)
    return found


def _is_changed(
    view: View, records: Sequence[Stored], since: Sequence[Draft], header: Draft, messages: Sequence[object]
) -> bool:
    """Tell whether new records change the document, or the session's head moved.

    A document that ended early must be completed, so it counts as changed; so does one of which something was erased,
    since what is kept of it besides the messages repeats the first prompt.
    """
    if since or any(each.erased or _is_damage(each.draft, "torn") for each in records):
        return True
    words = (header.source or {}).get(WORDS)
    if words is not None:
        return bool(words != digest_of([fields_of(message) for message in messages]))
    nodes = [each.draft.id for each in records if each.draft.type == "node"]
    return view.node != (nodes[-1] if nodes else None)


def _is_damage(draft: Draft, kind: str) -> bool:
    return draft.kind == "damage" and fields_of(draft.payload).get("kind") == kind


def _spelled(header: Draft, messages: Sequence[object]) -> list[bytes]:
    """Return the messages' bytes if the imported document includes messages recorded in Treering; else no bytes."""
    source: Mapping[str, Any] = header.source or {}
    if WORDS not in source:
        return []
    spelled = source.get(SPELLED) or {}
    written = (encode(fields_of(message)) for message in messages)
    return [as_bytes(spelled[str(at)]) if str(at) in spelled else data for at, data in enumerate(written)]


def _as_it_was(header: Draft, parts: Sequence[bytes], prompt: str) -> bytes:
    source: Mapping[str, Any] = header.source or {}
    parts = _with_others(parts, source.get(OTHERS) or {})
    rest, at = as_bytes(source[RAW]).decode("utf-8", "surrogateescape"), source.get("at", -1)
    if PROMPT_AT in source:
        rest = replaced(rest, source[PROMPT_AT], "", prompt)
    if at < 0:
        return rest.encode("utf-8", "surrogateescape")
    return put_together(rest, at, source.get("gaps", gaps_of(len(parts))), parts)


def _with_others(parts: Sequence[bytes], others: Mapping[str, object]) -> list[bytes]:
    """Return the items of the list of messages, including those that are no messages."""
    messages = iter(parts)
    places = range(len(parts) + len(others))
    return [as_bytes(others[str(at)]) if str(at) in others else next(messages) for at in places]


def _model(context: Context, header: Draft | None, since: Sequence[Draft]) -> Fields:
    """Return provider and model if there is no file, or they were changed in Treering since."""
    if header is None:
        chosen = [dict(context.settings)]
    else:
        chosen = [dict(draft.brief or {}) for draft in since if draft.kind == "model_change"]
    return {name: text for each in chosen for name in ("provider", "model") if (text := each.get(name))}


def _document(
    info: SessionInfo, header: Draft | None, model: Fields, messages: Sequence[object], counters: Counters
) -> Fields:
    """Return the document without its messages: the file's document, with later changes."""
    old = _old_fields(header)
    made = {
        "session_id": info.id,
        "workdir": info.cwd,
        "created_at": write_time(info.created_ms),
        **({} if is_fork(info) else named(old, ENVELOPE) if old else {}),
        **model,
        "version": VERSION,
        "updated_at": write_time(info.updated_ms),
        "first_user_prompt": first_user_prompt(map(fields_of, messages)),
    }
    known = {name.lower() for name in ENVELOPE}
    extra = {name: value for name, value in old.items() if name.lower() not in known}
    session = fields_of(named(old, {"session": {}})["session"])
    extra_of_session = {name: value for name, value in session.items() if name.lower() not in SESSION}
    counted = {name: getattr(counters, name) for name in SESSION if name != "messages"}
    return named(made, ENVELOPE) | {"session": {"messages": [], **counted, **extra_of_session}} | extra


def _old_fields(header: Draft | None) -> Fields:
    """Return the imported document without its messages."""
    payload = fields_of(header.payload) if header is not None else {}
    facts = {"session_id": payload.get("session_id"), "workdir": payload.get("cwd")}
    return {**facts, **fields_of(payload.get("extra"))} if payload else {}


def _counted(view: View, since: Sequence[Draft], header: Draft | None) -> Counters:
    """Return the counters of the document, updated by later usage and compactions on the path."""
    counters = counters_in(_old_fields(header))
    path = set(view.path())
    for draft in since:
        brief = draft.brief or {}
        if draft.kind == "compaction" and draft.id in path:
            counters = counters.full_compact(_number(brief, "tokens_after"))
        elif draft.kind == "usage" and draft.type == "note":
            counters = _spent(counters, brief)
    return counters


def _spent(counters: Counters, brief: Fields) -> Counters:
    numbers = {name: int(value) for name, value in spelled(brief, _NUMBERS).items()}
    if brief.get("reset") is True:
        counters = msgspec.structs.replace(counters, usage=USAGE)
    return counters.add_usage(numbers) if brief.get("turn") is False else counters.record_turn(numbers)


def _number(brief: Mapping[str, object], *names: str) -> int:
    found = next((brief[name] for name in names if name in brief), 0)
    return int(found) if isinstance(found, int | float) else 0


def _written(document: Fields, parts: Sequence[bytes]) -> bytes:
    """Return the bytes that evva writes for a document, with the given bytes of its messages."""
    text = indent(encode_go(document)).decode()
    at = text.index('"messages": [') + len('"messages": [')
    return put_together(text, at, gaps_of(len(parts)), parts)


def _left(info: SessionInfo, records: Sequence[Stored], context: Context) -> list[LeftOut]:
    """Return the records of the session that are not in the document, and its title."""
    shown = set(context.nodes)
    left: Counter[tuple[str, str]] = Counter()
    titled = any(each.draft.kind == "title" for each in records)
    lacked = sum(each.lacked for each in records if each.draft.id in shown or each.draft.target in shown)
    told = [LeftOut(VALUES, lacked, NO_JSON, seen=True)] if lacked else []
    left["title", _NO_WORD] += bool(info.title) and not titled
    for draft in (each.draft for each in records):
        if draft.type == "node" and draft.kind in MESSAGES and draft.id not in shown:
            left[draft.kind, "not in the context, and evva keeps no history"] += 1
        elif draft.kind not in _PERSISTED | UNTOLD:
            left[draft.kind, _NO_WORD] += 1
    return [*told, *(LeftOut(kind, count, reason) for (kind, reason), count in left.items() if count)]


def _lost(context: Context, drafts: Mapping[str | None, Stored]) -> list[LeftOut]:
    """Return the parts of messages of other programs that evva cannot hold."""
    messages = [fields_of(drafts[item.node].draft.payload) for item in context.items if item.view == MESSAGE]
    found = Counter(kind for message in messages for kind in lost(message))
    return [LeftOut(kind, count, LOST[kind], seen=True) for kind, count in found.items()]
