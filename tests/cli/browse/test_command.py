"""The command itself, on a real terminal and without one."""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest
from tests.cli.conftest import Recorded, environment

START = """
import sys
{prelude}
from treering.cli import main
try:
    main()
finally:
    print(*sorted({{name.partition(".")[0] for name in sys.modules}} & {{"textual", "asyncio", "sqlite3"}}))
"""


def treering_after(prelude: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line behind some lines of Python; its last line of output names heavy modules it loaded."""
    code = START.format(prelude=prelude)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=60)


def test_other_commands_load_no_textual(recorded: Recorded) -> None:
    """Neither the help page nor a list waits for it."""
    for arguments in (["browse", "--help"], ["--store", recorded.program.store, "ls"]):
        done = treering_after("", *arguments)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, ""), done


def test_without_textual_it_says_what_to_install(recorded: Recorded) -> None:
    """Whoever has a terminal and no Textual is told the extra."""
    prelude = (
        "sys.modules['textual'] = None\nimport treering.cli.browsing\ntreering.cli.browsing._on_terminal = lambda: True"
    )
    done = treering_after(prelude, "--store", recorded.program.store, "browse")
    assert done.returncode == 2
    assert "browsing needs Textual; pip install 'treering[browse]'" in done.stderr


@pytest.mark.parametrize(("arguments", "command"), [((), ("ls",)), (("tea",), ("log", "tea"))])
def test_without_a_terminal_it_prints(recorded: Recorded, arguments: tuple[str, ...], command: tuple[str, ...]) -> None:
    """What the command for a pipe prints, and that it does."""
    done = recorded.program("browse", *arguments)
    assert done.out == recorded.program(*command).out
    assert f"no terminal to browse on, so this is what `treering {command[0]}` prints" in done.err


def test_an_unknown_session_is_refused_before_the_screen_is_taken(recorded: Recorded) -> None:
    """With the nearest names, as everywhere."""
    done = recorded.program.on_terminal("browse", "tee")
    assert done.code == 3
    assert "there is no session 'tee'" in done.out
    assert "\x1b[?1049h" not in done.out


class Terminal:
    """A terminal with a program on it."""

    def __init__(self, *arguments: str) -> None:
        self.master, self.slave = pty.openpty()
        ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        variables = {
            name: value for name, value in environment().items() if name not in ("COLUMNS", "NO_COLOR", "LINES")
        }
        self.process = subprocess.Popen(
            arguments,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**variables, "TERM": "xterm-256color"},
        )
        self.out = ""

    def read_until(self, text: str) -> None:
        """Read until some text was drawn."""
        while text not in re.sub(r"\x1b\[[0-9;:?<>=]*[a-zA-Z]", "", self.out):
            ready, _, _ = select.select([self.master], [], [], 60)
            assert ready, self.out
            self.out += os.read(self.master, 65536).decode(errors="replace")

    def close(self) -> int:
        """Wait for the program to end, and read what it drew last."""
        while self.process.poll() is None or select.select([self.master], [], [], 0)[0]:
            if select.select([self.master], [], [], 0.1)[0]:
                self.out += os.read(self.master, 65536).decode(errors="replace")
        return self.process.returncode


def test_a_real_terminal_is_left_as_it_was(recorded: Recorded, tmp_path: Path) -> None:
    """The list is shown and q leaves: the screen before is back, echo is on, the cursor shows, the mouse is free."""
    terminal = Terminal(*recorded.program.command("browse", "--all"))
    try:
        terminal.read_until("Too much tea")
        assert termios.tcgetattr(terminal.slave) != terminal.before  # keys are read one by one
        os.write(terminal.master, b"\x19")  # ctrl+y: what was copied is printed behind the screen
        terminal.read_until("take it")
        os.write(terminal.master, b"\r")
        terminal.read_until("copied, and")
        os.write(terminal.master, b"q")
        assert terminal.close() == 0
        assert termios.tcgetattr(terminal.slave) == terminal.before
        for taken, given in (("?1049h", "?1049l"), ("?25l", "?25h"), ("?1000h", "?1000l"), ("?2004h", "?2004l")):
            assert terminal.out.rfind(f"\x1b[{given}") > terminal.out.rfind(f"\x1b[{taken}") >= 0
        assert terminal.out.rpartition("\x1b[?1049l")[2].rstrip().endswith("tea")
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.master)
        os.close(terminal.slave)
