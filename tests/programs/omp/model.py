"""What oh-my-pi sends and shows, worked out from bare entries: slow, plain, apart from the policies."""

from __future__ import annotations

from typing import Any

from treering.programs.common.times import read_time

NOTES = ("label", "title_change", "model_usage")
"""Entries that are no nodes here: one behind a summary does not tell its time."""
Entries = list[dict[str, Any]]
Shown = list[tuple[str, dict[str, Any]]]
"""Id of an entry, and the message that comes of it."""


def path_to(entries: Entries, leaf: str) -> Entries:
    """Return the entries from a root to `leaf`; the last of several with one id counts."""
    by_id = {entry["id"]: entry for entry in entries}
    path: Entries = []
    at = by_id.get(leaf)
    while at is not None and at not in path:
        path.insert(0, at)
        at = by_id.get(at["parentId"])
    return path


def state_of(path: Entries) -> dict[str, Any]:
    """Return the settings at the end of a path."""
    state: dict[str, Any] = {"thinkingLevel": "off", "models": {}, "injectedTtsrRules": [], "mode": "none"}
    chosen = False
    for entry in path:
        match entry["type"]:
            case "thinking_level_change":
                level = entry.get("thinkingLevel")
                configured = entry.get("configured")
                state["thinkingLevel"] = "off" if level is None else level
                state["configuredThinkingLevel"] = level if configured is None else configured
            case "model_change":
                role = entry.get("role", "default")
                state["models"][role] = entry["model"]
                chosen = chosen or role == "default"
            case "mode_change":
                state["mode"], state["modeData"] = entry["mode"], entry.get("data")
            case "service_tier_change":
                state["serviceTier"] = entry["serviceTier"]
            case "ttsr_injection":
                state["injectedTtsrRules"] = list(dict.fromkeys(state["injectedTtsrRules"] + entry["injectedRules"]))
            case "message" if entry["message"]["role"] == "assistant" and not chosen:
                state["models"]["default"] = "{provider}/{model}".format(**entry["message"])
    return without_null(state)


