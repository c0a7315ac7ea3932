import re
import unicodedata

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from treering.errors import UsageError
from treering.format.paths import (
    DAY_MS,
    NAME_CHARS_MAX,
    Marker,
    SegmentName,
    SessionKeys,
    decode_id,
    encode_id,
    is_latest,
    marker_key,
    namespace_prefix,
    owner_of,
    parse_marker,
    parse_segment,
    recent_until,
    session_of_latest,
)

identifiers = st.text(st.characters(), min_size=1, max_size=60)  # lone surrogates included
tricky = st.lists(
    st.sampled_from(["org", "/", ".", "..", "=", "=h", "A", "a", "con", "\0", "é", "e\u0301", "42"]), min_size=1
)


@given(identifiers | tricky.map("".join))
@example("..")
@example("a" * 2000)
@example("\U0001f600" * 2000)
@example("\ud800")
def test_names_are_safe(identifier: str) -> None:
    """A name is short lower-case ASCII that every file system takes as it is."""
    name = encode_id(identifier)
    assert re.fullmatch(r"[a-z0-9_=-]([a-z0-9_=.-]*[a-z0-9_=-])?", name)
    assert len(name) <= NAME_CHARS_MAX
    assert name == unicodedata.normalize("NFC", name) == unicodedata.normalize("NFD", name)
    assert name.split(".")[0] not in {
        "con",
        "prn",
        "aux",
        "nul",
        *(f"{d}{n}" for d in ("com", "lpt") for n in range(10)),
    }


@given(identifiers | tricky.map("".join))
def test_names_are_reversible(identifier: str) -> None:
    """A name gives back its string, unless it had to be hashed."""
    name = encode_id(identifier)
    assert decode_id(name) == (None if name.startswith("=h") else identifier)


@given(tricky.map("".join) | identifiers, tricky.map("".join) | identifiers)
@example("Org", "org")
@example("é", "e\u0301")
@example("=h", "=H")
@example("a" * 2000, "a" * 2001)
def test_names_differ(one: str, other: str) -> None:
    """Different strings have names that differ in more than case."""
    assert (encode_id(one).casefold() == encode_id(other).casefold()) == (one == other)


@given(st.text(st.sampled_from("=0123456789abcdefh.c"), max_size=8))
def test_only_own_names_are_decoded(name: str) -> None:
    """A name that the encoder never returns is decoded to None, so no string has two names."""
    if (identifier := decode_id(name)) is not None:
        assert encode_id(identifier) == name


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        ("fix-login_2.0", "fix-login_2.0"),
        ("org/42", "org=2f42"),
        ("..", "=2e=2e"),
        (".hidden", "=2ehidden"),
        ("a.", "a=2e"),
        ("con", "=63on"),
        ("com1.txt", "=63om1.txt"),
        ("Con", "=43on"),
        ("console", "console"),
        ("\0", "=00"),
        ("é", "=c3=a9"),
        ("a" * 120, "a" * 120),
    ],
)
def test_examples(identifier: str, name: str) -> None:
    """Names of known strings stay as they are for ever."""
    assert encode_id(identifier) == name
    assert decode_id(name) == identifier


def test_long_names_are_hashed() -> None:
    """One character beyond the limit, a name is the hash, and cannot be decoded."""
    name = encode_id("a" * (NAME_CHARS_MAX + 1))
    assert re.fullmatch("=h[0-9a-f]{64}", name)
    assert decode_id(name) is None


def test_empty_id_refused() -> None:
    """The empty string has no name."""
    with pytest.raises(UsageError):
        encode_id("")
    assert decode_id("") is None


@pytest.mark.parametrize("prefix", ["", "ns/team/", "ns/sessions/", "ns/latest/", "ns/ns/ns/sessions/"])
@pytest.mark.parametrize("session", ["s", "latest", "sessions", "segments", "ns", "tail"])
def test_a_key_names_its_owner_whatever_the_session_is_called(prefix: str, session: str) -> None:
    """Names of folders are names of sessions and namespaces, too; other objects of a session name no owner."""
    for appends in (False, True):
        keys = SessionKeys(prefix, session, appends=appends)
        assert (owner_of(keys.latest), owner_of(keys.tail), owner_of(keys.hold)) == (session, session, "")
        assert owner_of(keys.segment("1f", SegmentName(0, 12, 3, "00ab"))) == f"{session}/1f"
        assert owner_of(keys.blob("1f", "00ff")) == ""


def test_session_keys() -> None:
    """All keys of a session, as the specification lists them."""
    keys = SessionKeys(namespace_prefix(namespace_prefix("", "team"), "User"), "a/b", appends=False)
    start = "ns/team/ns/=55ser/"
    assert keys.latest == start + "latest/a=2fb.jsonl.zst"
    assert keys.tail == start + "sessions/a=2fb/tail.jsonl.zst"
    assert msgspec.structs.replace(keys, appends=True).tail == start + "sessions/a=2fb/tail.jsonl"
    assert keys.hold == start + "sessions/a=2fb/hold"
    assert keys.folder("1f") == start + "sessions/a=2fb/1f/"
    assert keys.blob("1f", "00ff") == start + "sessions/a=2fb/1f/blobs/00ff"
    name = SegmentName(0, 12, 3, "00ab")
    key = start + "sessions/a=2fb/1f/segments/000000000000-000000000012-000003-00ab.jsonl.zst"
    assert keys.segment("1f", name) == key
    assert key.startswith(keys.segments("1f"))
    assert parse_segment(key) == name


