"""`TreeringStore`: what an agent remembers is durable, found again, expires, and goes when it is to go."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_store
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp
from tests.integrations.langgraph.graphs import config
from tests.session.at_rest import holding
from tests.session.backends import Backend, memory_backend
from tests.storage.processes import wait_until

import treering
from treering.errors import UsageError
from treering.integrations.langgraph import TreeringSaver, TreeringStore, store as module
from treering.kinds import Kind

NS = ("alice", "memories")
MINUTE = 60_000_000
SECRET = "the launch code is 0000"
LABELS = ["a", "a/b", "*", "%", "%2F", "é ü/\U0001f600", ".hidden", "con", "a=2fb", "x" * 300, "A", "b\n"]


class Clock:
    """Microseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def wait(self, minutes: float) -> None:
        """Let time pass."""
        self.now += round(minutes * MINUTE)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that items are put by."""
    made = Clock()
    monkeypatch.setattr(module, "_now_us", made)
    return made


def store_of(backend: Backend, **options: Any) -> TreeringStore:
    """A store in a new process."""
    return TreeringStore(backend.store(), **options)


def found(store: TreeringStore, prefix: tuple[str, ...] = (), **how: Any) -> list[str]:
    """The keys that a search finds."""
    return [item.key for item in store.search(prefix, **{"limit": 1000, **how})]


# put, get, search


def test_what_was_put_is_there_in_another_process(anywhere: Backend) -> None:
    """An item comes back whole, with the times of its first and its last put."""
    store_of(anywhere).put(NS, "tea", {"text": "likes tea", "n": 1, "deep": {"list": [1, None, True]}})
    first = store_of(anywhere).get(NS, "tea")
    assert first is not None
    assert first.value == {"text": "likes tea", "n": 1, "deep": {"list": [1, None, True]}}
    assert (first.namespace, first.key) == (NS, "tea")
    assert first.created_at == first.updated_at <= datetime.now(UTC)
    store_of(anywhere).put(NS, "tea", {"text": "likes coffee"})
    again = store_of(anywhere).get(NS, "tea")
    assert again is not None
    assert again.value == {"text": "likes coffee"}
    assert again.created_at == first.created_at < again.updated_at
    store_of(anywhere).delete(NS, "tea")
    assert store_of(anywhere).get(NS, "tea") is None
    assert store_of(anywhere).list_namespaces() == []


def test_a_store_sees_what_another_one_does(anywhere: Backend) -> None:
    """Two processes have one store open: each read shows what the other one did, also deletions of what it put."""
    one, other = store_of(anywhere), store_of(anywhere)
    assert one.get(NS, "a") is None
    other.put(NS, "a", {"n": 1})
    assert one.get(NS, "a") is not None
    one.put(NS, "b", {"n": 2})
    other.delete(NS, "b")
    assert found(one) == ["a"]
    other.put(("bob", "memories"), "c", {"n": 3})
    assert found(one) == ["c", "a"]
    other.put(NS, "z", {"n": 4})
    one.delete(NS, "z")  # it never saw this item, which is there all the same
    assert found(other, NS) == ["a"]


@pytest.mark.parametrize("label", LABELS)
def test_any_label_and_any_key_is_itself(backend: Backend, label: str) -> None:
    """Names are no paths and no patterns: each is found by itself alone, and listed as it is."""
    spaces = {(label,), (label, label), (label, "a", label), ("a", label), ("a", "b", label)}
    with store_of(backend) as store:
        for namespace in spaces:
            for key in (label, "k"):
                store.batch([PutOp(namespace, key, {"at": [*namespace, key]})])  # which takes labels with a period
    store = store_of(backend)
    for namespace in spaces:
        for key in (label, "k"):
            [item] = store.batch([GetOp(namespace, key)])
            assert isinstance(item, Item)
            assert item.value == {"at": [*namespace, key]}
        [hits] = store.batch([SearchOp(namespace, limit=100)])
        below = {(item.namespace, item.key) for item in hits}  # type: ignore[union-attr]
        assert below == {(each, key) for each in spaces if each[: len(namespace)] == namespace for key in (label, "k")}
    assert store.list_namespaces() == sorted(spaces)


def test_the_empty_namespace_and_empty_names_have_places_of_their_own(backend: Backend) -> None:
    """`put` refuses them; a batch does not, and LangGraph's own store keeps them."""
    spaces: list[tuple[str, ...]] = [(), ("",), ("", ""), ("%",), ("%0",), ("", "", "")]
    store_of(backend).batch([PutOp(namespace, "", {"at": list(namespace)}) for namespace in spaces])
    got = store_of(backend).batch([GetOp(namespace, "") for namespace in spaces])
    assert [item.value["at"] for item in got] == [list(namespace) for namespace in spaces]  # type: ignore[union-attr]
    assert store_of(backend).batch([ListNamespacesOp()]) == [sorted(spaces)]


