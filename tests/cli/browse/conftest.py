from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.cli.browse.screens import empty_store

import treering


class Tea(NamedTuple):
    """A session with two branches, as it was recorded."""

    store: treering.Store
    question: str
    answer: str
    again: str
    """A second question, from which the branches part."""
    first: str
    """The end of the branch `main`: a call of a tool and its result."""
    second: str
    """The end of the branch `other`, where the session stands."""


@pytest.fixture
def tea() -> Tea:
    """A session named `tea`."""
    store = empty_store()
    with store.session("tea", title="Too much tea") as session:
        question = session.append(treering.user("why is the total wrong?")).node
        answer = session.commit([treering.assistant("it rounds twice")], state={"step": 1}).nodes[-1]
        session.set_model("some-model")
        again = session.append(treering.user("fix it")).node
        call = {"type": "tool_use", "id": "c1", "name": "edit", "input": {"path": "a.py"}}
        session.append(treering.assistant([{"type": "text", "text": "one way"}, call]))
        result = "\n".join(f"line {number} of the result" for number in range(20))
        first = session.append(treering.tool(result, call="c1")).node
        session.branch("other", node=again)
        second = session.commit([treering.assistant("another way")], state={"step": 2}).nodes[-1]
    return Tea(store, question, answer, again, first, second)
