"""Read changed bytes with every decoder: `python -m tests.fuzz [SECONDS]`.

What breaks a promise is kept in `corpus/`, where the suite tries it again for ever.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time

from tests.fuzz.changes import changed
from tests.fuzz.decoders import DECODERS
from tests.fuzz.limits import CORPUS, broken_promise, kept

SECONDS = 90


def main() -> int:
    """Fuzz all decoders in turn; return how many of them broke a promise."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    bad = 0
    for name, decoder in DECODERS.items():
        rng = random.Random(f"{seed} {name}")
        seeds = decoder.seeds() + kept(name)
        end, tried = time.monotonic() + seconds / len(DECODERS), 0
        while time.monotonic() < end:
            data = changed(rng, seeds)
            tried += 1
            if broken := broken_promise(decoder, data):
                bad += 1
                folder = CORPUS / name.replace(" ", "-")
                folder.mkdir(parents=True, exist_ok=True)
                (folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
                print(f"{name}: {broken}")
                break
        print(f"{name}: {tried:,} inputs")
    return bad


if __name__ == "__main__":
    sys.exit(bool(main()))
