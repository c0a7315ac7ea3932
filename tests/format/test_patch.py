"""Patches of large values: exact, small where little changed, and never applied to another value."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from treering.errors import CorruptError, FormatVersionError
from treering.format import patch
from treering.format.patch import VALUE_BYTES_MIN, apply_patch, make_patch
from treering.format.values import decode, encode, is_patch

ENTRIES = st.sampled_from(
    ["", "a", "é", "漢字, 漢字", "\U0001f332" * 3, '"quoted", and more', "x" * 90, 'back\\slash"']
)
items = st.lists(ENTRIES, max_size=14)
trees = st.one_of(items, st.dictionaries(ENTRIES, items, max_size=6), ENTRIES.map(lambda text: text * 9))


@given(trees, trees)
def test_a_patch_makes_the_new_value_of_the_old_one(one: object, other: object) -> None:
    """Whatever they are, to the byte; and it is worth it."""
    old, new = encode(one), encode(other)
    made = make_patch(old, new)
    if made is None:
        return
    assert is_patch(made)
    assert apply_patch(old, made) == new
    assert 2 * len(made) <= len(new)


@given(items, st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), ENTRIES), min_size=1, max_size=4))
def test_edits_of_a_long_list_are_patched(entries: list[str], edits: list[tuple[int, int, str]]) -> None:
    """However many places changed, each splice holds what is new there, within whole characters."""
    long = [f"{number} é {text}" for number, text in enumerate([*entries, *["filler" * 9] * 20])]
    changed = list(long)
    for place, deleted, text in edits:
        changed[place : place + deleted] = [text]
    made = make_patch(encode(long), encode(changed))
    if changed == long:
        return
    assert made is not None
    assert apply_patch(encode(long), made) == encode(changed)


def test_what_grows_at_its_end_is_written_once() -> None:
    """A list, a map and a text of 300 entries: all patches together are the last value and a hundred bytes each."""
    rng = random.Random(1)
    entries = [rng.randbytes(60).hex() for _ in range(300)]
    grown: list[list[object]] = [
        [entries[:count] for count in range(20, 301)],
        [dict(zip(entries[:count], entries, strict=False)) for count in range(20, 301)],
        ["\n".join(entries[:count]) for count in range(20, 301)],
    ]
    for values in grown:
        raw = [encode(value) for value in values]
        made = [make_patch(old, new) for old, new in pairwise(raw)]
        assert sum(len(each or b"") for each in made) < 1.8 * len(raw[-1])
        assert None not in made


def test_changes_at_two_places_are_two_splices() -> None:
    """What is between them is not written again."""
    files = {f"file-{number}": "text " * 40 for number in range(50)}
    old = encode(files)
    new = encode(files | {"file-3": "changed", "file-40": "as well"})
    made = make_patch(old, new)
    assert made is not None
    assert len(made) < 200
    assert apply_patch(old, made) == new


def test_a_change_too_large_to_be_compared_is_one_splice(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is exact all the same."""
    files = {f"file-{number}": "text " * 40 for number in range(50)}
    old, new = encode(files), encode(files | {"file-3": "changed", "file-9": "as well"})
    monkeypatch.setattr(patch, "ALIGNED_BYTES_MAX", 100)
    made = make_patch(old, new)
    assert made is not None
    assert len(json.loads(made)["$patch"]) == 2
    assert apply_patch(old, made) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["a"] * 20, ["a"] * 21),
        (["a" * 300], ["b" * 300]),
        (["a" * 300], ["a" * 300, {"$blob": "0" * 64, "as": "bytes", "size": 1}]),
        ("\xff" * 300, b"\xff" * 300),
    ],
)
def test_a_value_is_written_whole(old: object, new: object) -> None:
    """If it is small, or has little of the old one, or refers to a blob, which has to be found in the record."""
    raw = [json.dumps(each).encode() if not isinstance(each, bytes) else each for each in (old, new)]
    assert make_patch(raw[0], raw[1]) is None


def test_the_smallest_value_with_a_patch() -> None:
    """The limit counts bytes."""
    old = encode("x" * (VALUE_BYTES_MIN - 3))
    assert make_patch(old, encode("x" * (VALUE_BYTES_MIN - 2))) is not None
    assert make_patch(old, encode("x" * (VALUE_BYTES_MIN - 4))) is None


@pytest.mark.parametrize(
    "made",
    [
        b'{"$patch":["1"]}',
        b'{"$patch":["0",[0,9,""]]}',
        b'{"$patch":["0",[5,1,""],[4,0,""]]}',
        b'{"$patch":["0",[2,-1,""]]}',
        b'{"$patch":["0",[-1,0,""]]}',
        b'{"$patch":["0",[1,"2",""]]}',
        b'{"$patch":["0",7]}',
        b'{"$patch":[[0,0,""],[0,0,""]]}',
        b'{"$patch":[]}',
        b'{"$patch":["x"]}',
        b'{"$patch":[',
        b'{"$patch":["0",[0,0,"\xff"]]}',
    ],
)
def test_a_damaged_patch_is_reported(made: bytes) -> None:
    """Never applied in part."""
    with pytest.raises(CorruptError):
        apply_patch(b'"value"', made)


def test_a_patch_of_another_value_is_reported() -> None:
    """Even if it fits."""
    made = make_patch(encode(["a"] * 100), encode(["a"] * 101))
    assert made is not None
    for other in (encode(["b"] * 100), None):
        with pytest.raises(CorruptError):
            apply_patch(other, made)


def test_who_knows_no_patches_refuses_them() -> None:
    """It is a tag like others: a version that does not know it must not guess."""
    made = make_patch(encode(["a"] * 100), encode(["a"] * 101))
    assert made is not None
    with pytest.raises(FormatVersionError):
        decode(made)
