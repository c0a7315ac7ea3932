"""What the site has beside the pages in `docs`. MkDocs calls it, as `.mkdocs.yml` says.

- Pages that lie elsewhere in the repository, such as decisions and the changelog. Links are changed to lead to them;
  a link to a file that is no page becomes text.
- Pages of the API, from docstrings. They show what `__all__` names, so that nothing public is left out.
- The navigation, from the sections of `docs/index.md`.
"""

from __future__ import annotations

import ast
import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DECISIONS = sorted(path.name for path in (ROOT / "adr").glob("*.md") if path.name != "0000-template.md")
ELSEWHERE = {
    "README.md": "about.md",  # at the root of the site MkDocs would take a README for the index
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks/README.md",
    **{f"adr/{name}": f"adr/{name}" for name in DECISIONS},
    **{f"benchmarks/results/{path.name}": f"benchmarks/results/{path.name}" for path in (
        *(ROOT / "benchmarks/results").glob("*.svg"), *(ROOT / "benchmarks/results").glob("*.md")
    )},
}  # fmt: skip
"""Files that lie elsewhere in the repository, and where they stand in the site."""

API = {
    "Stores": ("open", "Store"),
    "Sessions": ("Session", "OpenOptions", "Schedule", "Hooks", "Hook"),
    "Views": ("View",),
    "Asynchronous": ("aopen", "AsyncStore", "AsyncSession", "AsyncView", "AsyncOpening"),
    "Messages": (
        "user", "assistant", "tool", "system", "compaction", "branch_summary", "custom_message", "change",
        "Message", "Draft", "Node", "HERE", "Here",
    ),
}  # fmt: skip
"""Pages of the API and the public names on them; errors have a page, and what is left is on the page of types."""
MODULES = {
    "treering.search": (),
    "treering.terminals": (),
    "treering.importers": (),
    "treering.exporters": (),
    "treering.integrations.strands": (),
    "treering.integrations.claude": (),
    "treering.testing": ("conformance.DriverConformance", "importers.check_importer"),
}
"""Modules with a page each, and what of them is shown, if not all that they offer."""

_log = logging.getLogger("mkdocs.hooks.treering")
_WITHOUT_HEADING = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
_link = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s:]+)\)")
_loading = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)="?(?:https?:)?//[^>]*>')
_section = re.compile(r"^## (.+)$", re.MULTILINE)
_heading = re.compile(r"^### (.+)$", re.MULTILINE)
_entry = re.compile(r"^- \[(.+?)\]\(([^.)][^)]*)\)", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that are not in `docs`, and set the navigation."""
    from mkdocs.structure.files import File  # a test imports this module, and has no MkDocs

    for path, place in ELSEWHERE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    for place, text in api_pages().items():
        files.append(File.generated(config, place, content=text))
    config.nav = navigation()
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links to where their targets stand in the site."""
    place = page.file.src_uri
    paths = {there: path for path, there in ELSEWHERE.items()}
    return relinked(markdown, paths.get(place, f"docs/{place}"), place)


def on_post_page(output: str, page: Page, **_: object) -> None:
    """Warn, which ends a strict build, if a page would be read with the help of another server."""
    for tag in loaded_from_elsewhere(output):
        _log.warning("Doc file '%s' loads something from the network: %s", page.file.src_uri, tag)


def loaded_from_elsewhere(html: str) -> list[str]:
    """The tags of a page that load something from a server that is not its own."""
    return [found[0] for found in _loading.finditer(html)]


def relinked(markdown: str, path: str, place: str) -> str:
    """Rewrite the links of a page that lies at `path` in the repository and stands at `place` in the site."""

    def lead(found: re.Match[str]) -> str:
        target, mark, anchor = found[2].partition("#")
        to = _place_of(os.path.normpath(PurePosixPath(path).parent / target)) if target else place
        if not to:
            return found[1].strip("[]")
        return f"{found[1]}({os.path.relpath(to, PurePosixPath(place).parent)}{mark}{anchor})"

    return _link.sub(lead, markdown)


def _place_of(path: str) -> str:
    """Where a file stands in the site; empty if it does not. What does not exist is for MkDocs to complain about."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return ELSEWHERE.get(path, "" if (ROOT / path).exists() else path)


def api_pages() -> dict[str, str]:
    """The pages of the API by their places: each only names what is to be shown."""
    names = public_names()
    errors = [name for name in names if name.endswith("Error")]
    grouped = {name for group in API.values() for name in group}
    types = [name for name in names if name not in grouped and name not in errors]
    groups: dict[str, Iterable[str]] = {**API, "Errors": errors, "Types": types}
    pages = {f"api/{title.lower()}.md": _shown(title, "treering", group) for title, group in groups.items()}
    return pages | {f"api/{module}.md": _shown(f"`{module}`", module, group) for module, group in MODULES.items()}


def public_names() -> list[str]:
    """What `treering` offers, as its source says: the package is not installed where the site is built."""
    tree = ast.parse((ROOT / "src/treering/__init__.py").read_text())
    (offered,) = (each.value for each in tree.body if ast.unparse(each).startswith("__all__ ="))  # type: ignore[attr-defined]
    names: list[str] = ast.literal_eval(offered)
    return names


def _shown(title: str, module: str, names: Iterable[str]) -> str:
    lines = [f"::: {module}.{name}\n" for name in names] or [f"::: {module}\n{_WITHOUT_HEADING}"]
    return "\n".join([f"# {title}\n", *lines])


def _entries(text: str) -> list[Any]:
    """The pages named in a section of the index, below its headings if it has some."""
    _, *parts = _heading.split(text)
    if parts:
        return [{title: _entries(below)} for title, below in zip(parts[::2], parts[1::2], strict=True)]
    return [{name: place} for name, place in _entry.findall(text)]


def navigation() -> list[Any]:
    """The sections of the index, with the pages named there, and then what is not in `docs`."""
    _, *parts = _section.split((ROOT / "docs/index.md").read_text())
    sections = [{title: _entries(text)} for title, text in zip(parts[::2], parts[1::2], strict=True)]
    return [
        {"Home": ["index.md", {"About": "about.md"}]},
        *sections,
        {"API": [{PurePosixPath(place).stem.removeprefix("treering.").capitalize(): place} for place in api_pages()]},
        {"Decisions": [f"adr/{name}" for name in reversed(DECISIONS)]},
        {"Project": ["contributing.md", "changelog.md", "benchmarks/README.md", "benchmarks/results/report.md"]},
    ]
