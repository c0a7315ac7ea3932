"""JSON to the byte as other programs write it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treering.programs.common.writing import encode_javascript

NUMBERS = [
    (1.0, "1"),
    (-0.0, "0"),
    (0.5, "0.5"),
    (0.00001, "0.00001"),
    (0.000001, "0.000001"),
    (1.5e-6, "0.0000015"),
    (1e-7, "1e-7"),
    (123456.75, "123456.75"),
    (1e15 + 0.5, "1000000000000000.5"),
    (123456789012345680.0, "123456789012345680"),
    (1e20, "100000000000000000000"),
    (1e21, "1e+21"),
    (5e-324, "5e-324"),
    (12, "12"),
]


@pytest.mark.parametrize(("number", "written"), NUMBERS)
def test_a_number_is_written_as_javascript_does_wherever_it_stands(number: float, written: str) -> None:
    """Alone, in a list, in an object, below others, and beside texts that look like numbers."""
    places: list[Any] = [number, [number], {"a": number}, {"a": [{"b": [0, number]}], "t": "number:"}]
    for place in places:
        text = encode_javascript(place).decode()
        assert text == json.dumps(place, separators=(",", ":")).replace(json.dumps(number), written)
