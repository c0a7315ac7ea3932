"""Checkpoints in a page: each as the change in its record, see `treering.checkpoint.checkpoint`.

So they take no more bytes than in the store. Nodes and checkpoints are numbers, and values of the state are JSON texts,
since a patch changes their bytes. A checkpoint whose parent is not in the page is written as a whole.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treering.api.encoding import to_json
from treering.checkpoint.checkpoint import BODY, Body, Checkpoint, chain_of, read_dict, read_form, write_form
from treering.checkpoint.context import Item, decode_items
from treering.checkpoint.resolve import apply_body, needs, resolve
from treering.errors import NotFoundError
from treering.exporters.page.chosen import Chosen
from treering.exporters.page.contexts import Beginning
from treering.exporters.page.elements import Elements, Wanted
from treering.format.record import Record, decode_record
from treering.format.values import encode
from treering.session.lookup import with_label
from treering.session.reader import Readable
from treering.storage.requests import Steps

AT_ONCE: Final = 16
"""The most checkpoints in memory at a time; each may have megabytes."""


class CheckpointForm(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A checkpoint in the page."""

    info: Raw
    base: int = -1
    """The number of the checkpoint that this one changes; -1 for a full checkpoint."""
    set: dict[str, str] = {}
    """JSON by key of the state, or a patch of the base's value."""
    keys: dict[str, int] = {}
    """By key of a full checkpoint: the checkpoint whose `set` has the value."""
    drop: list[str] = []
    context: Elements | list[tuple[int, int, Elements]] = []
    """The elements of a full checkpoint, or the splices of a change."""
    settings: Raw | UnsetType = UNSET
    unset: list[str] = []
    manager: str | None = None
    manager_at: int = -1
    policy: str = ""


class Checkpoints:
    """Writes the checkpoints of a page in the order in which they were made.

    Args:
        chosen: The part of the session that goes into the page.
        wanted: Collects the nodes and blobs that their contexts need.
    """

    def __init__(self, chosen: Chosen, wanted: Wanted) -> None:
        self._chosen = chosen
        self._every = chosen.whole.all_checkpoints
        self._wanted = wanted
        self._known: OrderedDict[str, Checkpoint] = OrderedDict()
        self.names: Sequence[str] = [*chosen.index.all_checkpoints]
        self.numbers: dict[str, int] = {}
        """The numbers of the written checkpoints, by id."""
        self.nodes: list[int] = []
        """By checkpoint number: the number of its node, or -1."""
        self.places: list[int] = []
        """By checkpoint number: the position of its record."""
        self.hidden: list[int] = []
        """The numbers of pruned checkpoints, which other checkpoints change."""
        self.beginnings: dict[str, Beginning] = {}

    def write(self, reader: Readable, names: Sequence[str]) -> Steps[list[bytes]]:
        """Return some checkpoints as JSON; pruned checkpoints whose contents were removed are left out."""
        records = yield from self._records(reader, names)
        bodies = {name: read_form(record.body, BODY) for name, record in records.items()}
        origins = {origin for record in records.values() for origin in needs(record)}
        held = records | (yield from self._records(reader, sorted(origins - records.keys())))
        found: list[bytes] = []
        for name in names:
            body, record = bodies[name], records[name]
            if body.pruned:
                continue
            try:
                parent = None if body.full else (yield from self._resolved(reader, record.parent or ""))
                checkpoint = apply_body(parent, record, held.__getitem__)
            except NotFoundError:
                if name in self._chosen.whole.pruned:
                    continue
                raise
            self._remember(checkpoint)
            found.append(self._form(checkpoint, body))
        return found

    def _records(self, reader: Readable, names: Sequence[str]) -> Steps[dict[str, Record]]:
        places = {name: self._every[name].at for name in names}
        lines = yield from reader.replica.lines_at(places.values())
        return {name: decode_record(lines[at]) for name, at in places.items()}

    def _resolved(self, reader: Readable, name: str) -> Steps[Checkpoint]:
        """Return a checkpoint, pruned or not: usually the one before, which is in memory."""
        if name not in self._known:
            records = yield from self._records(reader, chain_of(name, self._every))
            origins = {origin for record in records.values() for origin in needs(record)}
            held = records | (yield from self._records(reader, sorted(origins - records.keys())))
            self._remember(resolve([*records.values()], held.__getitem__))
        return self._known[name]

    def _remember(self, checkpoint: Checkpoint) -> None:
        self._known[checkpoint.id] = checkpoint
        self._known.move_to_end(checkpoint.id)
        while len(self._known) > AT_ONCE:
            self._known.popitem(last=False)

    def _form(self, checkpoint: Checkpoint, body: Body) -> bytes:
        name = checkpoint.id
        entry = self._every[name]
        referred = [*body.keys.values(), *([body.manager_at] if body.manager_at is not None else [])]
        form = CheckpointForm(info=Raw(to_json(with_label(entry, self._chosen.graph.marks.labels.get(name)))))
        if body.full and all(origin in self.numbers for origin in referred):
            form.keys = {key: self.numbers[origin] for key, origin in body.keys.items()}
            form.manager_at = -1 if body.manager_at is None else self.numbers[body.manager_at]
            self._fill(form, body, checkpoint.context.items)
        elif not body.full and checkpoint.parent in self.numbers:
            form.base = self.numbers[checkpoint.parent]
            self._fill(form, body, None)
        else:
            self._fill_whole(form, checkpoint)
        self.numbers[name] = len(self.nodes)
        self.nodes.append(self._chosen.number(checkpoint.node))
        self.places.append(entry.at)
        if name in self._chosen.index.pruned:
            self.hidden.append(self.numbers[name])
        first = checkpoint.context.items[: self._chosen.first_seen or 0]
        self.beginnings[name] = Beginning(first, checkpoint.context.settings)
        return write_form(form)

    def _fill(self, form: CheckpointForm, body: Body, items: tuple[Item, ...] | None) -> None:
        form.set = {key: self._text(raw) for key, raw in body.set.items()}
        form.drop, form.unset = body.drop, body.unset
        form.settings = UNSET if body.settings is UNSET else Raw(encode(read_dict(body.settings)))
        form.manager = None if body.manager is UNSET else self._text(body.manager)
        form.policy = body.policy or ""
        if items is not None:
            form.context = self._wanted.elements(items)
            return
        splices = [splice for splice in body.context if isinstance(splice, tuple)]
        form.context = [(at, gone, self._wanted.elements(decode_items(forms))) for at, gone, forms in splices]

    def _fill_whole(self, form: CheckpointForm, checkpoint: Checkpoint) -> None:
        form.set = {key: self._text(value) for key, value in checkpoint.state.items()}
        form.settings = Raw(encode(checkpoint.context.settings))
        form.manager = None if checkpoint.manager is None else self._text(checkpoint.manager)
        form.policy = checkpoint.policy
        form.context = self._wanted.elements(checkpoint.context.items)

    def _text(self, raw: Raw | bytes) -> str:
        data = bytes(raw)
        self._wanted.note_blobs(data)
        return data.decode(errors="replace")
