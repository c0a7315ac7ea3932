"""Text like that of real sessions: pieces of source code from a working set of files that drifts.

Real sessions of coding agents compress 6.5 to 7.4 times (zstd 3, whole file), since files are read, quoted and written
again and again. These texts compress about as well, a little less.
"""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

FILES = 24  # looked at during one stretch of work
DRIFT = 0.06  # how often one of them is exchanged for another


def texts(count: int, bytes_mean: int, *, seed: int = 7) -> list[str]:
    """Return `count` texts of `bytes_mean` bytes on average, the same on every run."""
    rng = random.Random(seed)
    pieces = _pieces(rng)
    return [_text(rng, next(pieces), bytes_mean) for _ in range(count)]


def _pieces(rng: random.Random) -> Iterator[str]:
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    files = [_read(path) for path in sources if 20_000 < path.stat().st_size < 200_000]
    at_hand = rng.sample(files, FILES)
    while True:
        if rng.random() < DRIFT:
            at_hand[rng.randrange(FILES)] = rng.choice(files)
        yield rng.choice(at_hand)


def _read(path: Path) -> str:
    return path.read_text("ascii", "replace")


def _text(rng: random.Random, source: str, bytes_mean: int) -> str:
    length = max(20, min(int(rng.expovariate(1 / bytes_mean)), 8 * bytes_mean))
    start = rng.randrange(max(1, len(source) - length))
    start = source.rfind("\n", 0, start) + 1
    return source[start : start + length]
