"""Who knows the pages on the format and nothing else reads the same sessions as we do."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.format import independent_reader
from tests.session.at_rest import restored_at
from tests.session.test_state_of_heads import act

import treering
from treering.api.store import Store
from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import HeadMovedError, NotFoundError, UsageError
from treering.session.content import Restored
from treering.session.payload import decoded_manager, decoded_state
from treering.session.reader import Reader
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Steps
from treering.store.place import Place

VERBS = 40
ALONE = (
    "import runpy, sys; sys.modules['treering'] = None; del sys.argv[0]; runpy.run_path(sys.argv[0], None, '__main__')"
)
"""Python that runs the script in its arguments without the library."""
PICTURE = base64.b64encode(bytes(range(256)) * 200).decode()


def fill(session: treering.Session) -> None:
    """Whatever a session can hold."""
    session.append(treering.system("Be brief."), treering.user([{"type": "image", "data": PICTURE}]))
    session.set_model("big", provider="acme")
    session.commit(
        [treering.assistant("x" * 300_000)], state={"step": 1, "at": dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)}
    )
    session.seal()
    asked = session.append("a question", "another one").node
    session.commit(
        [treering.assistant("an answer")],
        state={"step": 2, "seen": {1, 2}, "raw": b"\0\1", "odd": float("inf"), "$key": {"$": 1}},
        manager={"window": (1, 2)},
        label="answered",
    )
    answered = session.checkpoints()[-1].id
    session.amend(asked, {"role": "user", "content": "another question"})
    session.append("to be hidden")
    hidden = session.node or ""
    session.append("to be seen again")
    session.retract(hidden)
    session.retract(session.node or "")
    session.unretract(session.node or "")
    session.record_usage(input=3)
    session.compact("so far", kept=asked)
    session.commit(["more"], state={"plan": ["a"]}, drop=["odd"])
    session.compact("by far")
    session.branch("side", node=asked, summary="tried it")
    session.append(treering.custom_message("bell", "rings"), "on the side")
    session.commit(state={"step": 30, "secret": "s"}, manager=None)
    session.seal()
    session.rewind(answered)
    told = session.append("to be erased").node
    session.commit(state={"step": 4})
    session.switch("main")
    session.append("last")
    session.erase(told)
    session.erase(state=["secret"])
    session.set_title("a title")


def shown(reader: Reader, there: Restored) -> Steps[list[object]]:
    """The messages of a context that is not the one in hand."""
    yield from ()
    return [item.message for item in reader.content.messages(there.context, there.lines)]


def same(ours: Store, theirs: dict[str, independent_reader.Reader]) -> None:
    """All sessions have the same heads, and at each of them the same context, settings, state and manager."""
    assert sorted(theirs) == sorted(card.id for card in ours.each_session())
    for session, reader in theirs.items():
        view = ours.view(session)
        assert (reader.heads, reader.current) == (view.heads, view.head)
        assert reader.messages(reader.at_head(view.head).items) == [item.message for item in view.context]
        for head, node in view.heads.items():
            there = view.perform(restored_at, node, head=head)
            told = there.checkpoint
            found = reader.at_head(head)
            assert reader.messages(found.items) == view.perform(shown, there)
            assert found.settings == there.context.settings
            assert found.state == (decoded_state(told.state) if told else {})
            assert found.manager == (decoded_manager(told.manager) if told else None)
        resumed = reader.in_hand()
        assert resumed in (None, reader.at_head(view.head))


def test_a_session_of_everything_is_read_by_others(tmp_path: Path) -> None:
    """Branches, compactions, edits, rewinds, blobs, what was erased: as written, forked, copied, merged and pruned."""
    store = treering.open(tmp_path)
    with store.session("s/1") as session:
        fill(session)
        session.fork("fork", node=session.path()[2])
        same(store, independent_reader.sessions(tmp_path))
        session.seal()
        session.optimize(everything=True)
        same(store, independent_reader.sessions(tmp_path))
        session.prune(KeepCheckpoints(last=2))
        session.append("behind it")
        same(store, independent_reader.sessions(tmp_path))
    store.copy("s/1", name="copy")
    store.delete("fork")
    found = independent_reader.sessions(tmp_path)
    same(store, found)
    assert [reader.in_hand() for reader in found.values()] == [reader.at_head("main") for reader in found.values()]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_done_is_read_by_others(tmp_path: Path, seed: int) -> None:
    """Handles that share a session, on storage that appends and on storage that does not."""
    rng = random.Random(seed)
    memory = MemoryDriver(appends=seed % 2 == 0)
    store = Store(Place(memory))
    store.session("s", shared=True).commit(state={"x": "first"})
    sessions = [store.session("s", shared=True) for _ in range(3)]
    for number in range(VERBS):
        # Nothing like that is there, or not any more; or what a handle stood on was pruned.
        with contextlib.suppress(NotFoundError, UsageError, HeadMovedError):
            act(rng, rng.choice(sessions), f"{number}")
    for key, data in memory.snapshot().items():
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    same(store, independent_reader.sessions(tmp_path))


def test_it_knows_nothing_of_us(tmp_path: Path) -> None:
    """The reader runs where the library cannot be imported, and prints what is there; it refuses damage."""
    with treering.open(tmp_path).session("s") as session:
        session.commit(["hello"], state={"step": 1})
    run = [sys.executable, "-c", ALONE, independent_reader.__file__, str(tmp_path)]
    printed = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    assert (
        printed == f"s: {{'main': '{session.node}'}}, at main\n  {session.context[0].message}\n  main: {{'step': 1}}\n"
    )
    tail = next(tmp_path.glob("sessions/*/tail.jsonl"))
    tail.write_bytes(tail.read_bytes().replace(b"hello", b"hallo"))
    with pytest.raises(independent_reader.DamageError):
        independent_reader.sessions(tmp_path)
