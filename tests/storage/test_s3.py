"""The S3 driver on the wire: what is sent for a request, and what becomes of every way to fail."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import traceback
from collections.abc import Iterator

import pytest
import s3fs
from tests.gateway import Gateway
from tests.servers import REGION, S3Server, free_ports
from tests.storage.processes import finish, start

from treering.errors import (
    AccessError,
    ConflictError,
    NotFoundError,
    TreeringError,
    UnavailableError,
    UnsafeStoreError,
    UsageError,
)
from treering.ids import new_nonce
from treering.storage import s3
from treering.storage.proof import prove
from treering.storage.requests import (
    ABSENT,
    Answer,
    Delete,
    Deleted,
    Found,
    Get,
    List,
    Listed,
    Put,
    Request,
    Unchanged,
    Version,
    Written,
)
from treering.storage.retrying import RetryingDriver
from treering.storage.run import run
from treering.storage.s3 import S3Driver
from treering.testing.conformance import ask, ask_any, keys_below

pytestmark = pytest.mark.s3

STALE = Version('"00000000000000000000000000000000"')


@pytest.fixture
def gateway(seaweedfs: S3Server) -> Iterator[Gateway]:
    """A gateway in front of SeaweedFS."""
    with Gateway(seaweedfs) as gateway:
        yield gateway


@pytest.fixture
def path(seaweedfs: S3Server) -> str:
    """A place in the bucket that nobody else uses."""
    return f"{seaweedfs.bucket}/{new_nonce()}"


@pytest.fixture
def driver(gateway: Gateway, path: str) -> Iterator[S3Driver]:
    """A driver whose requests the gateway sees."""
    driver = S3Driver(path, storage_options=gateway.server.storage_options)
    yield driver
    driver.close()


# One request each


def test_every_request_is_one_on_the_wire(driver: S3Driver, gateway: Gateway) -> None:
    """No request costs a look before or after it, whatever its answer."""
    version = ask(driver, Put("a/x", b"12345", expect=ABSENT), Written).version
    cases: list[tuple[Request, type[Answer], str]] = [
        (Get("a/x"), Found, "GET"),
        (Get("a/x", start=-2), Found, "GET"),
        (Get("a/x", 1, 3), Found, "GET"),
        (Get("a/x", unless=version), Unchanged, "GET"),
        (Get("a/none"), NotFoundError, "GET"),
        (List("a/"), Listed, "GET"),
        (List("none/"), Listed, "GET"),
        (Put("a/x", b"no", expect=ABSENT), ConflictError, "PUT"),
        (Put("a/x", b"no", expect=STALE), ConflictError, "PUT"),
        (Put("a/x", b"yes", expect=version), Written, "PUT"),
        (Put("a/y", b"1"), Written, "PUT"),
        (Delete(("a/y",)), Deleted, "DELETE"),
        (Delete(("a/x",), STALE), ConflictError, "DELETE"),
        (Delete(tuple(f"a/{i}" for i in range(1000))), Deleted, "POST"),
        (Delete(()), Deleted, ""),
    ]
    for request, expected, method in cases:
        gateway.seen.clear()
        assert isinstance(ask_any(driver, request), expected), request
        assert [each.method for each in gateway.seen] == [method] * bool(method), request


def test_conditions_travel_in_headers(driver: S3Driver, gateway: Gateway) -> None:
    """What a request asks for is what the server is asked for."""
    version = ask(driver, Put("a", b"x", expect=ABSENT), Written).version
    driver.execute((Put("a", b"y", expect=version), Get("a", 0, 10, unless=version), Delete(("a",), version)))
    create, *others = gateway.seen
    by_method = {each.method: each.headers for each in others}
    assert create.headers["if-none-match"] == "*"
    assert by_method["PUT"]["if-match"] == by_method["DELETE"]["if-match"] == version
    assert by_method["GET"]["if-none-match"] == version
    assert by_method["GET"]["range"] == "bytes=0-9"


def test_a_batch_is_under_way_at_once(driver: S3Driver, gateway: Gateway) -> None:
    """All requests of a batch are sent before the first is answered, also more than a few."""
    count = 20
    gateway.meet = threading.Barrier(count)
    answers = driver.execute(tuple(Put(f"a/{i}", b"") for i in range(count)))
    assert all(isinstance(answer, Written) for answer in answers)
    answers = asyncio.run(driver.aexecute(tuple(Get(f"a/{i}") for i in range(count))))
    assert all(isinstance(answer, Found) for answer in answers)


def test_many_keys_are_deleted_in_thousands(driver: S3Driver, gateway: Gateway) -> None:
    """More keys than S3 takes at once are deleted in as many requests as needed."""
    ask(driver, Put("a/2000", b""), Written)
    ask(driver, Delete(tuple(f"a/{i}" for i in range(2001))), Deleted)
    assert [each.method for each in gateway.seen] == ["PUT", "POST", "POST", "DELETE"]
    assert keys_below(driver, "") == []


def test_folder_placeholders_are_no_objects(driver: S3Driver, seaweedfs: S3Server, path: str, gateway: Gateway) -> None:
    """Empty objects with a slash at the end, as consoles make them, are passed over, even a page full of them."""
    ask(driver, Put("a/x", b""), Written)
    base = "".join(f"<Contents><Key>{path.partition('/')[2]}/a/{i}/</Key></Contents>" for i in range(2))
    page = f"<ListBucketResult><IsTruncated>true</IsTruncated>{base}</ListBucketResult>"
    gateway.script = [(200, page.encode())]
    gateway.seen.clear()
    assert keys_below(driver, "a/") == ["a/x"]
    assert "start-after=" in gateway.seen[1].path


def test_a_register_too_large_for_one_request_is_refused(
    driver: S3Driver, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A register over the limit is not sent, since an upload in parts would drop its condition."""
    monkeypatch.setattr(s3, "REGISTER_BYTES_MAX", 10)
    answer = ask_any(driver, Put("a", b"12345678901", expect=ABSENT))
    assert isinstance(answer, UsageError)
    assert answer.kind == "size"
    ask(driver, Put("a", b"1234567890", expect=ABSENT), Written)
    ask(driver, Put("b", b"12345678901"), Written)
    assert gateway.count("PUT") == 2


