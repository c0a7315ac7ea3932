"""Items of LangGraph's store: the place of each, and its stored form.

Items are kept in the state of sessions. The first two labels of an item's namespace choose the session. So the items of
one user are together, whether namespaces begin with the user or with the sort of item. An item has at most two keys in
the state:

| key                         | value                                                           |
|-----------------------------|-----------------------------------------------------------------|
| `item/<label>/.../<key>`    | `{"value": ..., "created": ..., "updated": ...}`, see `Stored`  |
| `expiry/<label>/.../<key>`  | `{"minutes": ..., "at": ...}`; only if the item expires         |

In labels and keys `/` and `%` are escaped. So no two items share a key, whatever characters their names have. The
expiry has a key of its own, so that a read, which postpones the expiry, does not write the value again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from langgraph.store.base import Item, SearchItem

from treering.errors import CorruptError, UsageError
from treering.format import values
from treering.format.erasure import is_erased
from treering.integrations.keys import escaped, unescaped
from treering.integrations.langgraph.codec import Codec
from treering.kinds import Kind

Namespace = tuple[str, ...]

SESSION_LABELS: Final = 2
"""The number of labels of a namespace that choose the session."""
_ITEM: Final = "item/"
_EXPIRY: Final = "expiry/"
_NO_LABELS: Final = "%0"  # no escape, and not the end of one
_EMPTY_LABEL: Final = "%"
_MINUTE_US: Final = 60_000_000
_TTL_MAX: Final = 1e8
"""The longest time to live, in minutes; about 190 years."""
_REFRESHED: Final = 0.01
"""The share of an item's time to live that must pass before a read postpones its expiry again."""


class Place(NamedTuple):
    """The namespace and key that identify an item."""

    namespace: Namespace
    key: str


# sessions


def session_of(namespace: Namespace) -> str:
    """Return the name of the session that keeps the items of a namespace."""
    return "/".join(_label(label) for label in namespace[:SESSION_LABELS]) or _NO_LABELS


def may_hold(session: str, prefix: Namespace) -> bool:
    """Tell whether a session may keep items of namespaces that begin with these labels."""
    if len(prefix) >= SESSION_LABELS:
        return session == session_of(prefix)
    return not prefix or session == _label(prefix[0]) or session.startswith(f"{_label(prefix[0])}/")


def _label(label: str) -> str:
    return escaped(label) or _EMPTY_LABEL


# keys of the state


def item_key(place: Place) -> str:
    """Return the key of an item."""
    return _ITEM + _path(place)


def expiry_key(place: Place) -> str:
    """Return the key of its expiry."""
    return _EXPIRY + _path(place)


def _path(place: Place) -> str:
    return "/".join(escaped(part) for part in (*place.namespace, place.key))


def places_in(state: Iterable[str], prefix: Namespace = ()) -> Iterator[Place]:
    """Yield the places of the items in a state whose namespaces begin with some labels."""
    start = _ITEM + "".join(f"{escaped(label)}/" for label in prefix)
    for key in state:
        if key.startswith(start):
            *labels, last = map(unescaped, key[len(_ITEM) :].split("/"))
            yield Place(tuple(labels), last)


def require_names(place: Place) -> None:
    """Refuse names that cannot be stored.

    Raises:
        UsageError: A label or the key is no text, or text that is not valid Unicode.
    """
    for part in (*place.namespace, place.key):
        try:
            part.encode()
        except (AttributeError, UnicodeEncodeError):
            raise UsageError(f"a label or key of an item cannot be stored. got={part!r}", kind=Kind.VALUE) from None


def require_minutes(ttl: object) -> None:
    """Refuse an invalid time to live.

    Raises:
        UsageError: It is neither None nor a number of minutes up to `_TTL_MAX`.
    """
    if ttl is not None and not (isinstance(ttl, int | float) and 0 <= ttl <= _TTL_MAX):
        raise UsageError(
            f"a time to live must be a number of minutes from 0 to {_TTL_MAX:g}. got={ttl!r}", kind=Kind.OPTION
        )


