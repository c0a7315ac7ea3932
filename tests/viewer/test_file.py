"""A session as one HTML file, opened from the disk in a real browser."""

from __future__ import annotations

import json
import random
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.viewer.browser import Browser
from tests.viewer.by_chance import eventful

import treering
from treering.exporters import export_page
from treering.session.payload import decoded_state
from treering.transcript.tree import Outline
from treering.viewer.bundle import script

pytestmark = pytest.mark.xdist_group("browser")

ASK = (
    script().partition("const module_main_js")[0]
    + """
const [asked, done] = [arguments[0], arguments[1]];
(async () => {
  const source = module_file_source_js.FileSource.here();
  await source.open();
  const answers = [];
  for (const [path, query] of asked) {
    answers.push(await source.get(path, query).catch((error) => ({ refused: error.status })));
  }
  return JSON.stringify(answers);
})().then(done, (error) => done(String(error)));
"""
)


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """An empty store."""
    with treering.open(f"memory://file-{random.getrandbits(64):x}") as store:
        yield store


def asked(browser: Browser, *questions: tuple[str, dict[str, Any]]) -> list[Any]:
    """What the page answers, by its own source of data, below the path of its session."""
    wanted = [("sessions/file" + (path and f"/{path}"), query) for path, query in questions]
    browser.driver.set_script_timeout(60)
    answer = browser.driver.execute_async_script(ASK, wanted)
    assert answer.startswith("["), answer
    return list(json.loads(answer))


def shown(value: object) -> Any:
    """A result of the library as JSON says it."""
    return json.loads(treering.to_json(value))


def whole(value: Any, view: treering.View) -> Any:
    """An answer with its large parts in their places."""
    if isinstance(value, list):
        return [whole(each, view) for each in value]
    if not isinstance(value, dict):
        return value
    if "$blob" not in value:
        return {key: whole(each, view) for key, each in value.items()}
    data = view.blob(value["$blob"]).data
    return data.decode() if value["as"] == "text" else value.get("prefix", "") + b64encode(data).decode()


def blocks_of(path: Path) -> dict[str, bytes]:
    """The data in a file, by their names."""
    found = re.finditer(rb'id="treering-([\w-]+)" data-form="(\w+)">([^<]*)<', path.read_bytes())
    return {
        each[1].decode(): zlib.decompress(b64decode(each[3])) if each[2] == b"deflate" else b64decode(each[3])
        for each in found
    }


def state_at(view: treering.View, node: str) -> tuple[Any, Any, str | None]:
    """Settings, state and checkpoint at a node, as the library restores them."""

    def verb(reader: Any) -> Any:
        restored = yield from reader.content.restore(node, head=reader.head)
        there = restored.checkpoint
        return restored.context.settings, decoded_state(there.state if there else {}), there.id if there else None

    settings, state, checkpoint = view.perform(verb)
    return shown(settings), shown(state), checkpoint


@pytest.fixture(params=range(3))
def view(request: pytest.FixtureRequest, store: treering.Store, browser: Browser, tmp_path: Path) -> treering.View:
    """A session of chance, whose page is open."""
    return opened(browser, eventful(store, request.param), tmp_path)


def opened(browser: Browser, view: treering.View, folder: Path, **options: Any) -> treering.View:
    """Open the page of a session."""
    export_page(view, folder / "page.html", **options)
    browser.open((folder / "page.html").as_uri())
    browser.see("article.message")
    return view


def test_nodes_are_those_of_the_store(view: treering.View, browser: Browser) -> None:
    """Each node in the page, with its payload, siblings, children, checkpoints and original, is that of the session."""
    ids, made = view.nodes().ids, view.checkpoints()
    for node, got in zip(ids, asked(browser, *((f"nodes/{node}", {}) for node in ids)), strict=True):
        expected = shown(view.get(node)) | {
            "siblings": shown(view.siblings(node)),
            "children": [*view.children(node)],
            "checkpoints": shown([each for each in made if each.node == node]),
            "leaf": view.newest_leaf(node),
            "original": shown(view.original(node)) if got["amended"] else None,
        }
        assert whole(got, view) == expected


