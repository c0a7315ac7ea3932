"""The real programs, asked through `driver.mjs`; one process answers for many files."""

from __future__ import annotations

import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any, Final, Self

from tests.upstream.install import runner

DRIVER: Final = Path(__file__).with_name("driver.mjs")
SECONDS_MAX: Final = 5
RUNNERS: Final = {"pi073": "node", "pi152": "node", "omp": "bun"}


class Program:
    """One of the programs, running."""

    def __init__(self, name: str, folder: Path, home: Path) -> None:
        self.name = name
        self.blobs = home / "agent" / "blobs"
        self._command = [str(runner(folder, RUNNERS[name])), str(DRIVER), name, str(folder)]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PI_", "OMP_", "XDG_"))}
        self._environ = kept | {"HOME": str(home), "PI_CODING_AGENT_DIR": str(home / "agent"), "TZ": "UTC"}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def ask(self, do: str, **request: Any) -> Any:
        """Return the answer to a request; one that never comes is an error, and the program is started anew."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
        process.stdin.flush()
        parts: list[bytes] = []
        while not parts or not parts[-1].endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], SECONDS_MAX)
            part = os.read(process.stdout.fileno(), 1 << 20) if ready else b""
            if not part:
                self._stop()
                return {"error": "no answer"}
            parts.append(part)
        return json.loads(b"".join(parts))

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environ,
            )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
