"""The changes that mutants make to the syntax tree, at the statement that is marked with the name of their rule.

A change that takes code depends on the names in that code; prefer a change that takes none.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tests.simulation.marks import Place, Statement

Change = Callable[[Sequence[Place]], None]
"""Changes marked statements in place.

Raises ValueError if it does not fit the statement.
"""
_Node = TypeVar("_Node", bound=ast.AST)
_LATE = "_late"


def never(part: str | int | None = None) -> Change:
    """Replace the condition by false.

    Args:
        part: Replace only one operand of an `and` or `or`: the one that mentions this name, or has this number.
    """
    return _each(lambda place: _replace(place, _condition(place, part), ast.Constant(value=False)))


def always(part: str | int | None = None) -> Change:
    """Replace the condition by true; see `never`."""
    return _each(lambda place: _replace(place, _condition(place, part), ast.Constant(value=True)))


def only_if(code: str) -> Change:
    """Add an operand before the condition, joined by `and`; run a statement without a condition only if it holds."""

    def change(place: Place) -> None:
        if not list(_conditions(place)):
            statement = _statement(place)
            _put(place, ast.If(test=_expression(code), body=[statement], orelse=[]))
            return
        old = _condition(place, None)
        _replace(place, old, ast.BoolOp(op=ast.And(), values=[_expression(code), old]))

    return _each(change)


def also_if(code: str) -> Change:
    """Add an operand after the condition, joined by `or`."""

    def change(place: Place) -> None:
        old = _condition(place, None)
        _replace(place, old, ast.BoolOp(op=ast.Or(), values=[old, _expression(code)]))

    return _each(change)


def condition(code: str) -> Change:
    """Replace the condition by this one."""
    return _each(lambda place: _replace(place, _condition(place, None), _expression(code)))


def value(code: str) -> Change:
    """Replace the value that is assigned or returned."""

    def change(place: Place) -> None:
        old = getattr(place.statement, "value", None)
        if not isinstance(old, ast.expr):
            raise ValueError("nothing is assigned or returned here")  # noqa: TRY004  # no fault of a type in our code
        _replace(place, old, _expression(code))

    return _each(change)


def without() -> Change:
    """Remove the statement."""
    return _each(lambda place: _put(place, ast.Pass()))


def instead(code: str) -> Change:
    """Replace the statement by this code."""
    return _each(lambda place: _put(place, *ast.parse(code).body))


def first(code: str) -> Change:
    """Run this code before the statement."""
    return _each(lambda place: _put(place, *ast.parse(code).body, _statement(place)))


def then(code: str) -> Change:
    """Run this code after the statement."""
    return _each(lambda place: _put(place, _statement(place), *ast.parse(code).body))


def without_argument(name: str) -> Change:
    """Remove a keyword argument, so that its default counts."""

    def change(place: Place) -> None:
        call, keyword = _keyword(place, name)
        call.keywords.remove(keyword)

    return _each(change)


def argument(name: str, code: str) -> Change:
    """Replace the value of a keyword argument."""

    def change(place: Place) -> None:
        _, keyword = _keyword(place, name)
        keyword.value = _expression(code)

    return _each(change)


def without_call(name: str) -> Change:
    """Replace a call by its first argument."""

    def change(place: Place) -> None:
        call = _only([call for call in _own(place, ast.Call) if _name(call.func) == name], f"call of {name}")
        _replace(place, call, call.args[0])

    return _each(change)


def without_slice() -> Change:
    """Replace a slice of a sequence by the whole sequence."""

    def change(place: Place) -> None:
        sliced = [each for each in _own(place, ast.Subscript) if isinstance(each.slice, ast.Slice)]
        part = _only(sliced, "slice")
        _replace(place, part, part.value)

    return _each(change)


def over(code: str) -> Change:
    """Replace the sequence that a loop runs over."""

    def change(place: Place) -> None:
        loops: list[ast.For | ast.comprehension] = [*_own(place, ast.For), *_own(place, ast.comprehension)]
        loop = _only(loops, "loop")
        loop.iter = _expression(code)

    return _each(change)


def catching(code: str) -> Change:
    """Replace the errors that an `except` catches."""

    def change(place: Place) -> None:
        if not isinstance(place.statement, ast.ExceptHandler):
            raise ValueError("this is no except")  # noqa: TRY004  # no fault of a type in our code
        place.statement.type = _expression(code)

    return _each(change)


def in_other_order(places: Sequence[Place]) -> None:
    """Move the statement after the one that is marked `before this`."""
    early, late = places
    moved: list[ast.stmt] = [_statement(early)]
    if early.block is late.block:
        early.block.remove(early.statement)
    else:  # the earlier statement may be under a condition
        deferred = ast.parse(f"def {_LATE}(): pass").body[0]
        assert isinstance(deferred, ast.FunctionDef)
        deferred.body = moved
        _put(early, deferred)
        moved = ast.parse(f"if {_LATE!r} in locals(): yield from {_LATE}()").body
    if isinstance(late.statement, ast.Return) and late.statement.value:
        kept = ast.Assign(targets=[ast.Name(id="_returned", ctx=ast.Store())], value=late.statement.value)
        _put(late, kept, *moved, ast.Return(value=ast.Name(id="_returned", ctx=ast.Load())))
    else:
        _put(late, _statement(late), *moved)


def _each(change: Callable[[Place], None]) -> Change:
    def change_all(places: Sequence[Place]) -> None:
        for place in places:
            change(place)

    return change_all


def _statement(place: Place) -> ast.stmt:
    if not isinstance(place.statement, ast.stmt):
        raise ValueError("this is no statement")  # noqa: TRY004  # no fault of a type in our code
    return place.statement


def _put(place: Place, *statements: ast.stmt) -> None:
    at = place.block.index(place.statement)
    place.block[at : at + 1] = statements


def _expression(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


def _own(place: Place, kind: type[_Node]) -> Iterator[_Node]:
    """Yield the nodes of a statement, except those of statements inside it."""
    rest: list[ast.AST] = [place.statement]
    while rest:
        node = rest.pop(0)
        if isinstance(node, kind):
            yield node
        rest += [each for each in ast.iter_child_nodes(node) if not isinstance(each, Statement)]


def _replace(place: Place, old: ast.expr, new: ast.expr) -> None:
    for node in _own(place, ast.AST):
        for field, there in ast.iter_fields(node):
            if there is old:
                setattr(node, field, new)
                return
            if isinstance(there, list) and any(each is old for each in there):
                there[:] = [new if each is old else each for each in there]
                return


def _condition(place: Place, part: str | int | None) -> ast.expr:
    if part is None:
        return _only(list(_conditions(place)), "condition")
    operations = list(_own(place, ast.BoolOp))
    if isinstance(part, int):
        return operations[0].values[part]
    operands = [each for operation in operations for each in operation.values if _mentions(each, part)]
    inner = [each for each in operands if not any(other in ast.walk(each) for other in operands if other is not each)]
    return _only(inner, f"operand that mentions {part}")


def _conditions(place: Place) -> Iterator[ast.expr]:
    for node in _own(place, ast.AST):
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs


def _keyword(place: Place, name: str) -> tuple[ast.Call, ast.keyword]:
    pairs = [(call, keyword) for call in _own(place, ast.Call) for keyword in call.keywords if keyword.arg == name]
    return _only(pairs, f"argument {name}")


def _mentions(node: ast.AST, name: str) -> bool:
    return any(_name(each) == name for each in ast.walk(node))


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


_Item = TypeVar("_Item")


def _only(found: Sequence[_Item], what: str) -> _Item:
    if len(found) != 1:
        raise ValueError(f"the statement has {len(found)} of what is to be changed: {what}")
    return found[0]
