"""The classes whose objects a checkpoint may hold: classes of the framework, and classes that the user registers.

Rule 1: stored bytes contain the name of a class, which is looked up here. Decoding imports nothing.
Rule 2: when a class is registered, the first row that applies decides how its objects are stored:

| class                                | stored data                      | decoding runs                   |
|--------------------------------------|----------------------------------|---------------------------------|
| a `Flag`                             | its value                        | nothing                         |
| an `Enum`                            | the name of the member           | nothing                         |
| a pydantic model                     | its fields                       | its validation                  |
| a dataclass                          | its fields                       | nothing, not even `__init__`    |
| a class with `to_dict`, `from_dict`  | the result of `to_dict`          | `from_dict`                     |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, Flag
from typing import Any, Final, NamedTuple

import agent_framework
from agent_framework import AgentResponse, ChatResponse, Message, WorkflowEvent, WorkflowMessage
from pydantic import BaseModel

from treering.errors import CorruptError, UsageError
from treering.kinds import Kind

Types = Iterable[type[Any]] | Mapping[str, type[Any]]
"""Classes, or classes by the names that are stored. The default name is the class's module and qualified name."""

_FRAMEWORK: Final = (
    "AgentExecutorRequest", "AgentExecutorResponse", "AgentResponse", "AgentResponseUpdate", "AgentSession",
    "ChatResponse", "ChatResponseUpdate", "Content", "Message", "SubWorkflowRequestMessage",
    "SubWorkflowResponseMessage", "TodoItem", "ToolApprovalRule", "ToolApprovalState", "WorkflowCheckpoint",
    "WorkflowErrorDetails", "WorkflowEvent", "WorkflowEventSource", "WorkflowMessage", "WorkflowRunState",
)  # fmt: skip
"""The framework's own classes whose objects workflows put into checkpoints."""
_EVENT_REQUEST: Final = ("request_id", "source_executor_id", "request_type", "response_type")
_EVENT: Final = ("type", "data", "origin", "state", "details", "executor_id", "iteration")


class Form(NamedTuple):
    """How objects of a class are stored."""

    name: str
    fields: Callable[[Any], object]
    """Returns the data to store for an object; the data may contain objects."""
    made: Callable[[Any], Any]
    """Returns the object for stored data."""
    is_users: bool = False
    """Whether it is a class of the user, whose objects are decoded and compared when they are stored."""


class Registry:
    """Forms by class and by name.

    Args:
        types: Classes of the user.

    Raises:
        UsageError: Objects of a class cannot be stored, or two classes have one name.
    """

    def __init__(self, types: Types = ()) -> None:
        self.by_class: dict[type[Any], Form] = {}
        self.by_name: dict[str, tuple[type[Any], Form]] = {}
        for name in _FRAMEWORK:
            self._add(f"agent_framework.{name}", getattr(agent_framework, name), is_users=False)
        message_type = type(WorkflowMessage(data=None, source_id="").type)  # the framework does not export it
        self._add("agent_framework.MessageType", message_type, is_users=False)
        named = types.items() if isinstance(types, Mapping) else [(_name_of(each), each) for each in types]
        for name, each in named:
            self._add(name, each, is_users=True)

    def _add(self, name: str, kind: type[Any], *, is_users: bool) -> None:
        if self.by_name.get(name, (kind,))[0] is not kind:
            raise UsageError(
                f"two classes have one name. name={name!r}",
                kind=Kind.OPTION,
                remedy="pass types={name: class} with a name for each",
            )
        form = _form_of(name, kind)._replace(is_users=is_users)
        self.by_class[kind], self.by_name[name] = form, (kind, form)


def _name_of(kind: object) -> str:
    return f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', kind)}"


def _form_of(name: str, kind: type[Any]) -> Form:
    if not isinstance(kind, type):  # callers are not always type-checked
        raise UsageError(f"this is no class. got={kind!r}", kind=Kind.OPTION)
    if issubclass(kind, WorkflowEvent):
        return Form(name, _fields_of_event, lambda fields: kind(**fields))
    if issubclass(kind, Message):
        return Form(name, fields_of_message, kind.from_dict)
    if issubclass(kind, AgentResponse | ChatResponse):
        return Form(name, _fields_of_response, lambda fields: _response(kind, fields))
    if issubclass(kind, Flag):
        return Form(name, lambda value: value.value, kind)
    if issubclass(kind, Enum):
        return Form(name, lambda value: value.name, lambda member: kind[member])
    if issubclass(kind, BaseModel):
        return Form(name, _fields_of_model, lambda fields: kind.model_validate(fields, by_name=True))
    if dataclasses.is_dataclass(kind):
        return Form(name, _fields_of_dataclass, lambda fields: _dataclass(kind, fields))
    if callable(getattr(kind, "to_dict", None)) and callable(getattr(kind, "from_dict", None)):
        made: Any = kind
        return Form(name, lambda value: dict(value.to_dict()), made.from_dict)
    raise UsageError(
        f"objects of this class cannot be stored. class={_name_of(kind)!r}",
        kind=Kind.OPTION,
        remedy="make it a dataclass, a pydantic model or an Enum, or give it to_dict and from_dict",
    )


def _fields_of_dataclass(value: Any) -> dict[str, object]:
    fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if further := sorted(getattr(value, "__dict__", {}).keys() - fields.keys()):
        raise UsageError(f"it has attributes that are no fields. attributes={further}", kind=Kind.VALUE)
    return fields


def _dataclass(kind: type[Any], stored: Mapping[str, object]) -> Any:
    made = object.__new__(kind)
    fields = dataclasses.fields(kind)
    if unknown := sorted(stored.keys() - {each.name for each in fields}):
        raise CorruptError(f"the class has no such fields any more. fields={unknown}", kind=Kind.SHAPE)
    for each in fields:
        if each.name in stored:
            value = stored[each.name]
        elif each.default is not dataclasses.MISSING:
            value = each.default
        elif each.default_factory is not dataclasses.MISSING:
            value = each.default_factory()
        else:
            raise CorruptError(f"a field without a default was not stored. field={each.name!r}", kind=Kind.SHAPE)
        object.__setattr__(made, each.name, value)  # the only way for a frozen dataclass
    return made


def _fields_of_model(value: BaseModel) -> dict[str, object]:
    if value.__pydantic_private__:
        private = sorted(value.__pydantic_private__)
        raise UsageError(f"it has private attributes, which are not stored. attributes={private}", kind=Kind.VALUE)
    return value.model_dump()


def _fields_of_event(event: WorkflowEvent[Any]) -> dict[str, object]:
    names = _EVENT + (_EVENT_REQUEST if event.type == "request_info" else ())
    return {name: value for name in names if (value := getattr(event, name)) is not None}


def fields_of_message(message: Message) -> dict[str, object]:
    """Return the fields of `Message.to_dict`, and all additional properties: it drops those that are no JSON."""
    return {**message.to_dict(), "additional_properties": dict(message.additional_properties)}


def _fields_of_response(response: Any) -> dict[str, object]:
    """Return the fields of a response, with the object that was parsed from a structured answer."""
    fields = {
        **response.to_dict(),
        "messages": [fields_of_message(message) for message in response.messages],
        "additional_properties": dict(response.additional_properties),
    }
    return {"response": fields} | ({} if response.value is None else {"value": response.value})


def _response(kind: type[Any], fields: Mapping[str, Any]) -> Any:
    made: Any = kind
    return made.from_dict(fields["response"] | ({"value": fields["value"]} if "value" in fields else {}))
