"""Which driver a target gets, and what is refused with which advice."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
import s3fs
from fsspec.implementations.dirfs import DirFileSystem
from tests.servers import S3Server
from tests.storage.processes import finish, start

from treering.errors import UnsafeStoreError, UsageError
from treering.storage.open import open_driver
from treering.storage.requests import Driver, Found, Get, Put, Written
from treering.testing.conformance import ask


def properties(driver: Driver) -> tuple[str, bool, bool]:
    """Return what tells the drivers apart."""
    return driver.name, driver.conditional, driver.appends


def test_local_paths_get_the_durable_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths as text or objects, with `~`, and file URLs all mean the same folder and our own driver."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    targets = ["store", "./store", "~/store", tmp_path / "store", str(tmp_path / "store"), f"file://{tmp_path}/store"]
    for number, target in enumerate(targets):
        driver = open_driver(target)
        assert properties(driver) == ("local", True, True)
        ask(driver, Put(f"a/{number}", b"x"), Written)
    assert len(list((tmp_path / "store/a").iterdir())) == len(targets)


def test_nothing_is_made_by_opening(tmp_path: Path) -> None:
    """Opening a store neither reads nor writes."""
    open_driver(tmp_path / "store")
    open_driver(f"file://{tmp_path}/store", single_writer=True)
    assert list(tmp_path.iterdir()) == []


def test_file_urls_go_through_fsspec_only_when_asked(tmp_path: Path) -> None:
    """A promise of a single writer takes a file URL through fsspec, while a plain path stays durable."""
    assert properties(open_driver(f"file://{tmp_path}", single_writer=True)) == ("fsspec", False, False)
    assert properties(open_driver(tmp_path, single_writer=True)) == ("local", True, True)


def test_memory_stores_are_shared_by_name() -> None:
    """Within one process the name makes the store."""
    ask(open_driver("memory://one"), Put("a", b"1"), Written)
    assert ask(open_driver("memory://one/"), Get("a"), Found).data == b"1"
    assert not isinstance(open_driver("memory://two").execute((Get("a"),))[0], Found)


@pytest.mark.s3
def test_s3_urls_and_filesystems_get_the_s3_driver(moto: S3Server) -> None:
    """A URL with options, an s3fs filesystem with a path, and a folder of one all reach the same objects."""
    fs = s3fs.S3FileSystem(**moto.storage_options)
    folder = f"{moto.bucket}/opened"
    drivers = [
        open_driver(f"s3://{folder}", storage_options=moto.storage_options),
        open_driver(fs, path=folder),
        open_driver(fs, path=f"s3://{folder}"),
        open_driver(DirFileSystem(folder, fs)),
        open_driver(DirFileSystem(moto.bucket, fs), path="opened"),
    ]
    ask(drivers[0], Put("a", b"1"), Written)
    for driver in drivers:
        assert properties(driver) == ("s3", True, False)
        assert ask(driver, Get("a"), Found).data == b"1"
    drivers[0].close()


def test_a_local_filesystem_object_gets_the_durable_driver(tmp_path: Path) -> None:
    """Fsspec's local filesystem names a folder of this machine, so our own driver serves it."""
    fs = fsspec.filesystem("file")
    for driver in (open_driver(fs, path=str(tmp_path / "s")), open_driver(DirFileSystem(str(tmp_path), fs), path="s")):
        assert properties(driver) == ("local", True, True)
        ask(driver, Put("a", b"1"), Written)
    assert (tmp_path / "s/a").read_bytes() == b"1"
    assert properties(open_driver(fs, path=str(tmp_path), single_writer=True)) == ("fsspec", False, False)


@pytest.mark.parametrize("target", ["ftp://host/x", "simplecache::s3://b/x", fsspec.filesystem("memory")])
def test_other_filesystems_need_the_promise(target: str) -> None:
    """Where two writers would overwrite each other, the error names the option that promises there is one."""
    with pytest.raises(UnsafeStoreError, match="single_writer=True"):
        open_driver(target)


def test_any_filesystem_serves_a_single_writer() -> None:
    """With the promise, a filesystem object and a path are enough."""
    driver = open_driver(fsspec.filesystem("memory"), path="/somewhere", single_writer=True)
    assert properties(driver) == ("fsspec", False, False)
    ask(driver, Put("a", b"1"), Written)
    assert fsspec.filesystem("memory").cat_file("/somewhere/a") == b"1"


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nosuch://x", "known=.*file.*s3"),
        ("s3:/bucket/x", "scheme://"),
        ("", "scheme://"),
        ("s3://", "s3://bucket/prefix"),
        (b"bytes", "neither a path"),
        (None, "neither a path"),
        (42, "neither a path"),
    ],
)
@pytest.mark.parametrize("single_writer", [False, True])
def test_what_is_no_store_is_refused(target: str, told: str, *, single_writer: bool) -> None:
    """Anything else is a usage error that says what would be right, promised or not."""
    if target == "s3://" and single_writer:
        pytest.skip("a bucket may be named by later keys")
    with pytest.raises(UsageError, match=told):
        open_driver(target, single_writer=single_writer)


def test_options_that_would_be_ignored_are_refused(tmp_path: Path) -> None:
    """Options that have no effect on a target are an error, not a surprise."""
    with pytest.raises(UsageError, match="storage_options"):
        open_driver(tmp_path, storage_options={"key": "x"})
    with pytest.raises(UsageError, match="storage_options"):
        open_driver(fsspec.filesystem("memory"), single_writer=True, storage_options={"key": "x"})
    with pytest.raises(UsageError, match="path"):
        open_driver(str(tmp_path), path="x")


def test_a_local_store_needs_no_filesystem_library(tmp_path: Path) -> None:
    """A process that works on a local store imports neither fsspec nor any S3 client, nor asyncio."""
    code = """
from treering.storage.open import open_driver
driver = open_driver(sys.argv[1])
version = ask(driver, Put("s/tail.jsonl", b"head\\n", expect=ABSENT)).version
assert isinstance(ask(driver, Append("s/tail.jsonl", b"a\\n", version)), Written)
driver.execute((Get("s/tail.jsonl"), List(""), Delete(("s/x",))))
heavy = {"fsspec", "s3fs", "aiobotocore", "botocore", "boto3", "aiohttp", "asyncio", "tenacity"} & set(sys.modules)
assert not heavy, heavy
"""
    finish(start(code, tmp_path / "store"))


def test_a_missing_s3_client_is_named(tmp_path: Path) -> None:
    """Without s3fs an S3 URL says which extra to install."""
    code = """
sys.modules["s3fs"] = None
from treering.storage.open import open_driver
try:
    open_driver("s3://bucket/x")
except UsageError as error:
    assert "treering[s3]" in str(error), error
else:
    raise SystemExit("not refused")
"""
    finish(start(code))
