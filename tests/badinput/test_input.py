"""Wrong targets, credentials and names, and values too large: refused with type and remedy, and nothing is written."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from tests.badinput.conftest import Damaged
from tests.gateway import Gateway
from tests.sampling import few
from tests.servers import S3Server
from tests.session.backends import texts

import treering
from treering.errors import AccessError, NotFoundError, UnavailableError, UnsafeStoreError, UsageError
from treering.format.record import BODY_BYTES_MAX, RECORD_BYTES_MAX
from treering.journal import append
from treering.journal.limits import APPEND_BYTES_MAX
from treering.storage.requests import Get

NAMES = {
    "slash": "a/b/c",
    "dots": "..",
    "up": "../../etc/passwd",
    "nul": "a\0b",
    "emoji": "\U0001f600\U0001f468‍\U0001f469",
    "long": "x" * 2000,
    "long emoji": "\U0001f600" * 2000,
    "device": "CON",
    "dot": ".",
    "newline": "a\nb",
    "surrogate": "\ud800",
    "escape": "=2f",
    "lock": ".lock",
    "key": "tail.jsonl.zst",
}


# targets


@pytest.mark.parametrize("target", ["gopher://x/y", "s3:/bucket/x", "", "no-such-scheme+x://y", 42, None])
def test_an_unknown_kind_of_store_is_refused(target: Any) -> None:
    """A target that names no store is refused at once; the message says what there is."""
    with pytest.raises(UsageError) as caught:
        treering.open(target)
    assert caught.value.kind == "target"
    if isinstance(target, str) and "://" in target:
        assert "s3" in str(caught.value)
        assert "memory" in str(caught.value)


@pytest.mark.parametrize("target", ["gcs://bucket/x", "ftp://host/x"])
def test_a_store_that_cannot_swap_needs_a_promise(target: str) -> None:
    """Other filesystems are served to a single writer who says so."""
    with pytest.raises((UnsafeStoreError, UsageError)) as caught:
        treering.open(target)
    if isinstance(caught.value, UnsafeStoreError):
        assert "single_writer=True" in caught.value.remedy


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the place of the store's folder is an error when something is recorded, and stays as it is."""
    (tmp_path / "file").write_text("mine")
    store = treering.open(tmp_path / "file")
    assert store.sessions().rows == ()
    session = store.session("s")
    with pytest.raises(treering.TreeringError) as caught:
        session.append("x")
    assert caught.value.key
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.s3
class TestServers:
    """What only a server can refuse."""

    def test_a_missing_bucket(self, seaweedfs: S3Server) -> None:
        """A bucket that does not exist is not an empty store: each call says so."""
        store = treering.open("s3://no-such-bucket/x", storage_options=seaweedfs.storage_options)
        for call in (store.sessions, lambda: store.view("s"), lambda: store.session("s")):
            with pytest.raises(AccessError, match="no-such-bucket") as caught:
                call()
            assert caught.value.kind == "bucket"
            assert caught.value.remedy
        store.close()

    @pytest.mark.parametrize("wrong", [{"secret": "wrong"}, {"key": "wrong"}])
    def test_wrong_credentials(self, seaweedfs: S3Server, wrong: dict[str, str]) -> None:
        """Refused credentials are neither a missing session nor an empty store."""
        options = {**seaweedfs.storage_options, **wrong}
        store = treering.open(f"s3://{seaweedfs.bucket}/x", storage_options=options)
        for call in (store.sessions, lambda: store.view("s"), lambda: store.session("s"), lambda: store.delete("s")):
            with pytest.raises(AccessError) as caught:
                call()
            assert caught.value.remedy
            assert seaweedfs.secret not in str(caught.value)
        store.close()

    def test_a_server_that_is_not_there(self, seaweedfs: S3Server) -> None:
        """No answer at all is reported as that, after a bounded number of attempts."""
        options = seaweedfs._replace(endpoint="http://127.0.0.1:9").storage_options
        store = treering.open("s3://bucket/x", storage_options=options)
        store.place.driver._sleep = lambda _: None  # type: ignore[attr-defined]
        with pytest.raises(UnavailableError) as caught:
            store.view("s")
        assert caught.value.remedy
        store.close()

    @pytest.mark.parametrize("drops", [{"if-match"}, {"if-none-match"}, {"if-match", "if-none-match"}])
    def test_a_store_that_ignores_conditions(self, seaweedfs: S3Server, drops: set[str]) -> None:
        """A server that forgets conditions is refused at the first record, by each handle, and keeps nothing."""
        prefix = f"ignoring-{os.urandom(4).hex()}"
        with Gateway(seaweedfs, drops=drops) as gateway:
            url = f"s3://{seaweedfs.bucket}/{prefix}"
            store = treering.open(url, storage_options=gateway.server.storage_options)
            session = store.session("s")
            for call in (lambda: session.append("x"), lambda: store.load("t", [], leaf=lambda: None)):
                with pytest.raises(UnsafeStoreError) as caught:
                    call()
                assert "conditions" in str(caught.value)
                assert caught.value.remedy
            session.close()
            store.close()
        assert seaweedfs.objects(f"{prefix}/") == {}


# names


