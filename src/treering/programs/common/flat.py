"""Files with a list of messages instead of a tree: the parent of each message is the message before it.

Operator-Use wrote such files before May 2026: a line of metadata, then one message on each line. evva writes one
JSON document. Neither gives ids to messages, so ids are generated, the same on every reading.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from treering.errors import UsageError
from treering.format.values import Fields, fields_of
from treering.kinds import Kind
from treering.programs.common import times
from treering.programs.common.chain import Chain
from treering.programs.common.entry import Encode, Entry, with_source
from treering.programs.common.lines import Value, read_values
from treering.programs.common.reader import text_of
from treering.programs.common.source import Imported, Problem, ProblemLog, damage_note, header_note, white_before
from treering.transcript.node import Draft

Record = tuple[Entry | None, list[Draft]]


def _nothing(_record: Fields) -> bytes:
    """Return no bytes, so that `with_source` stores the bytes of the file."""
    return b""


class Messages:
    """Makes entries and drafts of consecutive messages."""

    def __init__(self, session: str, time_ms: int | None, encode: Encode = _nothing) -> None:
        self._chain = Chain(session, linear=True)
        self._time = time_ms
        self._encode = encode
        self._before: str | None = None

    @property
    def leaf(self) -> str | None:
        """The last message; None if there is none."""
        return self._chain.leaf()

    def add(self, message: Fields, value: Value, role: str) -> Record:
        """Return the entry of a message and its draft."""
        place = self._chain.add("", None, note=False, moves=True)
        entry = Entry(
            id=place.id, parent=self._before, type="message", record=message, raw=value.raw, line=value.line,
            offset=value.offset, intact=value.intact, after=value.after,
        )  # fmt: skip
        draft = Draft(id=place.id, parent=place.parent, role=role, payload=message, time_ms=self._time)
        self._before = place.id
        return entry, [with_source(draft, entry, _payload, self._encode, optional=())]

    def settle(self, settings: Fields) -> Draft:
        """Return a node with settings that apply from here on; it has no entry."""
        place = self._chain.add("", None, note=False, moves=True)
        return Draft(kind="model_change", id=place.id, parent=place.parent, brief=settings, time_ms=self._time)

    def aside(self) -> str:
        """Return an id for a note."""
        return self._chain.add("", None, note=True, moves=False).id


def _payload(draft: Draft) -> Fields:
    return fields_of(draft.payload)


FLAT: Final = "operator-flat"
"""The format in the header of a flat file; another name than a tree's, so that no exporter mistakes its records."""
_ROLES: Final = {"human": "user", "ai": "assistant"}


def is_flat(record: Mapping[str, object]) -> bool:
    """Tell whether a record is the first line of a flat file of Operator-Use."""
    return record.get("type") == "metadata" and "created_at" in record and "id" in record  # Kimi has no id there


class FlatSource:
    """A flat file of Operator-Use. `ImportSource` documents its members."""

    def __init__(self, open_file: Callable[[], io.BufferedIOBase], path: Path) -> None:
        self._open = open_file
        self._log = ProblemLog()
        self.leaf: str | None = None
        with open_file() as stream:
            first = next((value for value in read_values(stream, _ignore, _is_record) if _is_metadata(value)), None)
        if first is None:
            raise UsageError(f"this is no flat session file. path={str(path)!r}", kind=Kind.FORMAT)
        self._first = first
        self._before = white_before(open_file, first.offset)
        self.header = _read_header(fields_of(first.value), path)

    @property
    def problems(self) -> list[Problem]:
        """The problems found so far."""
        return self._log.problems

    def records(self) -> Iterator[Record]:
        """Yield the messages of the file with their drafts, in its order."""
        self._log, self.leaf = ProblemLog(), None
        yield None, [header_note(self.header, self._first.raw, before=self._before, after=self._first.after)]
        messages = Messages(self.header.session_id, self.header.created_ms)
        headed = False
        with self._open() as stream:
            for value in read_values(stream, self._log.report, _is_record):
                if _is_metadata(value) and not headed:
                    headed = True
                elif isinstance(value.value, dict) and "role" in value.value:
                    role = text_of(value.value["role"])
                    yield messages.add(value.value, value, _ROLES.get(role, role))
                else:
                    yield None, [self._set_aside(value, messages.aside())]
        self.leaf = messages.leaf

    def _set_aside(self, value: Value, name: str) -> Draft:
        if not value.damage:
            self._log.report(value.line, value.offset, "no_message", "record is no message, kept as a note")
        return damage_note(name, value.damage or "no_message", value.line, value.offset, value.raw, after=value.after)

    def drafts(self) -> Iterator[Draft]:
        """Yield the drafts of the file, in its order."""
        for _, drafts in self.records():
            yield from drafts


def _ignore(*_: object) -> None:
    """Ignore a problem; the full reading of the file reports it."""


def _is_record(value: Fields) -> bool:
    return isinstance(value.get("role"), str) or is_flat(value)


def _is_metadata(value: Value) -> bool:
    return isinstance(value.value, dict) and is_flat(value.value)


def _read_header(header: Fields, path: Path) -> Imported:
    rest = {key: value for key, value in header.items() if key != "type"}
    own = text_of(rest.get("id")) and rest.pop("id")
    return Imported(
        format=FLAT,
        version=1,
        session_id=own or path.name.removesuffix(".gz").removesuffix(".jsonl"),
        created_ms=_local_time(rest.get("created_at")),
        extra=rest,
    )


def _local_time(value: object) -> int | None:
    """Return a local time without an offset in milliseconds since 1970.

    The offset is unknown. UTC is assumed, so that a file gives the same times on every computer.
    """
    return times.read_time(value) if isinstance(value, str) else None
