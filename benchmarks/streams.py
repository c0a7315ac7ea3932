"""Write many answers at once, a piece at a time, while another process follows all of them; every character is counted.

    python -m benchmarks.streams --streams 200 --rate 20 --seconds 10 FOLDER

It prints how late pieces were shown, and what both processes took of the processor. Nothing is asserted but that each
reader got each character once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import treering

POLL_SECONDS = 0.2


def write(folder: str, streams: int, rate: float, seconds: float) -> dict[str, float]:
    """Write all answers; each piece says when it was written."""
    store = treering.open(folder)
    sessions = [store.session(f"s{number}", shared=True) for number in range(streams)]
    for session in sessions:
        session.append("hello?")
    answers = [session.stream() for session in sessions]
    print(json.dumps([answer.id for answer in answers]), flush=True)
    sys.stdin.readline()  # the reader is there
    used, began = _used(), time.monotonic()
    count = int(rate * seconds)
    for piece in range(count):
        for answer in answers:
            answer.write(f"{time.monotonic():.3f} ")
        time.sleep(max(0.0, began + (piece + 1) / rate - time.monotonic()))
    wrote = time.monotonic() - began
    processor = _used() - used
    for answer in answers:
        answer.finish()
    for session in sessions:
        session.close()
    return {"pieces a second": streams * count / wrote, "processor": processor / wrote}


async def read(folder: str, ids: Sequence[str]) -> tuple[list[str], dict[str, float]]:
    """Follow all answers to their ends; return their texts, and how late they were shown."""
    store = treering.aopen(folder)
    lags: list[float] = []

    async def follow(number: int, stream: str) -> str:
        view = await store.view(f"s{number}")
        text = ""
        async for piece in view.follow_stream(stream, poll_seconds=POLL_SECONDS):
            text += piece.text
            now = time.monotonic()
            lags.extend(now - float(each) for each in piece.text.split() if len(each) > 4)
        assert piece.status == treering.StreamStatus.COMPLETE
        return text

    used, began = _used(), time.monotonic()
    texts = await asyncio.gather(*(follow(number, stream) for number, stream in enumerate(ids)))
    processor = (_used() - used) / (time.monotonic() - began)
    lags.sort()
    median, late = lags[len(lags) // 2], lags[len(lags) * 99 // 100]
    return texts, {"median lag, s": median, "99 % lag, s": late, "processor": processor}


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Run both; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        told = write(options.folder, options.streams, options.rate, options.seconds)
        print(json.dumps(told), flush=True)
        return 0
    arguments = [f"--streams={options.streams}", f"--rate={options.rate}", f"--seconds={options.seconds}", "--write"]
    command = [sys.executable, "-m", "benchmarks.streams", options.folder, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        ids = json.loads(writer.stdout.readline())
        writer.stdin.write("\n")
        writer.stdin.flush()
        texts, read_by = asyncio.run(read(options.folder, ids))
        wrote = json.loads(writer.stdout.readline())
    store = treering.open(options.folder)
    for number, (stream, text) in enumerate(zip(ids, texts, strict=True)):
        assert store.view(f"s{number}").get(stream).payload["content"] == text, f"stream {number} differs"
    print("every character once:", sum(map(len, texts)), "in", len(texts), "streams")
    print("writer:", {name: round(value, 3) for name, value in wrote.items()})
    print("reader:", {name: round(value, 3) for name, value in read_by.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
