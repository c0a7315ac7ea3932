"""Recorded answers that are defects of the programs, and no targets.

Where an answer stands here, ours must be another one, and must have all that the program has. README of the folder:
forks that lose history are not targets either; how forks are compared knows of that.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Defect(NamedTuple):
    systems: str
    stems: str
    kinds: str
    reason: str


_ALL = "entry_ids tree listing branch context state"
_OMP = "entry_ids tree branch context transcript"

TABLE: Final = (
    Defect("pi073 pi152", "glued_two", _ALL, "a line with two records is dropped, and the path above is lost"),
    Defect(
        "pi073 pi152",
        "nul_padding_then_append",
        _ALL.removesuffix(" state"),
        "a record behind NUL bytes is dropped, and the path with it",
    ),
    Defect("pi073 pi152", "torn_then_glued", _ALL, "the complete record behind a torn one is dropped with it"),
    Defect("omp", "glued_two", f"{_OMP} state", "the second record on a line is dropped, and the path above is lost"),
    Defect("omp", "nul_padding_then_append", _OMP, "a record behind NUL bytes is dropped, and the path with it"),
    Defect("omp", "torn_then_glued", f"{_OMP} state", "the complete record behind a torn one is dropped with it"),
)

DEFECTS: Final = {
    (system, stem, kind): defect.reason
    for defect in TABLE
    for system in defect.systems.split()
    for stem in defect.stems.split()
    for kind in defect.kinds.split()
}
