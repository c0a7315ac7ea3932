"""The cost of imported messages, as notes of usage, so that a session can sum them.

Programs keep the usage of an answer in its message. A session sums notes of usage. So each message that states its
usage gets such a note, with a mark that it only repeats the message: an export leaves the note out.

Rule: an answer is counted once. Claude Code writes an answer as several entries, which all state its usage; the last
entries may state more. So its note comes after the last of them. If an answer continues after an earlier import, what
was counted of it is taken back, and all of it is counted: the last note tells the size of the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from treering.api.session import Session
from treering.api.view import View
from treering.programs import part_of
from treering.programs.common.source import ImportSource
from treering.programs.common.usage import brief_of, usage_in
from treering.transcript.node import Draft

PAGE_ROWS: Final = 64
"""The number of nodes before the end of a file that are searched for an answer that continues."""
_KINDS: Final = frozenset({"message", "compaction", "branch_summary"})
_Numbers = dict[str, int | float]


class Spending:
    """Makes the notes for the messages of one file, in its order."""

    def __init__(self, told: Callable[[], Mapping[str, _Numbers]] = dict) -> None:
        """Begin a file, or continue one.

        Args:
            told: Returns the recorded usage of the last answers; called at the end of the first answer.
        """
        self._earlier = told
        self._told: dict[str, _Numbers] | None = None
        self._answer = ""
        self._newest: tuple[Draft, _Numbers] | None = None
        """The last entry of the answer, and the usage of the answer so far."""

    def with_notes(self, drafts: Iterable[Draft]) -> Iterator[Draft]:
        """Yield drafts, and after each answer, before the next one, the note of its usage; `finish` yields the last."""
        for draft in drafts:
            answer, numbers = _answer_of(draft), _spent(draft)
            if answer and answer == self._answer and self._newest is not None:
                numbers = _larger(self._newest[1], numbers)
            elif numbers:
                yield from self.finish()
            yield draft
            if answer and numbers:
                self._answer, self._newest = answer, (draft, numbers)
            elif numbers:
                yield _note(draft, numbers, turn=_is_turn(draft))

    def finish(self) -> Iterator[Draft]:
        """Yield the note of the last answer, which may have been incomplete until now."""
        newest, self._newest = self._newest, None
        if newest is None:
            return
        draft, numbers = newest
        if self._told is None:
            self._told = {**self._earlier()}
        told = self._told.get(self._answer)
        self._told[self._answer] = _larger(told or {}, numbers)
        if told is None:
            yield _note(draft, numbers, turn=_is_turn(draft))
        elif any(value > told.get(name, 0) for name, value in numbers.items()):
            back = {name: -value for name, value in told.items()}
            yield _note(draft, back, turn=False, name="usage-back")
            yield _note(draft, self._told[self._answer], turn=_is_turn(draft))


def told_in(session: Session, node: str | None) -> dict[str, _Numbers]:
    """Return the usage of the last answers on the path to a node, by their ids."""
    if node is None:
        return {}
    told: dict[str, _Numbers] = {}
    for row in session.history(node=node, limit=PAGE_ROWS, retracted=True).rows:
        answer = row.node.brief.get("answer")
        if isinstance(answer, str):
            told[answer] = _larger(told.get(answer, {}), usage_in(row.node.payload))
    return told


def counted(source: ImportSource, view: Callable[[], View] | None = None) -> list[Draft]:
    """Return notes of the usage that a file counts as a whole, if its program does so.

    Args:
        source: The file.
        view: Opens the session of an earlier import of the file, before anything new is recorded.
    """
    spent = getattr(source, "spent", None)
    if spent is None:
        return []
    before = None if view is None else part_of(source.header.format, "write").counters_of(view())
    found: list[Draft] = spent(before)
    return found


def _answer_of(draft: Draft) -> str:
    answer = (draft.brief or {}).get("answer") if draft.type == "node" else None
    return answer if isinstance(answer, str) else ""


def _spent(draft: Draft) -> _Numbers:
    return usage_in(draft.payload) if draft.type == "node" and draft.kind in _KINDS else {}


def _is_turn(draft: Draft) -> bool:
    """Tell whether it is an answer in the conversation itself, whose usage shows the size of the context."""
    return draft.kind == "message" and "side" not in (draft.brief or {})


def _larger(one: _Numbers, other: _Numbers) -> _Numbers:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}


def _note(draft: Draft, numbers: _Numbers, *, turn: bool, name: str = "usage") -> Draft:
    brief = brief_of(numbers, turn=turn, copied=True)
    made = f"{draft.id}${name}"
    return Draft(type="note", kind="usage", id=made, target=draft.id, parent=None, time_ms=draft.time_ms, brief=brief)
