"""Answers that are written over HTTP while others read them."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from benchmarks.live import Load, run
from benchmarks.serving import Api
from starlette.testclient import TestClient
from tests.server.clients import Serving, client, serving, two_workers
from tests.server.test_events import told

import treering
from treering.api.async_store import AsyncStore
from treering.errors import UnavailableError
from treering.server import app
from treering.server.limits import STREAMS_MAX
from treering.storage.requests import Append, Put


@pytest.fixture
def server(folder: Path) -> Iterator[Serving]:
    """A server of the store in a process of its own."""
    with serving(folder) as found:
        yield found


def begin(api: httpx.Client, **headers: str) -> str:
    """Begin an answer; return its path."""
    begun = api.post("sessions/trip/streams", json={}, headers=headers)
    assert (begun.status_code, begun.json()["offset"]) == (201, 0)
    return f"sessions/trip/streams/{begun.json()['id']}"


def test_an_answer_is_read_while_it_is_written(server: Serving, folder: Path) -> None:
    """Pieces reach a reader before the answer ends, once each; a reader that was cut off goes on where it was."""
    words = [f"word {at} " for at in range(40)]
    with server.api as api:
        path = begin(api)
        first: list[str] = []
        with server.api as reader, reader.stream("GET", f"{path}/events", timeout=20) as response:
            pieces = told(response)
            offset = api.post(f"{path}/pieces", json={"offset": 0, "text": words[0]}).json()["offset"]
            seen = next(pieces)
            assert (seen.event, seen.data["text"]) == ("piece", words[0])
            first.append(seen.data["text"])
            last = seen.id or ""
        assert [each["id"] for each in api.get("sessions/trip/streams").json()] == [path.rpartition("/")[2]]
        rest: list[str] = []

        def read() -> None:
            seen = {"last-event-id": last}
            with server.api as again, again.stream("GET", f"{path}/events", headers=seen, timeout=20) as response:
                rest.extend(each.event if each.event == "end" else each.data["text"] for each in told(response))

        reading = threading.Thread(target=read)
        reading.start()
        for word in words[1:]:
            offset = api.post(f"{path}/pieces", json={"offset": offset, "text": word}).json()["offset"]
        done = api.post(f"{path}/end", json={}).json()
        reading.join()
    assert rest[-1] == "end"
    assert "".join(first + rest[:-1]) == "".join(words)
    node = treering.open(folder).view("trip").get(done["recorded"]["nodes"][0])
    assert node.payload == {"role": "assistant", "content": "".join(words)}


def lines(*texts: str) -> bytes:
    """Pieces of text, one a line."""
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


NDJSON = {"content-type": "application/x-ndjson"}


def test_one_request_brings_many_pieces(server: Serving, folder: Path) -> None:
    """Each line is written when it comes, and is read while the request goes on; a wrong place is refused."""
    with server.api as api:
        path = begin(api)
        let_go = threading.Event()

        def slowly() -> Iterator[bytes]:
            yield lines("one, ", "tw")
            yield lines("o, ")[:7]
            assert let_go.wait(20)
            yield lines("o, ")[7:] + lines("three")

        sent: list[httpx.Response] = []

        def send() -> None:
            with server.api as other:
                sent.append(
                    other.post(f"{path}/lines", params={"offset": 0}, content=slowly(), headers=NDJSON, timeout=30)
                )

        sending = threading.Thread(target=send)
        sending.start()
        read = ""
        with server.api as reader, reader.stream("GET", f"{path}/events", timeout=20) as response:
            for piece in told(response):
                read += piece.data["text"]
                if read == "one, tw":
                    let_go.set()
                if read == "one, two, three":
                    break
        sending.join()
        assert sent[0].json()["offset"] == len("one, two, three")
        again = api.post(f"{path}/lines", params={"offset": 0}, content=lines("one, "), headers=NDJSON)
        assert (again.status_code, again.json()["error"]["kind"]) == (409, "stale")
        assert "go on from 15" in again.json()["error"]["remedy"]
        for content, headers in ((b"x\n", NDJSON), (lines("x"), {"content-type": "application/json"})):
            refused = api.post(f"{path}/lines", params={"offset": 15}, content=content, headers=headers)
            assert refused.status_code == 400
        api.post(f"{path}/end", json={})
    assert treering.open(folder).view("trip").get(path.rpartition("/")[2]).payload["content"] == "one, two, three"


def test_lines_of_a_client_that_is_cut_off_are_there(server: Serving) -> None:
    """What came of a request before its connection broke is written; the client goes on with another request."""
    with server.api as api:
        path = begin(api)
        head = f"POST /api/v1/{path}/lines?offset=0 HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
        head += f"authorization: Bearer {server.token}\r\ncontent-type: application/x-ndjson\r\n\r\n"
        body = lines("whole ", "lines ") + b'{"text": "half'
        url = httpx.URL(server.address)
        with socket.create_connection((str(url.host), int(url.port or 0))) as connection:
            connection.sendall(head.encode() + b"%x\r\n%s\r\n" % (len(body), body))
            with server.api as reader, reader.stream("GET", f"{path}/events", timeout=20) as response:
                assert next(told(response)).data["text"] == "whole lines "
        ended = len("whole lines ")
        rest = api.post(f"{path}/lines", params={"offset": ended}, content=lines("and more"), headers=NDJSON)
        assert rest.json()["offset"] == ended + len("and more")


@pytest.mark.parametrize("requests", [False, True], ids=["lines", "requests"])
def test_many_answers_whose_readers_are_cut_off_again_and_again(server: Serving, *, requests: bool) -> None:
    """Twenty answers at once, each with a reader that attaches ten times: every character once. As in the benchmark."""
    api = Api(str(server.api.base_url), dict(server.api.headers))
    load = Load(streams=20, rate=40, seconds=1, cuts=10, requests=requests)
    done = asyncio.run(run(api, load))
    assert [each.ok for each in done] == [True] * 20
    assert sum(each.cuts for each in done) >= 20


def test_requests_of_a_stream_can_be_sent_again(server: Serving, folder: Path) -> None:
    """Beginning, a piece and the end, each sent twice, do it once; a piece that would leave a gap is refused."""
    key = {"idempotency-key": "stream"}
    with server.api as api:
        path = begin(api, **key)
        assert begin(api, **key) == path
        for _ in range(2):
            assert api.post(f"{path}/pieces", json={"offset": 0, "text": "once"}).json()["offset"] == 4
        gap = api.post(f"{path}/pieces", json={"offset": 9, "text": "x"})
        assert (gap.status_code, gap.json()["error"]["kind"]) == (409, "stale")
        assert "go on from 4" in gap.json()["error"]["remedy"]
        ends = [api.post(f"{path}/end", json={"outcome": "stopped"}).json() for _ in range(2)]
    assert ends[0]["outcome"] == ends[1]["outcome"] == "stopped"
    assert ends[0]["recorded"]["nodes"] == ends[1]["recorded"]["nodes"]
    view = treering.open(folder).view("trip")
    assert view.get(ends[0]["recorded"]["nodes"][0]).payload["content"] == "once"
    assert view.open_streams() == ()


def test_requests_of_a_stream_that_come_at_the_same_time_do_it_once(folder: Path) -> None:
    """Two that begin with one key, two that go on at a worker that did not begin it, and two that end it."""

    async def at_once() -> None:
        workers = [app(treering.aopen(folder), hosts=[]) for _ in range(2)]
        one, two = (
            httpx.AsyncClient(transport=httpx.ASGITransport(app=each), base_url="http://localhost/api/v1/")
            for each in workers
        )
        async with one, two:
            key = {"idempotency-key": "stream"}

            async def twice(api: httpx.AsyncClient, path: str, body: object) -> list[object]:
                sent = [api.post(f"sessions/trip/streams{path}", json=body, headers=key) for _ in range(2)]
                found = await asyncio.gather(*sent)
                assert found[0].is_success, found[0].text
                assert [each.status_code for each in found] == [found[0].status_code] * 2
                return [each.json() for each in found]

            first, second = await twice(one, "", {})
            assert first == second
            assert len((await one.get("sessions/trip/streams")).json()) == 1
            assert isinstance(first, dict)
            path, piece = f"/{first['id']}", {"offset": 0, "text": "once", "flush": True}
            for api in (one, two):
                assert await twice(api, f"{path}/pieces", piece) == [{**first, "offset": 4}] * 2
            ends = await twice(two, f"{path}/end", {})
            assert ends[0] == ends[1]

    asyncio.run(at_once())
    view = treering.open(folder).view("trip")
    assert (view.get(view.path()[-1]).payload["content"], view.open_streams()) == ("once", ())


def test_a_stream_is_not_begun_behind_what_the_client_did_not_see(api: TestClient, folder: Path) -> None:
    """`If-Match` with an end that the session no longer has is a conflict; a repeated request is answered before it."""
    seen = {"if-match": api.get("sessions/trip").headers["etag"], "idempotency-key": "stream"}
    with api:
        begun = api.post("sessions/trip/streams", json={}, headers=seen)
        assert begun.status_code == 201
        assert api.post("sessions/trip/streams", json={}, headers=seen).json() == begun.json()
        refused = api.post("sessions/trip/streams", json={}, headers=seen | {"idempotency-key": "another"})
        assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "stale")
        assert refused.json()["error"]["head"] == dict(treering.open(folder).view("trip").heads)


def test_a_restarted_server_goes_on_with_an_answer(folder: Path) -> None:
    """What was flushed is there after the server was killed; the writer goes on from there with another one."""
    with serving(folder) as server, server.api as api:
        path = begin(api)
        assert api.post(f"{path}/pieces", json={"offset": 0, "text": "before ", "flush": True}).json()["offset"] == 7
        server.process.kill()
        server.process.wait()
    with serving(folder) as server, server.api as api:
        assert api.post(f"{path}/pieces", json={"offset": 7, "text": "after"}).json()["offset"] == 12
        done = api.post(f"{path}/end", json={}).json()
    node = treering.open(folder).view("trip").get(done["recorded"]["nodes"][0])
    assert node.payload["content"] == "before after"


def test_an_answer_of_a_dead_writer_is_kept_or_discarded(server: Serving, folder: Path) -> None:
    """One that failed stays open; keeping makes a node that says it is partial, discarding leaves none."""
    with server.api as api:
        paths = [begin(api), begin(api)]
        for path in paths:
            api.post(f"{path}/pieces", json={"offset": 0, "text": "half", "flush": True})
            assert api.post(f"{path}/end", json={"outcome": "failed", "reason": "why"}).json()["recorded"] is None
        assert {each["reason"] for each in api.get("sessions/trip/streams").json()} == {"why"}
        kept = [api.post(f"{paths[0]}/keep").json() for _ in range(2)]
        assert kept[0]["nodes"] == kept[1]["nodes"]
        assert api.post(f"{paths[1]}/discard").status_code == 204
        assert api.get("sessions/trip/streams").json() == []
    assert treering.open(folder).view("trip").get(kept[0]["nodes"][0]).brief["stream"] == "partial"


def test_the_end_of_an_answer_can_be_sent_again(server: Serving) -> None:
    """Discarding a stream, and keeping one of which nothing is stored, can be repeated by whoever has the key."""
    with server.api as api:
        paths = [begin(api), begin(api)]
        for path in paths:
            api.post(f"{path}/end", json={"outcome": "failed"})
        discarded = [api.post(f"{paths[0]}/discard", headers={"idempotency-key": "d"}) for _ in range(2)]
        assert [answer.status_code for answer in discarded] == [204, 204]
        kept = [api.post(f"{paths[1]}/keep", headers={"idempotency-key": "k"}) for _ in range(2)]
        assert [(answer.status_code, answer.json()["nodes"]) for answer in kept] == [(200, [])] * 2
        for path, verb in zip(paths, ("discard", "keep"), strict=True):
            unknown = api.post(f"{path}/{verb}")
            assert (unknown.status_code, unknown.json()["error"]["kind"]) == (404, "stream")


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "k"}])
def test_a_message_that_never_was_a_stream_is_none(api: TestClient, folder: Path, headers: dict[str, str]) -> None:
    """Nobody may take it for an answer that was kept, or that ended."""
    node = api.get("sessions/trip").json()["node"]
    end = treering.open(folder).view("trip").stored().records
    for verb in ("keep", "end", "discard"):
        refused = api.post(f"sessions/trip/streams/{node}/{verb}", json={}, headers=headers)
        assert (refused.status_code, refused.json()["error"]["kind"]) == (404, "stream"), verb
    assert treering.open(folder).view("trip").stored().records == end


def test_an_answer_that_another_worker_ended_has_ended(folder: Path) -> None:
    """The request comes to another worker first, and then again to the one that began the answer."""
    with client(folder) as beginner, client(folder) as other:
        path = begin(beginner)  # type: ignore[arg-type]  # as below
        beginner.post(f"{path}/pieces", json={"offset": 0, "text": "whole", "flush": True})
        answers = [each.post(f"{path}/end", json={}) for each in (other, beginner, beginner)]
        assert [answer.status_code for answer in answers] == [200] * 3, answers[1].text
        assert len({answer.json()["recorded"]["nodes"][0] for answer in answers}) == 1


def test_a_key_begins_one_answer(folder: Path) -> None:
    """The same request gets the same stream; another one with its key is refused."""
    with client(folder) as api:
        first, again, other = (
            api.post("sessions/trip/streams", json=body, headers={"idempotency-key": "s"})
            for body in ({}, {}, {"head": "mountains"})
        )
        assert (first.status_code, again.json()) == (201, first.json())
        assert (other.status_code, other.json()["error"]["kind"]) == (409, "duplicate_id")


@pytest.mark.parametrize("body", [{}, {"head": "mountains"}])
@pytest.mark.parametrize("after", range(3))
def test_a_stream_is_begun_once_by_all_workers(body: dict[str, str], after: int) -> None:
    """The request is sent again to another worker, while its first run is under way, later, and after a restart."""
    meeting, store, first, other = two_workers()
    headers = {"idempotency-key": "s", "if-match": first.get("sessions/trip").headers["etag"]}
    answers: list[httpx.Response] = []

    def send(to: TestClient) -> None:
        answers.append(to.post("sessions/trip/streams", json=body, headers=headers))  # type: ignore[arg-type]

    meeting.before(lambda request: isinstance(request, Put | Append) and next(writes) == after, lambda: send(other))
    writes = itertools.count()
    with first, other, client(AsyncStore(store.place)) as restarted:
        for each in (first, first, other, restarted):
            send(each)
        assert [answer.status_code for answer in answers] == [201] * 5, answers
        stream = answers[0].json()["id"]
        assert [answer.json() for answer in answers] == [{"id": stream, "offset": 0}] * 5
        assert [each.id for each in store.view("trip").open_streams()] == [stream]
        assert store.view("trip").head == body.get("head", "main")
        path = f"sessions/trip/streams/{stream}"
        assert other.post(f"{path}/pieces", json={"offset": 0, "text": "once", "flush": True}).status_code == 200
        send(restarted)
        assert answers[-1].json() == {"id": stream, "offset": 4}
        other.post(f"{path}/end", json={})
        send(restarted)
        assert (answers[-1].status_code, answers[-1].json()["id"]) == (201, stream)
    view = store.view("trip")
    assert (view.open_streams(), view.path()[-1]) == ((), stream)


@pytest.mark.parametrize("body", [{}, {"head": "mountains"}])
def test_no_stream_is_begun_behind_a_record_of_the_same_moment(body: dict[str, str]) -> None:
    """With `If-Match`, another worker records right before the stream would be: it is refused, and no head moved."""
    meeting, store, first, other = two_workers()
    headers = {"if-match": first.get("sessions/trip").headers["etag"]}
    meeting.before(
        lambda request: isinstance(request, Put | Append),
        lambda: other.post("sessions/trip/messages", json={"messages": ["theirs"]}),
    )
    with first:
        refused = first.post("sessions/trip/streams", json=body, headers=headers)
        assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "stale")
        assert refused.json()["error"]["head"] == dict(store.view("trip").heads)
    view = store.view("trip")
    assert (view.head, view.open_streams()) == ("main", ())


def test_thinking_and_calls_are_parts_of_an_answer(folder: Path) -> None:
    """Pieces of all kinds make the message that a model API would have given."""
    with client(folder) as api:
        path = begin(api)  # type: ignore[arg-type]  # another library's client, with the same methods
        offset = 0
        for piece in (
            {"kind": "thinking", "text": "hm", "signature": "s"},
            {"kind": "text", "text": "look"},
            {"kind": "tool_call", "call": "c", "name": "look", "text": '{"a":'},
            {"kind": "tool_call", "call": "c", "text": "1}"},
        ):
            offset = api.post(f"{path}/pieces", json={"offset": offset, **piece}).json()["offset"]
        done = api.post(f"{path}/end", json={}).json()["recorded"]
        content = api.get(f"sessions/trip/nodes/{done['nodes'][0]}").json()["payload"]["content"]
        assert content == [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "look"},
            {"type": "tool_use", "id": "c", "name": "look", "input": {"a": 1}},
        ]
        assert api.post(f"{path}/pieces", json={"offset": 0, "text": "x"}).status_code == 404


async def test_a_session_that_cannot_be_closed_does_not_keep_other_streams(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may be out of reach then; every stream whose client is silent is given up all the same."""
    from treering.server.streaming import Held, Writers

    async def fails() -> None:
        raise UnavailableError("no network")

    writers, store = Writers(idle_seconds=0.04), treering.aopen(folder)
    sessions = [await store.session("trip", shared=True) for _ in range(2)]
    begun = [await session.stream() for session in sessions]
    view = await store.view("trip")
    with monkeypatch.context() as patch:
        patch.setattr(sessions[0], "close", fails)
        for session, writer in zip(sessions, begun, strict=True):
            writers.add((0, "", "trip", writer.id), Held(session, writer))
        async with asyncio.timeout(30):
            for writer in begun:
                pieces = [piece async for piece in view.follow_stream(writer.id, poll_seconds=0.01)]
                assert pieces[-1].status is treering.StreamStatus.FAILED
    await sessions[0].close()


def test_a_client_that_falls_silent_is_given_up(folder: Path) -> None:
    """Its answer is shown as failed, and its session is closed, so that others may have it."""

    async def silent() -> None:
        from treering.server.streaming import Held, Writers

        writers = Writers(idle_seconds=0.04)
        store = treering.aopen(folder)
        session = await store.session("trip", shared=True)
        writer = await session.stream()
        await writer.write("half")
        writers.add((0, "", "trip", writer.id), Held(session, writer))
        pieces = [piece async for piece in (await store.view("trip")).follow_stream(writer.id, poll_seconds=0.01)]
        assert (len(writers), pieces[-1].status) == (0, treering.StreamStatus.FAILED)
        assert "sent nothing" in pieces[-1].reason

    asyncio.run(silent())
    assert STREAMS_MAX == 1000


def test_a_stream_that_is_refused_moves_no_head(folder: Path) -> None:
    """The store redacts, or has too many open ones."""
    store = treering.open(folder, redactor=lambda text: text)
    refused = client(AsyncStore(store.place)).post("sessions/trip/streams", json={"head": "mountains"})
    assert (refused.status_code, store.view("trip").head) == (400, "main")
