"""Stores, sessions and views as context managers, blocking and asynchronous."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import treering


def test_a_store_and_a_view_are_context_managers(tmp_path: Path) -> None:
    """`with` closes both; a closed view refuses calls, and the store can be used again."""
    with treering.open(tmp_path) as store:
        with store.session("s") as session:
            session.append("x")
        with store.view("s") as view:
            assert len(view.nodes()) == 1
        with pytest.raises(treering.UsageError, match="closed"):
            view.nodes()
    assert store.verify("s") == []


def test_async_with_works_at_every_level(tmp_path: Path) -> None:
    """A store, a session, a view and a subagent's session need no `await` of their own; all are closed behind it."""

    async def use() -> None:
        async with treering.aopen(tmp_path) as store:
            async with store.session("s") as session:
                await session.append("x")
                async with store.spawn(session, "child", task="t") as child:
                    await child.append("y")
            async with store.view("s") as view:
                assert len(await view.nodes()) == 1
            for closed in (session, child, view):
                with pytest.raises(treering.UsageError, match="closed"):
                    await closed.nodes()

    asyncio.run(use())


def test_opening_is_awaited_and_may_be_a_task(tmp_path: Path) -> None:
    """What opens a session is a coroutine like any other: it is awaited, gathered, or made a task of."""

    async def use() -> list[str]:
        store = treering.aopen(tmp_path)
        one = await store.session("a")
        two, three = await asyncio.gather(store.session("b"), asyncio.create_task(store.session("c")))
        for session in (one, two, three):
            await session.append("x")
            await session.close()
        return sorted(row.id for row in (await store.sessions()).rows)

    assert asyncio.run(use()) == ["a", "b", "c"]


def test_an_opening_that_fails_says_so(tmp_path: Path) -> None:
    """An error of opening is raised where it is entered, or awaited."""

    async def use() -> None:
        store = treering.aopen(tmp_path)
        with pytest.raises(treering.NotFoundError):
            async with store.session("s", create=False):
                pass
        with pytest.raises(treering.NotFoundError):
            await store.view("s")

    asyncio.run(use())


def test_verify_all_is_an_iterator_of_either_kind(tmp_path: Path) -> None:
    """Both give pairs of a name and findings, each as soon as its session was read."""
    with treering.open(tmp_path) as store:
        for name in ("a", "b"):
            with store.session(name) as session:
                session.append("x")
        expected = list(store.verify_all())

    async def use() -> list[tuple[str, list[treering.Finding]]]:
        async with treering.aopen(tmp_path) as store:
            assert [each async for each in store.verify_parcels()] == []
            return [each async for each in store.verify_all()]

    assert asyncio.run(use()) == expected == [("a", []), ("b", [])]
