"""What a decoder may do with any bytes: return, or raise the errors it names, in bounded memory and steps."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.decoders import Decoder

CORPUS = Path(__file__).parent / "corpus"
BYTES_MAX = 48 << 20
BYTES_PER_BYTE = 400
STEPS_MAX = 20_000
STEPS_PER_BYTE = 60


class TooMuchError(BaseException):
    """More calls than a decoder may take."""


def kept(name: str) -> list[bytes]:
    """What was found to be worth trying again."""
    return [path.read_bytes() for path in sorted((CORPUS / name.replace(" ", "-")).glob("*"))]


def broken_promise(decoder: Decoder, data: bytes, *, measured: bool = False) -> str:
    """What a decoder did with some bytes that it must not do; empty if nothing.

    Args:
        decoder: Any.
        data: To be sealed and read.
        measured: Watch memory, too, which takes long.
    """
    sealed = decoder.seal(data)
    try:
        with limited(len(sealed), measured=measured):
            decoder.read(sealed)
    except decoder.raises:
        return ""
    except TooMuchError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is not one of those that callers expect
        return f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def limited(size: int, *, measured: bool) -> Iterator[None]:
    """Bound what happens in the block by the size of what is read."""
    before = sys.getprofile()
    sys.setprofile(_counting(STEPS_MAX + STEPS_PER_BYTE * size))
    if measured:
        tracemalloc.start()
    try:
        yield
        if measured and tracemalloc.get_traced_memory()[1] > BYTES_MAX + BYTES_PER_BYTE * size:
            raise TooMuchError(f"took {tracemalloc.get_traced_memory()[1]:,} bytes for {size:,}")
    finally:
        sys.setprofile(before)
        if measured:
            tracemalloc.stop()


def _counting(most: int) -> Callable[..., None]:
    left = most

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            sys.setprofile(None)
            raise TooMuchError(f"took more than {most:,} calls and returns")

    return count
