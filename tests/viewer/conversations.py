"""Conversations of tests: how they are recorded, opened, and read off the page."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from selenium.common.exceptions import TimeoutException
from tests.server.clients import Serving
from tests.viewer.browser import Browser

import treering
from treering.api.store import Store

Own = tuple[Store, Serving]
"""A store for one test alone, and the server of it."""


def address(server: Serving, route: str = "#/") -> str:
    """The address of a page, with the token as `treering serve` prints it."""
    return f"{server.address}/{route}&token={server.token}"


def talk(store: Store, *texts: str, name: str = "s") -> Sequence[str]:
    """A session with turns of the user and of the model; the ids of its messages."""
    turns = [(treering.user, treering.assistant)[at % 2](text) for at, text in enumerate(texts)]
    with store.session(name) as session:
        return session.append(*turns).nodes


def texts(store: Store, head: str, name: str = "s") -> list[str]:
    """What a branch says, from its beginning."""
    rows = store.view(name).history(head=head).rows
    return [row.node.payload["content"] for row in reversed(rows)]


def shows(browser: Browser, *wanted: str) -> None:
    """Wait until the conversation has these messages and no others."""
    with contextlib.suppress(TimeoutException):  # then it is said below what is there
        browser.until(lambda _: browser.messages() == list(wanted))
    assert browser.messages() == list(wanted)


def shows_an_answer_grow(browser: Browser, page: str, session: treering.Session) -> None:
    """Write an answer, whose pieces appear as they come, also after the page was loaded again."""
    with session.stream(role="assistant") as answer:
        answer.write("one, ")
        answer.flush()
        browser.open(page)
        browser.see("article.open", "one,")
        answer.write("two, ")
        answer.flush()
        browser.see("article.open", "one, two,")
        browser.open(page)
        browser.see("article.open", "one, two,")
        answer.write("three")
