from __future__ import annotations

from tests.transcript.records import forked

from treering.transcript.graph import Graph


def test_the_last_label_counts_and_an_empty_one_takes_it_off() -> None:
    """Labels are set, changed and cleared by notes; each target has its own."""
    records = forked()
    records.note("label", "a", label="one")
    records.note("label", "a", label="two")
    records.note("label", "b1", label="x")
    records.note("label", "b1", label=None)
    records.note("label", "b2", label="y")
    records.note("label", "b2", label="")
    assert Graph(records).annotations.labels == {"a": "two"}


def test_the_last_title_counts_and_an_empty_one_takes_it_off() -> None:
    """The title of a session is the last one noted."""
    records = forked()
    assert Graph(records).annotations.title is None
    records.note("title", title="one")
    records.note("title", title="two")
    assert Graph(records).annotations.title == "two"
    records.note("title", title=None)
    assert Graph(records).annotations.title is None


def test_notes_are_found_by_target_kind_and_path() -> None:
    """A note belongs to its target's paths; one without a target belongs to every path."""
    records = forked()
    on_b1 = records.note("usage", "b1", input=1)
    on_c = records.note("usage", "c", input=2)
    on_all = records.note("system", prompt="p")
    on_none = records.note("usage", "not-there", input=4)
    graph = Graph(records)
    notes = graph.annotations
    assert notes.of("b1") == [on_b1]
    assert notes.of("a") == []
    assert notes.notes() == [on_b1, on_c, on_all, on_none]
    assert notes.notes(path=graph.path("d")) == [on_c, on_all]
    assert notes.notes("usage", path=graph.path("b1")) == [on_b1]


def test_usage_is_added_up_over_the_session_or_a_path() -> None:
    """Every number of a usage note is summed by its name; abandoned branches count unless a path is given."""
    records = forked()
    records.note("usage", "b1", input=10, output=1, model="m", cached=True)
    records.note("usage", "c", input=5, cost=0.25)
    graph = Graph(records)
    assert graph.annotations.usage() == {"input": 15, "output": 1, "cost": 0.25}
    assert graph.annotations.usage(path=graph.path("d")) == {"input": 5, "cost": 0.25}
    records.note("usage", "c", input=3, reset=True)
    assert Graph(records).annotations.usage() == {"input": 3}


def test_state_of_extensions_is_found_by_type_along_a_path() -> None:
    """An extension finds its own notes, those of the branch in hand or all."""
    records = forked()
    records.note("extension", "b1", extension="todo")
    todo = records.note("extension", "b2", extension="todo")
    records.note("extension", "b2", extension="other")
    whole = records.note("extension", extension="todo")
    graph = Graph(records)
    assert graph.annotations.extensions("todo", path=graph.path("d")) == [todo, whole]
    assert len(graph.annotations.extensions("todo")) == 3


def test_edits_count_until_they_are_undone() -> None:
    """The last amend gives the payload, retract hides, and each is taken back on its own."""
    records = forked()
    records.edit("amend", "a")
    second = records.edit("amend", "a")
    records.edit("retract", "a")
    records.edit("retract", "c")
    notes = Graph(records).annotations
    assert notes.amended == {"a": second.at}
    assert notes.retracted == {"a", "c"}
    records.edit("retract", "a", undo=True)
    assert Graph(records).annotations.retracted == {"c"}
    assert Graph(records).annotations.amended == {"a": second.at}
    records.edit("amend", "a", undo=True)
    assert Graph(records).annotations.amended == {}


def test_unknown_notes_are_kept_and_unknown_edits_change_nothing() -> None:
    """A kind of a later version can be asked for, and does no harm."""
    records = forked()
    note = records.note("aura", "a", colour="green")
    records.edit("polish", "a")
    graph = Graph(records)
    assert graph.annotations.notes("aura") == [note]
    assert (graph.annotations.labels, graph.annotations.amended) == ({}, {})
    assert graph.annotations.retracted == set()
    assert graph.children("a") == ["b1", "b2", "b3"]
