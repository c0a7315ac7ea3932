"""Where other programs keep their sessions, and which one was the last about a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from treering.importers import discovery
from treering.importers.discovery import Recent, breadcrumbs, discover, recent
from treering.programs.omp import locate as omp
from treering.terminals.terminal import terminal_name

TIME = "2026-01-05T08:00:00.000Z"
NOW_S = 1_767_700_000


def write(path: Path, records: list[dict[str, Any]], at: int = 0) -> Path:
    """Write a file whose time is `at` seconds later than that of others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    os.utime(path, (NOW_S + at, NOW_S + at))
    return path


def pi_file(home: Path, name: str, cwd: Path | str, at: int = 0, folder: str = ".pi/agent/sessions/--x--") -> Path:
    """Write a session of pi, or of oh-my-pi where that keeps them."""
    message = {"role": "user", "content": "hi", "timestamp": 1}
    entry = {"type": "message", "id": "a", "parentId": None, "timestamp": TIME, "message": message}
    header = {"type": "session", "version": 3, "id": name, "timestamp": TIME, "cwd": str(cwd)}
    return write(home / folder / f"x_{name}.jsonl", [header, entry], at)


def kit_file(home: Path, cwd: Path, at: int = 0) -> Path:
    """Write a session of kit."""
    header = {"type": "session", "version": 3, "id": "a" * 32, "timestamp": "2026-02-01T10:00:00Z", "cwd": str(cwd)}
    return write(home / ".kit" / "sessions" / "x" / "k.jsonl", [header], at)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home without anything."""
    (tmp_path / "work").mkdir()
    return tmp_path


def test_folders_of_programs_that_moved(home: Path) -> None:
    """Operator's of before May 2026, in folders for each day; evva's at home, whatever its variable names."""
    flat = {"type": "metadata", "id": "x", "created_at": "2026-01-05T09:00:00", "updated_at": "x", "metadata": {}}
    for place in ("profiles/main", "workspaces/old"):
        write(home / ".operator-use" / place / "sessions" / "05-01-2026" / "x.jsonl", [flat])
    for place in (".evva", "elsewhere"):
        (home / place / "sessions").mkdir(parents=True)
    found = discover(home, {"EVVA_HOME": str(home / "elsewhere")})
    assert [(each.program, os.path.relpath(each.folder, home), each.sessions) for each in found] == [
        ("operator", ".operator-use/profiles/main/sessions", 1),
        ("operator", ".operator-use/workspaces/old/sessions", 1),
        ("evva", "elsewhere/sessions", 0),
        ("evva", ".evva/sessions", 0),
    ]


def test_folders(home: Path) -> None:
    """Each folder that exists, with its program, how many files are in it, how large they are and the newest."""
    assert discover(home, {}) == []
    pi_file(home, "one", "/a", at=1)
    newest = pi_file(home, "two", "/b", at=5)
    (home / ".kit" / "sessions").mkdir(parents=True)
    (home / ".pi" / "agent" / "sessions" / "notes.txt").write_text("x")
    found = {each.program: each for each in discover(home, {})}
    assert found.keys() == {"pi", "kit"}
    assert (found["pi"].sessions, found["pi"].newest, found["pi"].newest_ms) == (2, str(newest), (NOW_S + 5) * 1000)
    assert found["pi"].bytes == sum(path.stat().st_size for path in newest.parent.iterdir())
    assert (found["kit"].sessions, found["kit"].newest) == (0, None)


def test_one_folder_of_two_programs(home: Path) -> None:
    """Where a variable leads pi and oh-my-pi to one folder, their files are told apart by their content."""
    environ = {"PI_CODING_AGENT_DIR": str(home / "agent")}
    pi_file(home, "one", "/a", folder="agent/sessions/x")
    slot = {"type": "title", "v": 1, "title": "t", "updatedAt": TIME, "pad": ""}
    header = {"type": "session", "version": 3, "id": "o", "timestamp": TIME, "cwd": "/a"}
    write(home / "agent/sessions/x/o.jsonl", [slot, header])
    assert {each.program: each.sessions for each in discover(home, environ)} == {"pi": 1, "omp": 1}


def test_one_folder_of_two_programs_by_a_link(home: Path) -> None:
    """Their files are told apart there as well, and none is counted twice."""
    pi_file(home, "one", "/a")
    (home / ".omp/agent").mkdir(parents=True)
    (home / ".omp/agent/sessions").symlink_to(home / ".pi/agent/sessions")
    assert [(each.program, each.sessions) for each in discover(home, {})] == [("omp", 0), ("pi", 1)]


def test_a_link_to_the_sessions_of_a_project_is_followed(home: Path) -> None:
    """As the program does; a link to where one is already, or from deeper down, leads nowhere."""
    sessions = home / ".pi/agent/sessions"
    here, moved = pi_file(home, "here", "/a"), pi_file(home, "moved", home / "work", at=5, folder="disk/--work--")
    links = {"--work--": "disk/--work--", "twice": "disk/--work--", "up": ".pi", "--x--/deep": "disk"}
    for link, target in links.items():
        (sessions / link).symlink_to(home / target)
    (sessions / "gone").symlink_to(home / "nowhere")
    (found,) = discover(home, {})
    assert (found.sessions, found.newest) == (2, str(sessions / "--work--" / moved.name))
    assert [*discovery.find_sessions(sessions)] == [here, sessions / "--work--" / moved.name]
    assert recent(home / "work", home, {}) is not None


def test_the_last_session_about_a_folder(home: Path) -> None:
    """The newest file of any program whose header names the folder, however it is spelled."""
    work = home / "work"
    assert recent(work, home, {}) is None
    pi_file(home, "old", work, at=1)
    pi_file(home, "elsewhere", "/somewhere/else", at=9)
    kit = kit_file(home, work, at=5)
    found = recent(work, home, {})
    assert found == Recent(program="kit", path=str(kit), session="a" * 32, modified_ms=(NOW_S + 5) * 1000)
    (home / "link").symlink_to(work)
    assert recent(home / "link", home, {}) == found
    assert recent(work, home, {}, after_ms=(NOW_S + 5) * 1000) is None
    known = recent(work, home, {}, known=lambda path: path == kit)
    assert known is not None
    assert known.session == "old"


def test_what_is_not_readable_is_passed_over(home: Path) -> None:
    """A damaged or foreign file is none of the sessions, and stops nothing."""
    work = home / "work"
    pi_file(home, "good", work, at=1)
    write(home / ".pi/agent/sessions/bad.jsonl", [{"no": "header"}], at=2)
    (home / ".evva" / "sessions").mkdir(parents=True)
    (home / ".evva" / "sessions" / "x.json").write_text("{")
    found = recent(work, home, {})
    assert found is not None
    assert found.session == "good"


def test_only_so_many_heads_are_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest come first, and the search ends."""
    work = home / "work"
    pi_file(home, "mine", work, at=0)
    for number in range(3):
        pi_file(home, f"other-{number}", "/else", at=number + 1)
    monkeypatch.setattr(discovery, "HEADS_MAX", 3)
    assert recent(work, home, {}) is None
    monkeypatch.setattr(discovery, "HEADS_MAX", 4)
    assert recent(work, home, {}) is not None


