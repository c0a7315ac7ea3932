"""A terminal, and the name by which a later process recognises it.

Rule 1: the name is that of the terminal's device, else a name that a multiplexer or a terminal program sets in the
        environment, the innermost first.
Rule 2: names are reused. A device is made when its terminal is opened, so earlier events belong to another terminal; on
        Linux the device's change time shows when it was opened. Names from the environment have no such time.
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
"""Variables that name a terminal, the innermost first, with the prefix for their value."""
_NS_PER_MS: Final = 1_000_000


class Terminal(msgspec.Struct, frozen=True, kw_only=True):
    """A terminal of this computer."""

    name: str
    host: str
    """Name of the computer: several computers may share a home folder, and each has a `pts-0`."""
    opened_ms: int = 0
    """When it was opened, in milliseconds since 1970; 0 if that is not known."""


def this_terminal(environ: Mapping[str, str]) -> Terminal | None:
    """Return the terminal that this process runs in; None if there is none, or it has no name.

    Args:
        environ: The environment, `os.environ`; used if none of the standard streams is a terminal.
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
        with suppress(OSError, ValueError):  # it has no descriptor, is closed, or its device is outside this container
            if stream.isatty():
                return os.ttyname(stream.fileno())
    return None


def _opened_ms(device: str) -> int:
    """When a terminal was opened; 0 if that is not known. On Linux, reading and writing change only the other times."""
    if sys.platform != "linux":
        return 0
    try:
        return os.stat(device).st_ctime_ns // _NS_PER_MS
    except OSError:
        return 0
