"""A checkpoint of LangGraph: as a saver gets it, as it is stored, and as a saver returns it.

Values are encoded before they are stored, and decoded again for each return: LangGraph changes the objects that it
passed to the saver, and also the objects that it got.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_metadata,
)

from treering.format import values
from treering.format.erasure import is_erased
from treering.format.values import fields_of
from treering.integrations.langgraph import names
from treering.integrations.langgraph.codec import Codec, sameness_of
from treering.integrations.langgraph.names import WriteName

BRIEF_BYTES_MAX: Final = 440
"""The most bytes of JSON of the facts about a checkpoint in its metadata. Treering allows 512, with its own fields."""
COUNTERS: Final = "counters_since_delta_snapshot"
"""The part of LangGraph's metadata with the delta channels that have writes in ancestors, and no value of their own."""
_SCALARS: Final = (str, int, float, bool, type(None))


class Spoken(NamedTuple):
    """One message of the list whose messages are kept as nodes."""

    raw: bytes
    """Bytes that are the same for equal messages; see `sameness_of`."""
    digest: bytes
    role: str
    payload: dict[str, Any] | None
    """The payload of its node; None if a node was known to hold this message already."""


class NewCheckpoint(NamedTuple):
    """A checkpoint to be stored."""

    ns: str
    id: str
    parent: str | None
    keys: dict[str, bytes]
    """Values by key of the session's state: the checkpoint and its channels."""
    spoken: tuple[Spoken, ...] | None
    """The messages that are kept as nodes; None if there is no such list."""
    brief: dict[str, object]
    step: int | None
    codec: Codec
    expected: bool
    """Whether the parent must still be the newest checkpoint, since it was the newest when LangGraph got it."""
    deltas: frozenset[str]
    """The delta channels whose values are rebuilt from values and writes of ancestors."""

    def above(self, parent: Kept | None) -> NewCheckpoint:
        """Return it with all that its delta channels are rebuilt from, so that it needs no ancestor.

        Args:
            parent: The checkpoint that it continues; None if that was removed, or it continues none.
        """
        keys, above, deltas = dict(self.keys), [], dict.fromkeys(self.deltas, False)
        if self.parent is not None:
            deltas = {} if parent is None else parent.seeded(self.deltas, self.codec)
        if parent is not None:
            seeds = [channel for channel, has_value in deltas.items() if has_value]
            keys |= {names.channel_key(self.ns, channel): parent.encoded(channel, self.codec) for channel in seeds}
            writes = {name: raw for name, raw in parent.all_writes().items() if _channel_of(raw) in deltas}
            keys |= {names.write_key(self.ns, *name): raw for name, raw in writes.items()}
            above = list(dict.fromkeys(name.checkpoint for name in writes))
        facts = {**fields_of(values.decode(keys[names.checkpoint_key(self.ns)])), "deltas": deltas, "above": above}
        return self._replace(keys=keys | {names.checkpoint_key(self.ns): values.encode(facts)})


class Writes(NamedTuple):
    """Pending writes to be stored."""

    ns: str
    checkpoint: str
    keys: dict[str, bytes]
    """Values by key of the session's state; a write with an index below 0 replaces an earlier write."""
    brief: dict[str, object]


