"""What is read over HTTP is what the library says."""

from __future__ import annotations

import base64
import json
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient
from tests.server.clients import client, messages

import treering
from treering.search.update import Update
from treering.server import app, searching
from treering.server.keys import key_of, named_by


def shown(value: object) -> Any:
    """What the library's own JSON says of a value."""
    return json.loads(treering.to_json(value))


def test_reads_are_what_the_library_says(api: TestClient, folder: Path) -> None:
    """Each read is the JSON of what the method of a view returns."""
    view = treering.open(folder).view("trip")
    _, answer = view.path()
    checkpoints = view.checkpoints()
    first = checkpoints[0].id
    expected = {
        "history?head=mountains": view.history(head="mountains", blobs=False),
        "path": {"ids": view.path()},
        "labels": view.labels(),
        "problems": view.problems(),
        "notes": view.notes(),
        f"checkpoints/{first}": view.checkpoint(first),
        f"diff?a={first}": view.diff(first),
        "checkpoints": {"rows": checkpoints, "before": None},
        "checkpoints?limit=1": {"rows": checkpoints[-1:], "before": checkpoints[-1].id},
        "tree": {"rows": tuple(view.tree()), "offset": 0, "total": len(view.tree()), "end": view.stored().records},
        f"nodes/{answer}": {
            **shown(view.get(answer)),
            "siblings": view.siblings(answer),
            "children": view.children(answer),
            "checkpoints": [each for each in checkpoints if each.node == answer],
            "leaf": view.newest_leaf(answer),
            "original": None,
        },
    }
    for path, value in expected.items():
        found = api.get(f"sessions/trip/{path}")
        assert (found.status_code, found.json()) == (200, shown(value)), path


def test_the_card_of_a_session(api: TestClient, folder: Path) -> None:
    """The card has the facts of the session, its heads and state, and where its journal ends."""
    view = treering.open(folder).view("trip")
    card = api.get("sessions/trip?counts=true")
    found = card.json()
    assert found["info"] == shown(view.info)
    assert (found["head"], found["heads"], found["state"]) == ("main", dict(view.heads), {"step": 1})
    assert found["counts"] == {"labels": 0, "problems": 0, "leaves": 2, "stored": shown(view.stored())}
    assert card.headers["etag"] == f'"{found["after"]}"'
    assert api.get("sessions/trip").json()["counts"] is None


def test_the_context_at_a_point(api: TestClient, folder: Path) -> None:
    """The context at a node, at a checkpoint, and where the session stands."""
    view = treering.open(folder).view("trip")
    other = view.heads["mountains"]
    at_node = api.get("sessions/trip/context", params={"node": other}).json()
    assert at_node["items"] == shown(view.context_at(other))
    assert at_node["state"] == {"step": 2}
    checkpoint = view.checkpoints()[0]
    at_checkpoint = api.get("sessions/trip/context", params={"checkpoint": checkpoint.id}).json()
    assert at_checkpoint["items"] == shown(view.checkpoint(checkpoint.id).context)
    here = api.get("sessions/trip/context").json()
    assert (here["items"], here["state"]) == (shown(view.context), {"step": 1})


def test_the_end_toward_another_node(api: TestClient, folder: Path) -> None:
    """The end of the branch of a node is that of another node below it, if that is there; else the newest."""
    view = treering.open(folder).view("trip")
    question, sea = view.path()
    newest = view.newest_leaf(question)
    ends = {
        name: api.get(f"sessions/trip/nodes/{question}", params={"toward": name}).json()["leaf"]
        for name in (sea, "none")
    }
    assert ends == {sea: sea, "none": newest}
    assert newest != sea


