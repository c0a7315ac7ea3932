"""Run a sample of a test's items if all take long and each adds little.

`@pytest.mark.sampled(8, "verb")` keeps about one item in eight, and one at least for each value of `verb`. They are the
same on every run. `pytest.mark.thinned(3)` on a parameter that many tests of a file share, as a server beside memory,
keeps about one in three of the items that have it. `@pytest.mark.whole` keeps none. With `TREERING_WHOLE` set all of
them run (`make whole`), and so does a test that is named on the command line, as `tests/a.py::test_b`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence

import pytest

WHOLE = bool(os.environ.get("TREERING_WHOLE"))
MARKERS = (
    "sampled(one_in, *arguments): of its items one in so many is run, and one for each value of these arguments",
    "thinned(one_in): of the items of a file with this mark one in so many is run",
    "whole: takes long and says little that other tests do not; only `make whole` runs it",
)


def few(usual: int, whole: int) -> int:
    """How many examples or rounds a test takes: as many as usual, or all that it should with `TREERING_WHOLE`."""
    return whole if WHOLE else usual


def chosen(items: Sequence[tuple[str, Mapping[str, object]]], one_in: int, arguments: Sequence[str] = ()) -> list[int]:
    """Places of the items that are run.

    Args:
        items: Name and arguments of each.
        one_in: About so many stand for one.
        arguments: Those of which each value is tried.
    """
    order = sorted(range(len(items)), key=lambda place: zlib.crc32(items[place][0].encode()))
    taken = {*order[: -(-len(items) // one_in)]}
    seen = {(name, items[place][1].get(name)) for place in taken for name in arguments}
    for place in order:
        new = {(name, items[place][1].get(name)) for name in arguments} - seen
        if new:
            taken.add(place)
            seen |= new
    return sorted(taken)


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(trylast=True)  # behind `-k` and `-m`, which choose first
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rest."""
    if WHOLE or any("::" in each for each in config.args):
        return
    left = {item for item in items if item.get_closest_marker("whole")}
    for name, until in (("sampled", "["), ("thinned", "::")):
        tests: dict[str, list[pytest.Item]] = {}
        for item in items:
            if item not in left and item.get_closest_marker(name):
                tests.setdefault(item.nodeid.partition(until)[0], []).append(item)
        for same in tests.values():
            mark = same[0].get_closest_marker(name)
            assert mark is not None
            kept = chosen([(item.nodeid, _arguments(item)) for item in same], mark.args[0], mark.args[1:])
            left |= {*same} - {same[place] for place in kept}
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=[*left])


def _arguments(item: pytest.Item) -> Mapping[str, object]:
    """What the item is given, as text: values need not be hashable."""
    called = getattr(item, "callspec", None)
    return {} if called is None else {name: str(value) for name, value in called.params.items()}
