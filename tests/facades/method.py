"""Write one method of a facade from the protocol that it runs."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from tests.facades.sides import AWAITED, SESSION, VIEW, Side
from tests.facades.source import Function, Import, Source, names_in, without_argument

PROTOCOLS = ("Steps", "Job", "Stream")
OPENED = (SESSION, VIEW)
INNER = {*PROTOCOLS, "Place", "Opened", "Readable", "Reader", "Writer", "Performer"}
"""Names that users do not see."""


class Method(NamedTuple):
    """A method to write."""

    name: str
    source: Source
    function: Function
    verb: str = ""
    """For a session: the protocol, which is performed on its reader or writer. Else it is a method of the body."""
    bound: bool = True
    """Else it is a function, which calls another one."""

    @property
    def returned(self) -> tuple[str, str]:
        """The kind of protocol, empty for a plain function, and what it returns."""
        annotation = ast.unparse(self.function.returns) if self.function.returns else "None"
        found = re.fullmatch(rf"({'|'.join(PROTOCOLS)})\[(.*)\]", annotation)
        return (found[1], found[2]) if found else ("", annotation)

    def imports(self, side: Side) -> set[Import]:
        """What its signature needs."""
        arguments = self.function.args
        every = [*_positional(self.function), *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        every = [each for each in every if each and each not in _positional(self.function)[: self.bound]]
        told = names_in(self.function.returns).union(*(names_in(each.annotation) for each in every if each))
        needed = set[str]().union(*(names_in(each) for each in [*arguments.defaults, *arguments.kw_defaults]))
        known = self.source.imports
        found = {known[name] for name in needed if name in known and name not in INNER}
        late = {known[name] for name in told - needed if name in known and name not in INNER}
        found |= {each._replace(typing_only=True) for each in late}
        return found | ({Import("collections.abc", side.iterator)} if self.returned[0] == "Stream" else set())

    def written(self, side: Side) -> str:
        """The method, as it stands in a class."""
        kind, result = self.returned
        shown = side.seen(result)
        job = f"{f'self._body.{self.name}' if self.bound else self.function.name}({self._passed()})"
        performed = f"self.perform({', '.join(filter(None, (self.verb, self._passed())))})"
        if kind == "Stream":
            given = f"self._each({', '.join(filter(None, (self.verb, self._passed())))})" if self.verb else ""
            return self._lines("def", side, f"{side.iterator}[{shown}]", f"return {given or f'self._each({job})'}")
        if not kind:
            return self._lines("def", side, shown, f"return {_wrapped(job, result, side)}")
        if result in OPENED and side is AWAITED:
            return self._lines("def", side, f"AsyncOpening[{shown}]", f"return self._opening({shown}, {job})")
        run = f"{side.awaits}{performed if self.verb else f'self._run({job})'}"
        body = run if result == "None" else f"return {_wrapped(run, result, side)}"
        return self._lines(side.defines, side, shown, body)

    def _lines(self, defines: str, side: Side, result: str, body: str) -> str:
        docstring = self.source.docstring(self.function)
        if self.bound:
            docstring = without_argument(docstring, _positional(self.function)[0].arg)
        head = f"{defines} {self.name}({self._signature(side)}) -> {result}:"
        return "\n".join([head, *(f"    {line}" if line else "" for line in [*docstring.splitlines(), body])])

    def _signature(self, side: Side) -> str:
        copied = ast.parse(ast.unparse(self.function)).body[0]
        assert isinstance(copied, ast.FunctionDef)
        if self.bound:
            first = _positional(copied)[0]
            first.arg, first.annotation = "self", None
        return side.seen(ast.unparse(copied.args))

    def _passed(self) -> str:
        """The arguments, handed on."""
        arguments = self.function.args
        words = [_handed(each) for each in _positional(self.function)[self.bound :]]
        words += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
        words += [f"{each.arg}={_handed(each)}" for each in arguments.kwonlyargs]
        words += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
        return ", ".join(words)


def _positional(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args]


def _handed(argument: ast.arg) -> str:
    """An argument as the protocol wants it."""
    annotation = ast.unparse(argument.annotation) if argument.annotation else ""
    if annotation == "Place":
        return f"{argument.arg}.place"
    return f"{argument.arg}.place if {argument.arg} else None" if annotation == "Place | None" else argument.arg


def _wrapped(run: str, result: str, side: Side) -> str:
    """What a protocol returned, as callers of this side know it."""
    if result == "Reader":
        return f"{side.seen(result)}(self._beside({run}))"
    if result in ("Place", *OPENED):
        return f"{side.seen(result)}({run})"
    if result == "dict[str, Place]":
        return f"{{name: {side.seen('Place')}(place) for name, place in ({run}).items()}}"
    return run
