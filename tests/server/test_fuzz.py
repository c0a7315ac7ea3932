"""Requests made of the OpenAPI document, right ones and wrong ones: no answer is an accident."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings, strategies as st
from schemathesis.checks import content_type_conformance, not_a_server_error, status_code_conformance
from starlette.applications import Starlette
from tests.sampling import few
from tests.server.clients import API, HEADERS, TOKEN, serving

import treering
from treering.server import app
from treering.server.errors import STATUS, STATUS_OF_KIND
from treering.server.route import EVENTS, LINES, Route
from treering.server.table import ROUTES

EXAMPLES = few(2, 100)
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]
FINITE = [route for route in ROUTES if route.media_type != EVENTS]  # an event stream ends with its reader
STREAMS = [route for route in ROUTES if route.media_type == EVENTS]


@schemathesis.serializer(LINES)
def a_line(_: Any, value: Any) -> bytes:
    """Write a body of one line."""
    return json.dumps(value).encode() + b"\n"


@pytest.fixture
def there(tmp_path: Path) -> Starlette:
    """A server of a store with one session."""
    with treering.open(tmp_path).session("s") as session:
        session.append(treering.user("hi", id="n"))
        session.commit([treering.assistant("yes")], state={"step": 1}, label="l")
    return app(treering.aopen(tmp_path), token=TOKEN)


@pytest.mark.sampled(2, "route")
@pytest.mark.parametrize("route", FINITE, ids=lambda route: f"{route.method} {route.path}")
@pytest.mark.parametrize("mode", [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE])
def test_a_route_answers_whatever_is_sent(there: Starlette, route: Route, mode: schemathesis.GenerationMode) -> None:
    """Generated paths, queries, headers and bodies get an answer that the document describes, and never a 500.

    Sampled: each route with one of both kinds of requests.
    """
    operation = schemathesis.openapi.from_asgi(f"{API}/openapi.json", there)[f"{API}/{route.shown_path}"][route.method]
    tried = 0

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        nonlocal tried
        tried += 1
        if "key" in case.path_parameters and tried % 2:
            case.path_parameters["key"] = "s"
        case.call_and_validate(headers=HEADERS, checks=CHECKS)

    send()
    assert tried


PLACE = st.one_of(st.none(), st.text("0123456789.-abcxyz~\xe9\0 ", max_size=30), st.integers(-5, 10**30).map(str))


@pytest.mark.parametrize("route", STREAMS, ids=lambda route: route.path)
def test_an_event_stream_begins_or_is_refused_whatever_is_asked(tmp_path: Path, route: Route) -> None:
    """Places that the server never gave, in the query or the header, begin a stream or get a described refusal."""
    with treering.open(tmp_path).session("s") as session:
        session.append(treering.user("hi", id="n"))
    described = {200, *STATUS.values(), *STATUS_OF_KIND.values()} - {500}
    tried = 0

    with serving(tmp_path) as server, server.api as api:

        @settings(max_examples=EXAMPLES * 5, deadline=None, database=None)
        @given(st.sampled_from(["s", "none", "=0"]), st.sampled_from(["n", "none"]), PLACE, PLACE, st.text(max_size=9))
        def ask(key: str, stream: str, place: str | None, last: str | None, other: str) -> None:
            nonlocal tried
            tried += 1
            path = route.path.replace("{key}", key).replace("{stream}", stream)
            names = [field.name for field in msgspec.structs.fields(route.types.query)]
            query = {} if place is None else dict.fromkeys(names, place)
            query |= {other: "x"} if other.isidentifier() and tried % 4 == 0 else {}
            headers = {} if last is None else {b"last-event-id": last.encode("latin-1").replace(b"\0", b"").strip()}
            with api.stream("GET", path, params=query, headers=headers, timeout=20) as response:
                assert response.status_code in described
                kind = EVENTS if response.status_code == 200 else "application/json"
                assert response.headers["content-type"].startswith(kind)

        ask()
    assert tried
