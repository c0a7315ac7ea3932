"""Which sessions a deletion of several has to take: also deleted ones, within which an earlier one was interrupted."""

from __future__ import annotations

from treering.format.paths import decode_id, session_of_latest
from treering.storage.requests import Steps
from treering.storage.run import run
from treering.store.catalogue import list_cards, read_cards
from treering.store.place import Place


def names_beginning(place: Place, begins: str) -> list[str]:
    """Return the names of sessions that begin with a text, of deleted ones as well.

    Deleting a deleted session again removes what an interrupted deletion left. One LIST; only cards of names that are
    too long for a key are read, and those of deleted sessions no longer tell it.

    Args:
        place: The store.
        begins: The text.
    """
    return run(_names(place, begins), place.driver)


def _names(place: Place, begins: str) -> Steps[list[str]]:
    listings = yield from list_cards(place.prefix, appends=False, begins=begins)
    told = [decode_id(session_of_latest(each.card.key, each.prefix) or "") for each in listings]
    long = yield from read_cards([each for each, name in zip(listings, told, strict=True) if name is None])
    return [name for name in (*told, *(row.id for row in long)) if name is not None and name.startswith(begins)]
