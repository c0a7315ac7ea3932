"""The parts of a checkpoint's record that can be erased: messages edited inline, and values of the state.

An item of a context is an id, or an object with a node and perhaps a message. Values are JSON; the key None stands for
the state of the conversation manager. Erasing leaves all other bytes of a record as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from treering.format.line import CHECKSUM_BYTES, close_line
from treering.format.pieces import entries_in, fields_in, join_entries, join_fields
from treering.format.record import Record

_NULL = b"null"
_MESSAGE = b'"message":'


def may_hold_messages(record_type: str, line: bytes) -> bool:
    """Return whether a record may be a checkpoint with messages in it; values of its state may look like messages."""
    return record_type == "checkpoint" and _MESSAGE in line


def inline_messages(record: Record) -> list[tuple[str, bytes]]:
    """Return the messages in the record of a checkpoint: each node's id, and the message as JSON."""
    body = bytes(record.body)
    if not may_hold_messages(record.type, body):
        return []
    found = []
    for entry in entries_in(fields_in(body).get("context", b"[]")):
        for form in entries_in(_splice(entry)[2]) if entry.startswith(b"[") else [entry]:
            found += [message] if (message := _message_in(form)) is not None else []
    return found


def without_messages(line: bytes, record: Record, nodes: Iterable[str]) -> bytes:
    """Return a checkpoint's line without the messages of some nodes."""
    gone = frozenset(nodes)
    if gone.isdisjoint(node for node, _ in inline_messages(record)):
        return line
    fields = fields_in(bytes(record.body))
    fields["context"] = join_entries([_cut_entry(entry, gone) for entry in entries_in(fields["context"])])
    return _with_body(line, record, join_fields(fields))


def state_values(record: Record) -> dict[str | None, bytes]:
    """Return the values of the state in the record of a checkpoint, by key."""
    fields = fields_in(record.body)
    values: dict[str | None, bytes] = dict(fields_in(fields.get("set", b"{}")).items())
    if (manager := fields.get("manager", _NULL)) != _NULL:
        values[None] = manager
    return values


def with_values(line: bytes, record: Record, keys: Collection[str | None], new: Callable[[bytes], bytes]) -> bytes:
    """Return a checkpoint's line in which `new` replaces the values of those of the keys that it has."""
    held = state_values(record)
    changed = {key: new(held[key]) for key in keys if key in held}
    if all(held[key] == value for key, value in changed.items()):
        return line
    fields = fields_in(record.body)
    if None in changed:
        fields["manager"] = changed.pop(None)
    if changed:
        fields["set"] = join_fields({key: changed.get(key, value) for key, value in held.items() if key is not None})
    return _with_body(line, record, join_fields(fields))


def _with_body(line: bytes, record: Record, body: bytes) -> bytes:
    front = line[: -CHECKSUM_BYTES - len(bytes(record.body))]
    return close_line(front + body + b"}")


def _cut_entry(entry: bytes, gone: frozenset[str]) -> bytes:
    if not entry.startswith(b"["):
        return _cut_form(entry, gone)
    start, deleted, forms = _splice(entry)
    return b"[%d,%d,%b]" % (start, deleted, join_entries([_cut_form(form, gone) for form in entries_in(forms)]))


def _cut_form(form: bytes, gone: frozenset[str]) -> bytes:
    message = _message_in(form)
    if message is None or message[0] not in gone:
        return form
    fields = fields_in(form)
    del fields["message"]
    return join_fields(fields)


def _message_in(form: bytes) -> tuple[str, bytes] | None:
    import json  # slow to import, and resuming does not need it

    if not form.startswith(b"{"):
        return None
    fields = fields_in(form)
    return (json.loads(fields["node"]), fields["message"]) if "message" in fields else None


def _splice(entry: bytes) -> tuple[int, int, bytes]:
    start, deleted, forms = entries_in(entry)
    return int(start), int(deleted), forms