def without_null(value: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object without the fields that are null."""
    return {name: part for name, part in value.items() if part is not None}


def sent(path: Entries) -> Shown:
    """Return what goes to a model."""
    compactions = [at for at, entry in enumerate(path) if entry["type"] == "compaction"]
    resets = [at for at, entry in enumerate(path) if entry["type"] == "reset_boundary"]
    latest = compactions[-1] if compactions else -1
    if resets and resets[-1] > latest:
        shown = [pair for entry in path[resets[-1] + 1 :] for pair in _one(entry)]
    elif latest >= 0:
        shown = _compacted(path, latest)
    else:
        shown = [pair for entry in path for pair in _one(entry)]
    hidden = {entry["id"] for entry in path if _is_hidden(entry)}
    visible = [pair for pair in shown if pair[0] not in hidden]
    return _without_failed(_paired([*_notebook(path), *visible], marked=False))


def _notebook(path: Entries) -> Shown:
    behind = path[max((at for at, entry in enumerate(path) if entry["type"] == "reset_boundary"), default=-1) + 1 :]
    notes = [entry for entry in behind if entry["type"] == "custom" and entry["data"]["version"] == 1]
    if not notes or not notes[-1]["data"]["text"]:
        return []
    content = f"The notebook that you keep for this session, which may be out of date:\n{notes[-1]['data']['text']}"
    message = {"role": "custom", "customType": notes[-1]["customType"], "content": content, "display": False}
    return [(notes[-1]["id"], message | {"timestamp": read_time(notes[-1]["timestamp"])})]


def _compacted(path: Entries, latest: int) -> Shown:
    entry = path[latest]
    remote = entry.get("preserveData", {}).get("openaiRemoteCompaction")
    payload = remote and {
        "type": "openaiResponsesHistory", "provider": remote["provider"], "items": remote["replacementHistory"]
    }  # fmt: skip
    begins = [at for at in range(latest) if path[at]["id"] == entry.get("firstKeptEntryId")]
    if remote:
        ends = [at for at in range(latest) if path[at]["id"] == entry.get("providerReplayThroughEntryId")]
        kept = path[ends[0] + 1 : latest] if ends else []
    else:
        kept = path[begins[0] : latest] if begins else []
    named = [at for at in range(latest + 1) if path[at]["id"] == entry.get("firstKeptEntryId")]
    request = _left_request(path[:latest], named[0]) if named and "details" in entry else []
    rest = [*request, *kept, *path[latest + 1 :]]
    summary = _summary(entry, providerPayload=payload)
    if native := entry.get("preserveData", {}).get("anthropicCompaction"):
        told = {"type": "anthropicCompaction", "provider": "anthropic", "content": native["content"]}
        follows = [path[at] for at in begins] + [row for row in path[latest + 1 :] if row["type"] not in NOTES]
        times = [read_time(row["timestamp"]) for row in follows]
        summary = {"providerPayload": told} | summary | ({"timestamp": (times[0] or 0) - 1} if times else {})
    return [(entry["id"], summary), *(pair for row in rest for pair in _one(row))]


def _left_request(path: Entries, begin: int) -> Entries:
    resets = [at for at, entry in enumerate(path) if entry["type"] == "reset_boundary"]
    asked = [at for at, entry in enumerate(path) if _is_request(entry) and at > max(resets, default=-1)]
    return [path[asked[-1]]] if asked and asked[-1] < begin else []


def _is_request(entry: dict[str, Any]) -> bool:
    if entry["type"] == "message":
        return bool(entry["message"]["role"] == "user")
    called = entry.get("customType") == "skill-prompt" and entry.get("attribution") == "user"
    return called and isinstance(entry.get("content"), str | list)


def transcript(path: Entries) -> Shown:
    """Return what is shown to a person."""
    latest = [entry for entry in path if entry["type"] == "compaction"][-1:]
    rows: Shown = []
    for entry, following in zip(path, [*path[1:], {}], strict=True):
        if entry["type"] != "compaction":
            rows += _one(entry)
        elif _is_replaced(entry, following):
            continue
        elif entry in latest:
            rows.append((entry["id"], _summary(entry)))
        else:
            texts = {
                "summary": "[Superseded compaction summary elided after a newer compaction]",
                "shortSummary": "Superseded compaction elided",
            }
            rows.append((entry["id"], _summary(entry | texts)))
    return _paired(rows, marked=True)


def _is_replaced(entry: dict[str, Any], following: dict[str, Any]) -> bool:
    alike = all(entry.get(name) == following.get(name) for name in ("firstKeptEntryId", "tokensBefore", "type"))
    return alike and entry.get("method") == following.get("method") == "snapcompact"


def _summary(entry: dict[str, Any], **more: Any) -> dict[str, Any]:
    names = ("summary", "shortSummary", "tokensBefore", "tokensAfter", "method", "warning")
    message = {"role": "compactionSummary", **{name: entry.get(name) for name in names}, **more}
    return without_null(message) | {"timestamp": read_time(entry["timestamp"])}


def _is_hidden(entry: dict[str, Any]) -> bool:
    if entry["type"] != "message":
        return entry.get("customType") in ("prewalk-plan", "vibe-mode-context")
    message = entry["message"]
    if message["role"] != "assistant":
        return False
    said = [block for block in message["content"] if block["type"] == "toolCall" or _says_something(block)]
    return bool(message.get("retryRecovery")) or (message["stopReason"] == "error" and not said)


def _says_something(block: dict[str, Any]) -> bool:
    return any(str(block.get(name, "")).strip() for name in ("text", "thinking", "thinkingSignature", "data"))


def _one(entry: dict[str, Any]) -> Shown:
    time = {"timestamp": read_time(entry["timestamp"])}
    if entry["type"] == "message":
        return [(entry["id"], _rehydrated(entry["message"]))]
    if entry["type"] == "branch_summary" and entry["summary"]:
        message = {"role": "branchSummary", "summary": entry["summary"], "fromId": entry["fromId"]}
        return [(entry["id"], message | time)]
    if entry["type"] == "custom_message" and isinstance(entry.get("content"), str | list):
        names = ("customType", "content", "display", "details", "attribution")
        return [(entry["id"], without_null({"role": "custom", **{name: entry.get(name) for name in names}}) | time)]
    return []


def _rehydrated(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("provider") != "github-copilot":
        return message
    left = {name: value for name, value in message.items() if name != "providerPayload"}
    return left | {"content": [_unsigned(block) for block in message["content"]]}


def _paired(shown: Shown, *, marked: bool) -> Shown:
    answered = [message["toolCallId"] for _, message in shown if message["role"] == "toolResult"]
    rows: Shown = []
    for name, message in shown:
        content = message.get("content")
        blocks = content if message["role"] == "assistant" and isinstance(content, list) else []
        unpaired = [block for block in blocks if block["type"] == "toolCall" and block["id"] not in answered]
        if not unpaired:
            rows.append((name, message))
            continue
        left = [_unsigned(block) for block in blocks if block not in unpaired and block["type"] != "redactedThinking"]
        if left or marked:
            mark = {"strippedToolCalls": len(unpaired)} if marked else {}
            rows.append((name, message | {"content": left} | mark))
    return rows


def _unsigned(block: dict[str, Any]) -> dict[str, Any]:
    signed = block["type"] == "thinking" and block.get("thinkingSignature")
    return {name: value for name, value in block.items() if name != "thinkingSignature"} if signed else block


def _without_failed(shown: Shown) -> Shown:
    at = len(shown) - 1
    while at >= 0:
        message, after = shown[at][1], shown[at + 1 :]
        noted = bool(after) and after[0][1].get("customType") == "interrupted-thinking"
        if message.get("stopReason") in ("error", "aborted") and not noted:
            calls = [block.get("id") for block in message["content"] if block["type"] == "toolCall"]
            shown = shown[:at] + [pair for pair in after if pair[1].get("toolCallId") not in calls]
        at -= 1
    return shown
