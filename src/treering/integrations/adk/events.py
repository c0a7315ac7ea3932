"""Convert events of ADK to nodes of the transcript and back, and split their changes to the state by scope.

A payload has the `role` and the `parts` of the event's content, as the Gemini API has them. So all code that reads
messages finds the text, calls, results and pictures of an event. The rest of the event is in the field `adk`.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from google.adk.events.event import Event
from google.adk.sessions.state import State
from google.genai import types
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from treering.errors import UsageError
from treering.format import values
from treering.transcript.node import Draft

REST: Final = "adk"
"""The field of a payload that has all fields of an event except its content."""
USAGE: Final = "usage"
"""The kind of notes that say what an answer cost."""
_CONTENT: Final = ("role", "parts")
_STANDARD: Final = str.maketrans("-_", "+/")
"""From URL-safe base64, which pydantic writes, to standard base64, in which attachments are recognized."""
_COUNTS: Final = {
    "prompt_token_count": "input",
    "candidates_token_count": "output",
    "total_token_count": "total",
    "cached_content_token_count": "cache_read",
    "thoughts_token_count": "reasoning",
}
"""The name of a count in the sums of a session, by its name in the Gemini API."""

logger = logging.getLogger(__name__)


class NewEvent(NamedTuple):
    """An event to be recorded."""

    id: str
    payload: dict[str, Any]
    role: str
    usage: dict[str, object]
    """Its token counts; empty if they are not known."""
    state: Scoped
    """The values of the state that it sets."""
    rewinds_before: str | None
    """The invocation before which it rewinds the conversation; None if it is no rewind."""

    def draft(self) -> Draft:
        """Return the draft of its node."""
        return Draft(role=self.role, payload=self.payload)

    def note(self, node: str) -> Draft:
        """Return the note with its token counts."""
        return Draft(type="note", kind=USAGE, target=node, brief=dict(self.usage))


class Scoped(NamedTuple):
    """Values of the state by owner (app, user or session), without the prefixes of their keys."""

    app: dict[str, Any]
    user: dict[str, Any]
    session: dict[str, Any]


def new_event(event: Event) -> NewEvent:
    """Encode an event; the caller may change the event afterwards."""
    fields = _dumped(event)
    said: dict[str, Any] = {}
    if event.content is not None and event.content.parts:
        said = parts_of(event.content)
        del fields["content"]
    payload = _storable(said | {REST: fields})
    state = scoped(event.actions.state_delta)
    require_storable(state)
    return NewEvent(
        event.id, payload, _role_of(event), _usage_of(event), state, event.actions.rewind_before_invocation_id
    )


def require_storable(state: Scoped) -> None:
    """Refuse values before anything is recorded: those of app and user are recorded apart from the session's.

    Raises:
        UsageError: A value cannot be stored.
    """
    values.encode({**state.app, **state.user, **state.session})


def event_of(payload: object) -> Event:
    """Return the event of a payload. A payload that is no event, since it was erased or amended, becomes a message."""
    fields = dict(rest_of(payload))
    if not fields or not isinstance(payload, Mapping):
        return _said(payload)
    content = {name: payload[name] for name in _CONTENT if name in payload}
    return Event.model_validate_json(_json_of(fields | ({"content": content} if content else {})))


def _said(payload: object) -> Event:
    """Return an event with a message of another form: of its role, with its parts or its text, or else all of it."""
    fields: Mapping[Any, Any] = payload if isinstance(payload, Mapping) else {}
    role = "user" if fields.get("role", "user") == "user" else "model"
    if "parts" in fields:
        with contextlib.suppress(ValidationError):
            return Event(author=role, content=content_of({**fields, "role": role}))
    text = fields.get("content", payload)
    text = text if isinstance(text, str) else json.dumps(payload, ensure_ascii=False, default=str)
    return Event(author=role, content=types.Content(role=role, parts=[types.Part(text=text)]))


def parts_of(content: types.Content) -> dict[str, Any]:
    """Return the stored form of a content: its role and its parts."""
    fields = _dumped(content)
    for part in fields.get("parts", ()):
        if "inline_data" in part and "data" in part["inline_data"]:
            part["inline_data"]["data"] = part["inline_data"]["data"].translate(_STANDARD)
    return fields


def content_of(payload: Mapping[str, Any]) -> types.Content:
    """Return the content in a payload."""
    return types.Content.model_validate_json(_json_of({name: payload[name] for name in _CONTENT if name in payload}))


def rest_of(payload: object) -> Mapping[str, Any]:
    """Return the fields of an event except its content, from its payload; empty if the payload was erased."""
    rest = payload.get(REST) if isinstance(payload, Mapping) else None
    if isinstance(rest, str):
        rest = json.loads(rest)
    return rest if isinstance(rest, Mapping) else {}


def shared_by(payload: object) -> Scoped:
    """Return the values of the state that the event of a payload sets."""
    actions = rest_of(payload).get("actions")
    return scoped(actions.get("state_delta") if isinstance(actions, Mapping) else None)


def scoped(state: Mapping[str, Any] | None) -> Scoped:
    """Return values of a state by scope, as JSON values; temporary ones (`temp:`) are left out."""
    found = Scoped({}, {}, {})
    for key, value in as_json(state or {}).items():
        if key.startswith(State.APP_PREFIX):
            found.app[key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            found.user[key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            found.session[key] = value
    return found


def joined(app: Mapping[str, Any], user: Mapping[str, Any], session: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state that a session shows: its own values, and those of the app and the user with prefixes."""
    found = dict(session)
    found |= {State.APP_PREFIX + key: value for key, value in app.items()}
    return found | {State.USER_PREFIX + key: value for key, value in user.items()}


def as_json(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON values. A value without a JSON form is replaced by its text, and a warning is logged.

    ADK's own stores do the same: an event must not be lost because of a value that a tool left in the state.
    """
    try:
        found = to_jsonable_python(dict(state))
    except (PydanticSerializationError, UnicodeDecodeError):
        logger.warning("Some values of the state have no form in JSON; their texts are stored", exc_info=True)
        found = to_jsonable_python(dict(state), serialize_unknown=True, bytes_mode="base64")
    return {str(key): value for key, value in found.items()}


def _dumped(model: BaseModel) -> dict[str, Any]:
    """Return a model as JSON values."""
    try:
        found: dict[str, Any] = json.loads(model.model_dump_json(exclude_none=True))
    except PydanticSerializationError:  # half of a surrogate pair, which a payload can hold and UTF-8 cannot
        found = model.model_dump(mode="json", exclude_none=True)
    return found


def _json_of(fields: dict[str, Any]) -> str:
    """Return JSON that pydantic reads: U+FFFD stands for each half of a surrogate pair."""
    text = json.dumps(fields, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _storable(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload that can be stored: a payload that is nested too deep is kept as JSON text."""
    try:
        values.encode(payload)
    except UsageError:
        content = {name: payload[name] for name in _CONTENT if name in payload}
        fields = payload[REST] | ({"content": content} if content else {})
        return {REST: json.dumps(fields)}
    return payload


def _role_of(event: Event) -> str:
    if event.get_function_responses():
        return "tool"
    said = event.content.role if event.content is not None else None
    return "user" if said == "user" or (said is None and event.author == "user") else "assistant"


def _usage_of(event: Event) -> dict[str, object]:
    told = event.usage_metadata
    if told is None:
        return {}
    counts = {name: getattr(told, field, None) for field, name in _COUNTS.items()}
    return {"requests": 1, **{name: count for name, count in counts.items() if isinstance(count, int)}}
