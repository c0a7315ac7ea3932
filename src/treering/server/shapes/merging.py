"""Find what a session lacks of the messages that an interface sent: pure functions.

An interface sends its whole conversation each time, and a message of it may have grown since the last time.

Rule 1: nothing is recorded of a message that the session shows as it was sent. The same holds for a message of which
the session shows more: it is an older version, from another page or from a request that was overtaken.
Rule 2: any other version amends the recorded one, so that the conversation has the same nodes as if it had been
recorded at once. If only data of the interface differ, the content stays as it was recorded.
Rule 3: new results go behind the other results of their message. If the conversation goes on behind these already, no
model would accept them there, so they are refused. So is a version that lacks a recorded call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from treering.errors import ConflictError
from treering.kinds import Kind
from treering.server.shapes.kept import FIELD
from treering.server.shapes.parts import Call, Result, Said, parts_of, role_of
from treering.server.shapes.results import Results, Words
from treering.transcript.node import Draft, Node

RESULT_ROLE: Final = "tool"
"""The role of the drafts of results; no message of an interface has it."""


class Lacking(NamedTuple):
    """What a session lacks of some messages."""

    edits: list[Draft]
    """Changes of recorded nodes."""
    new: list[Draft]
    """Nodes to record, parents before children."""
    ids: list[str]
    """All nodes of the messages, recorded or new, in their order."""
    ends: dict[str | None, str]
    """By the last draft of each message: the last node of that message."""


def lacking(
    words: Words, drafts: Sequence[Draft], recorded: Mapping[str, Node], foreign: Mapping[str, Node] | None = None
) -> Lacking:
    """Return what a session lacks of messages.

    Args:
        words: The functions of the interface that sent them.
        drafts: The messages, each with its results behind it.
        recorded: The nodes of the session that have ids of these drafts.
        foreign: Results that were recorded in another way, by the ids of their drafts.

    Raises:
        ConflictError: What was sent does not go together with what is recorded.
    """
    found = Lacking([], [], [], {})
    grown = set[str]()
    for message, results in messages_in(drafts):
        there = recorded.get(message.id or "")
        parent = message.parent if not isinstance(message.parent, str) else found.ends.get(message.parent)
        if there is None:
            chain = [msgspec.structs.replace(message, parent=parent), *results]
            found.new.extend([draft for draft in chain if draft.id not in recorded])
            _add(found, chain, [draft.id or "" for draft in chain])
            continue
        if parent in grown:
            raise _conflict("a result came after the conversation went on", message)
        if (edit := _amended(words, message, there)) is not None:
            found.edits.append(edit)
        known = sorted(_known(results, recorded, foreign or {}), key=lambda node: node.at)
        found.edits.extend(filter(None, [_other_result(words, each, recorded) for each in results]))
        fresh = [each for each in results if each.id not in recorded and each.id not in (foreign or {})]
        ids = list(dict.fromkeys([there.id, *(node.id for node in known)]))
        for each in fresh:
            found.new.append(msgspec.structs.replace(each, parent=ids[-1]))
            ids.append(each.id or "")
        grown |= {each.id or "" for each in fresh[-1:]}
        _add(found, [message, *results], ids)
    return found


def messages_in(drafts: Iterable[Draft]) -> Iterator[tuple[Draft, list[Draft]]]:
    """Yield each message with its results."""
    message, results = None, list[Draft]()
    for draft in drafts:
        if draft.role == RESULT_ROLE:
            results.append(draft)
            continue
        if message is not None:
            yield message, results
        message, results = draft, []
    if message is not None:
        yield message, results


def _add(found: Lacking, drafts: Sequence[Draft], ids: Sequence[str]) -> None:
    found.ids.extend(ids)
    found.ends[drafts[-1].id] = ids[-1]


def _known(results: Iterable[Draft], recorded: Mapping[str, Node], foreign: Mapping[str, Node]) -> Iterator[Node]:
    for each in results:
        node = recorded.get(each.id or "") or foreign.get(each.id or "")
        if node is not None:
            yield node


def _amended(words: Words, message: Draft, there: Node) -> Draft | None:
    """Return an edit that makes a recorded message the one that was sent; None if nothing is missing."""
    if there.erased:
        return None
    if there.kind != "message":
        raise _conflict("a node that is no message has this id", message)
    now, sent = _shown(words, there, there.payload), _shown(words, there, message.payload)
    if sent == now | {words.parts: now[words.parts][: len(sent[words.parts])]}:  # Rule 1
        return None
    was, new = parts_of(there.payload), parts_of(message.payload)
    if not _calls(was) <= _calls(new):
        raise _conflict("a call of this message is recorded, and was not sent", message)
    payload = message.payload
    if was == new and isinstance(there.payload, Mapping):  # Rule 2
        payload = {**there.payload, FIELD: payload.get(FIELD)}
        payload = {name: value for name, value in payload.items() if name != FIELD or value is not None}
    return Draft(type="edit", kind="amend", target=there.id, payload=payload)


def _other_result(words: Words, result: Draft, recorded: Mapping[str, Node]) -> Draft | None:
    """Return an edit that makes a recorded result the one that was sent; None if it is."""
    there = recorded.get(result.id or "")
    if there is None or there.erased or _output(words, there.payload) == _output(words, result.payload):
        return None
    return Draft(type="edit", kind="amend", target=there.id, payload=result.payload)


def _shown(words: Words, node: Node, payload: Any) -> dict[str, Any]:
    """Return a message as the interface gets it, without its results."""
    said = Said(id=node.id, parent=node.parent, role=role_of(payload), time_ms=node.time_ms, payload=payload)
    return words.message(said, Results())


def _output(words: Words, payload: Any) -> dict[str, Any] | None:
    """Return a result as the interface gets it."""
    result = next((part for part in parts_of(payload) if isinstance(part, Result)), None)
    return None if result is None else words.show(Call(result.call, "", None), Results.only(result))


def _calls(parts: Iterable[object]) -> set[str]:
    return {part.id for part in parts if isinstance(part, Call)}


def _conflict(said: str, message: Draft) -> ConflictError:
    return ConflictError(
        f"{said}. message={message.id!r}", kind=Kind.STALE, remedy="read the session, then send it again"
    )
