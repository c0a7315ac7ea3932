"""What Claude Code sends to a model when it resumes a session.

| kind of node     | effect                                                                                           |
|------------------|--------------------------------------------------------------------------------------------------|
| `message`        | the message as it is, text of the program included; none if it reports an error of the API       |
| `custom_message` | a message of the user: Claude Code has none, these were added elsewhere                          |
| `branch_summary` | a message of the user; none if it is empty                                                       |
| `compaction`     | takes the place of all before it, by the message behind it, or its own summary if made elsewhere |

A boundary of Claude Code may name a row of messages that stay. They come behind the one that it names for that, which
is mostly the summary; a compaction made elsewhere keeps what it says behind its own summary. Setting: the model of the
last answer. Claude Code builds more around it that is not in its files: the system prompt, and reminders that it makes
of attachments. (Facts from the files, and from the SDK's `get_session_messages`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from treering.checkpoint.context import Context
from treering.checkpoint.policies.walk import Walk
from treering.checkpoint.policy import Recorded, Seen, register_policy, register_view
from treering.format.record import Skeleton, read_brief
from treering.format.values import fields_of

SUMMARY: Final = "claude.summary@1"
BRANCH_SUMMARY: Final = "claude.branch_summary@1"
CUSTOM: Final = "claude.custom_message@1"


class Claude(Walk):
    """Claude Code 2."""

    name = "claude"
    summary = SUMMARY
    front = frozenset({SUMMARY})
    shown = {"message": "", "branch_summary": BRANCH_SUMMARY, "custom_message": CUSTOM}  # noqa: RUF012

    def build(self, path: Sequence[Skeleton], recorded: Recorded | None = None) -> Context:
        """Return the context at the end of `path`; what a boundary of Claude Code keeps stands where it says."""
        latest = next((at for at in reversed(range(len(path))) if path[at].kind == "compaction"), -1)
        brief = read_brief(path[latest]) if latest >= 0 else {}
        if not brief.get("boundary"):
            return super().build(path, recorded)
        after = path[latest + 1 :]
        kept = _segment(path[:latest], brief)
        at = next((place + 1 for place, row in enumerate(after) if row.id == brief.get("kept_after")), 0)
        shown = [*after[:at], *kept, *after[at:]]
        return Context(tuple(item for row in shown for item in self.items(row)), self.settings(path))

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return `build` of the longer path; None where only the path tells what a boundary keeps."""
        brief = read_brief(skeleton) if skeleton.kind == "compaction" else {}
        if brief.get("boundary"):
            return None if "kept" in brief else Context((), self.settle(context.settings, skeleton))
        return super().extend(context, skeleton)

    def settle(self, settings: dict[str, object], skeleton: Skeleton) -> dict[str, object]:
        """Return the settings behind a node: an answer names its model, and so does a change made elsewhere."""
        if skeleton.kind != "model_change" and (skeleton.kind != "message" or skeleton.role != "assistant"):
            return settings
        model = read_brief(skeleton).get("model")
        return settings if model is None or model == settings.get("model") else settings | {"model": model}


def _segment(path: Sequence[Skeleton], brief: Mapping[str, object]) -> Sequence[Skeleton]:
    """The nodes of a path that a boundary keeps: from the first to the last one that it names."""
    places = {row.id: at for at, row in enumerate(path)}
    first, last = places.get(str(brief.get("kept"))), places.get(str(brief.get("kept_last")))
    return [] if first is None or last is None else path[first : last + 1]


def _summary(payload: object, _seen: Seen) -> object:
    return _told("This session goes on from a conversation whose context was full. Its summary:", payload)


def _branch_summary(payload: object, _seen: Seen) -> object:
    return _told("The conversation went back to an earlier point. Summary of what was left behind:", payload)


def _told(opening: str, payload: object) -> object:
    return {"role": "user", "content": f"{opening}\n\n{fields_of(payload).get('summary', '')}"}


def _custom_message(payload: object, _seen: Seen) -> object:
    return {"role": "user", "content": fields_of(payload).get("content", "")}


register_policy(Claude())
register_view(SUMMARY, _summary)
register_view(BRANCH_SUMMARY, _branch_summary)
register_view(CUSTOM, _custom_message)
