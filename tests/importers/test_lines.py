"""JSON values out of damaged files."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from treering.format import values
from treering.programs.common import lines
from treering.programs.common.lines import Value, read_values

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
        (b'{"n":' + b"1" * 5000 + b"}", {"n": math.inf}),
        (b'{"n":[-' + b"1" * 5000 + b"]}", {"n": [-math.inf]}),
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
    assert [value.value for value in found] == [{"record": record} for record in ("é", 2, 3, 4)]
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


INSIDE = [
    (b'{"record":1,"data":{"record":2},"te', "cut behind an object"),
    (b'{"record":1,"data":{"record":2}', "cut right behind an object"),
    (b'{"record":1,"data":[{"record":2},{"record":3}', "cut in a list"),
    (b'{"record":1,"data":{"inner":{"record":2},"more":[', "cut two levels below"),
    (b'{"record":1,"bad":nope,"data":{"record":2}}', "a value is no JSON"),
    (b'{"record":1,"bad":"a\x01b","data":{"record":2}}', "a text has a character in it that it may not have"),
    (b'ost","data":{"record":2},"more":1}', "the beginning is lost"),
    (b'ost","data":[{"record":2} , {"record":3}]}', "the beginning is lost, before a list"),
    (b'{"record":2},"more":1}', "the beginning is lost, right up to an object"),
    (b'{"record":2}]}', "the beginning is lost, up to the end of a list"),
    (b'ost","data":{"inner":{"record":2},"te', "beginning and end are lost"),
    (b'[{"record":1},{"record":2}', "a list that is cut off"),
]


@pytest.mark.parametrize("data", [data for data, _ in INSIDE], ids=[name for _, name in INSIDE])
def test_no_record_is_taken_from_inside_of_another(data: bytes) -> None:
    """What is inside of a damaged record is none, however complete it is; all bytes of it are kept as damage."""
    found = [*read_values(io.BytesIO(data), lambda *_: None, is_record)]
    assert [(value.value, value.raw) for value in found] == [(None, data)]


BEHIND = [
    b'{"record":1,"text":"hel', b'{"record":1,"text":"note:', b'{"record":1,"text":"a, ', b'{"record":1,"te', b"{",
    b'{"record":1,"text":"caf\xc3', b'{"record":1,"text":"a\\', rb'{"record":1,"text":"a\u00', b'{"record"',
    b'{"record":1', b'{"record":1,', b'{"record":1, ', b'{"record":tr', b'{"record":1,"data":[{"record":3}',
    b'{"record":1,"data":{"record":3},', b'{"record":1,"text":"hel\0\0\0', b'{"record":1,"data":{"record":3},"x":"',
    b'ost","data":{"record":3}}', b'ost","data":{"record":3},"te":"x',
]  # fmt: skip
"""Where a record can be cut off so that the next one on its line is told from what is inside of it."""


@pytest.mark.parametrize("torn", BEHIND)
@pytest.mark.parametrize("record", [b'{"record":2}', b'{ "record":2}', b' {"record":2} '])
def test_a_record_behind_a_torn_one_is_read(torn: bytes, record: bytes) -> None:
    """No JSON could have it there, so it is none that is inside of the torn one; of that nothing is read."""
    found, problems = read(torn + record)
    assert [value.value for value in found] == [{"record": 2}]
    assert [kind for _, _, kind, _ in problems if kind != "nul"] in (["torn"], ["garbage"])


@pytest.mark.parametrize("torn", [b'{"record":1,"data":', b'{"record":1,"data":[', b'{"record":1,"data":[3,'])
def test_a_record_where_a_value_is_due_is_kept_as_damage(torn: bytes) -> None:
    """It may as well be inside of the torn one; whole records behind it are read."""
    data = torn + b'{"record":2}'
    found = [*read_values(io.BytesIO(data + b'{"record":3}\n{"record":4}'), lambda *_: None, is_record)]
    assert [value.value or value.raw for value in found] == [data, {"record": 3}, {"record": 4}]


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


@pytest.mark.parametrize("tear", [b'{"a":!', b'{"a":"', b'{"a', b'{"a":[{', b'{{"a":"'])
def test_a_hostile_line_costs_no_more_than_its_length(monkeypatch: pytest.MonkeyPatch, tear: bytes) -> None:
    """However many torn records stand on a line, each byte is read some few times, and what follows them is read."""
    scanned: list[int] = []

    class Counting(json.JSONDecoder):
        def raw_decode(self, text: str, idx: int = 0) -> tuple[Any, int]:
            try:
                value, end = super().raw_decode(text, idx)
            except json.JSONDecodeError as error:
                scanned.append(error.pos - idx)
                raise
            scanned.append(end - idx)
            return value, end

    monkeypatch.setattr(lines, "_scanner", Counting())
    data = tear * 2000 + b'!{"record":1}'
    assert plain(data) == [{"record": 1}]
    assert sum(scanned) <= 2 * len(data)


def test_what_is_nested_deeper_than_any_parser_goes_ends_the_search() -> None:
    """Behind it no record is looked for on the same line: each level would be tried anew."""
    deep = b'{"a":' * 100_000
    assert plain(b'{"record":1}' + deep + b'{"record":2}\n{"record":3}') == [{"record": 1}, {"record": 3}]


def test_a_line_without_end_is_skipped_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the limit is reported with its length, and reading continues after it."""
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
    """Wherever a record is cut but where a value is due, inside an escape or a character, what is behind it is read."""
    whole = json.dumps(found[0], ensure_ascii=data.draw(st.booleans())).encode("utf-8", "replace")
    torn = whole[: data.draw(st.integers(1, len(whole) - 1))]
    rest = b"".join(json.dumps(record).encode() for record in found[1:])
    due = torn.rstrip()[-1:] in (b":", b",", b"[") and is_cut_between_values(torn)
    assert plain(torn + rest) == found[1 + due :]


def is_cut_between_values(torn: bytes) -> bool:
    """Tell whether a record that is cut off could go on with a value."""
    closing, stack = {"{": "}", "[": "]"}, ""
    for character in re.sub(r'"(?:[^"\\]|\\.)*"', "", torn.decode("utf-8", "replace")):
        if character == '"':
            return False
        stack = stack + closing[character] if character in closing else stack.removesuffix(character)
    return torn.rstrip()[-1:] != b"," or stack.endswith("]")
