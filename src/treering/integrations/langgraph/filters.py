"""Conditions on items and namespaces, with the meaning that LangGraph's own stores give them.

If a value cannot be compared with the value in a filter, the item does not match; no error is raised.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from langgraph.store.base import MatchCondition

from treering.errors import UsageError
from treering.kinds import Kind

_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le,
}  # fmt: skip
OPERATORS: Final = ("$eq", "$ne", *_ORDERS)


def require_filter(wanted: object) -> None:
    """Refuse a filter with unknown operators, even if no item would be compared with it.

    Raises:
        UsageError: An operator is unknown.
    """
    if isinstance(wanted, Mapping):
        if _is_operation(wanted) and (unknown := [name for name in wanted if name not in OPERATORS]):
            raise UsageError(
                f"Unsupported operator: {unknown[0]}", kind=Kind.OPTION, remedy=f"use one of {', '.join(OPERATORS)}"
            )
        for each in wanted.values():
            require_filter(each)


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Tell whether the value of an item matches a filter."""
    return all(_equals(value.get(field), each) for field, each in (wanted or {}).items())


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if _is_operation(wanted):
            return all(_compares(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and all(_equals(value.get(field), each) for field, each in wanted.items())
    if isinstance(wanted, list | tuple):
        if not isinstance(value, list | tuple) or len(value) != len(wanted):
            return False
        return all(_equals(each, other) for each, other in zip(value, wanted, strict=True))
    return bool(value == wanted)


def _is_operation(wanted: Mapping[Any, Any]) -> bool:
    return any(isinstance(name, str) and name.startswith("$") for name in wanted)


def _compares(value: Any, name: str, operand: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool(value == operand) is (name == "$eq")
    try:
        if not (isinstance(value, str) and isinstance(operand, str)):
            value, operand = float(value), float(operand)
        return _ORDERS[name](value, operand)
    except (TypeError, ValueError, OverflowError):
        return False


def is_below(namespace: tuple[str, ...], conditions: Iterable[MatchCondition]) -> bool:
    """Tell whether a namespace matches all conditions; `*` stands for any label."""
    return all(_fits(namespace, condition) for condition in conditions)


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise UsageError(f"Unsupported match type: {condition.match_type}", kind=Kind.OPTION)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))


def prefix_of(conditions: Iterable[MatchCondition]) -> tuple[str, ...]:
    """Return labels with which every namespace that matches the conditions begins."""
    found: tuple[str, ...] = ()
    for condition in conditions:
        if condition.match_type == "prefix":
            stars = [place for place, label in enumerate(condition.path) if label == "*"]
            found = max(found, tuple(condition.path[: min(stars, default=None)]), key=len)
    return found
