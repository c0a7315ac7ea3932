"""Update an index from its store: one LIST, a conditional GET per session, and new records of changed ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from treering.errors import NotFoundError, TreeringError
from treering.format.paths import decode_id
from treering.format.register import CARD_BYTES_MAX, Card, decode_card
from treering.journal.register import Attempts
from treering.journal.resume import read_registers
from treering.journal.view import View
from treering.search import walk
from treering.search.database import Database, Known, OvertakenError
from treering.search.walk import Looked, StaleError, Walk
from treering.storage.requests import Entry, Found, Get, Steps
from treering.storage.run import ask, run
from treering.store.catalogue import cards_by_name
from treering.store.place import Place

T = TypeVar("T")


class Updated(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an update of the index."""

    sessions: int
    """Sessions in the store, deleted ones with a tombstone included."""
    read: int
    """New or changed sessions, which were read."""
    problems: tuple[tuple[str, TreeringError], ...]
    """Sessions that could not be read, with their errors; the next update tries them again."""
    notices: tuple[str, ...] = ()
    """The reasons for rebuilding the index, if it was rebuilt."""


class UpdateProgress(Protocol):
    """A function that is called with the number of changed sessions that were read, and of those to be read."""

    def __call__(self, done: int, total: int) -> None: ...


class Update:
    """One update of one index."""

    def __init__(self, database: Database, place: Place, progress: UpdateProgress | None = None) -> None:
        self._database = database
        self._place = place
        self._progress = progress

    def run(self) -> Updated:
        """Run the update. Each part of a session is stored when it was read, so an interrupted update can continue."""
        cards = self._run(cards_by_name(self._place.prefix))
        known = self._database.sessions()
        gone = [each for name, each in known.items() if name not in cards]
        for each in gone:
            self._drop(each)
        changed = self._changed(cards, known)
        looks: dict[str, Looked] = {}
        problems: list[tuple[str, TreeringError]] = []
        for done, name in enumerate(changed):
            if self._progress is not None:
                self._progress(done, len(changed))
            if done % walk.LOOKS_AT_ONCE_MAX == 0:
                looks = self._look_at(changed[done : done + walk.LOOKS_AT_ONCE_MAX])
            try:
                self._take(name, cards[name], known.get(name), looks.get(name))
            except TreeringError as error:
                problems.append((decode_id(name) or name, error))
        if changed or gone:
            self._database.empty_log()
        return Updated(sessions=len(cards), read=len(changed), problems=tuple(problems))

    def _run(self, steps: Steps[T]) -> T:
        return run(steps, self._place.driver)

    def _drop(self, known: Known) -> None:
        with suppress(OvertakenError):  # another process has read more of it
            self._database.remove(known)

    def _changed(self, cards: dict[str, Entry], known: dict[str, Known]) -> list[str]:
        """Names of the changed sessions, the most recently written first."""
        same = [each for name in cards if (each := known.get(name)) and each.card == _stamp(cards[name])]
        seen = [(self._place.keys(each.session), each.tail) for each in same if each.tail is not None]
        kept = self._run(walk.unchanged(seen))
        fresh = {keys.session for (keys, _), is_fresh in zip(seen, kept, strict=True) if is_fresh}
        return [name for name in cards if (each := known.get(name)) is None or each.session not in fresh]

    def _look_at(self, names: Sequence[str]) -> dict[str, Looked]:
        """Read the registers of some sessions together; sessions with hashed names are read one by one."""
        keys = {name: self._place.keys(found) for name in names if (found := decode_id(name)) is not None}
        return dict(zip(keys, self._run(read_registers(list(keys.values()))), strict=True)) if keys else {}

    def _take(self, name: str, card: Entry, known: Known | None, looked: Looked | None) -> None:
        """Update one session; `known` was read before `looked`."""
        attempts = Attempts(card.key)
        while attempts.another():
            try:
                self._follow(name, card, known, looked)
            except (OvertakenError, NotFoundError):  # another process indexes or deletes it
                known, looked = self._database.session(name), None
                continue
            return

    def _follow(self, name: str, card: Entry, known: Known | None, looked: Looked | None) -> None:
        keys = self._place.keys(known.session if known else self._session_of(name, card))
        view, tail = self._run(walk.see(keys, looked))
        facts = Card(session=keys.session, life="", write="") if view is None else walk.card_of(view)
        life, epoch = ("", 0) if view is None else (view.life, view.tail.header.epoch)
        end = 0 if view is None else view.end
        if known is None or (known.life, known.epoch) != (life, epoch) or known.end > end:
            known = self._database.begin(known, name, facts, life=life, epoch=epoch)
        if view is not None and known.tail != tail:
            known = self._read(view, known, facts)
        self._database.settle(known, facts, tail=tail, seen=_stamp(card))

    def _session_of(self, name: str, card: Entry) -> str:
        """The session with this name in keys; if the name is a hash, the session's name is read from its card."""
        found = decode_id(name)
        if found is None:
            answer = self._run(ask(Get(card.key, start=0, end=CARD_BYTES_MAX, register=True), Found))
            found = decode_card(answer.data, key=card.key).session
        return found

    def _read(self, view: View, known: Known, facts: Card) -> Known:
        """Read the new records of a session; all of them if earlier ones changed."""
        edits = self._run(walk.edits_of(view)) if known.edited else None
        walking = Walk(view, known.end, known.last, edits)
        while not walking.done:
            try:
                rows = self._run(walking.step())
            except StaleError:
                known = self._database.begin(known, known.name, facts, life=known.life, epoch=known.epoch)
                edits = self._run(walk.edits_of(view))
                walking = Walk(view, edits=edits)
                continue
            edited = edits is not None and bool(edits.amended or edits.retracted)
            known = self._database.add(known, rows, end=walking.at, last=walking.last, edited=edited)
        return known


def _stamp(card: Entry) -> str:
    """The stamp of a card in a list: it changes with the card."""
    return f"{card.size}:{card.modified_ms}"
