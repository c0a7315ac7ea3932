"""Decode the state of the agent, and of its conversation manager, for callers: read-only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from treering.format import values
from treering.format.erasure import Erased, erased_of, is_erased


def decoded_state(state: Mapping[str, bytes]) -> Mapping[str, Any]:
    """State values as the agent handed them in; those that were erased are left out."""
    return MappingProxyType({key: values.decode(value) for key, value in state.items() if not is_erased(value)})


def decoded_manager(manager: bytes | None) -> object:
    """The state of a conversation manager as it was handed in; None if there is none, or it was erased."""
    return None if manager is None or is_erased(manager) else values.decode(manager)


def erased_state(state: Mapping[str, bytes], manager: bytes | None) -> Mapping[str | None, Erased]:
    """Return what remains of erased state values, by key; the key None is the state of the conversation manager."""
    left: dict[str | None, Erased] = {key: erased_of(value) for key, value in state.items() if is_erased(value)}
    return MappingProxyType(left | ({None: erased_of(manager)} if manager is not None and is_erased(manager) else {}))
