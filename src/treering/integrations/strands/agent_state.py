"""The state of an agent besides its messages, as state of a session: one value per key, so only changes are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from strands import Snapshot
from strands.types.agent import LocalAgent

from treering.format import values
from treering.programs.strands.keys import OURS, inward, kept, outward, unkept

STASH: Final = "strands:stash:"
"""Key prefix for content that a context manager offloaded, followed by its reference; the bare key holds the kind of
storage that keeps the content instead."""
SYSTEM: Final = "strands:system"
"""Key of the digest of the system prompt and tools that were recorded last."""
_FIELDS: Final[Mapping[str, object]] = {
    "interrupt_state": {"interrupts": {}, "context": {}, "activated": False},
    "model_state": {},
}
"""Fields of a snapshot that are stored under our own keys, with the value of a field that is not stored."""
SCOPE: Final = "agent"
SCHEMA: Final = "1.0"


class Known(NamedTuple):
    """The state of an agent besides its messages."""

    state: dict[str, bytes]
    """By key of the session's state, encoded."""
    manager: bytes | None
    """State of the conversation manager, encoded; None: the agent has none."""


class Stash(NamedTuple):
    """Content that a context manager offloaded, and shows again when the model asks for it."""

    entries: Mapping[str, object] = {}
    """By reference; empty if another storage keeps it."""
    elsewhere: str = ""
    """The kind of the durable storage that keeps the content, if one does."""


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
    state: dict[str, object] = {inward(key): kept(value) for key, value in data["state"].items()}
    state |= {OURS + name: kept(data[name]) for name, nothing in _FIELDS.items() if data.get(name, nothing) != nothing}
    state |= {STASH + reference: entry for reference, entry in stash.entries.items()}
    if stash.elsewhere:
        state[STASH] = stash.elsewhere
    if system:
        state[SYSTEM] = system
    manager = data.get("conversation_manager_state")
    encoded = {key: values.encode(value) for key, value in state.items()}
    return Known(encoded, None if manager is None else values.encode(manager))


def snapshot_of(agent: LocalAgent, state: Mapping[str, Any], messages: list[Any]) -> Snapshot:
    """The snapshot to load into an agent, without the state of its conversation manager.

    Args:
        agent: Its fields are those of the snapshot.
        state: Of the session.
        messages: What the model sees.
    """
    data: dict[str, Any] = {"messages": messages, "state": application_state(state)}
    fields = agent.take_snapshot(preset="session", exclude=["messages"]).data
    data |= {name: unkept(state.get(OURS + name, nothing)) for name, nothing in _FIELDS.items() if name in fields}
    return Snapshot(scope=SCOPE, schema_version=SCHEMA, data=data, app_data={})


def application_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of the application, without keys of Strands."""
    return {name: unkept(value) for key, value in state.items() if (name := outward(key)) is not None}


def is_interrupted(state: Mapping[str, Any]) -> bool:
    """Whether calls of the last message wait for an answer to an interrupt."""
    found = unkept(state.get(OURS + "interrupt_state"))
    return isinstance(found, dict) and bool(found.get("activated"))


def stash_keys(state: Iterable[str], names: Collection[str]) -> list[str]:
    """Keys of the content that a context manager offloaded under some names; see `put_aside_as`."""
    return [key for key in state if key.startswith(STASH) and is_named(key[len(STASH) :], names)]


def is_named(reference: str, names: Collection[str]) -> bool:
    """Whether a reference is to content offloaded under one of these names."""
    return reference.rpartition("_")[0] in names


def stash_of(state: Mapping[str, Any]) -> Stash:
    """The content that a context manager had offloaded."""
    entries = {key[len(STASH) :]: value for key, value in state.items() if key.startswith(STASH) and key != STASH}
    return Stash(entries, state.get(STASH, ""))
