"""A session as one HTML file: what is in it, and what is not; `tests/viewer/test_file.py` opens it in a browser."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.sampling import few
from tests.viewer.by_chance import eventful
from tests.viewer.sample import png

import treering
from treering.cli.markdown import markdown
from treering.errors import NotFoundError, UsageError
from treering.exporters import export_page
from treering.exporters.page.images import without_images
from treering.ids import new_nonce
from treering.session.index import Index
from treering.viewer import assets, bundle

ENDS = ["</script>", "<!--", "<!-- <script>", "]]>", "</style></head><body><script>window.hit = 1</script>"]
TURNS = few(20, whole=40)
"""Of a megabyte each."""
PICTURE = b64encode(png()).decode()
SMALL = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(200))).decode()


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """An empty store."""
    with treering.open(f"memory://page-{new_nonce()}") as store:
        yield store


def blocks_of(path: Path) -> dict[str, bytes]:
    """The data in a page, by their names."""
    found = re.finditer(rb'id="treering-([\w-]+)" data-form="(\w+)">([^<]*)<', path.read_bytes())
    return {
        each[1].decode(): zlib.decompress(b64decode(each[3])) if each[2] == b"deflate" else b64decode(each[3])
        for each in found
    }


def said_in(path: Path) -> bytes:
    """All data in a page, readable."""
    return b"\n".join(blocks_of(path).values())


class Elements(HTMLParser):
    """The elements of a document, as a browser finds them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements_in(path: Path) -> list[tuple[str, dict[str, str | None]]]:
    """The elements of a page but for its blocks."""
    parser = Elements()
    parser.feed(path.read_text())
    return [(tag, attributes) for tag, attributes in parser.found if "data-form" not in attributes]


def added(one: Path, other: Path) -> int:
    """How many more blocks a page has than another."""
    return len(blocks_of(one)) - len(blocks_of(other))


@pytest.mark.parametrize("end", ENDS)
def test_no_text_of_a_session_is_part_of_the_document(store: treering.Store, end: str, tmp_path: Path) -> None:
    """Whatever a name, a title, a message, a tool, a result, a label, a head, a state or an image's name says."""
    empty, target = tmp_path / "empty.html", tmp_path / "page.html"
    store.session("plain").append("hello")
    export_page(store.view("plain"), empty)
    image = {"type": "image", "title": end, "source": {"type": "base64", "media_type": end, "data": PICTURE}}
    with store.session(f"s {end}", title=end, project=end, cwd=f"/{end}") as session:
        node = session.append(treering.user([{"type": "text", "text": end}, image])).node
        call = {"type": "tool_use", "id": end, "name": end, "input": {end: end}}
        session.append(treering.assistant([call]), treering.tool(end, call=end, name=end))
        session.commit([end], state={end: end}, label=end, metadata={end: end})
        session.label(node, end)
        session.branch(end)
        session.compact(end)
    export_page(store.view(f"s {end}"), target)
    assert elements_in(target) == elements_in(empty)
    assert target.read_text().count(end) == empty.read_text().count(end) + (end == "</script>") * added(target, empty)


def test_the_script_holds_nothing_that_ends_it() -> None:
    """Neither the script nor the style has a text that HTML would understand."""
    assert not re.search("<!--|</script|<script", bundle.script())
    assert "</" not in assets()["viewer.css"].data.decode()


def test_all_modules_are_in_the_script_behind_those_they_import() -> None:
    """Every module of the viewer is there once, as a function; no import or export is left."""
    modules = {name for name in assets() if name.endswith(".js")}
    made = re.findall(r"^const (module_\w+) = \(\(\) => \{$", bundle.script(), re.MULTILINE)
    assert sorted(made) == sorted("module_" + name.replace(".", "_") for name in modules)
    for name, other in re.findall(r"^const \{.*\} = (module_(\w+));$", bundle.script(), re.MULTILINE):
        assert name in made, other
    assert not re.search(r"^(import|export)\b", bundle.script(), re.MULTILINE)


def test_modules_in_a_circle_are_refused() -> None:
    """There would be no order for them."""
    text = 'import {{ x }} from "./{}.js";\n'
    with pytest.raises(ValueError, match="each other"):
        bundle.in_order({"main.js": text.format("a"), "a.js": text.format("main")})


