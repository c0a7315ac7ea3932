"""Make each call that changes something outside the session only once: record that it begins, and how it ended.

The rules are in `treering.session.effects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UnsetType

from treering.errors import NotFoundError, UnresolvedEffectError, UsageError
from treering.format import values
from treering.format.record import Skeleton, read_brief
from treering.kinds import Kind
from treering.session.effects import (
    ABOUT,
    ABOUT_BYTES_MAX,
    DONE,
    EFFECT,
    FAILED,
    KEY_BYTES_MAX,
    LINK,
    NOT_MADE,
    UNRESOLVED_MAX,
    UnresolvedEffect,
    attempt_of,
    begin_id,
    decoded,
    end_id,
)
from treering.session.reader import Readable
from treering.session.record import plan, record
from treering.session.recording import Recording
from treering.session.verbs.reading import payload_in
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft

ATTEMPTS_MAX: Final = 1000  # for one key: an agent that begins a call this often without making it is in a loop


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded facts about a call that changes something outside the session."""

    key: str
    """Identifies the effect in the session: pass it on as an idempotency key if the called service accepts one."""
    call: str
    """The id of the tool call; the key, if none was given."""
    node: str | None
    """The session's current node when the call began; None: before the first node."""
    time_ms: int
    """When it began: milliseconds since 1970."""
    outcome: Literal["unresolved", "done", "failed"]
    about: Any = None
    """The description of the call, see `effect`; None once it has ended."""
    result: Any = None
    """What the call returned, or the error that it failed with; `Erased` if that was erased."""
    note: str
    """The id of the note that records the beginning: erasing it erases the description and the result, too."""

    @property
    def is_resolved(self) -> bool:
        """Whether the outcome is known."""
        return self.outcome != "unresolved"


class _MetError(Exception):
    """Another writer recorded the effect before this one did."""

    def __init__(self, found: Effect) -> None:
        super().__init__()
        self.found = found


def effect(writer: Writer, call: str, *, key: str | None = None, about: object = None) -> Steps[Effect]:
    """Record that a call begins, unless its outcome is known; durable when it returns.

    If the outcome of the returned effect is `unresolved`, make the call, and then call `end_effect`. Otherwise the call
    was made before, and the effect has its result.

    Args:
        writer: The session.
        call: The id of the tool call.
        key: Two calls with the same key are one effect; at most 256 bytes, by default the id of the call. All branches
            of the session share the keys.
        about: A description, to find out later whether the call was made: a JSON value of at most 8 KiB.

    Raises:
        UnresolvedEffectError: The call began before, in this or another process, and its end is not recorded. It may
            have been made: find out, and call `end_effect`.
        UsageError: The key is empty or too long, `about` is too large, or too many effects are unresolved.
        ConflictError: Another writer writes this exclusive session.
        UnavailableError: The store did not answer; do not make the call. Begin it again when the store does.
    """
    key = _require_key(call if key is None else key)
    draft = Draft(type="note", kind=EFFECT, brief=None if call == key else {"call": call}, payload=_stored(about))
    if writer.appender.pending is not None:
        yield from writer.appender.settle()
    number, found = yield from _look(writer, key)
    # This handle got no answer before, so the call was not made. Another writer may have found that out, too.
    unmade = {begin_id(number, key)} & writer.appender.found
    if found is not None and not found.is_resolved and writer.options.shared and not unmade:
        yield from writer.replica.catch_up()  # another writer may have ended it
        yield from writer.position.ensure_context(blobs=True)
        number, found = yield from _look(writer, key)

    def begun() -> Steps[Recording]:
        number, found = yield from _look(writer, key)
        ended: list[Draft] = []
        if found is not None and found.note in unmade and not found.is_resolved:
            ended = [_end(NOT_MADE, number, found)]  # in one append, so no other writer can begin it in between
            number += 1
        elif found is not None:
            raise _MetError(found)
        else:
            _require_few(writer)
        new = msgspec.structs.replace(draft, id=begin_id(number, key))
        return (yield from plan(writer, [*ended, new], seen=writer.replica.known_view, here=True))

    if found is None or unmade:
        try:
            yield from writer.appender.write(begun)
        except _MetError as met:
            found = met.found
        else:
            writer.appender.found -= unmade
            return _unresolved(*_begun(writer, key))
    if not found.is_resolved:
        raise _unknown(found)
    return found


