"""Every public verb of sessions and stores, as a call on a store that has something for each of them to do."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import ConflictError, UnavailableError, UnresolvedEffectError
from treering.maintenance.retention import Retention
from treering.storage.memory import MemoryDriver
from treering.storage.run import run
from treering.store.info import SessionInfo
from treering.store.parcels import put_parcel
from treering.store.place import Place
from treering.transcript.node import assistant, user

LARGE = b"large" * 10_000  # a part that is stored as a blob


class Stored(NamedTuple):
    """A store, and names of what is in session `s`."""

    objects: dict[str, bytes]
    nodes: tuple[str, ...]
    made: str
    """A checkpoint."""
    large: str
    """A node with a blob."""
    hidden: str
    """One that was retracted."""


@functools.cache
def stored(*, appends: bool = False) -> Stored:
    """Record a session with all it can have, a fork of it, a deleted one, and a parcel; with `appends` as on a disk."""
    memory = MemoryDriver(appends=appends)
    store = Store(Place(memory))
    with store.session("s") as session:
        nodes = [session.append(f"m{number}").node for number in range(4)]
        large = session.append(user([{"type": "file", "data": LARGE}])).node
        made = session.commit([assistant("answer")], state={"k": 1, "token": "t"}, manager={"m": 1}).checkpoint or ""
        session.seal()
        session.branch("other")
        hidden = session.append("hidden").node
        session.retract(hidden)
        session.commit(["on the other"], state={"k": 2})
        session.switch("main")
        session.compact("gist", kept=nodes[3])
        session.append("sealed")
        session.seal()
        session.fork("old fork", node=nodes[2])
        session.record_extension("tool", {"x": 1})
        session.commit(["tail"], state={"k": 3})
    with store.session("gone") as gone:
        gone.append("x")
    store.delete("gone")
    run(put_parcel(Place(memory), "of/others", b"bytes"), memory)
    return Stored(memory.snapshot(), tuple(nodes), made, large, hidden)


class Call(NamedTuple):
    """What a verb is given."""

    store: Store
    session: Session
    there: Stored

    @property
    def view(self) -> View:
        """A fresh look at the session."""
        return self.store.view("s")


class Verb(NamedTuple):
    """One way to call a verb."""

    call: Callable[[Call], object]
    """It returns what others see of it, without ids that chance chose."""
    steps: bool = False
    """It is made of several writes, of which some may have been done when it fails. Calling again finishes it."""
    ends: bool = False
    """The session cannot be gone on with afterwards."""
    durability: Literal["sync", "turn"] = "sync"


def _of_nodes(nodes: Iterable[Any]) -> object:
    return [(node.role, str(node.payload)) for node in nodes]


def _write(verb: Callable[[Call], object], *, steps: bool = False, ends: bool = False) -> Verb:
    def call(given: Call) -> object:
        verb(given)
        return None

    return Verb(call, steps, ends)


def _new(call: Call) -> None:
    with call.store.session("new", title="T") as session:
        session.append(user("first", id="first"))


def _spawn(call: Call) -> None:
    try:
        child = call.store.spawn(call.session, "child", task="look")
    except ConflictError:  # somebody called before
        child = call.store.session("child")
    with child:
        child.append(user("at work", id="work"))


def _close(call: Call) -> None:
    call.session.append("X")
    call.session.close()


def _renew(call: Call) -> None:
    call.session.claim(ttl=60)
    call.session.renew()


def _release(call: Call) -> None:
    call.session.claim(ttl=60)
    call.session.release()


def _load(call: Call) -> None:
    drafts = [user("one"), user("two")]
    call.store.load("loaded", drafts, leaf=lambda: None, facts={"title": "L"})


def _close_calls(call: Call) -> None:
    asked = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    call.session.append(assistant([asked], id="asked"))
    call.session.close_open_calls("killed")


def _effect(call: Call) -> None:
    with contextlib.suppress(UnresolvedEffectError):  # begun by a call before
        call.session.effect("pay")


def _describe_effect(call: Call) -> None:
    _effect(call)
    call.session.describe_effect("pay", {"order": 7})


def _end_effect(call: Call) -> None:
    _effect(call)
    call.session.end_effect("pay", {"paid": True})


def _put_off(call: Call) -> None:
    call.session.append("put off")
    call.session.flush()


# Some verbs tell in their result what they could not do or read, and go on with the rest.


def _erase(call: Call, *ids: str, state: Collection[str] = (), manager: bool = False) -> None:
    for problem in call.session.erase(*ids, state=state, manager=manager).unreachable.values():
        raise UnavailableError(problem)


def _repair(call: Call) -> None:
    for loss in call.store.repair("s", into="repaired").losses:
        call.store.delete("repaired")
        raise UnavailableError(loss.message)


def _retain(call: Call) -> None:
    policy = Retention(sessions_max=1, checkpoints=KeepCheckpoints(last=1), min_idle_hours=0)
    for row in call.store.retain(policy).rows:
        if row.error:
            raise UnavailableError(row.error)


def _backup(call: Call) -> object:
    done = call.store.backup(Store(Place(MemoryDriver())))
    for row in done.rows:
        if row.error or row.missing:
            raise UnavailableError(row.error or str(row.missing))
    return sorted((row.name, row.records) for row in done.rows)


def _rows(rows: Iterable[SessionInfo]) -> object:
    found = sorted(rows, key=lambda row: row.id)
    for row in found:
        if row.warning:
            raise UnavailableError(row.warning)
    return [row.id for row in found]


WRITING: dict[str, Verb] = {
    "session": _write(_new, steps=True),
    "append": _write(lambda call: call.session.append("X")),
    "append, large": _write(lambda call: call.session.append(user([{"type": "file", "data": LARGE[::-1]}]))),
    "append, to a head": _write(lambda call: call.session.append("X", head="other")),
    "commit": _write(lambda call: call.session.commit(["X"], state={"k": 9})),
    "commit, context": _write(lambda call: call.session.commit(["X"], context=[call.there.nodes[0]])),
    "flush": _write(_put_off)._replace(durability="turn"),
    "compact": _write(lambda call: call.session.compact("X", kept=call.there.nodes[1])),
    "close_open_calls": _write(_close_calls, steps=True),
    "effect": _write(_effect),
    "describe_effect": _write(_describe_effect, steps=True),
    "end_effect": _write(_end_effect, steps=True),
    "set_model": _write(lambda call: call.session.set_model("m")),
    "set_thinking": _write(lambda call: call.session.set_thinking("high")),
    "set_mode": _write(lambda call: call.session.set_mode("plan")),
    "set_title": _write(lambda call: call.session.set_title("X")),
    "set_status": _write(lambda call: call.session.set_status("X")),
    "move": _write(lambda call: call.session.move(project="X")),
    "label": _write(lambda call: call.session.label(call.there.nodes[0], "X")),
    "note": _write(lambda call: call.session.note("todo", {"a": 1}, target=call.there.nodes[0])),
    "record_usage": _write(lambda call: call.session.record_usage(tokens=3)),
    "record_system": _write(lambda call: call.session.record_system("prompt", [])),
    "record_extension": _write(lambda call: call.session.record_extension("tool", {"x": 2})),
    "amend": _write(lambda call: call.session.amend(call.there.nodes[3], {"role": "user", "content": "X"})),
    "retract": _write(lambda call: call.session.retract(call.there.nodes[3])),
    "unretract": _write(lambda call: call.session.unretract(call.there.hidden)),
    "checkout": _write(lambda call: call.session.checkout(call.there.nodes[1])),
    "switch": _write(lambda call: call.session.switch("other")),
    "branch": _write(lambda call: call.session.branch("new", node=call.there.nodes[2], summary="X")),
    "drop_head": _write(lambda call: call.session.drop_head("other")),
    "rewind": _write(lambda call: call.session.rewind(call.there.made)),
    "prune": _write(lambda call: call.session.prune(KeepCheckpoints(last=1)), steps=True),
    "seal": _write(lambda call: call.session.seal()),
    "optimize": _write(lambda call: call.session.optimize(everything=True)),
    "fork": _write(lambda call: call.session.fork("new fork", node=call.there.nodes[3]), steps=True),
    "erase": _write(lambda call: _erase(call, call.there.nodes[1], call.there.large), steps=True),
    "erase, state": _write(lambda call: _erase(call, state=["token"], manager=True), steps=True),
    "claim": _write(lambda call: call.session.claim(ttl=60)),
    "renew": _write(_renew),
    "release": _write(_release),
    "close": _write(_close, ends=True),
    "spawn": _write(_spawn, steps=True),
    "load": _write(_load, steps=True),
    "copy": _write(lambda call: call.store.copy("s", name="copy"), steps=True),
    "repair": _write(_repair, steps=True),
    "delete": _write(lambda call: call.store.delete("s"), steps=True, ends=True),
    "reindex": _write(lambda call: call.store.reindex(), steps=True),
    "purge": _write(lambda call: call.store.purge(), steps=True),
    "retain": _write(_retain, steps=True, ends=True),
}
READING: dict[str, Verb] = {
    "view": Verb(lambda call: [str(item.message)[:60] for item in call.view.context]),
    "refresh": Verb(lambda call: call.session.refresh()),
    "get": Verb(lambda call: _of_nodes([call.view.get(call.there.large)])),
    "blob": Verb(lambda call: call.view.blob(sha256(LARGE).hexdigest()).media_type),
    "original": Verb(lambda call: call.view.original(call.there.nodes[0])),
    "history": Verb(lambda call: _of_nodes(row.node for row in call.view.history().rows)),
    "at": Verb(lambda call: call.view.at(3).path()),
    "each_node": Verb(lambda call: _of_nodes(call.view.each_node())),
    "path": Verb(lambda call: len(call.view.path())),
    "children": Verb(lambda call: call.view.children(call.there.nodes[1])),
    "siblings": Verb(lambda call: call.view.siblings(call.there.nodes[1])),
    "newest_leaf": Verb(lambda call: call.view.newest_leaf(call.there.nodes[1])),
    "leaves": Verb(lambda call: call.view.leaves()),
    "tree": Verb(lambda call: call.view.tree()),
    "nodes": Verb(lambda call: _of_nodes(call.view.nodes())),
    "problems": Verb(lambda call: call.view.problems()),
    "labels": Verb(lambda call: call.view.labels()),
    "checkpoints": Verb(lambda call: call.view.checkpoints()),
    "checkpoint": Verb(lambda call: call.view.checkpoint(call.there.made).state),
    "checkpoints_at": Verb(lambda call: [each.state for each in call.view.checkpoints_at([call.there.made])]),
    "context_at": Verb(lambda call: [item.node for item in call.view.context_at(call.there.nodes[2])]),
    "diff": Verb(lambda call: call.view.diff(call.there.made, call.there.nodes[2])),
    "notes": Verb(lambda call: [(note.kind, note.payload) for note in call.view.notes()]),
    "extensions": Verb(lambda call: [note.payload for note in call.view.extensions("tool")]),
    "find_effect": Verb(lambda call: call.view.find_effect("pay")),
    "last_compaction": Verb(lambda call: call.view.last_compaction()),
    "stored": Verb(lambda call: call.view.stored()),
    "lines": Verb(lambda call: list(call.view.lines())),
    "events": Verb(lambda call: next(call.view.events(first=0)).type.value),
    "follow": Verb(lambda call: _of_nodes([next(call.view.follow(first=0))])),
    "sessions": Verb(lambda call: _rows(call.store.sessions().rows)),
    "each_session": Verb(lambda call: _rows(call.store.each_session())),
    "sessions, below": Verb(lambda call: _rows(call.store.sessions(below=True).rows)),
    "namespaces": Verb(lambda call: list(call.store.namespaces())),
    "recent": Verb(lambda call: getattr(call.store.recent(), "id", None) is not None),
    "backup": Verb(_backup),
    "verify": Verb(lambda call: call.store.verify("s")),
    "verify_all": Verb(lambda call: sorted(call.store.verify_all(), key=str)),
    "verify_parcels": Verb(lambda call: sorted(call.store.verify_parcels(), key=str)),
}
VERBS = WRITING | READING

SENDS_NOTHING = {
    # of a store
    "namespace",
    # of a session: they are about what is at hand
    "lease", "discard", "id", "info", "context", "settings", "state", "manager", "head", "node", "heads",
    "usage", "checkpoint_id", "last_usage", "erased_state", "is_new", "location", "open_calls", "recorded_context",
    "unresolved_effects",
    # how verbs are run, each of which is one of those above
    "perform",
    # answers that are being written: threads send them, see tests/durability/test_streams.py
    "stream", "continue_stream", "keep_stream", "discard_stream", "open_streams", "follow_stream",
}  # fmt: skip
