"""Events of a real server: everything once, also over an interruption, a killed writer and a restart."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from tests.server.clients import Serving, ServingProcess, serving
from tests.storage.processes import start

import treering

READY = """
import sys, treering
store = treering.open(sys.argv[1])
session = store.session("trip", shared=True)
at = 0
while at < 300:
    session.append(treering.user(f"n{at}"))
    print(at, flush=True)
    at += 1
sys.stdin.read()  # until it is killed
"""


class Told(NamedTuple):
    """A message of a stream."""

    id: str | None
    event: str
    data: Any


def told(response: httpx.Response) -> Iterator[Told]:
    """The messages of a stream of server-sent events."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if not line and fields:
            yield Told(fields.get("id"), fields["event"], json.loads(fields["data"]))
            fields = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


@pytest.fixture
def server(folder: Path) -> Iterator[ServingProcess]:
    """A server of the store in a process of its own."""
    with serving(folder) as found:
        yield found


def follow(server: Serving, count: int, **headers: str) -> list[Told]:
    """The next messages about the session."""
    found: list[Told] = []
    with server.api as api, api.stream("GET", "sessions/trip/events", headers=headers, timeout=20) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for each in told(response):
            found.append(each)
            if len(found) == count:
                break
    return found


def test_events_are_told_as_they_happen(server: Serving) -> None:
    """Whoever follows from the card on is told of what is recorded since: nodes, labels, checkpoints, the deletion."""
    with server.api as api:
        card = api.get("sessions/trip").json()
        done = api.post("sessions/trip/commit", json={"messages": ["and then?"], "state": {"step": 3}}).json()
        api.post(f"sessions/trip/nodes/{done['nodes'][0]}/label", json={"label": "x"})
        first = follow(server, 3, **{"last-event-id": card["after"]})
        assert [each.event for each in first] == ["node", "checkpoint", "note"]
        assert [each.id for each in first] == [each.data["after"] for each in first]
        assert first[0].data["value"]["payload"]["content"] == "and then?"
        again = follow(server, 2, **{"last-event-id": first[0].id or ""})
        assert again == first[1:]
        api.delete("sessions/trip")
        with api.stream("GET", "sessions/trip/events", headers={"last-event-id": first[2].id or ""}) as response:
            assert response.status_code == 410


def test_a_deletion_ends_the_stream(server: Serving) -> None:
    """Who follows when a session is deleted is told so, and the stream ends."""
    with server.api as api, api.stream("GET", "sessions/trip/events", timeout=20) as response:
        with server.api as other:
            assert other.delete("sessions/trip").status_code == 204
        assert [each.event for each in told(response)] == ["deletion"]


def test_no_event_is_lost_or_told_twice_over_interruptions(server: Serving, folder: Path) -> None:
    """A reader that is cut off again and again, while a process writes and is killed, gets every node once."""
    with server.api as api:
        after = api.get("sessions/trip").json()["after"]
    recorded: list[int] = []
    seen: list[str] = []
    with start(READY, str(folder), prelude="") as writer:
        reading = threading.Thread(target=lambda: recorded.extend(int(line) for line in writer.stdout or ()))
        reading.start()
        while len(seen) < 60:
            part = follow(server, 7, **{"last-event-id": after})
            seen += [each.data["value"]["payload"]["content"] for each in part]
            after = part[-1].id or ""
        writer.kill()
        reading.join()
    view = treering.open(folder).view("trip")
    total = view.info.nodes - 3
    assert total >= len(recorded)
    rest = follow(server, total - len(seen), **{"last-event-id": after})
    seen += [each.data["value"]["payload"]["content"] for each in rest]
    assert seen == [f"n{at}" for at in range(total)]


def test_a_place_that_is_none_is_refused(server: Serving) -> None:
    """A cursor that the server never gave is answered with an error, before any stream begins."""
    with server.api as api:
        for headers in ({"last-event-id": "x"}, {"last-event-id": "x" * 300}):
            refused = api.get("sessions/trip/events", headers=headers)
            assert refused.status_code == 400
        assert api.get("sessions/none/events").status_code == 404


def test_a_server_ends_although_somebody_follows(server: ServingProcess) -> None:
    """An open stream does not keep a server from ending when it is asked to."""
    with server.api as api, api.stream("GET", "sessions/trip/events", timeout=20) as response:
        assert response.status_code == 200
        server.process.terminate()
        assert server.process.wait(timeout=15) in {0, -15}
