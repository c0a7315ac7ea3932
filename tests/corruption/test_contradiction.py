"""`verify` reports a `latest` that contradicts the records, and a repair follows the records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.session.backends import KINDS, Backend, backend_of, texts

import treering
from treering.api.session import Session
from treering.format.record import Record
from treering.session.state import SessionState

SAID = ["m0", "m1", "m2", "m3"]


VERBS: dict[str, tuple[Callable[[Session, list[str]], object], str, str]] = {
    "retract": (lambda session, ids: session.retract(ids[1]), "edit", "context"),
    "branch": (lambda session, ids: session.branch("other", node=ids[1]), "head", "heads"),
    "usage": (lambda session, _: session.record_usage(tokens=5), "note", "usage"),
}
"""By name: a call, the type of the record it makes, and what `verify` calls it."""


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """The store."""
    return backend_of(request.param, tmp_path)


def write(backend: Backend, verb: str) -> None:
    """A session with this call in it, then closed."""
    call, _, _ = VERBS[verb]
    with backend.store().session("s") as session:
        ids = [session.append(text).node for text in SAID]
        session.commit([treering.assistant("ok")], state={"n": 1})
        call(session, ids)


def pass_over(monkeypatch: pytest.MonkeyPatch, type_: str) -> None:
    """Let every fold pass over records of this type, as a program would that has a defect there."""
    fold = SessionState.apply

    def apply(self: SessionState, record: Record, line: bytes, **known: Any) -> None:
        if record.type == type_:
            self.end += 1
        else:
            fold(self, record, line, **known)

    monkeypatch.setattr(SessionState, "apply", apply)


@pytest.mark.parametrize("verb", VERBS)
def test_latest_without_a_record_is_told(backend: Backend, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a `latest` took no note of is damage, in a word; without the defect there is none."""
    _, type_, word = VERBS[verb]
    with monkeypatch.context() as patch:
        pass_over(patch, type_)
        write(backend, verb)
    (found,) = backend.store().verify("s")
    assert (found.severity, found.kind) == ("damage", "contradiction")
    assert word in found.message
    assert "repair" in found.remedy


@pytest.mark.parametrize("verb", VERBS)
def test_a_repair_goes_by_the_records(backend: Backend, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new session is where the same session without the defect is: context, heads, usage, state."""
    _, type_, _ = VERBS[verb]
    with monkeypatch.context() as patch:
        pass_over(patch, type_)
        write(backend, verb)
    store = backend.store()
    done = store.repair("s", into="t")
    assert not done.lost
    assert store.verify("t") == []
    mended = store.view("t")
    said = {"retract": ["m0", "m2", "m3", "ok"], "branch": ["m0", "m1"], "usage": [*SAID, "ok"]}[verb]
    shown: list[Any] = texts(mended.context)
    assert [text if isinstance(text, str) else "ok" for text in shown] == said
    assert mended.head == ("other" if verb == "branch" else "main")
    assert mended.usage == ({"tokens": 5} if verb == "usage" else {})
    assert mended.state == ({} if verb == "branch" else {"n": 1})


@pytest.mark.parametrize("verb", VERBS)
def test_a_sound_latest_contradicts_nothing(backend: Backend, verb: str) -> None:
    """Nothing is told of a session that no defect touched."""
    write(backend, verb)
    assert backend.store().verify("s") == []
