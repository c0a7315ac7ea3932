"""Pages show the figures of the recorded run and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.measure import Results
from benchmarks.report import BEGIN, END, PAGES, report

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results"


@pytest.fixture
def recorded() -> Results:
    """The run whose results are kept."""
    return Results.load(RESULTS / "results.json")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_recorded_run(recorded: Results, page: str) -> None:
    """Between the marks of a page stands what the results say, with the goals that were missed or their number."""
    text = (ROOT / page).read_text()
    assert text[text.index(BEGIN) : text.index(END) + len(END)] == PAGES[page](recorded)


def test_the_report_is_of_the_recorded_run(recorded: Results) -> None:
    """The report says what the results say."""
    assert (RESULTS / "report.md").read_text().startswith(report(recorded))
