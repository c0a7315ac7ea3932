"""The fold of unresolved effects: calls that change something outside, which began and whose end is not recorded.

Rule 1: a call is made only after the note that it begins is durable. So a call without such a note was not made. A call
with such a note and without an end may or may not have been made: only the caller can find out.
Rule 2: the ids of the two notes are made from the key and the number of the attempt, and an id names one record. So
only one of two writers begins an attempt, and only one of two ends counts.
Rule 3: effects belong to the session and not to a branch: going back does not undo changes outside.

Unresolved effects are part of the state in `latest`, so they are known after a resume; ended ones are looked up.
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
"""Kind of the note which says that a call begins; its payload is the description of the call."""
ABOUT: Final = "effect_about"
"""Kind of a note whose payload replaces the description of an unresolved effect."""
DONE: Final = "effect_done"
"""Kind of the note which says that a call was made; its payload is the result."""
FAILED: Final = "effect_failed"
"""Kind of the note which says that a call was made and failed; its payload is the error."""
NOT_MADE: Final = "effect_not_made"
"""Kind of the note which says that a call was not made, so that it may begin again."""
LINK: Final = "effect"
"""Name of the link from the other notes to the note with which the effect began."""
_ENDS: Final = frozenset({DONE, FAILED, NOT_MADE})
_NOTHING: Final = Raw(b"null")

UNRESOLVED_MAX: Final = 256  # each resume reads them
ABOUT_BYTES_MAX: Final = 8 * 1024  # likewise
KEY_BYTES_MAX: Final = 256  # keys are a part of ids, which indexes hold


class UnresolvedEffect(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that began, and whose end is not recorded."""

    call: str
    time: int
    at: int
    """Position of the note that holds `about`."""
    node: str | None = None
    """The session's current node when the call began."""
    about: Raw | UnsetType = UNSET
    """The description of the call, encoded."""

    def saying(self, body: Raw) -> UnresolvedEffect:
        """Return a copy whose description is the body of a note."""
        nothing = is_erased(bytes(body)) or bytes(body) == b"null"
        return msgspec.structs.replace(self, about=UNSET if nothing else body)


_EFFECTS = msgspec.json.Decoder(UnresolvedEffect)


def begin_id(number: int, key: str) -> str:
    """Return the id of the note with which an attempt begins; the first is number 1."""
    return f"effect:{number}:{key}"


def end_id(number: int, key: str) -> str:
    """Return the id of the note with which an attempt ends."""
    return f"effect-end:{number}:{key}"


def attempt_of(begin: str) -> tuple[int, str] | None:
    """Return the number and the key in the id of a note which says that a call begins; None for other ids."""
    word, _, rest = begin.partition(":")
    number, _, key = rest.partition(":")
    return (int(number), key) if word == "effect" and key and number.isascii() and number.isdigit() else None


def folded(before: dict[str, Raw], note: Skeleton, body: Raw) -> dict[str, Raw]:
    """Return the unresolved effects, encoded, by the id of their note, after the next note of any kind."""
    after = dict(before)  # a copy, since a savepoint may hold `before`
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
    """Return an unresolved effect, decoded."""
    return read_form(effect, _EFFECTS)


def _encoded(effect: UnresolvedEffect) -> Raw:
    return Raw(write_form(effect))


def buried(effects: dict[str, Raw], marks: Burials) -> dict[str, Raw]:
    """Return unresolved effects without erased descriptions."""
    return told(effects, {at: _NOTHING for at in places_in(effects) if marks.places(at, at + 1)})


def places_in(effects: dict[str, Raw]) -> list[int]:
    """Return the positions of the notes that hold the descriptions of unresolved effects."""
    return [decoded(effect).at for effect in effects.values()]


def told(effects: dict[str, Raw], bodies: Mapping[int, Raw]) -> dict[str, Raw]:
    """Return unresolved effects with the descriptions in some bodies, given by position."""
    return {
        begin: _encoded(known.saying(bodies[known.at])) if known.at in bodies else effect
        for begin, effect in effects.items()
        for known in [decoded(effect)]
    }
