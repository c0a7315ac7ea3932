"""The lines of a tree."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st
from tests.cli.browse.conftest import Tea
from tests.cli.browse.screens import empty_store

import treering
from treering.cli.browse.layout import MODES, Layout, nearest
from treering.cli.tree import draw

PARENTS = st.lists(st.integers(-2, 11), min_size=1, max_size=12)


def store_of(parents: list[int]) -> treering.View:
    """A session whose nodes have these parents: -1 is none, and one that does not exist is none of the session's."""
    store = empty_store()
    drafts = [
        treering.Draft(role="user", payload={}, id=f"n{at}", parent=None if parent == -1 else f"n{parent}")
        for at, parent in enumerate(parents)
    ]
    store.load("s", drafts, leaf=lambda: f"n{len(parents) - 1}")
    return store.view("s")


@given(PARENTS)
@settings(max_examples=60, deadline=None)
def test_the_lines_are_those_of_the_tree_command(parents: list[int]) -> None:
    """The same order and guides, each run unfolded; also where parents are missing or go round in a circle."""
    view = store_of(parents)
    layout, nodes = Layout(view), view.nodes()
    above = dict(zip(nodes.ids, nodes.parents, strict=True))
    expected: list[tuple[str, str]] = []
    for line in draw(tuple(view.tree()), above):
        run = [line.row.last]
        while len(run) < line.row.count:
            run.append(above[run[-1]] or "")
        expected += [(line.guide, name) for name in run[:-1:-1]]
        rest = line.guide.replace("├─", "│ ").replace("└─", "  ")
        expected += [(line.guide if at == 0 else rest, name) for at, name in enumerate(reversed(run))]
    assert [(layout.guide(place), layout.id(place)) for place in layout.shown("all")] == expected
    assert all(layout.id(layout.place(name)) == name for name in nodes.ids)


@given(PARENTS, st.data())
@settings(max_examples=60, deadline=None)
def test_folding_hides_what_descends_and_nothing_else(parents: list[int], data: st.DataObject) -> None:
    """Of a folded branch its first line is left; where the session stands is hidden only by a fold."""
    layout = Layout(store_of(parents))
    start = layout.start(data.draw(st.integers(0, len(layout) - 1)))
    end = layout.end(start)
    shown = layout.shown("all", {start})
    assert list(shown) == [place for place in range(len(layout)) if not start < place < end]
    assert layout.start(start) == start
    assert all(layout.start(place) >= start for place in range(start, end))
    assert layout.starts_after(start) in (None, *range(start + 1, len(layout)))


def test_each_filter_leaves_what_it_says(tea: Tea) -> None:
    """Kinds and roles decide, and labels, of checkpoints too."""
    with tea.store.session("tea") as session:
        session.label(tea.question, "key")
        session.commit([treering.assistant("done")], state={}, label="green")
        session.append("on")
    layout = Layout(tea.store.view("tea"))
    nodes = {mode: [layout.node(place) for place in layout.shown(mode)] for mode in MODES}
    assert len(nodes["all"]) == 9
    assert {node.kind for node in nodes["default"]} == {"message"}
    assert {node.role for node in nodes["no-tools"]} == {"user", "assistant"}
    assert {node.role for node in nodes["user-only"]} == {"user"}
    assert [layout.labels.get(node.id) for node in nodes["labeled-only"]] == ["key", "green", None]


def test_the_nearest_line_is_the_last_one_before() -> None:
    """Or the first one."""
    assert [nearest([2, 5, 9], place) for place in (0, 2, 4, 5, 8, 9, 20)] == [0, 0, 0, 1, 1, 2, 2]
    assert nearest([], 3) == 0
