"""The HTTP reference is that of the routes, and every route is in a table of it."""

from __future__ import annotations

from tests.docs import http

from treering.server.table import ROUTES


def test_the_page_is_up_to_date() -> None:
    """`python -m tests.docs.http` would change nothing."""
    assert http.page(http.PAGE.read_text()) == http.PAGE.read_text()


def test_each_route_is_listed_once() -> None:
    """No route is left out, and none stands in two tables."""
    text = http.PAGE.read_text()
    for route in ROUTES:
        assert text.count(f"| `{route.method} {route.shown_path}` |") == 1, route.path
