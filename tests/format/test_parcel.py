"""Parcels: what is written is read, any damage is found, and their names are told from their keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from treering.errors import CorruptError, FormatVersionError, UsageError
from treering.format import frames, parcel
from treering.format.frames import add_check, compress
from treering.format.line import close_line
from treering.format.parcel import ParcelHeader, decode_header, decode_parcel, encode_parcel
from treering.format.paths import namespace_prefix, parcel_folder, parcel_key, parcel_of
from treering.storage import rules
from treering.storage.requests import Get

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "format.md"
WRITE = "00ff00ff00ff"
CONTENT = b'{"messages": []}'

parts = st.text(st.characters(exclude_characters="/"), min_size=1, max_size=30)  # lone surrogates included
names = st.lists(parts | st.sampled_from(["a", "A", "..", ".", "=.zst", "=h", "x" * 200]), min_size=1, max_size=4).map(
    "/".join
)


@given(names, st.binary(max_size=300))
def test_round_trip(name: str, content: bytes) -> None:
    """A parcel comes back as it was written, also an empty one."""
    try:
        data = encode_parcel(name, content, write=WRITE)
    except UsageError:
        assert re.search("[\ud800-\udbff][\udc00-\udfff]", name)
        return
    found = decode_parcel(data, key="k")
    assert found.content == content
    assert found.header == ParcelHeader(name=name, size=len(content), write=WRITE) == decode_header(data, key="k")


def test_every_flipped_bit_and_missing_byte_is_found() -> None:
    """No parcel that was damaged is read as another one."""
    data = encode_parcel("a/b", CONTENT * 3, write=WRITE)
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            with pytest.raises(CorruptError):
                decode_parcel(bytes(changed), key="k")
        with pytest.raises(CorruptError):
            decode_parcel(data[:place], key="k")


def test_a_size_that_lies_is_found() -> None:
    """Content of another size than the first line says is damage, whatever the checksums say."""
    front = compress(close_line(b'{"treering":1,"type":"parcel","name":"a","size":5,"write":"w"}'))
    for content in (b"", compress(b"1234"), compress(b"123456")):
        with pytest.raises(CorruptError, match="another size"):
            decode_parcel(add_check(front + content), key="k")


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read again is not written, and what declares too much is not unpacked."""
    large = encode_parcel("a", bytes(2000), write=WRITE)
    monkeypatch.setattr(parcel, "PARCEL_BYTES_MAX", 1999)
    with pytest.raises(UsageError, match="too large"):
        encode_parcel("a", bytes(2000), write=WRITE)
    with pytest.raises(CorruptError, match="too large"):
        decode_parcel(large, key="k")
    with pytest.raises(UsageError, match="too long"):
        encode_parcel("x" * 4097, b"", write=WRITE)


def test_the_front_is_enough_for_the_header() -> None:
    """However long a name becomes as JSON, the first bytes of the parcel hold it."""
    for character in ("\0", "\ud800", "\x7f", "\U0001f600"):
        name = character * (parcel.NAME_BYTES_MAX // len(character.encode("utf-8", "surrogatepass")))
        data = encode_parcel(name, bytes(range(256)) * 200, write=WRITE)
        assert decode_header(data[: parcel.FRONT_BYTES_MAX], key="k").name == name


def test_a_newer_version_is_refused() -> None:
    """A parcel of a later version is not guessed at."""
    line = close_line(b'{"treering":2,"type":"parcel","what":"ever"}')
    with pytest.raises(FormatVersionError):
        decode_parcel(compress(line) + b"anything", key="k")


@given(names)
def test_keys_tell_names(name: str) -> None:
    """A key gives back the name of its parcel, unless a part of it was hashed."""
    prefix = namespace_prefix("", "team")
    key = parcel_key(prefix, name)
    assert parcel_of(key, prefix) == ("" if "=h" in re.sub("=[0-9a-f]{2}", "", key) else name)
    assert parcel_of(key, "") is None
    assert key.startswith(parcel_folder(prefix, name[: name.rfind("/") + 1]))


@given(names, names)
def test_no_parcel_lies_where_another_needs_a_folder(one: str, other: str) -> None:
    """On a disk, no key of a parcel is the folder of another, and different names have different keys."""
    first, second = parcel_key("", one), parcel_key("", other)
    assert not second.startswith(f"{first}/")
    assert (first == second) == (one == other)


@given(names)
def test_keys_are_taken_by_every_driver(name: str) -> None:
    """Keys of short names are legal, whatever characters the names are made of, and none is that of a log."""
    key = parcel_key("", name)
    assert len(key) > rules.KEY_BYTES_MAX or rules.refusal(Get(key), appends=True) is None
    assert not rules.is_log(key)


@pytest.mark.parametrize("name", ["", "/", "a/", "/a", "a//b"])
def test_empty_parts_are_refused(name: str) -> None:
    """Each part of a name has at least one character."""
    with pytest.raises(UsageError):
        parcel_key("", name)


@pytest.mark.parametrize(
    "key",
    [
        "parcels/a.zst", "parcels/a", "parcels/=.zst", "parcels/A=.zst", "parcels/a/=.zst", "parcels/a=2fb=.zst",
        "latest/a=.zst", "parcels/=h00=.zst", "ns/t/parcels/a=.zst", "parcels/x/b=.zst.tmp",
    ],
)  # fmt: skip
def test_foreign_files_are_no_parcels(key: str) -> None:
    """Whatever else lies among parcels is not taken for one."""
    assert parcel_of(key, "") is None


def section() -> str:
    """What the page says about parcels."""
    return PAGE.read_text().split("## Parcels\n", 1)[1].split("\n## ", 1)[0]


def test_the_example_on_the_page() -> None:
    """The example on the page is what the code writes, and where."""
    shown = re.search(r"<!-- example: parcel -->\n\n```json\n(.*?)```", section(), re.DOTALL)
    assert shown
    key, content = parcel_key("", "session/Org 42/snapshot_latest.json"), CONTENT + b"\n"
    data = encode_parcel("session/Org 42/snapshot_latest.json", content, write=WRITE)
    assert shown[1] == frames.decompress(data, key="k", bytes_max=1000).decode()
    assert f"`{key}`" in section()


def test_the_page_knows_fields_and_limits() -> None:
    """Every field of the first line and every limit is on the page."""
    for field in ParcelHeader.__struct_fields__:
        assert f"| `{field}`" in section()
    limits = PAGE.read_text().split("## Limits\n", 1)[1].split("\n## ", 1)[0]
    for limit in (parcel.PARCEL_BYTES_MAX, parcel.NAME_BYTES_MAX, parcel.FRONT_BYTES_MAX):
        assert f"| {limit:,} " in limits
