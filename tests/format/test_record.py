import json
import zlib

import pytest
from hypothesis import given, strategies as st
from msgspec import Raw
from msgspec.structs import asdict

from treering.errors import CorruptError, UsageError
from treering.format.record import (
    BRIEF_BYTES_MAX,
    EMPTY,
    RECORD_BYTES_MAX,
    TIME_MS_MAX,
    Record,
    Skeleton,
    body_of,
    decode_record,
    encode_record,
    has_body,
    skeleton_of,
    skeleton_of_record,
)
from treering.ids import new_id, time_of

MINIMAL = Record(at=0, by="w.0", type="node")

texts = st.text(st.characters(codec="utf-8"), max_size=20)
ids = st.one_of(texts, st.builds(new_id))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.just("body"), inner, max_size=3),
    max_leaves=8,
)
raws = json_values.map(lambda value: Raw(json.dumps(value).encode()))
briefs = st.dictionaries(texts | st.just("body"), texts | st.just({"body": 1}), max_size=3).map(
    lambda value: Raw(json.dumps(value).encode())
)
records = st.builds(
    Record,
    at=st.integers(0, 2**40),
    by=texts,
    type=texts,
    kind=texts,
    id=ids,
    parent=st.none() | ids,
    head=texts,
    role=texts,
    target=st.none() | ids,
    time=st.none() | st.integers(-TIME_MS_MAX, TIME_MS_MAX),
    links=st.none() | st.dictionaries(texts | st.just("body"), texts, max_size=3),
    critical=st.booleans(),
    more=st.booleans(),
    brief=st.just(EMPTY) | briefs.filter(lambda raw: len(bytes(raw)) <= BRIEF_BYTES_MAX),
    body=st.just(EMPTY) | raws,
)


def plain(record: Record) -> dict[str, object]:
    """The fields of a record, in a form that can be compared."""
    return asdict(record) | {"brief": bytes(record.brief), "body": bytes(record.body)}


@given(records, raws)
def test_a_line_has_its_body_and_no_other(record: Record, other: Raw) -> None:
    """Whether a body is that of a line is told without decoding it, whatever stands in front."""
    line = encode_record(record)
    assert has_body(line, bytes(record.body))
    assert has_body(line, bytes(other)) == (bytes(other) == bytes(record.body))


@given(records)
def test_round_trip(record: Record) -> None:
    """A record comes back from its line as it was, to the byte of its body, also if that is all that is asked for."""
    assert plain(decode_record(encode_record(record))) == plain(record)
    assert body_of(encode_record(record)) == bytes(record.body)


