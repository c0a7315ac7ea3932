"""Sessions to measure with: the same on every run with one version of Python.

Texts are pieces of source code, from a working set of files that drifts. Sessions of coding agents are like that: files
are read, quoted and written again and again, and a whole session compresses about six times (zstd, level 3).
"""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from treering import Draft, Store, assistant, tool, user
from treering.session.place import Place
from treering.storage.local import LocalDriver
from treering.storage.local_disk import Sync

FILES = 30  # looked at during one stretch of work
DRIFT = 0.08  # how often one of them is exchanged for another
FILE_BYTES = range(20_000, 200_000)
SUMMARY = "What was done so far, in a few words."


def texts(count: int, bytes_mean: int, *, seed: int = 7) -> Iterator[str]:
    """Yield `count` texts of `bytes_mean` bytes on average: most are short, some are many times as long."""
    rng = random.Random(seed)
    sources = _sources()
    at_hand = rng.sample(sources, FILES)
    for _ in range(count):
        if rng.random() < DRIFT:
            at_hand[rng.randrange(FILES)] = rng.choice(sources)
        length = max(20, min(int(rng.expovariate(1 / bytes_mean)), 8 * bytes_mean))
        yield _piece(rng, rng.choice(at_hand), length)


def even_texts(count: int, length: int, *, seed: int = 7) -> list[str]:
    """Return texts of `length` bytes each."""
    rng = random.Random(seed)
    sources = _sources()
    return [_piece(rng, rng.choice(sources), length) for _ in range(count)]


def _sources() -> list[str]:
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return [path.read_text("ascii", "replace") for path in paths if path.stat().st_size in FILE_BYTES]


def _piece(rng: random.Random, source: str, length: int) -> str:
    start = rng.randrange(len(source) - min(length, len(source)) + 1)
    return source[start : start + length]


def turns(count: int, bytes_mean: int, *, seed: int = 7) -> Iterator[Draft]:
    """Yield `count` messages: a user's, then an assistant's and a tool's in turn, then another user's."""
    for number, text in enumerate(texts(count, bytes_mean, seed=seed)):
        if number % 20 == 0:
            yield user(text)
        elif number % 2:
            yield assistant(text)
        else:
            yield tool(text, call=f"call-{number}")


def unsynced_store(folder: Path) -> Store:
    """Return a store that does not wait for the disk: to measure our own work, and to prepare sessions quickly."""
    return Store(Place(LocalDriver(folder, sync=Sync(_nothing, _nothing))))


def _nothing(_fd: int) -> None:
    return
