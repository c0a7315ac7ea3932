"""A second reader of stores on local disk, made of two pages: docs/reference/format.md and records.md.

It uses nothing of Treering, so it shows that these pages are enough. It reads stores at rest, whole: no torn tails, no
erasure that is still under way, and of the policies and views only our own.

    python tests/format/independent_reader.py STORE

prints the heads of each session, what the model sees at the current one, and the agent's state at each.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import zstandard

Json = dict[str, Any]
SEGMENT = re.compile(r"(\d{12,})-(\d{12,})-(\d{6,})-[a-z0-9]+\.jsonl\.zst")
SETTINGS = {"model_change", "thinking_change", "mode_change"}
VIEWS: dict[str, Callable[[Any], Json]] = {
    "summary@1": lambda payload: _user(
        f"Earlier messages of this conversation were replaced by this summary:\n\n{payload['summary']}"
    ),
    "branch_summary@1": lambda payload: _user(
        f"This conversation came back from another branch. Summary of that branch:\n\n{payload['summary']}"
    ),
    "custom_message@1": lambda payload: _user(payload["content"]),
}
SHOWN = {"message": "", "branch_summary": "branch_summary@1", "custom_message": "custom_message@1"}


class DamageError(Exception):
    """Bytes are not as they were written."""


class Erased(NamedTuple):
    """What is left of a payload, or of a value of the state."""

    message: Json


class Item(NamedTuple):
    """One message of a context."""

    node: str
    view: str = ""
    message: Any = None


class Checkpoint(NamedTuple):
    """What an agent needs to go on."""

    items: tuple[Item, ...] = ()
    settings: Json = {}  # noqa: RUF012  # never changed
    state: Json = {}  # noqa: RUF012
    manager: Any = None


# lines and values


def _user(content: object) -> Json:
    return {"role": "user", "content": content}


def _moment(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: read(value) if isinstance(value, str) else read(value[0]).replace(fold=1)


TAGS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$int": int,
    "$bytes": b64decode,
    "$str": lambda text: b64decode(text).decode("utf-8", "surrogatepass"),
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$map": dict,
    "$datetime": _moment(datetime.fromisoformat),
    "$date": date.fromisoformat,
    "$time": _moment(time.fromisoformat),
    "$timedelta": lambda parts: timedelta(*parts),
    "$erased": lambda left: Erased(left["message"]),
    "$patch": lambda _: None,  # read where it is applied
}


class Held(msgspec.Struct):
    """What a checkpoint's record holds of the state, as it is written there."""

    set: dict[str, msgspec.Raw] = {}


class Line(msgspec.Struct):
    """A record, as far as that is needed."""

    body: Held


