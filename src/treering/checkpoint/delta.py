"""Checkpoints as deltas: from a checkpoint to the small record that is stored.

Rule 1: a key of the state is written only if its bytes changed; a large value is written as a patch of the previous
value, if the patch is shorter by half. The context is written as splices. A record has nothing that did not change.
Rule 2: a full record is written when the deltas since the last one are larger than a new one would be. Patched values
count twice in its size: the patches of a value that only grows add up to about its size, so it is not repeated. A full
record is also written for a checkpoint without a parent, and after navigation; never after a fixed number of deltas,
since contexts differ in size by a factor of a thousand.
Rule 3: a full record repeats no value of the state that another record holds: it names that record, in its brief, too.
A reader follows one reference, never a chain. So a full record holds the values that were patched since they were
written as a whole.
Rule 4: if a full record would exceed the limit of a record and a delta would not, the delta is written. If both exceed
it, the checkpoint is written in steps, each a delta of the one before.

Theory of operation
-------------------
A full record replaces the delta with which the sum of deltas would exceed it. So all full records together take no more
bytes than all deltas, the replaced ones included. Reading a checkpoint takes one full record, the values that it names,
and deltas of no more bytes than two full records of that checkpoint, or one if no value was patched.

`treering.checkpoint.resolve` reads the records that are written here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw

from treering._late import Kind
from treering.checkpoint.checkpoint import Body, Checkpoint, write_form
from treering.checkpoint.context import Item, Splice, encode_items, growth_bytes, least_bytes
from treering.errors import UsageError
from treering.format.erasure import is_erased
from treering.format.patch import make_patch
from treering.format.record import BODY_BYTES_MAX, BRIEF_BYTES_MAX
from treering.format.splices import splice_diff
from treering.format.values import alike, encode

_NULL = b"null"
_NEEDS_MAX = 14  # ids of 32 characters; a brief has no room for more
_ITEM_BYTES = 32  # for quotes, names of fields and the like around each value


class Written(msgspec.Struct, frozen=True):
    """A checkpoint about to be recorded."""

    checkpoint: Checkpoint
    """The checkpoint as `resolve` will return it."""
    full: bool
    brief: bytes
    body: bytes


def write(parent: Checkpoint | None, new: Checkpoint, *, navigated: bool = False) -> Written:
    """Return the record to write for `new`: a delta of `parent`, or a full record if one is due.

    Args:
        parent: The checkpoint that `new.parent` names; None if `new.parent` is None.
        new: The checkpoint; its `origins`, `manager_at` and `pending_bytes` are ignored.
        navigated: The head moved in another way than by an append.

    Raises:
        UsageError: `parent` is not the parent of `new`, or label and metadata are too large for a brief.
    """
    if new.parent != (None if parent is None else parent.id):
        raise UsageError(f"parent is another checkpoint. checkpoint={new.id!r}, parent={new.parent!r}")
    if parent is None or navigated:
        full = _whole(_settled(parent, new, least_bytes(new.context.items)))
        body = write_form(_full(full))
        if parent is None or len(body) <= BODY_BYTES_MAX:
            return _written(full, body, full=True)
    splices = splice_diff(parent.context.items, new.context.items)
    new = _settled(parent, new, parent.context_bytes + growth_bytes(parent.context.items, splices))
    patches = _patches(parent, new)
    change = write_form(_change(parent, new, splices, patches))
    pending = parent.pending_bytes + len(change)
    repeated = patched_bytes(new) + sum([len(new.state[key]) for key in patches])
    if outweighs(pending, new.context_bytes + 2 * repeated):  # else no full record is due
        full = _whole(new)
        body = write_form(_full(full))
        if len(body) <= BODY_BYTES_MAX and outweighs(pending, len(body) + repeated):
            return _written(full, body, full=True)
    origins = {key: origin for key, origin in new.origins.items() if key not in patches}
    return _written(msgspec.structs.replace(new, origins=origins, pending_bytes=pending), change, full=False)


def _written(new: Checkpoint, body: bytes, *, full: bool) -> Written:
    told, brief = brief_of(new.label, new.step, new.metadata, full=full)
    origins = dict.fromkeys([*new.origins.values(), new.manager_at]) if full else {}
    needs = [name for name in origins if name not in (None, new.id)][:_NEEDS_MAX]
    while needs and len(longer := encode(told | {"needs": needs})) > BRIEF_BYTES_MAX:
        needs.pop()
    return Written(new, full, longer if needs else brief, body)


def write_steps(
    parent: Checkpoint | None, new: Checkpoint, *, new_id: Callable[[], str], navigated: bool = False
) -> list[Written]:
    """Return the records to write for `new`: one, or several if it is too large for one. The last one is `new`.

    Args:
        parent: As for `write`.
        new: As for `write`.
        new_id: Makes ids for the further checkpoints.
        navigated: As for `write`.

    Raises:
        UsageError: As for `write`; or a single value or message is too large for a record.
    """
    whole = write(parent, new, navigated=navigated)
    if len(whole.body) <= BODY_BYTES_MAX:
        return [whole]
    done: list[Written] = []
    above, steps = parent, _steps(parent, new)
    for step in steps[:-1]:
        done.append(_written_below(above, step, new_id()))
        above = done[-1].checkpoint
    named = msgspec.structs.replace(steps[-1], label=new.label, step=new.step, metadata=new.metadata)
    return [*done, _written_below(above, named, new.id)]


def _written_below(above: Checkpoint | None, step: Checkpoint, identifier: str) -> Written:
    return write(above, msgspec.structs.replace(step, id=identifier, parent=above.id if above is not None else None))


def _steps(parent: Checkpoint | None, new: Checkpoint) -> list[Checkpoint]:
    """Intermediate checkpoints before `new`: first its context, in one step if it fits, then new values."""
    old = parent.state if parent is not None else {}
    state = {key: value for key, value in new.state.items() if old.get(key) == value}
    manager = parent.manager if parent is not None else None
    begun = msgspec.structs.replace(new, state=state, manager=manager, label=None, step=None, metadata={})
    steps = [begun]
    first = begun if parent is None else msgspec.structs.replace(begun, parent=parent.id)
    if len(diff(parent, _settled(parent, first), full=parent is None)) > BODY_BYTES_MAX:
        sizes = [(f"the message of node {item.node!r} in the context", _size_of(item)) for item in new.context.items]
        steps = [_with_items(begun, cut) for cut in _cuts(sizes) or [0]]
    added = [key for key in new.state if key not in state]
    for cut in _cuts([(f"state[{key!r}]", len(key) + len(new.state[key])) for key in added]):
        steps.append(msgspec.structs.replace(begun, state=state | {key: new.state[key] for key in added[:cut]}))
    if new.manager != manager:
        _ = _cuts([("the state of the conversation manager", len(new.manager or b""))])
        steps.append(new)
    return [*steps[:-1], msgspec.structs.replace(steps[-1], state=new.state)]


def _with_items(checkpoint: Checkpoint, count: int) -> Checkpoint:
    context = checkpoint.context
    return msgspec.structs.replace(checkpoint, context=context.with_items(context.items[:count]))


def _size_of(item: Item) -> int:
    return len(item.node) + len(item.view or "") + len(item.message or b"")


def _cuts(sizes: Sequence[tuple[str, int]]) -> list[int]:
    """Return where to split a sequence of values such that each part fits into a record.

    Args:
        sizes: For each value: its name for errors, and its size in bytes.

    Raises:
        UsageError: A single value does not fit.
    """
    cuts, filled = [], 0
    for number, (name, size) in enumerate(sizes):
        if size > BODY_BYTES_MAX:
            raise UsageError(
                f"{name} is too large. bytes={size}, max={BODY_BYTES_MAX}",
                kind=Kind.TOO_LARGE,
                remedy="store it in parts, or in a file, and refer to it",
            )
        if filled and filled + size > BODY_BYTES_MAX // 2:
            cuts.append(number)
            filled = 0
        filled += size + _ITEM_BYTES
    return [*cuts, len(sizes)] if sizes else []


def patched_bytes(checkpoint: Checkpoint) -> int:
    """Return the bytes of the values that no record holds as a whole."""
    return sum([len(value) for key, value in checkpoint.state.items() if key not in checkpoint.origins])


def outweighs(changes_bytes: int, full_bytes: int) -> bool:
    """Return whether the deltas since the last full record are larger than a full record, which is then due."""
    return changes_bytes > full_bytes


def _settled(parent: Checkpoint | None, new: Checkpoint, context_bytes: int = 0) -> Checkpoint:
    """Return `new` with its origins: the parent's origins for values that did not change, else `new` itself."""
    old, before = ({}, {}) if parent is None else (parent.state, parent.origins)
    changed = {key for key, value in new.state.items() if old.get(key) != value}
    origins = {key: new.id if key in changed else before[key] for key in new.state if key in changed or key in before}
    manager = None if new.manager == _NULL else new.manager
    manager_at = new.id
    if parent is not None and parent.manager == manager:
        manager_at = parent.manager_at or new.id
    return msgspec.structs.replace(
        new,
        state=_kept_first(new.state, changed),
        manager=manager,
        manager_at=None if manager is None else manager_at,
        origins=origins,
        pending_bytes=0,
        context_bytes=context_bytes,
    )


