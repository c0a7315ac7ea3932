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
_OPERATOR = "entry_ids tree branch context"
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
    Defect("operator", "glued", _OPERATOR, "a line with two records is dropped, and the path above is lost"),
    Defect("operator", "unicode_line_separators", _OPERATOR, "a line is cut at U+2028, and both pieces are dropped"),
    Defect("operator", "unknown_type_breaks_chain", _OPERATOR, "an unknown entry is dropped, and the path with it"),
    Defect(
        "operator", "thinking_bad_level", _OPERATOR, "an entry with an unknown value is dropped, and the path with it"
    ),
    Defect("operator", "custom_message_string_content", _OPERATOR, "likewise: a content that is text"),
)

DEFECTS: Final = {
    (system, stem, kind): defect.reason
    for defect in TABLE
    for system in defect.systems.split()
    for stem in defect.stems.split()
    for kind in defect.kinds.split()
}

TWISTED: Final = {
    ("operator", "cycle", "fork"): "a circle has no first entry; the store cuts it above the one that stands first",
    (
        "kit",
        "dup_ids",
        "fork",
    ): "of two entries with one id, the store has both, and below each what was written for it",
}
"""Forks of damaged files of which no two trees are the same, and both are right."""
