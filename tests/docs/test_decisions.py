"""Each decision has its number, its parts, and a confirmation that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, name_of

FOLDER = ROOT / "adr"
DECISIONS = sorted(path for path in FOLDER.glob("[0-9]*.md") if not path.name.startswith("0000"))

_heading = re.compile(r"^## (.+)$", re.MULTILINE)
_test = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`")


def test_numbers_follow_each_other() -> None:
    """Numbers are never reused, and none is left out."""
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("page", DECISIONS, ids=name_of)
def test_a_decision_has_the_parts_of_the_template(page: Path) -> None:
    """Title with the number of the file, status, date, and the template's headings, in order."""
    text = page.read_text()
    assert text.startswith(f"# {page.name[:4]}. ")
    assert re.search(r"^- Status: (proposed|accepted|superseded by \[\d{4}\]\([\w.-]+\))$", text, re.MULTILINE)
    assert re.search(r"^- Date: \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert _heading.findall(text) == _heading.findall((FOLDER / "0000-template.md").read_text())


@pytest.mark.parametrize("page", DECISIONS, ids=name_of)
def test_a_confirmation_names_tests_that_exist(page: Path) -> None:
    """Every file and function under the last heading is there, and there is at least one."""
    confirmation = page.read_text().partition("## Confirmation")[2]
    named = _test.findall(confirmation)
    assert named
    for path, function in named:
        assert (ROOT / path).exists(), path
        assert not function or f"def {function}(" in (ROOT / path).read_text(), function


def test_the_list_names_every_decision() -> None:
    """The list has each decision with its title, in order."""
    listed = re.findall(r"^- \[(\d{4})\]\(([\w.-]+)\): (.+)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    titles = [page.read_text().partition("\n")[0] for page in DECISIONS]
    assert [(f"# {number}. {title}", name) for number, name, title in listed] == [
        (title, page.name) for title, page in zip(titles, DECISIONS, strict=True)
    ]
