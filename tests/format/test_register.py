"""Registers: what is written is read, a torn end is left out, and any other damage is found."""

import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st
from msgspec import Raw
from msgspec.structs import replace
from tests.session.backends import memory_backend

from treering.errors import CorruptError, FormatVersionError, UsageError
from treering.format.frames import add_check, compress, remove_check, skippable
from treering.format.line import close_line
from treering.format.paths import Marker, latest_key
from treering.format.record import Record, encode_record
from treering.format.register import (
    CARD_BYTES_MAX,
    FIRST_PROMPT_BYTES_MAX,
    Card,
    Lease,
    Tail,
    TailHeader,
    decode_card,
    decode_latest,
    decode_tail,
    encode_latest,
    encode_tail,
    may_be_tombstone,
    one_line,
)

HEADER = TailHeader(session="s", life="l1", base=5, nonce="n0")
CARD = Card(session="s", life="l1", write="w0", title="Title", covers=7, erased=((3, 1), (4, 2)))


def append_lines(at: int, by: str, size: int, text: str = "some words") -> list[bytes]:
    """The lines of one append of `size` records."""
    body = Raw(b'{"text":"' + text.encode() + b'"}')
    return [
        encode_record(Record(at=at + i, by=by, type="node", id=f"n{at + i}", more=i < size - 1, body=body))
        for i in range(size)
    ]


def log_of(sizes: list[int]) -> tuple[bytes, list[list[bytes]]]:
    """A plain tail of appends of these sizes, and the lines of each."""
    groups: list[list[bytes]] = []
    at = HEADER.base
    for number, size in enumerate(sizes):
        groups.append(append_lines(at, f"w.{number}", size))
        at += size
    lines = tuple(line for group in groups for line in group)
    return encode_tail(Tail(header=HEADER, lines=lines), compressed=False), groups


@pytest.mark.parametrize("compressed", [False, True])
def test_the_lease_of_a_tail(*, compressed: bool) -> None:
    """It comes back as it was written; without one the header has no such field, and a wrong one is damage."""
    lease = Lease(number=3, by="w0", holder="pid 1 on \ud800", ttl=30_000, renewed=2)
    for each in (lease, Lease(number=3)):
        data = encode_tail(Tail(header=replace(HEADER, lease=each)), compressed=compressed)
        assert decode_tail(data, key="k", compressed=compressed).header.lease == each
    plain = encode_tail(Tail(header=HEADER), compressed=False)
    assert b"lease" not in plain
    assert b'"lease":{"number":3}' in encode_tail(Tail(header=replace(HEADER, lease=Lease(number=3))), compressed=False)
    body = plain.rpartition(b',"_c":')[0]
    for wrong in (b"3", b'{"number":"3"}', b'{"number":1,"by":null}', b"[]"):
        line = close_line(body + b',"lease":' + wrong + b"}")
        with pytest.raises(CorruptError):
            decode_tail(line, key="k", compressed=False)


@pytest.mark.parametrize("compressed", [False, True])
def test_tail_round_trip(*, compressed: bool) -> None:
    """A tail comes back as it was written, and says where it ends."""
    header = replace(HEADER, epoch=3, erased=((1, 2), (2, 3)), dead=True, session="a\ud800")
    lines = tuple(append_lines(5, "w.0", 2) + append_lines(7, "w.1", 1))
    data = encode_tail(Tail(header=header, lines=lines), compressed=compressed)
    tail = decode_tail(data, key="k", compressed=compressed)
    assert tail == Tail(header=header, lines=lines, complete=len(data))
    assert tail.end == 8


@given(st.lists(st.integers(1, 4), max_size=5))
def test_every_cut_recovers_whole_appends(sizes: list[int]) -> None:
    """A log cut at any byte gives exactly the appends that were written to the end."""
    data, groups = log_of(sizes)
    ends = [data.index(group[-1]) + len(group[-1]) for group in groups]
    start = data.index(b"\n") + 1
    for cut in range(start, len(data) + 1):
        tail = decode_tail(data[:cut], key="k", compressed=False)
        whole = [group for group, end in zip(groups, ends, strict=True) if end <= cut]
        assert list(tail.lines) == [line for group in whole for line in group]
        assert tail.complete == max([start, *[end for end in ends if end <= cut]])


def test_cut_inside_header() -> None:
    """A log is created whole, so one without its whole header line is damaged."""
    data, _ = log_of([1])
    for cut in range(data.index(b"\n") + 1):
        with pytest.raises(CorruptError):
            decode_tail(data[:cut], key="k", compressed=False)