# Failures


@pytest.mark.parametrize(
    ("status", "expected", "kind"),
    [
        (403, AccessError, "permission"),
        (409, UnavailableError, "server"),
        (500, UnavailableError, "server"),
        (503, UnavailableError, "server"),
    ],
)
def test_a_refusing_server_is_asked_once(
    driver: S3Driver, gateway: Gateway, status: int, expected: type[TreeringError], kind: str
) -> None:
    """The driver itself never sends again; it says what the answer means."""
    gateway.script = [status]
    answer = ask_any(driver, Put("a", b"x", expect=ABSENT))
    assert type(answer) is expected
    assert (answer.kind, answer.key) == (kind, "a")
    assert len(gateway.seen) == 1


def test_a_lost_reply_makes_our_own_write_a_conflict(driver: S3Driver, gateway: Gateway, path: str) -> None:
    """Sent again after a lost reply, a conditional write meets itself; only its author can tell."""
    retrying = RetryingDriver(driver, sleep=lambda _: None)
    gateway.script = ["lose"]
    assert isinstance(ask_any(retrying, Put("a", b"ours", expect=ABSENT)), ConflictError)
    assert gateway.count("PUT") == 2
    assert ask(driver, Get("a"), Found).data == b"ours"
    gateway.script = ["lose"]
    ask(retrying, Put("b", b"ours"), Written)


def test_errors_of_a_server_are_retried(driver: S3Driver, gateway: Gateway) -> None:
    """Busy servers and broken connections are asked again, other requests of the batch are not."""
    driver.execute((Put("a", b"1"), Put("b", b"2")))
    gateway.seen.clear()
    gateway.script = [503, "pass", "lose", 500, "cut"]
    answers = RetryingDriver(driver, sleep=lambda _: None, attempts_max=9).execute((Get("a"), Get("b")))
    assert [answer.data for answer in answers if isinstance(answer, Found)] == [b"1", b"2"]
    assert len(gateway.seen) == 6


