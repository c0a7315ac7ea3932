"""The pages hang together: links lead somewhere, words are those of the glossary, and every page is in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, anchors, links, name_of, pages, prose, table

EVERY = [page for page in pages("docs", "adr") if page.name != "0000-template.md"]
GLOSSARY = ROOT / "docs/reference/glossary.md"
WORDS = {row[0]: row for row in table(GLOSSARY, "Word")}

# There, and in decisions, it is a subject what others call it.
ABOUT_OTHERS = {
    "README.md",
    "docs/how-to/repair-a-session-file.md",
    "docs/reference/glossary.md",
    "docs/reference/programs/evva.md",
    "docs/reference/programs/kit.md",
    "docs/reference/programs/omp.md",
    "docs/reference/programs/operator.md",
    "docs/reference/programs/pi.md",
}
OURS = [page for page in EVERY if name_of(page) not in ABOUT_OTHERS and page.parent.name != "adr"]


@pytest.mark.parametrize("page", EVERY, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """A link inside the repository names a file that is there, and a heading in it."""
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_names_every_page() -> None:
    """Each page below `docs` can be reached from the index."""
    index = ROOT / "docs/index.md"
    linked = {(index.parent / link).resolve() for link in links(index)}
    assert {page for page in pages("docs") if page.is_relative_to(index.parent)} - {index} <= linked


def test_the_glossary_is_sorted_and_whole() -> None:
    """Each word stands once, in order, with a meaning; the words that style and errors rely on are there."""
    assert list(WORDS) == sorted(WORDS)
    assert all(len(row) == 4 and row[1] for row in WORDS.values())
    assert set(WORDS) >= {"record", "node", "parent", "head", "branch", "journal", "tail", "segment", "checkpoint"}
    assert set(WORDS) >= {
        "latest",
        "seal",
        "merge",
        "resume",
        "life",
        "epoch",
        "cover",
        "close",
        "note",
        "edit",
        "brief",
    }


@pytest.mark.parametrize("page", OURS, ids=name_of)
def test_pages_use_our_words(page: Path) -> None:
    """Nothing of ours is called by the words that the glossary rules out."""
    text = prose(page).lower()
    unwanted = {word.strip().lower() for row in WORDS.values() for word in row[3].split(",") if word.strip()}
    found = sorted(word for word in unwanted if re.search(rf"\b{re.escape(word)}s?\b", text))
    assert not found
