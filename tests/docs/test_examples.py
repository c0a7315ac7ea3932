"""Every Python example of the documentation is run, page by page, as a reader would who types it in."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.docs import model
from tests.docs.pages import ROOT, Block, blocks, files, name_of, pages
from tests.servers import S3Server, moto

import treering.programs

__all__ = ["moto"]

EXAMPLES = [page for page in pages("docs") if any(block.language == "python" for block in blocks(page))]
WITH_COMMANDS = {"docs/how-to/back-up.md"}
WITH_A_MODEL = {"docs/how-to/anthropic.md", "docs/how-to/openai.md"}
ON_S3 = {"docs/how-to/claude-agent-sdk.md", "docs/how-to/stores.md", "docs/how-to/strands.md", "docs/tutorial.md"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, which is also the user's home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))  # for examples that start a process
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    known = dict(treering.programs._registered)
    monkeypatch.setattr(treering.programs, "_registered", known)  # a program of an example ends with it
    programs = tmp_path / "bin"
    programs.mkdir()
    _write_program(programs / "treering", f'exec "{sys.executable}" -m treering "$@"')
    if shutil.which("rsync") is None:
        _write_program(programs / "rsync", f'exec "{sys.executable}" "{ROOT}/tests/docs/like_rsync.py" "$@"')
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    sys.path_importer_cache.pop(".", None)  # it remembers where it was first, which is the home of another page
    return tmp_path


def _write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("page", [page for page in EXAMPLES if name_of(page) not in ON_S3 | WITH_A_MODEL], ids=name_of)
def test_examples_run_and_print_what_the_page_says(page: Path, home: Path) -> None:
    """The examples of a page run one after the other, and print what stands below them."""
    if prepare := PREPARED.get(name_of(page)):
        prepare(home)
    run_page(page)


@pytest.mark.s3
@pytest.mark.parametrize("page", sorted(ON_S3))
@pytest.mark.slow
def test_examples_on_s3_run(page: str, home: Path, moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples that name a bucket run against a server which has it, found as AWS tools find theirs."""
    client = moto.client()
    client.create_bucket(Bucket="my-bucket")
    for name, value in {
        "AWS_ENDPOINT_URL": moto.endpoint,
        "AWS_ACCESS_KEY_ID": moto.key,
        "AWS_SECRET_ACCESS_KEY": moto.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    run_page(ROOT / page)
    assert client.list_objects_v2(Bucket="my-bucket")["KeyCount"] > 0


@pytest.mark.parametrize("page", sorted(WITH_A_MODEL))
def test_examples_with_a_model_run(page: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples that ask a model ask one that stands in for it, which refuses what real ones refuse."""
    with model.serving() as address:
        for name, value in {
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": "none",
            "NO_PROXY": "127.0.0.1",
        }.items():
            monkeypatch.setenv(name, value)
        run_page(ROOT / page)


def test_every_page_with_examples_is_found() -> None:
    """The README and the tutorial are among the pages whose examples are run."""
    assert {"README.md", "docs/tutorial.md"} <= {name_of(page) for page in EXAMPLES}


def run_page(page: Path) -> None:
    """Run the Python blocks of a page in one namespace; compare what each prints with the `output` block behind it.

    Commands of some pages are run as well, in order with them. Blocks that begin with the path of a file are written
    there.
    """
    contents = files(page)
    for path, text in contents.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text)
    names: dict[str, object] = {"__name__": "__main__"}
    every = blocks(page)
    for place, block in enumerate(every):
        if block.text in contents.values():
            continue
        if block.language == "python":
            printed = run_block(page, block, names)
        elif block.language == "sh" and name_of(page) in WITH_COMMANDS:
            printed = run_commands(block)
        else:
            continue
        behind = every[place + 1] if place + 1 < len(every) else None
        if behind is not None and behind.language == "output":
            assert printed == behind.text, f"{name_of(page)}:{behind.line}"


def run_block(page: Path, block: Block, names: dict[str, object]) -> str:
    """Run one block; return what it printed. Tracebacks show the line on the page."""
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def run_commands(block: Block) -> str:
    """Run the lines of a block in a shell that stops at the first failure; return what they printed."""
    done = subprocess.run(["sh", "-ec", block.text], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wrong_output_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page whose example prints something else fails, and so does one whose example raises."""
    monkeypatch.setattr("tests.docs.pages.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```output\n2\n```\n")
    with pytest.raises(AssertionError):
        run_page(page)
    page.write_text("```python\nraise ValueError\n```\n")
    with pytest.raises(ValueError):  # noqa: PT011  # there is no text to match
        run_page(page)


def write_pi_session(home: Path) -> None:
    """Put a small session file where pi would have it."""
    entries = [
        {"type": "session", "version": 3, "id": "5f0c", "timestamp": "2026-01-31T12:00:00.000Z", "cwd": "/src/app"},
        _pi_message("00000001", None, "user", "why is the build slow"),
        _pi_message("00000002", "00000001", "assistant", "the cache key has the date in it"),
    ]
    folder = home / "pi-sessions"
    os.makedirs(folder)
    (folder / "2026-01-31_5f0c.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def _pi_message(identifier: str, parent: str | None, role: str, text: str) -> dict[str, object]:
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    time = "2026-01-31T12:00:00.000Z"
    return {"type": "message", "id": identifier, "parentId": parent, "timestamp": time, "message": message}


PREPARED: dict[str, Callable[[Path], None]] = {"docs/how-to/import-sessions.md": write_pi_session}
"""What a page takes for granted."""