@pytest.mark.parametrize("sizes", [[], [1], [2, 1, 3], [1, 1]])
def test_every_flip_in_a_log_is_found(sizes: list[int]) -> None:
    """No flipped bit of a complete log is taken for a torn end."""
    data, _ = log_of(sizes)
    for place in range(len(data)):
        for bit in range(8):
            bad = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
            with pytest.raises(CorruptError) as caught:
                decode_tail(bad, key="k", compressed=False)
            assert caught.value.key == "k"
            assert caught.value.offset is not None
            assert caught.value.offset <= place


def test_flips_in_a_torn_log_give_no_wrong_data() -> None:
    """With a torn end, a flipped bit is found or lies in the part that does not count."""
    data, groups = log_of([1, 2, 2])
    torn = data[:-30]
    expected = [line for group in groups[:2] for line in group]
    complete = data.index(groups[1][-1]) + len(groups[1][-1])
    for place in range(len(torn)):
        bad = torn[:place] + bytes([torn[place] ^ 1]) + torn[place + 1 :]
        try:
            lines = decode_tail(bad, key="k", compressed=False).lines
        except CorruptError:
            continue
        assert place >= complete
        assert list(lines) == expected


@pytest.mark.parametrize(
    ("start", "length"), [(0, 4096), (100, 512), (100, 4096), (300, 9), (512, 512), (512, 1024), (1024, 512)]
)
def test_hole_in_the_last_append(start: int, length: int) -> None:
    """Blocks of NULs anywhere inside the last append make it torn; what came before stays."""
    data, groups = log_of([2])
    last = b"".join(append_lines(HEADER.base + 2, "w.1", 4, "x" * 300))
    length = min(length, len(last) - start)
    bad = data + last[:start] + b"\0" * length + last[start + length :]
    for torn in (bad, bad[:-1], bad + b"\0" * 5):
        tail = decode_tail(torn, key="k", compressed=False)
        assert list(tail.lines) == groups[0]
        assert tail.complete == len(data)


@pytest.mark.parametrize("by", ["w.1", f"w.{HEADER.base + 2}"])
def test_hole_of_nobody(by: str) -> None:
    """A hole at the beginning of the part after the last whole append is damage: no append can be named for it."""
    data, _ = log_of([2])
    last = b"".join(append_lines(HEADER.base + 2, by, 4, "x" * 300))
    with pytest.raises(CorruptError) as caught:
        decode_tail(data + b"\0" * 512 + last[512:], key="k", compressed=False)
    assert caught.value.offset == len(data)


@pytest.mark.parametrize("start", [0, 512, 1024])
def test_hole_at_the_beginning_of_an_append_that_says_where_it_began(start: int) -> None:
    """A disk writes its sectors in any order: whatever is left of the last append is torn if it began right there."""
    data, groups = log_of([2])
    last = b"".join(append_lines(HEADER.base + 2, f"w.1.{HEADER.base + 2}", 4, "x" * 300))
    for missing in (512, 1024):
        rest = last[:start] + bytes(missing) + last[start + missing :]
        for torn in (rest, rest[:-1], bytes(512) + rest[512:-300]):
            assert list(decode_tail(data + torn, key="k", compressed=False).lines) == groups[0]


def test_hole_before_an_append_that_began_behind_it() -> None:
    """It says that there was another append between it and the complete part: damage."""
    data, _ = log_of([2])
    lost = b"".join(append_lines(HEADER.base + 2, f"w.1.{HEADER.base + 2}", 1, "x" * 600))
    last = b"".join(append_lines(HEADER.base + 3, f"w.2.{HEADER.base + 3}", 2, "x" * 300))
    for torn in (last, last[:-1], last[:100]):
        with pytest.raises(CorruptError):
            decode_tail(data + bytes(len(lost)) + torn, key="k", compressed=False)


def test_damage_before_a_torn_append() -> None:
    """A damaged line is not excused by a torn append, or a hole, behind it."""
    data, groups = log_of([1, 1])
    bad = data.replace(b"words", b"wards")
    assert bad != data
    more = b"".join(append_lines(7, "w.2", 2))
    for torn in (more[:40], more[:-40], b"\0" * 600, b"\0" * 20 + more):
        with pytest.raises(CorruptError):
            decode_tail(bad + torn, key="k", compressed=False)
    assert list(decode_tail(data + b"\0" * 600, key="k", compressed=False).lines) == [*groups[0], *groups[1]]


def test_hole_before_a_good_append() -> None:
    """A hole is damage if a record of another or an unknown append follows it."""
    data, groups = log_of([1, 3, 1])
    first, last = (data.index(group[0]) for group in groups[1:])
    for start in (first, first + 30):
        bad = data[:start] + b"\0" * (last - start) + data[last:]
        with pytest.raises(CorruptError) as caught:
            decode_tail(bad, key="k", compressed=False)
        assert caught.value.offset == first


