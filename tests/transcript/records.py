"""Skeletons in a row, as a journal would give them."""

from __future__ import annotations

import json

from treering.format.record import Skeleton


class Records(list[Skeleton]):
    """Skeletons at positions 0, 1, 2, ...; each method adds one."""

    def add(self, kind: str, **fields: object) -> Skeleton:
        """Add a record of any type."""
        values: dict[str, object] = {
            "at": len(self),
            "type": "node",
            "kind": kind,
            "id": f"r{len(self)}",
            "parent": None,
            "head": "",
            "role": "",
            "target": None,
            "time": 1_700_000_000_000 + len(self),
            "links": None,
            "length": 300,
            "critical": False,
            **fields,
            "brief": json.dumps(fields.get("brief", {})).encode(),
        }
        skeleton = Skeleton(**values)  # type: ignore[arg-type]
        self.append(skeleton)
        return skeleton

    def node(self, identifier: str, parent: str | None = None, **fields: object) -> Skeleton:
        """Add a message, or a node of another kind."""
        kind = str(fields.pop("kind", "message"))
        return self.add(kind, id=identifier, parent=parent, **fields)

    def note(self, kind: str, target: str | None = None, **brief: object) -> Skeleton:
        """Add an annotation."""
        return self.add(kind, type="note", target=target, brief=brief)

    def edit(self, kind: str, target: str, **brief: object) -> Skeleton:
        """Add an edit."""
        return self.add(kind, type="edit", target=target, brief=brief)

    def move(self, head: str, target: str | None, kind: str = "checkout", **brief: object) -> Skeleton:
        """Add a head record."""
        return self.add(kind, type="head", head=head, target=target, brief=brief)


def forked() -> Records:
    """A root `a` with children b1, b2, b3; below b2 the chain c, d."""
    records = Records()
    records.node("a", head="main")
    records.node("b1", "a", head="main")
    records.node("b2", "a", head="main-2")
    records.node("c", "b2", head="main-2")
    records.node("b3", "a", head="main-3")
    records.node("d", "c", head="main-2")
    return records
