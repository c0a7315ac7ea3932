"""`TreeringStore` in two processes answers as LangGraph's own store in memory does, whatever the operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given, settings, strategies as st
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from tests.session.backends import memory_backend

from treering.integrations.langgraph import TreeringStore

labels = st.sampled_from(["a", "b", "a/b", "*", "%", "%2F", "é", ""])
namespaces = st.lists(labels, max_size=4).map(tuple)
keys = st.sampled_from(["k", "l", "a/b", ""])
values = st.fixed_dictionaries(
    {"n": st.integers(-2, 2), "t": st.sampled_from(["x", "y"])}, optional={"d": st.just({"n": 1})}
)
filters = st.sampled_from(
    [None, {}, {"n": 1}, {"n": {"$gte": 0}}, {"n": {"$lt": 1, "$ne": 0}}, {"t": "x", "n": {"$lte": 1}}, {"d": {"n": 1}},
     {"d": None}, {"t": {"$eq": "y"}}]
)  # fmt: skip
wildcards = st.lists(st.sampled_from(["a", "b", "*", "a/b"]), max_size=3).map(tuple)
conditions = st.lists(st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), wildcards), max_size=2)
operations = st.one_of(
    st.builds(PutOp, namespaces, keys, st.one_of(values, values, st.none()), st.none(), st.none()),
    st.builds(GetOp, namespaces, keys),
    st.builds(SearchOp, namespaces.map(lambda labels: labels[:3]), filters, st.just(1000), st.just(0), st.none()),
    st.builds(
        ListNamespacesOp,
        conditions.map(tuple),
        st.one_of(st.none(), st.integers(1, 3)),
        st.integers(0, 20),
        st.integers(0, 5),
    ),
)
batches = st.lists(st.tuples(st.integers(0, 1), st.lists(operations, min_size=1, max_size=6)), max_size=12)


def told(results: Iterable[Any]) -> list[object]:
    """What can be compared: LangGraph's own store has another order, and forgets when an item was first put."""
    return [_told(result) for result in results]


def _told(result: Any) -> object:
    if isinstance(result, Item):
        return result.namespace, result.key, sorted(result.value.items(), key=str)
    if isinstance(result, list) and result and isinstance(result[0], Item):
        return sorted(map(str, told(result)))
    return result


def answers(model: InMemoryStore, ops: Sequence[Op]) -> list[Any]:
    """What it answers to a batch, where a read does not make the namespace that it asks for."""
    found: list[Any] = []
    for op in ops:
        forget_empty(model)
        found += [None] if isinstance(op, PutOp) else model.batch([op])
    model.batch([op for op in ops if isinstance(op, PutOp)])
    return found


def forget_empty(model: InMemoryStore) -> None:
    """Its lists show namespaces whose items were all deleted; those of its other stores and ours do not."""
    for namespace in [namespace for namespace, items in model._data.items() if not items]:
        del model._data[namespace]


@settings(max_examples=40, deadline=None)
@given(batches)
def test_two_processes_answer_as_one_store_in_memory(batches: Sequence[tuple[int, list[Op]]]) -> None:
    """Each result is the same, in every batch, and in a third process behind all of them."""
    backend, model = memory_backend(), InMemoryStore()
    stores = [TreeringStore(backend.store()) for _ in range(2)]
    order: list[object] = []
    for which, ops in batches:
        assert told(stores[which].batch(ops)) == told(answers(model, ops)), ops
        put = {(op.namespace, op.key): op.value for op in ops if isinstance(op, PutOp)}
        order = [place for place in order if place not in put]
        last = dict.fromkeys((op.namespace, op.key) for op in reversed(ops) if isinstance(op, PutOp))
        order = [place for place in last if put[place] is not None] + order
    forget_empty(model)
    third = TreeringStore(backend.store())
    everything: list[Op] = [SearchOp((), limit=1000), ListNamespacesOp(limit=1000)]
    assert told(third.batch(everything)) == told(model.batch(everything))
    hits: Any = third.batch([SearchOp((), limit=1000)])[0]
    assert [(hit.namespace, hit.key) for hit in hits] == order  # the last put first
    pages: list[Any] = [third.batch([SearchOp((), limit=3, offset=at)])[0] for at in range(0, len(hits), 3)]
    assert [hit for page in pages for hit in page] == hits
