"""Erase messages of a thread, with the copies that LangGraph makes of them.

The input of a turn is the value of the channel `__start__` as well, and what a node says is a pending write before it
is in the list. Both are needed only to go back to their checkpoint, so they are erased whole. Another channel or the
metadata may hold more than the copy, so the receipt only warns of those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from langgraph.constants import START

from treering.erasure.erasing import Receipt, erase, finished
from treering.errors import NotFoundError
from treering.format import values
from treering.format.copies import state_values
from treering.format.erasure import is_erased
from treering.format.record import decode_record
from treering.format.values import is_patch
from treering.integrations.langgraph import names
from treering.integrations.langgraph.codec import Codec, is_within, parts_of
from treering.integrations.langgraph.thread import Thread
from treering.kinds import Kind
from treering.session.verbs.reading import payload_in
from treering.storage.effects import Job
from treering.storage.requests import Steps

RECORDS_AT_ONCE: Final = 500
"""The most lines in memory at a time."""


def erase_messages(thread: Thread, messages: Collection[str], codec: Codec, reason: str) -> Job[Receipt]:
    """Erase all versions of some messages, and the copies of each; see `TreeringSaver.erase`.

    Args:
        thread: The thread.
        messages: Ids of messages, or of their nodes; without any, interrupted erasures are finished.
        codec: Decodes messages and values.
        reason: Shown in place of them.

    Raises:
        NotFoundError: The thread does not exist, or has no such message.
    """
    if not (yield from thread.look()):
        raise NotFoundError(f"no such thread. thread={thread.writer.keys.session!r}", kind=Kind.SESSION)
    found = yield from _nodes(thread, messages, codec)
    copies = _Copies(codec)
    if found:
        yield from copies.learn(thread, found)
        yield from copies.search(thread)
    receipt = yield from erase(thread.writer, *found, state=copies.erasable, reason=reason)
    receipt = yield from finished(receipt, thread.writer.keys)
    warnings = [f"a value of the state repeats what was erased: erase it, too. key={key!r}" for key in copies.others]
    return msgspec.structs.replace(receipt, warnings=(*receipt.warnings, *warnings))


def _nodes(thread: Thread, messages: Collection[str], codec: Codec) -> Steps[list[str]]:
    """Find the nodes of some messages: a message that was replaced has several."""
    index = yield from thread.writer.replica.index()
    nodes = yield from thread.writer.content.nodes(list(index.graph))
    told = {node.id: {node.id} if node.erased else {node.id, _id_of(node.payload, codec)} for node in nodes}
    if missing := [name for name in messages if not any(name in each for each in told.values())]:
        raise NotFoundError(f"no such message. id={missing[0]!r}", kind=Kind.NODE)
    return [node for node, each in told.items() if not each.isdisjoint(messages)]


def _id_of(payload: object, codec: Codec) -> str | None:
    found: str | None = codec.message_of(payload).id
    return found


class _Copies:
    """The keys of the state that repeat some messages, in any checkpoint, also in pruned ones."""

    def __init__(self, codec: Codec) -> None:
        self.erasable: dict[str, None] = {}
        self.others: dict[str, None] = {}
        self._codec = codec
        self._parts: set[bytes] = set()
        self._unknown = False
        """Whether a message was erased before, so that nobody can tell its copies."""

    def learn(self, thread: Thread, nodes: Collection[str]) -> Steps[None]:
        """Read the messages of some nodes, in all their versions."""
        replica = thread.writer.replica
        places = yield from replica.ask(lambda look: look.holders(nodes, state=False))
        lines = yield from replica.lines_at(places)
        yield from thread.writer.blobs.fetch(lines.values())
        for line in lines.values():
            record = decode_record(line)
            if is_erased(bytes(record.body)):
                self._unknown = True
            elif record.type == "node" or (record.type, record.kind) == ("edit", "amend"):
                self._parts |= parts_of(self._codec.message_of(payload_in(line, thread.writer)))

    def search(self, thread: Thread) -> Steps[None]:
        """Look through the values of all checkpoints."""
        replica = thread.writer.replica
        places = yield from replica.ask(lambda look: look.holders((), state=True))
        for start in range(0, len(places), RECORDS_AT_ONCE):
            lines = yield from replica.lines_at(places[start : start + RECORDS_AT_ONCE])
            for line in lines.values():
                self._take(state_values(decode_record(line)))

    def _take(self, state: Mapping[str | None, bytes]) -> None:
        for key, raw in state.items():
            if key is None or is_erased(raw):
                continue
            if _is_transient(key):  # a patch holds only what changed of a copy
                if self._unknown or is_patch(raw) or self._repeats(key, raw):
                    self.erasable[key] = None
            elif not is_patch(raw) and self._repeats(key, raw):
                self.others[key] = None

    def _repeats(self, key: str, raw: bytes) -> bool:
        forms = _forms_of(key, values.decode(raw))
        return any(is_within(self._codec.value_of(form), self._parts) for form in forms)


def _is_transient(key: str) -> bool:
    """Tell whether a value is needed only to go back to its checkpoint."""
    ns = names.namespace_of(key)
    return key == names.channel_key(ns, START) or names.write_of(ns, key) is not None


def _forms_of(key: str, value: Any) -> list[object]:
    """Return the forms of the codec in a value of the state; see the table in `names`."""
    kind = key.split("/")[1:2]
    if kind == ["checkpoint"]:
        return [value["rest"], value["metadata"]]
    if kind == ["channel"]:
        return [value]
    if kind == ["write"]:
        return [value["value"]]
    return [{"value": value}]
