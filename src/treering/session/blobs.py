"""The blobs (large parts of messages) of a session that one handle has in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from treering.checkpoint.context import Context
from treering.digests import sha256
from treering.format.record import decode_record
from treering.session.payload import blobs_in
from treering.session.replica import Replica
from treering.storage.requests import Answer, Found, Get, Put, Steps, Written
from treering.storage.run import checked, found_in

BLOBS_AT_ONCE_MAX = 16  # each may be many megabytes


class Blobs:
    """Blobs by digest: those of the current context, and those that the last call needed."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.at_hand: dict[str, bytes | None] = {}
        """Bytes by digest; None for a blob that is missing or damaged."""

    def read(self, digest: str) -> Steps[bytes | None]:
        """One blob, or None if it is missing or damaged."""
        if digest in self.at_hand:
            return self.at_hand[digest]
        return (yield from self._read([digest]))[digest]

    def _read(self, digests: Sequence[str]) -> Steps[dict[str, bytes | None]]:
        """Blobs by digest. One that does not match its digest is read once more: the transfer may have damaged it."""
        keys, life = self._replica.keys, self._replica.view.life
        found: dict[str, bytes | None] = {}
        for _ in range(2):
            answers = yield tuple(Get(keys.blob(life, digest)) for digest in digests)
            found |= {digest: _blob(answer, digest) for digest, answer in zip(digests, answers, strict=True)}
            came = [digest for digest, answer in zip(digests, answers, strict=True) if isinstance(answer, Found)]
            digests = [digest for digest in came if found[digest] is None]
            if not digests:
                break
        return found

    def fetch(self, lines: Iterable[bytes], context: Context | None = None) -> Steps[None]:
        """Read the blobs that some records and a context's inline messages refer to, in parallel.

        A missing or damaged blob is remembered as missing. Blobs that neither these records nor the current context
        need are forgotten.
        """
        wanted = _blobs_of(lines, context)
        if self.at_hand.keys() - wanted:
            needed = wanted | _blobs_of(self._shown_lines(), self._replica.state.context)
            self.at_hand = {digest: data for digest, data in self.at_hand.items() if digest in needed}
        digests = sorted(wanted - self.at_hand.keys())
        for start in range(0, len(digests), BLOBS_AT_ONCE_MAX):
            self.at_hand |= yield from self._read(digests[start : start + BLOBS_AT_ONCE_MAX])

    def fetch_shown(self) -> Steps[None]:
        """Read the blobs of the current context."""
        yield from self.fetch(self._shown_lines(), self._replica.state.context)
        self._replica.has_unread_blobs = False

    def store(self, blobs: Mapping[str, bytes]) -> Steps[None]:
        """Store blobs, durable when it returns; blobs in memory are stored already."""
        new = [digest for digest in blobs if self.at_hand.get(digest) is None]
        if new:
            keys, life = self._replica.keys, self._replica.view.life
            answers = yield tuple(Put(keys.blob(life, digest), blobs[digest]) for digest in new)
            for digest, answer in zip(new, answers, strict=True):
                checked(answer, Written)
                self.at_hand[digest] = blobs[digest]

    def _shown_lines(self) -> list[bytes]:
        """Records of the messages in the context; other records in memory belong to a move that is not recorded yet."""
        state = self._replica.state
        return [state.lines[node] for node in set(state.context.nodes) if node in state.lines]


def in_runs(lines: Sequence[bytes]) -> Iterator[slice]:
    """Cut lines into runs whose blobs fit in memory together: a run has few blobs, or is a single line."""
    first = count = 0
    for number, line in enumerate(lines):
        found = len(blobs_in(line))
        if found and count and count + found > BLOBS_AT_ONCE_MAX:
            yield slice(first, number)
            first, count = number, 0
        count += found
    yield slice(first, len(lines))


def _blobs_of(lines: Iterable[bytes], context: Context | None) -> set[str]:
    """Digests of the blobs that records and inline messages refer to."""
    bodies = [bytes(decode_record(line).body) for line in lines if b'"$blob"' in line]
    items = context.items if context is not None else ()
    bodies += [item.message for item in items if item.message is not None and b'"$blob"' in item.message]
    return {digest for body in bodies for digest in blobs_in(body)}


def _blob(answer: Answer, digest: str) -> bytes | None:
    """The bytes of a blob, checked against their digest; None if it is missing or does not match.

    A damaged picture must not hide a conversation: a text note replaces it, and `verify` names the object.
    """
    there = found_in(answer)
    return there.data if there is not None and sha256(there.data) == digest else None
