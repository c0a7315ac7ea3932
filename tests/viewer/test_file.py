"""A session as one HTML file, opened from the disk in a real browser."""

from __future__ import annotations

import json
import random
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.roundtrip.authors import AUTHORS
from tests.viewer.browser import Browser
from tests.viewer.by_chance import eventful
from tests.viewer.sample import HOSTILE, png, record

import treering
from treering.exporters import export_page
from treering.importers import FileImporter
from treering.session.payload import decoded_state
from treering.transcript.tree import Outline
from treering.viewer.bundle import script

pytestmark = pytest.mark.slow

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
    """Compare context, settings, state, checkpoint, and what was left out, at every node."""
    nodes = {each.id: each for each in view.nodes()}
    for node, got in zip(nodes, asked(browser, *(("context", {"node": node}) for node in nodes)), strict=True):
        assert whole(got["items"], view) == shown(view.context_at(node, recorded=True)), node
        assert (got["settings"], got["state"], got["checkpoint"]) == state_at(view, node)
        seen = {item["node"] for item in got["items"]}
        path = [each for each in view.path(node) if nodes[each].kind in ("message", "custom_message") or each in seen]
        runs = [[*run] for known, run in groupby(path, seen.__contains__) if not known]
        assert [(run["first"], run["last"], run["count"]) for run in got["left_out"]["runs"]] == [
            (run[0], run[-1], len(run)) for run in runs
        ]
        assert [run["at"] for run in got["left_out"]["runs"]] == [[nodes[run[0]].at, nodes[run[-1]].at] for run in runs]
        assert (got["total"], got["before"]) == (len(got["items"]), None)


def test_long_contexts_are_read_by_pages(store: treering.Store, browser: Browser, tmp_path: Path) -> None:
    """From the end upward, each with a cursor for the one before; together they are the whole."""
    view = opened(browser, eventful(store, 2), tmp_path)
    node = max(view.nodes().ids, key=lambda each: len(view.context_at(each)))
    before: int | None = None
    found: list[Any] = []
    while True:
        [got] = asked(browser, ("context", {"node": node, "limit": 4, "before": before}))
        found, before = [*whole(got["items"], view), *found], got["before"]
        if before is None:
            break
    assert found == shown(view.context_at(node, recorded=True))
    assert len(found) > 8


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


@pytest.mark.parametrize("name", sorted(name for name in AUTHORS if name != "evva"))
def test_imported_sessions_show_what_their_programs_send(
    name: str, store: treering.Store, browser: Browser, tmp_path: Path
) -> None:
    """By the rules of each program, whose own context edits and compactions differ from ours."""
    author = AUTHORS[name](tmp_path / "a.jsonl", random.Random(name))
    author.begin()
    author.write(*["user" if name == "claude" else "message"] * 5)
    for _ in range(40):
        author.write()
    session = FileImporter(store).load(author.path, format=name).session
    with store.session(session) as handle:
        handle.commit(["on"], state={"at": 1})
        handle.append("and on")
    check_contexts(opened(browser, store.view(session), tmp_path), browser)


def test_a_user_finds_everything_and_nothing_that_a_file_cannot_do(
    store: treering.Store, browser: Browser, tmp_path: Path
) -> None:
    """Branches, versions, pictures, what the model saw, checkpoints and labels; no list, field, edit or live sign."""
    sample = record(store)
    opened(browser, store.view("shop"), tmp_path)
    browser.see("h1", "Fix the total of the cart")
    browser.see("article.message", "The page Rounding says it now.")
    browser.see(".tree-row", "Fix it, and say in the changelog")
    address = (tmp_path / "page.html").as_uri()
    browser.open(f"{address}#/s/file/n/{sample.second}")
    browser.see("article.selected .version", "1/3")
    browser.press("article.selected button[aria-label='Next version']")
    browser.see("article.selected", "say in the changelog")
    browser.see("article.message", "with a line in the changelog")
    browser.open(f"{address}#/s/file/n/{sample.question}")
    browser.until(lambda _: any(each.get_attribute("naturalWidth") == "320" for each in browser.all("article img")))
    browser.see("article footer", "2,140 in")
    browser.open(f"{address}#/s/file/n/{sample.end}")
    browser.press("article.selected .menu-button")
    browser.see(".menu-item", "Copy a link to this")
    assert [each.text for each in browser.all(".menu-item") if re.search("Edit|Branch|Label|Retract", each.text)] == []
    browser.press(".menu-item", "What the model saw here")
    browser.see("article.message.unseen", "All six places round once now.")
    browser.see("ol.context li", "replaced by this summary")
    browser.press("#tab-checkpoints")
    browser.see("#panel", "docs added")
    browser.press("#tab-labels")
    browser.see("#panel", "turning point")
    browser.open(f"{address}#/s/file/compare/{sample.end}/{sample.edited}")
    browser.see("section.side[aria-label='Branch B']", "say in the changelog")
    assert browser.all("form.composer, .back, .chip.live:not([hidden])") == []


