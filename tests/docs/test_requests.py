"""The table of request counts in the documentation is what a counting driver sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, table
from tests.storage.processes import await_tick

from treering.api.session import Session
from treering.api.store import Store
from treering.format.paths import DAY_MS
from treering.ids import now_ms
from treering.journal.marker import MARKED_MS_MAX
from treering.session import creation, upkeep
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Driver
from treering.store.place import Place

ROWS = {row[0]: row[1:] for row in table(ROOT / "docs/explanation/requests.md", "What you do")}
NOON_MS = now_ms() // DAY_MS * DAY_MS + DAY_MS // 2
COLUMNS = ("object store", "local disk")


class Scene:
    """A store with one session in it, whose requests are counted."""

    def __init__(self, driver: Driver) -> None:
        self.counting = CountingDriver(driver)
        self.store = Store(Place(self.counting))

    def begun(self) -> Session:
        """The session `a`, open, with a message."""
        session = self.store.session("a")
        session.append("hello")
        return session


def _opening(scene: Scene) -> Iterator[None]:
    yield
    scene.store.session("a")


def _first_append(scene: Scene) -> Iterator[None]:
    with Store(Place(scene.counting)).session("other") as other:
        other.append("hello")
    session = scene.store.session("a")
    yield
    session.append("hello")


def _first_of_store(scene: Scene) -> Iterator[None]:
    session = scene.store.session("a")
    yield
    session.append("hello")


def _appending(scene: Scene) -> Iterator[None]:
    session = scene.begun()
    yield
    session.commit(["more"], state={"step": 1})


def _appending_resumed(scene: Scene) -> Iterator[None]:
    scene.begun().close()
    session = scene.store.session("a")
    yield
    session.append("more")


def _appending_later(scene: Scene) -> Iterator[None]:
    session = scene.begun()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(upkeep, "now_ms", lambda: now_ms() + upkeep.CARD_LAG_MS_MAX)
        yield
        session.append("more")


def _appending_marked(scene: Scene) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(creation, "now_ms", lambda: NOON_MS)
        session = scene.begun()
        patched.setattr(upkeep, "now_ms", lambda: NOON_MS + MARKED_MS_MAX)
        yield
        session.append("more")


def _moving(scene: Scene) -> Iterator[None]:
    session = scene.begun()
    yield
    session.move(project="shop")


def _titling(scene: Scene) -> Iterator[None]:
    session = scene.begun()
    yield
    session.set_title("T")


def _branching(scene: Scene) -> Iterator[None]:
    session = scene.begun()
    yield
    session.branch("other")


def _sealing(scene: Scene) -> Iterator[None]:
    session = scene.begun()
    yield
    session.seal()


def _append_after_seal(scene: Scene) -> Iterator[None]:
    session = scene.begun()
    session.seal()
    yield
    session.append("more")


def _closing(scene: Scene) -> Iterator[None]:
    session = scene.begun()
    yield
    session.close()


def _claimed(scene: Scene) -> Session:
    scene.begun().close()
    return scene.store.session("a", claim=30)


def _claiming(scene: Scene) -> Iterator[None]:
    scene.begun().close()
    session = scene.store.session("a")
    yield
    session.claim(ttl=30)


def _appending_claimed(scene: Scene) -> Iterator[None]:
    session = _claimed(scene)
    yield
    session.append("more")


def _renewing(scene: Scene) -> Iterator[None]:
    session = _claimed(scene)
    yield
    session.renew()


def _releasing(scene: Scene) -> Iterator[None]:
    session = _claimed(scene)
    yield
    session.release()


def _closing_claimed(scene: Scene) -> Iterator[None]:
    session = _claimed(scene)
    session.append("more")
    yield
    session.close()


def _resuming(scene: Scene) -> Iterator[None]:
    with scene.begun() as session:
        session.seal()
        session.commit(["more"], state={"step": 1})
    yield
    scene.store.session("a")


def _looking(scene: Scene) -> Iterator[None]:
    scene.begun()
    view = scene.store.view("a")
    yield
    view.refresh()


def _listing(scene: Scene) -> Iterator[None]:
    for name in "abc":
        with scene.store.session(name) as session:
            session.append("hello")
            await_tick()  # a log that is no younger than the session's marker is not asked
            session.append("and later")
        await_tick()  # sessions of one tick are read together
    yield
    scene.store.sessions(limit=2)


def _deleting(scene: Scene) -> Iterator[None]:
    with scene.begun() as session:
        session.seal()
    yield
    scene.store.delete("a")


SCENES: dict[str, Callable[[Scene], Iterator[None]]] = {
    "open a session that does not exist": _opening,
    "its first append, the first of this process": _first_append,
    "its first append, the first in the store": _first_of_store,
    "an append or commit": _appending,
    "the first append of a session that was resumed": _appending_resumed,
    "the first append a minute after the card was written": _appending_later,
    "a title, a status": _titling,
    "another project or folder": _moving,
    "the first append ten minutes after the marker was written": _appending_marked,
    "branch where you stand": _branching,
    "seal": _sealing,
    "the first append after a seal": _append_after_seal,
    "close": _closing,
    "take the lease of a session that was resumed": _claiming,
    "append, having the lease": _appending_claimed,
    "renew the lease": _renewing,
    "give the lease back": _releasing,
    "close, having the lease": _closing_claimed,
    "resume": _resuming,
    "look whether something was added": _looking,
    "list a page of 2 sessions, of 3": _listing,
    "delete a session with one segment": _deleting,
}


@pytest.mark.parametrize("column", range(2), ids=COLUMNS)
@pytest.mark.parametrize("row", ROWS)
def test_requests_are_as_documented(row: str, column: int, tmp_path: Path) -> None:
    """The operation of a row sends the requests that the row lists, to an object store in as many batches."""
    scene = Scene(LocalDriver(tmp_path / "store") if column else MemoryDriver())
    steps = SCENES[row](scene)
    next(steps)
    scene.counting.reset()
    next(steps, None)
    sent = {f"{count} {name}" for name, count in scene.counting.counts.items()}
    assert sent == set(ROWS[row][column].split(", "))
    if not column:
        assert str(scene.counting.batches) == ROWS[row][2]


def test_every_row_is_counted() -> None:
    """The page and the scenes name the same things."""
    assert list(ROWS) == list(SCENES)
