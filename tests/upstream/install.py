"""Installs the programs themselves: `python -m tests.upstream.install FOLDER`; npm must be there, and node 20 or newer.

Only what reads and writes sessions is run. The parts of pi 1.5 that draw a terminal or call a model are left out: it is
unpacked, and of its library for models it gets the two modules that the sessions need.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

WHOLE: Final = {
    "@anthropic-ai/claude-code": "2.1.330",
    "@mariozechner/pi-coding-agent": "0.73.1",
    "@oh-my-pi/pi-coding-agent": "18.2.3",
    "bun": "1.4.5",
    "cross-spawn": "7.0.6",
}
UNPACKED: Final = {"@earendil-works/pi-coding-agent": "1.5.2", "@earendil-works/pi-ai": "1.5.2"}
LIBRARY: Final = "@earendil-works/pi-ai"
MODULES: Final = ("transcript", "uuid")
_BINARIES: Final = {"bun": "@oven/bun-*/bin/bun", "claude": "@anthropic-ai/claude-code-*/claude"}
"""Programs that come with a package for each platform."""
DONE: Final = "installed"
"""A file that says which ones are there."""


def install(folder: Path) -> None:
    """Install all programs into a folder, unless they are there."""
    if is_installed(folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": WHOLE}))
    _npm(folder, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
    for name, version in UNPACKED.items():
        _unpack(folder, name, version)
    library = folder / "node_modules" / LIBRARY
    (library / "package.json").write_text(json.dumps({"name": LIBRARY, "type": "module", "exports": "./sessions.js"}))
    (library / "sessions.js").write_text("".join(f'export * from "./dist/utils/{name}.js";\n' for name in MODULES))
    (folder / DONE).write_text(json.dumps(WHOLE | UNPACKED))


def is_installed(folder: Path) -> bool:
    """Tell whether all programs are there, in these versions."""
    done = folder / DONE
    return done.exists() and done.read_text() == json.dumps(WHOLE | UNPACKED)


def runner(folder: Path, name: str) -> Path:
    """Return what runs a program: node runs pi, bun oh-my-pi, and Claude Code itself."""
    if name in _BINARIES:
        return next(iter(sorted((folder / "node_modules").glob(_BINARIES[name]))))
    return Path(shutil.which(name) or name)


def _unpack(folder: Path, name: str, version: str) -> None:
    packed = _npm(folder, "pack", "--silent", f"{name}@{version}").split()[-1]
    target = folder / "node_modules" / name
    shutil.rmtree(target, ignore_errors=True)
    (folder / "unpacked").mkdir(exist_ok=True)
    subprocess.run(["tar", "--extract", "--file", folder / packed, "--directory", folder / "unpacked"], check=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    (folder / "unpacked" / "package").rename(target)
    (folder / "unpacked").rmdir()
    (folder / packed).unlink()


def _npm(folder: Path, *command: str) -> str:
    return subprocess.run(["npm", *command], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    install(Path(sys.argv[1]).absolute())
