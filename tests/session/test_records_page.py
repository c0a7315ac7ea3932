"""The examples in docs/reference/records.md are what the code writes.

    python -m tests.session.test_records_page

prints them anew. Ids that are made by chance are called `c1`, `c2`, ... there, and times are left out.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from msgspec import Struct

import treering
from treering.api.store import Store
from treering.checkpoint.checkpoint import Body, Whole
from treering.checkpoint.policies import _CHANGES, DefaultPolicy
from treering.checkpoint.policy import VIEWS, Seen
from treering.format.patch import make_patch
from treering.format.paths import SessionKeys
from treering.format.register import decode_latest
from treering.format.values import encode
from treering.session.snapshot import StateLine
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

PAGE = Path(__file__).parents[2] / "docs/reference/records.md"
CHANCE = ("by", "_c", "time")


def record() -> tuple[MemoryDriver, Store]:
    """A session with a checkpoint, a change of it and a rewind."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    with store.session("s") as session:
        for number in range(1, 8):
            session.append(treering.user(f"message {number}", id=f"n{number}"))
        session.commit([treering.assistant("done", id="n8")], state={"step": 1, "plan": ["test"]}, label="first")
        session.commit([treering.user("go on", id="n9")], state={"step": 2})
        session.rewind(session.checkpoints()[0].id)
    return memory, store


def examples() -> dict[str, str]:
    """The fenced blocks of the page."""
    memory, store = record()
    keys = SessionKeys("", "s", memory.appends)
    lines = [json.loads(line) for line in store.view("s").lines()]
    made = [line for line in lines if line["type"] == "checkpoint"]
    names = {line["id"]: f"c{number}" for number, line in enumerate(made, 1)}
    state = json.loads(decode_latest(memory.snapshot()[keys.latest], key=keys.latest).lines[0])
    plan = [f"step {number}" for number in range(1, 41)]
    patch = make_patch(encode(plan), encode([*plan[:2], "done", *plan[3:], "step 41"]))
    assert patch is not None
    return {"checkpoints": _block(made, names), "state": _block([state], names), "patch": patch.decode() + "\n"}


def _block(objects: list[dict[str, object]], names: dict[str, str]) -> str:
    text = "".join(json.dumps(_settled(each), separators=(",", ":")) + "\n" for each in objects)
    return re.sub("|".join(names), lambda match: names[match[0]], text)


def _settled(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {name: _settled(field) for name, field in value.items() if name not in CHANCE}


@pytest.mark.parametrize("name", ["checkpoints", "state", "patch"])
def test_examples_are_what_is_written(name: str) -> None:
    """The page shows what a session writes, but for ids and times."""
    match = re.search(rf"<!-- example: {name} -->\n\n```json\n(.*?)```\n", PAGE.read_text(), re.DOTALL)
    assert match
    assert match[1] == examples()[name]


@pytest.mark.parametrize("form", [Body, Whole, StateLine])
def test_all_fields_are_on_the_page(form: type[Struct]) -> None:
    """Whatever a checkpoint or the state line consists of is told."""
    told = set(re.findall(r"`([a-z_]+)`", PAGE.read_text()))
    assert set(form.__struct_fields__) - {"type"} <= told


def test_the_default_policy_is_on_the_page() -> None:
    """Kinds that change the context are told, and what the views make of them."""
    text = PAGE.read_text()
    page = " ".join(text.split())
    rows = re.findall(r"\n\| (`.*?) \|", text.partition("## Notes")[0])
    kinds = set(re.findall(r"`(\w+)`", "".join(rows)))
    assert {*DefaultPolicy.shown, *_CHANGES, "compaction"} <= kinds
    for name in ("summary@1", "branch_summary@1", "custom_message@1"):
        said = VIEWS[name]({"summary": "summary", "content": "content"}, Seen("n", 0, {}, {}))
        first = str(said["content"]).split("\n")[0]  # type: ignore[index]  # a message
        assert f"`{name}` | `{first}`" in page


if __name__ == "__main__":
    for heading, text in examples().items():
        sys.stdout.write(f"{heading}\n{text}\n")