def test_a_batch_reads_before_it_puts_and_the_last_put_counts(anywhere: Backend) -> None:
    """As in LangGraph's own stores, whatever the order of the operations."""
    store = store_of(anywhere)
    store.put(NS, "a", {"n": 0})
    ops: list[Op] = [
        PutOp(NS, "a", {"n": 1}), GetOp(NS, "a"), PutOp(NS, "b", {"n": 5}), PutOp(NS, "a", {"n": 2}),
        PutOp(NS, "b", None), SearchOp(("alice",)), PutOp(("bob",), "c", {"n": 3}), ListNamespacesOp(),
        PutOp(NS, "d", None), PutOp(NS, "d", {}),
    ]  # fmt: skip
    results = store.batch(ops)
    assert [type(result).__name__ for result in results] == ["NoneType", "Item", *3 * ["NoneType"], "list", "NoneType",
                                                             "list", "NoneType", "NoneType"]  # fmt: skip
    assert results[1].value == {"n": 0}  # type: ignore[union-attr]
    assert [item.value for item in results[5]] == [{"n": 0}]  # type: ignore[union-attr]
    assert results[7] == [NS]
    assert {item.key: item.value for item in store_of(anywhere).search(())} == {"a": {"n": 2}, "c": {"n": 3}, "d": {}}


def test_search_shows_the_last_put_first_by_pages(backend: Backend) -> None:
    """Over sessions, and in pages that make up the whole."""
    store = store_of(backend)
    for number in range(12):
        store.put(("u", f"{number % 4}"), f"{number}", {"n": number})
    store.put(("u", "1"), "1", {"n": 1})
    whole = found(store, ("u",))
    assert whole == ["1", *[str(number) for number in reversed(range(12)) if number != 1]]
    assert [key for at in range(0, 12, 5) for key in found(store, ("u",), limit=5, offset=at)] == whole
    assert found(store, ("u",), limit=0) == []


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"n": 1}, "b"),
        ({"n": {"$eq": 1.0}}, "b"),
        ({"n": {"$ne": 1}}, "acde"),
        ({"n": {"$gt": 0, "$lte": 2}}, "bc"),
        ({"n": {"$lt": 0}}, "a"),
        ({"day": {"$gte": "2024-05-01"}}, "c"),
        ({"tags": ["x", "y"]}, "c"),
        ({"deep": {"n": {"$gt": 1}}}, "c"),
        ({"deep": {}}, "bc"),
        ({"missing": None}, "abcde"),
        ({"n": {"$gt": "text"}}, "e"),
        ({"deep": {"$gt": 1}}, ""),
        ({"n": {"$gt": 0}, "day": "2024-04-30"}, "b"),
        ({}, "abcde"),
    ],
)
def test_filters(backend: Backend, wanted: Any, keys: str) -> None:
    """What cannot be compared does not match; nothing is raised."""
    store = store_of(backend)
    values: dict[str, Any] = {
        "a": {"n": -1}, "b": {"n": 1, "day": "2024-04-30", "deep": {"n": 1}},
        "c": {"n": 2, "day": "2024-05-01", "tags": ["x", "y"], "deep": {"n": 2}}, "d": {"n": None}, "e": {"n": "zzz"},
    }  # fmt: skip
    for key, value in values.items():
        store.put(NS, key, value)
    assert sorted(found(store, filter=wanted)) == list(keys)


def test_an_operator_that_does_not_exist_is_refused(backend: Backend) -> None:
    """Also where there is nothing to compare; and nothing of the batch is done."""
    store = store_of(backend)
    with pytest.raises(UsageError, match=r"Unsupported operator: \$in"):
        store.batch([PutOp(NS, "a", {}), SearchOp(NS, filter={"n": {"$in": [1]}})])
    assert found(store) == []


