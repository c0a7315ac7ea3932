"""Breadcrumbs: the session that a terminal used last, on each kind of store, blocking and asynchronous."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import treering
from tests.servers import S3Server, moto
from treering.terminals import Terminal, arecent, leave_breadcrumb, recent, this_terminal
from treering.terminals.breadcrumb import SESSIONS_MAX, TERMINALS_MAX

__all__ = ["moto"]

ONE = Terminal(name="pts-1", host="here")
TWO = Terminal(name="pts-2", host="here")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where breadcrumbs are kept."""
    return tmp_path / "terminals"


@pytest.fixture
def store(tmp_path: Path) -> treering.Store:
    """A store on disk."""
    return treering.open(tmp_path / "store")


def use(store: treering.Store, name: str, terminal: Terminal, folder: Path, **options: str) -> bool:
    """Record something in a session, and leave a breadcrumb."""
    with store.session(name, project=options.get("project", ""), cwd=options.get("cwd", "")) as session:
        session.append(name)
        return leave_breadcrumb(store, session, terminal, folder=folder)


def last(store: treering.Store, terminal: Terminal | None, folder: Path, **wanted: str) -> str | None:
    """The name of the session to continue."""
    found = recent(store, terminal, folder=folder, **wanted)
    return found.id if found is not None else None


def test_each_terminal_has_its_session(store: treering.Store, folder: Path) -> None:
    """Not the one that was active last, but the one that was used there last."""
    assert use(store, "a", ONE, folder)
    assert use(store, "b", TWO, folder)
    assert (last(store, ONE, folder), last(store, TWO, folder)) == ("a", "b")
    use(store, "c", ONE, folder)
    assert last(store, ONE, folder) == "c"
    use(store, "a", ONE, folder)
    assert last(store, ONE, folder) == "a"
    assert last(store, None, folder) is None
    assert last(store, Terminal(name="pts-3", host="here"), folder) is None


def test_another_computer_has_other_terminals(store: treering.Store, folder: Path) -> None:
    """Two that share a bucket, or a home, do not mix up terminals of one name."""
    use(store, "a", ONE, folder)
    assert last(store, Terminal(name="pts-1", host="there"), folder) is None


def test_a_terminal_that_was_opened_later_is_another_one(store: treering.Store, folder: Path) -> None:
    """Names of devices are given again."""
    use(store, "a", ONE, folder)
    written = json.loads(next(folder.iterdir()).read_text())["sessions"][0]["time_ms"]
    assert last(store, Terminal(name="pts-1", host="here", opened_ms=written), folder) == "a"
    later = Terminal(name="pts-1", host="here", opened_ms=written + 1)
    assert last(store, later, folder) is None
    use(store, "b", later, folder)
    assert len(json.loads(next(folder.iterdir()).read_text())["sessions"]) == 1


def test_project_and_folder(store: treering.Store, folder: Path, tmp_path: Path) -> None:
    """A terminal that worked on several things has a session of each; one that was moved is not found where it was."""
    use(store, "a", ONE, folder, project="p", cwd=str(tmp_path / "x"))
    use(store, "b", ONE, folder, project="q", cwd=str(tmp_path / "y"))
    assert last(store, ONE, folder, cwd=str(tmp_path / "x")) == "a"
    assert last(store, ONE, folder, project="q") == "b"
    assert last(store, ONE, folder, project="r") is None
    with store.session("b") as session:
        session.move(project="r")
    assert last(store, ONE, folder, project="q") is None
    assert last(store, ONE, folder) == "b"


def test_other_stores(store: treering.Store, folder: Path, tmp_path: Path) -> None:
    """A session of the same name elsewhere is another one; a namespace is seen from outside, and sees itself alone."""
    use(store, "a", ONE, folder)
    other = treering.open(tmp_path / "other")
    with other.session("a") as session:
        session.append("x")
    assert last(other, ONE, folder) is None
    inner = store.namespace("ann")
    with inner.session("b") as session:
        session.append("x")
        leave_breadcrumb(store, session, ONE, folder=folder)
    found = recent(store, ONE, folder=folder)
    assert found is not None
    assert (found.namespace, found.id) == (("ann",), "b")
    assert last(inner, ONE, folder) == "b"
    assert last(store.namespace("bob"), ONE, folder) is None
    inner.delete("b")
    assert last(inner, ONE, folder) is None
    assert last(store, ONE, folder) == "a"


