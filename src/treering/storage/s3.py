"""A store on S3, or a server that speaks its protocol, through s3fs.

Rule: each request of a protocol is exactly one HTTP request. There are four exceptions: a list may need more if it
finds the placeholders that consoles make for folders; a delete takes one per 1,000 keys; reading past the end of an
object takes another one to learn its size; and aiohttp re-sends a request by itself if a connection that was kept open
breaks. Therefore only `_call_s3` is used. The public methods of s3fs send two or more requests, answer from a cache of
listings that other processes make stale, or split an upload into parts, which drops its conditions.

All work happens on the event loop that fsspec runs in a thread of its own. Callers wait for it, blocking or not, so one
connection pool serves threads and event loops.
"""

from __future__ import annotations

import asyncio
import copy
import os
import re
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import fsspec.asyn
import s3fs

from treering.errors import NotFoundError, TreeringError, UnavailableError, UsageError
from treering.kinds import Kind
from treering.storage import rules, s3_errors
from treering.storage.filesystem import in_this_process, usable
from treering.storage.requests import (
    ABSENT,
    LIST_KEYS_MAX,
    Answer,
    Append,
    Batch,
    Delete,
    Deleted,
    Entry,
    Found,
    Get,
    Hold,
    List,
    Listed,
    Put,
    Request,
    Unchanged,
    Version,
    Written,
)

# A register is written in one request, since an upload in parts would drop the condition; far above any real size.
REGISTER_BYTES_MAX = 64 * 1024 * 1024
# Limit of S3 for one request.
OBJECT_BYTES_MAX = 5 * 1024**3

# The timeouts of the client restart with every byte received, and an upload that stalls has none at all. So each
# request ends after this time, plus the time that a slow line may take for its bytes.
REQUEST_SECONDS_MAX = 60.0
# A put has a short answer, but its client waits without end for `100 Continue`.
PUT_SECONDS_MAX = 10.0
BYTES_PER_SECOND_MIN = 10_000

_POOL_USUAL = 10  # botocore's default, for filesystems that users pass
_DELETE_KEYS_MAX = 1000  # limit of S3 for one request

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")

_OPTIONS = {"use_listings_cache": False}
_CONNECT_SECONDS_MAX, _SILENCE_SECONDS_MAX = 3, 10
_CONFIG = {
    # With botocore's default of 10 a batch of ranged reads would wait in line.
    "max_pool_connections": 64,
    # `RetryingDriver` retries; nested in the retries of s3fs and botocore it could take a minute.
    "retries": {"max_attempts": 0},
    # Older servers do not know the checksums that newer clients add, and a good network needs none.
    "request_checksum_calculation": "when_required",
}


