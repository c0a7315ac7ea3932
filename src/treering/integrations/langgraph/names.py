"""The layout of a LangGraph thread in a session: keys of its state, and facts about its checkpoints that lists read.

The state of the session holds the newest checkpoint of every namespace. Each key begins with the namespace. `/` and `%`
are escaped in it, so that the prefix of one namespace is never that of another:

| key                                | value                                                          |
|------------------------------------|----------------------------------------------------------------|
| `<ns>/checkpoint`                  | the checkpoint without the values of its channels, see `kept`  |
| `<ns>/channel/<channel>`           | the value of a channel, or of a delta channel in an ancestor   |
| `<ns>/write/<id>/<task>/<index>`   | a pending write of the checkpoint `<id>`, or of an ancestor    |

A checkpoint of Treering has facts in its metadata, under `langgraph`: which checkpoint of LangGraph it holds (`put`),
or to which checkpoint it adds writes (`writes`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from treering.integrations.keys import escaped, unescaped

MARK: Final = "langgraph"
"""The field of a card, and of the metadata of checkpoints, with the facts of this integration."""
NS_BYTES_MAX: Final = 120
"""Longer namespaces are hashed in metadata, which is small. Three nested subgraphs take about that many bytes."""
ID_BYTES_MAX: Final = 128
"""The most bytes of a checkpoint's id, which must fit into metadata twice. LangGraph's own ids have 36."""


def prefix_of(ns: str) -> str:
    """Return the prefix of all keys of a namespace."""
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
    """Return the prefix of the keys of the pending writes of a checkpoint."""
    return f"{prefix_of(ns)}write/{escaped(checkpoint)}/"


def write_key(ns: str, checkpoint: str, task: str, index: int) -> str:
    """Return the key of a pending write."""
    return f"{writes_prefix(ns, checkpoint)}{escaped(task)}/{index}"


class WriteName(NamedTuple):
    """The parts of the key of a pending write."""

    checkpoint: str
    task: str
    place: int


def write_of(ns: str, key: str) -> WriteName | None:
    """Return the parts of a key if it is that of a pending write of this namespace, else None."""
    start = f"{prefix_of(ns)}write/"
    if not key.startswith(start):
        return None
    checkpoint, task, index = key[len(start) :].split("/")
    return WriteName(unescaped(checkpoint), unescaped(task), int(index))


def short(ns: str) -> str:
    """Return the form of a namespace in metadata. A long one becomes a digest, which no real namespace looks like."""
    return ns if len(ns.encode("utf-8", "surrogatepass")) <= NS_BYTES_MAX else f"/sha256/{_digest(ns)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