def test_open_append_before_another() -> None:
    """An append that misses its last record is damaged once another one follows it."""
    lines = append_lines(5, "w.0", 3)[:2] + append_lines(7, "w.1", 1)
    data = encode_tail(Tail(header=HEADER, lines=tuple(lines)), compressed=False)
    with pytest.raises(CorruptError, match="append"):
        decode_tail(data, key="k", compressed=False)


def test_wrong_position() -> None:
    """Positions must follow each other from the base on."""
    lines = tuple(append_lines(6, "w.0", 1))
    for compressed in (False, True):
        data = encode_tail(Tail(header=HEADER, lines=lines), compressed=compressed)
        with pytest.raises(CorruptError, match="position"):
            decode_tail(data, key="k", compressed=compressed)


def test_open_append_in_a_compressed_tail() -> None:
    """A compressed tail is written whole, so an unfinished append in it is damage."""
    data = encode_tail(Tail(header=HEADER, lines=tuple(append_lines(5, "w.0", 2)[:1])), compressed=True)
    with pytest.raises(CorruptError, match="append"):
        decode_tail(data, key="k", compressed=True)


LINES = tuple(append_lines(5, "w.0", 2) + append_lines(7, "w.1", 1))
TAIL = encode_tail(Tail(header=HEADER, lines=LINES), compressed=True)
LATEST = encode_latest(CARD, [b'{"state":1}\n', *LINES])


def read_tail(data: bytes) -> object:
    """Decode a compressed tail."""
    return decode_tail(data, key="k", compressed=True)


def read_latest(data: bytes) -> object:
    """Decode `latest`."""
    return decode_latest(data, key="k")


@pytest.mark.parametrize(("data", "read"), [(TAIL, read_tail), (LATEST, read_latest)], ids=["tail", "latest"])
def test_every_flip_and_cut_of_a_register_is_found(data: bytes, read: Callable[[bytes], object]) -> None:
    """Each flipped bit and each truncation of a compressed register is a CorruptError with key and offset."""
    read(data)
    damaged = [data[:cut] for cut in range(len(data))]
    damaged += [data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :] for i in range(len(data)) for bit in range(8)]
    for bad in damaged:
        with pytest.raises(CorruptError) as caught:
            read(bad)
        assert caught.value.key == "k"
        assert caught.value.offset is not None


@pytest.mark.parametrize(("data", "read"), [(TAIL, read_tail), (LATEST, read_latest)], ids=["tail", "latest"])
def test_something_behind_a_register(data: bytes, read: Callable[[bytes], object]) -> None:
    """Whatever follows a register is damage, even whole frames with a check of their own."""
    checked = remove_check(data, key="k")
    for more in (b"\0", compress(b"{}\n"), skippable(7, b"")):
        with pytest.raises(CorruptError):
            read(data + more)
        with pytest.raises(CorruptError):
            read(add_check(checked + more))


def test_latest_round_trip() -> None:
    """Card and lines come back as they were written."""
    lines = (b'{"state":1}\n', *append_lines(5, "w.0", 2))
    latest = decode_latest(encode_latest(CARD, lines), key="k")
    assert latest.lines == lines
    assert latest.card == replace(CARD, lines=3)


def test_damaged_line_of_erased_positions() -> None:
    """The line of erased positions has a checksum of its own, like every line that is understood here."""
    body = b'{"type":"erased","erased":[[3,1]],"_c":"00000000"}\n'
    front = remove_check(encode_latest(replace(CARD, erased=()), []), key="k")
    with pytest.raises(CorruptError, match="checksum"):
        decode_latest(add_check(front + compress(body)), key="k")


def test_latest_without_lines() -> None:
    """A card alone is a whole register: a session that was just created, or a tombstone."""
    card = replace(CARD, erased=(), dead=True)
    latest = decode_latest(encode_latest(card, []), key="k")
    assert (latest.card, latest.lines) == (card, ())


def test_card_from_first_bytes() -> None:
    """The card is read from the first bytes, however large body and list of erased positions are."""
    card = replace(CARD, title="\ud800", erased=tuple((i, i) for i in range(50_000)), extra={"a": [1, {"b": None}]})
    data = encode_latest(card, [b"{}\n"] * 1000)
    assert len(data) > CARD_BYTES_MAX
    assert decode_card(data[:CARD_BYTES_MAX], key="k") == replace(card, lines=1000, erased=())
    assert decode_latest(data, key="k").card == replace(card, lines=1000)


