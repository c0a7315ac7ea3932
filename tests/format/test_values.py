import json
import math
from collections import Counter, OrderedDict
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from treering.errors import CorruptError, FormatVersionError, UsageError
from treering.format.blobs import BlobRef
from treering.format.values import DEPTH_MAX, INTEGER_MAX, decode, encode

SECOND_HALF_PAST_TWO = datetime(2026, 10, 25, 2, 30, fold=1)  # noqa: DTZ001  # naive ones must come back naive
zones = st.none() | st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
folds = st.sampled_from([0, 1])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters()),  # lone surrogates included
    st.sampled_from(["$", "$blob", "$map", "\ud83d\ude00", "\ud800", "a"]),
    st.binary(),
    st.builds(lambda value, fold: value.replace(fold=fold), st.datetimes(timezones=zones), folds),
    st.dates(),
    st.builds(lambda value, fold, zone: value.replace(fold=fold, tzinfo=zone), st.times(), folds, zones),
    st.timedeltas(),
    st.builds(
        BlobRef,
        sha256=st.sampled_from(["0" * 64, "a1" * 32]),
        form=st.sampled_from(["base64", "text", "bytes"]),
        size=st.integers(0, 2**40),
        prefix=st.sampled_from(["", "data:;base64,"]),
    ),
)
keys = st.recursive(leaves, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=3)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(), inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3),
        st.sets(keys, max_size=3),
        st.frozensets(keys, max_size=3),
    ),
    max_leaves=12,
)


