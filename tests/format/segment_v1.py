"""Writes segments whose index is of version 1, as early versions did; the library only reads them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from treering.format import segment
from treering.format.columns import pack
from treering.format.frames import compress
from treering.format.record import skeleton_of


def build_segment_1(lines: Sequence[bytes], **changes: object) -> bytes:
    """Return the segment of record lines, in one frame.

    Args:
        lines: At least one.
        changes: What the index says instead; all checksums are right.
    """
    skeletons = [skeleton_of(line) for line in lines]
    content = b"".join(lines)
    frame = compress(content)
    fields: dict[str, object] = {
        "treering": 1,
        "first": skeletons[0].at,
        "frames": [(len(frame), len(content), len(lines), zlib.crc32(frame))],
        "columns": pack(skeletons),
    }
    index = segment._Index1(**(fields | changes))  # type: ignore[arg-type]
    sizes = [(frame, entry[1]) for entry in index.frames]
    return b"".join(each for each, _ in sizes) + segment._encode_footer(index, sizes, [])