@pytest.mark.sampled(3, "place", "name")
@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_a_session(place: Damaged, name: str) -> None:
    """Every text names a session of its own, in every store; keys stay inside the store and are plain.

    Each text in one or two kinds of store here, in all with `make whole`.
    """
    with place.store().session("a") as session:
        session.append("not this one")
    with place.store().session(NAMES[name], title="T") as session:
        session.append("x")
        session.seal()
        session.append("y")
    assert texts(place.store().view(NAMES[name]).context) == ["x", "y"]
    rows = {row.id: row.title for row in place.store().sessions().rows}
    assert rows == {"a": "", NAMES[name]: "T"}
    assert place.store().verify(NAMES[name]) == []
    assert all(key.isascii() and ".." not in key.split("/") and len(key) < 500 for key in place.stored())
    place.store().delete(NAMES[name])
    assert [row.id for row in place.store().sessions().rows] == ["a"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_a_namespace_a_node_and_a_head(place: Damaged, name: str) -> None:
    """Names of tenants, nodes, heads, labels and state keys may be any text, too."""
    if place.name == "seaweedfs" and name not in ("slash", "nul", "long", "surrogate"):
        pytest.skip("what differs is how keys are encoded, and that is the same everywhere")
    text = NAMES[name]
    store = place.store().namespace(text)
    with store.session("s") as session:
        session.append("root")
        session.append(treering.Draft(role="user", payload={"content": "x"}, id=text))
        session.branch(text)
        session.commit(["y"], state={text: text})
        session.label(text, text[:100])
        session.seal()
        session.append("z")
    view = place.store().namespace(text).view("s")
    assert (view.head, view.state) == (text, {text: text})
    assert view.path()[1] == text
    assert view.get(text).label == text[:100]
    assert place.store().sessions().rows == ()
    assert store.verify("s") == []


@pytest.mark.parametrize("name", [None, 7, b"bytes"])
def test_a_name_must_be_text(place: Damaged, name: Any) -> None:
    """An empty name, or one that is no text, is refused and writes nothing."""
    store = place.store()
    for call in (lambda: store.session(""), lambda: store.view(""), lambda: store.namespace("")):
        with pytest.raises(UsageError):
            call()
    assert place.stored() == {}


# size


def many_parts(size: int) -> dict[str, object]:
    """A message of many parts, most of which are not large enough to be stored by themselves."""
    part, picture = "some text " * 6554, "0123456789abcdef" * 4096
    parts: list[object] = [{"type": "text", "text": f"{number} {part}"} for number in range(size >> 16)]
    return {"role": "user", "content": [{"type": "image", "data": picture}, *parts]}


@pytest.mark.sampled(5, "size")
@pytest.mark.parametrize("size", [RECORD_BYTES_MAX + 1, 100_000_000])
def test_a_record_that_is_too_large_is_refused(place: Damaged, size: int) -> None:
    """A record of 100 MB is refused before any write; the error names the limit, and the session stays usable."""
    with place.store().session("s") as session:
        session.append("a")
        before = place.stored()
        message = many_parts(size + (1 << 16))
        calls = (
            (session.append, RECORD_BYTES_MAX),
            (lambda large: session.commit(["b"], state={"x": large}), BODY_BYTES_MAX),
        )
        for call, most in calls:
            with pytest.raises(UsageError) as caught:
                call(message)
            assert str(most) in str(caught.value)
            assert caught.value.remedy
        assert place.stored() == before
        session.append("b")
    assert texts(place.store().view("s").context) == ["a", "b"]


def test_a_large_text_is_stored_apart(place: Damaged) -> None:
    """A single text of 20 MB is no problem: it is stored by itself, once, and read back whole."""
    large = "0123456789abcdef" * (20 << 16)
    with place.store().session("s") as session:
        session.append(large)
        session.append("after")
    view = place.store().view("s")
    assert texts(view.context) == [large, "after"]
    assert sum(len(data) for data in place.stored().values()) < 1.1 * len(large)


def random_text(count: int) -> str:
    """Characters that hardly compress and are no base64."""
    return base64.b64encode(os.urandom(count)).decode()[:count].replace("A", " ")


def test_many_messages_at_once(place: Damaged, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that is too large compressed is refused whole where it would be one request; in parts it goes through.

    More than 4 MiB are too large here; with `make whole` it is what is too large, more than 16 MiB.
    """
    bytes_max = few(4 * 1024 * 1024, whole=APPEND_BYTES_MAX)
    monkeypatch.setattr(append, "APPEND_BYTES_MAX", bytes_max)
    messages = [{"role": "user", "content": random_text(24_000)} for _ in range(bytes_max // 18_000 + 20)]
    with place.store().session("s") as session:
        session.append("a")
        if place.driver().appends:
            session.append(*messages)
        else:
            before = list(session.lines())
            with pytest.raises(UsageError) as caught:
                session.append(*messages)
            assert caught.value.remedy
            assert str(bytes_max) in str(caught.value)
            assert list(place.store().view("s").lines()) == before
            for start in range(0, len(messages), 100):
                session.append(*messages[start : start + 100])
    view = place.store().view("s")
    assert [item.message for item in view.context][1:] == messages


def test_deep_values_are_refused(place: Damaged) -> None:
    """A value nested without end is refused with a typed error."""
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    with place.store().session("s") as session:
        with pytest.raises(UsageError, match="nested"):
            session.append({"role": "user", "content": deep})
        assert place.stored() == {}
    for depth in (150, 5000):
        deep = []
        for _ in range(depth):
            deep = [deep]
        with place.store().session("s", extra={"deep": deep}) as session, pytest.raises(UsageError, match="nested"):
            session.append("x")
        assert not [key for key in place.stored() if key.startswith("latest/")]


def test_looking_for_what_is_not_there(place: Damaged) -> None:
    """A session that never was is not found, whatever is asked, and nothing is written."""
    store = place.store()
    for call in (
        lambda: store.view("s"),
        lambda: store.session("s", create=False),
        lambda: store.delete("s"),
        lambda: store.copy("s", name="t"),
        lambda: store.verify("s"),
    ):
        with pytest.raises(NotFoundError) as caught:
            call()
        assert caught.value.key
    assert place.stored() == {}
    assert isinstance(place.driver().execute((Get("latest/s.jsonl.zst", register=True),))[0], NotFoundError)
