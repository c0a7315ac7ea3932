"""Sessions to measure with: the same on every run with one version of Python.

Texts are pieces of source code, from a working set of files that drifts. Sessions of coding agents are like that: files
are read, quoted and written again and again, and a whole session compresses about six times (zstd, level 3).

However long a session is, it ends with the same `WINDOW` messages. So whoever resumes has the same to restore at every
length, and what a length costs is seen by itself.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

Message = dict[str, Any]
"""A role and a content: a text, or a list of parts (texts and images)."""

WINDOW = 10
"""Messages that the model sees, in all tasks that do not say otherwise."""
BYTES_MEAN = 2_260  # of a message as JSON, as in the sessions that were looked at

FILES = 30  # looked at during one stretch of work
DRIFT = 0.08  # how often one of them is exchanged for another
FILE_BYTES = range(20_000, 200_000)
IMAGE_EVERY = 400  # tool results
IMAGE_BYTES = 40_000


def session(count: int, *, images: bool = True, window: int = WINDOW) -> Iterator[Message]:
    """Yield the `count` messages of a session; the last `window` are those of every session."""
    yield from _turns(max(0, count - window), images=images)
    yield from list(_turns(window, images=False, seed=11))[-count:]


def closing(window: int = WINDOW) -> list[Message]:
    """Return the messages that every session ends with."""
    return list(session(window, window=window))


def real_session() -> list[Message] | None:
    """Return the messages of a real coding agent's session; None where the folder of shared data is missing."""
    named = os.environ.get("TREERING_SHARED")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared"
    file = folder / "golden/fixtures/large-session.jsonl.gz"
    if not file.exists():
        return None
    entries = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
    return [_shown(entry["message"]) for entry in entries if entry.get("message")]


def _shown(message: Message) -> Message:
    role = {"user": "user", "assistant": "assistant"}.get(message["role"], "tool")
    return {"role": role, "content": json.dumps(message["content"], ensure_ascii=False)}


def text(message: Message) -> str:
    """Return all the text of a message."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def even_texts(count: int, length: int, *, seed: int = 7) -> list[str]:
    """Return texts of `length` bytes each."""
    rng = random.Random(seed)
    return [_piece(rng, rng.choice(_sources()), length) for _ in range(count)]


def _turns(count: int, *, images: bool, seed: int = 7) -> Iterator[Message]:
    rng = random.Random(seed)
    for number, said in enumerate(_texts(rng, count)):
        role = "user" if number % 20 == 0 else "assistant" if number % 2 else "tool"
        if images and number % IMAGE_EVERY == IMAGE_EVERY - 2:
            yield {"role": role, "content": [{"type": "text", "text": said}, _image(rng)]}
        else:
            yield {"role": role, "content": said}


def _texts(rng: random.Random, count: int) -> Iterator[str]:
    at_hand = rng.sample(_sources(), FILES)
    for _ in range(count):
        if rng.random() < DRIFT:
            at_hand[rng.randrange(FILES)] = rng.choice(_sources())
        # Most messages are short, some are many times as long.
        length = max(20, min(int(rng.expovariate(1 / BYTES_MEAN)), 8 * BYTES_MEAN))
        yield _piece(rng, rng.choice(at_hand), length)


def _image(rng: random.Random) -> dict[str, str]:
    data = b"\x89PNG\r\n\x1a\n" + rng.randbytes(IMAGE_BYTES)
    return {"type": "image", "mimeType": "image/png", "data": base64.b64encode(data).decode()}


@cache
def _sources() -> list[str]:
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return [path.read_text("ascii", "replace") for path in paths if path.stat().st_size in FILE_BYTES]


def _piece(rng: random.Random, source: str, length: int) -> str:
    start = rng.randrange(len(source) - min(length, len(source)) + 1)
    return source[start : start + length]
