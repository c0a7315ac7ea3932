"""What a session of 1,000 messages takes on disk with a checkpoint every two, against one snapshot for each checkpoint.

A snapshot is what many agents keep today: the context whole, as JSON. The context is the same on both sides: the last
40 messages, as conversation managers with a sliding window keep it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import zstandard

from benchmarks.measure import Table
from benchmarks.workload import turns, unsynced_store

MESSAGES = 1_000
MESSAGE_BYTES = 2_260
CHECKPOINTS = 500
CONTEXT_MAX = 40


def run(folder: Path, *, quick: bool) -> list[Table]:  # noqa: ARG001  # it is quick as it is
    """Record the session below `folder` and weigh what is there."""
    text = snapshots = snapshots_compressed = 0
    compressor = zstandard.ZstdCompressor(level=3)
    with unsynced_store(folder).session("storage") as session:
        messages = turns(MESSAGES, MESSAGE_BYTES)
        for step in range(CHECKPOINTS):
            turn = [next(messages), next(messages)]
            seen = [item.node for item in session.context][len(turn) - CONTEXT_MAX :]
            session.commit(turn, context=seen, state={"step": step})
            snapshot = msgspec.json.encode([item.message for item in session.context])
            text += sum(len(msgspec.json.encode(draft.payload)) for draft in turn)
            snapshots += len(snapshot)
            snapshots_compressed += len(compressor.compress(snapshot))
        session.seal()
        session.tidy(everything=True)
        session.set_status("done")  # an append drops what was sealed from the tail
    sizes = _sizes(folder)
    ours = sizes["segments"]
    rows = (
        ("text of the messages", *_compared(text, ours)),
        (f"{CHECKPOINTS} snapshots", *_compared(snapshots, ours)),
        (f"{CHECKPOINTS} snapshots, each compressed (zstd, level 3)", *_compared(snapshots_compressed, ours)),
        ("treering: segments", *_compared(ours, ours)),
        ("treering: `latest`, overwritten by each seal", *_compared(sizes["latest"], ours)),
        ("treering: tail", *_compared(sizes["tail"], ours)),
    )
    note = "Goals: segments of at most 0.65 MB, and at least 50 times less than the snapshots."
    title = f"{MESSAGES:,} messages with {CHECKPOINTS} checkpoints"
    return [Table(title, ("", "MB", "segments = 1"), rows, note)]


def _compared(size: int, ours: int) -> tuple[str, str]:
    return f"{size / 1e6:.3f}", f"{size / ours:.1f}"


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of the segments, of `latest` and of the tail below `folder`."""
    sizes = dict.fromkeys(("segments", "latest", "tail"), 0)
    for parent, _, files in os.walk(folder):
        for name in files:
            kind = "tail" if name.startswith("tail.") else os.path.basename(parent)
            if kind in sizes:
                sizes[kind] += os.path.getsize(os.path.join(parent, name))
    return sizes
