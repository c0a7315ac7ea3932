"""The state of an agent, except its messages, as state of a session: one value per key, so only changes are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from strands import Snapshot
from strands.types.agent import LocalAgent

from treering.format import values
from treering.programs.strands.keys import FIELDS, INTERRUPT, OURS, STASH, outward, stored_state, unkept

SYSTEM: Final = "strands:system"
"""Key of the digest of the system prompt and tools that were recorded last."""
SCOPE: Final = "agent"
SCHEMA: Final = "1.0"


class Known(NamedTuple):
    """The state of an agent, without its messages."""

    state: dict[str, bytes]
    """Encoded values by key of the session's state."""
    manager: bytes | None
    """Encoded state of the conversation manager; None if the agent has none."""


class Stash(NamedTuple):
    """Content that a context manager offloaded, and shows again when the model asks for it."""

    entries: Mapping[str, object] = {}
    """The content by reference; empty if another storage keeps it."""
    elsewhere: str = ""
    """The kind of the durable storage that keeps the content instead; empty if there is none."""


NO_STASH: Final = Stash()


def capture(agent: LocalAgent, *, stash: Stash, system: str) -> Known:
    """Copy the state of an agent.

    Args:
        agent: The agent.
        stash: The content that its context manager offloaded.
        system: Digest of its system prompt and tools.

    Raises:
        UsageError: A value cannot be stored exactly.
    """
    data = agent.take_snapshot(preset="session", exclude=["messages"]).data
    state = stored_state(data, stash=stash.entries, elsewhere=stash.elsewhere or None)
    if system:
        state[SYSTEM] = system
    manager = data.get("conversation_manager_state")
    encoded = {key: values.encode(value) for key, value in state.items()}
    return Known(encoded, None if manager is None else values.encode(manager))


def snapshot_of(agent: LocalAgent, state: Mapping[str, Any], messages: list[Any]) -> Snapshot:
    """Return the snapshot to load into an agent, without the state of its conversation manager.

    Args:
        agent: The agent, which determines the fields of the snapshot.
        state: The session's state.
        messages: The messages that the model sees.
    """
    data: dict[str, Any] = {"messages": messages, "state": application_state(state)}
    fields = agent.take_snapshot(preset="session", exclude=["messages"]).data
    data |= {name: unkept(state.get(OURS + name, nothing)) for name, nothing in FIELDS.items() if name in fields}
    return Snapshot(scope=SCOPE, schema_version=SCHEMA, data=data, app_data={})


def application_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of the application, without keys of Strands."""
    return {name: unkept(value) for key, value in state.items() if (name := outward(key)) is not None}


def is_interrupted(state: Mapping[str, Any]) -> bool:
    """Tell whether calls of the last message wait for an answer to an interrupt."""
    found = unkept(state.get(INTERRUPT))
    return isinstance(found, dict) and bool(found.get("activated"))


def stash_keys(state: Iterable[str], names: Collection[str]) -> list[str]:
    """Return the keys of the content that a context manager offloaded under some names; see `put_aside_as`."""
    return [key for key in state if key.startswith(STASH) and is_named(key[len(STASH) :], names)]


def is_named(reference: str, names: Collection[str]) -> bool:
    """Tell whether a reference is to content offloaded under one of these names."""
    return reference.rpartition("_")[0] in names


def stash_of(state: Mapping[str, Any]) -> Stash:
    """Return the content that a context manager offloaded."""
    entries = {key[len(STASH) :]: value for key, value in state.items() if key.startswith(STASH) and key != STASH}
    return Stash(entries, state.get(STASH, ""))
