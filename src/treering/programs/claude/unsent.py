"""The parts of a context that Claude Code does not send, though they are in its file.

It skips parts that the API would refuse: calls without a result, results without a call, second results of a call,
thinking at the end of an answer, blank texts. (Seen in the requests of Claude Code 2.1.330. A last call without a
result is sent, with a result that the program makes up.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from treering.format.values import fields_of
from treering.programs.common.blocks import blocks_of, role_of, text_of
from treering.programs.common.target import LeftOut

_REASONS: Final = {
    "tool_call": "the program sends no call without its result, or makes one up",
    "tool_result": "the program sends one result for each call, and none without a call",
    "thinking": "the program sends no thinking that nothing follows in the answer",
    "text": "the program sends no blank text of an answer",
}


def unsent(messages: Iterable[object]) -> list[LeftOut]:
    """Return the parts of a context that are not sent.

    Args:
        messages: The messages that the session shows to the model, in any format.
    """
    found: Counter[str] = Counter()
    open_calls: Counter[str] = Counter()
    only_thought: dict[str, bool] = {}
    for number, message in enumerate(map(fields_of, messages)):
        blocks = blocks_of(message)
        for block in blocks:
            if block.kind == "call":
                open_calls[block.id] += 1
            elif block.kind == "result" and open_calls[block.id]:
                open_calls[block.id] -= 1
            elif block.kind == "result":
                found["tool_result"] += 1
        if blocks and role_of(message, blocks) == "assistant":
            found["text"] += sum(block.kind == "text" and not block.text.strip() for block in blocks)
            answer = text_of(message["id"]) if "id" in message else f"{number}"
            thought = all(block.kind == "thinking" for block in blocks)
            only_thought[answer] = only_thought.get(answer, True) and thought
    found["tool_call"] = open_calls.total()
    found["thinking"] = sum(only_thought.values())
    return [LeftOut(kind, found[kind], reason, seen=True) for kind, reason in _REASONS.items() if found[kind]]