def describe_effect(writer: Writer, key: str, about: object) -> Steps[None]:
    """Replace the description of an unresolved effect, for example once the called service returned an order number.

    Args:
        writer: The session.
        key: The key of the effect.
        about: A JSON value of at most 8 KiB.

    Raises:
        NotFoundError: No effect of that key is unresolved.
        UsageError: `about` is too large.
    """
    payload = _stored(about)
    begin, known = _begun(writer, key)
    draft = Draft(type="note", kind=ABOUT, target=known.node, links=_links(begin), payload=payload)
    yield from record(writer, [draft])


def end_effect(
    writer: Writer, key: str, result: object = None, *, error: object = None, made: bool = True
) -> Steps[None]:
    """Record how a call ended: right after it, or later, once you have found out whether it was made.

    With `durability="turn"` the outcome is recorded when the turn ends; until then a kill leaves the effect unresolved.

    Args:
        writer: The session.
        key: The key of the effect.
        result: What the call returned; any value that a payload may have.
        error: The error, if the call failed; a failed call counts as made.
        made: False if the call was not made: then it may begin again.

    Raises:
        NotFoundError: No effect of that key began.
        UsageError: The effect already ended in another way; or the call was not made, but a result or error is given.
        ConflictError: Another writer writes this exclusive session.
        UnavailableError: The store did not answer. Call again.
    """
    if not made and not (result is None and error is None):
        raise UsageError("a call that was not made has no result", kind=Kind.EFFECT)
    if writer.appender.pending is not None:
        yield from writer.appender.settle()
    number, found = yield from _look(writer, key)
    if found is None and writer.options.shared:
        yield from writer.replica.catch_up()  # another writer may have begun it
        yield from writer.position.ensure_context(blobs=True)
        number, found = yield from _look(writer, key)
    if found is None:
        if number > 1 and not made:
            return  # this outcome is recorded already
        raise _no_effect(key)
    kind, payload = (DONE, result) if error is None else (FAILED, error)
    try:
        yield from record(writer, [_end(kind if made else NOT_MADE, number, found, payload)])
    except UsageError as refused:
        # The id that is taken may be that of a buffered draft.
        if refused.kind != Kind.DUPLICATE_ID or end_id(number, key) not in str(refused):
            raise
        raise UsageError(
            f"this effect ended otherwise. key={key!r}", kind=Kind.EFFECT, remedy="look at `find_effect`"
        ) from refused


def _end(kind: str, number: int, effect: Effect, payload: object = None) -> Draft:
    """The note with which an attempt ends."""
    links, name = _links(effect.note), end_id(number, effect.key)
    return Draft(type="note", kind=kind, id=name, target=effect.node, links=links, payload=payload)


def unresolved_effects(reader: Readable) -> Steps[tuple[Effect, ...]]:
    """The effects whose end is not recorded, oldest first: their calls are running now, or may have been made.

    Sends no request. After a kill, find out for each whether it was made, and call `end_effect`.
    """
    yield from ()
    ended = _ended_soon(reader)
    return tuple(
        [
            _unresolved(begin, decoded(each))
            for begin, each in reader.replica.state.effects.items()
            if begin not in ended
        ]
    )


def _ended_soon(reader: Readable) -> set[str | None]:
    """The notes with which effects began whose end waits to be recorded."""
    ends = (draft for draft in reader.unrecorded if draft.kind in (DONE, FAILED, NOT_MADE))
    return {(draft.links or {}).get(LINK) for draft in ends}


def find_effect(reader: Readable, key: str) -> Steps[Effect | None]:
    """The effect of that key, whatever its outcome; None if it never began, or was not made."""
    return (yield from _look(reader, key))[1]


