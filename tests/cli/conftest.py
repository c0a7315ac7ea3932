"""A store with a session in it, and ways to run the command line on it: in this process, in another, on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import treering
from treering.cli import main

TERMINAL_VARIABLES = (
    "CMUX_SURFACE_ID", "KITTY_WINDOW_ID", "TERM_SESSION_ID", "TMUX_PANE", "WEZTERM_PANE", "WT_SESSION", "ZELLIJ_PANE_ID"
)  # fmt: skip
SOURCES = str(Path(treering.__file__).parents[1])


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """Lines and fields of what a pipe gets."""
        return [line.split("\t") for line in self.out.splitlines()]


class Program:
    """Runs `treering` on one store."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def __call__(self, *arguments: object, stdin: str = "", code: int | None = 0) -> Done:
        """Run a command in this process; it must end with `code` unless that is None."""
        result = CliRunner().invoke(main, ["--store", str(self.store), *map(str, arguments)], input=stdin)
        done = Done(result.exit_code, result.stdout, result.stderr)
        assert code is None or done.code == code, done
        return done

    def json(self, *arguments: object) -> Any:
        return self(*arguments, "--json").json

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "treering", "--store", str(self.store), *map(str, arguments)]

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[bytes]:
        """Start a command in a process of its own."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(self.command(*arguments), env=environment(), **options)

    def process(self, *arguments: object, **options: Any) -> Done:
        """Run a command in a process of its own to its end."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=60)
        return Done(process.returncode, (out or b"").decode(), err.decode())

    def on_terminal(self, *arguments: object, answer: str = "", columns: int = 100) -> Done:
        """Run a command on a terminal; `out` holds what the terminal got, standard error included."""
        terminal, other = pty.openpty()
        ioctl(other, TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        plain = {name: value for name, value in environment().items() if name not in ("COLUMNS", "NO_COLOR")}
        process = subprocess.Popen(
            self.command(*arguments), stdin=other, stdout=other, stderr=other, env={**plain, "TERM": "xterm-256color"}
        )
        os.close(other)
        os.write(terminal, answer.encode())
        out = _read_all(terminal)
        return Done(process.wait(timeout=60), out.decode(), "")


def _read_all(terminal: int) -> bytes:
    out = b""
    try:
        while select.select([terminal], [], [], 60)[0] and (part := os.read(terminal, 65536)):
            out += part
    except OSError:  # Linux says EIO when the last process has left the terminal
        pass
    os.close(terminal)
    return out


def environment() -> dict[str, str]:
    """Ours, with the sources in reach and without a store of the user's."""
    inherited = {name: value for name, value in os.environ.items() if name != "TREERING_STORE"}
    return {**inherited, "PYTHONPATH": SOURCES, "PAGER": "cat"}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without sessions of other programs: `continue` would find those of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("PI_CODING_AGENT_DIR", "PI_CONFIG_DIR", "EVVA_HOME", "XDG_STATE_HOME", *TERMINAL_VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The command line on a store that does not exist yet."""
    return Program(tmp_path / "store")


class Recorded(NamedTuple):
    """A session with two branches, labels and checkpoints, as it was recorded."""

    program: Program
    store: treering.Store
    question: str
    answer: str
    again: str
    """A second question, from which the branches part."""
    first: str
    """The end of the first branch."""
    second: str
    """The end of the branch `other`, where the session stands."""
    green: str
    """A checkpoint labelled `green`, made at `answer`."""


@pytest.fixture
def recorded(program: Program, tmp_path: Path) -> Recorded:
    """A session named `tea` in the program's store."""
    store = treering.open(program.store)
    with store.session("tea", title="Too much tea", project="shop", cwd=str(tmp_path)) as session:
        question = session.append(treering.user("why is the total wrong?")).node
        done = session.commit(
            [treering.assistant("it rounds twice")], state={"step": 1, "plan": ["look"]}, label="green"
        )
        again = session.append(treering.user("fix it")).node
        first = session.append(
            treering.assistant([{"type": "tool_use", "name": "edit", "input": {"path": "a.py"}}])
        ).node
        session.label(again, "turning point")
        session.record_usage(input=100, output=20)
        session.set_model("some-model", provider="someone")
        session.branch("other", node=again, summary="the edit went wrong")
        second = session.commit([treering.assistant("another way")], state={"step": 2}, drop=["plan"]).nodes[-1]
        assert done.checkpoint is not None
        return Recorded(program, store, question, done.nodes[-1], again, first, second, done.checkpoint)
