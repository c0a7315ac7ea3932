"""The heads of a session: names for the ends of its branches, one of which is current.

A head is a name for a node: `main`, `main-2`, ... Heads move in three ways, all of them durable records:

| record                                 | effect                                                                  |
|----------------------------------------|-------------------------------------------------------------------------|
| `node` with a head                     | the head moves to the node, and is created if it does not exist         |
| `head` with a head and a target        | the head moves to the target; no target means before the first node     |
| `head` of kind `drop`                  | the head is forgotten; the nodes stay                                   |

A `head` record also makes its head the current one, unless its brief is `{"current": false}`. A node never does: an
append to another branch must not change the user's branch. If the current head does not exist, `main` or else the
oldest head is current. Notes, edits, checkpoints and records of unknown types move nothing.
"""

from collections.abc import Iterable

import msgspec

from treering.errors import CorruptError
from treering.format.record import Skeleton, read_brief

FIRST_HEAD = "main"
MOVERS = frozenset({"node", "head"})
"""Types of records that move heads."""


class Placed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a head was last placed: by its last `head` record, or by its own first node."""

    at: int
    """Position of that record."""
    node: str | None
    """The node that the head pointed to from then on; if a first node placed it, that node's parent."""
    made: int
    """Position of the record that made the head: records of an earlier head of that name come before it. 0 for the
    first head of a session, which an import makes after its checkpoints."""


class Heads(msgspec.Struct, frozen=True, omit_defaults=True):
    """All heads of a session. Immutable: `apply` returns new heads."""

    heads: dict[str, str | None] = {}
    """The node of each head by its name, in the order they were made; None is the place before the first node."""
    current: str = FIRST_HEAD
    """The current head; it has an entry in `heads` unless there is no head at all."""
    placed: dict[str, Placed] | None = {}
    """Where each head was last placed; None if an early version wrote the heads without this."""

    @property
    def tip(self) -> str | None:
        """The node that the current head points to."""
        return self.heads.get(self.current)

    def apply(self, skeleton: Skeleton) -> "Heads":
        """Return the heads after `skeleton`; records are applied in the order of their positions."""
        if not skeleton.head or skeleton.type not in MOVERS:
            return self
        heads, placed = dict(self.heads), self.placed
        if placed is not None and (skeleton.type == "head" or skeleton.head not in placed):
            placed = dict(placed)
            _place(placed, skeleton)
        return Heads(heads, _move(heads, self.current, skeleton), placed)

    def free_name(self, base: str) -> str:
        """Return `base` if no head has that name, else the first of `base-2`, `base-3`, ... that is free."""
        name, number = base, 1
        while name in self.heads:
            number += 1
            name = f"{base}-{number}"
        return name

    def encode(self) -> dict[str, object]:
        """Return a JSON object that `decode_heads` reads."""
        encoded: dict[str, object] = {"heads": dict(self.heads), "current": self.current}
        if self.placed is None:
            return encoded
        return encoded | {"placed": {name: msgspec.structs.astuple(place) for name, place in self.placed.items()}}


# Made at import: a type that two threads decode for the first time at once crashes msgspec.
_decoder = msgspec.json.Decoder(Heads)


def decode_heads(value: object) -> Heads:
    """Return the heads that `Heads.encode` wrote.

    Raises:
        CorruptError: `value` has another shape.
    """
    try:
        heads = msgspec.convert(value, _decoder.type)
    except msgspec.ValidationError as error:
        raise CorruptError(f"heads are not readable. problem={str(error)!r}") from error
    if heads.heads.keys() <= (heads.placed or {}).keys():
        return heads
    return msgspec.structs.replace(heads, placed=None)


def heads_of(skeletons: Iterable[Skeleton]) -> Heads:
    """Return the heads after all `skeletons`, which come in the order of their positions."""
    heads: dict[str, str | None] = {}
    placed: dict[str, Placed] = {}
    current = FIRST_HEAD
    for skeleton in skeletons:
        if skeleton.head and skeleton.type in MOVERS:
            _place(placed, skeleton)
            current = _move(heads, current, skeleton)
    return Heads(heads, current, placed)


def _place(placed: dict[str, Placed], skeleton: Skeleton) -> None:
    """Change `placed` in place by a record that moves a head."""
    name, at = skeleton.head, skeleton.at
    known = placed.get(name)
    made = known.made if known is not None else at if placed else 0
    if skeleton.type == "head" and skeleton.kind == "drop":
        placed.pop(name, None)
    elif skeleton.type == "head":
        placed[name] = Placed(at, skeleton.target, made)
    elif known is None:
        placed[name] = Placed(at, skeleton.parent, made)


def _move(heads: dict[str, str | None], current: str, skeleton: Skeleton) -> str:
    """Change `heads` in place by a record that moves a head; return the name of the current head."""
    name = skeleton.head
    if skeleton.type == "head" and skeleton.kind == "drop":
        heads.pop(name, None)
    elif skeleton.type == "head":
        heads[name] = skeleton.target
        current = current if _aside(skeleton) else name
    else:
        heads[name] = skeleton.id
    if current in heads:
        return current
    return FIRST_HEAD if FIRST_HEAD in heads else next(iter(heads), FIRST_HEAD)


def _aside(skeleton: Skeleton) -> bool:
    return read_brief(skeleton).get("current") is False