def image(value: object) -> object:
    """A form in which values compare equal only if all types and bits are equal."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, [(image(key), image(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return kind, [image(item) for item in value]
    if isinstance(value, set | frozenset):
        return kind, sorted(repr(image(item)) for item in value)
    if isinstance(value, datetime | time):
        return kind, repr(value), value.fold
    return kind, repr(value)


@given(values)
@example(-0.0)
@example({1: "int", 1.5: "float", "1": "text", None: 0, (): b""})
@example({"$blob": "0" * 64})
@example({"\ud800": 1})
@example([INTEGER_MAX, INTEGER_MAX + 1, -INTEGER_MAX, -INTEGER_MAX - 1, 10**4000])
def test_round_trip(value: object) -> None:
    """Whatever is stored comes back equal in value, type, order and sign."""
    raw = encode(value)
    assert image(decode(raw)) == image(value)
    assert image(decode(msgspec.Raw(raw))) == image(value)


@given(values)
def test_strict_json_on_one_line(value: object) -> None:
    """What is stored is JSON that any reader accepts, on one line, without integers that others round."""

    def refuse(constant: str) -> object:
        raise AssertionError(constant)

    def check(digits: str) -> int:
        assert abs(int(digits)) <= INTEGER_MAX
        return int(digits)

    raw = encode(value)
    assert b"\n" not in raw
    json.loads(raw.decode(), parse_constant=refuse, parse_int=check)
    msgspec.json.decode(raw)


@given(values)
def test_encoding_again_changes_nothing(value: object) -> None:
    """A value that was read is written with the same bytes."""
    raw = encode(value)
    assert encode(decode(raw)) == raw


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        ({"a": [1, 1.0, True, None, "x"]}, '{"a":[1,1.0,true,null,"x"]}'),
        (math.nan, '{"$float":"nan"}'),
        (-math.inf, '{"$float":"-inf"}'),
        (2**53, '{"$int":"9007199254740992"}'),
        (b"\0\1", '{"$bytes":"AAE="}'),
        ("\ud800", '{"$str":"7aCA"}'),
        ((1, "a"), '{"$tuple":[1,"a"]}'),
        ({3, 1, 2}, '{"$set":[1,2,3]}'),
        (frozenset({"b", "a"}), '{"$frozenset":["a","b"]}'),
        ({1: "a", "$x": "b"}, '{"$map":[[1,"a"],["$x","b"]]}'),
        (datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1))), '{"$datetime":"2026-01-31T12:00:00+01:00"}'),
        (SECOND_HALF_PAST_TWO, '{"$datetime":["2026-10-25T02:30:00",1]}'),
        (date(2026, 1, 31), '{"$date":"2026-01-31"}'),
        (time(12, 0, 0, 5), '{"$time":"12:00:00.000005"}'),
        (timedelta(days=-1, seconds=5), '{"$timedelta":[-1,5,0]}'),
        (BlobRef(sha256="ab" * 32, form="text", size=9), '{"$blob":"' + "ab" * 32 + '","as":"text","size":9}'),
        (
            BlobRef(sha256="ab" * 32, form="text", size=9, begins="é"),
            '{"$blob":"' + "ab" * 32 + '","as":"text","size":9,"begins":"é"}',
        ),
    ],
)
def test_tags(value: object, raw: str) -> None:
    """The bytes of each tag stay as they are for ever."""
    assert encode(value).decode() == raw
    assert image(decode(raw.encode())) == image(value)


class Colour(IntEnum):
    RED = 1


class Word(str):
    __slots__ = ()


class Pair(NamedTuple):
    a: int


@dataclass
class Plan:
    step: int


class Struct(msgspec.Struct):
    step: int


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Word("x"),
        Pair(1),
        Plan(1),
        Struct(1),
        OrderedDict(a=1),
        Counter("a"),
        Decimal(1),
        UUID(int=1),
        1j,
        bytearray(b"x"),
        memoryview(b"x"),
        range(3),
        object(),
        len,
        int,
        ...,
        datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        time(1, tzinfo=timezone(timedelta(hours=1), "CET")),
        time(1, tzinfo=timezone(timedelta(seconds=1))),
        pytest.param(10**5000, id="huge"),
    ],
)
def test_refused_with_path(value: object) -> None:
    """What would come back different is refused, wherever it is, naming the path."""
    for outer, path in (
        (value, "$"),
        ({"a": [0, 1, {"b": value}]}, "$.a[2].b"),
        ({"not a name": (value,)}, "$['not a name'][0]"),
        ({7: value}, "$[7]"),
    ):
        with pytest.raises(UsageError) as caught:
            encode(outer)
        assert f"path={path!r}" in str(caught.value)
        assert caught.value.kind == "value"


def test_refused_key() -> None:
    """A key that cannot be stored is refused as well."""
    with pytest.raises(UsageError, match="key"):
        encode({"a": {(1, Colour.RED): 1}})
    with pytest.raises(UsageError, match="Colour"):
        encode({Colour.RED})


def nested(depth: int, *, kind: type) -> object:
    """A leaf inside `depth` containers."""
    value: object = 1
    for _ in range(depth):
        value = {"a": value} if kind is dict else {0: value} if kind is set else kind([value])
    return value


@pytest.mark.parametrize("kind", [list, tuple, dict, set])
def test_depth_limit(kind: type) -> None:
    """The greatest depth goes both ways; one more is refused."""
    deepest = nested(DEPTH_MAX, kind=kind)
    assert image(decode(encode(deepest))) == image(deepest)
    with pytest.raises(UsageError, match="nested"):
        encode(nested(DEPTH_MAX + 1, kind=kind))


def test_value_that_contains_itself() -> None:
    """A circle is refused and not followed for ever."""
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(UsageError, match="contains itself"):
        encode(circle)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nul",
        b'"\xff"',
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"$bytes":5}',
        b'{"$bytes":"*"}',
        b'{"$float":"one"}',
        b'{"$int":"1.5"}',
        b'{"$str":"/w=="}',
        b'{"$set":[[1]]}',
        b'{"$map":[1]}',
        b'{"$map":[[1]]}',
        b'{"$map":[[[],1]]}',
        b'{"$datetime":"yesterday"}',
        b'{"$datetime":["2026-01-01T00:00:00",2]}',
        b'{"$datetime":7}',
        b'{"$date":null}',
        b'{"$timedelta":[1,2,3,4,5,6,7,8]}',
        b'{"$timedelta":[1e300,0,0]}',
        b'{"$tuple":5}',
        b'{"$tuple":[],"more":1}',
        b'{"$blob":"../../secret","as":"text","size":1}',
        b'{"$blob":7,"as":"text","size":1}',
        b'{"$blob":"' + b"ab" * 32 + b'"}',
    ],
)
def test_damaged_values(raw: bytes) -> None:
    """What `encode` never writes is a CorruptError, not something close to it."""
    with pytest.raises(CorruptError):
        decode(raw)


@pytest.mark.parametrize(
    "raw", [b'[{"$decimal":"1"}]', b'{"$":1}', b'{"$blob":"' + b"ab" * 32 + b'","as":"x","size":1}']
)
def test_unknown_tags(raw: bytes) -> None:
    """A tag of a later version is told as such."""
    with pytest.raises(FormatVersionError):
        decode(raw)


def test_lax_json_of_others() -> None:
    """JSON with lone surrogates, constants and huge numbers, as found in real files, is read."""
    assert decode(b'{"a":"\\ud800"}') == {"a": "\ud800"}
    assert decode(b"1e400") == math.inf
    assert math.isnan(decode(b"[NaN]")[0])  # type: ignore[index]


def test_dollar_in_text_is_no_tag() -> None:
    """Texts that begin with `$`, and such keys after the first one, are not tags."""
    assert decode(b'{"a":"$HOME","b":["$x"]}') == {"a": "$HOME", "b": ["$x"]}
    assert decode(b'{"a":1,"$set":2}') == {"a": 1, "$set": 2}