def test_the_policy_of_the_page_names_its_script_and_style_and_nothing_else(
    store: treering.Store, tmp_path: Path
) -> None:
    """Nothing is loaded, sent or framed."""
    store.session("s").append("hello")
    export_page(store.view("s"), tmp_path / "page.html")
    [policy] = [each["content"] for tag, each in elements_in(tmp_path / "page.html") if each.get("http-equiv")]
    parts = dict(part.strip().split(" ", 1) for part in str(policy).split(";"))
    assert parts.pop("img-src") == "data: blob:"
    assert re.fullmatch(r"'sha256-[\w+/=]+'", parts.pop("script-src"))
    assert re.fullmatch(r"'sha256-[\w+/=]+'", parts.pop("style-src"))
    assert set(parts.values()) == {"'none'"}
    assert set(parts) == {"default-src", "base-uri", "form-action"}


def test_without_images_no_image_is_in_the_file(store: treering.Store, tmp_path: Path) -> None:
    """Large or small, in whatever shape a message has them; texts and other files stay, and large texts, too."""
    pdf = b64encode(b"%PDF-1.7 " + bytes(40_000)).decode()
    shapes: list[dict[str, Any]] = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": SMALL}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{SMALL}"}},
        {"type": "input_image", "image_url": f"data:image/svg+xml;base64,{SMALL}"},
        {"image": {"format": "png", "source": {"bytes": b64decode(SMALL)}}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": pdf}},
        {"type": "text", "text": "long " * 60_000},
    ]
    with store.session("s") as session:
        node = session.append(treering.user(shapes)).node
        session.amend(node, {"role": "user", "content": shapes})
        session.commit(["on"])
    done = export_page(store.view("s"), tmp_path / "page.html", images=False)
    assert done.images_left_out == 1
    data = said_in(tmp_path / "page.html")
    assert b"iVBORw0" not in data
    assert b"\x89PNG" not in data
    assert data.count(b"$left_out") == 12  # in the node, in what it was, and in the context of the checkpoint
    assert b"%PDF" in data
    assert b"long " * 60_000 in data
    whole = export_page(store.view("s"), tmp_path / "whole.html")
    assert whole.images_left_out == 0
    assert said_in(tmp_path / "whole.html").count(b"\x89PNG") == 1


def test_what_is_no_image_stays() -> None:
    """Long words and base64 of other data are not taken for images."""
    for text in ("A" * 200, b64encode(bytes(200)).decode(), "data:text/plain;base64,aGVsbG8=", "see data:image/png"):
        data = json.dumps({"content": text, "more": [text]}, separators=(",", ":")).encode()
        assert json.loads(without_images(data)) == json.loads(data)


@pytest.mark.parametrize("seed", range(3))
def test_a_branch_alone_holds_nothing_of_the_others(seed: int, store: treering.Store, tmp_path: Path) -> None:
    """Nodes, checkpoints, labels and heads of the file are those of the branch."""
    view = eventful(store, seed)
    for head, tip in view.heads.items():
        export_page(view, tmp_path / "page.html", branch=head, overwrite=True)
        blocks = blocks_of(tmp_path / "page.html")
        index = json.loads(blocks["index"])
        path = [*view.path(tip)]
        assert index["ids"] == sorted(path, key=path.index)
        assert index["card"]["heads"] == {head: tip}
        listed = [name for at, name in enumerate(index["checkpoints"]) if at not in index["hidden"]]
        assert listed == [each.id for each in view.checkpoints() if each.node is None or each.node in path]
        assert set(index["labels"]) <= {*path, *listed}
        others = {node for node in view.nodes().ids if node not in path}
        said = [block for name, block in blocks.items() if not name.startswith("blob-")]
        assert not {node for block in said for node in others if f'"id":"{node}"'.encode() in block}
        texts = {str(node.payload["content"]).encode() for node in view.each_node(others) if node.role == "assistant"}
        assert not {text for block in said for text in texts if b'"%b"' % text in block}


