"""Large parts: stored once beside the records, fetched when shown, and not kept in memory for ever."""

from __future__ import annotations

import base64
import os

import msgspec
import pytest
from tests.drivers import PassingDriver
from tests.session.at_rest import contents
from tests.session.backends import Backend, kill, memory_backend

from treering.api.session import Session
from treering.api.store import Store
from treering.storage.requests import Answer, Batch, Delete, Found, Get, Put
from treering.store.place import Place

LARGE = [base64.b64encode(os.urandom(40_000)).decode() for _ in range(6)]


def picture(number: int) -> dict[str, object]:
    """A message with an image."""
    return {"role": "user", "content": [{"type": "image", "data": LARGE[number]}]}


@pytest.mark.parametrize("sealed", [False, True])
def test_large_parts_are_there_wherever_they_are_shown(backend: Backend, *, sealed: bool) -> None:
    """Images come back whole after a kill, a checkout, a switch, a rewind, an edited context, and in every read."""
    session = backend.store().session("s")
    nodes = [session.append(picture(number)).node for number in range(3)]
    made = session.commit(label="three").checkpoint or ""
    session.commit([picture(3)], context=[])
    nodes.append(session.node or "")
    if sealed:
        session.seal()
    context = session.context
    kill(session)
    session = backend.store().session("s")
    assert session.context == context
    session.commit(context=[nodes[1]])
    assert [item.message for item in session.context] == [picture(1)]
    session.branch("other", node=nodes[0], keep_state=False)
    assert [item.message for item in session.context] == [picture(0)]
    session.switch("main")
    assert [item.message for item in session.context] == [picture(1)]
    session.rewind(made)
    assert [item.message for item in session.context] == [picture(0), picture(1), picture(2)]
    session.checkout(nodes[1])
    kill(session)
    session = backend.store().session("s")
    assert [item.message for item in session.context] == [picture(0), picture(1)]
    assert session.get(nodes[3]).payload == picture(3)
    assert [item.message for item in session.checkpoint(made).context] == [picture(0), picture(1), picture(2)]
    assert [item.message for item in session.context_at(nodes[2])] == [picture(0), picture(1), picture(2)]
    session.close()


