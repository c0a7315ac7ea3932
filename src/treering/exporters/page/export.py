"""Write a session as one HTML file.

It is written in one pass over the session: first checkpoints, since they determine which views of nodes are needed,
then nodes, the rows of the tree, large images and texts, and at the end the index. In memory are the ids of the
session, a few numbers for each node, a few blocks, one image, and the current context, as in every open session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw

from treering.api.encoding import to_json
from treering.api.view import View
from treering.checkpoint.checkpoint import write_form
from treering.errors import NotFoundError
from treering.exporters.page.blocks import Blocks, element
from treering.exporters.page.card import card
from treering.exporters.page.checkpoints import AT_ONCE, Checkpoints
from treering.exporters.page.chosen import Chosen, choose
from treering.exporters.page.contexts import Contexts, contexts_of
from treering.exporters.page.document import foot, head
from treering.exporters.page.elements import Wanted
from treering.exporters.page.images import is_image, without_images
from treering.exporters.page.nodes import batches, node_forms
from treering.programs.common.source import file_to_write
from treering.storage.atomic import write_atomically
from treering.transcript.node import MESSAGES
from treering.transcript.tree import Outline

VERSION: Final = 1
"""The version of the data's layout, see docs/reference/page.md."""
ROWS_IN_BLOCK: Final = 200
"""The rows of the tree in a block: as many as the viewer requests at once."""
PROBLEMS_MAX: Final = 500


