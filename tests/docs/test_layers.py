"""The table of layers in CONTRIBUTING is the one that the import contracts hold."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tests.docs.pages import ROOT


def contract() -> list[set[str]]:
    """The public folders and modules of each layer, from above, as import-linter is told."""
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = (
        each["layers"]
        for each in settings["tool"]["importlinter"]["contracts"]
        if each.get("containers") == ["treering"]
    )
    found = [set(re.findall(r"\w+", layer)) for layer in layers]
    return [
        {name for name in layer if not name.startswith("_")} for layer in found if not all(n[0] == "_" for n in layer)
    ]


def told() -> list[set[str]]:
    """The same as the page says it: names, and then what they are for."""
    _, _, behind = (ROOT / "CONTRIBUTING.md").read_text().partition("## Layers\n")
    rows = [line.strip() for line in behind.partition("\n- ")[0].splitlines() if line.startswith("    ")]
    return [set(re.split(r" {2,}", row)[:-1]) for row in rows]


def test_the_table_is_the_contract() -> None:
    """Each row names the folders of one layer, in the order of the contract."""
    assert told() == contract()