PROMPTS = {
    "an image of Anthropic": (
        [{"type": "image", "source": {"type": "base64", "data": LARGE[0]}}, {"type": "text", "text": "what is this?"}],
        "what is this?",
    ),
    "an image of OpenAI": (
        [
            {"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + LARGE[0]}},
        ],
        "what is this?",
    ),
    "a file of Strands": (
        [{"image": {"source": {"bytes": b"x" * 40_000}}}, {"text": "what is this?"}],
        "what is this?",
    ),
    "a long text": ("\n  why\ndoes " + "it fail " * 40_000, "why does it fail it fail"),
    "a long part": ([{"type": "text", "text": "why does " + "it fail " * 40_000}], "why does it fail it fail"),
}


@pytest.mark.parametrize("content", PROMPTS)
@pytest.mark.parametrize("killed", [False, True])
def test_lists_show_the_words_of_a_first_prompt_with_large_parts(
    backend: Backend, content: str, *, killed: bool
) -> None:
    """Blobs are not read for lists: an image is left out, and a long text is shown by its beginning."""
    message, shown = PROMPTS[content]
    session = backend.store().session("s")
    session.append({"role": "user", "content": message})
    session.seal()
    (kill if killed else Session.close)(session)
    backend.store().copy("s", name="copy")
    for row in (*backend.store().sessions().rows, backend.store().view("s").info):
        assert row.first_prompt[: len(shown)] == shown
        assert "missing" not in row.first_prompt


def test_a_picture_without_words_leaves_the_first_prompt_to_the_next_message(store: Store) -> None:
    """What lists show is the first thing that the user said in words."""
    with store.session("s") as session:
        session.append(picture(0))
        session.append("what is this?")
    assert store.sessions().rows[0].first_prompt == "what is this?"


def test_the_beginning_of_an_erased_text_is_gone(backend: Backend) -> None:
    """The reference of a long text tells how it begins; erasing the text takes that, too."""
    with backend.store().session("s") as session:
        node = session.append("the secret begins " + "and goes on " * 30_000).node
        session.seal()
        session.append("next")
        session.erase(node)
    assert backend.store().sessions().rows[0].first_prompt == "[erased]"
    assert all(b"the secret begins" not in contents(data) for data in backend.snapshot().values())


def test_a_large_amendment_survives(backend: Backend) -> None:
    """What a node was amended to may be large as well."""
    session = backend.store().session("s")
    node = session.append("small").node
    session.amend(node, picture(4))
    assert session.context[0].message == picture(4)
    kill(session)
    session = backend.store().session("s")
    assert session.context[0].message == picture(4)
    made = session.commit(label="x").checkpoint or ""
    session.seal()
    kill(session)
    session = backend.store().session("s")
    assert session.context[0].message == picture(4)
    session.checkout(None)
    assert session.checkpoint(made).context[0].message == picture(4)
    session.rewind(made)
    assert session.context[0].message == picture(4)
    session.close()


def test_followers_get_large_parts(backend: Backend) -> None:
    """A change feed yields messages whole."""
    session = backend.store().session("s", shared=True)
    session.append("a")
    feed = backend.store().view("s").follow(poll_seconds=0)
    session.append(picture(5))
    assert next(feed).payload == picture(5)
    session.close()


def test_a_feed_gets_large_parts_while_its_view_is_used_for_other_reads(backend: Backend) -> None:
    """Between two nodes of a feed the same view may read others, with large parts of their own."""
    with backend.store().session("s") as session:
        nodes = [session.append(picture(number)).node for number in range(3)]
        session.compact("gist")
    view = backend.store().view("s")
    feed = view.follow(poll_seconds=0, first=0)
    for number in range(3):
        assert next(feed).payload == picture(number)
        assert view.get(nodes[0]).payload == picture(0)


def test_a_large_part_is_stored_once(backend: Backend) -> None:
    """The same image again is neither stored nor sent again, and no record holds it."""
    store, counts = backend.counted()
    with store.session("s") as session:
        session.append(picture(0))
        counts.reset()
        session.append(picture(0))
        assert counts.total == 1
        assert counts.bytes_up < 2000
    blobs = [data for key, data in backend.snapshot().items() if "/blobs/" in key]
    assert blobs == [base64.b64decode(LARGE[0])]


def test_a_missing_large_part_becomes_a_note(backend: Backend) -> None:
    """If a blob is lost the message says so; nothing that looks like a reference reaches a model."""
    session = backend.store().session("s")
    session.append(picture(0))
    kill(session)
    keys = tuple(key for key in backend.snapshot() if "/blobs/" in key)
    backend.driver().execute((Delete(keys),))
    with backend.store().session("s") as session:
        (item,) = session.context
        assert "missing attachment" in str(item.message)
        assert "$blob" not in str(item.message)
        session.append("on")


def test_large_parts_are_forgotten_when_they_are_no_longer_shown(backend: Backend) -> None:
    """Reading a long history with images does not fill memory with them."""
    session = backend.store().session("s")
    for number in range(6):
        session.commit([picture(number)], context=[])
    kill(session)
    view = backend.store().view("s")
    for row in view.nodes():
        assert view.get(row.id).payload
        assert len(view._reader.blobs.at_hand) <= 2


def test_resuming_fetches_only_what_is_shown(backend: Backend) -> None:
    """Blobs read for a move, or no longer shown after it, cost the next process no request."""
    session = backend.store().session("s")
    first = session.append("small").node
    session.append(picture(0))
    session.seal()
    session.checkout(first)
    kill(session)
    store, counts = backend.counted()
    session = store.session("s")
    assert counts.counts == {"Get": 2}
    kill(session)


@pytest.mark.parametrize("damaged", [b"", b"short", bytes(40_000)])
def test_a_damaged_part_becomes_a_note(backend: Backend, damaged: bytes) -> None:
    """Bytes that do not fit their name are never shown; the session opens, and goes on, with a note in their place."""
    with backend.store().session("s") as session:
        node = session.append(picture(0)).node
        session.seal()
    (key,) = [key for key in backend.snapshot() if "/blobs/" in key]
    backend.driver().execute((Put(key, damaged),))
    view = backend.store().view("s")
    for payload in (view.get(node).payload, view.history().rows[0].node.payload, view.context[0].message):
        assert "missing attachment" in str(payload)
    assert key in [finding.key for finding in backend.store().verify("s")]
    with backend.store().session("s") as session:
        session.append("on")
        assert len(session.context) == 2


class Halving(PassingDriver):
    """Answers the next so many requests for blobs with half of them."""

    halves = 0

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        answers = list(self.inner.execute(batch))
        for place, (request, answer) in enumerate(zip(batch, answers, strict=True)):
            if isinstance(request, Get) and "/blobs/" in request.key and isinstance(answer, Found) and self.halves:
                self.halves -= 1
                answers[place] = msgspec.structs.replace(answer, data=answer.data[: len(answer.data) // 2])
        return tuple(answers)


@pytest.mark.parametrize(("halves", "lost"), [(1, 0), (2, 0), (3, 1), (4, 2)])
def test_a_part_that_came_over_damaged_is_asked_for_once_more(halves: int, lost: int) -> None:
    """A copy then has it as well, where a note would stand for ever although the part itself is whole."""
    backend = memory_backend()
    with backend.store().session("s") as session:
        session.append(picture(0))
        session.append(picture(1))
        session.commit(context=[])
    driver = Halving(backend.driver())
    view = Store(Place(driver)).view("s")
    driver.halves = halves
    shown = [row.node.payload for row in reversed(view.history().rows)]
    assert sum(payload not in (picture(0), picture(1)) for payload in shown) == lost
    driver.halves = 1
    Store(Place(driver)).copy("s", name="copy")
    assert [row.node.payload for row in reversed(backend.store().view("copy").history().rows)] == [
        picture(0),
        picture(1),
    ]
