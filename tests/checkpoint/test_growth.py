"""Contexts that are extended by many nodes together are those that are extended by one after the other."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.checkpoint.records import skeleton

import treering.programs.formats  # noqa: F401  # finds their policies
from treering.checkpoint.context import Context
from treering.checkpoint.policies import Walk
from treering.checkpoint.policy import Growth, Policy, extend_all, find_policy
from treering.format.record import Skeleton

POLICIES = ["default@1", "claude", "evva", "kit", "omp", "omp-transcript", "operator", "pi", "pi-1.5"]
BRIEFS: list[dict[str, object]] = [
    {},
    {},
    {},
    {"context": False},
    {"empty": True},
    {"model": "m", "provider": "p"},
    {"blank": True},
    {"notes": "x"},
    {"notes": None},
    {"native": True},
    {"boundary": True},
    {"replay": True},
    {"kept": "n1"},
    {"kept": "n4", "boundary": True},
    {"calls": ["c"]},
    {"result": "c"},
    {"target": "n2", "edit": "retract"},
    {"custom_type": "x"},
    {"rehydrated": True},
    {"system": True},
]
KINDS = [*["message"] * 6, "compaction", "custom_message", "branch_summary", "model_change", "mode_change"]
KINDS += ["reset_boundary", "context_edit", "hologram"]
nodes = st.tuples(st.sampled_from(KINDS), st.sampled_from(["user", "assistant", "system"]), st.sampled_from(BRIEFS))


def drawn(steps: list[tuple[str, str, dict[str, object]]]) -> list[Skeleton]:
    """A path of these nodes."""
    rows = [skeleton(f"n{place}", kind, **brief) for place, (kind, _, brief) in enumerate(steps)]
    return [msgspec.structs.replace(row, role=role) for row, (_, role, _) in zip(rows, steps, strict=True)]


def one_by_one(policy: Policy, context: Context, path: list[Skeleton]) -> Context | None:
    """What `extend` makes of a context, node by node."""
    longer: Context | None = context
    for node in path:
        longer = policy.extend(longer, node) if longer is not None else None
    return longer


@pytest.mark.parametrize("name", POLICIES)
@given(path=st.lists(nodes, max_size=14).map(drawn), begun=st.integers(0, 14))
def test_many_nodes_together_make_the_context_that_one_after_the_other_makes(
    name: str, path: list[Skeleton], begun: int
) -> None:
    """Whatever the policy, the nodes and the context they begin with."""
    policy = find_policy(name)
    context = policy.build(path[:begun])
    assert extend_all(policy, context, path[begun:]) == one_by_one(policy, context, path[begun:])


def test_a_policy_that_does_not_say_what_it_looks_at_sees_the_whole_context() -> None:
    """One that looks at the last item, say."""

    class Turns:
        """Shows a message only behind that of somebody else."""

        name = "turns@1"

        def build(self, path: list[Skeleton], recorded: object = None) -> Context:
            raise NotImplementedError

        def extend(self, context: Context, skeleton: Skeleton) -> Context:
            seen.append(len(context.items))
            return Walk.extend(find_policy("default@1"), context, skeleton) or context  # type: ignore[arg-type]

        def state(self, settings: object) -> dict[str, object]:
            return {}

    seen: list[int] = []
    path = [skeleton(f"n{place}", "message") for place in range(5)]
    context = extend_all(Turns(), Context(), path)  # type: ignore[arg-type]
    assert context is not None
    assert (len(context.items), seen) == (5, [0, 1, 2, 3, 4])
    assert Growth(Turns(), context).add(path[0]) is None  # type: ignore[arg-type]
