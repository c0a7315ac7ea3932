"""LangGraph's published conformance suite for savers passes completely."""

from __future__ import annotations

from collections.abc import AsyncIterator

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from tests.session.backends import Backend

from treering.integrations.langgraph import TreeringSaver


async def test_the_published_suite_passes(anywhere: Backend) -> None:
    """Every capability is detected, and every test of it passes."""
    saver = TreeringSaver(anywhere.store())

    @checkpointer_test(name=f"treering-{anywhere.name}")
    async def ours() -> AsyncIterator[TreeringSaver]:
        yield saver

    report = await validate(ours)
    saver.close()
    failures = [failure for result in report.results.values() for failure in result.failures]
    assert failures == []
    assert report.results.keys() == {capability.value for capability in Capability}
    assert all(result.passed for result in report.results.values())
    assert sum(result.tests_passed for result in report.results.values()) >= 81