def test_namespaces_are_listed_by_conditions(backend: Backend) -> None:
    """Prefixes, suffixes, any label, depth and pages."""
    store = store_of(backend)
    spaces = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "c", "f"), ("b", "a", "f"), ("b",)]
    for namespace in spaces:
        store.put(namespace, "k", {})
    assert store.list_namespaces() == sorted(spaces)
    assert store.list_namespaces(prefix=("a", "b")) == spaces[:2]
    assert store.list_namespaces(prefix=("*", "b")) == spaces[:2]
    assert store.list_namespaces(suffix=("f",)) == spaces[2:4]
    assert store.list_namespaces(prefix=("a",), suffix=("*", "f")) == [spaces[2]]
    assert store.list_namespaces(max_depth=2) == [("a", "b"), ("a", "c"), ("b",), ("b", "a")]
    assert store.list_namespaces(limit=2, offset=1) == sorted(spaces)[1:3]
    assert store.list_namespaces(prefix=("nobody",)) == []
    with pytest.raises(UsageError, match="Unsupported match type"):
        store.batch([ListNamespacesOp((MatchCondition("infix", ("a",)),))])  # type: ignore[arg-type]


# text


def test_a_query_ranks_items_by_their_words(backend: Backend) -> None:
    """Those with more of its words, and rarer ones, come first; those without any come last, and have no score."""
    store = store_of(backend)
    texts = ["The user lives in Berlin", "the user likes Crème brûlée", "the dog likes tea", "住在东京的用户"]
    for number, text in enumerate(texts):
        store.put(NS, str(number), {"kind": "fact", "notes": [{"text": text}], "n": number})
    assert found(store, NS, query="Where in BERLIN does he live?")[0] == "0"
    assert found(store, NS, query="creme")[0] == "1"
    assert found(store, NS, query="what tea does the dog like")[0] == "2"
    assert found(store, NS, query="东京")[0] == "3"
    scored = {item.key: item.score for item in store.search(NS, query="the user likes")}
    assert scored["1"] == 1.0
    assert 0 < (scored["2"] or 0) < 1
    assert scored["3"] is None
    assert found(store, NS, query="tea", filter={"n": {"$lt": 2}}) == ["1", "0"]
    assert found(store, NS, query="likes", limit=1, offset=1) in (["1"], ["2"])


def test_embeddings_are_refused_with_what_to_do(backend: Backend) -> None:
    """Rather than ignored: a search would then find something else than asked for."""
    with pytest.raises(UsageError, match="no search by embeddings") as caught:
        store_of(backend, index={"dims": 3, "embed": lambda texts: [[0.0] * 3 for _ in texts]})
    assert "leave `index` out" in str(caught.value.remedy)


# values


@dataclass
class Plan:
    """A type of the user."""

    steps: list[str]


def test_values_come_back_as_they_were(backend: Backend) -> None:
    """Data, bytes, times, messages, numbers of any size, text that is no Unicode; none of it through pickle."""
    value = {
        "bytes": b"\x00\xff", "big": 2**60, "none": None, "float": 1.5, "when": datetime(2024, 5, 1, tzinfo=UTC),
        "day": date(2024, 5, 1), "set": {1, 2}, "tuple": (1, 2), "odd": "\ud800", "$str": "x", "deep": [{1: 2}],
    }  # fmt: skip
    said = {"said": HumanMessage("hello", id="1"), "bytes": b"\x00"}
    store_of(backend).put(NS, "all", value)
    store_of(backend).put(NS, "said", said)
    for key, put in (("all", value), ("said", said)):
        item = store_of(backend).get(NS, key)
        assert item is not None
        assert item.value == put
    assert holding(backend.snapshot(), "cposix", "c__builtin__") == []


def test_types_of_the_user_are_made_only_if_they_are_named(backend: Backend) -> None:
    """Nothing that is read names code to import."""
    store_of(backend).put(NS, "plan", {"plan": Plan(["one"])})
    item = store_of(backend).get(NS, "plan")
    assert item is not None
    assert not isinstance(item.value["plan"], Plan)
    item = store_of(backend, allow=[Plan]).get(NS, "plan")
    assert item is not None
    assert item.value["plan"] == Plan(["one"])


def test_what_would_execute_code_is_refused(backend: Backend) -> None:
    """A serializer with pickle is refused, and so is a value in a form that is never written."""
    with pytest.raises(UsageError, match="pickle"):
        store_of(backend, serde=JsonPlusSerializer(pickle_fallback=True))
    store_of(backend).put(NS, "a", {"n": b"1"})
    with backend.store().namespace(module.NAMESPACE).session("alice/memories", shared=True) as session:
        evil = {"value": {"type": "pickle", "bytes": pickle.dumps(print)}, "created": 1, "updated": 1}
        session.commit(state={"item/alice/memories/a": evil})
    with pytest.raises(treering.CorruptError, match="never written here"):
        store_of(backend).get(NS, "a")


