"""Raise in the middle of a call, wherever Python lets a signal handler raise."""

from __future__ import annotations

import dis
import functools
import gc
import sys
from collections.abc import Callable
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

import treering

_ROOT = treering.__path__[0]
_AWAITED = 2
"""From this argument on, RESUME goes on behind an `await` or a `yield from`, and looks for nothing."""

Point = tuple[CodeType, int]
"""An instruction: between it and the one before, a handler may raise."""


@functools.cache
def _places(code: CodeType) -> frozenset[int]:
    """The instructions behind which the interpreter looks for signals: it does when a call returns or a frame begins.

    What is raised there belongs to the call. A tracer can raise at the next instruction only, so those are left out of
    which another `try` or `with` takes care.
    """
    bytecode: Any = dis.Bytecode(code)
    instructions = list(bytecode)

    def handler(offset: int) -> int | None:
        return next((each.target for each in bytecode.exception_entries if each.start <= offset < each.end), None)

    pairs = [pair for pair in pairwise(instructions) if _looks(pair[0])]
    return frozenset(after.offset for before, after in pairs if handler(before.offset) == handler(after.offset))


def _looks(instruction: dis.Instruction) -> bool:
    """Whether the interpreter looks for signals at its end."""
    if instruction.opname == "RESUME":
        return (instruction.arg or 0) < _AWAITED
    return instruction.opname.startswith("CALL")


class Points:
    """Calls something, and notes or strikes the places in this library where an interrupt could.

    Args:
        strike: Raise at the first visit of this one.
        error: What to raise.
    """

    def __init__(self, strike: Point | None = None, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.met: dict[Point, None] = {}
        self.struck = False
        self._strike = strike
        self._error = error
        # Bound once: CPython 3.11 now and then calls what has taken the place of one that nobody else refers to.
        self._entering, self._stepping = self._enter, self._step

    def __call__(self, call: Callable[[], object]) -> None:
        """Call it.

        Sessions that earlier calls left in a circle are let go before: where they end by themselves is no place in this
        call, and is not met in the next one. What other tests left is frozen, see `test_interrupts.known_heap`.
        """
        gc.collect()
        gc.disable()
        before = sys.gettrace()
        sys.settrace(self._entering)
        try:
            call()
        finally:
            sys.settrace(before)
            gc.enable()

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or not frame.f_code.co_filename.startswith(_ROOT):
            return None
        if self._strike is not None and (self.struck or frame.f_code is not self._strike[0]):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._stepping

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode" and frame.f_lasti in _places(frame.f_code):
            point = (frame.f_code, frame.f_lasti)
            if point == self._strike and not self.struck:
                self.struck = True
                raise self._error
            self.met[point] = None
        return self._stepping


def named(point: Point) -> str:
    """Where a point lies, for a message."""
    code, offset = point
    lines = [line for start, end, line in code.co_lines() if start <= offset < end]
    return f"{code.co_filename.removeprefix(_ROOT)}:{lines[0]} in {code.co_qualname}"