def test_no_text_of_a_session_becomes_part_of_the_page(store: treering.Store, browser: Browser, tmp_path: Path) -> None:
    """Scripts and ends of elements in a name, a title, messages, tools, labels, heads and states are shown as text."""
    hostile = f"</script><!-- {HOSTILE}"
    record(store, "hostile", hostile=True)
    with store.session("hostile", title=hostile) as session:
        session.set_title(hostile)
        session.commit([treering.assistant(hostile)], state={hostile: hostile}, label=hostile)
        session.label(str(session.node), hostile)
        session.branch(hostile)
        session.append(treering.user([{"type": "image", "title": hostile, "url": f"javascript:{hostile}"}]))
    opened(browser, store.view("hostile"), tmp_path)
    browser.see("h1", hostile)
    browser.until(lambda _: any(hostile in text for text in browser.messages()))
    for tab in ("seen", "checkpoints", "labels", "about"):
        browser.press(f"#tab-{tab}")
        browser.see("#panel h2")
    browser.see(".tree-row", hostile)
    assert browser.driver.execute_script("return window.hit") is None
    assert browser.all("main script, header script, img[src='x'], a[href^='javascript']") == []


def test_images_that_are_left_out_are_said_to_be(store: treering.Store, browser: Browser, tmp_path: Path) -> None:
    """A note stands for each, whether it was large or small."""
    small = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(200)).decode()
    large = b64encode(png() + bytes(40_000)).decode()
    with store.session("s") as session:
        for data in (small, large):
            session.append(
                treering.user([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}])
            )
            session.append(treering.user([{"type": "image", "source": {"type": "base64", "data": data}}]))
    opened(browser, store.view("s"), tmp_path, images=False)
    browser.until(lambda _: sum("left out of this file" in text for text in browser.messages()) == 4)
    assert browser.all("article img") == []


def test_the_end_of_a_branch_is_found_toward_a_node_on_it(
    store: treering.Store, browser: Browser, tmp_path: Path
) -> None:
    """Where that is below; else, and without it, it is the newest."""
    sample = record(store)
    view = opened(browser, store.view("shop"), tmp_path)
    ends = [sample.second, sample.edited, "none"]
    found = asked(browser, *((f"nodes/{sample.answer}", {"toward": each}) for each in ends))
    found += asked(browser, (f"nodes/{sample.second}", {"toward": sample.edited}))
    newest = [view.newest_leaf(node) for node in (sample.second, sample.edited, sample.answer, sample.second)]
    assert [each["leaf"] for each in found] == newest


def test_one_branch_opens_at_its_end(store: treering.Store, browser: Browser, tmp_path: Path) -> None:
    """Though the session stands on another; contexts on it are those of the session."""
    record(store)
    view = store.view("shop")
    opened(browser, view, tmp_path, branch="gentle")
    browser.see("article.message", "with a line in the changelog")
    assert browser.all("article.message .version, .heads select") == []
    ids = view.path(view.heads["gentle"])
    for node, got in zip(ids, asked(browser, *(("context", {"node": node}) for node in ids)), strict=True):
        assert whole(got["items"], view) == shown(view.context_at(node, recorded=True))
