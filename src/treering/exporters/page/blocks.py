"""Blocks of data inside a page: compressed, in base64, in elements that no browser runs or shows.

Base64 has no character with a meaning in HTML. So no content of a session can end its element.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Final

ENTRIES_MAX: Final = 256
BLOCK_BYTES: Final = 96 * 1024
"""The approximate bytes of JSON in a block, which a browser unpacks to show one of its nodes."""
LEVEL: Final = 6


class Blocks:
    """Blocks of one kind, each a JSON array, numbered from 0.

    Args:
        kind: The name of the kind, for the ids of the blocks.
        entries_max: The most entries in a block.
        block_bytes: The approximate bytes of JSON in a block.
    """

    def __init__(self, kind: str, *, entries_max: int = ENTRIES_MAX, block_bytes: int = BLOCK_BYTES) -> None:
        self._kind = kind
        self._entries_max, self._block_bytes = entries_max, block_bytes
        self._held: list[bytes] = []
        self._size = 0
        self._count = 0
        self.firsts: list[int] = []
        """The number of the first entry of each block."""

    def add(self, entries: Iterable[bytes]) -> Iterator[bytes]:
        """Add entries, and yield the blocks that are full."""
        for entry in entries:
            if self._held and (len(self._held) >= self._entries_max or self._size + len(entry) > self._block_bytes):
                yield self._taken()
            self._held.append(entry)
            self._size += len(entry)

    def end(self) -> Iterator[bytes]:
        """Yield the last block."""
        if self._held:
            yield self._taken()

    def _taken(self) -> bytes:
        data = b"[%b]" % b",".join(self._held)
        number = len(self.firsts)
        self.firsts.append(self._count)
        self._count += len(self._held)
        self._held, self._size = [], 0
        return element(f"{self._kind}-{number}", data)


def element(name: str, data: bytes, *, compress: bool = True) -> bytes:
    """Return an element that holds data.

    Args:
        name: The element's id is `treering-` and this name.
        data: Any bytes.
        compress: Compress them; images are compressed already.
    """
    packed = zlib.compress(data, LEVEL) if compress else data
    form = "deflate" if compress else "plain"
    return b'<script type="application/octet-stream" id="treering-%b" data-form="%b">%b</script>\n' % (
        name.encode(),
        form.encode(),
        b64encode(packed),
    )
