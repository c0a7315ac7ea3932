"""Names of the sessions for the parts of a Strands session, and the keys of their state. It does not import Strands.

A Strands session groups agents and orchestrators; each of them is one session in Treering:

    <session id>                               the agent with Strands' default id: most users see the name they chose
    <session id>/<agent id>                    any other agent
    <session id>/multi/<orchestrator id>       a graph or a swarm
    <session id>/multi/<orchestrator id>/<node id>  an agent in one of its nodes, and so on for nested nodes

No id may hold a `/`, except that of a node, in which it is escaped; so no two parts have the same name.

The keys of an application's own state are unchanged. State of Strands itself has keys that begin with `strands:`; a key
of the application that begins with that prefix, or is empty, gets the prefix `strands:state:`. A value that is nested
too deep to be stored is kept as JSON text, `{"strands:json": "..."}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from treering.format.nesting import LEVELS_MAX, is_deeper
from treering.format.values import Fields, fields_of

DEFAULT_AGENT: Final = "default"
"""The id that Strands gives to an agent without one."""
OURS: Final = "strands:"
STASH: Final = "strands:stash:"
"""Key prefix for content that a context manager offloaded, followed by its reference; the bare key holds the kind of
storage that keeps the content instead."""
INTERRUPT: Final = "strands:interrupt_state"
"""Key of what waits for an answer to an interrupt, with the results of the other tools of that turn."""
FIELDS: Final[Mapping[str, Fields]] = {
    "interrupt_state": {"interrupts": {}, "context": {}, "activated": False},
    "model_state": {},
}
"""Fields of a snapshot that are stored under keys of Strands itself, with the default that is not stored."""
_STATE: Final = "strands:state:"
_RESULTS: Final = "node_results"
_TEXT: Final = "strands:json"


def agent_session(session_id: str, agent_id: str) -> str:
    """Return the name of the session that keeps an agent."""
    return session_id if agent_id == DEFAULT_AGENT else f"{session_id}/{agent_id}"


def orchestrator_session(session_id: str, orchestrator_id: str) -> str:
    """Return the name of the session that keeps a graph or a swarm."""
    return f"{session_id}/multi/{orchestrator_id}"


def node_session(above: str, node_id: str) -> str:
    """Return the name of a node's session, below that of its orchestrator or of the node that contains it."""
    return f"{above}/{node_id.replace('%', '%25').replace('/', '%2F')}"


def inward(key: str) -> str:
    """Return the key of a session's state for a key of an application's state."""
    return key if key and not key.startswith(OURS) else _STATE + key


def outward(key: str) -> str | None:
    """Invert `inward`; return None for a key of Strands itself."""
    return None if key.startswith(OURS) and not key.startswith(_STATE) else key.removeprefix(_STATE)


def kept(value: Any) -> Any:
    """Return the stored form of a value of an agent's state: the value itself, or its JSON text."""
    return {_TEXT: json.dumps(value)} if is_deeper(value, LEVELS_MAX) or _is_text(value) else value


def unkept(value: Any) -> Any:
    """Invert `kept`."""
    return json.loads(value[_TEXT]) if _is_text(value) else value


def stored_state(data: Fields, *, stash: Mapping[str, object], elsewhere: str | None) -> dict[str, Any]:
    """Return the state of an agent without messages and conversation manager, by the keys of a session's state.

    Args:
        data: The data of a snapshot, in Python's format.
        stash: The content that a context manager offloaded, by reference.
        elsewhere: The kind of the storage that keeps this content instead; None if there is none.
    """
    state = {inward(key): kept(value) for key, value in fields_of(data.get("state")).items()}
    state |= {
        OURS + name: kept(data[name])
        for name, nothing in FIELDS.items()
        if data.get(name, nothing) not in (nothing, None)
    }
    state |= {STASH + reference: entry for reference, entry in stash.items()}
    return state if elsewhere is None else state | {STASH: elsewhere}


def _is_text(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {_TEXT}


def orchestrator_state(serialized: Mapping[str, Any]) -> dict[str, Any]:
    """Return the serialized state of a graph or a swarm, by keys of a session's state: each node's result has a key."""
    results = serialized.get(_RESULTS)
    rest = {name: value for name, value in serialized.items() if name != _RESULTS}
    parts = results.items() if isinstance(results, dict) else ()
    return rest | {f"{_RESULTS}:{node}": result for node, result in parts}


def serialized_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Invert `orchestrator_state`."""
    start = f"{_RESULTS}:"
    results = {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
    return {name: value for name, value in state.items() if not name.startswith(start)} | {_RESULTS: results}
