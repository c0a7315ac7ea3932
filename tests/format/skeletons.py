"""The skeletons of a whole segment, as its index has them."""

from treering.format.index import SegmentIndex
from treering.format.parts import read_chunk
from treering.format.record import Skeleton


def skeletons_of(data: bytes, index: SegmentIndex) -> list[Skeleton]:
    """Return the skeletons of all records of a whole segment, in order."""
    return [
        skeleton
        for span in index.chunks
        for skeleton in read_chunk(data[span.start : span.end], span, index).skeletons()
    ]
