"""Names of the sessions for the parts of a Strands session, and the keys of their state. Needs no Strands.

A Strands session groups agents and orchestrators; each of them is one session here:

    <session id>                               the agent with Strands' default id: most users see the name they chose
    <session id>/<agent id>                    any other agent
    <session id>/multi/<orchestrator id>       a graph or a swarm
    <session id>/multi/<orchestrator id>/<node id>  what an agent in one of its nodes said, and so on for nodes of nodes

No id may hold a `/`, but for that of a node, where it is escaped; so no two of them have one name.

The keys of an application's own state are unchanged. State of Strands itself has keys that begin with `strands:`; a key
of the application that begins so, or is empty, gets the prefix `strands:state:`. A value that is nested too deep to be
stored is kept as JSON text, `{"strands:json": "..."}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from treering.format.nesting import LEVELS_MAX, is_deeper

DEFAULT_AGENT: Final = "default"
"""The id that Strands gives to an agent without one."""
OURS: Final = "strands:"
_STATE: Final = "strands:state:"
_RESULTS: Final = "node_results"
_TEXT: Final = "strands:json"


def agent_session(session_id: str, agent_id: str) -> str:
    """The name of the session that keeps an agent."""
    return session_id if agent_id == DEFAULT_AGENT else f"{session_id}/{agent_id}"


def orchestrator_session(session_id: str, orchestrator_id: str) -> str:
    """The name of the session that keeps a graph or a swarm."""
    return f"{session_id}/multi/{orchestrator_id}"


def node_session(above: str, node_id: str) -> str:
    """The name of the session of a node, below that of its orchestrator or of the node that contains it."""
    return f"{above}/{node_id.replace('%', '%25').replace('/', '%2F')}"


def inward(key: str) -> str:
    """The key of a session's state for a key of an application's."""
    return key if key and not key.startswith(OURS) else _STATE + key


def outward(key: str) -> str | None:
    """The inverse of `inward`; None for a key of Strands itself."""
    return None if key.startswith(OURS) and not key.startswith(_STATE) else key.removeprefix(_STATE)


def kept(value: Any) -> Any:
    """The form in which a value of an agent's state is stored: itself, or its JSON text."""
    return {_TEXT: json.dumps(value)} if is_deeper(value, LEVELS_MAX) or _is_text(value) else value


def unkept(value: Any) -> Any:
    """The inverse of `kept`."""
    return json.loads(value[_TEXT]) if _is_text(value) else value


def _is_text(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {_TEXT}


def orchestrator_state(serialized: Mapping[str, Any]) -> dict[str, Any]:
    """The serialized state of a graph or a swarm by keys of a session's state: the result of each node has one."""
    results = serialized.get(_RESULTS)
    rest = {name: value for name, value in serialized.items() if name != _RESULTS}
    parts = results.items() if isinstance(results, dict) else ()
    return rest | {f"{_RESULTS}:{node}": result for node, result in parts}


def serialized_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `orchestrator_state`."""
    start = f"{_RESULTS}:"
    results = {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
    return {name: value for name, value in state.items() if not name.startswith(start)} | {_RESULTS: results}