def test_an_answer_cut_short_is_not_an_object(driver: S3Driver, gateway: Gateway) -> None:
    """A connection that breaks in the middle of a body never yields half an object."""
    ask(driver, Put("a", b"x" * 100_000), Written)
    gateway.script = ["cut"]
    assert isinstance(ask_any(driver, Get("a")), UnavailableError)
    assert len(ask(driver, Get("a"), Found).data) == 100_000


def test_a_hanging_server_is_given_up(gateway: Gateway, path: str) -> None:
    """A server that takes the request and never answers is unavailable after the timeout."""
    options = {**gateway.server.storage_options, "config_kwargs": {"read_timeout": 0.2}}
    driver = S3Driver(path, storage_options=options)
    gateway.script = ["hang"]
    answer = ask_any(driver, Get("a"))
    assert isinstance(answer, UnavailableError)
    assert answer.kind == "timeout"
    driver.close()


def test_one_key_that_cannot_be_deleted_is_an_error(driver: S3Driver, gateway: Gateway, path: str) -> None:
    """S3 reports failed deletions inside an answer of success; they are not passed over."""
    for code, expected in (("AccessDenied", AccessError), ("InternalError", UnavailableError)):
        error = f"<Error><Key>{path.partition('/')[2]}/b</Key><Code>{code}</Code></Error>"
        gateway.script = [(200, f"<DeleteResult>{error}</DeleteResult>".encode())]
        answer = ask_any(driver, Delete(("a", "b")))
        assert isinstance(answer, expected)
        assert answer.key == "b"


@pytest.mark.parametrize("body", [b"", b"<html>Welcome!", b"<html><body>Log in</body></html>"])
@pytest.mark.parametrize("status", [200, 502])
def test_a_page_that_is_no_s3_is_an_error(driver: S3Driver, gateway: Gateway, status: int, body: bytes) -> None:
    """Something else than S3 at the other end is reported for every request, whatever it sends."""
    requests = (Get("a"), Get("a", 1), Put("a", b"x"), Put("a", b"x", ABSENT), List(""))
    for request in requests:
        gateway.script = [(status, body)]
        assert isinstance(ask_any(driver, request), UnavailableError), request


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>default backend - 404", b"<Error><Code>NotFound</Code></Error>"],
    ids=["empty", "page", "code"],
)
def test_a_page_that_is_not_found_is_no_missing_object(driver: S3Driver, gateway: Gateway, body: bytes) -> None:
    """A proxy whose backend is away, or a wrong endpoint, answers 404 as well; that says nothing about objects."""
    requests = (
        Get("a"),
        Get("a", 1),
        Put("a", b"x"),
        Put("a", b"x", ABSENT),
        Put("a", b"x", STALE),
        List(""),
        Delete(("a",)),
        Delete(("a",), STALE),
        Delete(("a", "b")),
    )
    for request in requests:
        gateway.script = [(404, body)]
        answer = ask_any(driver, request)
        assert isinstance(answer, UnavailableError), request
        assert "not one of S3" in str(answer)
        assert "endpoint_url" in answer.remedy


NO_KEY = b"<Error><Code>NoSuchKey</Code></Error>"


def test_a_missing_object_is_told_where_one_is_needed(driver: S3Driver, gateway: Gateway) -> None:
    """A list, and a put that replaces nothing, need no object: told that it is missing, they reached something else."""
    cases: list[tuple[Request, type[Answer]]] = [
        (Get("a"), NotFoundError),
        (Put("a", b"x", STALE), NotFoundError),
        (Delete(("a",)), Deleted),
        (Put("a", b"x", ABSENT), UnavailableError),
        (Put("a", b"x"), UnavailableError),
        (List(""), UnavailableError),
    ]
    for request, expected in cases:
        gateway.script = [(404, NO_KEY)]
        assert type(ask_any(driver, request)) is expected, request


