"""A terminal, and the name by which a process that comes later knows it again.

Rule 1: the name is that of the terminal's device, else what a multiplexer or a terminal program says in the
        environment, the innermost first.
Rule 2: names are given again. A device is made when its terminal is opened, so what happened before that happened in
        another terminal; on Linux its change time tells when. What the environment says has no such time.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

_DEVICES: Final = "/dev/"
_VARIABLES: Final = {
    "TMUX_PANE": "tmux",
    "CMUX_SURFACE_ID": "cmux",
    "KITTY_WINDOW_ID": "kitty",
    "WEZTERM_PANE": "wezterm",
    "TERM_SESSION_ID": "apple",
    "WT_SESSION": "wt",
}
"""Variables that name a terminal, the innermost first, and what is put before their value."""
_NS_PER_MS: Final = 1_000_000


class Terminal(msgspec.Struct, frozen=True, kw_only=True):
    """A terminal of this computer."""

    name: str
    host: str
    """Name of the computer: a home may be shared by several, and each has a `pts-0`."""
    opened_ms: int = 0
    """When it was opened, in milliseconds since 1970; 0 if that is not known."""


def this_terminal(environ: Mapping[str, str]) -> Terminal | None:
    """Return the terminal that this process runs in; None if there is none, or it has no name.

    Args:
        environ: The environment, `os.environ`; it counts if none of the standard streams is a terminal.
    """
    device = _device()
    name = terminal_name(environ, device)
    if name is None:
        return None
    return Terminal(name=name, host=platform.node(), opened_ms=_opened_ms(device) if device is not None else 0)


def terminal_name(environ: Mapping[str, str], tty: str | None) -> str | None:
    """Return the name of a terminal; None if it is not known.

    Args:
        environ: The environment.
        tty: Path of the terminal's device, for example `/dev/pts/3`; None if there is none.
    """
    if tty and tty.startswith(_DEVICES):
        return tty.removeprefix(_DEVICES).replace("/", "-")
    if pane := environ.get("ZELLIJ_PANE_ID"):
        session = environ.get("ZELLIJ_SESSION_NAME", "").replace("/", "-").replace("\\", "-")
        return "-".join(["zellij", *([session] if session else []), pane])
    return next((f"{word}-{environ[name]}" for name, word in _VARIABLES.items() if environ.get(name)), None)


def _device() -> str | None:
    """The device of the first standard stream that is a terminal."""
    if sys.platform == "win32":
        return None
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:  # a program without a console
            continue
        with suppress(OSError, ValueError):  # it has no descriptor, its device is outside this container, it is closed
            if stream.isatty():
                return os.ttyname(stream.fileno())
    return None


def _opened_ms(device: str) -> int:
    """When a terminal was opened; 0 if that is not known. On Linux reading and writing there sets its other times."""
    if sys.platform != "linux":
        return 0
    try:
        return os.stat(device).st_ctime_ns // _NS_PER_MS
    except OSError:
        return 0