class _Turned(CipherProtocol):
    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "turned", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "turned"
        return ciphertext[::-1]


def test_a_serializer_of_the_user_gets_every_value(backend: Backend) -> None:
    """With one that encrypts nothing of a value is readable, and filters and queries work all the same."""
    serde = EncryptedSerializer(_Turned())
    with store_of(backend, serde=serde) as store:
        store.put(NS, "a", {"text": SECRET, "n": 1})
    assert holding(backend.snapshot(), SECRET) == []
    assert found(store_of(backend, serde=serde), NS, filter={"n": 1}, query="launch") == ["a"]


def nested(depth: int) -> list[Any]:
    """A list in a list, and so on."""
    return [nested(depth - 1)] if depth else []


@pytest.mark.parametrize("value", [{"f": open}, {"f": lambda: 0}, {"deep": nested(400)}, [1], "text", 1])
def test_what_cannot_be_stored_is_refused_before_anything_is(backend: Backend, value: Any) -> None:
    """A batch with one such value does nothing."""
    store = store_of(backend)
    with pytest.raises(UsageError, match="cannot be stored"):
        store.batch([PutOp(NS, "good", {"n": 1}), PutOp(NS, "bad", value)])
    with pytest.raises(UsageError, match="cannot be stored"):
        store.batch([PutOp(NS, "good", {"n": 1}), PutOp(NS, "\ud800", {})])
    assert found(store) == []


def test_the_caller_may_change_what_it_put_and_what_it_got(backend: Backend) -> None:
    """Values are encoded when they are put, and decoded anew for each caller."""
    store = store_of(backend)
    value = {"list": [1]}
    store.put(NS, "a", value)
    value["list"].append(2)
    item = store.get(NS, "a")
    assert item is not None
    assert item.value == {"list": [1]}
    item.value["list"].append(3)
    assert store.search(NS)[0].value == {"list": [1]}


def test_options_without_a_meaning_are_refused(backend: Backend) -> None:
    """Two ways to decode; and a redactor, which cannot look into bytes."""
    with pytest.raises(UsageError, match="allow"):
        store_of(backend, serde=JsonPlusSerializer(), allow=[Plan])
    with pytest.raises(UsageError, match="redactor"):
        TreeringStore(treering.open("memory://redacted", redactor=lambda text: text))


def test_a_large_batch_is_stored_whole(backend: Backend) -> None:
    """Several appends of at most 2 MiB; one value may be larger."""
    puts = [PutOp(NS, f"{number:04d}", {"text": f"{number:04d}" * 2000}) for number in range(600)]
    store_of(backend).batch([*puts, PutOp(NS, "large", {"text": "x" * 3_000_000})])
    store = store_of(backend)
    assert len(found(store, NS)) == 601
    item = store.get(NS, "large")
    assert item is not None
    assert len(item.value["text"]) == 3_000_000


# time to live


def ttl_store(backend: Backend, **options: Any) -> TreeringStore:
    """A store whose items live for ten minutes."""
    return store_of(backend, ttl={"default_ttl": 10, **options})


def test_what_has_expired_is_swept(anywhere: Backend, clock: Clock) -> None:
    """Only what nobody put or read for its time to live; an item without one stays."""
    store = ttl_store(anywhere)
    store.put(NS, "default", {})
    store.put(NS, "short", {}, ttl=1)
    store.put(NS, "ever", {}, ttl=None)
    store.put(("bob",), "other", {})
    clock.wait(2)
    assert store_of(anywhere).sweep_ttl() == 1
    clock.wait(9)
    assert store_of(anywhere).sweep_ttl() == 2
    assert found(store) == ["ever"]
    assert store.sweep_ttl() == 0
    assert store.list_namespaces() == [NS]


def test_reading_puts_expiry_off(backend: Backend, clock: Clock) -> None:
    """A get and a search, of what they return; unless the caller or the configuration says otherwise."""
    store = ttl_store(backend)
    for key in ("got", "searched", "quiet", "unread"):
        store.put(NS, key, {"key": key})
    clock.wait(6)
    assert store.get(NS, "got") is not None
    assert found(store, NS, filter={"key": "searched"}) == ["searched"]
    assert store.get(NS, "quiet", refresh_ttl=False) is not None
    assert found(store, NS, refresh_ttl=False, limit=2)
    clock.wait(6)
    assert store_of(backend).sweep_ttl() == 2
    assert sorted(found(store, NS)) == ["got", "searched"]