def test_a_missing_size_is_no_missing_object(driver: S3Driver, gateway: Gateway) -> None:
    """The answer to a HEAD has no body that says whether it is one of S3, so the whole read is sent once more."""
    ask(driver, Put("a", b"x"), Written)
    retrying = RetryingDriver(driver, sleep=lambda _: None)
    gateway.script = ["pass", (404, b"")]
    assert ask(retrying, Get("a", 9), Found).size == 1
    gateway.script = ["pass", (404, b""), (404, NO_KEY)]
    assert isinstance(ask_any(retrying, Get("a", 9)), NotFoundError)


def test_a_proxy_that_answers_nothing_is_no_proof(driver: S3Driver, gateway: Gateway) -> None:
    """A 404 does not refuse a condition, so the store is not taken as one that checks them."""
    gateway.plan = lambda _: (404, b"<html>")
    with pytest.raises(UnavailableError, match="not one of S3"):
        run(prove(), driver)


def test_a_list_that_never_ends_is_an_error(driver: S3Driver, gateway: Gateway) -> None:
    """A page without keys that promises more could be asked for again and again."""
    gateway.script = [(200, b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")]
    assert isinstance(ask_any(driver, List("")), UnavailableError)


def test_a_part_is_cut_from_a_whole_answer(driver: S3Driver, gateway: Gateway) -> None:
    """A cache in between may answer a range with everything; what was asked for is all that is passed on."""
    ask(driver, Put("a", b"0123456789"), Written)
    gateway.drops = {"range"}
    for first, end, expected in ((2, 5, b"234"), (-3, None, b"789"), (None, 4, b"0123"), (7, None, b"789")):
        found = ask(driver, Get("a", first, end), Found)
        assert (found.data, found.size) == (expected, 10)


def wrong_servers(server: S3Server) -> dict[str, tuple[str, dict[str, object], type[TreeringError], str]]:
    """Return what can be wrong with a target: path, options, and the error to expect."""
    (closed,) = free_ports(1)
    right = server.storage_options

    def aimed_at(url: str) -> dict[str, object]:
        return {**right, "client_kwargs": {"endpoint_url": url, "region_name": REGION}}

    return {
        "bucket": ("no-such-bucket", right, AccessError, "bucket"),
        "key": (server.bucket, {**right, "key": "WRONGKEY"}, AccessError, "credentials"),
        "secret": (server.bucket, {**right, "secret": "wrong-secret"}, AccessError, "credentials"),
        "anonymous": (
            server.bucket,
            {"anon": True, "client_kwargs": right["client_kwargs"]},
            AccessError,
            "permission",
        ),
        "port": (server.bucket, aimed_at(f"http://127.0.0.1:{closed}"), UnavailableError, "network"),
        "host": (server.bucket, aimed_at("http://no-such-host.invalid"), UnavailableError, "network"),
        "url": (server.bucket, aimed_at("not a url"), UsageError, "options"),
        "bucket name": ("Bad..Bucket!", right, UsageError, "options"),
    }


@pytest.mark.parametrize("wrong", ["bucket", "key", "secret", "anonymous", "port", "host", "url", "bucket name"])
def test_a_wrong_target_says_what_to_do(seaweedfs: S3Server, wrong: str) -> None:
    """Each wrong setting is the same typed error for every request, with a remedy and without any credentials."""
    path, options, expected, kind = wrong_servers(seaweedfs)[wrong]
    driver = S3Driver(path, storage_options=options)
    requests = (
        Get("a/b"),
        Put("a/b", b"x"),
        Put("a/b", b"x", ABSENT),
        List("a/"),
        Delete(("a/b",)),
        Delete(("a", "b")),
    )
    for request, answer in zip(requests, driver.execute(requests), strict=True):
        assert isinstance(answer, TreeringError), request
        assert (type(answer), answer.kind) == (expected, kind), request
        assert answer.remedy
        told = "".join(traceback.format_exception(answer)) + repr(answer)
        assert not re.search("WRONGKEY|wrong-secret|treering-key|treering-secret", told)
    driver.close()


def test_missing_credentials_are_an_access_error(
    seaweedfs: S3Server, path: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing to sign with is told as such."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    driver = S3Driver(path, storage_options={"client_kwargs": seaweedfs.storage_options["client_kwargs"]})
    answer = ask_any(driver, Get("a"))
    assert isinstance(answer, AccessError)
    assert answer.kind == "credentials"
    driver.close()


@pytest.mark.parametrize("path", ["", "/", "bucket//a", "bucket/../a"])
def test_a_path_without_a_bucket_is_refused(path: str) -> None:
    """A target that cannot be one is refused before anything is sent."""
    with pytest.raises(UsageError, match="s3://bucket/prefix"):
        S3Driver(path)


# The proof


@pytest.mark.parametrize("dropped", [{"if-match"}, {"if-none-match"}, {"if-match", "if-none-match"}])
def test_a_server_that_ignores_conditions_is_refused(seaweedfs: S3Server, path: str, dropped: set[str]) -> None:
    """The proof finds out that conditions are accepted and ignored, and leaves nothing behind."""
    with Gateway(seaweedfs, drops=dropped) as gateway:
        driver = S3Driver(path, storage_options=gateway.server.storage_options)
        with pytest.raises(UnsafeStoreError, match="single_writer=True"):
            run(prove(), driver)
        assert seaweedfs.objects(path.partition("/")[2]) == {}
        driver.close()


def test_the_proof_costs_one_round_trip_once_the_store_exists(driver: S3Driver, gateway: Gateway) -> None:
    """The first process sends three requests, any later one two, and none of them reads."""
    run(prove(), driver)
    assert [each.method for each in gateway.seen] == ["PUT"] * 3
    gateway.seen.clear()
    gateway.meet = threading.Barrier(2)
    run(prove(), driver)
    assert [each.method for each in gateway.seen] == ["PUT"] * 2


# Filesystems and processes


def test_a_given_filesystem_is_used_and_left_open(seaweedfs: S3Server, path: str) -> None:
    """An s3fs filesystem made by the user serves with its own settings, and outlives the driver."""
    fs = s3fs.S3FileSystem(**seaweedfs.storage_options, skip_instance_cache=True)
    driver = S3Driver(path, fs=fs)
    ask(driver, Put("a", b"x"), Written)
    driver.close()
    assert fs.cat_file(f"{path}/a") == b"x"
    assert ask(driver, Get("a"), Found).data == b"x"


def test_a_filesystem_of_one_event_loop_is_refused(seaweedfs: S3Server) -> None:
    """A filesystem made for a single event loop cannot serve, and the message says what to pass."""
    fs = s3fs.S3FileSystem(**seaweedfs.storage_options, asynchronous=True, skip_instance_cache=True)
    with pytest.raises(UsageError, match="without asynchronous=True"):
        S3Driver(seaweedfs.bucket, fs=fs)


def test_users_settings_come_first() -> None:
    """Our settings fill in what the user did not say."""
    options = {"use_listings_cache": True, "config_kwargs": {"read_timeout": 99}}
    fs = S3Driver("bucket", storage_options=options)._filesystem()
    assert fs.dircache.use_listings_cache
    assert fs.config_kwargs["read_timeout"] == 99
    assert fs.config_kwargs["max_pool_connections"] == 64
    assert fs.config_kwargs["retries"] == {"max_attempts": 0}


@pytest.mark.parametrize("given", [False, True])
def test_a_forked_child_has_its_own_connections(seaweedfs: S3Server, path: str, *, given: bool) -> None:
    """After a fork both processes go on with the driver they had, be its filesystem given or its own."""
    code = """
import json
from treering.storage.s3 import S3Driver
options = json.loads(sys.argv[2])
if sys.argv[3] == "True":
    import s3fs
    driver = S3Driver(sys.argv[1], fs=s3fs.S3FileSystem(**options))
else:
    driver = S3Driver(sys.argv[1], storage_options=options)
assert isinstance(ask(driver, Put("parent", b"1")), Written)
child = os.fork()
assert ask(driver, Get("parent")).data == b"1"
assert isinstance(ask(driver, Put(f"from-{bool(child)}", b"1")), Written)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert [entry.key for entry in ask(driver, List("")).entries] == ["from-False", "from-True", "parent"]
"""
    finish(start(code, path, json.dumps(seaweedfs.storage_options), given))
