"""Choose the driver for a target given by the user.

By default only drivers whose conditions hold against other processes are chosen. Everything else that fsspec can reach
is served only to a user who passes `single_writer=True`.
"""

from __future__ import annotations

import os
import re
import sys
from _thread import allocate_lock
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from treering._late import Kind
from treering.errors import UnsafeStoreError, UsageError
from treering.storage.requests import Driver

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    Target: TypeAlias = str | os.PathLike[str] | AbstractFileSystem

TIMEOUT_SECONDS: Final = 30.0
"""A request to S3 without an answer fails after that time: the last attempt begins after at most two thirds of it, and
takes one third."""
_LOCAL = ("file", "local")
_S3 = ("s3", "s3a")
# `s3:/bucket` is a typing error, not a folder named `s3:`. At least two letters, as one letter is a Windows drive.
_LOOKS_LIKE_URL = r"[A-Za-z][A-Za-z0-9+.-]+:/"

_memories: dict[str, Driver] = {}
_memories_lock = allocate_lock()


def open_driver(
    target: Target,
    *,
    path: str = "",
    single_writer: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Driver:
    """Return a driver for the store that `target` names. Nothing is read or written yet.

    Args:
        target: A local path (`~` is the home folder), `file:///path`, `memory://NAME` (shared by that name within this
            process), `s3://bucket/prefix`, any other URL that fsspec knows, or an fsspec filesystem.
        path: The path of the store in a filesystem given as `target`; not allowed otherwise.
        single_writer: A promise that no second process ever writes. Then any URL or filesystem is served, through
            fsspec, without conditions and without the durability of the local driver. A plain path stays local.
        storage_options: For URLs: options of fsspec or s3fs, for example credentials.
        timeout: Seconds after which a request to S3 that has no answer fails, all its attempts included.

    Raises:
        UsageError: The target is not known, or a package is missing (the message names it), or `timeout` is not
            positive.
        UnsafeStoreError: The store has no conditional writes, and `single_writer` was not promised.
    """
    if not timeout > 0:
        raise UsageError(f"no time to answer. timeout={timeout!r}", kind=Kind.OPTION)
    if not isinstance(target, str | os.PathLike):
        _refuse(storage_options, "storage_options belong to the filesystem, which exists already")
        return _open_filesystem(target, path, single_writer=single_writer, timeout=timeout)
    _refuse(path, "path goes with a filesystem; with anything else it is part of the target")
    name = os.fspath(target)
    scheme, separator, rest = name.partition("://")
    if isinstance(target, os.PathLike) or not separator:
        _refuse(storage_options, "storage_options go with a URL or nothing")
        return _open_path(name, is_path=isinstance(target, os.PathLike))
    if scheme == "memory":
        return _open_memory(rest)
    if scheme in _LOCAL and not single_writer:
        return _open_local(rest)
    if scheme in _S3 and not single_writer:
        return _open_s3(rest, None, storage_options, timeout)
    return _open_url(name, scheme, dict(storage_options or {}), single_writer=single_writer)


def address_of(target: Target) -> str | None:
    """Return a name for the store of `target` that is valid in all processes; None if there is no lasting one.

    Two addresses may name one store (a link that was moved, another spelling of a URL), so use it only to find data
    that can be made again, such as an index for searching.
    """
    if not isinstance(target, str | os.PathLike):
        return None
    name = os.fspath(target)
    scheme, separator, rest = name.partition("://")
    if isinstance(target, os.PathLike) or not separator or scheme in _LOCAL:
        path = rest if separator and not isinstance(target, os.PathLike) else name
        return "file://" + os.path.realpath(os.path.expanduser(path))
    return None if scheme == "memory" else f"{scheme}://{rest.rstrip('/')}"


def location_of(target: Target, path: str = "") -> str:
    """Return the place of the store of `target`, for people and other tools: a path on this computer, or a URL.

    Args:
        target: As for `open_driver`.
        path: As for `open_driver`.
    """
    if not isinstance(target, str | os.PathLike):
        filesystem, inner = _unwrapped(target, path)
        url: str = filesystem.unstrip_protocol(inner)
        return url.removeprefix("file://").rstrip("/")
    return (address_of(target) or os.fspath(target)).removeprefix("file://").rstrip("/")


def _refuse(option: object, reason: str) -> None:
    if option:
        raise UsageError(reason, kind=Kind.TARGET)


def _open_path(name: str, *, is_path: bool) -> Driver:
    if not name or (":/" in name and re.match(_LOOKS_LIKE_URL, name) and not is_path):
        remedy = "write scheme://..., or put ./ in front of a folder's name"
        raise UsageError(f"neither a path nor a URL. target={name!r}", kind=Kind.TARGET, remedy=remedy)
    return _open_local(name)


def _open_local(name: str) -> Driver:
    try:
        from treering.storage.local import LocalDriver  # its locks exist on POSIX only
    except ModuleNotFoundError as error:
        raise UnsafeStoreError(
            f"a store on a disk needs file locks that this system lacks. missing={error.name!r}",
            kind=Kind.LOCKS,
            remedy="use s3://bucket/prefix, or Linux or macOS (on Windows: WSL)",
        ) from error
    return LocalDriver(os.path.expanduser(name))


def _open_memory(name: str) -> Driver:
    from treering.storage.memory import MemoryDriver  # a store on a disk does not need it

    with _memories_lock:
        return _memories.setdefault(name.strip("/"), MemoryDriver())


def _open_s3(
    path: str, fs: AbstractFileSystem | None, storage_options: Mapping[str, Any] | None, timeout: float
) -> Driver:
    try:
        from treering.storage.retrying import SECONDS_MAX, RetryingDriver
        from treering.storage.s3 import S3Driver
    except ImportError as error:
        raise UsageError("S3 needs s3fs", kind=Kind.MISSING, remedy="pip install 'treering[s3]'") from error
    pace = timeout / TIMEOUT_SECONDS
    return RetryingDriver(
        S3Driver(path, fs=fs, storage_options=storage_options, pace=pace), seconds_max=SECONDS_MAX * pace
    )


def _open_url(url: str, scheme: str, storage_options: dict[str, Any], *, single_writer: bool) -> Driver:
    import fsspec

    from treering.storage.generic import GenericDriver

    known = fsspec.available_protocols()
    if any(each not in known for each in scheme.split("::")):
        text = f"no such kind of store. scheme={scheme!r}, known={', '.join(sorted({*known, 'memory'}))}"
        raise UsageError(text, kind=Kind.TARGET)
    if not single_writer:
        raise _unsafe(scheme)
    try:
        fs, path = fsspec.core.url_to_fs(url, **storage_options)
    except ImportError as error:
        raise UsageError(f"a package is missing: {error}", kind=Kind.MISSING) from error
    return GenericDriver(fs, path)


def _open_filesystem(fs: AbstractFileSystem, path: str, *, single_writer: bool, timeout: float) -> Driver:
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    from treering.storage.generic import GenericDriver

    if not isinstance(fs, fsspec.AbstractFileSystem):
        text = f"neither a path, a URL nor an fsspec filesystem. type={type(fs).__name__!r}"
        raise UsageError(text, kind=Kind.TARGET)
    if single_writer:
        return GenericDriver(fs, path)
    fs, path = _unwrapped(fs, path)
    if isinstance(fs, LocalFileSystem):
        return _open_path(fs._strip_protocol(path) if path else "", is_path=True)  # noqa: SLF001
    if "s3fs" in sys.modules and isinstance(fs, sys.modules["s3fs"].S3FileSystem):
        return _open_s3(path, fs, None, timeout)
    raise _unsafe(type(fs).__name__)


def _unwrapped(fs: AbstractFileSystem, path: str) -> tuple[AbstractFileSystem, str]:
    """Return the innermost filesystem, which is not a folder of another one, and the path in it."""
    from fsspec.implementations.dirfs import DirFileSystem

    while isinstance(fs, DirFileSystem):
        fs, path = fs.fs, fs._join(path)  # noqa: SLF001
    return fs, path


def _unsafe(what: str) -> UnsafeStoreError:
    return UnsafeStoreError(
        f"two writers would overwrite each other here. store={what!r}",
        kind=Kind.CONDITIONS,
        remedy="pass single_writer=True if no second process will ever write, or use a local path or s3://",
    )