def test_the_context_by_pages_and_what_was_left_out(api: TestClient, folder: Path) -> None:
    """Pages of a context join to all of it; what a compaction and a retraction left out is told."""
    with treering.open(folder).session("long") as session:
        nodes = session.append(*[treering.user(f"message {at}") for at in range(10)]).nodes
        session.set_model("fine-model-2")
        kept = session.append(treering.user("kept")).node
        session.compact("ten messages", kept=kept)
        last = session.append(treering.user("hidden"), treering.user("shown")).nodes
        session.retract(last[0])
        made = session.commit([treering.assistant("done")], state={})
    for point in ({"node": made.nodes[-1]}, {"checkpoint": made.checkpoint}, {}):
        whole = api.get("sessions/long/context", params=point).json()
        assert (len(whole["items"]), whole["before"]) == (whole["total"], None) == (4, None)
        pages: list[object] = []
        before: dict[str, int] | None = {}
        while before is not None:
            page = api.get("sessions/long/context", params={**point, "limit": 3, **before}).json()
            pages[:0] = page["items"]
            before = {"before": page["before"]} if page["before"] else None
        assert pages == whole["items"]
        found = whole["left_out"]
        assert [(run["first"], run["last"], run["count"]) for run in found["runs"]] == [
            (nodes[0], nodes[-1], 10),
            (last[0], last[0], 1),
        ]
        assert (found["messages"], found["complete"]) == (11, True)
        ids = treering.open(folder).view("long")
        assert [run["at"] for run in found["runs"]] == [
            [ids.get(run["first"]).at, ids.get(run["last"]).at] for run in found["runs"]
        ]


def test_two_branches_from_where_they_part(api: TestClient, folder: Path) -> None:
    """Two nodes have the last node common that both paths hold."""
    view = treering.open(folder).view("trip")
    question, sea = view.path()
    found = api.get("sessions/trip/branches", params={"a": sea, "b": view.heads["mountains"]}).json()
    assert found == {"common": question, "a": [sea], "b": [view.heads["mountains"]], "complete": True}


def test_each_node_is_found_in_the_tree(api: TestClient, folder: Path) -> None:
    """The row that is located shows the node, for each node."""
    view = treering.open(folder).view("trip")
    for node in view.nodes().ids:
        offset = api.get("sessions/trip/tree/locate", params={"node": node}).json()["offset"]
        row = api.get("sessions/trip/tree", params={"offset": offset, "limit": 1}).json()["rows"][0]
        assert node in view.path(row["last"])[-row["count"] :]
    assert api.get("sessions/trip/tree/locate?node=none").status_code == 404


def test_a_window_of_a_long_tree(tmp_path: Path) -> None:
    """Windows of a tree, put together, are the tree."""
    with treering.open(tmp_path).session("s") as session:
        root = session.append("root").node
        session.append(*(treering.user(str(at), parent=root) for at in range(30)))
    api = client(tmp_path)
    whole = api.get("sessions/s/tree").json()
    rows: list[Any] = []
    while len(rows) < whole["total"]:
        rows += api.get("sessions/s/tree", params={"offset": len(rows), "limit": 7}).json()["rows"]
    assert rows == whole["rows"]


def test_sessions_by_page_and_filter(tmp_path: Path) -> None:
    """Pages follow each other by their cursor; filters, and a text, leave rows out; namespaces are shown on request."""
    store = treering.open(tmp_path)
    for at in range(5):
        with store.session(f"s{at}", title=f"number {at}", project="odd" if at % 2 else "even") as session:
            session.append("hi")
    with store.namespace("org/42").namespace("x~y").session("..") as session:
        session.append("below")
    api = client(tmp_path)
    first = api.get("sessions?limit=3").json()
    rest = api.get("sessions", params={"limit": 3, "after": first["after"]}).json()
    assert sorted(row["id"] for row in [*first["rows"], *rest["rows"]]) == [f"s{at}" for at in range(5)]
    assert rest["after"] is None
    assert {row["id"] for row in api.get("sessions?project=odd").json()["rows"]} == {"s1", "s3"}
    searched = api.get("sessions?q=NUMBER 4").json()
    assert ([row["id"] for row in searched["rows"]], searched["complete"]) == (["s4"], True)
    matching, after = [], None
    while True:
        page = api.get("sessions", params={"q": "number", "limit": 2, **({"after": after} if after else {})}).json()
        assert page["complete"] == (page["after"] is None)
        matching += [row["id"] for row in page["rows"]]
        if (after := page["after"]) is None:
            break
    assert sorted(matching) == [f"s{at}" for at in range(5)]
    below = [row for row in api.get("sessions?below=true").json()["rows"] if row["namespace"]]
    assert [(row["id"], row["namespace"]) for row in below] == [("..", ["org/42", "x~y"])]
    assert api.get(f"sessions/{below[0]['key']}").json()["info"]["first_prompt"] == "below"


