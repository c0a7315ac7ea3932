"""Writers of answers are killed with SIGKILL between pieces: what was stored is there, once and in order."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Self

import pytest
from tests.sampling import few
from tests.servers import S3Server, seaweedfs
from tests.storage.processes import start

import treering
from treering.api.store import Store
from treering.errors import StreamLostError

__all__ = ["seaweedfs"]

KILLS, KILLS_S3 = 6, few(1, whole=2)
PIECES = few(200, whole=1000)

WRITER = """
import json
import treering
url, options, stream, begin, count, ends = json.loads(sys.argv[1])
session = treering.open(url, storage_options=options).session("s", shared=True)
answer = session.continue_stream(stream) if stream else session.stream()
print(answer.id, answer.offset, flush=True)
for number in range(begin, begin + count):
    answer.write(f"{number} ")
    answer.flush()
    print(number, flush=True)
if ends:
    answer.finish()
"""
"""Writes numbers, and tells each one that is stored."""


class Place:
    """Where a session lies, opened as new processes would."""

    def __init__(self, url: str, options: dict[str, object] | None = None) -> None:
        self.url, self.options = url, options

    def open(self) -> Store:
        """The store."""
        return treering.open(self.url, storage_options=self.options)


class Writing:
    """A process that writes numbers, and tells each one that is stored.

    Args:
        place: Where.
        stream: What it goes on with; empty: it begins one.
        begin: The first number.
        count: How many.
        ends: It ends the answer then.
    """

    def __init__(self, place: Place, stream: str, begin: int, count: int, *, ends: bool = False) -> None:
        self._process = start(WRITER, json.dumps([place.url, place.options, stream, begin, count, ends]))
        first = self._line().split()
        assert first, "it could not begin"
        self.stream = first[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def hear(self) -> int:
        """The next number that is stored."""
        return int(self._line())

    def kill(self) -> list[int]:
        """End it here and now; return what it told before."""
        self._process.kill()
        return [int(line) for line in self._rest()]

    def wait(self) -> list[int]:
        """Wait for its end; return what it told before."""
        rest = [int(line) for line in self._rest()]
        assert self._process.wait() == 0
        return rest

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _rest(self) -> list[str]:
        assert self._process.stdout is not None
        return [line for line in self._process.stdout if line.endswith("\n")]


def numbers(text: str) -> list[int]:
    """The pieces of an answer."""
    return [int(each) for each in text.split()]


def kill_writers(place: Place, kills: int) -> None:
    """Kill writers of one answer, one after the other; each goes on where the one before stopped."""
    rng = random.Random(kills)
    with place.open().session("s", shared=True) as session:
        session.append("count!")
    stream, stored = "", -1
    for _ in range(kills):
        with Writing(place, stream, stored + 1, 200) as writing:
            stream = writing.stream
            heard = [writing.hear() for _ in range(rng.randrange(1, 30))]
            heard += writing.kill()
        (there,) = place.open().view("s").open_streams()
        found = numbers(there.text())
        assert found[: heard[-1] + 1] == list(range(heard[-1] + 1))
        assert found == list(range(len(found)))
        stored = found[-1]
    with Writing(place, stream, stored + 1, 5, ends=True) as writing:
        assert len(writing.wait()) == 5
    pieces = list(place.open().view("s").follow_stream(stream))
    assert numbers("".join(piece.text for piece in pieces)) == list(range(stored + 6))
    assert pieces[-1].status == "complete"
    assert place.open().verify("s") == []


def test_killed_writers_on_a_disk(tmp_path: Path) -> None:
    """What was flushed survives kill -9, and the answer is whole in the end."""
    kill_writers(Place(str(tmp_path / "store")), KILLS)


@pytest.mark.s3
@pytest.mark.slow
def test_killed_writers_at_a_server(seaweedfs: S3Server) -> None:
    """So it does on S3."""
    place = Place(f"s3://{seaweedfs.bucket}/streams-{os.urandom(6).hex()}", dict(seaweedfs.storage_options))
    kill_writers(place, KILLS_S3)


@pytest.mark.s3
def test_a_fenced_writer_at_a_server(seaweedfs: S3Server) -> None:
    """A second computer goes on, and the first is told, whatever it writes."""
    place = Place(f"s3://{seaweedfs.bucket}/streams-{os.urandom(6).hex()}", dict(seaweedfs.storage_options))
    first, second = (place.open().session("s", shared=True) for _ in range(2))
    first.append("hello?")
    old = first.stream()
    old.write("one ")
    old.flush()
    second.refresh()
    with second.continue_stream(old.id) as answer:
        old.write("never")
        with pytest.raises(StreamLostError):
            old.flush()
        answer.write("two")
    assert second.context[-1].message["content"] == "one two"


def test_a_reader_that_is_killed_for_each_piece_misses_nothing(tmp_path: Path) -> None:
    """Each one reads one piece and is gone; the next one goes on at its offset."""
    place = Place(str(tmp_path / "store"))
    with place.open().session("s", shared=True) as session:
        session.append("count!")
    store, seen, attached, status = place.open(), "", 0, None
    with Writing(place, "", 0, PIECES, ends=True) as writing:
        while status is None:
            attached += 1
            piece = next(store.view("s").follow_stream(writing.stream, offset=len(seen), poll_seconds=0.001))
            text, status = piece.text, piece.status
            if attached < PIECES and text.count(" ") > 1:  # it was killed in the middle of it
                text = text[: text.index(" ") + 1]
            seen += text
        assert len(writing.wait()) == PIECES
    assert numbers(seen) == list(range(PIECES))
    assert status == "complete"
    assert attached >= PIECES
