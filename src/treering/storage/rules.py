"""Checks and computations that all drivers share: valid requests, ranges, versions of logs, failed conditions.

Rules of a log (a key ending in `.jsonl`, in a driver that serves `Append`)
---------------------------------------------------------------------------
1. Only complete lines count. Bytes after the last line feed are a torn write, and so are all bytes from the first NUL
   byte on: after a power cut a file may have its new length but zeros instead of data.
2. Its version is the digest of its first line and the length of its complete lines. A replaced log gets a first line
never used before (a nonce), since the version depends on no other bytes of the lines.
3. An append cuts a torn end, but never a complete line: another writer wrote that, so it is a conflict.
4. NUL bytes at the end are not content. A driver may keep some there as room for later lines; readers never see them.
"""

from __future__ import annotations

from functools import lru_cache

from treering._late import Kind
from treering.digests import blake2b
from treering.errors import ConflictError, NotFoundError, TreeringError, UsageError
from treering.storage.requests import ABSENT, Append, Delete, Get, List, Put, Request, Version

# S3 allows 1,024 bytes, and the user's own prefix comes before ours.
KEY_BYTES_MAX = 900
# Filesystems allow 255 bytes, and drivers add an ending of their own to some names.
NAME_BYTES_MAX = 220
# Endings that drivers give to files of their own; such a key would be hidden from lists.
RESERVED_ENDINGS = (".poisoned",)

_LOG_ENDING = ".jsonl"


def is_log(key: str) -> bool:
    """Return whether drivers that serve `Append` may append to `key` in place."""
    return key.endswith(_LOG_ENDING)


def refusal(request: Request, *, appends: bool) -> UsageError | None:
    """Return the error for a request that no driver may try, or None if the request is valid."""
    match request:
        case Append():
            return _append_refusal(request, appends=appends)
        case Get():
            return _key_refusal(request.key) or _range_refusal(request)
        case Put():
            return _key_refusal(request.key)
        case List():
            return _list_refusal(request)
        case Delete():
            return _delete_refusal(request)


def _key_refusal(key: str) -> UsageError | None:
    fault = _key_fault(key)
    return UsageError(fault, kind=Kind.KEY, key=key) if fault else None


@lru_cache(maxsize=1024)  # a session asks for the same few keys again and again
def _key_fault(key: str) -> str:
    return _name_fault(key) or ("key has a reserved ending" if key.endswith(RESERVED_ENDINGS) else "")


def _name_fault(key: str) -> str:
    """What is wrong with a key or with the name of a folder, which may have any ending."""
    names = key.split("/")
    if not (key.isascii() and key.isprintable() and "\\" not in key and len(key) <= KEY_BYTES_MAX):
        return f"key is not plain ASCII of at most {KEY_BYTES_MAX} bytes"
    if any(not name or name.startswith(".") for name in names):
        return "key has an empty name, or one that starts with a dot"
    if any(len(name) > NAME_BYTES_MAX for name in names):
        return f"key has a name of more than {NAME_BYTES_MAX} bytes"
    return ""


def _range_refusal(get: Get) -> UsageError | None:
    start = get.start or 0
    if get.end is None or 0 <= start < get.end:
        return None
    return UsageError(f"range is empty or mixes ends. start={get.start}, end={get.end}", kind=Kind.RANGE, key=get.key)


def _append_refusal(append: Append, *, appends: bool) -> UsageError | None:
    if not (appends and append.key.endswith(_LOG_ENDING)):
        return UsageError("this key cannot be appended to in place", kind=Kind.APPEND, key=append.key)
    if not append.data.endswith(b"\n") or 0 in append.data:  # found several times as fast as `b"\0"`
        return UsageError("a log takes complete lines without NUL bytes only", kind=Kind.APPEND, key=append.key)
    if append.expect == ABSENT:
        return UsageError("a log is created by a put, with its first line", kind=Kind.APPEND, key=append.key)
    fault = _key_fault(append.key)
    return UsageError(fault, kind=Kind.KEY, key=append.key) if fault else None


def _list_refusal(request: List) -> UsageError | None:
    if request.limit < 1:
        return UsageError(f"a list needs a limit of at least 1. limit={request.limit}", kind=Kind.LIMIT)
    if not request.prefix:
        return None
    if not request.prefix.endswith("/"):
        return UsageError(f"a list names a folder, with its slash. prefix={request.prefix!r}", kind=Kind.KEY)
    fault = _name_fault(request.prefix[:-1])
    return UsageError(fault, kind=Kind.KEY, key=request.prefix) if fault else None


def _delete_refusal(delete: Delete) -> UsageError | None:
    if delete.expect is not None and (len(delete.keys) != 1 or delete.expect == ABSENT):
        return UsageError("a conditional delete takes one key and the version of something", kind=Kind.DELETE)
    return next((refused for key in delete.keys if (refused := _key_refusal(key))), None)


def part(data: bytes, get: Get) -> bytes:
    """Return the range of `data` that `get` requests; a range beyond the data is cut."""
    return data[get.start : get.end] if (get.start or 0) >= -len(data) else data


def mismatch(key: str, expect: Version | None, current: Version) -> TreeringError | None:
    """Return the answer to a condition that does not hold; `current` is `ABSENT` if there is no object."""
    if expect is None or expect == current:
        return None
    if current == ABSENT:
        return missing(key)
    return ConflictError(f"object has another version. expected={expect or 'absent'!r}, got={current!r}", key=key)


def missing(key: str) -> NotFoundError:
    """Return the answer to a request for an object that does not exist."""
    return NotFoundError("object does not exist", key=key)


def log_version(data: bytes) -> Version:
    """Return the version of a log with these bytes."""
    return join_version(first_line_digest(data), complete_bytes(data))


def complete_bytes(data: bytes) -> int:
    """Return the length of the complete lines at the start of `data`."""
    nul = data.find(b"\0")
    return data.rfind(b"\n", 0, len(data) if nul < 0 else nul) + 1


def first_line_digest(data: bytes) -> str:
    """Return 16 hex digits, the digest of the first line of a log, or of no bytes if it has no complete line."""
    return blake2b(data[: data.find(b"\n") + 1], 8)


def join_version(digest: str, length: int) -> Version:
    """Return the version of a log from its parts."""
    return Version(f"{digest}:{length}")


def split_version(version: Version) -> tuple[str, int] | None:
    """Return the first line's digest and the length from the version of a log, or None if it is not such a version."""
    digest, _, length = version.partition(":")
    return (digest, int(length)) if length.isascii() and length.isdigit() else None
