"""The places of oh-my-pi's sessions."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from treering.programs.common.filing import Filed, dashed, stamped
from treering.programs.omp.blobs import FOLDER, find_folder
from treering.programs.omp.breadcrumbs import Breadcrumb, find_breadcrumbs, terminal_breadcrumb
from treering.programs.pi import locate as pi

_PROFILE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


find = pi.find


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders in which oh-my-pi keeps a user's sessions, of all profiles."""
    root, shared = _root(home, environ), _xdg(environ, "DATA")
    profiles = [*root.glob("profiles/*/agent"), *(shared.glob("profiles/*") if shared is not None else ())]
    agents = [agent_folder(home, environ), root / "agent", *sorted(profiles)]
    return [agent / "sessions" for agent in dict.fromkeys(agents)]


def agent_folder(home: Path, environ: Mapping[str, str], kind: str = "DATA") -> Path:
    """Return the folder with sessions and blobs; for the kind `STATE`, the folder with breadcrumbs.

    They are the same, unless a folder for oh-my-pi exists below `XDG_DATA_HOME` or `XDG_STATE_HOME`.
    """
    profile = _profile(environ)
    below = ("profiles", profile) if profile else ()
    default = _root(home, environ).joinpath(*below, "agent")
    named = "" if profile else environ.get("PI_CODING_AGENT_DIR")
    if named and Path(named).expanduser() != default:
        return Path(named).expanduser()
    shared = _xdg(environ, kind)
    moved = shared.joinpath(*below) if shared is not None else default
    return moved if moved.exists() else default


def _root(home: Path, environ: Mapping[str, str]) -> Path:
    return home / (environ.get("PI_CONFIG_DIR") or ".omp")


def _xdg(environ: Mapping[str, str], kind: str) -> Path | None:
    base = environ.get(f"XDG_{kind}_HOME")
    return Path(base, "omp") if base else None


def _profile(environ: Mapping[str, str]) -> str:
    """Return the profile in use; empty for the default profile, which oh-my-pi also uses for an invalid name."""
    name = environ.get("OMP_PROFILE", environ.get("PI_PROFILE", "")).strip()
    return name if _PROFILE.fullmatch(name) and name != "default" and not name.endswith(".") else ""


def blobs_folder(file: Path) -> Path:
    """Return the folder with a session file's blobs: the nearest above it, else one next to it, which may not exist."""
    return find_folder(file) or file.parent / FOLDER


def breadcrumbs(home: Path, environ: Mapping[str, str]) -> list[Breadcrumb]:
    """Return the breadcrumbs of oh-my-pi's terminals, the newest first."""
    return find_breadcrumbs(agent_folder(home, environ, "STATE"))


def breadcrumb(home: Path, environ: Mapping[str, str], tty: str | None) -> Breadcrumb | None:
    """Return the breadcrumb of this terminal; None if it has none."""
    return terminal_breadcrumb(agent_folder(home, environ, "STATE"), environ, tty)


def place(filed: Filed, home: Path, environ: Mapping[str, str]) -> Path:
    """Return the file in which oh-my-pi would keep a session; names of folders below home are shorter."""
    return agent_folder(home, environ) / "sessions" / _folder_of(filed.cwd, home) / stamped(filed)


def _folder_of(cwd: str, home: Path) -> str:
    real = os.path.realpath(cwd)
    for prefix, root in (("-", os.path.realpath(home)), ("-tmp", os.path.realpath(tempfile.gettempdir()))):
        relative = os.path.relpath(real, root)
        if relative == ".":
            return prefix
        if not relative.startswith(".."):
            return f"{prefix if prefix.endswith('-') else f'{prefix}-'}{dashed(relative)}"
    return f"--{dashed(real.lstrip('/'))}--"
