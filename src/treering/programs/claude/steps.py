"""The chain of entries in the file, and the entry at which Claude Code continues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final, NamedTuple

import msgspec

from treering.programs.common.memo import Memo, Recalled, new_in


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The facts about an entry with a `uuid`."""

    parent: str
    """The parent that it names; empty if it names none."""
    place: int
    """Its place in the file."""
    speaks: bool
    main: bool
    """Whether it is a message of the conversation itself."""
    said: int = -1
    """The place of the entry with this `uuid` that became a node, which may be an earlier one; -1 if none did."""
    above: str | None = None
    """The parent of that node."""


class End(NamedTuple):
    """The nearest message at or above an end of the chain."""

    uuid: str = ""
    """The message; empty if there is none."""
    place: int = 0
    main: bool = False


class Ended(NamedTuple):
    """The facts about the steps in the memo that the choice of the leaf needs."""

    ends: dict[str, End] = {}  # noqa: RUF012  # never changed
    """The steps that no other step follows."""
    awaited: set[str] = set()  # noqa: RUF012  # likewise
    """The parents that steps name and that are not in the memo."""


_UNKNOWN: Final = End()
_STEP: Final = msgspec.json.Decoder(Step)


class Steps:
    """The entries of a session that are links of the chain, by their `uuid`s."""

    def __init__(self) -> None:
        self._all: MutableMapping[str, Step] = {}
        self._ended = Ended()

    @property
    def ended(self) -> Ended:
        """The facts that must be stored in addition to the steps, so that another object can continue."""
        return Ended(self._ends(), self._awaited())

    @property
    def new(self) -> Iterable[tuple[str, Step]]:
        """The steps that are not in the memo, by their `uuid`s."""
        return new_in(self._all)

    def go_on(self, ended: Ended, memo: Memo) -> None:
        """Continue from the state of another object."""
        self._all, self._ended = Recalled(memo, "steps", _STEP), ended

    def get(self, uuid: str) -> Step | None:
        """Return the last entry that has a `uuid`."""
        return self._all.get(uuid)

    def add(self, uuid: str, step: Step, *, again: bool) -> None:
        """Add the next entry; `again` if an earlier entry has its `uuid`: the later entry and its place count."""
        if again:
            del self._all[uuid]
        self._all[uuid] = step

    def leaf(self, chosen: str) -> str:
        """Return the message at which Claude Code would continue; empty if there is no message.

        An end of the chain stands for the nearest message above it. Claude Code chooses the end that the last entry of
        the type `last-prompt` names, if it is still an end; else the last end in the file that is in the conversation
        itself; else the last end. (Seen with Claude Code 2.1.330. Its SDK does not use `last-prompt`, and ignores the
        program's own last messages.)

        Args:
            chosen: The entry that the last entry of that type names.
        """
        ends = self._ends()
        last = [end for end in ends.values() if end.uuid]
        main = [end for end in last if end.main]
        newest = max(main or last, key=lambda end: end.place, default=End())
        return ends.get(chosen, End()).uuid or newest.uuid

    def _ends(self) -> dict[str, End]:
        """Return the steps that no other step follows, and the messages that they stand for."""
        steps = self._unkept()
        ends = {} if steps is self._all else dict(self._ended.ends)
        early: set[str] = set()  # steps that an earlier step named as its parent
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
        """Tell whether an entry is the step's own entry, or a later one."""
        found = self._all.get(uuid) if uuid else None
        return found is not None and found.place >= step.place

    def _awaited(self) -> set[str]:
        """Return the parents that steps name and that do not exist."""
        steps = self._unkept()
        kept = set[str]() if steps is self._all else self._ended.awaited
        return kept | {step.parent for step in steps.values() if step.parent and step.parent not in self._all}

    def _unkept(self) -> Mapping[str, Step]:
        """Return the steps that are not in the memo; all steps, if a new one changes the stored facts about others."""
        steps = self._all
        if not isinstance(steps, Recalled) or steps.replaces or steps.new.keys() & self._ended.awaited:
            return steps
        return steps.new

    def _speaker_above(self, uuid: str, known: dict[str, str | None]) -> str | None:
        """Return the nearest message at or above an entry; `known` caches results."""
        passed: list[str] = []
        found: str | None = None
        cursor = uuid
        while cursor in self._all and cursor not in known:
            known[cursor] = None  # a chain may have a cycle
            passed.append(cursor)
            if self._all[cursor].speaks:
                found = cursor
                break
            cursor = self._all[cursor].parent
        else:
            found = known.get(cursor)
        known.update(dict.fromkeys(passed, found))
        return found
