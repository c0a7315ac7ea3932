"""JSON values out of damaged files."""

from __future__ import annotations

import gzip
import io
import json
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from treering.format import values
from treering.importers import lines
from treering.importers.lines import Value, read_values

Report = tuple[int, int, str, str]


def read(data: bytes) -> tuple[list[Value], list[Report]]:
    """Return the values and the problems of a file; the bytes in which there are none are looked at elsewhere."""
    problems: list[Report] = []
    found = read_values(io.BytesIO(data), lambda *problem: problems.append(problem), is_record)
    return [value for value in found if not value.damage], problems


def is_record(value: dict[str, Any]) -> bool:
    """Tell a record from a piece of one."""
    return "record" in value


def plain(data: bytes) -> list[object]:
    """Return the bare values of a file."""
    return [value.value for value in read(data)[0]]


def kinds(data: bytes) -> list[str]:
    """Return the kinds of problems of a file."""
    return [kind for _, _, kind, _ in read(data)[1]]


def test_values_come_with_line_and_offset() -> None:
    """Each value tells its line, counted from 1, and the byte at which it begins."""
    found, problems = read(b'{"a":1}\n\n  {"b":2}\r\n[3]')
    assert [(value.value, value.line, value.offset, value.intact) for value in found] == [
        ({"a": 1}, 1, 0, True),
        ({"b": 2}, 3, 11, True),
        ([3], 4, 20, True),
    ]
    assert problems == []


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\r"])
def test_only_the_line_feed_ends_a_line(separator: str) -> None:
    """Characters that some readers break lines at stay inside their string."""
    text = json.dumps({"text": f"a{separator}b"}, ensure_ascii=separator < " ").encode()
    assert plain(text + b"\n") == [{"text": f"a{separator}b"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"x\ud83d y"', "x\ud83d y"),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"9007199254740993", 9007199254740993),
        (b"1e400", math.inf),
        (b"1E+21", 1e21),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_what_javascript_writes_is_no_damage(text: bytes, value: object) -> None:
    """Lone surrogates and numbers out of range are read as they are, without a word."""
    assert plain(text) == [value]
    assert kinds(text) == []


def test_invalid_utf8_is_replaced_and_reported() -> None:
    """Bytes that are not UTF-8 become U+FFFD; the record is kept and its place named."""
    found, problems = read(b'{"ok":1}\n{"text":"caf\xe9"}\n')
    assert found[1].value == {"text": "caf\ufffd"}
    assert [problem[:3] for problem in problems] == [(2, 9, "utf8")]


def test_a_byte_order_mark_is_passed_over() -> None:
    """A mark before the first record is reported and hides nothing; the record counts as intact."""
    found, problems = read(b'\xef\xbb\xbf{"a":1}\n')
    assert [(value.value, value.offset, value.intact) for value in found] == [({"a": 1}, 3, True)]
    assert [problem[2] for problem in problems] == ["bom"]


def test_nul_bytes_cost_nothing_but_themselves() -> None:
    """A run of NUL bytes before or behind a record, or on a line of its own, leaves every record."""
    found, problems = read(b'\0\0\0{"a":1}\n{"b":2}\0\0\n\0\0\0\0\n{"c":3}\n')
    assert [value.value for value in found] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert [value.intact for value in found] == [False, False, True]
    assert [problem[:3] for problem in problems] == [(1, 0, "nul"), (2, 11, "nul"), (3, 21, "nul")]


def test_glued_records_are_taken_apart() -> None:
    """Records that lost the line break between them are read one by one, none of them as intact."""
    found, problems = read('{"record":"é"}{"record":2} {"record":3}\n{"record":4}'.encode())
    assert [value.value["record"] for value in found] == ["é", 2, 3, 4]
    assert [(value.offset, value.intact) for value in found] == [(0, False), (15, False), (28, False), (41, True)]
    assert [problem[:3] for problem in problems] == [(1, 15, "glued"), (1, 28, "glued")]


def test_a_torn_record_does_not_take_the_next_one_with_it() -> None:
    """What was cut off is reported with its first bytes; the record written behind it is read."""
    found, problems = read(b'{"record":1,"text":"hel{"record":2}\n')
    assert [value.value for value in found] == [{"record": 2}]
    assert problems == [
        (1, 0, "torn", 'this is no complete record, skipped. bytes=23, text=\'{"record":1,"text":"hel\'')
    ]


def test_pieces_of_a_torn_record_are_no_records() -> None:
    """Complete objects inside a torn record stay out, however complete they are."""
    assert plain(b'{"record":1,"content":[{"type":"text","text":"a"},{"type":"te') == []


def test_offsets_behind_invalid_bytes_are_those_of_the_file() -> None:
    """Bytes that are not UTF-8 do not shift the places of what follows them on the line."""
    data = b'\xff\xfe{"record":1}\xff\xff\xff{"record":2}'
    assert [data[value.offset :][:11] for value in read(data)[0]] == [b'{"record":1', b'{"record":2']


@pytest.mark.parametrize("line", [b"%%%", b"{", b'{"a":1', b'{"a":}', b"nul", b'"x', b"{'a':1}", b"\xef\xbb"])
def test_garbage_is_reported_and_passed_over(line: bytes) -> None:
    """A line that is no JSON gives nothing but one report; the lines around it are read."""
    found, problems = read(b'{"a":1}\n' + line + b'\n{"b":2}\n')
    assert [value.value for value in found] == [{"a": 1}, {"b": 2}]
    assert [(number, offset) for number, offset, _, _ in problems] == [(2, 8)]


def test_deep_parts_become_text() -> None:
    """Parts too deep to be stored are kept as JSON text; the result can be stored and nothing is lost."""
    depth = lines.DEPTH_MAX + 30
    found, problems = read(b'{"record":' + b"[" * depth + b"1" + b"]" * depth + b"}")
    assert [kind for _, _, kind, _ in problems] == ["nesting"]
    assert values.decode(values.encode(found[0].value)) == found[0].value
    inner: Any = found[0].value
    for _ in range(lines.DEPTH_MAX):
        inner = inner["record"] if isinstance(inner, dict) else inner[0]
    assert json.loads(inner) == json.loads("[" * 31 + "1" + "]" * 31)


def test_what_is_within_the_depth_is_left_alone() -> None:
    """The deepest record that fits is not touched, and neither is a wide one with many brackets."""
    depth = lines.DEPTH_MAX - 1
    text = b'{"record":' + b"[" * depth + b"]" * depth + b"}"
    wide = b'{"record":[' + b",".join([b"[]"] * 1000) + b"]}"
    assert plain(text + b"\n" + wide) == [json.loads(text), json.loads(wide)]
    assert kinds(text + b"\n" + wide) == []


def test_a_record_beyond_the_stack_is_skipped() -> None:
    """JSON nested deeper than any parser goes is reported, and the next line is read."""
    assert plain(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n[1]\n") == [[1]]
    assert kinds(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n[1]\n") == ["nesting"]


def test_a_hostile_line_is_given_up() -> None:
    """A line is searched for records until it failed as often as a torn record can, and then left."""
    tear = b'{"a":!'
    assert plain(tear * (lines.TEARS_MAX - 1) + b'{"record":1}') == [{"record": 1}]
    assert plain(tear * lines.TEARS_MAX + b'{"record":1}\n[1]') == [[1]]


def test_a_line_without_end_is_skipped_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the limit is reported with its length, and reading goes on behind it."""
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 64)
    monkeypatch.setattr(lines, "_READ_BYTES", 16)
    found, problems = read(b'["' + b"x" * 200 + b'"]\n[1]\n')
    assert [(value.value, value.line, value.offset) for value in found] == [([1], 2, 205)]
    assert problems == [(1, 0, "too_long", "line is too long, skipped. bytes=205, max=64")]


def test_a_line_at_the_limit_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest line that is allowed comes whole."""
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 10)
    assert plain(b'["123456"]\n["12345"]\n[1]') == [["12345"], [1]]


@pytest.mark.parametrize("cut", [20, 200, 400])
def test_a_cut_gzip_file_gives_what_can_be_read(cut: int) -> None:
    """The records before the cut are read and the cut is reported."""
    data = b"".join(json.dumps({"n": number, "text": str(number) * 20}).encode() + b"\n" for number in range(200))
    problems: list[Report] = []
    stream = gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data)[:cut]))
    found = [value.value for value in read_values(stream, lambda *problem: problems.append(problem), is_record)]
    assert found == [json.loads(line) for line in data.splitlines()][: len(found)]
    assert (len(found) > 10) == (cut > 100)
    assert problems[-1][2] == "gzip"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
