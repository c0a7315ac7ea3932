"""An installed session is where its program looks for it, under the program's own name."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import treering
from treering.errors import UsageError
from treering.exporters import export, installed_path
from treering.ids import new_nonce
from treering.importers import FileImporter, recent
from treering.store.options import LoadFacts

FACTS: LoadFacts = {"cwd": "/repos/my_app", "created_ms": 1767600000123}
UUID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """A store with a session about a folder, and one about none."""
    with treering.open(f"memory://install-{new_nonce()}") as store:
        store.load("ours", [treering.user("hello")], leaf=lambda: None, facts=FACTS)
        store.session("free").append("hello")
        yield store


@pytest.mark.parametrize(
    ("program", "environ", "expected"),
    [
        ("pi", {}, ".pi/agent/sessions/--repos-my_app--/2026-01-05T08-00-00-123Z_ours.jsonl"),
        ("pi", {"PI_CODING_AGENT_SESSION_DIR": "{home}/own"}, "own/2026-01-05T08-00-00-123Z_ours.jsonl"),
        ("omp", {}, ".omp/agent/sessions/--repos-my_app--/2026-01-05T08-00-00-123Z_ours.jsonl"),
        ("operator", {}, ".operator/sessions/2026-01-05T08-00-00-123Z_ours.jsonl"),
        ("claude", {}, ".claude/projects/-repos-my-app/2a6b8f55-3ecb-5cfa-a4b6-a4dcd9e5e2ea.jsonl"),
    ],
)
def test_a_session_made_here_gets_the_programs_name(
    store: treering.Store, program: str, environ: dict[str, str], expected: str, tmp_path: Path
) -> None:
    """Folder and file are those that the program would make for the working directory."""
    environ = {name: value.format(home=tmp_path) for name, value in environ.items()}
    path = installed_path(store.view("ours"), format=program, home=tmp_path, environ=environ)
    if program == "claude":
        assert path.parent == (tmp_path / expected).parent
        assert len(path.stem) == len(UUID)
    else:
        assert path == tmp_path / expected


def test_folders_below_home_and_temporary_ones_are_short_in_omp(
    store: treering.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oh-my-pi names them by what comes behind its home, or behind the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with store.session("home", cwd=str(tmp_path / "a" / "b")) as session:
        session.append("hello")
    path = installed_path(store.view("home"), format="omp", home=tmp_path, environ={})
    assert path.parent.name == "-a-b"
    path = installed_path(store.view("home"), format="omp", home=tmp_path / "elsewhere", environ={})
    assert path.parent.name == "-tmp-a-b"


def test_an_imported_session_goes_back_to_its_file(store: treering.Store, tmp_path: Path) -> None:
    """Where the program keeps it, so that it is not listed twice; a fork gets a file of its own."""
    folder = tmp_path / ".pi" / "agent" / "sessions" / "anything"
    folder.mkdir(parents=True)
    header = {"type": "session", "version": 3, "id": "p-1", "timestamp": "2026-01-05T08:00:00.000Z", "cwd": "/repo"}
    (path := folder / "x.jsonl").write_text(json.dumps(header) + "\n")
    FileImporter(store).load(path)
    assert installed_path(store.view("p-1"), format="pi", home=tmp_path, environ={}) == path
    with store.session("p-1") as session:
        session.append("on")
        session.fork("f")
    fork = installed_path(store.view("f"), format="pi", home=tmp_path, environ={})
    assert (fork.parent.name, fork.name.endswith("_f.jsonl")) == ("--repo--", True)


def test_an_installed_session_is_the_last_one_of_its_folder(store: treering.Store, tmp_path: Path) -> None:
    """It is found as any session of the program is."""
    path = installed_path(store.view("ours"), format="pi", home=tmp_path, environ={})
    path.parent.mkdir(parents=True)
    export(store.view("ours"), path, format="pi")
    found = recent(Path("/repos/my_app"), tmp_path, {})
    assert found is not None
    assert (found.program, found.path, found.session) == ("pi", str(path), "ours")


def test_a_folder_whose_name_is_not_known_is_learnt_from_a_session_there(store: treering.Store, tmp_path: Path) -> None:
    """Evva and kit name folders in ways that their own sessions show; without one the error says what to do."""
    with pytest.raises(UsageError, match="evva"):
        installed_path(store.view("ours"), format="evva", home=tmp_path, environ={})
    folder = tmp_path / ".evva" / "sessions" / "repos-my_app"
    folder.mkdir(parents=True)
    document = {"version": 1, "session_id": "e", "workdir": "/repos/my_app", "session": {"messages": []}}
    (folder / "e.json").write_text(json.dumps(document))
    path = installed_path(store.view("ours"), format="evva", home=tmp_path, environ={})
    assert path == folder / "ours.json"


def test_a_session_about_no_folder_is_refused(store: treering.Store, tmp_path: Path) -> None:
    """These programs keep sessions by folder."""
    with pytest.raises(UsageError, match="no folder"):
        installed_path(store.view("free"), format="pi", home=tmp_path, environ={})
