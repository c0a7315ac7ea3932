"""Fold the records into the card, the summary that lists show: counts, times, title, model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec

from treering.format.erasure import Erased
from treering.format.record import Record, Skeleton, read_brief, skeleton_of_record
from treering.format.register import Card, one_line
from treering.format.stub import NOTE
from treering.format.values import fields_of
from treering.ids import IdClock
from treering.messages import without_reminders
from treering.session.payload import decode_payload, preview_payload
from treering.transcript.heads import Heads

# Fields of the card that notes about the whole session set.
FACTS = {"title": ("title",), "place": ("project", "cwd"), "status": ("status",)}
ORIGIN = "origin"
"""Kind of the note that names the file a session was imported from, and how much of it was read."""
UPKEEP = {("edit", "prune"), ("note", ORIGIN)}
"""Records that do not count as activity: upkeep does not change when a session was last active."""
CARD = "card"
"""Kind of the note whose payload is merged into the further facts on the card: objects by name, field by field.

`fields` in its brief names them, as `name/field`, so that they can be removed when the note is erased."""
EXTRA = "extra/"
"""Prefix of these names among the fields of the card."""
told_at_once = attrgetter("first_prompt", *chain.from_iterable(FACTS.values()))
"""Fields that the stored card must show at once; counts and times may lag behind."""
_NOTHING_YET: dict[str, Any] = {"first_prompt": "", "nodes": 0, "messages": 0, "checkpoints": 0}
"""The values of a session without a record."""


class Tally:
    """A fold over records, kept in counters because making a new card for each record would cost more."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._nodes = card.nodes
        self._messages = card.messages
        self._checkpoints = card.checkpoints
        self._updated = card.updated
        self._max_id = card.max_id
        self.clock = IdClock()
        """Makes ids greater than those of all folded records."""
        self.clock.observe(card.max_id)

    def card(self, heads: Heads) -> Card:
        """The card as of now."""
        return msgspec.structs.replace(
            self._card,
            nodes=self._nodes,
            messages=self._messages,
            checkpoints=self._checkpoints,
            updated=self._updated,
            max_id=self._max_id,
            head=heads.current,
            node=heads.tip,
        )

    def tells_more_than(self, card: Card) -> bool:
        """Whether `card` lacks a field that lists must show at once."""
        return told_at_once(self._card) != told_at_once(card)

    def add(self, skeleton: Skeleton, record: Record) -> None:
        """Fold the next record."""
        if skeleton.type == "node":
            self._nodes += 1
            if skeleton.kind == "message":
                self._messages += 1
                if not self._card.first_prompt and skeleton.role == "user":
                    self._set({"first_prompt": first_prompt(bytes(record.body))})
            elif skeleton.kind == "model_change":
                brief = read_brief(skeleton)
                self._set({name: str(brief[name] or "") for name in ("model", "provider") if name in brief})
        elif skeleton.type == "checkpoint":
            self._checkpoints += 1
        elif skeleton.type == "note":
            self._add_note(skeleton, record)
        if (skeleton.type, skeleton.kind) not in UPKEEP:
            self._updated = max(self._updated, skeleton.time)
        if record.time is None and record.id > self._max_id:  # an id made here: only such ids contain the time
            self._max_id = record.id
            self.clock.observe(record.id)

    def _add_note(self, skeleton: Skeleton, record: Record) -> None:
        if skeleton.kind in FACTS:
            brief = read_brief(skeleton)
            self._set({name: brief[name] or "" for name in FACTS[skeleton.kind] if name in brief})
        elif skeleton.kind == ORIGIN:
            self._originate(decode_payload(bytes(record.body), {}))
        elif skeleton.kind == CARD:
            facts = decode_payload(bytes(record.body), {})
            if isinstance(facts, Erased):
                fields = read_brief(skeleton).get("fields")
                self.take_back([f"{EXTRA}{field}" for field in fields] if isinstance(fields, list) else ())
            else:
                self._join(facts)

    def take_back(self, facts: Collection[str]) -> None:
        """Let the card say nothing that was erased."""
        for fact in facts:
            if fact.startswith(EXTRA):
                name, _, field = fact.removeprefix(EXTRA).partition("/")
                self._join({name: {field: None}})
            else:
                self._set({fact: NOTE if fact == "first_prompt" else ""})

    def _originate(self, facts: object) -> None:
        """Take from the imported file when it was last active, and its parent.

        A copy under another name has the note as well, but was not imported from that file.
        """
        if not isinstance(facts, dict) or facts.get("session") != self._card.session:
            return
        self._set({"extra": {**self._card.extra, ORIGIN: facts}})
        if isinstance(active := facts.get("active_ms"), int):
            self._updated = active
        if isinstance(parent := facts.get("parent_session"), str):
            self._set({"parent_session": parent})

    def _join(self, facts: object) -> None:
        """Merge into the further facts; null removes a field."""
        extra = dict(self._card.extra)
        for name, fields in fields_of(facts).items():
            joined = fields_of(extra.get(name)) | fields_of(fields)
            extra[name] = {field: value for field, value in joined.items() if value is not None}
        self._set({"extra": extra})

    def _set(self, facts: dict[str, object]) -> None:
        self._card = msgspec.structs.replace(self._card, **facts)


def announced(card: Card, records: Iterable[Record]) -> Card:
    """The card of a session to be created with these records, so that it never lists as empty."""
    tally = Tally(card)
    for record in records:
        tally.add(skeleton_of_record(record, 0), record)
    told = tally.card(Heads())
    return msgspec.structs.replace(card, **{name: getattr(told, name) for name in _NOTHING_YET})


def recorded(card: Card) -> Card:
    """The fields of a card that records determine; empty for a card without records, which may announce lost ones."""
    return card if card.covers else msgspec.structs.replace(card, **_NOTHING_YET)  # rule: announce-nothing


def first_prompt(body: bytes) -> str:
    """The text a user typed in a message, on one line, cut at a whole character to the size a card allows."""
    payload = preview_payload(body)
    if isinstance(payload, Erased):
        return NOTE
    text = _text(payload.get("content") if isinstance(payload, dict) else payload) or _said(payload)
    return one_line(without_reminders(text))


def _said(payload: object) -> str:
    """The text of a message in the format of a program whose sessions are imported."""
    from treering.transcript.parts import parts_of  # who resumes a session does not look for its first prompt

    return " ".join(part.text for part in parts_of(payload) if part.kind == "text")


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) and not isinstance(content, bytes) else [content]
    return " ".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
