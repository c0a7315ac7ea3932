"""Requests made of the OpenAPI document, right ones and wrong ones: no answer is an accident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import content_type_conformance, not_a_server_error, status_code_conformance
from starlette.applications import Starlette
from tests.sampling import few
from tests.server.clients import API, HEADERS, TOKEN

import treering
from treering.server import app
from treering.server.route import Route
from treering.server.table import ROUTES

EXAMPLES = few(2, 100)
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]
FINITE = [route for route in ROUTES if not route.path.endswith("/events")]  # an event stream ends with its reader


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
