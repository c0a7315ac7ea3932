"""The items of LangGraph's store that one session keeps: read from its newest state, changed by appends.

Rule 1: the changes of one call are one append: recorded whole or not at all. Only changes of more than
`BYTES_PER_APPEND` take several appends.
Rule 2: each change is made to the newest state: if another writer appends first, the append is planned again. So if two
writers change one item, the last one counts, and no other item is lost.
Rule 3: another process may have put an item that is missing in the state that this process read last. So the session is
read again before a missing item counts as deleted, or an item as expired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from treering.checkpoint.prune import KeepCheckpoints
from treering.erasure.erasing import Receipt, erase, finished
from treering.errors import NotFoundError
from treering.format import values
from treering.format.erasure import is_erased
from treering.format.paths import LATEST, decode_id, session_of_latest
from treering.format.register import CARD_BYTES_MAX, decode_card
from treering.integrations.langgraph.items import (
    Expiry,
    Place,
    Stored,
    expiry_in,
    expiry_key,
    item_key,
    places_in,
    stored_in,
)
from treering.integrations.shared import SharedSession
from treering.session.recording import Change, Recording
from treering.session.verbs import pruning
from treering.storage.effects import Job
from treering.storage.requests import Entry, Found, Get, Steps
from treering.storage.run import checked, list_all
from treering.store.catalogue import CARDS_AT_ONCE_MAX

BYTES_PER_APPEND: Final = 2 * 1024 * 1024
"""The bytes of the values in one append, which takes at most 16 MiB. A larger value is an append of its own."""

KEY_BYTES: Final = 256
"""The bytes that are counted for the key and the times of an item; most take less."""

T = TypeVar("T")


class ItemPut(NamedTuple):
    """An item to be stored or deleted."""

    place: Place
    raw: bytes | None
    """The encoded value; None deletes the item."""
    minutes: float | None
    """Its time to live."""
    time_us: int
    """The time of the put, in microseconds since 1970."""


class _Planned(Recording):
    gone: Collection[Place] = ()
    """The items that have expired."""


class ItemCollection(SharedSession):
    """Reads and changes the items of one session."""

    @property
    def name(self) -> str:
        """The name of the session."""
        return self.writer.keys.session

    @property
    def state(self) -> Mapping[str, bytes]:
        """The items and their expiry as they were last read, by key; this mapping is never changed in place."""
        return self._keys

    def put(self, puts: Sequence[ItemPut]) -> Steps[None]:
        """Store and delete items; the changes are durable when this returns."""
        yield from self._be_ready()
        if any(put.raw is None and item_key(put.place) not in self._keys for put in puts):
            exists = yield from self.look()
            if not exists and all(put.raw is None for put in puts):
                return
        for part in _parts([(put, len(put.raw or b"")) for put in puts]):
            yield from self.writer.appender.write(partial(self._plan_puts, part))
        yield from self._tidy()

    def refresh(self, places: Sequence[Place], now_us: int) -> Steps[None]:
        """Postpone the expiry of items that were just read."""
        yield from self._be_ready()
        if not self.writer.replica.exists:  # the session was deleted after the read
            return
        yield from self.writer.appender.write(partial(self._plan_refresh, places, now_us))

    def sweep(self, now_us: int) -> Steps[int]:
        """Delete the items that have expired; return their number."""
        if not (yield from self.look()) or not _expired(self._keys, now_us):
            return 0
        done = yield from self.writer.appender.write(partial(self._plan_sweep, now_us))
        return len(done.gone)

    def prune(self) -> Steps[None]:
        """Remove the values that items had before they were changed or deleted from the journal.

        A record with a current value may also hold old values, and the newest checkpoint may depend on old ones. So all
        items are recorded again, then a full checkpoint, and then all other checkpoints are pruned.
        """
        if not (yield from self.look()):
            return
        made = yield from self.writer.replica.ask(lambda look: look.checkpoints())
        if len(made) < 2:
            return
        for part in _parts([(key, len(raw)) for key, raw in self._keys.items()]):
            yield from self.writer.appender.write(partial(self._plan_anew, part))
        yield from self.writer.appender.write(self._plan_whole)
        yield from self._stand()
        yield from self.writer.upkeep.cover(seal=True)
        yield from pruning.prune(self.writer, KeepCheckpoints(last=1, labelled=False, heads=()))

    def erase(self, place: Place, reason: str) -> Job[Receipt | None]:
        """Delete an item, and remove all values that it ever had; None if the item never existed."""
        if not (yield from self.look()):
            return None
        if item_key(place) in self._keys:
            yield from self.put([ItemPut(place, None, None, 0)])
        try:
            receipt = yield from erase(self.writer, state=[item_key(place)], reason=reason)
        except NotFoundError:
            return None
        return (yield from finished(receipt, self.writer.keys))

    def _plan_puts(self, puts: Sequence[ItemPut]) -> Steps[_Planned]:
        yield from self._stand()
        state: dict[str, object] = {}
        drop: list[str] = []
        for put in puts:
            key = item_key(put.place)
            if put.raw is not None:
                old = stored_in(self._keys, put.place)
                created = old.created_us if old is not None else put.time_us
                state[key] = Stored(values.decode(put.raw), created, put.time_us).as_value()
            else:
                drop += [key] if key in self._keys else []
            if put.raw is not None and put.minutes is not None:
                state[expiry_key(put.place)] = Expiry.after(put.minutes, put.time_us).as_value()
            elif expiry_key(put.place) in self._keys:
                drop.append(expiry_key(put.place))
        return self._planned(state, drop)

    def _plan_refresh(self, places: Sequence[Place], now_us: int) -> Steps[_Planned]:
        yield from self._stand()
        state: dict[str, object] = {}
        for place in places:
            expiry = expiry_in(self._keys, place)
            if expiry is not None and expiry.is_worth_a_write(now_us):
                state[expiry_key(place)] = Expiry.after(expiry.minutes, now_us).as_value()
        return self._planned(state, ())

    def _plan_sweep(self, now_us: int) -> Steps[_Planned]:
        yield from self._stand()
        gone = _expired(self._keys, now_us)
        planned = self._planned({}, [key for place in gone for key in (item_key(place), expiry_key(place))])
        planned.gone = gone
        return planned

    def _plan_anew(self, keys: Sequence[str]) -> Steps[_Planned]:
        """Record values again, by dropping and setting them in one append."""
        yield from self._stand()
        there = {key: self._keys[key] for key in keys if key in self._keys}
        anew = {key: values.decode(raw) for key, raw in there.items() if not is_erased(raw)}
        planned = self._planned({}, list(there))
        if anew:
            planned.keep(Change(state=anew))
        return planned

    def _plan_whole(self) -> Steps[_Planned]:
        """Record a checkpoint that does not depend on another checkpoint."""
        yield from self._stand()
        planned = _Planned(self.writer)
        planned.keep(Change(navigated=True))
        return planned

    def _planned(self, state: Mapping[str, object], drop: Sequence[str]) -> _Planned:
        planned = _Planned(self.writer)
        if state or drop:
            planned.keep(Change(state=state, drop=drop))
        return planned


def _expired(state: Mapping[str, bytes], now_us: int) -> list[Place]:
    return [
        place
        for place in places_in(state)
        if (expiry := expiry_in(state, place)) is not None and expiry.is_over(now_us)
    ]


def _parts(sized: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """Divide changes into appends; each change comes with the bytes of its value."""
    part: list[T] = []
    left = BYTES_PER_APPEND
    for each, size in sized:
        if part and size > left:
            yield part
            part, left = [], BYTES_PER_APPEND
        part.append(each)
        left -= size + KEY_BYTES
    if part:
        yield part


def stored_collections(prefix: str) -> Steps[list[str]]:
    """Return the names of all sessions of a namespace, also of deleted ones: one LIST for each thousand.

    Very long names are read from cards, with one ranged GET for each.
    """
    named: list[str] = []
    unnamed: list[Entry] = []
    for entry in (yield from list_all(f"{prefix}{LATEST}")):
        if (encoded := session_of_latest(entry.key, prefix)) is not None:
            name = decode_id(encoded)
            if name is not None:
                named.append(name)
            else:
                unnamed.append(entry)
    for start in range(0, len(unnamed), CARDS_AT_ONCE_MAX):
        named += yield from _told_names(unnamed[start : start + CARDS_AT_ONCE_MAX])
    return named


def _told_names(entries: Sequence[Entry]) -> Steps[list[str]]:
    answers = yield tuple(Get(entry.key, start=0, end=CARD_BYTES_MAX, register=True) for entry in entries)
    names = []
    for entry, answer in zip(entries, answers, strict=True):
        if not isinstance(answer, NotFoundError):
            names.append(decode_card(checked(answer, Found).data, key=entry.key).session)
    return names