def test_what_is_gone_is_passed_over(store: treering.Store, folder: Path) -> None:
    """The one before it is continued; damage is no absence."""
    use(store, "a", ONE, folder)
    use(store, "b", ONE, folder)
    with store.session("never") as session:
        leave_breadcrumb(store, session, ONE, folder=folder)
    store.delete("b")
    assert last(store, ONE, folder) == "a"
    for path in (Path(store.view("a").location) / "tail.jsonl", *Path(store.place.location, "latest").iterdir()):
        path.write_bytes(b"damage")
    with pytest.raises(treering.CorruptError):
        last(store, ONE, folder)


def test_few_are_remembered(store: treering.Store, folder: Path) -> None:
    """The oldest sessions of a terminal are dropped, and the terminals that were quiet the longest."""
    with store.session("s") as session:
        session.append("x")
        for number in range(SESSIONS_MAX + 2):
            for _ in range(2):  # the second time it is remembered already
                leave_breadcrumb(store, store.session(f"new-{number}"), ONE, folder=folder)
        (path,) = folder.iterdir()
        names = [each["session"] for each in json.loads(path.read_text())["sessions"]]
        assert names == [f"new-{number}" for number in range(SESSIONS_MAX + 1, 1, -1)]
        for number in range(TERMINALS_MAX):
            os.utime(path, (number, number))  # quiet for longer than those before it
            leave_breadcrumb(store, session, Terminal(name=f"tmux-%{number}", host="here"), folder=folder)
            assert path.exists() == (number < TERMINALS_MAX - 1)
    assert len(list(folder.iterdir())) == TERMINALS_MAX


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[]", b'{"host":"here","terminal":"pts-1","sessions":[{"store":1}]}']
)
def test_a_breadcrumb_is_a_hint(store: treering.Store, folder: Path, content: bytes) -> None:
    """A file that is none is as if it was missing; the next one replaces it."""
    use(store, "a", ONE, folder)
    (path,) = folder.iterdir()
    path.write_bytes(content)
    assert last(store, ONE, folder) is None
    use(store, "a", ONE, folder)
    assert last(store, ONE, folder) == "a"


def test_what_cannot_be_written_is_left_out(store: treering.Store, tmp_path: Path) -> None:
    """An agent runs on without a place to write to, and with a name that is no text."""
    occupied = tmp_path / "occupied"
    occupied.write_text("")
    assert not use(store, "a", ONE, occupied)
    assert last(store, ONE, occupied) is None
    assert not use(store, "\ud800", ONE, tmp_path / "terminals")
    assert list((tmp_path / "terminals").iterdir()) == [] if (tmp_path / "terminals").exists() else True