def check_contexts(view: treering.View, browser: Browser) -> None:
    """Compare context, settings, state and checkpoint at every node."""
    ids = view.nodes().ids
    for node, got in zip(ids, asked(browser, *(("context", {"node": node}) for node in ids)), strict=True):
        assert whole(got["items"], view) == shown(view.context_at(node, recorded=True)), node
        assert (got["settings"], got["state"], got["checkpoint"]) == state_at(view, node)


def test_what_the_model_saw_is_what_the_store_says(view: treering.View, browser: Browser) -> None:
    """At each node: after compactions, edits, rewinds and pruned checkpoints, on every branch."""
    check_contexts(view, browser)


def test_checkpoints_are_those_of_the_store(view: treering.View, browser: Browser) -> None:
    """Each with its label, context, state and settings; so is what changed between two of them, or two nodes."""
    made = view.checkpoints()
    for each, got in zip(made, asked(browser, *((f"checkpoints/{each.id}", {}) for each in made)), strict=True):
        expected = shown(view.checkpoint(each.id))
        assert whole(got["context"], view) == expected["context"]
        for name in ("info", "settings", "state", "manager", "policy"):
            assert got[name] == expected[name]
    ids = view.nodes().ids
    pairs = [*zip(ids[:20], ids[7:27], strict=True), *((one.id, two.id) for one, two in pairwise(made))]
    for (one, two), got in zip(pairs, asked(browser, *(("diff", {"a": a, "b": b}) for a, b in pairs)), strict=True):
        expected = shown(view.diff(one, two))
        assert (got["state"], got["settings"]) == (expected["state"], expected["settings"])
        for name in ("added", "edited", "removed"):
            nodes = [item["node"] for item in expected["context"][name]]
            assert [item["node"] for item in got["context"][name]] == nodes
        assert got["context"]["kept"] == expected["context"]["kept"]


def test_rows_labels_and_the_card_are_those_of_the_store(view: treering.View, browser: Browser) -> None:
    """The tree, where each node is in it, labels, the list of checkpoints, oddities, heads and sums."""
    questions: tuple[tuple[str, dict[str, Any]], ...] = (
        ("labels", {}),
        ("tree", {"limit": 2000}),
        ("checkpoints", {"limit": 500}),
        ("problems", {}),
        ("", {}),
    )
    labels, rows, listed, problems, card = asked(browser, *questions)
    assert labels == dict(view.labels())
    assert rows["rows"] == shown(view.tree())
    assert listed == {"rows": shown(view.checkpoints()), "before": None}
    assert problems == shown(view.problems())
    assert (card["heads"], card["head"], card["usage"]) == (dict(view.heads), view.head, shown(view.usage))
    ids, outline = view.nodes().ids, view.tree()
    assert isinstance(outline, Outline)
    found = asked(browser, *(("tree/locate", {"node": node}) for node in ids))
    assert [each["offset"] for each in found] == [outline.row_of(node) for node in ids]


def test_pages_of_branches_are_those_of_the_store(store: treering.Store, browser: Browser, tmp_path: Path) -> None:
    """Pages from each head, with and without what was retracted, have the same rows and cursors; so do paths."""
    view = opened(browser, eventful(store, 9), tmp_path)
    for head, node in view.heads.items():
        for retracted in (False, True):
            before: str | None = None
            while True:
                query = {"head": head, "limit": 7, "retracted": retracted, "before": before}
                expected = view.history(**query, blobs=False)  # type: ignore[arg-type]
                [got] = asked(browser, ("history", query))
                assert got == shown(expected)
                before = expected.before
                if before is None:
                    break
        [path, usage] = asked(
            browser, ("path", {"node": node}), ("notes", {"kind": "usage", "targets": [*view.path(node)]})
        )
        assert path["ids"] == [*view.path(node)]
        assert usage == shown([each for each in view.notes("usage") if each.target in view.path(node)])
