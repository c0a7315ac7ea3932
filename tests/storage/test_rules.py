"""What counts in a log, and versions that say so."""

from __future__ import annotations

from hypothesis import given, strategies as st

from treering.storage import rules
from treering.storage.requests import ABSENT, Version

CHUNKS = st.lists(st.sampled_from([b"a", b'{"x":1}', b"\n", b"\0"]), max_size=12).map(b"".join)


@given(CHUNKS)
def test_complete_lines_end_before_the_first_zero(data: bytes) -> None:
    """The complete part is the longest start of the data that ends with a line feed and holds no zero byte."""
    ends = [end for end in range(len(data) + 1) if not end or data[end - 1 : end] == b"\n"]
    assert rules.complete_bytes(data) == max(end for end in ends if b"\0" not in data[:end])


@given(CHUNKS, CHUNKS)
def test_a_version_of_a_log_is_its_first_line_and_length(one: bytes, other: bytes) -> None:
    """Two logs have the same version exactly if their first lines and the lengths of their complete lines agree."""
    same = one[: one.find(b"\n") + 1] == other[: other.find(b"\n") + 1]
    same = same and rules.complete_bytes(one) == rules.complete_bytes(other)
    assert (rules.log_version(one) == rules.log_version(other)) == same


@given(CHUNKS)
def test_a_version_comes_apart_again(data: bytes) -> None:
    """Digest and length can be read back from the version; what is no version of a log is told as such."""
    parts = (rules.first_line_digest(data), rules.complete_bytes(data))
    assert rules.split_version(rules.log_version(data)) == parts
    for version in (ABSENT, Version("abc"), Version("abc:"), Version("abc:x"), Version("abc:-1"), Version('"etag"')):
        assert rules.split_version(version) is None
