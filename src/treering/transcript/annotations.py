"""Records about nodes: notes annotate them, edits change how they are shown.

Neither moves a head. Of several labels, titles or edits of one kind, the last one counts.

| record               | brief                            | effect                                                     |
|----------------------|----------------------------------|------------------------------------------------------------|
| note `label`         | `{"label": text}`                | names the target; null or empty text removes the label     |
| note `title`         | `{"title": text}`                | names the session; null or empty text removes the title    |
| note `usage`         | `{"input": n, "output": n, ...}` | is added to the sums, also on abandoned branches           |
|                      | with `"reset": true`             | the sums begin anew with it                                |
| note `extension`     | `{"extension": type}`            | is state of an extension, held in the payload              |
| edit `amend`         |                                  | its payload is shown in place of the target's              |
| edit `retract`       |                                  | hides the target                                           |
| either of these      | `{"undo": true}`                 | undoes the edit of that kind                               |
| edit `amend`         | `{"erased": true}`               | ends the amendment: its target is erased, and shown so     |

Notes of other kinds are kept and can be listed. Edits of other kinds have no effect. A note keeps its target even if
the target does not exist; a note without a target is about the session as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from treering.format.columns import Name
from treering.format.record import Skeleton, read_brief


class Marks:
    """The labels, the title and the edits of nodes, folded from notes and edits in the order of their positions."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        """Label by target: a node or a checkpoint."""
        self.title: str | None = None
        self.retracted: set[str] = set()
        self.amended: dict[str, int] = {}
        """Position of the edit that holds the new payload, by node."""

    def add(self, skeleton: Skeleton) -> None:
        """Add the next record; records that change no mark are ignored."""
        if skeleton.type == "note":
            self._add_note(skeleton)
        elif skeleton.type == "edit" and skeleton.target is not None:
            self._add_edit(skeleton, skeleton.target)

    def _add_note(self, skeleton: Skeleton) -> None:
        if skeleton.kind == "title":
            self.title = text_of(read_brief(skeleton), "title")
        elif skeleton.kind == "label" and skeleton.target is not None:
            self.labels.pop(skeleton.target, None)
            if label := text_of(read_brief(skeleton), "label"):
                self.labels[skeleton.target] = label

    def _add_edit(self, skeleton: Skeleton, target: str) -> None:
        brief = read_brief(skeleton)
        undo = brief.get("undo") is True
        if skeleton.kind == "retract":  # also an erased edit: a hidden node stays hidden
            (self.retracted.discard if undo else self.retracted.add)(target)
        elif skeleton.kind == "amend":
            self.amended.pop(target, None)
            if not undo and brief.get("erased") is not True:  # otherwise its target is erased, and shown as erased
                self.amended[target] = skeleton.at


_MARKS = frozenset({("note", "title"), ("note", "label"), ("edit", "retract"), ("edit", "amend")})


def is_mark(name: Name) -> bool:
    """Return whether records of this type and kind change a `Marks`."""
    return name[:2] in _MARKS


class Annotations(Marks):
    """The marks, and all notes."""

    def __init__(self) -> None:
        super().__init__()
        self._notes: list[Skeleton] = []
        self._of: dict[str, list[Skeleton]] = {}

    def _add_note(self, skeleton: Skeleton) -> None:
        super()._add_note(skeleton)
        self._notes.append(skeleton)
        if skeleton.target is not None:
            self._of.setdefault(skeleton.target, []).append(skeleton)

    def of(self, target: str) -> list[Skeleton]:
        """Return all notes about `target`."""
        return list(self._of.get(target, ()))

    def notes(self, kind: str | None = None, *, path: Iterable[Skeleton] | None = None) -> list[Skeleton]:
        """Return the notes of one kind, or of all kinds.

        Args:
            kind: For example `usage`; None for all kinds.
            path: Only notes about these nodes, and notes about the whole session.
        """
        nodes = None if path is None else {node.id for node in path}
        return [
            note
            for note in self._notes
            if (kind is None or note.kind == kind) and (nodes is None or note.target is None or note.target in nodes)
        ]

    def extensions(self, extension: str | None = None, *, path: Iterable[Skeleton] | None = None) -> list[Skeleton]:
        """Return the notes of one extension, or of all extensions: all notes or those along `path`, newest last."""
        found = self.notes("extension", path=path)
        return [note for note in found if extension is None or text_of(read_brief(note), "extension") == extension]

    def usage(self, *, path: Iterable[Skeleton] | None = None) -> dict[str, int | float]:
        """Return the sums of all numbers in usage notes, by name, over the whole session or along `path`."""
        sums: dict[str, int | float] = {}
        for note in self.notes("usage", path=path):
            brief = read_brief(note)
            if brief.get("reset") is True:
                sums.clear()
            for name, value in brief.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    sums[name] = sums.get(name, 0) + value
        return sums


def text_of(brief: Mapping[str, object], name: str) -> str | None:
    """Return a field of a brief if it is a non-empty text, else None."""
    value = brief.get(name)
    return value if isinstance(value, str) and value else None