# values


def encoded(value: Mapping[str, Any], codec: Codec) -> bytes:
    """Return a user's value as an encoded form, see `codec`: as plain data if that is exact, else by the serializer.

    Raises:
        UsageError: It is no dict, or the serializer cannot encode it.
    """
    try:
        fields = dict(value)
        if codec.is_plain:
            with suppress(UsageError):
                return values.encode({"value": fields})
        return codec.encode(fields)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the value of an item cannot be stored. reason={str(error)!r}",
            kind=Kind.VALUE,
            remedy="store data, or pass a serializer of your own as `serde`",
        ) from error


class Stored(NamedTuple):
    """The stored form of an item."""

    form: object
    """The form of its value; see `codec`."""
    created_us: int
    """In microseconds since 1970."""
    updated_us: int

    def as_value(self) -> dict[str, object]:
        """Return its value in a state."""
        return {"value": self.form, "created": self.created_us, "updated": self.updated_us}

    def value(self, codec: Codec) -> dict[str, Any]:
        """Return the value that the user put; a new object each time."""
        found: dict[str, Any] = codec.value_of(self.form)
        return found


def holds(state: Mapping[str, bytes], place: Place) -> bool:
    """Tell whether a state has an item that was not erased."""
    raw = state.get(item_key(place))
    return raw is not None and not is_erased(raw)


def stored_in(state: Mapping[str, bytes], place: Place) -> Stored | None:
    """Return an item of a state; None if there is none, or if it was erased.

    Raises:
        CorruptError: The key holds something else.
    """
    raw = state.get(item_key(place))
    if raw is None or is_erased(raw):
        return None
    match values.decode(raw):
        case {"value": form, "created": int(created), "updated": int(updated)}:
            return Stored(form, created, updated)
    raise CorruptError(f"this is no item of LangGraph's store. item={place!r}", kind=Kind.SHAPE)


def as_item(place: Place, stored: Stored, codec: Codec) -> Item:
    """Return an item as an object of LangGraph."""
    return Item(
        value=stored.value(codec), key=place.key, namespace=place.namespace, created_at=_time(stored.created_us),
        updated_at=_time(stored.updated_us),
    )  # fmt: skip


def as_search_item(item: Item, score: float | None) -> SearchItem:
    """Return an item as a search result of LangGraph."""
    return SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)


def _time(us: int) -> datetime:
    return datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)


# expiry


class Expiry(NamedTuple):
    """When an item expires."""

    minutes: float
    """Its time to live, counted from the last put or read."""
    at_us: int
    """In microseconds since 1970."""

    @classmethod
    def after(cls, minutes: float, now_us: int) -> Expiry:
        """Return the expiry of an item that is put or read at `now_us`."""
        return cls(minutes, now_us + round(minutes * _MINUTE_US))

    def as_value(self) -> dict[str, object]:
        """Return its value in a state."""
        return {"minutes": self.minutes, "at": self.at_us}

    def is_over(self, now_us: int) -> bool:
        """Tell whether the item has expired."""
        return self.at_us < now_us

    def is_worth_a_write(self, now_us: int) -> bool:
        """Tell whether postponing the expiry now would move it by at least a hundredth of the time to live."""
        return now_us - (self.at_us - self.minutes * _MINUTE_US) >= _REFRESHED * self.minutes * _MINUTE_US


def expiry_in(state: Mapping[str, bytes], place: Place) -> Expiry | None:
    """Return the expiry of an item in a state; None if the item does not expire."""
    raw = state.get(expiry_key(place))
    if raw is None or is_erased(raw):
        return None
    match values.decode(raw):
        case {"minutes": int() | float() as minutes, "at": int(at)}:
            return Expiry(minutes, at)
    raise CorruptError(f"this is no expiry of an item. item={place!r}", kind=Kind.SHAPE)