class S3Driver:
    """Keeps objects below a prefix in a bucket.

    Args:
        path: `bucket` or `bucket/prefix`.
        fs: An `s3fs.S3FileSystem` to send requests with, with its settings for timeouts and retries; it stays open.
        storage_options: Options to make a filesystem from if none is given: credentials, `client_kwargs`,
            `config_kwargs` and so on.
        pace: Factor for all timeouts.

    Raises:
        UsageError: The path names no bucket, or the filesystem cannot be used from threads.
    """

    name = "s3"
    conditional = True
    proven = False
    appends = False

    def __init__(
        self,
        path: str,
        *,
        fs: s3fs.S3FileSystem | None = None,
        storage_options: Mapping[str, Any] | None = None,
        pace: float = 1.0,
    ) -> None:
        bucket, _, prefix = path.removeprefix("s3://").strip("/").partition("/")
        if not bucket or (prefix and {"", ".", ".."} & set(prefix.split("/"))):
            raise UsageError(
                f"not a bucket with a prefix. path={path!r}", kind=Kind.TARGET, remedy="write s3://bucket/prefix"
            )
        self._bucket = bucket
        self._base = f"{prefix}/" if prefix else ""
        self._given = usable(fs)
        self._pace = pace
        self._options = dict(storage_options or {})
        self._fs: s3fs.S3FileSystem | None = None
        self._slots = asyncio.Semaphore()
        self._pid = 0
        self._mutex = threading.Lock()

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Send all requests at once and wait for the answers."""
        fs = self._filesystem()
        answers: tuple[Answer, ...] = fsspec.asyn.sync(fs.loop, self._serve_all, fs, batch)
        return answers

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Send all requests at once and wait for the answers without blocking the event loop."""
        fs: Any = self._fs if self._pid == os.getpid() else None
        if fs is None:  # making a filesystem reads files, and takes a while
            fs = await asyncio.to_thread(self._filesystem)
        running = asyncio.run_coroutine_threadsafe(self._serve_all(fs, batch), fs.loop)
        return await asyncio.wrap_future(running)

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> Hold | None:  # noqa: ARG002
        """Return None: S3 has no locks that end with their process."""
        return None

    def keeps_versions(self) -> bool | None:
        """Ask in one request whether the bucket has versioning, or had it; None if access is denied."""
        fs = self._filesystem()
        try:
            told = fsspec.asyn.sync(fs.loop, fs._call_s3, "get_bucket_versioning", Bucket=self._bucket)  # noqa: SLF001
        except s3_errors.FAILURES:
            return None
        return "Status" in told

    def scrub(self, *keys: str) -> None:
        """Do nothing: only a bucket with versioning keeps old bytes, see `keeps_versions`."""

    def close(self) -> None:
        """Close the connections, unless the filesystem was given by the caller."""
        with self._mutex:
            fs, pid, self._fs = self._fs, self._pid, None
        if fs is not None and fs is not self._given and pid == os.getpid() and fs._s3 is not None:  # noqa: SLF001
            fsspec.asyn.sync(fs.loop, fs._s3.__aexit__, None, None, None)  # noqa: SLF001
            fs._s3 = None  # noqa: SLF001  # or s3fs would close it again when collected

    def _filesystem(self) -> s3fs.S3FileSystem:
        """Return a filesystem made in this process: connections and event loop do not survive a fork."""
        with self._mutex:
            if self._fs is None or self._pid != os.getpid():
                self._fs = self._connect()
                # A request that waits for a connection has not begun, and its time does not run yet.
                self._slots = asyncio.Semaphore(self._fs.config_kwargs.get("max_pool_connections", _POOL_USUAL))
                self._pid = os.getpid()
            return self._fs

    def _connect(self) -> s3fs.S3FileSystem:
        if self._given is None:
            # A copy, since botocore changes its argument.
            limits = {
                "connect_timeout": _CONNECT_SECONDS_MAX * self._pace,
                "read_timeout": _SILENCE_SECONDS_MAX * self._pace,
            }
            config = {**copy.deepcopy(_CONFIG), **limits, **self._options.get("config_kwargs", {})}
            options = {**_OPTIONS, **self._options, "config_kwargs": config}
            fs = s3fs.S3FileSystem(**options, skip_instance_cache=True)
            fs.retries = 1
            return fs
        return in_this_process(self._given)

    async def _serve_all(self, fs: s3fs.S3FileSystem, batch: Batch) -> tuple[Answer, ...]:
        return tuple(await asyncio.gather(*(self._serve(fs, request) for request in batch)))

    async def _serve(self, fs: s3fs.S3FileSystem, request: Request) -> Answer:
        if refused := rules.refusal(request, appends=False):
            return refused
        bucket = _Bucket(fs, self._bucket, self._base, self._pace)
        async with self._slots:
            match request:
                case Get():
                    return await bucket.get(request)
                case Put():
                    return await bucket.put(request)
                case List():
                    return await bucket.list(request)
                case Delete():
                    return await bucket.delete(request)
                case Append():
                    raise AssertionError("refused above")


