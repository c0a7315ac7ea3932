"""Source distributions of frameworks, from the package index, kept in a cache: their tests, or an older release."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

DOWNLOAD_SECONDS_MAX = 180


def unpacked(cache: Path, name: str, version: str) -> Path:
    """The folder with the sources of a release; a test is skipped if they cannot be had.

    Args:
        cache: Where they are kept.
        name: Of the distribution, for example `strands-agents`.
        version: The release.
    """
    folder = cache / f"{name.replace('-', '_')}-{version}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            # Not `tarfile`: the first releases of Python 3.11 extract what an archive likes, wherever it likes.
            packed = _download(Path(temporary), name, version)
            subprocess.run(["tar", "--extract", "--file", packed, "--directory", temporary], check=True)
            with contextlib.suppress(OSError):  # another process of this test run was faster
                os.replace(Path(temporary) / folder.name, folder)
    return folder


def _download(folder: Path, name: str, version: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += [f"--no-binary={name}", f"--dest={folder}", f"{name}=={version}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the package index does not answer: no sources of {name}")
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        pytest.skip(f"the sources of {name} cannot be had from the package index: {last}")
    (archive,) = folder.glob("*.tar.gz")
    return archive