def _look(reader: Readable, key: str) -> Steps[tuple[int, Effect | None]]:
    """The number of the current or next attempt at a key, and its effect; None if that attempt has not begun."""
    waiting = {draft.id: draft for draft in reader.unrecorded}
    for number in range(1, ATTEMPTS_MAX + 1):
        begin, end = begin_id(number, key), end_id(number, key)
        known = _known(reader, begin)
        if (put_off := waiting.get(end)) is not None and known is not None:
            if put_off.kind != NOT_MADE:
                return number, _ended(_unresolved(begin, known), put_off.kind, put_off.payload)
        elif known is not None:
            return number, _unresolved(begin, known)
        else:
            rows = yield from _rows(reader, begin, end)
            if end not in rows or rows[end].kind != NOT_MADE:
                return number, (yield from _recorded(reader, begin, end, rows))
    raise UsageError(f"a call began too often. key={key!r}, max={ATTEMPTS_MAX}", kind=Kind.EFFECT)


def _known(reader: Readable, begin: str) -> UnresolvedEffect | None:
    effect = reader.replica.state.effects.get(begin)
    return None if effect is None else decoded(effect)


def _rows(reader: Readable, begin: str, end: str) -> Steps[Mapping[str, Skeleton]]:
    if not reader.replica.exists:
        return {}
    return (yield from reader.replica.ask(lambda look: look.records([begin, end])))


def _recorded(reader: Readable, begin: str, end: str, rows: Mapping[str, Skeleton]) -> Steps[Effect | None]:
    """The effect that a beginning note and an end note describe; None if it has not begun."""
    if begin not in rows:
        return None
    row = rows[begin]
    call = read_brief(row).get("call")
    found = _unresolved(begin, UnresolvedEffect(str(call or _key_of(begin)), row.time, row.at, row.target))
    if end not in rows:
        return found
    lines = yield from reader.replica.lines_at([rows[end].at])
    yield from reader.blobs.fetch(lines.values())
    return _ended(found, rows[end].kind, payload_in(lines[rows[end].at], reader))


def _unresolved(begin: str, known: UnresolvedEffect) -> Effect:
    about = None if isinstance(known.about, UnsetType) else values.decode(bytes(known.about))
    return Effect(
        key=_key_of(begin),
        call=known.call,
        node=known.node,
        time_ms=known.time,
        outcome="unresolved",
        about=about,
        note=begin,
    )


def _ended(effect: Effect, kind: str, result: object) -> Effect:
    outcome: Literal["done", "failed"] = "failed" if kind == FAILED else "done"
    return msgspec.structs.replace(effect, outcome=outcome, about=None, result=result)


def _begun(writer: Writer, key: str) -> tuple[str, UnresolvedEffect]:
    """The unresolved effect of a key, after the id of its note."""
    for begin, known in writer.replica.state.effects.items():
        if _key_of(begin) == key:
            return begin, decoded(known)
    raise _no_effect(key)


def _links(begin: str) -> dict[str, str]:
    return {LINK: begin, "copy_of": begin}  # `copy_of`: it is erased with the note


def _key_of(begin: str) -> str:
    attempt = attempt_of(begin)
    return attempt[1] if attempt is not None else ""


def _require_key(key: str) -> str:
    size = len(key.encode("utf-8", "surrogatepass"))
    if not 0 < size <= KEY_BYTES_MAX:
        raise UsageError(
            f"the key of an effect has 1 to {KEY_BYTES_MAX} bytes. got={size}",
            kind=Kind.EFFECT,
            remedy="take a digest of it",
        )
    return key


def _stored(about: object) -> object:
    size = len(values.encode(about))
    if size > ABOUT_BYTES_MAX:
        raise UsageError(
            f"too much is said of an effect: each resume reads it. bytes={size}, max={ABOUT_BYTES_MAX}",
            kind=Kind.EFFECT,
            remedy="append it as a message or note, and name that",
        )
    return about


def _require_few(writer: Writer) -> None:
    if len(writer.replica.state.effects.keys() - _ended_soon(writer)) >= UNRESOLVED_MAX:
        raise UsageError(
            f"too many effects are unresolved: each resume reads them. max={UNRESOLVED_MAX}",
            kind=Kind.TOO_MANY_EFFECTS,
            remedy="end some: `unresolved_effects` names them",
        )


def _unknown(found: Effect) -> UnresolvedEffectError:
    return UnresolvedEffectError(f"the call began before, and may have been made. key={found.key!r}")


def _no_effect(key: str) -> NotFoundError:
    return NotFoundError(f"no such effect began. key={key!r}", kind=Kind.EFFECT)
