"""How many functions of ours a call goes through: what somebody reads who wants to know what it does.

The figures are upper bounds that may only fall. What a call needs was imported before it is traced.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

import treering

PACKAGE = str(Path(treering.__file__).parent)


class Hops(NamedTuple):
    """What a call went through."""

    functions: int
    files: int


BUDGETS = {"append": Hops(85, 30), "branch": Hops(111, 31), "resume": Hops(164, 38)}


def hops(call: Callable[[], object]) -> Hops:
    """Count the functions and files of the package that a call goes through; comprehensions are part of theirs."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            seen.add((code.co_filename, code.co_qualname))

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # what is freed meanwhile is no part of the call
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        gc.enable()
    return Hops(len(seen), len({file for file, _ in seen}))


def calls(store: treering.Store) -> dict[str, Callable[[], object]]:
    """The calls, on a session of some turns."""
    with store.session("s") as session:
        for turn in range(3):
            session.commit(["question", {"role": "assistant", "content": "answer"}], state={"turn": turn})
    session = store.session("s")
    session.append("one more")
    first, names = session.path()[1], map(str, count())
    return {
        "append": lambda: session.append("and another"),
        "branch": lambda: session.branch(next(names), node=first),
        "resume": lambda: store.session("s", hold=False),
    }


@pytest.mark.parametrize("name", BUDGETS)
def test_a_call_goes_through_few_functions(tmp_path: Path, name: str) -> None:
    """Nobody should have to read more than this to know what the call does."""
    with treering.open(str(tmp_path)) as store:
        call = calls(store)[name]
        call()  # imports what it needs
        found = hops(call)
    assert found <= BUDGETS[name]
    assert found.files <= BUDGETS[name].files
