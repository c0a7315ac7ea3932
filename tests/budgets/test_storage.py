"""What a session takes: the zstd of its text and a little for each node and checkpoint, `latest` aside."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import zstandard
from tests.budgets.texts import texts
from tests.session.backends import Backend, memory_backend

from treering.format.segment import FRAME_BYTES

MESSAGES, CONTEXT = 1000, 40
BYTES_MEAN = 2260
NODE_BYTES, CHECKPOINT_BYTES = 64, 80


def record(backend: Backend, said: list[str]) -> int:
    """Record messages with a checkpoint every two and a windowed context; return the size of full snapshots."""
    snapshots = 0
    with backend.store().session("s") as session:
        for place in range(0, len(said), 2):
            pair = [{"role": role, "content": said[place + at]} for at, role in enumerate(("user", "assistant"))]
            session.commit(pair, context=session.context[-(CONTEXT - 2) :], state={"step": place})
            shown = [item.message for item in session.context]
            assert len(shown) == min(CONTEXT, place + 2)
            snapshots += len(json.dumps([shown, dict(session.state)]).encode())
        session.seal()
        session.append("drops what is sealed")
        session.optimize(everything=True)
    return snapshots


def segment_bytes(backend: Backend) -> int:
    """What all segments take."""
    return sum(len(data) for key, data in backend.snapshot().items() if "/segments/" in key)


def compressed(said: list[str]) -> int:
    """What the messages alone take in the frames of segments, which are 1 MiB so that one can be read by itself."""
    lines = "\n".join(json.dumps({"role": "user", "content": text}) for text in said).encode()
    return sum(len(zstandard.compress(lines[at : at + FRAME_BYTES], 3)) for at in range(0, len(lines), FRAME_BYTES))


def allowed(said: list[str]) -> float:
    """What nodes and checkpoints may take; the promise is "about", which is a tenth."""
    return compressed(said) + 1.1 * (NODE_BYTES * len(said) + CHECKPOINT_BYTES * len(said) // 2)


def test_a_thousand_messages_with_a_checkpoint_every_two() -> None:
    """2.26 MB of text take at most 0.60 MB in segments, 50 times less than full snapshots of the same contexts."""
    said = texts(MESSAGES, BYTES_MEAN)
    text_bytes = sum(len(text) for text in said)
    assert 2_000_000 < text_bytes < 2_600_000
    backend = memory_backend()
    snapshots = record(backend, said)
    taken = segment_bytes(backend)
    assert taken <= 600_000
    assert snapshots >= 50 * taken
    assert taken <= compressed(said) + NODE_BYTES * len(said) + CHECKPOINT_BYTES * len(said) // 2


def test_a_real_session_takes_the_zstd_of_its_text(shared: Path) -> None:
    """The texts of a real session, too, take their zstd and a little more for each node and checkpoint."""
    lines = gzip.decompress((shared / "golden/fixtures/large-session.jsonl.gz").read_bytes()).splitlines()
    said = [json.dumps(entry["message"]) for line in lines if (entry := json.loads(line)).get("message")]
    said = said[: len(said) // 2 * 2]
    backend = memory_backend()
    snapshots = record(backend, said)
    taken = segment_bytes(backend)
    assert taken <= allowed(said)
    assert snapshots >= 50 * taken


def test_a_list_that_grows_in_the_state_is_stored_about_once() -> None:
    """500 documents, one more each turn: 1.2 times their zstd, and 100 times less than whole lists."""
    said = texts(500, BYTES_MEAN)
    backend = memory_backend()
    whole = 0
    with backend.store().session("s") as session:
        documents: list[object] = []
        for place, text in enumerate(said):
            documents.append({"id": place, "text": text})
            session.commit(state={"documents": documents})
            whole += len(json.dumps(documents))
        session.seal()
        session.append("drops what is sealed")
        session.optimize(everything=True)
    taken = segment_bytes(backend)
    assert taken <= 1.2 * compressed(said) + 2 * NODE_BYTES * len(said)
    assert whole >= 100 * taken
