"""Import a session file of another program, follow it as it grows, look it over and write it out, each in a process.

Beside them stand what cannot be had for less: parsing the lines of the file, and hashing its bytes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks import foreign
from benchmarks.cold import peak_memory

PARSE = "json.loads of each line"
HASH = "SHA-256 of the file"
FIRST = "first import"
ONE_MORE = "one more record"
EXPORT = "export"
DOCTOR = "doctor"


def main() -> None:
    """Do what the arguments name, and print its seconds of processor and the peak of memory in bytes."""
    action, program, path, store = sys.argv[1:]
    do = prepare(action, program, Path(path), Path(store))
    begun = time.process_time()
    do()
    print(json.dumps({"cpu": time.process_time() - begun, "memory": peak_memory()}))


def prepare(action: str, program: str, path: Path, store: Path) -> Callable[[], object]:
    """Import what is needed, and return what is measured."""
    if action == PARSE:
        return partial(_parse, path)
    if action == HASH:
        return partial(_hash, path)
    if action == DOCTOR:
        from treering.importers import diagnose

        return partial(diagnose, path)
    import treering
    from treering.importers import FileImporter

    if action == EXPORT:
        from treering.exporters import export

        opened = treering.open(store)
        name = next(info.id for info in opened.each_session())
        return lambda: export(opened.view(name), path.with_suffix(".out"), format=program, overwrite=True)
    if action == ONE_MORE:
        with path.open("r+b") as file:
            count = sum(1 for _ in file)
            file.write(foreign.record_behind(program, count))
    return lambda: FileImporter(treering.open(store)).load(path)


def _parse(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def _hash(path: Path) -> None:
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")


def actions(
    folder: Path, program: str, size: int, environment: Mapping[str, str]
) -> dict[str, Callable[[], dict[str, float]]]:
    """Write a file of so many megabytes, and return what can be measured with it.

    Args:
        folder: Where the file, stores and what is remembered of files lie.
        program: Who wrote the file.
        size: In megabytes.
        environment: Of the processes.
    """
    path = folder / f"{program}.jsonl"
    foreign.write(path, program, size * 1_000_000)
    stores = _numbered(folder / f"{program}-store")
    kept = next(stores)
    own = {**environment, "XDG_CACHE_HOME": str(folder / "cache")}

    def run(action: str, store: Path | None = None) -> dict[str, float]:
        code = "from benchmarks.imports import main; main()"
        given = [action, program, str(path), str(store or next(stores))]
        done = subprocess.run([sys.executable, "-c", code, *given], check=True, capture_output=True, env=own)
        return dict(json.loads(done.stdout))

    run(FIRST, kept)
    return {
        PARSE: partial(run, PARSE),
        HASH: partial(run, HASH),
        FIRST: partial(run, FIRST),
        ONE_MORE: partial(run, ONE_MORE, kept),
        EXPORT: partial(run, EXPORT, kept),
        DOCTOR: partial(run, DOCTOR),
    }


def _numbered(place: Path) -> Iterator[Path]:
    number = 0
    while True:
        number += 1
        yield place.with_name(f"{place.name}-{number}")
