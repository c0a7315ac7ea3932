"""Strands' own tests: the source distribution of the installed version, from the package index, kept in a cache."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

DOWNLOAD_SECONDS_MAX = 180


def installed() -> str:
    """The version of Strands whose tests are wanted."""
    return importlib.metadata.version("strands-agents")


def unpacked(cache: Path) -> Path:
    """The folder with the sources of the installed version; a test is skipped if they cannot be had."""
    folder = cache / f"strands_agents-{installed()}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            with tarfile.open(_download(Path(temporary))) as archive:
                archive.extractall(temporary, filter="data")
            with contextlib.suppress(OSError):  # another process of this test run was faster
                os.replace(Path(temporary) / folder.name, folder)
    return folder


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary=strands-agents", f"--dest={folder}", f"strands-agents=={installed()}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("the package index does not answer: no tests of Strands")
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        pytest.skip(f"the sources of Strands cannot be had from the package index: {last}")
    (archive,) = folder.glob("*.tar.gz")
    return archive