@given(
    st.integers(0, 10**13), st.integers(1, 10**13), st.integers(0, 10**7), st.from_regex("[0-9a-z]+", fullmatch=True)
)
def test_segment_names_round_trip(first: int, rows: int, epoch: int, unique: str) -> None:
    """A segment's name says what was put in, also beyond the usual number of digits."""
    name = SegmentName(first, first + rows, epoch, unique)
    assert parse_segment(SessionKeys("", "s", appends=True).segment("l", name)) == name


@pytest.mark.parametrize(
    "file",
    [
        "",
        "notes.txt",
        "000000000000-000000000012-000003-00ab.jsonl",
        "000000000012-000000000012-000003-00ab.jsonl.zst",
        "000000000013-000000000012-000003-00ab.jsonl.zst",
        "0000000000000-000000000012-000003-00ab.jsonl.zst",
        "00000000000-000000000012-000003-00ab.jsonl.zst",
        "000000000000-000000000012-000003-00AB.jsonl.zst",
        "000000000000-000000000012-000003-00ab.jsonl.zst.tmp",
        "\u066000000000000-000000000012-000003-00ab.jsonl.zst",
    ],
)
def test_foreign_files_are_no_segments(file: str) -> None:
    """Whatever else lies beside segments is not taken for one."""
    assert parse_segment("sessions/s/l/segments/" + file) is None


def test_session_of_latest() -> None:
    """Only keys directly below `latest/` of the same namespace name sessions."""
    assert session_of_latest("latest/a=2fb.jsonl.zst") == "a=2fb"
    assert session_of_latest("ns/t/latest/a.jsonl.zst", "ns/t/") == "a"
    assert session_of_latest("ns/t/latest/a.jsonl.zst") is None
    assert session_of_latest("latest/x/a.jsonl.zst") is None
    assert session_of_latest("latest/a.txt") is None
    assert session_of_latest("latest/.jsonl.zst") is None


@pytest.mark.parametrize("key", ["latest/a.jsonl.zst", "ns/t/latest/a.jsonl.zst", "ns/latest/ns/ns/latest/a.jsonl.zst"])
def test_is_latest(key: str) -> None:
    """Keys of cards are told from others, in a namespace and those below it."""
    assert is_latest(key, "")
    assert is_latest(f"ns/ns/{key}", "ns/ns/")
    assert not is_latest(key, "ns/other/")
    for other in (
        "",
        f"x{key}",
        f"latest/{key}",
        f"sessions/{key}",
        key.removesuffix(".zst"),
        f"ns/{key}",
        f"ns//{key}",
    ):
        assert not is_latest(other, "")


# markers

times = st.integers(-10, 100_001 * DAY_MS)
places = st.sampled_from(["", "shop", "\udc80"])
marks = st.builds(Marker.of, times, places, places, st.text("0123456789abcdef", min_size=1, max_size=12))
"""Markers as they are made now."""


def early(marker: Marker) -> Marker:
    """The marker that an early version would have made."""
    return msgspec.structs.replace(marker, ms=marker.ms // DAY_MS * DAY_MS + DAY_MS - 1, timed=False)


@given(identifiers | tricky.map("".join), marks | marks.map(early))
@example("12345678.a", Marker.of(0, "", "", "0"))
@example("-", early(Marker.of(5 * DAY_MS, "shop", "", "f")))
def test_a_marker_is_read_from_its_key_and_from_its_card(identifier: str, marker: Marker) -> None:
    """Both kinds, under any name."""
    name = encode_id(identifier)
    key = marker_key("ns/a/", name, marker.text)
    assert parse_marker(key, "ns/a/") == (name, marker)
    assert parse_marker(key, "") is None
    assert Marker.parse(marker.text) == marker
    assert len(key.rpartition("/")[2]) < 200


@given(identifiers, marks, identifiers, marks)
@example("a", Marker.of(DAY_MS - 1, "", "", "0"), "zz", Marker.of(DAY_MS - 1, "", "", "0"))
@example("a", Marker.of(10**15, "", "", "0"), "zz", Marker.of(10**15, "", "", "0"))
@example("a", Marker.of(DAY_MS, "", "", "0"), "zz", Marker.of(DAY_MS - 1, "", "", "0"))
def test_the_keys_of_markers_are_in_the_order_of_their_times(one: str, left: Marker, two: str, right: Marker) -> None:
    """The newest first; those of early versions before all others of their day."""
    keys = [marker_key("", encode_id(name), mark.text) for name, mark in ((one, left), (two, right))]
    if left.ms != right.ms:
        assert (keys[0] < keys[1]) == (left.ms > right.ms)
    assert (recent_until("", right.ms) < keys[0]) == (left.ms <= right.ms)
    old = marker_key("", encode_id(two), early(right).text)
    assert (recent_until("", left.ms) < old) == (early(right).ms <= left.ms)
    assert recent_until("", 10**15) < min(keys)
    assert (keys[0] < old) == (left.ms // DAY_MS > right.ms // DAY_MS)


@given(st.text("0123456789abcdef./=!") | st.text())
def test_texts_that_are_no_marker_are_none(text: str) -> None:
    """In cards and below `recent/`; whatever a card names has a key, so that it can be deleted."""
    parsed = Marker.parse(text)
    assert parsed is None or parsed.ms >= 0
    found = parse_marker(f"recent/{text}", "")
    assert found is None or marker_key("", found[0], found[1].text) == f"recent/{text}"
    assert marker_key("", "s", text).startswith("recent/")