class ExportedPage(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an export as a page."""

    path: str
    nodes: int
    checkpoints: int
    images_left_out: int
    """The number of large images that were left out; small images are not counted."""


class _Index(msgspec.Struct, kw_only=True):
    """The data that a page reads when it is opened. Nodes and checkpoints are indexes into `ids` and `checkpoints`."""

    version: int
    policy: str
    card: Raw
    ids: list[str]
    parents: list[int]
    positions: list[int]
    """By node: the position of its record."""
    messages: str
    """By node: `1` if its kind is a message to a model, or `0`."""
    changes: list[Raw]
    codes: list[int]
    """By node: the index of its change in `changes`."""
    rows: list[int]
    """By node: the row of the tree that shows it."""
    outline: int
    """The number of rows of the tree."""
    retracted: list[int]
    amended: list[tuple[int, int]]
    """Nodes, with the positions of the edits that hold their new payloads."""
    labels: dict[str, str]
    problems: Raw
    checkpoints: list[str]
    nodes: list[int]
    """By checkpoint: its node, or -1."""
    places: list[int]
    """By checkpoint: the position of its record."""
    hidden: list[int]
    """Checkpoints that were pruned."""
    blocks: dict[str, list[int]]
    """By kind of blocks: the number of the first entry of each block."""
    images_left_out: list[str]


def export_page(
    view: View, path: str | os.PathLike[str], *, branch: str | None = None, images: bool = True, overwrite: bool = False
) -> ExportedPage:
    """Write a session as one HTML file, which shows it in a browser without a server or a network.

    Args:
        view: The session.
        path: The file.
        branch: The name of a head whose branch is written; by default all branches.
        images: Include images; otherwise a note replaces each image.
        overwrite: Replace the file if it exists.

    Raises:
        UsageError: The file exists, or is no regular file.
        NotFoundError: There is no such head, or the file's folder does not exist.
    """
    place = file_to_write(Path(path), overwrite=overwrite)
    page = _Page(view, branch=branch, images=images)
    write_atomically(place, page.parts())
    return ExportedPage(
        path=str(Path(path)),
        nodes=len(page.chosen.rows),
        checkpoints=len(page.chosen.index.checkpoints),
        images_left_out=len(page.left_out),
    )


def page_parts(view: View, *, branch: str | None = None, images: bool = True) -> Iterator[bytes]:
    """Return the bytes of such a file, piece by piece. `export_page` documents the arguments.

    Raises:
        NotFoundError: There is no such head.
    """
    return _Page(view, branch=branch, images=images).parts()


class _Page:
    def __init__(self, view: View, *, branch: str | None, images: bool) -> None:
        self._view = view
        self._images = images
        self.chosen: Chosen = view.perform(choose, branch)
        self._wanted = Wanted(self.chosen, images=images)
        self._nodes, self._rows = Blocks("nodes"), Blocks("tree", entries_max=ROWS_IN_BLOCK, block_bytes=1 << 30)
        self._checkpoints = Blocks("checkpoints")
        self.left_out: list[str] = []

    def parts(self) -> Iterator[bytes]:
        """Yield the document, piece by piece."""
        view, chosen, wanted = self._view, self.chosen, self._wanted
        yield head()
        points = Checkpoints(chosen, wanted)
        for first in range(0, len(points.names), AT_ONCE):
            yield from self._checkpoints.add(view.perform(points.write, points.names[first : first + AT_ONCE]))
        yield from self._checkpoints.end()
        contexts = view.perform(contexts_of, chosen, points.beginnings)
        changes = contexts.forms(wanted, points.numbers)
        for first, end in batches(chosen):
            forms = view.perform(node_forms, chosen, first, end, wanted)
            yield from self._nodes.add(forms if self._images else map(without_images, forms))
        yield from self._nodes.end()
        rows = [0] * len(chosen.rows)
        yield from self._rows.add(self._outline(rows))
        yield from self._rows.end()
        yield from self._blobs()
        yield element("index", self._index(points, contexts, changes, rows))
        yield foot()

    def _messages(self) -> str:
        skeletons = self.chosen.graph.skeletons
        shown = ["01"[name[1] in MESSAGES] for name in skeletons.names]
        return "".join([shown[skeletons.codes[row]] for row in self.chosen.rows])

    def _outline(self, row_of: list[int]) -> Iterator[bytes]:
        """Yield the rows of the tree, and note the row of each node."""
        chosen = self.chosen
        heads, points = chosen.heads, chosen.index.checkpoint_nodes()
        for place, row in enumerate(Outline(chosen.graph, heads=heads, checkpoints=points)):
            number = chosen.number(row.last)
            for _ in range(row.count):
                row_of[number] = place
                number = chosen.parents[number]
            yield to_json(row)

    def _blobs(self) -> Iterator[bytes]:
        """Yield the large images and texts, one in memory at a time; missing blobs are skipped."""
        for digest in self._wanted.blobs:
            try:
                found = self._view.blob(digest)
            except NotFoundError:
                continue
            if not self._images and is_image(found.data):
                self.left_out.append(digest)
            else:
                yield element(f"blob-{digest}", found.data, compress=not found.media_type.startswith("image/"))

    def _index(self, points: Checkpoints, contexts: Contexts, changes: list[Raw], rows: list[int]) -> bytes:
        chosen, marks = self.chosen, self.chosen.graph.marks
        blocks = {"nodes": self._nodes.firsts, "tree": self._rows.firsts, "checkpoints": self._checkpoints.firsts}
        index = _Index(
            version=VERSION,
            policy=chosen.policy.name,
            card=Raw(card(self._view, chosen, contexts)),
            ids=[*chosen.ids],
            parents=[*chosen.parents],
            positions=chosen.graph.skeletons.places(chosen.rows),
            messages=self._messages(),
            changes=changes,
            codes=[*contexts.codes],
            rows=rows,
            outline=max(rows, default=-1) + 1,
            retracted=sorted(chosen.number(node) for node in marks.retracted if chosen.number(node) >= 0),
            amended=sorted((chosen.number(node), at) for node, at in marks.amended.items() if chosen.number(node) >= 0),
            labels=marks.labels,
            problems=Raw(to_json(chosen.graph.problems()[:PROBLEMS_MAX])),
            checkpoints=[*points.numbers],
            nodes=points.nodes,
            places=points.places,
            hidden=points.hidden,
            blocks=blocks,
            images_left_out=self.left_out,
        )
        return write_form(index)
