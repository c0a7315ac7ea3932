"""The cost of the turns of a history: notes about the first items of turns, as protocols without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from treering.format.values import fields_of
from treering.integrations.openai.history import items_at
from treering.integrations.openai.turns import turned
from treering.integrations.shared import is_recorded
from treering.session.record import record
from treering.session.verbs.reading import notes
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft

NUMBERS: Final = ("requests", "input_tokens", "output_tokens", "total_tokens")
DETAILS: Final = ("input_tokens_details", "output_tokens_details")
_KIND: Final = "usage"
_BRANCH: Final = "branch"
_SUMS: Final = {"requests": "requests", "input_tokens": "input", "output_tokens": "output", "total_tokens": "total"}
"""The name of a number in the sums of a session, by its name in the SDK; see `Session.record_usage`."""


def store(writer: Writer, told: Sequence[Mapping[str, Any]], ids: Sequence[str], *, again: bool = False) -> Steps[None]:
    """Record the cost of the newest turn of the current branch; do nothing if there is no turn.

    Args:
        writer: The session.
        told: One cost, by the names in `NUMBERS` and `DETAILS`.
        ids: The id of the note.
        again: An earlier call with this id had no answer; do nothing if it recorded the note.
    """
    (usage,), (name,) = told, ids
    yield from writer.look()
    starts = yield from _starts(writer, writer.position.head)
    if starts and not (again and (yield from is_recorded(writer, name))):
        brief = {_SUMS[name]: usage[name] for name in NUMBERS} | _parts(usage)
        payload = {_BRANCH: writer.position.head, **usage}
        draft = Draft(type="note", id=name, kind=_KIND, target=starts[max(starts)], brief=brief, payload=payload)
        yield from record(writer, [draft], new_ids=True)


def of_branches(writer: Writer, branch: str | None = None) -> Steps[dict[str, dict[int, dict[str, Any]]]]:
    """Read the cost of turns, by branch and turn; if a turn has several notes, the last one counts.

    Args:
        writer: The session.
        branch: The only branch to read; by default all.
    """
    yield from writer.look()
    told: dict[tuple[str, str | None], dict[str, Any]] = {}
    for note in (yield from notes(writer, _KIND)):
        said = fields_of(note.payload)
        if isinstance(head := said.pop(_BRANCH, None), str):
            told[head, note.target] = said
    found = {}
    for head in {head for head, _ in told} & {*writer.replica.state.heads.heads, writer.position.head}:
        if branch in (None, head):
            starts = yield from _starts(writer, head)
            found[head] = {turn: told[head, node] for turn, node in starts.items() if (head, node) in told}
    return found


def _starts(writer: Writer, branch: str) -> Steps[dict[int, str]]:
    """Return the node of the first item of each turn."""
    starts: dict[int, str] = {}
    for each in turned((yield from items_at(writer, branch))):
        starts.setdefault(each.turn, each.node)
    return starts


def _parts(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the cached and reasoning tokens, which a session also sums."""
    told, said = (fields_of(usage.get(name)) for name in DETAILS)
    parts = {"cache_read": told.get("cached_tokens"), "reasoning": said.get("reasoning_tokens")}
    return {name: number for name, number in parts.items() if isinstance(number, int)}