@pytest.mark.parametrize(
    "name", ["a", "..", ".", "a/b", "a~b", "a=b", "Ä", "%2e%2e", "\udc80", "x" * 300, "a\0b", "a b"]
)
def test_a_key_is_one_segment_and_leads_back(name: str) -> None:
    """The key of any name needs no escape in a URL, leaves no folder, and stands for that name alone."""
    key = key_of(["n", name], name)
    assert named_by(key) == (("n", name), name)
    assert not set(key) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=~")
    assert not any(part.startswith(".") for part in key.split("~"))


@pytest.mark.parametrize("key", ["a=2", "a=zz", "=61", "a~", "~a", "..", "=2e", "a%2Fb"])
def test_what_is_no_key_is_not_found(api: TestClient, key: str) -> None:
    """A key that is written in another way than its own is no key."""
    found = api.get(f"sessions/{key}/history")
    assert found.status_code == 404
    assert found.json()["error"]["type"] == "NotFoundError"


def test_a_large_image_is_read_by_its_digest(tmp_path: Path) -> None:
    """A page names it, and a browser may keep it for ever; what could hold a script is no page."""
    store = treering.open(tmp_path)
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n" + os.urandom(50_000)).decode()
    with store.session("s") as session:
        source = {"type": "base64", "media_type": "image/png", "data": image}
        session.append({"role": "user", "content": [{"type": "image", "source": source}]})
        session.append({"role": "user", "content": "<script>" + "x" * 300_000})
    api = client(tmp_path)
    rows = api.get("sessions/s/history").json()["rows"]
    picture = rows[1]["node"]["payload"]["content"][0]["source"]["data"]["$blob"]
    found = api.get(f"sessions/s/blobs/{picture}")
    assert found.content == base64.b64decode(image)
    assert found.headers["content-type"] == "image/png"
    assert "immutable" in found.headers["cache-control"]
    text = api.get(f"sessions/s/blobs/{rows[0]['node']['payload']['content']['$blob']}")
    assert text.headers["content-type"] == "application/octet-stream"
    assert text.headers["content-disposition"] == "attachment"
    for each in (found, text):
        assert "sandbox" in each.headers["content-security-policy"]
        assert each.headers["x-content-type-options"] == "nosniff"
    inline = api.get("sessions/s/history?blobs=true&limit=1").json()["rows"][0]["node"]["payload"]["content"]
    assert inline.startswith("<script>")


@pytest.mark.parametrize(
    "digest", ["0" * 64, "..%2f..%2ftreering.json", "%2e%2e%2ftreering.json", "x", "0" * 63 + "%00"]
)
def test_no_digest_leads_elsewhere(api: TestClient, digest: str) -> None:
    """A digest that the session does not have is not found, whatever it is."""
    assert api.get(f"sessions/trip/blobs/{digest}").status_code in {400, 404}


def test_what_is_asked_is_checked(api: TestClient) -> None:
    """Unknown parameters, those that occur twice, and numbers out of range are refused in a sentence."""
    for query in ("limit=0", "limit=501", "limit=x", "unknown=1", "limit=1&limit=2", "retracted=perhaps"):
        found = api.get(f"sessions/trip/history?{query}")
        assert (found.status_code, found.json()["error"]["kind"]) == (400, "request"), query


def test_a_place_in_no_list_is_refused(api: TestClient) -> None:
    """A cursor that the server never gave does not lead to the first page."""
    found = api.get("sessions?after=garbage")
    assert (found.status_code, found.json()["error"]["kind"]) == (400, "option")


def test_a_head_that_is_half_of_an_emoji(api: TestClient, folder: Path) -> None:
    """It is answered as a pair, and so are the heads in the error of a conflict."""
    with treering.open(folder).session("trip") as session:
        session.branch("alt\ud83d")
    found = api.get("sessions/trip")
    assert (found.status_code, [*found.json()["heads"]]) == (200, ["$map"])
    refused = api.post("sessions/trip/messages", json={"messages": messages("a"), "expect": "nope"})
    assert (refused.status_code, refused.json()["error"]["head"]) == (409, found.json()["heads"])


def test_what_others_write_is_seen_at_once(api: TestClient, folder: Path) -> None:
    """A server keeps a view of a session, and looks before each answer."""
    before = api.get("sessions/trip")
    with treering.open(folder).session("trip") as session:
        session.append("and then?")
    after = api.get("sessions/trip")
    assert after.json()["info"]["nodes"] == before.json()["info"]["nodes"] + 1
    assert after.headers["etag"] != before.headers["etag"]
    assert api.get("sessions/trip/history").json()["rows"][0]["node"]["payload"]["content"] == "and then?"


