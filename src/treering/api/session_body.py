"""Operations of a session besides its verbs, without I/O. Users see the signatures and docstrings written here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering import erasure, session

if TYPE_CHECKING:
    from collections.abc import Collection

    from treering.erasure.erasing import Receipt
    from treering.session.writer import Writer
    from treering.storage.effects import Job
    from treering.storage.requests import Steps


def erase(
    writer: Writer, *ids: str, state: Collection[str] = (), manager: bool = False, reason: str = ""
) -> Job[Receipt]:
    """Erase the payloads of nodes and notes, or the agent's state, permanently, also from forks of this session.

    An `Erased` replaces a payload: its hash, the time and the reason. A model sees `[erased]`, with the ids of tool
    calls kept, so that calls and results still belong together. Labels, and notes about the node, stay.

    For a key of the state, all values that it has had until now are erased, in all checkpoints. These then read as if
    it had not been set, and `erased_state` lists it. Forks made before lose their values of it, too.

    Args:
        writer: The session.
        ids: Nodes and notes. A call without any argument finishes interrupted erasures: it searches again for
        everything ever erased here.
        state: Keys of the agent's state.
        manager: Erase the state of the conversation manager.
        reason: Shown in place of the payload; at most 200 bytes.

    Returns:
        The receipt; the payload is no longer stored.

    Raises:
        NotFoundError: The node or note does not exist, or no checkpoint has such a key; nothing was erased.
        UsageError: A checkpoint or an edit cannot be erased, or too much was erased already.
        ConflictError: Another writer writes this exclusive session.
        UnavailableError: The store did not answer. Call again to finish.
    """
    receipt = yield from erasure.erasing.erase(writer, *ids, state=state, manager=manager, reason=reason)
    return (yield from erasure.erasing.finished(receipt, writer.keys))


def flush(writer: Writer) -> Steps[None]:
    """Record the buffered drafts, durable when it returns: in one append, or in several if one is too small."""
    return session.record.flush(writer)


def close(writer: Writer) -> Steps[None]:
    """Record buffered drafts, and write `latest` so that it covers everything."""
    if writer.unrecorded and (writer.options.first_write != "assistant" or writer.replica.exists):
        yield from flush(writer)
    yield from writer.close()
