"""The places of ADK's sessions, state, artifacts and memories in a store.

| what                         | namespace      | name                                     |
|------------------------------|----------------|------------------------------------------|
| a session                    | `<app>/<user>` | its id                                   |
| state of an app              | `<app>`        | session `app`                            |
| state of a user              | `<app>`        | session `user/<user>`                    |
| a version of an artifact     | `<app>/<user>` | parcel `artifacts/<owner>/<file>/<n>`    |
| memories of a user           | `adk-memory/<app>/<user>` | session `memory`              |
"""

from __future__ import annotations

from typing import Final, NamedTuple

from treering.format.paths import namespace_prefix, namespaces_in
from treering.format.values import fields_of
from treering.store.info import SessionInfo
from treering.store.place import Place

MARK: Final = "adk"
"""The field of a card that says what the session holds."""


class Where(NamedTuple):
    """A session of ADK."""

    app: str
    user: str
    session: str

    @classmethod
    def of(cls, row: SessionInfo) -> Where:
        """Return the session of a row, for which `is_session` is true.

        Rule: a session is its place's. The card of one that was copied from another user still names that one, and is
        asked only for a name that is too long to be read from the place.
        """
        facts = fields_of(row.extra[MARK])
        told = [str(facts[name]) for name in ("app", "user")]
        app, user = (
            name if namespaces_in(namespace_prefix("", name)) == (there,) else there
            for name, there in zip(told, row.namespace[-2:], strict=True)
        )
        return cls(app, user, row.id)

    @property
    def of_app(self) -> Shared:
        """The state of its app."""
        return Shared(self.app, None)

    @property
    def of_user(self) -> Shared:
        """The state of its user."""
        return Shared(self.app, self.user)

    @property
    def facts(self) -> dict[str, object]:
        """The facts on the card of its session."""
        return {MARK: {"keeps": "session", "app": self.app, "user": self.user}}


class Shared(NamedTuple):
    """The state of an app, or of one of its users."""

    app: str
    user: str | None

    @property
    def session(self) -> str:
        """The name of the session that keeps it."""
        return "app" if self.user is None else f"user/{self.user}"

    @property
    def facts(self) -> dict[str, object]:
        """The facts on the card of its session."""
        return {MARK: {"keeps": "state", "app": self.app} | ({} if self.user is None else {"user": self.user})}


def is_session(row: SessionInfo) -> bool:
    """Tell whether a row of a list is a session of ADK."""
    facts = fields_of(row.extra.get(MARK))
    return facts.get("keeps") == "session"


def place_of_user(place: Place, app: str, user: str) -> Place:
    """Return the part of a store that has the sessions and artifacts of a user."""
    return place.namespace(app).namespace(user)
