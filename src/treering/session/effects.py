"""The fold of effects, calls that change something outside: those that began, and whose end is not recorded.

Rule 1: a call is made only after the note that it begins is durable. So a call without such a note was not made, and
one with a note and without an end may have been made, or not: only the caller can find out.
Rule 2: the ids of the two notes are made of the key and the number of the attempt, and an id names one record. So of
two writers one begins, and of two ends one counts.
Rule 3: effects belong to the session and not to a branch: going back does not undo what was done outside.

Unresolved ones are part of the state in `latest`, so they are known after a resume; the others are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treering.checkpoint.checkpoint import read_form, write_form
from treering.format.erasure import Burials, is_erased
from treering.format.record import Skeleton, read_brief

EFFECT: Final = "effect"
"""Kind of the note that a call begins; its payload is what was said of the call."""
ABOUT: Final = "effect_about"
"""Kind of a note whose payload replaces what was said of an unresolved one."""
DONE: Final = "effect_done"
"""Kind of the note that it was made; its payload is the result."""
FAILED: Final = "effect_failed"
"""Likewise, with an error as the result."""
NOT_MADE: Final = "effect_not_made"
"""Kind of the note that it was not made, so that it may begin again."""
LINK: Final = "effect"
"""Link of the other notes to the one with which the effect began."""
_ENDS: Final = frozenset({DONE, FAILED, NOT_MADE})
_NOTHING: Final = Raw(b"null")

UNRESOLVED_MAX: Final = 256  # each resume reads them
ABOUT_BYTES_MAX: Final = 8 * 1024  # likewise
KEY_BYTES_MAX: Final = 256  # a part of ids, which indexes hold


class UnresolvedEffect(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that began, and whose end is not recorded."""

    call: str
    time: int
    at: int
    """Position of the note that `about` is of."""
    node: str | None = None
    """Where the session stood."""
    about: Raw | UnsetType = UNSET
    """What was said of it, encoded."""

    def saying(self, body: Raw) -> UnresolvedEffect:
        """Return the same with what the body of its note says of it."""
        nothing = is_erased(bytes(body)) or bytes(body) == b"null"
        return msgspec.structs.replace(self, about=UNSET if nothing else body)


_EFFECTS = msgspec.json.Decoder(UnresolvedEffect)


def begin_id(number: int, key: str) -> str:
    """Return the id of the note with which an attempt begins; the first is number 1."""
    return f"effect:{number}:{key}"


def end_id(number: int, key: str) -> str:
    """Return the id of the note with which it ends."""
    return f"effect-end:{number}:{key}"


def attempt_of(begin: str) -> tuple[int, str] | None:
    """Return the number and the key in the id of a note that a call begins; None for an id of another kind."""
    word, _, rest = begin.partition(":")
    number, _, key = rest.partition(":")
    return (int(number), key) if word == "effect" and key and number.isascii() and number.isdigit() else None


def folded(before: dict[str, Raw], note: Skeleton, body: Raw) -> dict[str, Raw]:
    """Return the unresolved effects, encoded, by the id of their note, after the next note of any kind."""
    after = dict(before)  # a savepoint may hold the one before
    begin = (note.links or {}).get(LINK, "")
    if note.kind == EFFECT and (attempt := attempt_of(note.id)) is not None:
        call = read_brief(note).get("call")
        named = call if isinstance(call, str) else attempt[1]
        after[note.id] = _encoded(UnresolvedEffect(named, note.time, note.at, note.target).saying(body))
    elif note.kind == ABOUT and begin in after:
        after[begin] = _encoded(msgspec.structs.replace(decoded(after[begin]), at=note.at).saying(body))
    elif note.kind in _ENDS:
        after.pop(begin, None)
    return after


def decoded(effect: Raw) -> UnresolvedEffect:
    """Return one of them."""
    return read_form(effect, _EFFECTS)


def _encoded(effect: UnresolvedEffect) -> Raw:
    return Raw(write_form(effect))


def buried(effects: dict[str, Raw], marks: Burials) -> dict[str, Raw]:
    """Return them without what was erased."""
    return told(effects, {at: _NOTHING for at in places_in(effects) if marks.places(at, at + 1)})


def places_in(effects: dict[str, Raw]) -> list[int]:
    """Return the positions of the notes that say something of them."""
    return [decoded(effect).at for effect in effects.values()]


def told(effects: dict[str, Raw], bodies: Mapping[int, Raw]) -> dict[str, Raw]:
    """Return them with what some bodies say of them, by position."""
    return {
        begin: _encoded(known.saying(bodies[known.at])) if known.at in bodies else effect
        for begin, effect in effects.items()
        for known in [decoded(effect)]
    }