def test_reading_does_not_put_expiry_off_if_that_is_configured(backend: Backend, clock: Clock) -> None:
    """`refresh_on_read` is what a call without an opinion gets."""
    store = ttl_store(backend, refresh_on_read=False)
    store.put(NS, "a", {})
    store.put(NS, "b", {})
    clock.wait(6)
    assert store.get(NS, "a") is not None
    assert store.get(NS, "b", refresh_ttl=True) is not None
    clock.wait(6)
    assert store.sweep_ttl() == 1
    assert found(store, NS) == ["b"]


def test_expired_items_are_hidden_if_that_is_configured(backend: Backend, clock: Clock) -> None:
    """From a get, a search and a list, before they are swept; without it they are shown until then."""
    store, plain = ttl_store(backend, omit_expired=True), ttl_store(backend)
    store.put(("u", "1"), "old", {}, ttl=1)
    store.put(("u", "2"), "new", {})
    clock.wait(2)
    assert store.get(("u", "1"), "old") is None
    assert found(store) == ["new"]
    assert found(store, limit=1) == ["new"]
    assert store.list_namespaces() == [("u", "2")]
    assert plain.list_namespaces() == [("u", "1"), ("u", "2")]
    assert plain.get(("u", "1"), "old") is not None  # which puts its expiry off
    assert store.get(("u", "1"), "old") is not None


def test_an_item_put_again_begins_to_live_anew(backend: Backend, clock: Clock) -> None:
    """A put without a time to live takes the old one away."""
    store = store_of(backend)
    store.put(NS, "a", {}, ttl=5)
    store.put(NS, "b", {}, ttl=5)
    clock.wait(4)
    store.put(NS, "a", {}, ttl=5)
    store.put(NS, "b", {})
    clock.wait(4)
    assert store.sweep_ttl() == 0
    clock.wait(2)
    assert store.sweep_ttl() == 1
    assert found(store) == ["b"]


@pytest.mark.parametrize("ttl", [float("nan"), float("inf"), -1, "10", 1e300])
def test_a_time_to_live_that_is_no_time_is_refused(backend: Backend, ttl: Any) -> None:
    """Before anything is stored."""
    store = store_of(backend)
    with pytest.raises(UsageError, match="minutes"):
        store.put(NS, "a", {}, ttl=ttl)
    assert found(store) == []


def test_a_thread_sweeps(backend: Backend) -> None:
    """Until it is stopped; closing the store stops it."""
    with store_of(backend) as store:
        store.put(NS, "a", {}, ttl=0.0001)
        store.start_ttl_sweeper(0.0005)
        store.start_ttl_sweeper(0.0005)  # once
        wait_until(lambda: store.get(NS, "a", refresh_ttl=False) is None)
        assert store.stop_ttl_sweeper()


# forget


def test_a_secret_is_erased_at_once(anywhere: Backend) -> None:
    """All values that the item ever had, whether it is still there or not; the others stay."""
    store = store_of(anywhere)
    store.put(NS, "code", {"text": SECRET})
    store.put(NS, "code", {"text": f"{SECRET} and more"})
    store.put(NS, "other", {"text": "tea"})
    receipt = store.erase(NS, "code", reason="asked by the user")
    assert receipt is not None
    assert receipt.reason == "asked by the user"
    store.close()
    assert holding(anywhere.snapshot(), SECRET) == []
    assert found(store_of(anywhere)) == ["other"]
    assert store.erase(NS, "nothing") is None
    assert store.erase(("nobody", "x"), "nothing") is None
    store.put(NS, "code", {"text": "new"})
    item = store_of(anywhere).get(NS, "code")
    assert item is not None
    assert item.value == {"text": "new"}


def test_erasing_what_was_deleted_before(backend: Backend) -> None:
    """A deletion is no erasure, but can be followed by one."""
    store = store_of(backend)
    store.put(NS, "code", {"text": SECRET})
    store.delete(NS, "code")
    assert found(store) == []
    assert holding(backend.snapshot(), SECRET)
    assert store.erase(NS, "code") is not None
    store.close()
    assert holding(backend.snapshot(), SECRET) == []


