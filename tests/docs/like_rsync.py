"""What `rsync -a [--delete] FROM/ TO/` does, for computers without rsync: the flags of our pages alone."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Copy what is in one folder to another."""
    flags = {each for each in arguments if each.startswith("-")}
    source, target = (each for each in arguments if each not in flags)
    if not flags <= {"-a", "--delete"} or not source.endswith("/"):
        raise SystemExit(f"not known here: {arguments}")
    if "--delete" in flags and Path(target).exists():
        for path in sorted(Path(target).rglob("*"), reverse=True):
            if not (Path(source) / path.relative_to(target)).exists():
                path.rmdir() if path.is_dir() else path.unlink()
    shutil.copytree(source, target, dirs_exist_ok=True)


main(sys.argv[1:])
