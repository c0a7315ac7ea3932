"""Where a thread of LangGraph is in a session: keys of its state, and facts about its checkpoints that lists read.

The state of the session holds the newest checkpoint of every namespace. Its keys begin with the namespace, in which `/`
and `%` are escaped, so that the keys of one namespace never begin like those of another:

| key                                | value                                                          |
|------------------------------------|----------------------------------------------------------------|
| `<ns>/checkpoint`                  | the checkpoint without the values of its channels, see `kept`  |
| `<ns>/channel/<channel>`           | the value of a channel                                         |
| `<ns>/write/<id>/<task>/<index>`   | a pending write of the checkpoint `<id>`                       |
| `<ns>/fold/<channel>`              | what a pruned delta channel is rebuilt from                    |

A checkpoint of Treering has facts in its metadata, under `langgraph`: which checkpoint of LangGraph it holds (`put`),
to which one it adds writes (`writes`), or that it holds what pruning left of ancestors (`fold`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from treering.integrations.keys import escaped, unescaped

MARK: Final = "langgraph"
"""The field of a card that says what the session holds, and of the metadata of its checkpoints."""
NS_BYTES_MAX: Final = 120
"""Longer namespaces are hashed in metadata, whose room is small. Three nested subgraphs have about that."""
ID_BYTES_MAX: Final = 128
"""Of a checkpoint's id, which must fit into metadata twice. LangGraph's own have 36."""


def prefix_of(ns: str) -> str:
    """Return what all keys of a namespace begin with."""
    return f"{escaped(ns)}/"


def namespace_of(key: str) -> str:
    """Return the namespace of a key."""
    return unescaped(key.partition("/")[0])


def checkpoint_key(ns: str) -> str:
    """Return the key of the newest checkpoint of a namespace."""
    return f"{prefix_of(ns)}checkpoint"


def channel_key(ns: str, channel: str) -> str:
    """Return the key of a channel's value."""
    return f"{prefix_of(ns)}channel/{escaped(channel)}"


def channels_of(ns: str, keys: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the values of all channels of a namespace, by channel."""
    start = f"{prefix_of(ns)}channel/"
    return {unescaped(key[len(start) :]): value for key, value in keys.items() if key.startswith(start)}


def writes_prefix(ns: str, checkpoint: str) -> str:
    """Return what the keys of the pending writes of a checkpoint begin with."""
    return f"{prefix_of(ns)}write/{escaped(checkpoint)}/"


def write_key(ns: str, checkpoint: str, task: str, index: int) -> str:
    """Return the key of a pending write."""
    return f"{writes_prefix(ns, checkpoint)}{escaped(task)}/{index}"


class WriteName(NamedTuple):
    """What the key of a pending write says."""

    checkpoint: str
    task: str
    place: int


def write_of(ns: str, key: str) -> WriteName | None:
    """Return what a key says if it is that of a pending write of this namespace."""
    start = f"{prefix_of(ns)}write/"
    if not key.startswith(start):
        return None
    checkpoint, task, index = key[len(start) :].split("/")
    return WriteName(unescaped(checkpoint), unescaped(task), int(index))


def fold_key(ns: str, channel: str) -> str:
    """Return the key of what a pruned delta channel is rebuilt from."""
    return f"{prefix_of(ns)}fold/{escaped(channel)}"


def short(ns: str) -> str:
    """Return a namespace as metadata has it; a long one as a digest, which no real one looks like."""
    return ns if len(ns.encode("utf-8", "surrogatepass")) <= NS_BYTES_MAX else f"/sha256/{_digest(ns)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
