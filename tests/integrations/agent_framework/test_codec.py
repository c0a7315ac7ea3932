"""Values of checkpoints: they come back as they were, or are refused, and the error says where; nothing is imported."""

from __future__ import annotations

import enum
import io
import pickle
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest
from agent_framework import AgentExecutorResponse, AgentResponse, Content, Message, WorkflowEvent, WorkflowMessage
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, PrivateAttr

from treering.errors import CorruptError, UsageError
from treering.format import values
from treering.integrations.agent_framework.codec import Codec
from treering.integrations.agent_framework.pieces import join, split
from treering.integrations.agent_framework.registry import Registry


class Color(enum.StrEnum):
    """An enum whose members are text."""

    RED = "red"


class Right(enum.Flag):
    """Flags, of which a value may have several or none."""

    READ = 1
    WRITE = 2


@dataclass(frozen=True, slots=True)
class Point:
    """A dataclass that only takes values when it is made."""

    x: int
    y: int = 0


@dataclass
class Order:
    """One that counts, and that says no to what it was saved with."""

    id: str
    parts: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = [*self.parts]


class Answer(BaseModel):
    """A pydantic model with another one in it."""

    text: str
    at: datetime | None = None


class Named(BaseModel):
    """A model whose fields have other names in JSON, and so has one in it."""

    text: str = Field(alias="theText")
    inner: Named | None = Field(default=None, validation_alias="innerOne", serialization_alias="the-inner")


class Secretive(BaseModel):
    """A model with something that is not stored."""

    text: str
    _hidden: int = PrivateAttr(default=0)


class Counted:
    """A class that says by itself what is stored."""

    def __init__(self, count: int) -> None:
        self.count = count

    def to_dict(self) -> dict[str, int]:
        """What is stored."""
        return {"count": self.count}

    @classmethod
    def from_dict(cls, fields: dict[str, int]) -> Counted:
        """What it is made of."""
        return cls(**fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and other.count == self.count

    __hash__ = object.__hash__


TYPES = (Color, Right, Point, Order, Answer, Named, Secretive, Counted)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(alphabet="@/~ab"), inner)
        | st.dictionaries(st.integers() | st.tuples(st.text()), inner)
        | st.builds(Order, st.text(), st.lists(inner))
        | st.lists(inner).map(deque)
    ),
    max_leaves=12,
)


def again(value: object, codec: Codec | None = None) -> Any:
    """A value as it comes back from what is stored."""
    codec = codec or Codec(Registry(TYPES))
    stored = {key: values.encode(each) for key, each in split("root", codec.encode(value)).items()}
    return codec.decode(join("root", stored))


@given(plain)
def test_values_come_back_as_they_were(value: object) -> None:
    """Equal, and of the same types."""
    found = again(value)
    assert found == value
    assert repr(found) == repr(value)


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc/~"), st.text(min_size=200) | st.just([1]) | st.just({"d": "e" * 999}))
    )
)
def test_large_values_come_back_as_they_were(value: object) -> None:
    """Those whose parts have keys of their own."""
    assert again({"of": value}) == {"of": value}


@pytest.mark.parametrize(
    "value",
    [
        Color.RED, Right.READ, Right.READ | Right.WRITE, Right(0),
        Named.model_validate({"theText": "a", "innerOne": {"theText": "b"}}),
        Point(1, 2), Order("a", [Point(3)]), Answer(text="b", at=datetime.now(UTC)), Counted(3),
        UUID(int=5), Decimal("1.50"), 1 + 2j, bytearray(b"a"), range(1, 9, 2), OrderedDict(b=1, a=2), Counter("aab"),
        deque([1, 2], maxlen=3), defaultdict(list, a=[Point(1)]), {1, 2}, frozenset({Point(1)}),
        {Point(1): "a", 2: "b"},
        timedelta(1), float("inf"), "\ud800", {"@at": 1, "@list": 2}, {"@type": "x"}, [[], {}, ()],
        int, None, Point, list[Message], dict[str, Any], int | None, Literal["a", 2], tuple[int, ...], Any,
    ],
)  # fmt: skip
def test_a_value_of_each_kind_comes_back(value: object) -> None:
    """Also inside something else."""
    for whole in (value, [value], {"a": {"b": value}}):
        found = again(whole)
        assert found == whole
        assert type(found) is type(whole)


