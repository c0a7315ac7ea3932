"""Who is refused, and what every answer forbids a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Mount
from starlette.testclient import TestClient
from tests.server.clients import API, HEADERS, TOKEN, client, serving

import treering
from treering.cli import main
from treering.server import app
from treering.server.call import Call
from treering.server.table import ROUTES

PAGES = ["/", f"{API}/docs", f"{API}/openapi.json"]


def kind(answer: object) -> str:
    """The kind of an error that was answered."""
    return str(answer.json()["error"]["kind"])  # type: ignore[attr-defined]


def path_of(shown: str) -> str:
    """A path of the API with names of something in it."""
    names = {"key": "trip", "node": "n", "checkpoint": "c", "sha256": "0" * 64, "stream": "s"}
    return f"{API}/{shown.format(**names)}"


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"},
    {"authorization": TOKEN}, {"authorization": f"Bearer {TOKEN}x"}, {"cookie": f"token={TOKEN}"},
    {"authorization": b"Bearer \xff\xfe"}])  # fmt: skip
def test_nothing_is_told_without_the_token(folder: Path, headers: dict[str, str]) -> None:
    """Each route, and what is none, asks for the token, also by URL; the pages hold no data, and ask for none."""
    there = TestClient(app(treering.aopen(folder), token=TOKEN), base_url="http://127.0.0.1")
    for route in ROUTES:
        refused = there.request(route.method, path_of(route.shown_path), headers=headers)
        assert (refused.status_code, kind(refused)) == (401, "token"), route.path
        assert refused.headers["www-authenticate"] == "Bearer"
    assert there.get(f"{API}/nothing", headers=headers).status_code == 401
    assert there.get(f"{API}/sessions?token={TOKEN}", headers=headers).status_code == 401
    for page in PAGES:
        assert there.get(page, headers=headers).status_code == 200


def test_a_server_that_only_reads_writes_nothing(folder: Path) -> None:
    """Each route that writes is refused, whatever is sent; every method but GET is one that writes."""
    api = client(folder, read_only=True)
    for route in ROUTES:
        assert route.writes == (route.method != "GET"), route.path
        if route.writes:
            refused = api.request(route.method, f"http://127.0.0.1{path_of(route.shown_path)}", content=b"{")
            assert (refused.status_code, kind(refused)) == (403, "refused"), route.path
    assert api.get("").json()["read_only"] is True
    assert api.get("sessions/trip").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "a@b"]
)
def test_a_name_that_was_made_to_lead_here_is_refused(folder: Path, host: str) -> None:
    """A page elsewhere that had its own name lead to this computer is refused, and does not see the viewer either."""
    api = client(folder)
    for path in (*PAGES, f"{API}/sessions"):
        refused = api.get(f"http://127.0.0.1{path}", headers={"host": host})
        assert (refused.status_code, kind(refused)) == (403, "host"), path


@pytest.mark.parametrize(
    "host", ["localhost:8000", "127.0.0.1:1", "[::1]:80", "10.0.0.7", "tree.example", "Tree.Example:443"]
)
def test_the_names_of_the_server_are_its_own(folder: Path, host: str) -> None:
    """Addresses, `localhost` and the names that were given are answered; a host application may check for itself."""
    assert client(folder, hosts=["tree.example"]).get("sessions", headers={"host": host}).status_code == 200
    assert client(folder, hosts=None).get("sessions", headers={"host": "any.example"}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://", "http://[", "x"])
def test_a_page_of_another_site_is_refused(folder: Path, origin: str) -> None:
    """Whoever sends an origin of elsewhere gets nothing, to read or to write, even with the token."""
    api = client(folder)
    for method, path in (("GET", "sessions"), ("POST", "sessions"), ("OPTIONS", "sessions")):
        refused = api.request(method, path, headers={"origin": origin})
        assert (refused.status_code, kind(refused)) == (403, "origin"), method
    assert api.get("sessions", headers={"origin": "http://127.0.0.1"}).status_code == 200
    allowed = client(folder, origins=["http://evil.example"])
    assert allowed.get("sessions", headers={"origin": "http://evil.example"}).status_code == 200


def test_every_answer_has_its_headers(api: TestClient) -> None:
    """Pages, answers, refusals and what does not exist: none may be sniffed, framed or kept, and none sets a cookie."""
    answers = [api.get(path) for path in ("sessions", "sessions/none", "nothing", "sessions?limit=0")]
    answers += [api.get(f"http://127.0.0.1{path}") for path in PAGES]
    answers += [api.get("sessions", headers=bad) for bad in ({"host": "evil.example"}, {"authorization": ""})]
    answers += [api.post("sessions", content=b"{"), api.put("sessions", json={})]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert not {"set-cookie", "access-control-allow-origin", "server"} & set(answer.headers)


PATHS = [
    "assets/../app.py", "assets/..%2fapp.py", "assets/%2e%2e/app.py", "assets//etc/passwd", "assets/index.html%00.js",
    "..%2f..%2f..%2fetc%2fpasswd", "viewer/index.html", "assets/",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_a_file(api: TestClient, path: str) -> None:
    """Only the names of the viewer's files are known: nothing else of a path is looked for on a disk."""
    assert api.get(f"http://127.0.0.1/{path}").status_code == 404


