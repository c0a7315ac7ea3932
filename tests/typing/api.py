"""The public API as a type checker sees it. Never run: mypy checks it, and each `type: ignore` must be needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_type

import treering
from treering import (
    HERE,
    Appended,
    AsyncSession,
    AsyncStore,
    AsyncView,
    Changed,
    CheckpointInfo,
    CheckpointView,
    ContextChanges,
    ContextItem,
    Diff,
    Draft,
    Erased,
    Event,
    Finding,
    GraphProblem,
    History,
    HistoryRow,
    Hooks,
    KeepCheckpoints,
    Lease,
    LoadFacts,
    Merged,
    Node,
    Nodes,
    Note,
    OpenOptions,
    OutlineRow,
    Pruned,
    Receipt,
    Repair,
    Schedule,
    Session,
    SessionInfo,
    Sessions,
    SessionSize,
    Siblings,
    Store,
    ValueChanges,
    View,
)


def check_open() -> None:
    """Stores are opened by path or URL, in two kinds."""
    assert_type(treering.open("~/agents"), Store)
    assert_type(treering.open(Path("agents"), namespace="tenant"), Store)
    assert_type(treering.open("s3://bucket/agents", storage_options={"key": "k"}), Store)
    assert_type(treering.open("gcs://bucket/agents", single_writer=True), Store)
    assert_type(treering.aopen("memory://"), AsyncStore)
    assert_type(treering.open("x", redactor=treering.redact_patterns([r"\d+"], keys=False)), Store)
    assert_type(treering.aopen("x", redactor=str.lower), AsyncStore)
    batches: list[treering.RequestBatch] = []
    assert_type(treering.open("x", observer=batches.append), Store)
    treering.aopen("x", observer=len)  # type: ignore[arg-type]
    treering.open("x", redactor=len)  # type: ignore[arg-type]
    treering.open("x", single_writr=True)  # type: ignore[call-arg]
    treering.open("x", "y")  # type: ignore[call-arg]


def check_store(store: Store) -> None:
    """What a store gives."""
    assert_type(store.namespace("user-42"), Store)
    assert_type(store.session("s"), Session)
    assert_type(store.session(), Session)
    options = OpenOptions(title="T", shared=True)
    assert_type(store.session("s", **options), Session)
    store.session(
        "s",
        title="T",
        project="p",
        cwd=".",
        extra={"any": 1},
        shared=False,
        create=True,
        durability="turn",
        checkpoints=Schedule(every_nodes=10),
        first_write="assistant",
        policy="default@1",
        hooks=Hooks(before_compaction=lambda facts: print(facts["summary"])),  # noqa: T201
    )
    store.session("s", tilte="T")  # type: ignore[call-arg]
    store.session("s", shared="yes")  # type: ignore[arg-type]
    assert_type(store.view("s"), View)
    with treering.open("x") as opened, opened.view("s") as view:
        assert_type(view, View)
    assert_type(store.sessions(project="p", status="done", limit=20, after=None), Sessions)
    assert_type(store.sessions().rows, tuple[SessionInfo, ...])
    assert_type(store.recent(cwd="."), SessionInfo | None)
    assert_type(store.verify("s"), list[Finding])
    assert_type(store.verify_all(), Iterator[tuple[str, list[Finding]]])
    assert_type(store.repair("s", into="t"), Repair)
    store.copy("s", store, name="t", progress=print)
    facts = LoadFacts(title="T")
    store.load("s", iter([treering.user("x")]), leaf=lambda: None, facts=facts)
    store.delete("s")
    store.delete("s", missing_ok=True)
    store.close()


def check_recording(session: Session, store: Store) -> None:
    """What an agent records."""
    assert_type(session.append("text", {"role": "user", "content": "x"}, treering.user("y")), Appended)
    assert_type(session.append("x", expect=None), Appended)
    assert_type(session.append("x", expect=HERE, head="main"), Appended)
    assert_type(session.append(treering.user("x", id="mine"), new_ids=True), Appended)
    session.append(1)  # type: ignore[arg-type]
    done = session.commit(["x"], state={"step": 3}, label="l", step=3, metadata={"m": 1}, manager=None)
    assert_type(done, Appended)
    assert_type(done.node, str)
    assert_type(done.head, str)
    assert_type(done.nodes, tuple[str, ...])
    assert_type(done.checkpoint, str | None)
    session.commit(
        context=[session.context[0], "node", ContextItem(node="node", message={"role": "user"})], drop=["key"]
    )
    session.commit(stat={"step": 3})  # type: ignore[call-arg]
    assert_type(session.compact("gist", kept="n", tokens_before=1, tokens_after=2, files_read=["a"]), Appended)
    assert_type(session.set_model("m", provider="p"), Appended)
    assert_type(session.set_thinking("high"), Appended)
    assert_type(session.set_mode(None), Appended)
    assert_type(session.note("exit", {"code": 0}, target="n", payload=b""), str)
    assert_type(session.record_system("prompt", [{}]), str)
    assert_type(session.record_extension("todo", [1]), str)
    session.set_title("T")
    session.set_status("done")
    session.move(project="p", cwd="c")
    session.label("n", None)
    session.record_usage(input=1, cost=0.5)
    session.record_usage(input="1")  # type: ignore[arg-type]
    session.amend("n", {"role": "user"})
    session.retract("n")
    session.unretract("n")
    session.checkout(None, keep_state=True)
    session.switch("main")
    session.branch("idea", node="n", summary="s")
    session.drop_head("idea")
    session.rewind("checkpoint")
    session.fork("copy", node="n", title="T", project="p", extra={"k": 1})
    session.claim()
    session.release()
    assert_type(session.is_new, bool)
    session.flush()
    session.seal()
    assert_type(session.optimize(everything=True), Merged)
    assert_type(session.prune(KeepCheckpoints(last=3), dry_run=True), Pruned)
    assert_type(session.erase("n", state=["token"], manager=True, reason="r"), Receipt)
    session.erase(states=["token"])  # type: ignore[call-arg]
    assert_type(session.refresh(), bool)
    assert_type(store.spawn(session, "child", task="t"), Session)
    with session as entered:
        assert_type(entered, Session)


def check_leases(session: Session, store: Store) -> None:
    """What a worker does that has a session for itself."""
    assert_type(store.session("s", claim=30, wait=1.5), Session)
    session.claim(ttl=30, wait=1.5)
    session.claim(30)  # type: ignore[call-arg]
    session.renew(ttl=60)


def check_reading(view: View, session: Session) -> None:
    """What can be asked, of a view and of a session alike."""
    for reader in (view, session):
        assert_type(reader.id, str)
        assert_type(reader.location, str)
        assert_type(reader.extensions(), tuple[Note, ...])
        assert_type(reader.info, SessionInfo)
        assert_type(reader.lease, Lease | None)
        assert_type(reader.context, tuple[ContextItem, ...])
        assert_type(reader.state, Mapping[str, Any])
        assert_type(reader.settings, Mapping[str, Any])
        assert_type(reader.manager, Any)
        assert_type(reader.erased_state, Mapping[str | None, Erased])
        assert_type(reader.head, str)
        assert_type(reader.node, str | None)
        assert_type(reader.heads, Mapping[str, str | None])
        assert_type(reader.checkpoint_id, str | None)
        assert_type(reader.usage, Mapping[str, int | float])
        assert_type(reader.last_usage, Mapping[str, int | float])
        reader.state["x"] = 1  # type: ignore[index]
        reader.heads["x"] = None  # type: ignore[index]
    assert_type(view.history(head="main", before=None, limit=5, retracted=True), History)
    assert_type(view.history().rows, tuple[HistoryRow, ...])
    assert_type(view.history().rows[0].sibling_ids, tuple[str, ...])
    assert_type(view.get("n"), Node)
    assert_type(view.original("n"), Any)
    assert_type(view.path(), tuple[str, ...])
    assert_type(view.children(None), tuple[str, ...])
    assert_type(view.siblings("n"), Siblings)
    assert_type(view.newest_leaf("n"), str)
    assert_type(view.leaves(), tuple[str, ...])
    assert_type(view.tree(), Sequence[OutlineRow])
    assert_type(view.nodes(), Nodes)
    assert_type(view.nodes()[0], Node)
    assert_type(view.nodes()[1:], tuple[Node, ...])
    assert_type(view.nodes().parents, tuple[str | None, ...])
    assert_type(view.problems(), tuple[GraphProblem, ...])
    assert_type(view.labels(), Mapping[str, str])
    assert_type(view.checkpoints(), tuple[CheckpointInfo, ...])
    assert_type(view.checkpoint("c"), CheckpointView)
    assert_type(view.context_at("n"), tuple[ContextItem, ...])
    assert_type(view.notes("usage", on_path=True), tuple[Note, ...])
    assert_type(view.extensions("todo"), tuple[Note, ...])
    assert_type(view.last_compaction(), str | None)
    assert_type(view.stored(), SessionSize)
    assert_type(view.refresh(), bool)
    assert_type(view.lines(), Iterator[bytes])
    assert_type(view.follow(poll_seconds=1), Iterator[Node])
    assert_type(view.events(after="x"), Iterator[Event])
    assert_type(view.at(3), View)
    view.append("x")  # type: ignore[attr-defined]
    view.state = {}  # type: ignore[misc]


def check_comparing(view: View, session: Session) -> None:
    """Two points of a session are compared by their ids."""
    for reader in (view, session):
        found = reader.diff("c", "n")
        assert_type(found, Diff)
        assert_type(reader.diff("c").context, ContextChanges)
        assert_type(found.state, ValueChanges)
        assert_type(found.settings.changed, Mapping[str, Changed])
        reader.diff()  # type: ignore[call-arg]


async def check_asynchronous(store: AsyncStore) -> None:
    """The same, awaited; methods are coroutines, so they make tasks."""
    async with await store.session("s", shared=True) as session:
        assert_type(session, AsyncSession)
        assert_type(await session.append("x"), Appended)
        assert_type(await session.commit(["x"], state={"n": 1}), Appended)
        assert_type(asyncio.create_task(session.append("x")), asyncio.Task[Appended])
        assert_type(session.state, Mapping[str, Any])
        assert_type(await session.history(), History)
        assert_type(session.follow(), AsyncIterator[Node])
        assert_type(session.events(first=0), AsyncIterator[Event])
        await session.fork("copy")
        await store.spawn(session, "child", task="t")
    assert_type(await store.view("s"), AsyncView)
    assert_type(await store.sessions(), Sessions)
    assert_type(await store.recent(), SessionInfo | None)
    assert_type(await store.verify("s"), list[Finding])
    assert_type(store.verify_all(), AsyncIterator[tuple[str, list[Finding]]])
    async with treering.aopen("~/agents") as other, other.session("s") as session, other.view("s") as view:
        assert_type(session, AsyncSession)
        assert_type(view, AsyncView)
    await store.copy("s", store, name="t")
    await store.copy("s", treering.open("x"))  # type: ignore[arg-type]
    await store.load("s", [], leaf=lambda: None)
    await store.delete("s")
    await store.close()


def check_drafts() -> None:
    """Messages and other nodes are made by functions that return drafts."""
    assert_type(treering.user("x"), Draft)
    assert_type(treering.assistant([{"type": "text", "text": "x"}]), Draft)
    assert_type(treering.tool("result", call="id"), Draft)
    assert_type(treering.system("x"), Draft)
    assert_type(treering.compaction("gist", kept=None), Draft)
    assert_type(treering.branch_summary("gist", source="n"), Draft)
    assert_type(treering.custom_message("type", "x"), Draft)
    assert_type(treering.change("model_change", model="m"), Draft)
    Draft("x")  # type: ignore[call-arg]


def check_errors(error: treering.TreeringError) -> None:
    """Errors carry a kind, a place and a remedy."""
    assert_type(error.kind, str)
    assert_type(error.key, str | None)
    assert_type(error.offset, int | None)
    assert_type(error.remedy, str)
