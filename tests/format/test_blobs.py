"""Blobs: large parts leave a value and come back, signed parts never move, and a missing blob becomes a note."""

import base64
import hashlib

import pytest
from hypothesis import given, strategies as st

from treering.errors import UsageError
from treering.format import values
from treering.format.blobs import (
    BASE64_BYTES_MIN,
    SIGNED_KEYS,
    TEXT_BYTES_MIN,
    BlobRef,
    blob_refs,
    blob_refs_in,
    extract,
    mentions_blob,
    preview,
    restore,
)

PIXELS = bytes(i * i >> 3 & 255 for i in range(30_000))
IMAGE = base64.b64encode(PIXELS).decode()
DIGEST = hashlib.sha256(PIXELS).hexdigest()
IMAGE_REF = BlobRef(sha256=DIGEST, form="base64", size=len(PIXELS))
TEXT = "é" * (TEXT_BYTES_MIN // 2 + 1)


def message(part: object) -> dict[str, object]:
    """A message with one content part between two others."""
    text = {"type": "text", "text": "look"}
    return {"role": "user", "content": [text, part, text]}


PARTS = [
    {"type": "image", "data": IMAGE, "mimeType": "image/png"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64," + IMAGE}},
    {"type": "tool_result", "content": [{"type": "image", "data": IMAGE}]},
    {"type": "text", "text": TEXT},
    {"kind": "raw", "data": PIXELS * 2},
    (IMAGE, TEXT),
]
references = st.sampled_from([{"$blob": DIGEST, "as": "base64", "size": 1}, "$blob", f'"$blob":"{DIGEST}"'])
leaves = st.sampled_from([IMAGE, TEXT, PIXELS * 2, "data:;base64," + IMAGE, IMAGE[:-1], 1, None]) | references
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "type", "signature"]), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("part", PARTS)
def test_large_parts_leave_and_come_back(part: object) -> None:
    """A large part is stored beside the value and comes back unchanged, through the bytes of the value."""
    value = message(part)
    slim, blobs = extract(value)
    raw = values.encode(slim)
    assert len(raw) < 1000
    assert blob_refs(slim) == blob_refs_in(raw) == blobs.keys() != set()
    assert all(hashlib.sha256(data).hexdigest() == digest for digest, data in blobs.items())
    assert restore(values.decode(raw), blobs) == value


@given(trees)
def test_any_value_comes_back(value: object) -> None:
    """Whatever is inside, users' own `$blob` keys included, comes back as it was."""
    slim, blobs = extract(value)
    raw = values.encode(slim)
    assert restore(values.decode(raw), blobs) == value
    assert blob_refs_in(raw) == blobs.keys()
    assert mentions_blob(raw) == bool(blobs)


def test_a_reference_tells_how_a_text_begins() -> None:
    """So a record alone tells it: the first 400 bytes, cut between characters; of other blobs nothing."""
    slim, _ = extract({"text": " \n\n" + TEXT, "data": IMAGE, "bytes": PIXELS * 2})
    assert preview(values.decode(values.encode(slim))) == {"text": "é" * 200, "data": "", "bytes": ""}
    assert preview(extract(" x" + TEXT)[0]) == "x" + "é" * 199


def test_base64_is_stored_as_bytes() -> None:
    """The blob of base64 is what it stands for, the same whatever form an image came in."""
    for part in (IMAGE, "data:image/png;base64," + IMAGE):
        assert extract(part)[1] == {DIGEST: PIXELS}
    assert extract(IMAGE)[0] == IMAGE_REF
    assert extract("data:image/png;base64," + IMAGE)[0].prefix == "data:image/png;base64,"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("part", "moves"),
    [
        ("A" * BASE64_BYTES_MIN, True),
        ("A" * (BASE64_BYTES_MIN - 4), False),
        ("data:;base64," + "A" * (BASE64_BYTES_MIN - 4), False),
        ("A" * BASE64_BYTES_MIN + "A", False),  # no whole number of groups
        ("A" * BASE64_BYTES_MIN + "AB==", False),  # bits behind the end: encodes to another text
        ("A" * BASE64_BYTES_MIN + "\n", False),
        ("-_" * BASE64_BYTES_MIN, False),  # the other alphabet
        (b"A" * BASE64_BYTES_MIN, True),
        (b"A" * (BASE64_BYTES_MIN - 1), False),
        (" " * (TEXT_BYTES_MIN + 1), True),
        (" " * TEXT_BYTES_MIN, False),
        ("é" * (TEXT_BYTES_MIN // 2), False),
        ("\ud800" * TEXT_BYTES_MIN, False),
    ],
)
def test_what_is_large(part: object, *, moves: bool) -> None:
    """Both sides of each limit, and text that is almost base64."""
    slim, blobs = extract([part])
    assert bool(blobs) == moves
    assert restore(slim, blobs) == [part]


@pytest.mark.parametrize(
    "part",
    [
        *({"type": "thinking", "thinking": TEXT, key: IMAGE} for key in sorted(SIGNED_KEYS)),
        {"type": "thinking", "parts": [{"text": TEXT}], "signature": "s"},
        {"type": "redacted_thinking", "data": IMAGE},
    ],
)
def test_signed_parts_stay(part: dict[str, object]) -> None:
    """Nothing inside a signed or encrypted part is taken out, while its neighbours are."""
    slim, blobs = extract([part, IMAGE])
    assert slim == [part, IMAGE_REF]
    assert blobs == {DIGEST: PIXELS}


@pytest.mark.parametrize("blobs", [{}, {DIGEST: None}])
@pytest.mark.parametrize("part", PARTS[:3])
def test_missing_image_becomes_a_text_part(part: object, blobs: dict[str, bytes | None]) -> None:
    """The whole content part becomes text, since no model takes a note for an image."""
    restored = restore(extract(message(part))[0], blobs)
    note = f"[missing attachment sha256:{DIGEST}, {len(PIXELS)} bytes]"
    assert restored == message({"type": "text", "text": note})


def test_missing_image_inside_a_tool_result() -> None:
    """Only the innermost content part becomes text."""
    restored = restore(extract(message(PARTS[3]))[0], {})
    note = f"[missing attachment sha256:{DIGEST}, {len(PIXELS)} bytes]"
    assert restored == message({"type": "tool_result", "content": [{"type": "text", "text": note}]})


def test_missing_text_becomes_a_note() -> None:
    """Missing text leaves its part in place; so does what is in no content part at all."""
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    note = f"[missing attachment sha256:{digest}, {len(TEXT.encode())} bytes]"
    assert restore(extract(message(PARTS[4]))[0], {}) == message({"type": "text", "text": note})
    result = {"type": "tool_result", "tool_use_id": "7", "content": TEXT}
    assert restore(extract([result])[0], {}) == [result | {"content": note}]
    assert restore(extract({"plan": TEXT})[0], {}) == {"plan": note}
    assert restore(IMAGE_REF, {}) == IMAGE_REF.note
    assert restore({"type": "state", "image": IMAGE_REF}, {}) == {"type": "state", "image": IMAGE_REF.note}


def test_value_is_not_changed() -> None:
    """Taking parts out leaves the caller's value alone."""
    value = message(PARTS[0])
    extract(value)
    assert value == message(PARTS[0])


def test_value_that_contains_itself() -> None:
    """A circle is refused."""
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(UsageError):
        extract(circle)