def _whole(new: Checkpoint) -> Checkpoint:
    """Return `new` as a full record holds it: it becomes the origin of the values that no other record holds."""
    origins = {key: new.origins.get(key, new.id) for key in new.state}
    own = {key for key, origin in origins.items() if origin == new.id}
    return msgspec.structs.replace(new, state=_kept_first(new.state, own), origins=origins)


def _kept_first(state: Mapping[str, bytes], own: Container[str]) -> dict[str, bytes]:
    """Return a state in the order in which it is read: values in other records first, then values in its own record."""
    return {key: value for key, value in state.items() if key not in own} | dict(state)


def _patches(parent: Checkpoint, new: Checkpoint) -> dict[str, bytes]:
    """Return the patches that replace changed values. An erased value is never patched, and never patched from."""
    patches = {}
    for key, value in new.state.items():
        old = parent.state.get(key)
        if old is None or old == value or is_erased(old) or is_erased(value) or len(value) > BODY_BYTES_MAX:
            continue
        if (patch := make_patch(old, value)) is not None:
            patches[key] = patch
    return patches


def diff(parent: Checkpoint | None, new: Checkpoint, *, full: bool) -> bytes:
    """Return the body that records `new`, whose origins are set; without a parent it must be full."""
    if full or parent is None:
        return write_form(_full(_whole(new)))
    splices = splice_diff(parent.context.items, new.context.items)
    return write_form(_change(parent, new, splices, _patches(parent, new)))


