"""The function that repairs a session file of evva. See `treering.programs.common.tree_rules`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from treering.format.values import Fields
from treering.programs.common.writing import encode_go
from treering.programs.evva.policy import message_of
from treering.programs.evva.read import ENVELOPE, SESSION, first_user_prompt, indent


def document(header: Fields, records: Iterable[Mapping[str, object]]) -> bytes:
    """Return a whole document: the readable fields, defaults for the missing fields, and the messages.

    Args:
        header: The document without its messages; names may be in upper or lower case.
        records: The messages.
    """
    names = {name.lower(): name for name in header}
    session = header.get(names.get("session", "session"))
    inner = (
        {name: value for name, value in session.items() if name.lower() != "messages"}
        if isinstance(session, dict)
        else {}
    )
    known, said = {name.lower() for name in inner}, [*records]
    inner = {"messages": said} | inner
    inner |= {name: value for name, value in SESSION.items() if name not in known and name != "messages"}
    envelope = {name: value for name, value in ENVELOPE.items() if name not in names}
    shown = names.get("first_user_prompt")
    if shown is not None and not header[shown]:  # a header that was read does not repeat what the messages say
        header = {**header, shown: first_user_prompt(map(message_of, said))}
    return indent(encode_go({**header, **envelope, names.get("session", "session"): inner}))