class Kept(NamedTuple):
    """A stored checkpoint."""

    ns: str
    id: str
    parent: str | None
    facts: Mapping[str, Any]
    """The value of its key `<ns>/checkpoint`; see `names`."""
    channels: dict[str, bytes]
    messages: tuple[object, ...] | None
    """The payloads of the messages that are nodes."""
    writes: Mapping[WriteName, bytes]
    seeds: dict[str, bytes]
    """The values of delta channels in ancestors, before the writes in `above`."""
    above: Mapping[WriteName, bytes]
    """The writes of ancestors to delta channels, the oldest checkpoint first."""

    def keys(self) -> dict[str, bytes]:
        """Return it as keys of a session's state."""
        keys = {names.checkpoint_key(self.ns): values.encode(dict(self.facts))}
        keys |= {names.channel_key(self.ns, channel): raw for channel, raw in (self.channels | self.seeds).items()}
        return keys | {names.write_key(self.ns, *name): raw for name, raw in self.all_writes().items()}

    # objects that a saver returns

    def as_tuple(self, thread: object, codec: Codec) -> CheckpointTuple:
        """Return it as an object of LangGraph."""
        rest: dict[str, Any] = codec.value_of(self.facts["rest"])
        checkpoint: Any = {**rest, "id": self.id, "channel_values": self.values(codec)}
        parent = None if self.parent is None else config_of(thread, self.ns, self.parent)
        metadata: CheckpointMetadata = codec.value_of(self.facts["metadata"])
        return CheckpointTuple(
            config_of(thread, self.ns, self.id), checkpoint, metadata, parent, self.pending_writes(codec)
        )

    def metadata(self, codec: Codec) -> Mapping[str, Any]:
        """Return its metadata."""
        found: Mapping[str, Any] = codec.value_of(self.facts["metadata"])
        return found

    def values(self, codec: Codec) -> dict[str, Any]:
        """Return the values of its channels; erased ones are left out."""
        found = {channel: codec.decode(raw) for channel, raw in self.channels.items() if not is_erased(raw)}
        if self.messages is not None:
            found[self.facts["list"]] = codec.messages_of(self.messages)
        return found

    def has(self, channel: str) -> bool:
        """Tell whether it holds a value of a channel."""
        return channel in self.channels or (self.messages is not None and self.facts["list"] == channel)

    def value(self, channel: str, codec: Codec) -> Any:
        """Return the value of a channel for which `has` is true."""
        if channel in self.channels:
            return codec.decode(self.channels[channel])
        return codec.messages_of(self.messages or ())

    def pending_writes(self, codec: Codec) -> list[PendingWrite]:
        """Return its pending writes, in the order in which LangGraph applies them."""
        return _ordered(self.writes, (), codec)

    # delta channels

    def covers(self, channel: str) -> bool:
        """Tell whether it holds all that a delta channel is rebuilt from, so that no ancestor is needed."""
        return channel in fields_of(self.facts.get("deltas"))

    def seeded(self, channels: Collection[str], codec: Codec) -> dict[str, bool]:
        """Return the delta channels that can be rebuilt from it alone; the value tells if there is one to begin with.

        The checkpoints of some other program may have writes in ancestors that nothing here tells of.
        """
        counted = fields_of(self.metadata(codec).get(COUNTERS))
        return {
            channel: self.has(channel) or channel in self.seeds
            for channel in sorted(channels)
            if self.has(channel) or self.covers(channel) or channel not in counted
        }

    def encoded(self, channel: str, codec: Codec) -> bytes:
        """Return the stored bytes of the value that `seeded` told of."""
        if channel in self.seeds:
            return self.seeds[channel]
        return self.channels[channel] if channel in self.channels else codec.encode(self.value(channel, codec))

    def all_writes(self) -> dict[WriteName, bytes]:
        """Return the writes of ancestors, and then its own."""
        return {**self.above, **self.writes}

    def writes_above(self, channel: str, codec: Codec) -> list[PendingWrite]:
        """Return the writes of ancestors to a delta channel, in the order in which LangGraph applies them."""
        told = {name: raw for name, raw in self.above.items() if _channel_of(raw) == channel}
        return _ordered(told, self.facts["above"], codec)


def _ordered(writes: Mapping[WriteName, bytes], checkpoints: Sequence[str], codec: Codec) -> list[PendingWrite]:
    """Decode the writes of one or several checkpoints, in the order in which LangGraph applies them."""
    forms = [(name, values.decode(raw)) for name, raw in writes.items() if not is_erased(raw)]
    found = [(name, form) for name, form in forms if isinstance(form, dict)]
    places = {checkpoint: place for place, checkpoint in enumerate(checkpoints)}
    found.sort(key=lambda each: (places.get(each[0].checkpoint, 0), each[1].get("path", ""), *each[0][1:]))
    return [(name.task, form["channel"], codec.value_of(form["value"])) for name, form in found]


def _channel_of(raw: bytes) -> str | None:
    """Return the channel of a pending write; None if it was erased."""
    channel = None if is_erased(raw) else fields_of(values.decode(raw)).get("channel")
    return channel if isinstance(channel, str) else None


def kept_in(state: Mapping[str, bytes], ns: str, messages: tuple[object, ...]) -> Kept | None:
    """Return the newest checkpoint of a namespace from a state of the session; None if there is none.

    Args:
        state: The state's values, by key.
        ns: The namespace.
        messages: The payloads of the session's context at that state.
    """
    facts = facts_in(state, ns)
    if facts is None:
        return None
    listed = messages if facts.get("list") is not None else None
    channels = names.channels_of(ns, state)
    told = fields_of(facts.get("deltas"))
    seeds = {name: channels.pop(name) for name, has_value in told.items() if has_value and name in channels}
    above = {name: raw for each in facts.get("above", ()) for name, raw in writes_in(state, ns, each).items()}
    writes = writes_in(state, ns, facts["id"])
    return Kept(ns, facts["id"], facts["parent"], facts, channels, listed, writes, seeds, above)


def facts_in(state: Mapping[str, bytes], ns: str) -> dict[str, Any] | None:
    """Return the facts about the newest checkpoint of a namespace."""
    raw = state.get(names.checkpoint_key(ns))
    if raw is None or is_erased(raw):
        return None
    facts = values.decode(raw)
    return facts if isinstance(facts, dict) else None


