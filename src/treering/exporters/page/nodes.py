"""Nodes in a page: their shown form, and the views of them that contexts need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treering.api.encoding import stored_form, to_json
from treering.checkpoint.checkpoint import write_form
from treering.checkpoint.context import Context, Item
from treering.errors import FormatVersionError
from treering.exporters.page.chosen import Chosen
from treering.exporters.page.elements import Wanted
from treering.format.record import Skeleton, decode_record
from treering.session.payload import stored_payload
from treering.session.reader import Readable
from treering.session.verbs.reading import NODES_AT_ONCE, note_of
from treering.storage.requests import Steps

NODES_BYTES: Final = 1024 * 1024
"""The approximate bytes of node lines in memory at a time; they are there several times: as lines, values and JSON."""


class NodeForm(msgspec.Struct, omit_defaults=True):
    """A node in the page."""

    node: Raw
    """The JSON of `to_json`, with references in the place of large images and texts."""
    original: Raw | UnsetType = UNSET
    """The original payload, if the node was amended."""
    views: dict[str, Raw] = {}
    """Its messages in contexts, by the name of the view."""
    notes: list[Raw] = []
    """Its notes of kind `usage`."""


def batches(chosen: Chosen) -> Iterator[tuple[int, int]]:
    """Yield the ranges of node numbers to read together: the first, and one after the last."""
    first = 0
    while first < len(chosen.rows):
        rows = chosen.skeletons(first, first + NODES_AT_ONCE)
        sizes = accumulate(row.length for row in rows)
        end = first + max(1, sum(size <= NODES_BYTES for size in sizes))
        yield first, end
        first = end


def node_forms(reader: Readable, chosen: Chosen, first: int, end: int, wanted: Wanted) -> Steps[list[bytes]]:
    """Return some nodes as JSON, and note the blobs to which they refer."""
    rows = chosen.skeletons(first, end)
    found = yield from reader.content.read(rows)
    nodes = yield from reader.content.made(found, blobs=False)
    views = {
        rows[number - first].id: sorted(wanted.views[number]) for number in range(first, end) if number in wanted.views
    }
    amended = {node.id for node in nodes if node.amended}
    about = {row.id: [note for note in chosen.graph.annotations.of(row.id) if note.kind == "usage"] for row in rows}
    notes = [note.at for each in about.values() for note in each]
    firsts = [row.at for row in rows if row.id in views or row.id in amended]
    lines = yield from reader.replica.lines_at([*firsts, *notes])
    recorded = {row.id: lines[row.at] for row in rows if row.at in lines}
    seen = yield from _seen(reader, views, recorded)
    for line in (*(each.line for each in found), *lines.values()):
        wanted.note_blobs(line)
    forms: list[bytes] = []
    for node in nodes:
        form = NodeForm(node=Raw(to_json(node)), views=seen.get(node.id, {}), notes=_notes(about[node.id], lines))
        if node.amended:
            form.original = stored_form(stored_payload(bytes(decode_record(recorded[node.id]).body)))
        forms.append(write_form(form))
    return forms


def _seen(
    reader: Readable, views: Mapping[str, Sequence[str]], lines: Mapping[str, bytes]
) -> Steps[dict[str, dict[str, Raw]]]:
    """Return the messages of nodes through views; views that are unknown in this process are left out."""
    context = Context(tuple([Item(node, view) for node, names in views.items() for view in names]))
    shown = {node: lines[node] for node in views}
    yield from reader.blobs.fetch(shown.values(), context)
    found: dict[str, dict[str, Raw]] = {}
    for item in context.items:
        try:
            (seen,) = reader.content.messages(Context((item,)), shown)
        except FormatVersionError:
            continue
        found.setdefault(item.node, {})[item.view] = stored_form(seen.message)
    return found


def _notes(rows: Sequence[Skeleton], lines: Mapping[int, bytes]) -> list[Raw]:
    return [Raw(to_json(note_of(row, stored_payload(bytes(decode_record(lines[row.at]).body))))) for row in rows]