class _Bucket:
    """Sends the requests, on the event loop of the filesystem."""

    def __init__(self, fs: s3fs.S3FileSystem, bucket: str, base: str, pace: float) -> None:
        self._fs = fs
        self._bucket = bucket
        self._base = base
        self._pace = pace

    async def get(self, get: Get) -> Answer:
        """Read bytes and version in one request."""
        options = {"Range": _range(get), "IfNoneMatch": get.unless}
        try:
            head = await self._call("get_object", get.key, **options)
            async with head["Body"] as body, self._patience(head["ContentLength"]):
                data = await body.read()
            return _found(get, data, head)
        except s3_errors.FAILURES as error:
            status = s3_errors.status_of(error)
            if status == s3_errors.NOT_MODIFIED:
                return Unchanged()
            if status == s3_errors.BAD_RANGE:
                return await self._nothing_there(get)
            return self._explain(error, get.key, needs_object=True)

    async def _nothing_there(self, get: Get) -> Answer:
        """Answer a range that begins at or after the end: S3 refuses it, without the version and size.

        If the object was deleted in between, this is no answer: that to a HEAD has no body, and may be from a proxy.
        """
        try:
            head = await self._call("head_object", get.key)
            return Found(b"", Version(head["ETag"]), head["ContentLength"])
        except s3_errors.FAILURES as error:
            return self._explain(error, get.key)

    async def put(self, put: Put) -> Answer:
        """Write an object in one request, whose condition the server checks."""
        limit = OBJECT_BYTES_MAX if put.expect is None else REGISTER_BYTES_MAX
        if len(put.data) > limit:
            text = f"object is too large to be written at once. bytes={len(put.data)}, limit={limit}"
            return UsageError(text, kind=Kind.SIZE, key=put.key)
        condition = {"IfNoneMatch": "*"} if put.expect == ABSENT else {"IfMatch": put.expect}
        try:
            head = await self._call("put_object", put.key, Body=put.data, **condition)
            return Written(Version(head["ETag"]))
        except s3_errors.FAILURES as error:
            return self._explain(error, put.key, needs_object=put.expect not in (None, ABSENT))

    async def list(self, request: List) -> Answer:
        """Name keys in the order of the server, which some (SeaweedFS) sort folder by folder."""
        limit = min(request.limit, LIST_KEYS_MAX)
        after = self._base + request.after if request.after else None
        while True:
            options = {"Prefix": self._base + request.prefix, "StartAfter": after, "MaxKeys": limit}
            try:
                page = await self._call("list_objects_v2", None, **options)
                more = page["IsTruncated"]
                found = page["Contents"] if more else page.get("Contents", ())
                entries = tuple(self._entry(each) for each in found if not each["Key"].endswith("/"))
            except s3_errors.FAILURES as error:
                return self._explain(error, request.prefix)
            if entries or not more:
                return Listed(entries, more=more)
            after = found[-1]["Key"]

    def _entry(self, found: Mapping[str, Any]) -> Entry:
        modified: datetime = found["LastModified"]
        return Entry(found["Key"].removeprefix(self._base), found["Size"], int(modified.timestamp() * 1000))

    async def delete(self, delete: Delete) -> Answer:
        """Delete one key, with its condition, or many."""
        for first in range(0, len(delete.keys), _DELETE_KEYS_MAX):
            keys = delete.keys[first : first + _DELETE_KEYS_MAX]
            if failed := await (
                self._delete_one(keys[0], delete.expect) if len(keys) == 1 else self._delete_many(keys)
            ):
                return failed
        return Deleted()

    async def _delete_one(self, key: str, expect: Version | None) -> TreeringError | None:
        try:
            await self._call("delete_object", key, IfMatch=expect)
        except s3_errors.FAILURES as error:
            ours = self._explain(error, key, needs_object=True)
            return None if isinstance(ours, NotFoundError) else ours
        return None

    async def _delete_many(self, keys: tuple[str, ...]) -> TreeringError | None:
        names = {self._base + key: key for key in keys}
        try:
            done = await self._call(
                "delete_objects", None, Delete={"Objects": [{"Key": n} for n in names], "Quiet": True}
            )
        except s3_errors.FAILURES as error:
            return self._explain(error, keys[0])
        for each in done.get("Errors", ()):
            if each.get("Code") != "NoSuchKey":
                return s3_errors.explain_deletion(each, key=names.get(each.get("Key", ""), keys[0]))
        return None

    async def _call(self, method: str, key: str | None, **options: Any) -> dict[str, Any]:
        kept = {name: value for name, value in options.items() if value is not None}
        if key is not None:
            kept["Key"] = self._base + key
        async with self._patience(len(kept.get("Body", b"")), put="Body" in kept):
            answer: dict[str, Any] = await self._fs._call_s3(method, Bucket=self._bucket, **kept)  # noqa: SLF001
        return answer

    def _patience(self, size: int, *, put: bool = False) -> asyncio.Timeout:
        """A timeout for a request that moves `size` bytes; raises `TimeoutError`."""
        seconds = PUT_SECONDS_MAX if put else REQUEST_SECONDS_MAX
        return asyncio.timeout(self._pace * seconds + size / BYTES_PER_SECOND_MIN)

    def _explain(self, error: BaseException, key: str, *, needs_object: bool = False) -> TreeringError:
        return s3_errors.explain(error, key=key, bucket=self._bucket, needs_object=needs_object)


def _found(get: Get, data: bytes, head: Mapping[str, Any]) -> Answer:
    """The requested bytes, if all of them arrived.

    Raises:
        KeyError: The answer is not in the form of S3.
    """
    version, part = Version(head["ETag"]), head.get("ContentRange")
    if part is None:  # the whole object, perhaps even if a part was requested: a cache in between may answer so
        if len(data) != head["ContentLength"]:
            return _cut_short(get)
        return Found(data[get.start : get.end] if _range(get) else data, version, len(data))
    said = _CONTENT_RANGE.fullmatch(part)
    if said is None:
        raise KeyError("Content-Range")
    first, last, size = map(int, said.groups())
    return Found(data, version, size) if len(data) == last - first + 1 else _cut_short(get)


def _cut_short(get: Get) -> UnavailableError:
    return UnavailableError("the answer was cut short", kind=Kind.NETWORK, key=get.key, remedy="try again later")


def _range(get: Get) -> str | None:
    if get.start is not None and get.start < 0:
        return f"bytes={get.start}"
    if get.end is None:
        return f"bytes={get.start}-" if get.start else None
    return f"bytes={get.start or 0}-{get.end - 1}"
