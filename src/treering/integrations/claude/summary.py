"""Summaries for lists of the SDK: a fold over entries that the SDK defines, kept on the card of the session.

The card is not written with every append. So each change of the summary is a note after the entry that caused it. Every
writer of the card copies the change to the card without knowing its meaning. The note names the entry as its original,
so that erasing the entry erases the note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from claude_agent_sdk import SessionKey, SessionStoreEntry, SessionSummaryEntry, fold_session_summary

from treering.format import values
from treering.integrations.claude.recorded import Entry
from treering.session.state import CARD
from treering.transcript.node import Draft

FACTS: Final = "claude"
"""The key of the summary among the extra facts of a card."""
BYTES_MAX: Final = 3000
"""The most bytes of a summary. Cards are small, since lists read each of them; usual summaries take 400 bytes."""
_LARGE: Final = "too_large"
"""The field that replaces a larger summary: the SDK then makes one from the transcript for each list."""


class Summary:
    """The summary of one session, updated entry by entry."""

    def __init__(self, key: SessionKey, data: Mapping[str, Any] | None = None) -> None:
        self._key = key
        self.data: dict[str, Any] = dict(data or {})

    def add(self, entry: Entry) -> dict[str, Any] | None:
        """Add one entry; return the changed fields, with None for removed ones; None if no field changed."""
        if _LARGE in self.data:
            return None
        before = SessionSummaryEntry(session_id=self._key["session_id"], mtime=0, data=self.data)
        after = fold_session_summary(before, self._key, [cast(SessionStoreEntry, entry)])["data"]
        if len(values.encode(after)) > BYTES_MAX:
            after = {_LARGE: True}
        changed = {name: value for name, value in after.items() if name not in self.data or self.data[name] != value}
        changed |= dict.fromkeys(self.data.keys() - after.keys())
        self.data = after
        return changed or None


def caught_up(key: SessionKey, rows: Iterable[tuple[str, Entry]]) -> tuple[dict[str, Any], list[Draft]]:
    """Return the summary of entries recorded without one, and the notes that put it on the card.

    Args:
        key: The session's key.
        rows: All entries so far, each with the id of its record.
    """
    summary, origins = Summary(key), dict[str, str]()
    for name, entry in rows:
        origins |= dict.fromkeys(summary.add(entry) or (), name)
    made: dict[str, dict[str, Any]] = {}
    for field, value in summary.data.items():
        made.setdefault(origins[field], {})[field] = value
    return summary.data, [changed_card(changed, name) for name, changed in made.items()]


def changed_card(changed: Mapping[str, Any], entry: str) -> Draft:
    """Return the note that puts changes on the card; `entry` is the id of the entry that made them."""
    return Draft(
        type="note",
        kind=CARD,
        brief={"fields": [f"{FACTS}/{name}" for name in changed]},
        links={"copy_of": entry},
        payload={FACTS: dict(changed)},
    )


def summary_on(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the summary among the extra facts of a card; None if there is none."""
    found = extra.get(FACTS)
    return dict(found) if isinstance(found, dict) else None


def is_complete(data: Mapping[str, Any]) -> bool:
    """Tell whether a summary has all fields that the SDK would make."""
    return _LARGE not in data
