"""The page of promises names tests that are there."""

from __future__ import annotations

import re

import pytest
from tests.docs.pages import ROOT, table

PAGE = ROOT / "docs/explanation/promises.md"
ROWS = table(PAGE, "Promise")

_test = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_there_are_ten() -> None:
    """Each promise has a row, and each row more than one test."""
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 11)]
    assert all(len(_test.findall(row[2])) > 1 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_the_tests_are_there(row: list[str]) -> None:
    """Files exist, and hold the functions that are named; nothing else stands in the cell."""
    found = _test.findall(row[2])
    assert re.sub(r"[\s,]", "", _test.sub("", row[2])) == ""
    for path, name in found:
        text = (ROOT / path).read_text()
        assert re.search(
            rf"^(async )?def {name}\(" if name else r"^(async )?def test_|def test_", text, re.MULTILINE
        ), path