@given(records)
def test_line_is_json(record: Record) -> None:
    """A line is one JSON object without line breaks, the body next to last, the checksum last."""
    line = encode_record(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    fields = json.loads(line)
    assert list(fields)[-2:] == ["body", "_c"]
    assert fields["body"] == json.loads(bytes(record.body))
    checksum = zlib.crc32(line[: line.rindex(b',"_c":')])
    assert fields["_c"] == f"{checksum:08x}"


@given(records)
def test_skeleton_equals_record(record: Record) -> None:
    """The skeleton cut from a line says the same as the whole record."""
    line = encode_record(record)
    assert skeleton_of(line) == skeleton_of_record(record, len(line))


def test_minimal_line() -> None:
    """Fields at their defaults are left out, except the body."""
    assert encode_record(MINIMAL) == b'{"at":0,"by":"w.0","type":"node","body":{},"_c":"19c28358"}\n'


def test_skeleton_time() -> None:
    """The time of a skeleton is the record's own, else that of its id, else 0."""
    ours = new_id()
    assert skeleton_of(encode_record(Record(at=0, by="w.0", type="node", id=ours))).time == time_of(ours)
    assert skeleton_of(encode_record(Record(at=0, by="w.0", type="node", id=ours, time=0))).time == 0
    assert skeleton_of(encode_record(Record(at=0, by="w.0", type="node", id="8f3a"))).time == 0


@pytest.mark.parametrize("inner", ['{"x":1,"body":2}', '{"x":{"y":1,"body":{}},"body":[1]}'])
def test_body_inside_brief(inner: str) -> None:
    """A field called `body` inside brief or links is not taken for the body of the record."""
    record = Record(
        at=1, by="w.0", type="node", brief=Raw(inner.encode()), links={"a": "b", "body": "c"}, body=Raw(b"[3]")
    )
    line = encode_record(record)
    assert plain(decode_record(line)) == plain(record)
    assert body_of(line) == b"[3]"
    assert skeleton_of(line).brief == inner.encode()
    assert has_body(line, b"[3]")


def test_a_field_inside_the_body_is_not_the_body() -> None:
    """What a body merely ends with is not taken for it."""
    line = encode_record(Record(at=0, by="w.0", type="node", body=Raw(b'{"x":1,"body":[3]}')))
    assert body_of(line) == b'{"x":1,"body":[3]}'
    assert not has_body(line, b"[3]")


def test_lone_surrogates() -> None:
    """Lone surrogates in ids, links and bodies survive."""
    body = Raw(b'{"text":"\\ud83d"}')
    record = Record(at=0, by="w.0", type="node", id="a\ud800", time=0, links={"\udfff": "\ud800"}, body=body)
    line = encode_record(record)
    assert line.isascii()
    assert plain(decode_record(line)) == plain(record)
    assert skeleton_of(line).id == "a\ud800"


def test_surrogate_pair_refused() -> None:
    """A surrogate pair as two characters would come back as one, so it is refused."""
    with pytest.raises(UsageError, match="surrogate pair"):
        encode_record(Record(at=0, by="w.0", type="node", id="\ud83d\ude00"))


@pytest.mark.parametrize("body", [b"", b"{", b"nul", b"[1,]", b"{}\n", b'"\x00"', b'{"a":1}{', b"[" * 5000, b'"\xff"'])
def test_bad_body_refused(body: bytes) -> None:
    """A body that is not JSON on one line is refused before anything is written."""
    with pytest.raises(UsageError, match="body"):
        encode_record(Record(at=0, by="w.0", type="node", body=Raw(body)))


@pytest.mark.parametrize("brief", [b"[]", b"1", b"{", b'{"a":\n1}', b'{"a":"' + b"x" * BRIEF_BYTES_MAX + b'"}'])
def test_bad_brief_refused(brief: bytes) -> None:
    """A brief that is no JSON object, or a long one, is refused."""
    with pytest.raises(UsageError, match="brief"):
        encode_record(Record(at=0, by="w.0", type="node", brief=Raw(brief)))


def test_brief_of_greatest_size() -> None:
    """A brief of exactly the greatest size is kept."""
    brief = b'{"a":"' + b"x" * (BRIEF_BYTES_MAX - 8) + b'"}'
    assert len(brief) == BRIEF_BYTES_MAX
    assert skeleton_of(encode_record(Record(at=0, by="w.0", type="node", brief=Raw(brief)))).brief == brief


def test_record_size_limit() -> None:
    """A line of exactly the greatest size is written; one byte more is refused."""
    shell = len(encode_record(Record(at=0, by="w.0", type="node", body=Raw(b'""'))))
    fill = b"x" * (RECORD_BYTES_MAX - shell)
    assert len(encode_record(Record(at=0, by="w.0", type="node", body=Raw(b'"' + fill + b'"')))) == RECORD_BYTES_MAX
    with pytest.raises(UsageError, match="too large") as caught:
        encode_record(Record(at=0, by="w.0", type="node", body=Raw(b'"' + fill + b'x"')))
    assert caught.value.kind == "too_large"


@pytest.mark.parametrize("time", [TIME_MS_MAX + 1, -TIME_MS_MAX - 1])
def test_time_out_of_range(time: int) -> None:
    """Times that not every JSON reader keeps are refused."""
    with pytest.raises(UsageError, match="time"):
        encode_record(Record(at=0, by="w.0", type="node", time=time))


def test_every_flip_and_cut_is_found() -> None:
    """Each flipped bit and each truncation of a line is a CorruptError with key and offset."""
    line = encode_record(Record(at=3, by="w.1", type="node", id="n", body=Raw(b'{"a":"body"}')))
    damaged = [line[:cut] for cut in range(len(line))]
    damaged += [line[:i] + bytes([line[i] ^ 1 << bit]) + line[i + 1 :] for i in range(len(line)) for bit in range(8)]
    for bad in damaged:
        with pytest.raises(CorruptError) as caught:
            decode_record(bad, key="k", offset=7)
        assert (caught.value.key, caught.value.offset) == ("k", 7)
        with pytest.raises(CorruptError):
            body_of(bad)


@pytest.mark.parametrize(
    "fields",
    [
        b'{"by":"w","type":"n","body":{}}',
        b'{"at":-1,"by":"w","type":"n","body":{}}',
        b'{"at":"1","by":"w","type":"n","body":{}}',
        b'{"at":1,"by":"w","type":"n","time":1e400,"body":{}}',
        b'{"at":1,"by":7,"type":"n","body":{}}',
        b"[1]",
        b'{"at":1}}',
        b"{}",
        b"{",
        b"[" * 5000 + b"]",
    ],
)
def test_whole_but_not_a_record(fields: bytes) -> None:
    """A line with a right checksum that is no record is a CorruptError."""
    line = fields[:-1] + b',"_c":"%08x"}\n' % zlib.crc32(fields[:-1])
    with pytest.raises(CorruptError):
        decode_record(line)


def test_unknown_fields_are_read_over() -> None:
    """Envelope fields of a later version do not disturb, wherever they stand before the body."""
    fields = b'{"at":1,"by":"w.0","type":"node","new":{"a":[1,2],"body":3},"id":"x","body":{"k":1}'
    line = fields + b',"_c":"%08x"}\n' % zlib.crc32(fields)
    record = decode_record(line)
    assert (record.id, bytes(record.body)) == ("x", b'{"k":1}')
    assert skeleton_of(line).id == "x"


def test_skeleton_is_small() -> None:
    """Skeletons are not tracked by the garbage collector, which would visit 100,000 of them again and again."""
    assert Skeleton.__struct_config__.gc is False
