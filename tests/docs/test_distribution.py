"""The program of the how-to, installed as a distribution of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, files

PAGE = ROOT / "docs/how-to/write-an-importer.md"
CODE = """
import sys
from pathlib import Path
import treering
from treering.exporters import export
from treering.importers import FileImporter, detect_format, diagnose, discover, find_sessions, read, repair

home = Path.cwd()
folder = home / ".chatty"
folder.mkdir()
(folder / "one.chat").write_text(
    '{"type":"chatty","id":"c1","folder":"/src/app"}\\n'
    '{"type":"say","id":"m1","up":null,"at":1767600000000,"who":"human","text":"why"}\\n'
)
known = [each.program for each in discover(home, {})]
(path,) = find_sessions(folder, format="chatty")
assert "chatty_treering.write" not in sys.modules
print(detect_format(path).NAME, known, read(path).listing())
store = treering.open("./agents")
print(FileImporter(store).load(path).outcome)
with store.session("c1") as session:
    session.append(treering.assistant("because"))
print(export(store.view("c1"), "two.chat", format="chatty").same_context)
print(Path("two.chat").read_text(), end="")
lines = Path("two.chat").read_text().replace('"up":"m1"', '"up":"gone"').splitlines(keepends=True)
(folder / "headless.chat").write_text("".join(lines[1:]))
print([finding.kind for finding in diagnose(folder / "headless.chat").findings])
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder in which the distribution lies as an installer leaves it."""
    folder = tmp_path / "site"
    for path, text in files(PAGE).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    about = folder / "chatty_treering-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: chatty-treering\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[treering.programs]\nchatty = chatty_treering\n")
    return folder


def test_a_program_of_another_distribution(site: Path, tmp_path: Path) -> None:
    """It is found by its entry point alone: files are listed, imported, continued, written back, and examined."""
    code = f"import sys; sys.path[:] = {[str(site), *sys.path]!r}\n{CODE}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, outcome, same, header, first, second, found = done.stdout.splitlines()
    assert told == "chatty ['chatty'] {'id': 'c1', 'messages': 1}"
    assert (outcome, same) == ("new", "True")
    assert header == '{"type":"chatty","id":"c1","folder":"/src/app"}'
    assert first == '{"type":"say","id":"m1","up":null,"at":1767600000000,"who":"human","text":"why"}'
    assert '"who":"bot","text":"because"' in second
    assert found == "['header_missing', 'orphan']"


def test_the_program_is_short() -> None:
    """A whole program, with its writer, takes at most 150 lines."""
    assert sum(text.count("\n") for text in files(PAGE).values()) <= 150