def crumb(home: Path, *lines: object) -> None:
    """Leave a breadcrumb for the terminal /dev/pts/3."""
    folder = home / ".omp" / "agent" / "terminal-sessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pts-3").write_text("\n".join(map(str, lines)))


def test_breadcrumbs(home: Path) -> None:
    """What this terminal had open in the folder is its session, though another one is newer; a fresh one is none."""
    work, folder = home / "work", ".omp/agent/sessions/x"
    left = pi_file(home, "left", work, at=1, folder=folder)
    newer = pi_file(home, "newer", work, at=5, folder=folder)
    crumb(home, work, left)
    assert [each.session_file for _, each in breadcrumbs(home, {})] == [left]
    found = recent(work, home, {}, tty="/dev/pts/3")
    assert found is not None
    assert (found.session, found.breadcrumb) == ("left", True)
    elsewhere = recent(work, home, {}, tty="/dev/pts/4")
    assert elsewhere is not None
    assert (elsewhere.path, elsewhere.breadcrumb) == (str(newer), False)
    crumb(home, "/other", left)
    assert recent(work, home, {}, tty="/dev/pts/3") == elsewhere
    crumb(home, work, home / "not-there", "fresh")
    assert recent(work, home, {}, tty="/dev/pts/3") is None


def test_a_subagent_is_left_for_its_session(home: Path) -> None:
    """A breadcrumb that names the session of a subagent means that of the user, in whose folder it is."""
    work = home / "work"
    top = pi_file(home, "top", work, folder=".omp/agent/sessions/x")
    below = pi_file(home, "below", work, folder=f".omp/agent/sessions/x/{top.stem}")
    deeper = pi_file(home, "deeper", work, folder=f".omp/agent/sessions/x/{top.stem}/{below.stem}")
    crumb(home, work, deeper)
    assert [each.session_file for _, each in breadcrumbs(home, {})] == [top]


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"ZELLIJ_PANE_ID": "3", "ZELLIJ_SESSION_NAME": "a/b", "TMUX_PANE": "%1"}, "zellij-a-b-3"),
        ({"ZELLIJ_PANE_ID": "3"}, "zellij-3"),
        ({"TMUX_PANE": "%1", "WEZTERM_PANE": "7"}, "tmux-%1"),
        ({"WEZTERM_PANE": "7", "TERM_SESSION_ID": "x"}, "wezterm-7"),
        ({}, None),
    ],
)
def test_names_of_terminals(environ: dict[str, str], name: str | None) -> None:
    """A terminal without a device is known by its variables, those of the innermost program first."""
    assert terminal_name(environ, None) == name
    assert terminal_name(environ, "/dev/pts/3") == "pts-3"


