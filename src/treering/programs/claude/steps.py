"""The links of the chain as they stand in the file, and at which of them Claude Code goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final, NamedTuple

import msgspec

from treering.programs.common.memo import Memo, Recalled, new_in


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What must be known of an entry with a `uuid`, by that."""

    parent: str
    """What it names as its parent; empty if nothing."""
    place: int
    """Where it stands in the file."""
    speaks: bool
    main: bool
    """It speaks in the conversation itself."""
    said: int = -1
    """The place of the entry that is a node here, which may be an earlier one with this `uuid`; -1 if there is none."""
    above: str | None = None
    """The parent of that node."""


class End(NamedTuple):
    """The nearest message at or above an end of the chain."""

    uuid: str = ""
    """Empty if there is none."""
    place: int = 0
    main: bool = False


class Ended(NamedTuple):
    """What the choice of the leaf must know of the steps that are kept."""

    ends: dict[str, End] = {}  # noqa: RUF012  # never changed
    """Those that no other follows."""
    awaited: set[str] = set()  # noqa: RUF012  # likewise
    """What they follow that is not among them."""


_UNKNOWN: Final = End()
_STEP: Final = msgspec.json.Decoder(Step)


class Steps:
    """The entries of a session that are links of the chain, by their `uuid`s."""

    def __init__(self) -> None:
        self._all: MutableMapping[str, Step] = {}
        self._ended = Ended()

    @property
    def ended(self) -> Ended:
        """What must be kept besides the steps themselves, so that others can go on."""
        return Ended(self._ends(), self._awaited())

    @property
    def new(self) -> Iterable[tuple[str, Step]]:
        """Those that are not kept, by their `uuid`s."""
        return new_in(self._all)

    def go_on(self, ended: Ended, memo: Memo) -> None:
        """Go on where others stood."""
        self._all, self._ended = Recalled(memo, "steps", _STEP), ended

    def get(self, uuid: str) -> Step | None:
        """Return the last entry that has a `uuid`."""
        return self._all.get(uuid)

    def add(self, uuid: str, step: Step, *, again: bool) -> None:
        """Take in the next entry; `again` if there is one with its `uuid`: the later one counts, and its place."""
        if again:
            del self._all[uuid]
        self._all[uuid] = step

    def leaf(self, chosen: str) -> str:
        """Return the message at which Claude Code would go on; nothing if nothing was said.

        An end of the chain stands for the nearest message above it. The one that counts is that which the last entry of
        the type `last-prompt` names, if it is still an end; else the last one in the file that is no sidechain; else
        the last. (As Claude Code 2.1.330 was seen to do it. Its SDK leaves out the first of these, and passes over what
        the program wrote last.)

        Args:
            chosen: What the last entry of that type names.
        """
        ends = self._ends()
        last = [end for end in ends.values() if end.uuid]
        main = [end for end in last if end.main]
        newest = max(main or last, key=lambda end: end.place, default=End())
        return ends.get(chosen, End()).uuid or newest.uuid

    def _ends(self) -> dict[str, End]:
        """The steps that no other follows, and the messages that they stand for."""
        steps = self._unkept()
        ends = {} if steps is self._all else dict(self._ended.ends)
        early: set[str] = set()  # what was followed before it came
        for uuid, step in steps.items():
            if ends.pop(step.parent, None) is None and self._comes_behind(step.parent, step):
                early.add(step.parent)
            if uuid not in early:
                ends[uuid] = _UNKNOWN
        speaker: dict[str, str | None] = {}
        for uuid in [uuid for uuid, end in ends.items() if end is _UNKNOWN]:
            above = self._speaker_above(uuid, speaker)
            ends[uuid] = End() if above is None else End(above, self._all[above].place, self._all[above].main)
        return ends

    def _comes_behind(self, uuid: str, step: Step) -> bool:
        """Tell whether an entry is the one of a step, or comes later."""
        found = self._all.get(uuid) if uuid else None
        return found is not None and found.place >= step.place

    def _awaited(self) -> set[str]:
        """What steps follow that is not there."""
        steps = self._unkept()
        kept = set[str]() if steps is self._all else self._ended.awaited
        return kept | {step.parent for step in steps.values() if step.parent and step.parent not in self._all}

    def _unkept(self) -> Mapping[str, Step]:
        """The steps that are not kept; all of them, if one of these changes what is kept of the others."""
        steps = self._all
        if not isinstance(steps, Recalled) or steps.replaces or steps.new.keys() & self._ended.awaited:
            return steps
        return steps.new

    def _speaker_above(self, uuid: str, known: dict[str, str | None]) -> str | None:
        """The nearest message at or above an entry; `known` remembers answers."""
        passed: list[str] = []
        found: str | None = None
        cursor = uuid
        while cursor in self._all and cursor not in known:
            known[cursor] = None  # a chain may come round in a circle
            passed.append(cursor)
            if self._all[cursor].speaks:
                found = cursor
                break
            cursor = self._all[cursor].parent
        else:
            found = known.get(cursor)
        known.update(dict.fromkeys(passed, found))
        return found