def test_a_deleted_session_is_gone(api: TestClient, folder: Path) -> None:
    """A session that was deleted is gone, and one of its name that is made later is another one."""
    assert api.get("sessions/trip").status_code == 200
    store = treering.open(folder)
    store.delete("trip")
    assert api.get("sessions/trip").status_code == 410
    with store.session("trip") as session:
        session.append("anew")
    assert api.get("sessions/trip").json()["info"]["first_prompt"] == "anew"
    for key in ("never", "=FF", "=", "=zz"):  # the last ones are no keys
        assert api.get(f"sessions/{key}").status_code == 404


def test_search(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server with search finds texts, and says in which session; others have no such path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    api = client(folder, search=True)
    found = api.get("search?q=mountains").json()
    assert [(hit["key"], hit["role"]) for hit in found["hits"]] == [("trip", "assistant")]
    assert api.get("search?q=sea&kinds=prompt&kinds=text&session=trip").json()["hits"][0]["snippet"] == "to the sea"
    assert api.get("search?kinds=unknown").status_code == 400
    assert client(folder).get("search?q=x").status_code == 404
    assert api.get("").json()["features"] == {"search": True, "streams": True}


def test_a_search_in_one_session_finds_no_other_of_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The key names the namespace, too, which is searched for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with treering.open(folder).namespace("org").session("trip") as session:
        session.append("to the sea, in the namespace")
    api = client(folder, search=True)
    found = {key: api.get("search", params={"q": "sea", "session": key}).json()["hits"] for key in ("trip", "org~trip")}
    assert {key: [(hit["key"], hit["snippet"]) for hit in hits] for key, hits in found.items()} == {
        "trip": [("trip", "to the sea")],
        "org~trip": [("org~trip", "to the sea, in the namespace")],
    }
    assert api.get("search", params={"q": "sea", "session": "=zz"}).status_code == 404


@pytest.mark.parametrize("gone", ["erased", "deleted", "amended"])
def test_a_search_right_behind_another_finds_nothing_that_is_gone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gone: str
) -> None:
    """Whoever erases, deletes or amends a text: the next search does not show it, however fresh the index is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(searching, "FRESH_SECONDS", 3600.0)
    store, api = treering.open(folder), client(folder, search=True)
    hit = api.get("search?q=mountains").json()["hits"][0]
    if gone == "deleted":
        store.delete("trip")
    else:
        with store.session("trip") as session:
            if gone == "erased":
                session.erase(hit["node"])
            else:
                session.amend(hit["node"], treering.assistant("to the lake").payload)
    assert api.get("search?q=mountains").json() == {"hits": [], "updating": False}


async def test_a_search_does_not_wait_for_a_long_update(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers from the index as it is, and says so, while the update waits for the store."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
    monkeypatch.setattr(searching, "WAIT_SECONDS", 0.0)
    free, take = threading.Event(), Update._take

    def waits(self: Update, *args: Any) -> None:
        free.wait(10)  # so that a failure does not hang
        take(self, *args)

    monkeypatch.setattr(Update, "_take", waits)
    transport = httpx.ASGITransport(app=app(treering.aopen(folder), search=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1/") as api:
        early = (await api.get("search?q=mountains")).json()
        assert not free.is_set()
        free.set()
        while (found := (await api.get("search?q=mountains")).json())["updating"]:
            pass
    assert (early["hits"], early["updating"], len(found["hits"])) == ([], True, 1)


def test_the_page_of_an_empty_session(tmp_path: Path) -> None:
    """A session without messages has an empty page, tree and path."""
    api = client(tmp_path)
    key = api.post("sessions", json={"title": "empty"}).json()["key"]
    assert api.get(f"sessions/{key}/history").json() == {"rows": [], "before": None}
    assert api.get(f"sessions/{key}/tree").json()["rows"] == []
    assert api.get(f"sessions/{key}/path").json() == {"ids": []}
    api.post(f"sessions/{key}/messages", json={"messages": messages("hi")})
    assert len(api.get(f"sessions/{key}/history").json()["rows"]) == 1
