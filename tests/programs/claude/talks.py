"""Sessions in which something happens that decides what Claude Code sends, each of a few entries.

What Claude Code sent when it resumed them stands in `claude_requests.json`, recorded by `tests.upstream.claude_code`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tests.programs.claude.sessions import Talk, call, uuid

Step: TypeAlias = Callable[[Talk], object]

PICTURE: Final = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def text(words: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": words}


def thought(words: str = "hm", signature: str = "c2ln") -> dict[str, Any]:
    """A block of thinking."""
    return {"type": "thinking", "thinking": words, "signature": signature}


def asks(name: str, content: Any = None, **fields: Any) -> Step:
    """A prompt; its content is the name, or another."""
    return lambda talk: talk.add("user", name, message={"role": "user", "content": content or name}, **fields)


def says(name: str, *blocks: Any, of: str | None = None, model: str = "claude-opus-5", **fields: Any) -> Step:
    """A part of an answer; by default a text."""

    def step(talk: Talk) -> None:
        talk.answer(name, *blocks, response=of, **fields)
        talk.entries[-1]["message"]["model"] = model

    return step


def thinks(name: str, of: str | None = None, **fields: Any) -> Step:
    """A part of an answer that is thinking."""
    return says(name, thought(name), of=of, **fields)


def calls(name: str, of: str | None = None, **fields: Any) -> Step:
    """A part of an answer that calls a tool."""
    return says(name, call(name), of=of, **fields)


def returns(of: str, name: str = "", content: Any = None, **fields: Any) -> Step:
    """The result of a call."""
    return lambda talk: talk.result(name or f"r{of}", of, **fields)


def gives(of: str, *blocks: Any, **result: Any) -> Step:
    """The result of a call in other words, and what else stands in its message."""
    block = {"type": "tool_result", "tool_use_id": f"toolu_{of}", **result}
    content = [block if each is ... else each for each in blocks or (...,)]
    return lambda talk: talk.add("user", f"r{of}", after=of, message={"role": "user", "content": content})


def tells(name: str) -> Step:
    """An attachment."""
    return lambda talk: talk.attach(name)


def notes(name: str, subtype: str, content: str = "x", **fields: Any) -> Step:
    """A note of the program."""
    return lambda talk: talk.add("system", name, subtype=subtype, content=content, **fields)


def marks(kind: str, **fields: Any) -> Step:
    """An entry that is no link of the chain."""
    return lambda talk: talk.mark(kind, **fields)


def compacts(name: str, **facts: Any) -> Step:
    """A compaction, and its summary."""
    return lambda talk: talk.boundary(name, **facts)


def again(at: int, **changes: Any) -> Step:
    """An entry once more, with changes."""
    return lambda talk: talk.entries.append({**talk.entries[at], **changes})


def listed(*names: str, anchor: str = "cs") -> dict[str, Any]:
    """The messages that a compaction keeps, by name."""
    return {"preservedMessages": {"anchorUuid": uuid(anchor), "uuids": [uuid(name) for name in names]}}


def segment(head: str, tail: str, anchor: str = "cs") -> dict[str, Any]:
    """The messages that a compaction keeps, by the first and the last."""
    return {"preservedSegment": {"headUuid": uuid(head), "anchorUuid": uuid(anchor), "tailUuid": uuid(tail)}}


def _message(content: Any, **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "id": "m", "model": "claude-opus-5", "content": content, **fields}}


_TALK: Final = [asks("one"), says("A1"), asks("two"), says("A2"), asks("three"), says("A3")]
_ON: Final = [asks("four"), says("A4")]
_INTERRUPTED: Final = "[Request interrupted by user for tool use]"

TALKS: Final[Mapping[str, list[Step]]] = {
    # answers in parts
    "parts of an answer": [asks("one"), thinks("h", "m"), says("x", of="m"), asks("two"), says("B")],
    "calls before text": [asks("one"), calls("t1", "m"), says("x", of="m"), returns("t1", after="x"), says("B")],
    "calls before text in one entry": [asks("one"), says("t1", call("t1"), text("x")), returns("t1"), says("B")],
    "thinking between calls": [
        asks("one"), calls("t1", "m"), thinks("h", "m"), calls("t2", "m"), returns("t1"), returns("t2"), says("B"),
    ],
    "parallel calls": [
        asks("one"), calls("t1", "m"), returns("t1", moves=False), calls("t2", "m"), calls("t3", "m"), returns("t3"),
        returns("t2"), says("B"),
    ],
    "parallel calls in a row": [
        asks("one"), calls("t1", "m"), returns("t1"), calls("t2", "m"), returns("t2"), says("B"),
    ],
    "parallel calls with text between": [
        asks("one"), calls("t1", "m"), returns("t1", moves=False), says("x", of="m"), calls("t2", "m"), returns("t2"),
        says("B"),
    ],
    "parallel calls that fork": [
        asks("one"), calls("t1", "m"), calls("t2", "m"), calls("t3", "m"), returns("t1", moves=False),
        returns("t2", moves=False), returns("t3", moves=False), says("B", after="rt1"),
    ],
    "parallel calls and an attachment": [
        asks("one"), calls("t1", "m"), returns("t1"), tells("att"), calls("t2", "m", after="t1"), returns("t2"),
        says("B"),
    ],
    "parallel calls and a skill": [
        asks("one"), calls("t1", "m"), returns("t1"), asks("skill", isMeta=True, sourceToolUseID="toolu_t1"),
        calls("t2", "m", after="t1"), returns("t2"), says("B"),
    ],
    "a prompt between parallel calls": [
        asks("one"), calls("t1", "m"), returns("t1"), asks("hm"), calls("t2", "m"), returns("t2"), says("B"),
    ],
    "a prompt between texts of one answer": [
        asks("one"), says("x", of="m"), asks("two"), says("y", of="m"), asks("three"), says("B"),
    ],
    "prompts behind each other": [asks("one"), asks("two"), asks("three"), says("B")],
    "answers behind each other": [asks("one"), says("A"), says("B"), asks("two"), says("C")],
    # thinking
    "thinking alone": [asks("one"), thinks("h"), asks("two"), says("B")],
    "thinking alone at the end": [asks("one"), says("A"), asks("two"), thinks("h")],
    "thinking alone, interrupted": [
        asks("one"), thinks("h"), asks("[Request interrupted by user]"), asks("two"), says("B"),
    ],
    "thinking alone behind a result": [asks("one"), calls("t1"), returns("t1"), thinks("h")],
    "thinking alone before an answer": [
        asks("one"), thinks("h1", "m1"), thinks("h2", "m2"), says("x", of="m2"), asks("two"),
    ],
    "thinking alone, part of a later answer": [
        asks("one"), thinks("h", "m"), asks("two"), says("x", of="m"), asks("three"),
    ],
    "thinking last in an answer": [asks("one"), says("x", of="m"), thinks("h", "m"), asks("two"), says("B")],
    "thinking last in the session": [asks("one"), says("x", of="m"), thinks("h", "m")],
    "thinking hidden by the provider": [
        asks("one"), says("h", {"type": "redacted_thinking", "data": "abc"}, of="m"), says("x", of="m"), asks("two"),
    ],
    "thinking hidden by the provider alone": [
        asks("one"), says("h", {"type": "redacted_thinking", "data": "abc"}), asks("two"), says("B"),
    ],
    "thinking without a signature": [
        asks("one"), says("h", thought(signature=""), of="m"), says("x", of="m"), asks("two"),
    ],
    "thinking of another model": [
        asks("one"), thinks("h", "m", model="claude-sonnet-5"), says("x", of="m", model="claude-sonnet-5"), asks("two"),
        thinks("h2", "n"), says("y", of="n"), asks("three"), says("B"),
    ],
    "thinking and text in one entry": [asks("one"), says("h", thought(), text("x")), asks("two"), says("B")],
    # nothing but white space
    "white space": [asks("one"), says("a", text("\n\n"), of="m"), says("x", of="m"), asks("two"), says("B")],
    "white space last in an answer": [
        asks("one"), says("x", of="m"), says("a", text("\n"), of="m"), asks("two"), says("B"),
    ],
    "white space alone": [asks("one"), says("a", text("\n\n")), asks("two"), says("B")],
    "white space at the end": [asks("one"), says("a", text("\n\n"))],
    "white space before a call": [
        asks("one"), says("a", text(" "), of="m"), calls("t1", "m"), returns("t1"), says("B"),
    ],
    "white space and text in one entry": [asks("one"), says("a", text("\n\n"), text("x")), asks("two"), says("B")],
    "white space and thinking": [asks("one"), thinks("h", "m"), says("a", text("\n"), of="m"), asks("two"), says("B")],
    "white space and thinking in one entry": [asks("one"), says("a", thought(), text(" ")), asks("two"), says("B")],
    "white space and thinking before a call": [
        asks("one"), thinks("h", "m"), says("a", text("\n\n"), of="m"), calls("t1", "m"), returns("t1"), says("B"),
    ],
    "white space in a prompt": [asks("one"), says("A"), asks("two", [text(" "), text("x")]), says("B")],
    "white space as a prompt": [asks("one"), says("A"), asks("two", " \n"), says("B")],
    "a text of no letters": [asks("one"), says("a", text(""), text("y")), asks("two"), says("B")],
    "an answer of nothing": [
        asks("one"), lambda talk: talk.add("assistant", "a", **_message([])), asks("two"), says("B"),
    ],
    # calls without results
    "a call without a result": [asks("one"), calls("t1"), asks("two"), says("B")],
    "a call without a result, with text": [asks("one"), says("x", of="m"), calls("t1", "m"), asks("two"), says("B")],
    "a call without a result, with thinking": [asks("one"), thinks("h", "m"), calls("t1", "m"), asks("two"), says("B")],
    "a call without a result beside another": [
        asks("one"), calls("t1", "m"), calls("t2", "m"), returns("t1"), asks("two"), says("B"),
    ],
    "a call without a result in one entry with text": [
        asks("one"), says("t1", text("x"), call("t1")), asks("two"), says("B"),
    ],
    "a call without a result in one entry with another": [
        asks("one"), says("t1", text("x"), call("t1"), call("t2")), returns("t1"), asks("two"), says("B"),
    ],
    "a call without a result, interrupted": [asks("one"), calls("t1"), asks("i", _INTERRUPTED), asks("two"), says("B")],
    "a call without a result and an attachment": [asks("one"), calls("t1"), tells("att"), asks("two"), says("B")],
    "a call without a result later": [
        asks("one"), calls("t1"), returns("t1"), says("A"), calls("t2"), asks("two"), says("B"),
    ],
    "a call at the end": [asks("one"), calls("t1")],
    "a call at the end beside another": [asks("one"), calls("t1", "m"), calls("t2", "m"), returns("t1")],
    "a call at the end beside a later one": [asks("one"), calls("t1", "m"), calls("t2", "m"), returns("t2")],
    "a call at the end behind a result": [
        asks("one"), calls("t1", "m"), returns("t1", moves=False), calls("t2", "m", after="t1"),
    ],
    "a call at the end behind thinking": [asks("one"), thinks("h", "m"), calls("t1", "m")],
    "a call at the end of another answer": [asks("one"), calls("t1", "m1"), calls("t2", "m2")],
    "a call at the end and an attachment": [asks("one"), calls("t1"), tells("att")],
    "a call at the end and a note": [asks("one"), calls("t1"), notes("s", "informational")],
    "a call at the end and a prompt": [asks("one"), calls("t1"), asks("two")],
    "a call at the end and words of the program": [asks("one"), calls("t1"), asks("i", isMeta=True)],
    # results without calls
    "a result first": [returns("t9", after=None), says("A"), asks("two"), says("B")],
    "a result without a call": [asks("one"), says("A"), returns("t9", after="A"), asks("two"), says("B")],
    "a result without a call between answers": [asks("one"), says("A"), returns("t9", after="A"), says("B")],
    "a result without a call at the end": [asks("one"), says("A"), returns("t9", after="A")],
    "a result twice": [asks("one"), calls("t1"), returns("t1"), returns("t1", "again", after="rt1"), says("B")],
    "a result twice, later": [
        asks("one"), calls("t1"), returns("t1"), says("A"), returns("t1", "again", after="A"), says("B"),
    ],
    "a result behind a prompt": [asks("one"), calls("t1"), asks("two"), returns("t1", after="two"), says("B")],
    "a result behind an answer": [asks("one"), calls("t1"), says("A"), returns("t1", after="A"), says("B")],
    "a call of the same name again": [
        asks("one"), calls("t1"), returns("t1"), says("A"), asks("two"), says("x", call("t1")),
        returns("t1", "again", after="x"), says("B"),
    ],
    # results
    "a result and a prompt": [asks("one"), calls("t1"), returns("t1"), asks("i", _INTERRUPTED), asks("two"), says("B")],
    "a result among text": [
        asks("one"), calls("t1"), gives("t1", text("before"), ..., text("after"), content="x"), says("B"),
    ],
    "a result that failed": [
        asks("one"), calls("t1"), gives("t1", is_error=True, content=[text("no"), PICTURE]), says("B"),
    ],
    "a result with a picture": [asks("one"), calls("t1"), gives("t1", content=[PICTURE]), says("B")],
    "a result of nothing": [asks("one"), calls("t1"), gives("t1", content=""), says("B")],
    "a skill": [
        asks("one"), calls("t1"), returns("t1"), asks("skill", isMeta=True, sourceToolUseID="toolu_t1"), says("B"),
    ],
    # calls
    "who calls": [asks("one"), says("t1", call("t1") | {"caller": {"type": "direct"}}), returns("t1"), says("B")],
    "the input of a call as text": [
        asks("one"), says("t1", call("t1") | {"input": '{"a": 1}'}), returns("t1"), says("B"),
    ],
    "a call that the provider answers": [
        asks("one"),
        says("t1", {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
             {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, text("x")),
        asks("two"), says("B"),
    ],
    # words of the program
    "a local command": [
        asks("one"), says("A"), notes("c", "local_command", "<command-name>/cost</command-name>"),
        notes("o", "local_command", "<local-command-stdout>3</local-command-stdout>"), asks("two"), says("B"),
    ],
    "a local command at the end": [
        asks("one"), says("A"), notes("c", "local_command", "<command-name>/cost</command-name>"),
    ],
    "a local command first": [
        notes("c", "local_command", "<command-name>/cost</command-name>"), asks("two"), says("B"),
    ],
    "notes": [
        asks("one"), says("A"), notes("a", "informational"), notes("b", "away_summary"), notes("c", "api_error"),
        notes("d", "turn_duration"), asks("two"), says("B"),
    ],
    "words of the program": [asks("one", isMeta=True), asks("two"), says("B")],
    "a message that is never sent": [asks("one"), says("A"), asks("v", isVirtual=True), says("B")],
    "a message for the list alone": [asks("one"), says("A"), asks("v", isVisibleInTranscriptOnly=True), says("B")],
    "an error of the API": [
        asks("one"),
        lambda talk: talk.add("assistant", "e", **_message([text("E")], model="<synthetic>"), isApiErrorMessage=True),
        asks("two"), says("B"),
    ],
    "an answer that the program made up": [
        asks("one"), lambda talk: talk.add("assistant", "e", **_message([text("Nothing")], model="<synthetic>")),
        asks("two"), says("B"),
    ],
    "a sidechain": [
        asks("one"), says("A"), asks("s", isSidechain=True), says("sa", isSidechain=True), asks("two", after="A"),
        says("B"),
    ],
    # messages of another shape
    "no role": [
        lambda talk: talk.add("user", "one", message={"content": "one"}),
        lambda talk: talk.add("assistant", "a", message={"content": [text("A")]}), asks("two"), says("B"),
    ],
    "another role": [
        asks("one"), lambda talk: talk.add("assistant", "a", **_message([text("A")], role="user")), asks("two"),
        says("B"),
    ],
    "an answer that is a text": [
        asks("one"), lambda talk: talk.add("assistant", "a", **_message("A")), asks("two"), says("B"),
    ],
    "a block of an unknown type": [
        asks("one"), says("a", {"type": "new_thing", "x": 1}, text("x")), asks("two"), says("B"),
    ],
    # compactions
    "a compaction": [*_TALK, compacts("c"), *_ON],
    "a compaction at the end": [*_TALK, compacts("c")],
    "a compaction that keeps a segment": [*_TALK, compacts("c", **segment("two", "A3")), *_ON],
    "a compaction that keeps a segment that is gone": [*_TALK, compacts("c", **segment("nowhere", "A3")), *_ON],
    "a compaction that keeps before its summary": [*_TALK, compacts("c", **segment("two", "A3", anchor="c")), *_ON],
    "a compaction that keeps messages": [*_TALK, compacts("c", **listed("two", "A2", "three", "A3")), *_ON],
    "a compaction that keeps messages with a gap": [*_TALK, compacts("c", **listed("A1", "two", "three", "A3")), *_ON],
    "a compaction that keeps messages in another order": [*_TALK, compacts("c", **listed("three", "A3", "two")), *_ON],
    "a compaction that keeps a message that is gone": [*_TALK, compacts("c", **listed("two", "nowhere", "A3")), *_ON],
    "a compaction that says twice what it keeps": [
        *_TALK, compacts("c", **segment("two", "A3"), **listed("A2", "three", "A3")), *_ON,
    ],
    "a compaction that keeps parallel calls": [
        asks("one"), calls("t1", "m"), returns("t1", moves=False), calls("t2", "m", after="t1"), returns("t2"),
        says("A2"),
        compacts("c", **listed("t1", "t2", "rt1", "rt2", "A2")), *_ON,
    ],
    "a compaction that keeps a result without its call": [
        asks("one"), calls("t1"), returns("t1"), says("A2"), compacts("c", **segment("rt1", "A2")), *_ON,
    ],
    "a compaction that keeps what is written later": [
        asks("one"), says("A1"), compacts("c", **listed("A1", "two", "A2")), asks("two", after="A1"), says("A2"),
        asks("three", after="cs"), says("A3"),
    ],
    "a compaction that keeps a segment that is written later": [
        asks("one"), says("A1"), compacts("c", **segment("A1", "A2")), asks("two", after="A1"), says("A2"),
        asks("three", after="cs"), says("A3"),
    ],
    "what goes on from a message that a compaction keeps": [
        *_TALK, compacts("c", **listed("three", "A3")), asks("four", after="A3"), says("A4"),
    ],
    "a compaction behind another": [
        *_TALK, compacts("c", **listed("three", "A3")), *_ON, compacts("d", **listed("A3", "four", "A4", anchor="ds")),
        asks("five"), says("A5"),
    ],
    "a compaction that keeps the summary of another": [
        *_TALK, compacts("c"), *_ON, compacts("d", **listed("cs", "four", "A4", anchor="ds")), asks("five"), says("A5"),
    ],
    "a compaction that keeps a segment across another": [
        *_TALK, compacts("c"), *_ON, compacts("d", **segment("three", "A4", anchor="ds")), asks("five"), says("A5"),
    ],
    "a compaction that keeps a segment with the summary of another": [
        *_TALK, compacts("c"), *_ON, compacts("d", **segment("cs", "A4", anchor="ds")), asks("five"), says("A5"),
    ],
    "a boundary that keeps messages, without a summary": [
        *_TALK, compacts("c", **listed("two", "A2", "three", "A3")), lambda talk: talk.entries.pop(),
    ],
    "a boundary without a summary": [*_TALK, compacts("c"), lambda talk: talk.entries.pop()],
    # the chain
    "a branch": [*_TALK, asks("two b", after="A1"), says("B2")],
    "a branch that was left again": [
        *_TALK, asks("two b", after="A1"), says("B2"), marks("last-prompt", leafUuid=uuid("A3")),
    ],
    "a parent that is gone": [*_TALK, asks("x", after="nowhere"), says("B2")],
    "an entry twice": [asks("one"), says("A"), again(-1), asks("two"), says("B")],
    "an entry twice, in other words": [
        asks("one"), says("A"), again(1, **_message([text("again")])), asks("two"), says("B"),
    ],
    "a prompt twice, in other words": [
        asks("one"), again(0, message={"role": "user", "content": "again"}), says("A"), asks("two"), says("B"),
    ],
    "an entry twice, elsewhere": [
        *_TALK, again(1, parentUuid=uuid("A3"), **_message([text("again")])), asks("four", after="A1"), says("B"),
    ],
}  # fmt: skip
"""By what happens in them."""


def talk_of(name: str) -> Talk:
    """Return a session of the list."""
    talk = Talk()
    for step in TALKS[name]:
        step(talk)
    return talk
