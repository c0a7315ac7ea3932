"""Makes session files of pi and oh-my-pi by chance: all types of entries, odd values among them, and some damage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from random import Random
from typing import Any, Final

from treering.programs.common.writing import encode_javascript
from treering.programs.omp.title_slot import TitleSlot, build_title_slot

Record = dict[str, Any]
PICTURE: Final = b"a picture"
BLOB: Final = sha256(PICTURE).hexdigest()
"""The name of the file of oh-my-pi that holds the picture."""
TIME: Final = "2026-01-05T08:00:01.000Z"

_TIMES: Final = (TIME, "2026-01-05T09:00:02+01:00", "2026-01-05", "yesterday", "", "2026-01-05T08:00:01.123456Z")
_TEXTS: Final = ("", "hello", "two\nlines", "日本語", "a\u2028b", "\ud83d", 'quote"s\\', " ", "x" * 300)
_ODD: Final[tuple[Any, ...]] = (
    None, 0, -1, 1.5, True, False, "", "odd", [], {}, [None], {"a": [1, None]}, "blob:sha256:zz", [[]], "e1", "user",
    [{"type": "text"}], [{"type": "text", "text": 5}], {"type": "text", "text": "x"}, {"role": "user"}, 1767600000009,
)  # fmt: skip
_FIXED: Final = frozenset({
    "provider", "modelId", "model", "thinkingLevel", "configured", "mode", "label", "role", "fromId", "summary", "id",
    "parentId", "timestamp", "injectedRules", "tokensAfter",
})  # fmt: skip
"""Fields that stay as a program writes them. What else may be in them is read in another way here, as the docs say."""
_STRAY: Final = (
    b"", b"   ", b"\t", b"garbage", b'{"torn":"rec', b'{"no":"type"}',
    b'{"type":"session","id":"s-x","version":1}', b"[1,2]", b'"text"', b"5", b"true",
)  # fmt: skip
"""Lines that are no entries; the last five are in the way when old files are migrated. `null` is refused by two of the
programs, and of two records on a line they lose one: the golden files have that."""
_STRAY_IN_OLD: Final = 6
_ROLES: Final = (
    "user",
    "assistant",
    "assistant",
    "toolResult",
    "bashExecution",
    "custom",
    "system",
    "hookMessage",
    "odd",
)
_OMP_ROLES: Final = ("pythonExecution", "developer", "fileMention")
_OMP_CUSTOM: Final = (
    "interrupted-thinking",
    "interrupted-thinking",
    "prewalk-plan",
    "vibe-mode-context",
    "skill-prompt",
)
_REPLAY: Final = {"type": "openaiResponsesHistory", "provider": "openai", "items": [{"type": "message", "id": "m"}]}
_USAGE: Final = {"input": 5, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 7}
_COST: Final = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.25}


def make_session(random: Random, program: str, oddity: float) -> list[Record]:
    """Return the header and the entries of a session.

    Args:
        random: Decides.
        program: `omp`, or one of the versions of pi.
        oddity: How likely a value is none that a program writes.
    """
    return _Maker(random, omp=program == "omp", oddity=oddity).session()


def write_session(random: Random, records: list[Record], program: str, *, whole: bool) -> bytes:
    """Return the bytes of a file with these records; if it need not be whole, sometimes something befell them."""
    lines = [encode_javascript(record) for record in records]
    headers = 1
    if program == "omp" and random.random() < 0.4:
        headers = 2
        slot = TitleSlot(random.choice(("", "A slot", "日本語")), random.choice(("", "auto", "user")), TIME)
        lines.insert(0, build_title_slot(slot).rstrip(b"\n"))
    if whole:
        return b"".join(line + b"\n" for line in lines)
    end = b"\r\n" if random.random() < 0.05 else b"\n"
    if random.random() < 0.25:
        old = records[0].get("version") not in (2, 3)
        lines.insert(
            random.randrange(headers, len(lines) + 1), random.choice(_STRAY[:_STRAY_IN_OLD] if old else _STRAY)
        )
    data = end.join(lines) + end
    return data.removesuffix(end) if random.random() < 0.1 else data


class _Maker:
    """Makes one session."""

    def __init__(self, random: Random, *, omp: bool, oddity: float) -> None:
        self._random = random
        self._omp = omp
        self._oddity = oddity
        self._ids: list[str] = []
        self._messages: list[str] = []
        self._kinds = {**_KINDS, **(_OMP_KINDS if omp else _PI_KINDS)}

    def session(self) -> list[Record]:
        """Return a header and entries, each mostly below one of the last ones."""
        header = self._header()
        entries = [self._entry(number) for number in range(self._one(0, 1, 3, 8, 16, 30))]
        if header.get("version") in (None, 0, 1, ""):
            entries = [{k: v for k, v in entry.items() if k not in ("id", "parentId")} for entry in entries]
        return [header, *entries]

    def _one(self, *values: Any) -> Any:
        return self._random.choice(values)

    def _often(self, usual: Any, *odd: Any) -> Any:
        """A value as the program writes it; sometimes another."""
        return self._random.choice(odd or _ODD) if self._random.random() < self._oddity else usual

    def _some(self, **fields: Any) -> Record:
        return {name: value for name, value in fields.items() if self._random.random() < 0.4}

    def _header(self) -> Record:
        version = self._often(self._one(3, 3, 3, 3, 2, 1), 4, 99, "3", None, 2.5, 0, "x", "")
        made = {"type": "session", "version": version, "id": f"s-{self._random.randrange(10**6)}"}
        made |= {"timestamp": self._often(TIME, *_TIMES), "cwd": "/repo"}
        made |= self._one({}, {}, {"parentSession": "/a/b.jsonl"}, {"branchedFrom": "/a/c.jsonl"}, {"x": [1]})
        if self._omp:
            made |= self._one({}, {"title": "A title", "titleSource": "user"}, {"additionalDirectories": ["/more"]})
        return made

    def _entry(self, number: int) -> Record:
        recent: list[str | None] = [*self._ids[-3:], *self._ids[-1:] * 8] or [None]
        parent = self._often(self._one(*recent), *self._ids, None, "gone", "", 5, f"e{number}")
        seconds = self._one(number, number, number, 0, 59 - number % 60)
        time = f"2026-01-05T08:{seconds // 60:02}:{seconds % 60:02}.000Z"
        envelope = {"id": f"e{number}", "parentId": parent, "timestamp": self._often(time, *_TIMES)}
        (kind,) = self._random.choices([*self._kinds], [weight for weight, _ in self._kinds.values()])
        own = self._kinds[kind][1](self)
        kind = kind.partition(" ")[0]
        self._ids.append(f"e{number}")
        self._messages += [f"e{number}"] if kind == "message" else []
        first = kind.startswith("custom")
        return self._damaged({"type": kind, **own, **envelope} if first else {"type": kind, **envelope, **own})

    def _damaged(self, made: Record) -> Record:
        name = self._one(*made, "extra")
        if self._random.random() >= self._oddity or name in _FIXED:
            return made
        if self._random.random() < 0.4:
            return {each: value for each, value in made.items() if each != name}
        return made | {name: self._one(*_ODD)}

    # entries

    def message(self) -> Record:
        """A message of any role."""
        role = self._one(*_ROLES, *(_OMP_ROLES if self._omp else ()))
        time = {"timestamp": self._often(1767600000000 + self._random.randrange(10**6), None, "x", 0)}
        return {"message": self._often(self._damaged({"role": role, **self._said(role), **time}))}

    def _said(self, role: str) -> Record:
        if role == "assistant":
            return self._turn()
        if role == "toolResult":
            own = {"toolCallId": self._call(), "toolName": "bash", "content": self._content()}
            return own | {"isError": self._one(True, False)}
        if role == "bashExecution":
            own = {"command": "ls", "output": self._text(), "cancelled": False, "truncated": False}
            return own | self._some(exitCode=0)
        if role in ("custom", "hookMessage"):
            return {"customType": self._custom_type(), "content": self._content(), "display": self._one(True, False)}
        if role == "system":
            return {"content": self._text(), **self._some(toolsAdded=[], sections=[{"a": 1}])}
        return {"content": self._content()}

    def _turn(self) -> Record:
        kinds = ("text", "thinking", "toolCall", "toolCall", *(("redactedThinking",) if self._omp else ()))
        api, provider = self._one(
            ("x", "anthropic"), ("openai-responses", "openai"), ("openai-responses", "github-copilot")
        )
        stop = self._one("stop", "stop", "toolUse", "length", "error", "aborted")
        more = self._some(errorMessage="failed", responseId="r1")
        if self._omp:
            more |= self._one({}, {}, {"retryRecovery": {"kind": "x"}}, {"providerPayload": _REPLAY})
        model = {"api": api, "provider": self._setting(provider), "model": self._setting(self._one("claude", "gpt/5"))}
        return {"content": self._content(*kinds), **model, "usage": self._usage(), "stopReason": stop, **more}

    def compaction(self) -> Record:
        """A compaction that keeps from anywhere."""
        made = {
            "summary": self._one(*_TEXTS),
            "firstKeptEntryId": self._any_id(),
            "tokensBefore": self._often(100, 0, 1.5),
        }
        made |= self._some(details={"d": 1}, fromHook=True, usage=self._usage())
        if self._random.random() < 0.1:
            made["firstKeptEntryIndex"] = self._often(self._random.randrange(12), -1, 99, 1.5, "2")
        if not self._omp:
            made |= self._one({}, {}, {"systemMessage": {"role": "system", "content": "s", "timestamp": 1}})
            return made
        made |= self._some(shortSummary="short", tokensAfter=5, method=self._one("soft", "snapcompact"), warning="full")
        made |= self._some(providerReplayThroughEntryId=self._any_id(), preserveData=self._often(self._preserved()))
        if self._random.random() < 0.3 and self._messages:  # what it keeps begins with a message
            made |= {"firstKeptEntryId": self._one(*self._messages[-6:])}
            made |= {"details": {"kind": "experimental-context-rollover"}}
        return made

    def _preserved(self) -> Record:
        items = [{"type": "message"}, {"type": "compaction", "encrypted_content": "x"}]
        remote = {"provider": self._often("openai", ""), "replacementHistory": self._often(items)}
        native = {
            "provider": self._often("anthropic"),
            "content": self._often("S"),
            "encryptedContent": self._one("x", None),
        }
        frame = {"data": self._often("aGk=", 5), "mimeType": "image/png", "cols": 5, "rows": 5, "chars": 9}
        frame |= self._some(font="5x8", variant="plain", detail="high")
        archive = {"frames": [frame] * self._one(0, 1, 3), "totalChars": 20, "truncatedChars": self._one(0, 20)}
        archive |= self._some(textHead="head", textTail="tail", text="all of it")
        provider = self._one({"openaiRemoteCompaction": remote}, {"anthropicCompaction": native})
        return self._some(**provider, snapcompact=archive, hook={"n": 1})

    def branch_summary(self) -> Record:
        """A summary of any other branch."""
        made = {"fromId": self._often(self._any_id(), "root"), "summary": self._one(*_TEXTS)}
        return made | self._some(details={"d": 1}, fromHook=True)

    def custom(self) -> Record:
        """An entry of an extension."""
        return {"customType": self._custom_type(), "data": self._often({"n": 1})}

    def notebook(self) -> Record:
        """The notebook of a model; one of another version, or with more in it, is none."""
        odd = {"version": 2, "text": "x"}, {"version": 1, "text": "x", "y": 1}, {"version": 1, "text": ""}
        data = self._one({"version": 1, "text": self._one("remember", "me")}, *odd)
        return {"customType": "experimental_context_notes", "data": data}

    def custom_message(self) -> Record:
        """A message of an extension."""
        made = {
            "customType": self._custom_type(),
            "content": self._often(self._content()),
            "display": self._one(True, False),
        }
        return made | self._some(
            details={"d": 1}, **({"attribution": self._one("user", "agent", "x")} if self._omp else {})
        )

    def label(self) -> Record:
        """A label, or none, for any entry."""
        return {"targetId": self._any_id(), **self._one({"label": "here"}, {"label": "there"}, {"label": ""}, {})}

    def context_edit(self) -> Record:
        """Another content for any entry."""
        content = self._one(self._text(), self._content("text"))
        return {"targetId": self._any_id(), "replacement": self._one(None, {"content": content})}

    def model_change(self) -> Record:
        """Another model, in the words of either program."""
        if not self._omp:
            return {"provider": self._setting("openai"), "modelId": self._setting("gpt")}
        role = self._one({}, {"role": "default"}, {"role": "smol"}, {"role": "fallback"})
        return {"model": self._one("openai/gpt", "a/b/c", "local", ""), **role}

    def thinking(self) -> Record:
        """Another level of thinking."""
        level = self._one("low", "high", *((None,) if self._omp else ()))
        return {"thinkingLevel": level, **(self._some(configured="auto") if self._omp else {})}

    def mode(self) -> Record:
        """Another mode."""
        return {"mode": self._one("plan", "none"), **self._some(data={"file": "/p"})}

    def tier(self) -> Record:
        """Another tier of service, also in the words of old files."""
        return {"serviceTier": self._one(None, {"openai": "flex"}, {"x": "y"}, "priority", "flex", "claude-only")}

    def spent(self) -> Record:
        """What something cost, in the words of either program."""
        named = {"purpose": "t", "api": "x"} if self._omp else {"kind": "title"}
        return {**named, "provider": "p", "model": "m", "usage": self._usage()}

    # parts of them

    def _setting(self, usual: str) -> Any:
        return self._often(usual, "", *(() if self._omp else (None,)))

    def _any_id(self) -> Any:
        return self._often(self._one(*(self._ids[-6:] or ["e0"])), "gone", None, "", "e1", "e25", 3)

    def _text(self) -> Any:
        return self._often(self._one(*_TEXTS))

    def _content(self, *kinds: str) -> Any:
        if not kinds and self._random.random() < 0.3:
            return self._text()
        return [self._block(self._one(*(kinds or ("text", "text", "image")))) for _ in range(self._random.randrange(4))]

    def _block(self, kind: str) -> Any:
        data = self._one("aGk=", *((f"blob:sha256:{BLOB}",) if self._omp else ()))
        blocks = {
            "text": {"text": self._text(), **self._some(textSignature="sig")},
            "image": {"data": data, "mimeType": "image/png"},
            "thinking": {"thinking": self._text(), **self._some(thinkingSignature=self._one("s", ""))},
            "redactedThinking": {"data": "secret"},
            "toolCall": {"id": self._call(), "name": "bash", "arguments": {"command": self._text()}},
        }
        return self._often({"type": kind, **blocks[kind]})

    def _call(self) -> Any:
        return self._often(f"c{self._random.randrange(6)}", "", None, "call_1|fc_" + "x" * 80)

    def _usage(self) -> Any:
        return {**_USAGE, "cost": _COST}

    def _custom_type(self) -> Any:
        return self._often(self._one("ext", *(_OMP_CUSTOM if self._omp else ())), "", None, 5)


def _always(**fields: Any) -> Callable[[_Maker], Record]:
    return lambda _: fields


_Kinds = Mapping[str, tuple[float, Callable[[_Maker], Record]]]
_KINDS: Final[_Kinds] = {
    "message": (12, _Maker.message),
    "compaction": (1.5, _Maker.compaction),
    "branch_summary": (1, _Maker.branch_summary),
    "custom": (0.6, _Maker.custom),
    "custom_message": (1.5, _Maker.custom_message),
    "label": (1.2, _Maker.label),
    "session_info": (0.3, _always(name="A name")),
    "session_info cleared": (0.2, _always(name="")),
    "leaf": (0.2, _always(targetId="e1")),
    "unheard_of": (0.3, _always(x=[1.5, None, {"y": "z"}])),
    "thinking_level_change": (0.8, _Maker.thinking),
    "model_change": (0.9, _Maker.model_change),
}
"""Types of entries, how often there is one, and what makes its fields; behind a space stands what tells two apart."""
_PI_KINDS: Final[_Kinds] = {"usage": (0.4, _Maker.spent), "context_edit": (1, _Maker.context_edit)}
_OMP_KINDS: Final[_Kinds] = {
    "mode_change": (0.6, _Maker.mode),
    "service_tier_change": (0.4, _Maker.tier),
    "ttsr_injection": (0.4, _always(injectedRules=["a", "b", "a"])),
    "title_change": (0.3, _always(title="New", source="user", previousTitle="Old")),
    "credential_pin": (0.2, _always(provider="anthropic", hash="00ff")),
    "session_init": (0.2, _always(systemPrompt="sp", task="do", tools=["read"])),
    "model_usage": (0.4, _Maker.spent),
    "reset_boundary": (0.4, _always()),
    "custom notebook": (0.3, _Maker.notebook),
}
