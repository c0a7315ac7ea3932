"""Processes that write answers piece by piece, continue answers of other writers, end them, and follow them.

Each piece has a different text. So the checks know which pieces must be in an answer, in which order, and which writer
wrote each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from tests.simulation.agents import POLICY, Agents, nothing
from tests.simulation.codec import TEXT
from tests.simulation.world import World
from treering.checkpoint.policy import find_policy
from treering.erasure.erasing import erase
from treering.errors import ConflictError, NotFoundError, TreeringError, UnavailableError
from treering.format.erasure import is_erased
from treering.format.record import decode_record
from treering.journal.stream import TTL_MS, read_stream
from treering.session.options import Options
from treering.session.reader import Reader
from treering.session.stream_follower import StreamFollower
from treering.session.streams import PieceKind, StreamStatus
from treering.session.verbs import streaming
from treering.session.verbs.streaming import Live
from treering.session.writer import Writer
from treering.storage.requests import Steps

LOOKS_MAX = 60  # looks of one follower
OVER = frozenset({StreamStatus.COMPLETE, StreamStatus.STOPPED, StreamStatus.PARTIAL})


def texts_in(text: str) -> list[str]:
    """Return the pieces of an answer."""
    return [each.decode() for each in TEXT.findall(text.encode())]


class Streamers(Agents):
    """Makes processes that write answers, beside the agents, which use whole sessions."""

    def __init__(self, world: World, rng: random.Random) -> None:
        super().__init__(world, rng)
        self.streams: list[tuple[str, str]] = []
        """Life and id of each stream."""
        self.stored: dict[str, list[str]] = {}
        """By stream, the pieces that were acknowledged, or that a writer read when it took over, in order."""
        self.fixed: dict[str, int] = {}
        """By stream, the number of pieces that the last writer read when it took over."""
        self.writers: dict[str, tuple[str, int]] = {}
        """By piece: its stream, and the position of the note of its writer."""
        self.takes: dict[str, int] = {}
        """By stream, the position of the note by which the last writer took it."""
        self.gone: set[str] = set()
        """Streams whose erasure or discarding was acknowledged."""

    # writers

    def teller(self, *, shared: bool) -> Steps[None]:
        """Write an answer, and end it, or leave it open."""
        yield from self._as_writer(partial(self._tell, begins=True), shared=shared)

    def successor(self, *, shared: bool) -> Steps[None]:
        """Continue an answer that another writer left open."""
        yield from self._as_writer(partial(self._tell, begins=False), shared=shared)

    def judge(self, *, shared: bool) -> Steps[None]:
        """Keep an incomplete answer, or discard it."""
        yield from self._as_writer(self._judge, shared=shared)

    def _as_writer(self, do: Callable[[Writer], Steps[None]], *, shared: bool) -> Steps[None]:
        options = Options(shared=shared)
        writer = Writer(self.keys, find_policy(POLICY), self.card(), options, nothing)
        self._told[writer.replica.nonce] = []
        try:
            yield from writer.open()
            yield from do(writer)
        except ConflictError:  # another writer, in the session or in the stream
            if self.strict:
                raise
        except (NotFoundError, UnavailableError) as error:
            if not isinstance(error, NotFoundError) or error.kind != "stream":
                self.excuse(error)
        except TreeringError as error:
            if error.kind not in ("duplicate_id", "erased"):
                raise

    def _tell(self, writer: Writer, *, begins: bool) -> Steps[None]:
        if begins:
            live = yield from streaming.begin(writer)
            self.streams.append((writer.replica.view.life, live.id))
            self.stored[live.id] = []
            self.fixed[live.id] = 0
        else:
            chosen = self._chosen(writer)
            if chosen is None:
                return
            known = list(self.stored[chosen])
            live = yield from streaming.take_over(writer, chosen)
            self._observed(live.id, live.answer.text, known, "who goes on")
        take = self._known_taken(writer.replica.view.life, live, begins=begins)
        for _ in range(self.rng.randrange(1, 8)):
            yield from self._piece(live, take)
        yield from self._ended(writer, live)

    def _known_taken(self, life: str, live: Live, *, begins: bool) -> int:
        """Return the position of the note by which a writer took a stream.

        Of several writers, the one with the last note has the stream, in whatever order they get their answers.
        """
        notes = [f'"id":"{live.note}"'.encode() in line for line in self.ghost.logs[life]]
        take = notes.index(True)
        if take > self.takes.get(live.id, -1):
            self.takes[live.id] = take
            if not begins:
                self.stored[live.id] = texts_in(live.answer.text)
                self.fixed[live.id] = len(self.stored[live.id])
        return take

    def _piece(self, live: Live, take: int) -> Steps[None]:
        """Write one or two pieces; if the store does not answer, perhaps write them again."""
        for _ in range(self.rng.choice((1, 1, 2))):
            text = self._mark()
            self.writers[text] = live.id, take
            form = live.answer.add("text", f"{text},")
            assert form is not None
            live.tape.add(form)
        for _ in range(self.rng.randrange(1, 4)):
            try:
                yield from live.tape.write()
            except UnavailableError as error:
                self.excuse(error)
            else:
                self._acknowledge(live)
                return

    def _acknowledge(self, live: Live) -> None:
        known = self.stored[live.id]
        known += [text for text in texts_in(live.answer.text) if text not in known]

    def _ended(self, writer: Writer, live: Live) -> Steps[None]:
        roll = self.rng.random()
        if roll < 0.3 and not self.strict:
            return  # the writer dies
        if roll < 0.4:
            yield from streaming.fail(writer, live, "too slow")
            if not live.tape.unsaved:
                self._acknowledge(live)
            return
        status = StreamStatus.COMPLETE if roll < 0.9 else StreamStatus.STOPPED
        yield from streaming.end(writer, live, status)
        self._acknowledge(live)
        if self._text_of(writer.replica.view.life, live.id) not in (None, live.answer.text):
            self.ghost.problems.append(f"stream {live.id} ended otherwise than it was written")

    def _judge(self, writer: Writer) -> Steps[None]:
        chosen = self._chosen(writer)
        if chosen is None:
            return
        if self.rng.random() < 0.6:
            known = list(self.stored[chosen])
            done = yield from streaming.keep_stream(writer, chosen)
            said = self._text_of(writer.replica.view.life, chosen)
            if done.nodes and said is not None:  # it may be erased already
                self._observed(chosen, said, known, "who keeps it")
            return
        yield from streaming.discard_stream(writer, chosen)
        self.gone.add(chosen)

    def _chosen(self, writer: Writer) -> str | None:
        there = [name for name in writer.replica.state.streams if name in self.stored] if writer.replica.exists else []
        return self.rng.choice(there) if there else None

    # readers

    def follower(self) -> Steps[None]:
        """Follow an answer; at times begin again at the offset, as after a kill."""
        alive = [name for life, name in self.streams if life == self.world.current_life()]
        if not alive:
            return
        stream, seen = self.rng.choice(alive), ""
        reader = Reader(self.keys, find_policy(POLICY))
        try:
            yield from reader.replica.load()
            follower = self._follower(reader, stream, 0)
            for _ in range(LOOKS_MAX):
                if self.rng.random() < 0.2:
                    follower = self._follower(reader, stream, len(seen))
                known, began = list(self.stored[stream]), self.world.steps
                pieces = yield from follower.look()
                seen += "".join(piece.text for piece in pieces)
                if pieces and pieces[-1].kind == PieceKind.END:
                    self._told_end(reader, stream, seen, pieces[-1].status, known)
                    self._require_dead(stream, pieces[-1].status, began)
                    return
                self._observed(stream, seen, [], "who follows")
        except (NotFoundError, UnavailableError) as error:
            self.excuse(error)

    def _follower(self, reader: Reader, stream: str, offset: int) -> StreamFollower:
        look_again = partial(streaming.newest, reader)
        return StreamFollower(reader, stream, offset, look_again, lambda: float(self.world.steps))

    def _told_end(
        self, reader: Reader, stream: str, seen: str, status: StreamStatus | None, known: Sequence[str]
    ) -> None:
        life = reader.replica.view.life
        if status in OVER and self._text_of(life, stream) not in (None, seen):
            self.ghost.problems.append(f"a reader was told {seen!r}, and the node of {stream} says otherwise")
        elif status in (StreamStatus.LOST, StreamStatus.FAILED):
            self._observed(stream, seen, known, "who follows to the end")

    def _require_dead(self, stream: str, status: StreamStatus | None, now: int) -> None:
        """Check that a writer that is taken for dead gave no sign of life for its time to live."""
        times = [at for key, every in self.world.touched.items() if stream in key for at in every if at <= now]
        if status == StreamStatus.LOST and times and now - max(times) < TTL_MS / 1000:
            self.ghost.problems.append(f"the writer of {stream} is taken for dead too early")

    # erasing and tidying up

    def eraser(self) -> Steps[None]:
        """Erase an answer that is being written or has ended, or erase as an agent does."""
        if self.rng.random() < 0.5:
            yield from super().eraser()
            return
        try:
            writer = yield from self._stranger()
            names = [name for life, name in self.streams if life == writer.replica.view.life]
            if names:
                name = self.rng.choice(names)
                receipt = yield from erase(writer, name)
                self.ghost.receipt(writer.replica.view.life, receipt.epoch)
                self.ghost.told |= set(receipt.ids)
                self.gone.add(name)
        except ConflictError:
            if self.strict:
                raise
        except (NotFoundError, UnavailableError) as error:
            if not isinstance(error, NotFoundError) or error.kind not in ("stream", "node"):
                self.excuse(error)

    def tidier(self) -> Steps[None]:
        """Tidy up while other processes write and read."""
        try:
            writer = yield from self._stranger()
            yield from writer.upkeep.optimize(everything=True)
        except (NotFoundError, UnavailableError) as error:
            self.excuse(error)

    def lister(self) -> Steps[None]:
        """Tidy up, and check each answer.

        An open answer, or the node of an ended one, has all acknowledged pieces. An ended answer has left no chunk.
        """
        yield from super().lister()
        reader = Reader(self.keys, find_policy(POLICY))
        yield from reader.replica.load()
        life, is_open = reader.replica.view.life, reader.replica.state.streams
        left = [key for key in self.world.objects if key.startswith(self.keys.streams(life))]
        if stray := [key for key in left if not any(name in key for name in is_open)]:
            self.ghost.problems.append(f"pieces of answers that have ended are left: {stray}")
        for _, name in [each for each in self.streams if each[0] == life]:
            if name in is_open:
                chunks = yield from read_stream(self.keys, life, name)
                said = [piece.text for chunk in chunks for write in chunk.writes for piece in write.pieces]
                self._observed(name, "".join(said), self.stored[name], "the store")
            elif text := self._text_of(life, name):
                self._observed(name, text, self.stored[name], "its node")
            elif name not in self.gone and not self._has_ended(life, name):
                self.ghost.problems.append(f"stream {name} is neither open, nor a node, nor discarded")
        if is_open and self.strict:
            yield from self.successor(shared=True)

    def _has_ended(self, life: str, stream: str) -> bool:
        """Whether it was discarded, or its node was erased."""
        said = (f'"node":"{stream}","end":"discarded"'.encode(), f'"kind":"message","id":"{stream}"'.encode())
        return any(each in line for line in self.ghost.logs[life] for each in said)

    def _text_of(self, life: str, stream: str) -> str | None:
        """Return the text of the node of a stream; None if there is no such node, or it was erased."""
        for line in self.ghost.logs[life]:
            if f'"id":"{stream}"'.encode() in line:
                record = decode_record(line)
                if record.id == stream and record.type == "node" and not is_erased(bytes(record.body)):
                    return "".join(f"{text}," for text in texts_in(bytes(record.body).decode()))
        return None

    def _observed(self, stream: str, text: str, known: Sequence[str], who: str) -> None:
        """Check that acknowledged pieces are read once and in order, and that no piece of a fenced writer follows."""
        found = texts_in(text)
        fixed = self.stored[stream][: self.fixed[stream]]
        length = min(len(found), len(known))
        if len(found) != len(set(found)):
            self.ghost.problems.append(f"{who} sees a piece of {stream} twice: {found}")
        elif found[:length] != list(known[:length]) or len(found) < len(known):
            self.ghost.problems.append(f"{who} sees {found} of {stream}, and {list(known)} was acknowledged")
        elif found[: len(fixed)] != fixed[: len(found)]:
            self.ghost.problems.append(f"{who} sees {found} of {stream}, where others went on behind {fixed}")
        elif any(self.writers[each] != (stream, self.takes[stream]) for each in found[self.fixed[stream] :]):
            self.ghost.problems.append(f"{who} sees a piece of a writer that had lost {stream}: {found}")