def test_card_of_longest_id() -> None:
    """An id of 2,000 characters of four bytes fits into a card."""
    session = "".join(chr(0x1F300 + i * 7919 % 0x2FF) for i in range(2000))
    data = encode_latest(Card(session=session, life="l", write="w"), [])
    assert decode_card(data[:CARD_BYTES_MAX], key="k").session == session


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    st.text("0123456789abcdef", min_size=12, max_size=12),
    st.text("ghijklmnopqrstuv", max_size=40),
)
def test_a_tombstone_is_known_by_its_size(name: str, nonce: str, folder: str) -> None:
    """No tombstone is larger than what may be one, whatever the name of its session."""
    marker = Marker.of(10**12, folder, nonce + folder, nonce).text
    card = Card(session=name, life=nonce[::-1], write=nonce[3:] + nonce[:3], updated=10**13, marker=marker, dead=True)
    assert may_be_tombstone(len(encode_latest(card, ())), name)


def test_a_session_is_known_by_its_size() -> None:
    """What is created under a usual name is larger than any tombstone."""
    backend = memory_backend()
    for name in ("a", "7d1c7f0e-6a51-4a3e-b5b4-0f2a3c9d8e11", "fix-login"):
        backend.store().session(name).append("x")
        assert not may_be_tombstone(len(backend.snapshot()[latest_key("", name)]), name)


def test_large_card_refused() -> None:
    """A card that a listing could not read is refused, naming the field to shorten."""
    title = "".join(chr(0x4E00 + i * 7919 % 20_000) for i in range(6000))
    with pytest.raises(UsageError, match="longest='title'"):
        encode_latest(replace(CARD, title=title), [])


@pytest.mark.parametrize("line", [b"{}", b"{}\n{}\n", b"\n{}\n", b""])
def test_lines_must_be_lines(line: bytes) -> None:
    """What would come back as more or fewer lines is refused."""
    with pytest.raises(UsageError, match="line"):
        encode_latest(CARD, [b"{}\n", line])


def test_first_lines() -> None:
    """The version stands first, then what the line is."""
    assert encode_tail(Tail(header=HEADER), compressed=False).startswith(b'{"treering":1,"type":"tail","session":"s"')


@pytest.mark.parametrize("version", [2, 10**30])
def test_newer_version(version: int) -> None:
    """A newer version is recognised, even if everything after its first line has changed."""
    line = close_line(b'{"treering":%d,"type":[7],"session":{"name":"s"}}' % version)
    for data in (line, line + b"\xff\0 binary"):
        with pytest.raises(FormatVersionError) as caught:
            decode_tail(data, key="k", compressed=False)
        assert caught.value.key == "k"
    with pytest.raises(FormatVersionError):
        decode_tail(compress(line) + b"new", key="k", compressed=True)
    with pytest.raises(FormatVersionError):
        decode_latest(compress(line) + b"new", key="k")
    with pytest.raises(FormatVersionError):
        decode_card(compress(line) + b"new", key="k")


@pytest.mark.parametrize(
    "first", [b'{"treering":0}', b'{"treering":"1"}', b'{"a":1}', b"[1]", b'{"treering":1}', b'{"treering":true}']
)
def test_first_line_without_sense(first: bytes) -> None:
    """A first line with a right checksum, but without version or fields, is damage."""
    line = first[:-1] + b',"_c":"%08x"}\n' % zlib.crc32(first[:-1])
    for read in (lambda: decode_tail(line, key="k", compressed=False), lambda: decode_card(compress(line), key="k")):
        with pytest.raises(CorruptError):
            read()


def test_version_below_the_first() -> None:
    """A header that is right but for its version, which never was, is damage."""
    line = encode_tail(Tail(header=HEADER), compressed=False)
    for version in (b"0", b"-1"):
        fields = line.replace(b'"treering":1', b'"treering":' + version)[: -len(b',"_c":"00000000"}\n')]
        with pytest.raises(CorruptError, match="version"):
            decode_tail(close_line(fields + b"}"), key="k", compressed=False)


def test_empty_register() -> None:
    """No bytes are damage, never an empty session."""
    for read in (
        lambda: decode_tail(b"", key="k", compressed=False),
        lambda: decode_tail(b"", key="k", compressed=True),
        lambda: decode_latest(b"", key="k"),
        lambda: decode_card(b"", key="k"),
    ):
        with pytest.raises(CorruptError):
            read()


def test_registers_are_not_taken_for_each_other() -> None:
    """A tail in the place of `latest`, or the reverse, is damage."""
    with pytest.raises(CorruptError):
        decode_card(TAIL, key="k")
    with pytest.raises(CorruptError):
        decode_tail(LATEST, key="k", compressed=True)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("fix\n  the\ttest ", "fix the test"),
        ("x" * 300, "x" * FIRST_PROMPT_BYTES_MAX),
        ("é" * 150, "é" * 100),
        ("a" + "é" * 150, "a" + "é" * 99),
        ("\ud800a", "?a"),
        ("", ""),
        (" " * 5000 + "late", "late"),
    ],
)
def test_one_line(text: str, line: str) -> None:
    """A first prompt becomes one line, cut between characters."""
    assert one_line(text) == line
