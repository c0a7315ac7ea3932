"""What is added to the pages in `docs` to make a site of them; `make docs` checks all links of the outcome."""

from __future__ import annotations

import importlib
import importlib.util
import re
import types

import pytest
from tests.docs.pages import ROOT, pages

import treering


@pytest.fixture(scope="module")
def hooks() -> types.ModuleType:
    """The module that MkDocs loads."""
    found = importlib.util.spec_from_file_location("hooks", ROOT / "docs/site/hooks.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_every_public_name_is_on_one_page_of_the_api(hooks: types.ModuleType) -> None:
    """Each name of the package is shown once, and each that is shown exists."""
    shown = [name for text in hooks.api_pages().values() for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]
    names = [f"treering.{name}" for name in treering.__all__]
    assert sorted(name for name in shown if name.count(".") == 1 and name not in hooks.MODULES) == sorted(names)
    for name in set(shown) - {*names, *hooks.MODULES}:
        module, _, member = name.rpartition(".")
        assert hasattr(importlib.import_module(module), member)
    assert all(importlib.util.find_spec(module) for module in hooks.MODULES)


def test_the_navigation_has_every_page(hooks: types.ModuleType) -> None:
    """The pages in `docs` are found by the sections of the index."""
    text = repr(hooks.navigation())
    every = [path.relative_to(ROOT / "docs").as_posix() for path in pages("docs") if path.is_relative_to(ROOT / "docs")]
    assert [page for page in every if f"'{page}'" not in text] == []


def test_a_link_to_a_file_that_is_no_page_becomes_text(hooks: types.ModuleType) -> None:
    """The site has no sources; what does not exist at all stays, and ends the build."""
    text = "see [a test](../../tests/test_imports.py), [why](../../adr/README.md#x) and [this](gone.md)"
    expected = "see a test, [why](../adr/README.md#x) and [this](gone.md)"
    assert hooks.relinked(text, "docs/explanation/x.md", "explanation/x.md") == expected


def test_what_is_loaded_from_elsewhere_is_noticed(hooks: types.ModuleType) -> None:
    """A script, style or picture of another server; a link that the reader may follow is none."""
    assert hooks.loaded_from_elsewhere('<script async src="https://cdn/x.js"></script><img alt="" src=//a/b.png>')
    assert not hooks.loaded_from_elsewhere('<script src="../x.js"></script><a href="https://example.org">x</a>')