def test_what_workflows_put_into_checkpoints_comes_back() -> None:
    """Messages between executors, requests to people, responses of agents with a structured answer."""
    said = [Content.from_text("a"), Content.from_uri("https://b", media_type="image/png")]
    message = Message("user", said, additional_properties={"at": timedelta(1), "pair": (1, 2)})
    response: Any = AgentResponse(messages=[message], response_id="r", value=Answer(text="c"))
    event = WorkflowEvent.request_info("id", "asker", Point(1), list[Message] | None)  # type: ignore[arg-type]
    sent = WorkflowMessage(
        AgentExecutorResponse("writer", response, [message]), "writer", original_request_info_event=event
    )
    found = again(sent)
    assert found.source_id == "writer"
    assert found.type is sent.type
    assert found.data.agent_response.value == Answer(text="c")
    for each in (*found.data.full_conversation, *found.data.agent_response.messages):
        assert each.to_dict() == message.to_dict()
        assert each.additional_properties == message.additional_properties
    asked = found.original_request_info_event
    assert (asked.request_id, asked.data, asked.response_type) == ("id", Point(1), list[Message] | None)
    assert asked.request_type is Point


def test_a_copy_shares_nothing_that_may_change() -> None:
    """What is encoded stays as it was, whatever is done to the value then."""
    value = {"a": [Order("b", [1])]}
    codec = Codec(Registry(TYPES))
    encoded = codec.encode(value)
    value["a"][0].parts.append(2)
    assert codec.decode(encoded) == {"a": [Order("b", [1])]}


class Unknown:
    """Not registered."""


@dataclass
class Unregistered:
    """Neither is this."""


class Odd(Order):
    """A class below a registered one is another class."""


def with_more() -> Order:
    """An object with an attribute that is no field."""
    order = Order("a")
    order.more = 1  # type: ignore[attr-defined]
    return order


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Unknown(), "Unknown"), (Unregistered(), "Unregistered"), (Odd("a"), "Odd"), (lambda: 1, "function"),
        (io.BytesIO(), "BytesIO"), (with_more(), "more"), (Secretive(text="a"), "_hidden"),
        (Unregistered, "Unregistered"), (Callable[[int], str], "is not registered"),
        (defaultdict(Unknown), "default_factory"), (sys, "module"), (ValueError("a"), "ValueError"),
    ],
)  # fmt: skip
def test_what_would_not_come_back_is_refused(value: object, says: str) -> None:
    """The error says what it is, where it is, and what to do."""
    with pytest.raises(UsageError, match=says) as refused:
        Codec(Registry(TYPES)).encode({"state": {"list": [1, {"key": value}]}})
    assert "path='state.list[1].key'" in str(refused.value)
    assert "register its class" in str(refused.value)


def test_what_holds_itself_is_refused() -> None:
    """And does not end the program."""
    value: list[object] = []
    value.append(value)
    with pytest.raises(UsageError, match="contains itself"):
        Codec(Registry()).encode(value)


def test_a_class_that_is_not_registered_is_never_looked_for() -> None:
    """Neither is anything executed that pickle would: the name is all that is read."""
    codec = Codec(Registry())
    evil = pickle.dumps(print)
    stored: Any
    for stored in (
        {"@type": "os:system", "fields": "true"},
        {"@class": "subprocess:Popen"},
        {"@type": "antigravity:x", "fields": {}},
    ):
        with pytest.raises(CorruptError, match="not registered"):
            codec.decode(stored)
    for stored in ({"@kind": "pickle", "of": evil}, {"@new": 1}, {"@alias": [{"@class": "int"}, {"@class": "int"}]}):
        with pytest.raises(CorruptError):
            codec.decode(stored)
    assert codec.decode({"__pickled__": "gASVAAAA", "__type__": "os:system"}) == {
        "__pickled__": "gASVAAAA",
        "__type__": "os:system",
    }
    assert "antigravity" not in sys.modules


def test_a_class_may_change() -> None:
    """A new field needs a default; one that went, and a class that moved without its name, are told."""
    old = Codec(Registry({"point": Point})).encode(Point(1, 2))
    assert again(Point(1, 2), Codec(Registry({"point": Point}))) == Point(1, 2)

    @dataclass
    class Wider:
        x: int
        y: int
        z: int = 7

    @dataclass
    class Narrower:
        x: int

    @dataclass
    class Stricter:
        x: int
        y: int
        z: int

    found = Codec(Registry({"point": Wider})).decode(old)
    assert (found.x, found.y, found.z) == (1, 2, 7)
    for kind, says in ((Narrower, "y"), (Stricter, "'z'")):
        with pytest.raises(CorruptError, match=says):
            Codec(Registry({"point": kind})).decode(old)


def test_a_registry_takes_what_can_be_stored() -> None:
    """And two classes need two names."""
    with pytest.raises(UsageError, match="Unknown"):
        Registry([Unknown])
    with pytest.raises(UsageError, match="no class"):
        Registry(["os:system"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="one name"):
        Registry({"agent_framework.Message": Point})