def lines_of(path: Path) -> list[bytes]:
    """The lines of an object; a plain log has room at its end."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as frames:
            data = frames.read()
    return data.rstrip(b"\0").split(b"\n")[:-1]


class Reader:
    """One session.

    Args:
        store: The folder of the store.
        name: The session's name in keys.
    """

    def __init__(self, store: Path, name: str) -> None:
        card, *self.body = lines_of(store / f"latest/{name}.jsonl.zst")
        self._folder = store / "sessions" / name
        self.card = self.parse(card)
        self.dead: bool = self.card.get("dead", False)
        self.records: list[Json] = [] if self.dead else [*self._records()]
        self.nodes: dict[str, Json] = {}
        self.checkpoints: dict[str, Json] = {}
        self.heads: dict[str, str | None] = {}
        self.current = "main"
        self._placed: dict[str, int] = {}
        self._dropped: dict[str, int] = {}
        self._pruned: dict[str, int] = {}
        self._retracted: set[str] = set()
        self._amended: dict[str, Json] = {}
        for record in self.records:
            self._fold(record)

    def parse(self, line: bytes) -> Json:
        """A line whose checksum is right, its tags read."""
        text, mark, checksum = line.rpartition(b',"_c":"')
        if not mark or checksum != b'%08x"}' % zlib.crc32(text):
            raise DamageError(line[:80])
        return self.read(line)

    def read(self, line: bytes) -> Json:
        """A line without looking at its checksum."""
        found: Json = json.loads(line, object_hook=self._value)
        return found

    def _value(self, value: Json) -> Any:
        tag = next(iter(value), "")
        if tag == "$source":
            return value["$payload"]
        if tag == "$blob":
            return self._blob(value)
        return TAGS[tag](value[tag]) if tag.startswith("$") else value

    def _blob(self, reference: Json) -> str | bytes:
        data = (self._folder / str(self.card["life"]) / "blobs" / str(reference["$blob"])).read_bytes()
        if hashlib.sha256(data).hexdigest() != reference["$blob"]:
            raise DamageError(reference["$blob"])
        match reference["as"]:
            case "bytes":
                return data
            case "text":
                return data.decode()
        return str(reference.get("prefix", "")) + b64encode(data).decode()

    # the journal

    def _records(self) -> Iterator[Json]:
        """All records by position: of each the line in some segment that reaches the ones before, then the tail."""
        tail = next(self._folder.glob("tail.jsonl*"), None)
        lines = lines_of(tail) if tail else []
        header = self.parse(lines[0]) if lines else {"base": self.card.get("born", 0), "erased": []}
        end = 0
        for (first, last, epoch), path in self._segments():
            if any(first <= at < last and epoch < since for at, since in header["erased"]):
                raise DamageError(f"an erasure is under way: {path.name}")
            for line in lines_of(path)[end - first :] if first <= end < last else ():
                yield self._at(line, end)
                end += 1
        if end < header["base"]:
            raise DamageError(f"records are missing. end={end}, base={header['base']}")
        for at, line in enumerate(lines[1:], header["base"]):
            record = self._at(line, at)
            if at >= end:
                yield record

    def _at(self, line: bytes, position: int) -> Json:
        record = self.parse(line)
        if record["type"] == "checkpoint":
            record["texts"] = {key: bytes(raw) for key, raw in msgspec.json.decode(line, type=Line).body.set.items()}
        if record["at"] != position:
            raise DamageError(f"record is out of order. expected={position}, got={record['at']}")
        return record

    def _segments(self) -> list[tuple[tuple[int, int, int], Path]]:
        paths = (self._folder / self.card["life"] / "segments").glob("*")
        named = ((SEGMENT.fullmatch(path.name), path) for path in paths)
        return sorted(((int(name[1]), int(name[2]), int(name[3])), path) for name, path in named if name)

    def _fold(self, record: Json) -> None:
        kind, head, target = record.get("kind", ""), record.get("head", ""), record.get("target")
        match record["type"]:
            case "node":
                self.nodes.setdefault(record["id"], record)
                if head:
                    self.heads[head] = record["id"]
                    self._placed.setdefault(head, record["at"])
            case "head" if kind == "drop":
                self.heads.pop(head, None)
                self._placed.pop(head, None)
                self._dropped[head] = record["at"]
            case "head":
                self.heads[head], self._placed[head] = target, record["at"]
                if record.get("brief", {}).get("current") is not False:
                    self.current = head
            case "checkpoint":
                self.checkpoints[record["id"]] = record
            case "edit":
                self._edit(record, kind, str(target))
        if self.current not in self.heads:
            self.current = "main" if "main" in self.heads else next(iter(self.heads), "main")

    def _edit(self, record: Json, kind: str, target: str) -> None:
        brief = record.get("brief", {})
        if kind == "prune":
            self._pruned.setdefault(target, record["at"])
        elif kind == "retract":
            (self._retracted.discard if brief.get("undo") else self._retracted.add)(target)
        elif kind == "amend" and (brief.get("undo") or brief.get("erased")):
            self._amended.pop(target, None)
        elif kind == "amend":
            self._amended[target] = record

    # checkpoints

    def checkpoint(self, name: str) -> Checkpoint:
        """A checkpoint, from the last full record on its way up."""
        chain = [self.checkpoints[name]]
        while not chain[-1]["body"].get("full"):
            chain.append(self.checkpoints[chain[-1]["parent"]])
        full = chain[-1]["body"]
        texts = {key: self.checkpoints[at]["texts"][key] for key, at in full.get("keys", {}).items()}
        manager = self.checkpoints[full["manager_at"]]["body"]["manager"] if "manager_at" in full else None
        found = Checkpoint(_items(full.get("context", [])), full.get("settings", {}), {}, full.get("manager", manager))
        for record in chain[::-1]:
            body = record["body"]
            texts = {key: text for key, text in texts.items() if key not in body.get("drop", [])}
            texts |= {key: _patched(texts.get(key, b""), text) for key, text in record["texts"].items()}
            found = found if body is full else _changed(found, body)
        return found._replace(state={key: self.read(text) for key, text in texts.items()})

    def teller(self, head: str) -> Json | None:
        """The record of the checkpoint that tells what a head is like."""
        path = [None, *self.path(self.heads[head])]
        made = [record for record in self.checkpoints.values() if record.get("target") in path]
        own = [each for each in made if each["head"] == head and each["at"] > self._dropped.get(head, -1)]
        before = [each for each in made if each["at"] < self._placed[head]]

        def depth(each: Json) -> tuple[int, bool, int]:
            return path.index(each.get("target")), each in own, each["at"]

        told = max(own or before, key=depth, default=None)
        if told is None or told["id"] not in self._pruned:
            return told
        left = [each for each in made if each["id"] not in self._pruned and each["at"] < self._pruned[told["id"]]]
        return max(left, key=depth, default=None)

    # what an agent goes on with

    def path(self, node: str | None) -> list[str]:
        """Nodes from a root down: the first without a parent that is there, or the earliest one of a circle."""
        found: dict[str, int] = {}
        while node in self.nodes and node not in found:
            found[node] = self.nodes[node]["at"]
            node = self.nodes[node].get("parent")
        names = [*found]
        if node in found:
            circle = names[names.index(node) :]
            names = names[: names.index(min(circle, key=found.__getitem__)) + 1]
        return names[::-1]

    def at_head(self, head: str) -> Checkpoint:
        """What an agent at a head goes on with."""
        told, path = self.teller(head), self.path(self.heads[head])
        found = self.checkpoint(told["id"]) if told else Checkpoint()
        made_at: int = told["at"] if told else -1
        seen = {item.node for item in found.items}
        target = told.get("target") if told else None
        for node in path[path.index(target) + 1 if target else 0 :]:
            found = self._behind(found, self.nodes[node], path)
        since = dict.fromkeys(seen, made_at)
        items = [self._edited(item, since) for item in found.items if item.node not in self._retracted]
        state = {key: value for key, value in found.state.items() if not isinstance(value, Erased)}
        manager = None if isinstance(found.manager, Erased) else found.manager
        return found._replace(items=tuple(items), state=state, manager=manager)

    def _behind(self, before: Checkpoint, node: Json, path: list[str]) -> Checkpoint:
        """With one more node, by `default@1`."""
        kind, brief, items = node.get("kind"), node.get("brief", {}), before.items
        settings = before.settings
        if kind == "compaction":
            items = (Item(node["id"], "summary@1"), *self._kept(brief.get("kept"), node["id"], path, items))
        elif kind in SHOWN and brief.get("context") is not False and not brief.get("empty"):
            items = (*items, Item(node["id"], SHOWN[kind]))
        elif kind in SETTINGS:
            settings = {name: value for name, value in {**settings, **brief}.items() if value is not None}
        return before._replace(items=items, settings=settings)

    def _kept(self, first: str | None, compaction: str, path: list[str], items: tuple[Item, ...]) -> tuple[Item, ...]:
        shown = [item for item in items if item.view != "summary@1"]
        place = next((at for at, item in enumerate(shown) if item.node == first), None)
        if place is not None:
            return tuple(shown[place:])
        before = path[: path.index(compaction)]
        kept = [self.nodes[name] for name in before[before.index(first) :]] if first in before else []
        found = Checkpoint()
        for node in kept:
            found = self._behind(found, node, path) if node.get("kind") != "compaction" else found
        return found.items

    def _edited(self, item: Item, since: dict[str, int]) -> Item:
        edit = self._amended.get(item.node)
        return item._replace(message=edit["body"]) if edit and edit["at"] > since.get(item.node, -1) else item

    def messages(self, context: tuple[Item, ...]) -> list[Any]:
        """What the model sees."""
        return [self._message(item) for item in context]

    def _message(self, item: Item) -> Any:
        payload = self.nodes[item.node]["body"]
        if item.message is not None:
            return item.message
        if isinstance(payload, Erased):
            return payload.message
        return VIEWS[item.view](payload) if item.view else payload

    def in_hand(self) -> Checkpoint | None:
        """The current head by the state line of `latest` alone; None if that does not tell it."""
        if not self.body or self.card.get("covers", 0) < len(self.records):
            return None
        line = next(line for line in map(self.read, self.body) if line.get("type", "state") == "state")
        heads = line.get("heads", {})
        if line.get("context_at") != heads.get("heads", {}).get(heads.get("current", "main")):
            return None
        whole = line.get("checkpoint", {})
        told = line if "context" in line else whole
        state = {key: value for key, value in whole.get("state", {}).items() if not isinstance(value, Erased)}
        manager = None if isinstance(whole.get("manager"), Erased) else whole.get("manager")
        return Checkpoint(_items(told.get("context", [])), told.get("settings", {}), state, manager)


def _items(forms: list[Any]) -> tuple[Item, ...]:
    return tuple(Item(form) if isinstance(form, str) else Item(**form) for form in forms)


def _changed(before: Checkpoint, body: Json) -> Checkpoint:
    items, done = [], 0
    for index, deleted, forms in body.get("context", []):
        items += [*before.items[done:index], *_items(forms)]
        done = index + deleted
    return Checkpoint(
        (*items, *before.items[done:]),
        {key: value for key, value in before.settings.items() if key not in body.get("unset", [])}
        | body.get("settings", {}),
        before.state,
        body.get("manager", before.manager),
    )


def _patched(old: bytes, text: bytes) -> bytes:
    """A value of the state, where a patch of the one before may stand for it."""
    if not text.startswith(b'{"$patch":'):
        return text
    if old.startswith(b'{"$erased":'):
        return old
    digest, *splices = json.loads(text)["$patch"]
    new, done = b"", 0
    for start, deleted, inserted in splices:
        new += old[done:start] + inserted.encode()
        done = start + deleted
    new += old[done:]
    if hashlib.sha256(new).hexdigest() != digest:
        raise DamageError(text[:80])
    return new


def sessions(store: Path) -> dict[str, Reader]:
    """The sessions of a store by their ids."""
    names = (path.name.removesuffix(".jsonl.zst") for path in (store / "latest").glob("*.jsonl.zst"))
    readers = [Reader(store, name) for name in names]
    return {reader.card["session"]: reader for reader in readers if not reader.dead}


def main(store: Path) -> None:
    """Print what is in a store."""
    for session, reader in sessions(store).items():
        sys.stdout.write(f"{session}: {reader.heads}, at {reader.current}\n")
        for head in reader.heads:
            found = reader.at_head(head)
            for message in reader.messages(found.items) if head == reader.current else ():
                sys.stdout.write(f"  {message}\n")
            sys.stdout.write(f"  {head}: {found.state}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
