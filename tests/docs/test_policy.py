"""The policies on the page about buckets allow what the library asks of S3, and nothing else."""

from __future__ import annotations

import ast
import fnmatch
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import s3fs
from tests.docs.pages import ROOT, blocks, table
from tests.servers import S3Server, moto

import treering
from treering.ids import new_nonce

__all__ = ["moto"]

PAGE = ROOT / "docs/how-to/bucket.md"
WHOLE, TENANT, RULES = (json.loads(block.text) for block in blocks(PAGE) if block.language == "json")
ACTIONS = {
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
    "put_object": "s3:PutObject",
    "delete_object": "s3:DeleteObject",
    "delete_objects": "s3:DeleteObject",
    "list_objects_v2": "s3:ListBucket",
    "get_bucket_versioning": "s3:GetBucketVersioning",
}
"""What S3 asks of whoever sends a request, by the names that clients have for these."""


class Asked(NamedTuple):
    """A request to S3: what it needs the right to do, and to what."""

    method: str
    resource: str


def listed(value: Any) -> list[Any]:
    """A value of a policy, which may stand alone."""
    return value if isinstance(value, list) else [value]


def allows(policy: dict[str, Any], asked: Asked) -> bool:
    """Whether a statement allows a request."""
    return any(
        ACTIONS[asked.method] in listed(each["Action"])
        and any(fnmatch.fnmatchcase(asked.resource, resource) for resource in listed(each["Resource"]))
        for each in policy["Statement"]
    )


def resources(options: dict[str, Any]) -> Iterator[str]:
    """The names of what a request is about: an object, several, or the bucket, which the page calls `my-bucket`."""
    bucket = "arn:aws:s3:::my-bucket"
    if "Delete" in options:
        yield from (f"{bucket}/{each['Key']}" for each in options["Delete"]["Objects"])
    else:
        yield f"{bucket}/{options['Key']}" if "Key" in options else bucket


class Watched(NamedTuple):
    """A bucket of a test's own, and everything that is asked of S3 during it."""

    target: str
    options: dict[str, Any]
    asked: set[Asked]


@pytest.fixture
def watched(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """An empty bucket, on a server that other tests use as well."""
    bucket = f"policy-{new_nonce()}"
    moto.client().create_bucket(Bucket=bucket)
    asked: set[Asked] = set()
    send = s3fs.S3FileSystem._call_s3

    async def note(fs: Any, method: str, *args: Any, **options: Any) -> Any:
        assert options["Bucket"] == bucket
        asked.update(Asked(method, resource) for resource in resources(options))
        return await send(fs, method, *args, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", note)
    return Watched(f"s3://{bucket}/agents", moto.storage_options, asked)


def live(store: treering.Store) -> None:
    """Do in a store whatever sends requests of a kind of its own."""
    with store.session("one", project="shop") as session:
        asked = session.append(treering.user("a secret " + "x" * 300_000)).node
        session.seal()
        for number in range(4):
            session.commit([f"question {number}"], state={"step": number})
            session.seal()
        session.optimize(everything=True)
        session.erase(asked, reason="asked for")
        list(session.history().rows)
    store.copy("one", name="two")
    store.sessions()
    store.reindex()
    list(store.verify_all())
    store.retain(treering.Retention(sessions_max=1, min_idle_hours=0))
    store.delete("one")
    store.purge()


@pytest.mark.s3
def test_the_policy_allows_what_a_store_asks_for(watched: Watched) -> None:
    """Each request of a session's life is allowed, and each action that is allowed is needed."""
    with treering.open(watched.target, storage_options=watched.options) as store:
        live(store)
    assert [each for each in watched.asked if not allows(WHOLE, each)] == []
    allowed = {action for each in WHOLE["Statement"] for action in listed(each["Action"])}
    assert allowed == {ACTIONS[each.method] for each in watched.asked}


@pytest.mark.s3
def test_the_policy_of_a_tenant_allows_what_its_namespace_asks_for(watched: Watched) -> None:
    """In a store that exists it needs its own keys, and three kinds of keys of the store."""
    with treering.open(watched.target, storage_options=watched.options) as store, store.session("first") as session:
        session.append("hello")
    watched.asked.clear()
    with treering.open(watched.target, namespace="user-42", storage_options=watched.options) as tenant:
        live(tenant)
    refused = {each for each in watched.asked if not allows(TENANT, each)}
    assert {each.method for each in refused} <= {"get_bucket_versioning"}


def test_every_request_of_the_driver_is_in_the_table() -> None:
    """No other method of a client stands in its source, and the page names them all with their actions."""
    tree = ast.parse((ROOT / "src/treering/storage/s3.py").read_text())
    words = {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    methods = {word for word in words if word.startswith(("get_", "put_", "delete_", "list_", "head_", "copy_"))}
    assert methods == set(ACTIONS)
    told = {row[0].strip("`"): {name.strip("` ") for name in row[1].split(",")} for row in table(PAGE, "Action")}
    expected: dict[str, set[str]] = {}
    for method, action in ACTIONS.items():
        name = "".join(part.capitalize() for part in method.split("_"))
        expected.setdefault(action, set()).add(name)
    assert told == expected


def test_no_rule_removes_a_current_object() -> None:
    """The rules on the page end versions and uploads only."""
    for rule in RULES["Rules"]:
        assert rule.get("Expiration", {}).keys() <= {"ExpiredObjectDeleteMarker"}
        assert "Transitions" not in rule
        assert rule["Status"] == "Enabled"