def test_each_user_has_a_store(tmp_path: Path) -> None:
    """A host application chooses the store of each request; what it refuses is refused, and no key leads to another."""
    root = treering.aopen(tmp_path)

    async def store_for(request: Request) -> treering.AsyncStore:
        user = request.headers.get("x-user")
        if user is None:
            raise HTTPException(401, "who are you?")
        return root.namespace(user)

    api = TestClient(Starlette(routes=[Mount("/agents", app(store_for=store_for))]), base_url="http://chat.example")
    made = api.post(f"/agents{API}/sessions", json={"id": "s", "messages": ["of ann"]}, headers={"x-user": "ann"})
    assert made.status_code == 201
    path = f"/agents{API}/sessions/s/history"
    assert api.get(path, headers={"x-user": "ann"}).json()["rows"][0]["node"]["payload"]["content"] == "of ann"
    assert api.get(path, headers={"x-user": "bob"}).status_code == 404
    assert api.get(path.replace("/s/", "/ann~s/"), headers={"x-user": "bob"}).status_code == 404
    refused = api.get(path)
    assert (refused.status_code, refused.json()["error"]["message"]) == (401, "who are you?")
    assert api.get("/agents/").text.count("href=") + api.get("/agents/").text.count("src=") > 0


def test_a_server_has_one_store_or_a_choice(tmp_path: Path) -> None:
    """Without a store, or with two ways to find one, there is no server."""
    store = treering.aopen(tmp_path)
    for options in ({}, {"store": store, "store_for": lambda _: store}):
        with pytest.raises(treering.UsageError):
            app(**options)  # type: ignore[arg-type]


def test_others_reach_a_server_only_with_a_chosen_token(tmp_path: Path) -> None:
    """On an address that others can reach, a server without `--token` does not start."""
    for host in ("0.0.0.0", "::", "192.0.2.1", "name.example"):
        done = CliRunner().invoke(main, ["--store", str(tmp_path), "serve", "--host", host])
        assert (done.exit_code, done.stdout) == (2, "")
        assert "--token" in done.stderr


def test_a_server_prints_its_token_once(folder: Path) -> None:
    """It is a new one, in the fragment of the address, which no browser sends; no log has it, whatever is asked."""
    with serving(folder) as server, server.api as api:
        assert len(server.token) >= 32
        assert api.get("sessions").status_code == 200
        for path in ("sessions", "nothing", "sessions?limit=0"):
            assert api.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
        server.process.terminate()
        out, err = server.process.communicate(timeout=20)
    assert server.token not in out + err
    with serving(folder, environment={"TREERING_TOKEN": "chosen"}) as server, server.api as api:
        assert server.token == "chosen"
        assert api.get("sessions").status_code == 200


def test_an_accident_says_nothing_of_what_happened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody expected is a 500 with all headers, and no word of a path or a line."""

    def fail(*_: object) -> None:
        raise RuntimeError("a secret of /etc")

    monkeypatch.setattr(Call, "of", fail)
    there = TestClient(
        app(treering.aopen(folder), token=TOKEN),
        base_url="http://127.0.0.1",
        headers=HEADERS,
        raise_server_exceptions=False,
    )
    answer = there.get(f"{API}/sessions")
    assert (answer.status_code, kind(answer)) == (500, "unexpected")
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_session_is_opened_in_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`treering view` opens the page at the session, whose key and the token are in the fragment."""
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    with treering.open(tmp_path).namespace("org/42").session("a trip") as session:
        session.append("hi")
    for options, fragment in (
        ([], "#/s/org=2F42~a=20trip&token=t"),
        (["--namespace", "org/42"], "#/s/a=20trip&token=t"),
    ):
        command = ["--store", str(tmp_path), *options, "view", "a trip", "--token", "t"]
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
        assert opened.pop().partition("/#")[2] == fragment[1:]
    assert CliRunner().invoke(main, ["--store", str(tmp_path), "view", "--token", "t"]).exit_code == 0
    assert opened.pop().endswith("/#token=t")


def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The comparison of tokens is that of `hmac`, which takes as long whatever differs."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((one, two))
        return one == two

    monkeypatch.setattr("treering.server.security.compare_digest", compare)
    assert client(folder).get("sessions", headers=HEADERS).status_code == 200
    assert compared == [(TOKEN.encode(), TOKEN.encode())]
