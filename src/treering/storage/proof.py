"""Probe whether a store honours conditions on writes, before any code relies on them.

Some servers accept `If-Match` and `If-None-Match` and ignore them (`rclone serve s3` is one). On such a store two
writers overwrite each other without an error. So an accepted request proves nothing; only a refused one does.

Each process checks this once, together with its first write, in one batch:

- A put on an unused key that expects a version that no object has must be refused.
- A put that creates `treering.json` must be refused if that exists. If that put wrote the object, it is sent once more,
  now that the object exists.

On a store that honours conditions only `treering.json` remains, and it is never replaced.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from treering.errors import ConflictError, NotFoundError, UnsafeStoreError
from treering.ids import new_nonce
from treering.kinds import Kind
from treering.storage.requests import ABSENT, Answer, Delete, Deleted, List, Listed, Put, Steps, Version, Written
from treering.storage.run import ask, checked

FORMAT_FILE = "treering.json"
FORMAT_VERSION = 1

# Looks like an entity tag, so that a server compares it and does not refuse it as malformed.
_NOBODYS_VERSION = Version(f'"{"0" * 32}"')


def declare(prefix: str = "", *, facts: Mapping[str, object] | None = None) -> Steps[bool]:
    """Write `treering.json` if it does not exist; a proven driver needs no more than this.

    Args:
        prefix: Where the store begins: empty, or ending in `/`.
        facts: JSON values about the creation, for people to read.

    Returns:
        Whether it was written just now.

    Raises:
        TreeringError: The store refused or did not answer.
    """
    (answer,) = yield (_format_put(prefix, facts),)
    return not _refused(answer)


def prove(prefix: str = "", *, facts: Mapping[str, object] | None = None) -> Steps[bool]:
    """Write `treering.json` if it does not exist, and make sure that conditions on writes hold.

    Args:
        prefix: Where the store begins: empty, or ending in `/`.
        facts: JSON values about the creation, for people to read.

    Returns:
        Whether `treering.json` was written just now.

    Raises:
        UnsafeStoreError: The store accepts conditions and ignores them. The objects of the probe are removed again.
        TreeringError: The store refused or did not answer.
    """
    create = _format_put(prefix, facts)
    probe = Put(f"{prefix}proof-{new_nonce()}", b"{}\n", expect=_NOBODYS_VERSION)
    created, probed = yield (create, probe)
    if not _refused(probed):
        yield from _clean(prefix, probe.key, created)
        raise _unsafe("a put naming a version that nothing has was accepted", probe.key)
    if not _refused(created):
        (again,) = yield (create,)
        if not _refused(again):
            yield from _clean(prefix, probe.key, created)
            raise _unsafe("a put that must only create replaced an object", create.key)
        return True
    return False


def _format_put(prefix: str, facts: Mapping[str, object] | None) -> Put:
    body = msgspec.json.encode({"treering": FORMAT_VERSION, **(facts or {})})
    return Put(f"{prefix}{FORMAT_FILE}", body + b"\n", expect=ABSENT)


def _refused(answer: Answer) -> bool:
    return not isinstance(checked(answer, Written, ConflictError, NotFoundError), Written)


def _clean(prefix: str, probe: str, created: Answer) -> Steps[None]:
    """Remove the objects of the probe; `treering.json` only if the store has no others, as it may be another's."""
    keys = {probe}
    if isinstance(created, Written):
        listed = yield from ask(List(prefix, limit=3), Listed)
        ours = {probe, f"{prefix}{FORMAT_FILE}"}
        if not listed.more and {entry.key for entry in listed.entries} <= ours:
            keys = ours
    yield from ask(Delete(tuple(sorted(keys))), Deleted)


def _unsafe(what: str, key: str) -> UnsafeStoreError:
    return UnsafeStoreError(
        f"the store ignores conditions on writes: {what}",
        kind=Kind.CONDITIONS,
        key=key,
        remedy="two writers would overwrite each other here. Use another server, or pass single_writer=True with a URL"
        " of another fsspec filesystem if no second process will ever write",
    )


def prove_deletions(probe: str) -> Steps[None]:
    """Check that conditions on deletions hold: delete an object, expecting a version that no object has.

    Args:
        probe: Key of an unused register; it is written, and deleted afterwards.

    Raises:
        UnsafeStoreError: The store ignores conditions on deletions.
        TreeringError: The store refused or did not answer.
    """
    (put,) = yield (Put(probe, b"{}\n", expect=ABSENT),)
    checked(put, Written, ConflictError)  # a conflict with our own put, which was sent twice
    (answer,) = yield (Delete((probe,), expect=_NOBODYS_VERSION),)
    yield from ask(Delete((probe,)), Deleted)
    if not isinstance(checked(answer, ConflictError, NotFoundError, Deleted), ConflictError):
        raise UnsafeStoreError(
            "the store ignores conditions on deletions",
            kind=Kind.CONDITIONS,
            key=probe,
            remedy="tombstones stay; they are about a hundred bytes",
        )
