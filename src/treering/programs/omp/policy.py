"""The messages that oh-my-pi sends to a model (`omp`), and those that it shows to a person (`omp-transcript`).

`omp`, for a path from a root to a leaf:

1. The context begins after the latest `reset_boundary`, or with the latest compaction and its kept messages, whichever
   is later on the path. A compaction with a provider's own replay keeps only messages after the end of that replay. A
   compaction that summarises no turns also keeps the latest request of the user. If a provider wrote the summary, its
   time is just before that of the next message. The current notebook, the last one after a reset, comes first.
2. A tool call without a result among the shown messages is removed from its message. Thinking in the same message loses
   its signature, and encrypted thinking is removed, since a provider refuses signed turns that were changed. A message
   that is empty then is removed.
3. A message that ended in an error or was aborted is removed, with the later results of its calls, unless a note about
   interrupted thinking follows directly.

4. Turns that failed without any text are removed, and also retried turns and messages for one turn only.

`omp-transcript` has the whole path, with all compactions in their places, except a compaction of pictures that the next
compaction replaces. Only rule 2 applies, and a message that is empty then is kept, to show that it existed.

Settings: the last thinking level; models by role, where a message of an assistant sets the default model while no
default was chosen; mode and its data; the tier of service; all rules that were injected. (Read from the program's
answers, its documentation and its published package.)

Ids of tool calls are long and briefs are short. So briefs have digests of them: `calls` of an assistant's message, and
`result` of an answer, which begins with the digest of its call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import pairwise
from typing import Any, Final, NamedTuple

from treering.checkpoint.context import Context, Item
from treering.checkpoint.policies import Walk
from treering.checkpoint.policy import Recorded, register_policy
from treering.format.record import Skeleton, read_brief
from treering.format.values import fields_of
from treering.programs.omp.views import (
    COMPACTION,
    CUSTOM_MESSAGE,
    DIVIDER,
    NATIVE,
    NOTES,
    REHYDRATED,
    ROW,
    STRIPPED,
    SUPERSEDED,
    listed,
)

DIGEST_CHARACTERS: Final = 8
"""The characters of a whole digest. The digests of a message with very many calls are cut to fit."""
_NOTE_OF_INTERRUPTED_THINKING: Final = "interrupted-thinking"
_FOR_ONE_TURN: Final = frozenset({"prewalk-plan", "vibe-mode-context"})
"""Messages that are sent once and never again."""
_TELLING: Final = frozenset({"calls", "result", "failed", "kept_time", "notes", "rollover"})
"""Fields of a brief that decide whether this message or others are shown, and with which time."""

_BEGINNINGS: Final = frozenset({"compaction", "reset_boundary"})

Settings = dict[str, object]


class Omp(Walk):
    """The messages for a model."""

    name = "omp"
    summary = COMPACTION
    front = frozenset({COMPACTION, NATIVE, NOTES})
    own = frozenset({"", REHYDRATED})
    shown = {  # noqa: RUF012
        "message": "",
        "branch_summary": "pi.branch_summary@1",
        "custom_message": CUSTOM_MESSAGE,
    }

    def build(self, path: Sequence[Skeleton], recorded: Recorded | None = None) -> Context:
        """Return the context at the end of `path`, without the nodes before the latest reset."""
        latest = next((at for at in reversed(range(len(path))) if path[at].kind in _BEGINNINGS), -1)
        begun = path[latest + 1 :] if latest >= 0 and path[latest].kind == "reset_boundary" else path
        items = super().build(begun, recorded).items
        if items and items[0].view == NATIVE:
            items = (_dated(items[0], path, latest), *items[1:])
        return Context((*_notes(path), *items), self.settings(path))

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return `build` of the longer path, or None if the new node may change how earlier nodes are shown."""
        if skeleton.kind == "reset_boundary":
            return Context((), self.settle(context.settings, skeleton))
        brief = read_brief(skeleton)
        if skeleton.kind == "compaction" and (brief.get("replay") or brief.get("kept") not in (None, skeleton.id)):
            return None
        if not _TELLING.isdisjoint(brief) or brief.get("custom_type") == _NOTE_OF_INTERRUPTED_THINKING:
            return None
        beginning = {item.view for item in context.items[:2]}
        if NATIVE in beginning or (NOTES in beginning and skeleton.kind == "compaction"):
            return None
        return super().extend(context, skeleton)

    def compacted(self, skeleton: Skeleton) -> tuple[Item, ...]:
        """Return the item of the summary."""
        return (Item(skeleton.id, NATIVE if read_brief(skeleton).get("native") else COMPACTION),)

    def kept(self, path: Sequence[Skeleton], latest: int, recorded: Recorded | None) -> Sequence[Skeleton]:
        """Return the nodes before a compaction that it keeps, without the nodes that a provider replays itself."""
        brief = read_brief(path[latest])
        kept = super().kept(path, latest, recorded)
        request = _request(path[: latest + 1], kept) if brief.get("rollover") else ()
        return [*request, *(_behind_replay(path[:latest], brief.get("through")) if brief.get("replay") else kept)]

    def hides(self, skeleton: Skeleton) -> bool:
        """Tell whether the brief of a node excludes it."""
        brief = read_brief(skeleton)
        passing = skeleton.kind == "custom_message" and brief.get("custom_type") in _FOR_ONE_TURN
        return super().hides(skeleton) or brief.get("retried") is True or passing

    def items(self, skeleton: Skeleton) -> tuple[Item, ...]:
        """Return the items of a node."""
        items = super().items(skeleton)
        warmed = items and skeleton.role == "assistant" and read_brief(skeleton).get("rehydrated")
        return (Item(skeleton.id, REHYDRATED),) if warmed else items

    def edited(self, items: tuple[Item, ...], shown: Sequence[Skeleton]) -> tuple[Item, ...]:
        """Return the items without unpaired calls and failed turns."""
        messages = list(_without_unpaired(_messages(items, shown), STRIPPED))
        return tuple(message.item for message in _without_failed(messages))

    def settle(self, settings: dict[str, object], skeleton: Skeleton) -> dict[str, object]:
        """Return the settings after a node."""
        fold = _FOLDS.get(skeleton.role if skeleton.kind == "message" else skeleton.kind)
        return fold(settings, read_brief(skeleton)) if fold else settings

    def state(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return the settings under oh-my-pi's names; optional settings are left out if they are not set."""
        state = {
            "thinkingLevel": settings.get("thinking") or "off",
            "models": settings.get("models", {}),
            "injectedTtsrRules": settings.get("rules", []),
            "mode": settings.get("mode") or "none",
        }
        optional = {"configured": "configuredThinkingLevel", "mode_data": "modeData", "tiers": "serviceTier"}
        return state | {new: value for old, new in optional.items() if (value := settings.get(old)) is not None}


class Transcript(Omp):
    """The transcript for a person: everything on the path."""

    name = "omp-transcript"

    def build(self, path: Sequence[Skeleton], recorded: Recorded | None = None) -> Context:  # noqa: ARG002  # protocol
        """Return all messages of a path, compactions in their places."""
        last = next((row.id for row in reversed(path) if row.kind == "compaction"), None)
        rescued = {row.id for row, following in pairwise(path) if _is_rescue(following, row)}
        items = [item for row in path if row.id not in rescued for item in self._row(row, last)]
        rows = _without_unpaired(_messages(items, path), ROW)
        return Context(tuple(row.item for row in rows), self.settings(path))

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return `build` of the longer path, or None if the new node changes how earlier nodes are shown."""
        brief = read_brief(skeleton)
        if skeleton.kind == "compaction" or "calls" in brief or "result" in brief:
            return None
        return Context((*context.items, *self.items(skeleton)), self.settle(context.settings, skeleton))

    def hides(self, skeleton: Skeleton) -> bool:
        """Tell whether a node has nothing to show."""
        return Walk.hides(self, skeleton)

    def _row(self, row: Skeleton, last: str | None) -> tuple[Item, ...]:
        if row.kind != "compaction":
            return self.items(row)
        return (Item(row.id, DIVIDER if row.id == last else SUPERSEDED),)


def _notes(path: Sequence[Skeleton]) -> tuple[Item, ...]:
    """Return the current notebook, if it is not empty."""
    for row in reversed(path):
        written = read_brief(row).get("notes")
        if row.kind == "reset_boundary" or written is not None:
            return (Item(row.id, NOTES),) if written else ()
    return ()


def _dated(item: Item, path: Sequence[Skeleton], latest: int) -> Item:
    """Return a summary that a provider wrote, with a time just before the first node that it does not replace."""
    brief = read_brief(path[latest])
    after = path[latest + 1 : latest + 2]
    first = next((row for row in path[:latest] if row.id == brief.get("kept")), after[0] if after else None)
    time = brief.get("kept_time", None if first is None else first.time)
    return Item(item.node, f"{NATIVE}:{time - 1}") if isinstance(time, int) else item


def _behind_replay(path: Sequence[Skeleton], through: object) -> Sequence[Skeleton]:
    """Return the nodes after the end of a provider's own replay; none without an end."""
    end = next((at for at, row in enumerate(path) if row.id == through), -1 if through == "" else len(path))
    return path[end + 1 :]


def _request(path: Sequence[Skeleton], kept: Sequence[Skeleton]) -> Sequence[Skeleton]:
    """Return the latest request of the user after a reset, if the compaction at the end of `path` does not keep it.

    There is none if the first kept entry is not on the path. That entry may be a note, or the compaction itself, which
    then keeps nothing else.
    """
    brief = read_brief(path[-1])
    found = "kept_time" in brief or any(row.id == brief.get("kept") for row in path)
    for row in reversed(path if found else ()):
        if row.kind == "reset_boundary":
            return ()
        if _is_request(row):
            return () if row in kept else (row,)
    return ()


def _is_request(row: Skeleton) -> bool:
    return (row.kind == "message" and row.role == "user") or read_brief(row).get("request") is True


def _is_rescue(row: Skeleton, before: Skeleton) -> bool:
    """Tell whether a compaction of pictures replaces the compaction directly before it."""
    if (row.kind, before.kind) != ("compaction", "compaction") or (row.links and "source_parent" in row.links):
        return False
    new, old = read_brief(row), read_brief(before)
    alike = all(new.get(name) == old.get(name) for name in ("kept", "tokens_before"))
    return alike and bool(new.get("pictures") and old.get("pictures"))


def _messages(items: Sequence[Item], shown: Sequence[Skeleton]) -> list[_Shown]:
    rows = {row.id: row for row in shown}
    return [_shown(item, rows.get(item.node)) for item in items]


class _Shown(NamedTuple):
    """An item, and the facts about its message that the rules need."""

    item: Item
    calls: tuple[str, ...]
    """Digests of its tool calls, in order; a result's digest begins with that of its call."""
    result: str
    """The digest of the call whose result it is; empty if it is no result."""
    failed: bool
    """Whether it ended in an error or was aborted."""
    bare: bool
    """Whether it has only tool calls and encrypted thinking."""
    custom_type: str


def _shown(item: Item, row: Skeleton | None) -> _Shown:
    brief = read_brief(row) if row is not None else {}
    texts = {name: value for name, value in brief.items() if isinstance(value, str)}
    return _Shown(
        item=item,
        calls=tuple(texts.get("calls", "").split()),
        result=texts.get("result", ""),
        failed=brief.get("failed") is True,
        bare=brief.get("bare") is True,
        custom_type=texts.get("custom_type", ""),
    )


def _without_unpaired(messages: Sequence[_Shown], view: str) -> Iterator[_Shown]:
    """Yield the messages; messages with unpaired calls get `view`, with the numbers of these calls as its argument."""
    answers = {message.result for message in messages}
    for message in messages:
        open_calls = [at for at, call in enumerate(message.calls) if not _has_answer(call, answers)]
        if open_calls and not (view == STRIPPED and message.bare and len(open_calls) == len(message.calls)):
            yield message._replace(item=Item(message.item.node, f"{view}:{','.join(map(str, open_calls))}"))
        elif not open_calls:
            yield message


def _has_answer(call: str, answers: AbstractSet[str]) -> bool:
    return call in answers or (len(call) < DIGEST_CHARACTERS and any(answer.startswith(call) for answer in answers))


def _without_failed(messages: Sequence[_Shown]) -> list[_Shown]:
    """Return the messages without failed turns and the results of their calls, processed from the end."""
    kept: list[_Shown] = []  # backwards
    for message in reversed(messages):
        if not message.failed or (kept and kept[-1].custom_type == _NOTE_OF_INTERRUPTED_THINKING):
            kept.append(message)
        else:
            kept = [later for later in kept if not any(later.result.startswith(call) for call in message.calls)]
    return kept[::-1]


# Settings


def _fold_thinking(settings: Settings, brief: Settings) -> Settings:
    level, configured = brief.get("thinking"), brief.get("configured")
    return settings | {"thinking": level, "configured": level if configured is None else configured}


def _fold_model(settings: Settings, brief: Settings) -> Settings:
    """Apply a change of models. A change of the default model counts more than the models of later messages."""
    chosen = {role: model for role, model in fields_of(brief.get("models")).items() if isinstance(model, str)}
    if name := _model_name(brief):
        chosen["default"] = name
    return _with_models(settings, chosen) | ({"chosen": True} if "default" in chosen else {})


def _fold_assistant(settings: Settings, brief: Settings) -> Settings:
    name = _model_name(brief)
    return settings if settings.get("chosen") or not name else _with_models(settings, {"default": name})


def _with_models(settings: Settings, models: dict[str, Any]) -> Settings:
    known = fields_of(settings.get("models"))
    return settings if models.items() <= known.items() else settings | {"models": known | models}


def _model_name(brief: Settings) -> str:
    """Return `provider/model`; only the model if no provider is named."""
    names = [name for name in (brief.get("provider"), brief.get("model")) if isinstance(name, str)]
    return "/".join(names) if isinstance(brief.get("model"), str) else ""


def _fold_mode(settings: Settings, brief: Settings) -> Settings:
    return settings | {"mode": brief.get("mode"), "mode_data": brief.get("data")}


def _fold_tiers(settings: Settings, brief: Settings) -> Settings:
    return settings | {"tiers": brief.get("tiers")}


def _fold_rules(settings: Settings, brief: Settings) -> Settings:
    rules = [*listed(settings.get("rules")), *listed(brief.get("rules"))]
    return settings | {"rules": list(dict.fromkeys(rules))}


_FOLDS: Final[Mapping[str, Callable[[Settings, Settings], Settings]]] = {
    "assistant": _fold_assistant,
    "mode_change": _fold_mode,
    "model_change": _fold_model,
    "service_tier_change": _fold_tiers,
    "thinking_change": _fold_thinking,
    "ttsr_injection": _fold_rules,
}


for _policy in (Omp(), Transcript()):
    register_policy(_policy)