def test_only_the_user_can_read_it(store: treering.Store, folder: Path) -> None:
    """Names of sessions and folders are nobody else's business; nor are names that lead out of the folder."""
    use(store, "a", Terminal(name="wt-../../x", host="a/b"), folder)
    (path,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.is_file()


def test_a_store_in_memory_has_none(folder: Path) -> None:
    """It ends with the process; a breadcrumb would only push out others."""
    store = treering.open("memory://breadcrumbs")
    assert not use(store, "a", ONE, folder)
    assert last(store, ONE, folder) is None
    assert not folder.exists()


def test_awaited(store: treering.Store, folder: Path) -> None:
    """Asynchronous code says the same."""

    async def main() -> None:
        other = treering.aopen(store.place.location)
        async with other.session("a") as session:
            await session.append("x")
            assert leave_breadcrumb(other, session, ONE, folder=folder)
        with store.session("b", project="p") as blocking:
            blocking.append("x")
            leave_breadcrumb(store, blocking, ONE, folder=folder)
        assert last(store, ONE, folder) == "b"
        found = await arecent(other, ONE, folder=folder)
        assert found is not None
        assert found.id == "b"
        assert await arecent(other, ONE, folder=folder, project="q") is None
        await other.delete("b")
        found = await arecent(other, ONE, folder=folder)
        assert found is not None
        assert found.id == "a"

    asyncio.run(main())


def test_it_costs_the_store_nothing(tmp_path: Path, folder: Path) -> None:
    """A breadcrumb is no request; finding its session takes one round trip, and none if the terminal used none."""
    batches: list[treering.RequestBatch] = []
    store = treering.open(tmp_path / "store", observer=batches.append)
    with store.session("a", cwd="/x") as session:
        session.append("x")
        batches.clear()
        leave_breadcrumb(store, session, ONE, folder=folder)
        assert last(store, TWO, folder) is None
        assert last(store, ONE, folder, cwd="/y") is None
        assert batches == []
        assert last(store, ONE, folder, cwd="/x") == "a"
        assert [len(batch.requests) for batch in batches] == [2]


@pytest.mark.s3
def test_two_computers_and_a_bucket(moto: S3Server, folder: Path) -> None:
    """Each has a terminal of the name, with a session of its own in the bucket."""
    store = treering.open(f"s3://{moto.bucket}/breadcrumbs", storage_options=moto.storage_options)
    there = Terminal(name="pts-1", host="there")
    assert use(store, "a", ONE, folder)
    assert use(store, "b", there, folder)
    assert (last(store, ONE, folder), last(store, there, folder)) == ("a", "b")
    assert not any("terminal" in key or "pts" in key for key in moto.objects("breadcrumbs"))


SAY = """
import os, sys
from treering.terminals import this_terminal
found = this_terminal(os.environ)
os.write(int(sys.argv[1]), b"" if found is None else f"{found.name} {found.opened_ms}".encode())
"""


def said(environ: dict[str, str], **streams: int) -> str:
    """What a process says of its terminal."""
    read, write = os.pipe()
    plain = {"PYTHONPATH": str(Path(treering.__file__).parents[1]), **environ}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-c", SAY, str(write)]
    subprocess.run(command, env=plain, pass_fds=[write], check=True, **{**quiet, **streams})  # type: ignore[call-overload]
    os.close(write)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_terminal_is_named_by_its_device(stream: str) -> None:
    """Whichever of the three streams is one; on Linux it is known since when."""
    outer, inner = pty.openpty()
    try:
        os.write(inner, b"what is written there changes nothing")
        name, opened_ms = said({"KITTY_WINDOW_ID": "7"}, **{stream: inner}).split(" ")
        device = os.ttyname(inner)
        assert f"/dev/{name.replace('-', '/')}" == device
        assert int(opened_ms) == (os.stat(device).st_ctime_ns // 1_000_000 if sys.platform == "linux" else 0)
    finally:
        os.close(outer)
        os.close(inner)


def test_a_terminal_is_named_by_the_environment() -> None:
    """Where no stream is a terminal, as below an agent; the innermost says so first."""
    assert said({"KITTY_WINDOW_ID": "7", "TMUX_PANE": "%3"}) == "tmux-%3 0"
    assert said({"ZELLIJ_PANE_ID": "2", "ZELLIJ_SESSION_NAME": "a/b", "TMUX_PANE": "%3"}) == "zellij-a-b-2 0"
    assert said({}) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only there a device tells when it was opened")
def test_a_device_that_is_given_again_is_another_terminal(
    store: treering.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was used at it before belongs to the terminal that is closed."""

    def terminal(descriptor: int) -> Terminal:
        with os.fdopen(os.dup(descriptor)) as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            found = this_terminal({})
        assert found is not None
        return found

    outer, inner = pty.openpty()
    first = terminal(inner)
    use(store, "a", first, folder)
    assert last(store, terminal(inner), folder) == "a"
    used_ms = json.loads(next(folder.iterdir()).read_text())["sessions"][0]["time_ms"]
    os.close(inner)
    os.close(outer)
    for _ in range(5_000):  # until the clock of devices ticks, unless another process has the name now
        outer, inner = pty.openpty()
        again = terminal(inner)
        os.close(inner)
        os.close(outer)
        if again.name == first.name and again.opened_ms > used_ms:
            break
    else:
        pytest.skip("another process was given the name")
    assert last(store, again, folder) is None