def test_pruning_removes_what_was_deleted_and_changed(anywhere: Backend) -> None:
    """Behind it the store holds what items are, and no longer what they were."""
    store = store_of(anywhere)
    for number in range(30):
        store.put(NS, f"{number % 3}", {"text": f"{SECRET} {number}"})
    for number in range(3):
        store.put(NS, f"{number}", {"text": "tea"})
    store.put(NS, "gone", {"text": SECRET})
    store.delete(NS, "gone")
    store.put(("bob", "memories"), "a", {"text": SECRET})
    store.put(("bob", "memories"), "a", {"text": "coffee"})
    store.prune(("alice",))
    assert {key for key in holding(anywhere.snapshot(), SECRET) if "alice" in key} == set()
    assert holding(anywhere.snapshot(), SECRET)
    store.prune()
    assert holding(anywhere.snapshot(), SECRET) == []
    assert {item.value["text"] for item in store_of(anywhere).search(())} == {"tea", "coffee"}
    store.put(NS, "0", {"text": "cake"})
    assert len(found(store_of(anywhere))) == 4


def test_a_session_can_be_deleted_and_used_again(backend: Backend) -> None:
    """All that is kept of a user goes with the sessions that begin with the user's name."""
    store = store_of(backend)
    store.put(NS, "a", {"text": SECRET})
    backend.store().namespace(module.NAMESPACE).delete("alice/memories")
    assert store.get(NS, "a") is None
    assert found(store) == []
    store.put(NS, "a", {"text": "new"})
    assert found(store_of(backend)) == ["a"]


def test_memory_is_kept_by_policies_of_retention(backend: Backend) -> None:
    """What an agent remembers is not deleted because nobody used it for long: each session is marked to be kept."""
    store_of(backend).put(NS, "a", {})
    [info] = backend.store().namespace(module.NAMESPACE).sessions().rows
    assert info.status == "keep"
    assert backend.store().sessions().rows == ()


# in graphs


def _remembering() -> Any:
    """A graph that remembers what it is told, and repeats what it knows."""

    def model(state: MessagesState) -> dict[str, Any]:
        memory = get_store()
        known = [item.value["text"] for item in memory.search(NS, query="tea")]
        memory.put(NS, str(len(known)), {"text": state["messages"][-1].content})
        return {"messages": [("assistant", f"I knew {known}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    builder.add_edge("model", END)
    return builder


def test_an_agent_remembers_across_threads(anywhere: Backend) -> None:
    """Beside a saver in one store: what was said in one thread is known in another one, in another process."""
    for number, thread in enumerate(("one", "two")):
        with TreeringSaver(anywhere.store()) as saver, store_of(anywhere) as memory:
            graph = _remembering().compile(checkpointer=saver, store=memory)
            said = graph.invoke({"messages": [("user", f"I like tea {number}")]}, config(thread))["messages"]
            assert said[-1].content == f"I knew {['I like tea 0'][:number]}"
    assert [info.id for info in anywhere.store().sessions().rows if info.id in ("one", "two")]
    assert len(anywhere.store().sessions().rows) == 2  # the memory is apart from threads


async def test_everything_can_be_awaited(anywhere: Backend, clock: Clock) -> None:
    """By the same object, also at once."""
    async with store_of(anywhere) as store:
        await asyncio.gather(*(store.aput((f"u{number % 3}", "m"), f"{number}", {"n": number}) for number in range(9)))
        assert len(await store.asearch(())) == 9
        assert (await store.aget(("u1", "m"), "4")) is not None
        assert await store.alist_namespaces(max_depth=1) == [("u0",), ("u1",), ("u2",)]
        await store.aput(("u0", "m"), "old", {}, ttl=1)
        clock.wait(2)
        assert await store.asweep_ttl() == 1
        await store.adelete(("u0", "m"), "0")
        assert await store.aerase(("u0", "m"), "0") is not None
        await store.aprune()
        assert store.get(("u2", "m"), "8") is not None


def test_few_sessions_stay_open() -> None:
    """A store that keeps two sessions open works on many, and loses nothing."""
    backend = memory_backend()
    store = store_of(backend, open_max=2)
    for number in range(40):
        store.put((f"u{number % 10}", "m"), f"{number}", {"n": number})
    assert len(found(store)) == 40
    assert len(found(store_of(backend, open_max=2))) == 40


@pytest.mark.parametrize("open_max", [0, -1])
def test_a_store_keeps_one_session_open_at_least(open_max: int) -> None:
    """No room at all is refused, instead of opening and closing the same session for ever."""
    with pytest.raises(UsageError, match="open_max=") as caught:
        store_of(memory_backend(), open_max=open_max)
    assert caught.value.kind == Kind.OPTION
