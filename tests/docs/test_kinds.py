"""Each kind that is raised is a member of `Kind`, and the reference lists it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs import kinds

import treering


def test_each_kind_that_is_raised_is_listed_and_no_other() -> None:
    """`Kind` holds what the source raises, finds and loses: no more, no less."""
    assert kinds.raised().keys() == {str(kind) for kind in treering.Kind}


def test_each_kind_says_what_it_means_and_what_to_do() -> None:
    """Its docstring is two sentences; they stand in the order of the alphabet."""
    said = kinds.meanings()
    assert list(said) == sorted(said) == [str(kind) for kind in treering.Kind]
    assert [kind for kind, (meaning, remedy) in said.items() if not meaning or not remedy] == []


def test_the_page_of_kinds_is_up_to_date() -> None:
    """`python -m tests.docs.kinds` writes it."""
    assert kinds.PAGE.read_text() == kinds.page()


def test_an_error_is_compared_with_a_member() -> None:
    """A kind equals its text."""
    assert treering.UsageError("x", kind="closed").kind == treering.Kind.CLOSED


def test_a_kind_that_is_written_as_a_text_is_noticed(tmp_path: Path) -> None:
    """A type checker would not see that it is misspelt."""
    module = tmp_path / "module.py"
    module.write_text('raise UsageError("x", kind=Kind.CLOSED if closed else Kind.FORKED)')
    assert set(kinds.kinds_of(module)) == {("closed", "UsageError"), ("forked", "UsageError")}
    module.write_text('raise UsageError("x", kind="closed")')
    with pytest.raises(AssertionError, match="closed"):
        list(kinds.kinds_of(module))