records = st.builds(lambda value, name: {"record": name, "value": value}, json_values, st.integers(0, 10**6))


@given(st.lists(records, max_size=6))
def test_undamaged_lines_come_back(found: list[dict[str, object]]) -> None:
    """Whatever JSON was written is read, in order and without a report."""
    data = b"".join(json.dumps(record).encode() + b"\n" for record in found)
    assert plain(data) == found
    assert kinds(data) == []


@given(st.lists(records, min_size=1, max_size=6), st.data())
def test_damage_on_one_line_leaves_the_others(found: list[dict[str, object]], data: st.DataObject) -> None:
    """However one line is overwritten, all the others are read."""
    texts = [json.dumps(record).encode() for record in found]
    bad = data.draw(st.integers(0, len(texts) - 1))
    start = data.draw(st.integers(0, len(texts[bad])))
    junk = data.draw(st.binary(max_size=30)).replace(b"\n", b"")
    texts[bad] = texts[bad][:start] + junk + texts[bad][data.draw(st.integers(start, len(texts[bad]))) :]
    by_line = {value.line: value.value for value in read(b"\n".join(texts))[0]}
    for number, record in enumerate(found):
        assert number == bad or by_line[number + 1] == record


@given(st.lists(records, min_size=2, max_size=4), st.data())
def test_a_torn_record_before_others_costs_only_itself(found: list[dict[str, object]], data: st.DataObject) -> None:
    """Wherever a record is cut, inside an escape or a character, those right behind it are read."""
    first = json.dumps(found[0], ensure_ascii=data.draw(st.booleans())).encode("utf-8", "replace")
    rest = b"".join(json.dumps(record).encode() for record in found[1:])
    assert plain(first[: data.draw(st.integers(1, len(first) - 1))] + rest) == found[1:]