@pytest.mark.parametrize(
    ("environ", "sessions", "crumbs"),
    [
        ({}, ".omp/agent", ".omp/agent"),
        ({"PI_CONFIG_DIR": ".cfg"}, ".cfg/agent", ".cfg/agent"),
        ({"PI_CODING_AGENT_DIR": "mine", "XDG_DATA_HOME": "xd"}, "mine", "mine"),
        (
            {"OMP_PROFILE": "work", "PI_CODING_AGENT_DIR": "mine"},
            ".omp/profiles/work/agent",
            ".omp/profiles/work/agent",
        ),
        ({"PI_PROFILE": "work"}, ".omp/profiles/work/agent", ".omp/profiles/work/agent"),
        ({"OMP_PROFILE": "", "PI_PROFILE": "work"}, ".omp/agent", ".omp/agent"),
        ({"OMP_PROFILE": "../work"}, ".omp/agent", ".omp/agent"),
        ({"XDG_DATA_HOME": "xd", "XDG_STATE_HOME": "xs"}, "xd/omp", ".omp/agent"),
        ({"XDG_DATA_HOME": "xd", "OMP_PROFILE": "home"}, "xd/omp/profiles/home", ".omp/profiles/home/agent"),
        ({"XDG_DATA_HOME": "xd", "OMP_PROFILE": "work"}, ".omp/profiles/work/agent", ".omp/profiles/work/agent"),
    ],
)
def test_folders_of_oh_my_pi(home: Path, environ: dict[str, str], sessions: str, crumbs: str) -> None:
    """Profiles, variables and folders below those of XDG lead where they lead oh-my-pi; asked of version 18.2.3."""
    (home / "xd/omp/profiles/home").mkdir(parents=True)
    places = ("PI_CODING_AGENT_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME")
    environ = {name: str(home / value) if name in places else value for name, value in environ.items()}
    assert omp.folders(home, environ)[0] == home / sessions / "sessions"
    assert omp.agent_folder(home, environ, "STATE") == home / crumbs


def test_sessions_of_all_profiles(home: Path) -> None:
    """Also sessions of profiles that are not in use are found, and those in a folder that a variable names for pi."""
    pi_file(home, "profile", "/a", folder=".omp/profiles/work/agent/sessions/x")
    pi_file(home, "named", "/a", folder="named")
    found = discover(home, {"PI_CODING_AGENT_SESSION_DIR": str(home / "named")})
    assert {(each.program, each.sessions) for each in found} == {("omp", 1), ("pi", 1)}