def test_a_branch_that_is_none_is_refused(store: treering.Store, tmp_path: Path) -> None:
    """And nothing is written."""
    store.session("s").append("hello")
    with pytest.raises(NotFoundError, match="no such head"):
        export_page(store.view("s"), tmp_path / "page.html", branch="other")
    assert [*tmp_path.iterdir()] == []


def test_what_was_erased_is_not_in_the_file(store: treering.Store, tmp_path: Path) -> None:
    """Neither as a message, nor in edits, contexts, states, their patches, previews, or images."""
    secret, state = "the password is swordfish", "swordfish " * 100
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
    with store.session("s", title="kept") as session:
        gone = [session.append(treering.user([{"type": "text", "text": secret}, image])).node]
        session.amend(gone[0], {"role": "user", "content": f"again: {secret}"})
        session.commit([treering.assistant("kept")], state={"log": state})
        session.commit([treering.assistant("kept, too")], state={"log": state + "more swordfish"})
        compacted = session.compact(secret).node
        assert compacted is not None
        session.commit(["on"])
        session.erase(*gone, compacted, state=["log"], reason="asked to")
    export_page(store.view("s"), tmp_path / "page.html")
    data = said_in(tmp_path / "page.html")
    assert b"swordfish" not in data
    assert b"\x89PNG" not in data
    assert b"[erased]" in data
    assert b"kept, too" in data


def test_memory_does_not_grow_with_what_was_said(tmp_path: Path) -> None:
    """Ids and the like are held, and few payloads; a session of long messages takes a fraction of its bytes."""
    random = Random(1)
    with treering.open(tmp_path / "store") as store:
        with store.session("s") as session:
            for _ in range(TURNS):
                session.append(*[treering.user(random.randbytes(50_000).hex()) for _ in range(10)])
                session.commit([treering.assistant("on")], state={"at": random.randbytes(50_000).hex()})
            session.compact("all of it")
        view = store.view("s")
        export_page(view, tmp_path / "first.html")  # loads what is loaded once
        tracemalloc.start()
        done = export_page(view, tmp_path / "page.html")
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    size = 11 * TURNS * 100_000
    assert done.nodes == 11 * TURNS + 1
    assert found < size / 3, (found, size)


def test_an_export_that_fails_leaves_the_old_file(
    store: treering.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is refused or interrupted; and no other file stays."""
    store.session("s").append("hello")
    target = tmp_path / "page.html"
    target.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        export_page(store.view("s"), target)
    view = store.view("s")
    monkeypatch.setattr(Index, "checkpoint_nodes", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_page(view, target, overwrite=True)
    assert target.read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_an_empty_session_has_a_page(store: treering.Store, tmp_path: Path) -> None:
    """With no node and no checkpoint."""
    with store.session("s") as session:
        session.note("remark", {"said": "nothing yet"})
    assert export_page(store.view("s"), tmp_path / "page.html").nodes == 0
    assert json.loads(blocks_of(tmp_path / "page.html")["index"])["outline"] == 0


def test_only_a_file_is_replaced_by_a_page(store: treering.Store, tmp_path: Path) -> None:
    """Neither a pipe nor a folder is, whatever `overwrite` says, and a folder that is missing is not made."""
    with store.session("s") as session:
        session.append("hi")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, error, said in (
        ("pipe", UsageError, "no regular file"),
        ("folder", UsageError, "this is a folder"),
        ("none/page.html", NotFoundError, "there is no such folder"),
    ):
        with pytest.raises(error, match=said):
            export_page(store.view("s"), tmp_path / name, overwrite=True)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "pipe"]


def test_the_page_of_a_branch_does_not_have_the_first_prompt_of_another(store: treering.Store, tmp_path: Path) -> None:
    """Who edits the first prompt before sharing shares the edited one; in Markdown, too."""
    with store.session("s") as session:
        session.append(treering.user("the old one"))
        session.branch("other")
        session.checkout(None)
        session.append(treering.user("the new one"))
    view = store.view("s")
    export_page(view, tmp_path / "page.html", branch="other")
    card = json.loads(blocks_of(tmp_path / "page.html")["index"])["card"]
    assert card["info"]["first_prompt"] == "the new one"
    assert next(markdown(view, view.node)) == "# the new one\n\n"