def _full(new: Checkpoint) -> Body:
    return Body(
        full=True,
        set={key: Raw(value) for key, value in new.state.items() if new.origins[key] == new.id},
        keys={key: origin for key, origin in new.origins.items() if origin != new.id},
        context=[*encode_items(new.context.items)],
        settings=Raw(encode(new.context.settings)) if new.context.settings else UNSET,
        manager=Raw(new.manager) if new.manager is not None and new.manager_at == new.id else UNSET,
        manager_at=new.manager_at if new.manager_at != new.id else None,
        policy=new.policy,
    )


def _change(parent: Checkpoint, new: Checkpoint, splices: Iterable[Splice], patches: Mapping[str, bytes]) -> Body:
    old, settings = parent.context.settings, new.context.settings
    changed = {name: value for name, value in settings.items() if name not in old or not alike(old[name], value)}
    return Body(
        set={key: Raw(patches.get(key, value)) for key, value in new.state.items() if new.origins.get(key) == new.id},
        drop=[key for key in parent.state if key not in new.state],
        context=[(start, deleted, encode_items(items)) for start, deleted, items in splices],
        settings=Raw(encode(changed)) if changed else UNSET,
        unset=[name for name in old if name not in settings],
        manager=Raw(new.manager or _NULL) if new.manager != parent.manager else UNSET,
        policy=new.policy if new.policy != parent.policy else None,
    )


def brief_of(
    label: str | None, step: int | None, metadata: Mapping[str, object], *, full: bool = True
) -> tuple[dict[str, object], bytes]:
    """Return what the brief of a checkpoint tells of it, as fields and encoded.

    Raises:
        UsageError: It is too large for a brief, or a value cannot be stored.
    """
    fields: dict[str, object] = {"full": full or None, "label": label or None, "step": step}
    told = {name: value for name, value in fields.items() if value is not None}
    if metadata:
        told["metadata"] = metadata
    brief = encode(told)
    if len(brief) > BRIEF_BYTES_MAX:
        raise UsageError(
            f"label and metadata are too large, put them into the state. bytes={len(brief)}, max={BRIEF_BYTES_MAX}"
        )
    return told, brief