def writes_in(state: Mapping[str, bytes], ns: str, checkpoint: str) -> dict[WriteName, bytes]:
    """Return the pending writes of a checkpoint in a state, by name."""
    found = {}
    start = names.writes_prefix(ns, checkpoint)
    for key, raw in state.items():
        if key.startswith(start) and (name := names.write_of(ns, key)) is not None:
            found[name] = raw
    return found


def config_of(thread: object, ns: str, checkpoint: str) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint}}


def put_of(
    config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, *, codec: Codec, listed: str,
    known: Collection[bytes], expected: bool,
) -> NewCheckpoint:  # fmt: skip
    """Encode a checkpoint that a saver gets.

    Args:
        config: The config, which names the namespace and the parent.
        checkpoint: The checkpoint; the caller may change its values afterwards.
        metadata: The metadata, to be joined with the metadata in the config.
        codec: Encodes values.
        listed: The channel whose messages are kept as nodes.
        known: Digests of messages that are nodes already.
        expected: See `NewCheckpoint.expected`.
    """
    there = config["configurable"]
    ns, parent = there.get("checkpoint_ns", ""), there.get("checkpoint_id")
    channels = dict(checkpoint["channel_values"])
    spoken = None
    if not ns and listed in channels and (spoken := _spoken(channels[listed], codec, known)) is not None:
        del channels[listed]
    told = dict(get_checkpoint_metadata(config, metadata))
    rest = {name: value for name, value in checkpoint.items() if name not in ("id", "channel_values")}
    facts: dict[str, object] = {
        "id": checkpoint["id"], "parent": parent, "rest": codec.form_of(rest), "metadata": codec.form_of(told),
        "list": listed if spoken is not None else None,
    }  # fmt: skip
    keys = {names.checkpoint_key(ns): values.encode(facts)}
    keys |= {names.channel_key(ns, channel): codec.encode(value) for channel, value in channels.items()}
    step = told.pop("step", None)
    if type(step) is not int:
        told |= {} if step is None else {"step": step}
        step = None
    brief = _brief({"put": checkpoint["id"], "ns": names.short(ns), "parent": parent}, told, whole=codec.is_plain)
    deltas = frozenset(fields_of(metadata.get(COUNTERS))).difference(checkpoint["channel_values"])
    return NewCheckpoint(ns, checkpoint["id"], parent, keys, spoken, brief, step, codec, expected, deltas)


def writes_of(config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str, codec: Codec) -> Writes:
    """Encode pending writes."""
    there = config["configurable"]
    ns, checkpoint = there.get("checkpoint_ns", ""), there["checkpoint_id"]
    keys = {}
    for place, (channel, value) in enumerate(writes):
        form = {"channel": channel, "path": path, "value": codec.form_of(value)}
        keys[names.write_key(ns, checkpoint, task, WRITES_IDX_MAP.get(channel, place))] = values.encode(form)
    return Writes(ns, checkpoint, keys, _brief({"writes": checkpoint, "ns": names.short(ns)}))


def _brief(
    facts: Mapping[str, object], told: Mapping[str, object] | None = None, *, whole: bool = True
) -> dict[str, object]:
    """Return the facts that lists show of a checkpoint, with the plain values of its metadata that fit.

    Args:
        facts: The facts that are always included; empty ones are left out.
        told: The metadata.
        whole: Include all plain values. If false, values of the user are encrypted, and only LangGraph's own are
            included.
    """
    brief = {name: value for name, value in facts.items() if value not in ("", None)}
    meta: dict[str, object] = {}
    room = BRIEF_BYTES_MAX - len(values.encode(brief))
    for name, value in (told or {}).items():
        size = len(values.encode([name, value])) if isinstance(value, _SCALARS) else room
        if size < room and (whole or name in ("source", "run_id")):
            meta[name] = value
            room -= size
    if meta:
        brief["meta"] = meta
    if told is not None and len(meta) < len(told):
        brief["part"] = True
    return brief


def _spoken(value: object, codec: Codec, known: Collection[bytes]) -> tuple[Spoken, ...] | None:
    """Return the messages of a list; None if it holds anything else."""
    if type(value) is not list or not all(isinstance(each, BaseMessage) for each in value):
        return None
    try:
        return tuple([_spoken_once(each, codec, known) for each in value])
    except TypeError:
        return None  # only a serializer of the user encodes these, and perhaps only the list


def _spoken_once(message: BaseMessage, codec: Codec, known: Collection[bytes]) -> Spoken:
    raw = sameness_of(message)
    digest = digest_of(raw)
    payload = None if codec.is_plain and digest in known else codec.payload_of(message)
    return Spoken(raw, digest, codec.role_of(message), payload)


def digest_of(raw: bytes) -> bytes:
    """Return a digest of the bytes that equal messages share."""
    return hashlib.blake2b(raw, digest_size=16).digest()
