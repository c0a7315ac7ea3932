"""A writer of an answer that is killed in the middle of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import treering
from treering.journal import stream

stream.TTL_MS = 300  # readers wait so long for a sign of life; 15 seconds by default
session = treering.open(sys.argv[1]).session(sys.argv[2], shared=True)
answer = session.stream()
answer.thinking("They want to know the way.", signature="x")
answer.write(sys.argv[3])
answer.flush()
print(answer.id, flush=True)
sys.stdin.read()
"""


def killed_writer(store: Path, session: str, text: str) -> str:
    """Begin an answer in another process, kill that process, and return the id of the answer."""
    command = [sys.executable, "-c", PROGRAM, str(store), session, text]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stream = process.stdout.readline().strip()
        process.kill()
    assert stream
    return stream
