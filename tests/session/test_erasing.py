"""Erasing: nothing of a payload is stored any more, wherever it had been copied to, and nothing else is lost."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.sampling import few
from tests.servers import S3Server
from tests.session.at_rest import KilledDriver, KilledError, Paused, holding, replaces
from tests.session.backends import KINDS, Backend, backend_of, kill, memory_backend, texts

from treering.api.store import Store
from treering.erasure import erasing
from treering.errors import ConflictError, NotFoundError, UnavailableError, UsageError
from treering.format.erasure import Erased, Erasure
from treering.format.record import decode_record
from treering.ids import now_ms
from treering.journal.erase import fence
from treering.journal.resume import resume
from treering.session.content import ContextItem
from treering.session.verbs import forking
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Delete, Put, Request
from treering.storage.run import run
from treering.storage.s3 import S3Driver
from treering.store.place import Place
from treering.transcript.node import Draft, assistant, tool, user

SECRET, EDITED, INLINE = "the password is swordfish", "the password is sw***", "what the model saw was swordfish"
KILLED_EVERY = few(3, whole=1)  # a process is killed behind every third of its requests; `make whole`: behind each


@pytest.fixture(params=[*KINDS, pytest.param("s3", marks=pytest.mark.s3)])
def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A place for sessions on each kind of driver, a real server among them."""
    if request.param != "s3":
        yield backend_of(request.param, tmp_path / "store")
    else:
        server: S3Server = request.getfixturevalue("seaweedfs")
        prefix = f"erasing-{os.urandom(6).hex()}"
        options = server.storage_options

        def driver() -> S3Driver:
            return S3Driver(f"{server.bucket}/{prefix}", storage_options=options)

        yield Backend("s3", driver, lambda: server.objects(prefix))


def talk(store: Store) -> str:
    """A session that says something secret in every way there is; return the node that does."""
    with store.session("s") as session:
        node = session.append(SECRET).node
        session.commit(["what now?"], state={"step": 1})
        session.seal()
        session.amend(node, {"role": "user", "content": EDITED})
        session.commit(["and then?"], state={"step": 2})
        inline = ContextItem(node=node, message={"role": "user", "content": INLINE})
        shown = [inline if item.node == node else item.node for item in session.context]
        session.commit(["done"], context=shown)
        session.label(node, "here")
        session.seal()
        session.commit(["more"])
    return node


def fork(backend: Backend, session: str, name: str) -> None:
    """Fork a session and let it go."""
    with backend.store().session(session, shared=True) as opened:
        opened.fork(name)


def test_nothing_of_it_is_stored_any_more(everywhere: Backend) -> None:
    """Not in the tail, in latest, in segments or their indexes, nor in edits and checkpoints that copied it."""
    node = talk(everywhere.store())
    fork(everywhere, "s", "fork")
    assert len(holding(everywhere.snapshot(), SECRET)) >= 2
    with everywhere.store().session("s") as session:
        receipt = session.erase(node, reason="asked by the user")
    assert holding(everywhere.snapshot(), SECRET, EDITED, INLINE, "swordfish") == []
    assert (receipt.ids, receipt.epoch, [each.session for each in receipt.forks]) == ((node,), 1, ["fork"])
    for name in ("s", "fork"):
        view = everywhere.store().view(name)
        assert "swordfish" not in str((view.context, view.history(), view.info))
        assert everywhere.store().verify(name) == []
        (found,) = [row.node for row in view.history(limit=100).rows if row.node.id == node]
        assert found.erased
        assert isinstance(found.payload, Erased)
        assert (found.payload.sha256, found.payload.reason) == (receipt.hashes[node], "asked by the user")
        assert found.label == "here"
        assert texts(view.context) == ["[erased]", "what now?", "and then?", "done", "more"]


def test_what_stalled_processes_write_later_is_found_by_the_next_who_tidies(everywhere: Backend) -> None:
    """A sealer, a merger, an append and a fork that read the payload before it was erased, and go on after that."""
    node = talk(everywhere.store())
    driver = everywhere.driver()
    place = Place(driver)

    def pause(verb: Callable[..., object], *args: object, before: Callable[[Request], bool]) -> Paused[object]:
        session = Store(place).session("s", shared=True)
        return Paused(verb(session._reader, *args), driver, before)  # type: ignore[arg-type]

    with Store(place).session("s", shared=True) as session:
        session.append("unsealed")
        last = session.append(f"later: {SECRET}").node
    paused = [
        pause(lambda writer: writer.upkeep.seal(), before=replaces("/segments/")),
        pause(lambda writer: writer.upkeep.optimize(everything=True), before=replaces("/segments/")),
        pause(
            lambda writer: writer.upkeep.optimize(everything=True), before=lambda request: isinstance(request, Delete)
        ),
        pause(forking.fork, "fork", before=replaces("/segments/")),
        pause(forking.fork, "another", before=replaces("latest/another")),
    ]
    with everywhere.store().session("s", shared=True) as session:
        receipt = session.erase(node, last)
    assert set(receipt.missing) == {"fork", "another"}
    for each in paused:
        try:
            each.go_on()
        except ConflictError:  # a fork whose folder was taken away
            continue
    with everywhere.store().session("s", shared=True) as session:
        session.erase()
        session.optimize(everything=True)
    assert holding(everywhere.snapshot(), "swordfish") == []
    assert everywhere.store().view("s").state == {"step": 2}


APPENDS_MAX = 60
"""Of each that appends as fast as it can: whoever erases may lose every race until they stop."""


def test_others_append_while_something_is_erased(backend: Backend) -> None:
    """What they were told is recorded stays; what was erased stays away."""
    node = talk(backend.store())
    told: dict[int, list[str]] = {0: [], 1: []}
    started, stop = threading.Barrier(3), threading.Event()

    def work(number: int) -> None:
        with backend.store().session("s", shared=True) as session:
            started.wait()
            while len(told[number]) < 5 or not (stop.is_set() or len(told[number]) == APPENDS_MAX):
                told[number].append(session.append(f"{number}: {len(told[number])}").node)
                if len(told[number]) % 7 == 0:
                    session.seal()

    workers = [threading.Thread(target=work, args=(number,)) for number in told]
    for worker in workers:
        worker.start()
    with backend.store().session("s", shared=True) as session:
        started.wait()
        while not stop.is_set():
            with contextlib.suppress(UnavailableError):  # others were always first
                session.erase(node)
                stop.set()
        for worker in workers:
            worker.join()
        session.refresh()
        session.optimize(everything=True)
    view = backend.store().view("s")
    there = {row.id for row in view.nodes()}
    assert there >= {*told[0], *told[1]}
    assert holding(backend.snapshot(), "swordfish") == []
    assert [each for each in backend.store().verify("s") if each.kind != "waste"] == []


@pytest.mark.parametrize("appends", [False, True])
def test_killed_at_every_request_it_can_be_finished(*, appends: bool) -> None:
    """Whatever was sent last, nothing else is lost, and erasing again takes the payload out of everything."""
    finished = False
    for requests in range(0, 200, KILLED_EVERY):
        backend = memory_backend(appends=appends)
        node = talk(backend.store())
        store = backend.store()
        with store.session("s") as asking, store.spawn(asking, "child", task=SECRET) as child:
            child.append("at work")
        fork(backend, "s", "fork")
        link = store.view("s").notes("link")[0].id
        before = [row.id for row in backend.store().view("s").nodes()]
        killed = Store(Place(KilledDriver(backend.driver(), requests)))
        try:
            with killed.session("s", shared=True) as opened:
                opened.erase(node, link)
            finished = True
        except KilledError:
            pass
        assert [row.id for row in backend.store().view("s").nodes()] == before
        with backend.store().session("s", shared=True) as opened:
            opened.append("life goes on")
            opened.seal()
            opened.erase(node, link)
        assert holding(backend.snapshot(), "swordfish") == [], f"killed after {requests} requests"
        assert [each for each in backend.store().verify("s") if each.kind != "waste"] == []
        if finished:
            return
    pytest.fail("it never came to its end")


def test_an_exclusive_session_goes_on_when_somebody_else_erased(backend: Backend) -> None:
    """Nobody wrote in its place; it forgets what was erased, and writes none of it again."""
    if backend.name == "local":
        pytest.skip("another process cannot open it there")
    node = talk(backend.store())
    with Store(Place(backend.driver())).session("s") as session:
        assert INLINE in texts(session.context)
        kill(session)
        with backend.store().session("s", shared=True) as other:
            other.erase(node)
        session.append("next")
        session.commit(["last"], state={"step": 3})
        session.seal()
        assert texts(session.context) == ["[erased]", "what now?", "and then?", "done", "more", "next", "last"]
        assert session.info.first_prompt == "[erased]"
    assert holding(backend.snapshot(), "swordfish") == []


def test_a_turn_that_edits_what_is_erased_meanwhile_is_recorded_without_the_edit(backend: Backend) -> None:
    """The erasure wins; the messages of the turn are not lost."""
    if backend.name == "local":
        pytest.skip("another process cannot open it there")
    node = talk(backend.store())
    with backend.store().session("s", shared=True) as session:
        shown = [ContextItem(node=item.node, message=item.message) for item in session.context]
        with backend.store().session("s", shared=True) as other:
            other.erase(node)
        session.commit(["a turn"], context=shown)
        with pytest.raises(UsageError, match="cannot be amended"):
            session.amend(node, {"role": "user", "content": SECRET})
        assert "a turn" in texts(session.context)
    assert holding(backend.snapshot(), "swordfish") == []


# blobs


def blob_keys(backend: Backend) -> set[str]:
    """Digests of the blobs that are stored."""
    return {key.rpartition("/")[2] for key in backend.snapshot() if "/blobs/" in key}


def test_a_blob_goes_with_the_last_record_that_has_it(backend: Backend) -> None:
    """One that another record has as well stays, and the receipt says so."""
    data = os.urandom(40_000)
    with backend.store().session("s") as session:
        first = session.append(user([{"type": "file", "data": data}])).node
        second = session.append(user([{"type": "file", "data": data}])).node
        (digest,) = blob_keys(backend)
        receipt = session.erase(first)
        assert (receipt.blobs_shared, receipt.blobs_deleted) == ((digest,), ())
        assert session.get(second).payload == {"role": "user", "content": [{"type": "file", "data": data}]}
        receipt = session.erase(second)
        assert (receipt.blobs_shared, receipt.blobs_deleted) == ((), (digest,))
    assert blob_keys(backend) == set()


def test_what_was_a_blob_that_was_erased_is_kept_inside_when_it_is_said_again(backend: Backend) -> None:
    """Its blob may still be about to be deleted, so nothing refers to it again."""
    data = os.urandom(40_000)
    with backend.store().session("s") as session:
        session.erase(session.append(user([{"type": "file", "data": data}])).node)
        node = session.append(user([{"type": "file", "data": data}])).node
    assert blob_keys(backend) == set()
    payload = backend.store().view("s").get(node).payload
    assert payload == {"role": "user", "content": [{"type": "file", "data": data}]}


# what stays


def test_calls_and_results_still_belong_together(store: Store) -> None:
    """A provider refuses a result without its call, so both keep the call's id when either is erased."""
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"cat secret"}'}}
    with store.session("s") as session:
        asked = session.append(assistant(None, tool_calls=[call])).node
        answered = session.append(tool("swordfish", call="call_1")).node
        session.erase(asked, answered)
        assert [item.message for item in session.context] == [
            {"role": "assistant", "content": None,
             "tool_calls": [{"type": "function", "id": "call_1", "function": {"name": "bash", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "[erased]"},
        ]  # fmt: skip


def test_notes_can_be_erased_and_what_they_say_of_the_session_goes_with_them(store: Store, backend: Backend) -> None:
    """The title is empty then; another one can be given."""
    with store.session("s") as session:
        session.append("hello")
        session.set_title("swordfish")
        (title,) = session.notes("title")
        session.erase(title.id)
        assert session.info.title == ""
    assert store.view("s").info.title == ""
    assert holding(backend.snapshot(), "swordfish") == []
    with store.session("s") as session:
        session.set_title("another")
    assert store.view("s").info.title == "another"


def test_a_message_sent_again_after_it_was_erased_is_not_recorded_twice(store: Store) -> None:
    """Its hash tells that it is the one that was erased."""
    with store.session("s") as session:
        node = session.append(user("hello", id="mine")).node
        session.erase(node)
        assert session.append(user("hello", id="mine")).node == "mine"
        with pytest.raises(UsageError, match="another one"):
            session.append(user("something else", id="mine"))
        assert len(session.nodes()) == 1


def test_a_compaction_that_is_erased_keeps_what_it_kept(store: Store) -> None:
    """Where the kept messages begin is no part of its payload."""
    with store.session("s") as session:
        session.append("one")
        kept = session.append("two").node
        node = session.compact("a summary", kept=kept).node
        session.erase(node)
        assert texts(session.context) == ["[erased]", "two"]
    assert texts(store.view("s").context) == ["[erased]", "two"]


@pytest.mark.parametrize("what", ["nobody", "a checkpoint", "an edit"])
def test_what_cannot_be_erased_is_refused_before_anything_is_written(what: str, backend: Backend) -> None:
    """Unknown ids, checkpoints and edits."""
    store = backend.store()
    node = talk(store)
    with store.session("s") as session:
        lines = [decode_record(line) for line in session.lines()]
        (edit,) = [record.id for record in lines if record.kind == "amend"]
        wanted = {"an edit": edit, "a checkpoint": session.checkpoint_id or ""}.get(what, what)
        before = backend.snapshot()
        with pytest.raises((NotFoundError, UsageError)):
            session.erase(node, wanted)
        assert backend.snapshot() == before


@pytest.mark.parametrize("verb", ["set_model", "set_thinking", "set_mode"])
def test_a_setting_stays_and_the_receipt_says_so(store: Store, verb: str) -> None:
    """Other nodes of the call are erased; a call without ids repeats the warning."""
    with store.session("s") as session:
        node = session.append(SECRET).node
        setting = getattr(session, verb)("plan").node
        session.commit(["go on"], state={"step": 1})
        before = dict(session.settings)
        for receipt in (session.erase(node, setting), session.erase()):
            assert [setting in warning for warning in receipt.warnings if "settings stay" in warning] == [True]
            assert node not in str(receipt.warnings)
        assert session.settings == before
        assert not any("settings" in warning for warning in session.erase(node).warnings)


def test_texts_in_fields_that_are_kept_go_too(store: Store, backend: Backend) -> None:
    """Of switches and numbers that other records depend on, only such values are kept."""
    switches: dict[str, object] = {"context": False, "tokens_before": 3}
    secrets: dict[str, object] = {"kept": SECRET, "empty": SECRET, "tokens_after": [SECRET]}
    with store.session("s") as session:
        node = session.append(
            Draft(type="node", kind="message", role="user", payload="p", brief=switches | secrets)
        ).node
        usage = session.note("usage", {"input": 5, "turn": False, "reset": SECRET, "copied": SECRET})
        session.commit(["go on"])
        session.erase(node, usage)
        assert dict(session.get(node).brief) == {**switches, "erased": True}
        (note,) = session.notes("usage")
        assert dict(note.brief) == {"input": 5, "turn": False, "erased": True}
    assert holding(backend.snapshot(), SECRET) == []


# subagents


def test_the_task_of_a_subagent_leaves_its_card_with_the_link(backend: Backend) -> None:
    """The link and the card have the task of the subagent; its session can be continued."""
    store = backend.store()
    with store.session("s") as session:
        session.append("hello")
        with store.spawn(session, "child", task=SECRET) as child:
            child.commit(["at work"], state={"n": 1})
            child.seal()
        with store.spawn(session, "other", task="nothing to hide") as child:
            child.append("at work")
        store.spawn(session, "never", task=SECRET).close()
        links = session.notes("link")
        receipt = session.erase(links[0].id, links[2].id)
        assert [each.session for each in receipt.forks] == ["child"]
        assert receipt.missing == ("never",)
        assert session.erase().missing == ("never",)
    assert holding(backend.snapshot(), SECRET) == []
    rows = {row.id: (row.task, row.parent_session) for row in backend.store().each_session()}
    assert rows == {"s": ("", None), "child": ("", "s"), "other": ("nothing to hide", "s")}
    with backend.store().session("child") as child:
        child.append("on")
        assert (texts(child.context), child.state) == (["at work", "on"], {"n": 1})
        assert child.info.task == ""
    assert [found for found in backend.store().verify("child") if found.kind != "waste"] == []


def test_a_session_that_has_the_name_of_a_subagent_keeps_its_task(backend: Backend) -> None:
    """It is another one, which was asked by another one."""
    store = backend.store()
    with store.session("s") as session, store.session("t") as other:
        store.spawn(session, "child", task=SECRET).close()
        with store.spawn(other, "child", task="its own") as child:
            child.append("at work")
        (link,) = session.notes("link")
        assert session.erase(link.id).forks == ()
    assert backend.store().view("child").info.task == "its own"


# forks


def test_a_fork_of_a_deleted_fork_is_found(backend: Backend) -> None:
    """Its link went with the session that it was copied from, so it is looked for by the way back."""
    node = talk(backend.store())
    fork(backend, "s", "child")
    fork(backend, "child", "grandchild")
    backend.store().delete("child")
    with backend.store().session("s", shared=True) as session:
        receipt = session.erase(node)
    assert receipt.missing == ("child",)
    assert [each.session for each in receipt.forks] == ["grandchild"]
    assert holding(backend.snapshot(), "swordfish") == []


def test_a_fork_that_cannot_be_read_is_named(backend: Backend) -> None:
    """The receipt does not say that it is clean."""
    node = talk(backend.store())
    fork(backend, "s", "child")
    driver = backend.driver()
    driver.execute((Put("latest/child.jsonl.zst", b"damaged"),))
    with backend.store().session("s", shared=True) as session:
        receipt = session.erase(node)
    assert list(receipt.unreachable) == ["child"]
    assert any("could not be read" in warning for warning in receipt.warnings)


def test_a_killed_fork_leaves_nothing_of_it(backend: Backend) -> None:
    """Its segments are of a life that never came to be."""
    node = talk(backend.store())
    session = backend.store().session("s", shared=True)
    Paused(forking.fork(session._reader, "fork"), backend.driver(), replaces("latest/fork"))
    kill(session)
    assert any("fork" in key for key in holding(backend.snapshot(), "swordfish"))
    with backend.store().session("s", shared=True) as opened:
        opened.erase(node)
    assert holding(backend.snapshot(), "swordfish") == []


# warnings


class Versioned(MemoryDriver):
    """A store that keeps what was replaced, or does not say."""

    def __init__(self, *, says: bool | None) -> None:
        super().__init__()
        self.says = says

    def keeps_versions(self) -> bool | None:
        return self.says


@pytest.mark.parametrize(("says", "word"), [(True, "versioning"), (None, "unknown"), (False, "")])
def test_old_versions_are_warned_of(*, says: bool | None, word: str) -> None:
    """Erasing cannot reach them."""
    with Store(Place(Versioned(says=says))).session("s") as session:
        receipt = session.erase(session.append("hello").node)
    assert [word in warning for warning in receipt.warnings] == ([True] if word else [])


@pytest.mark.s3
def test_a_bucket_is_asked_for_versioning(seaweedfs: S3Server) -> None:
    """In one request; a bucket that has it is warned of."""
    client = seaweedfs.client()
    bucket = f"versions-{os.urandom(4).hex()}"
    client.create_bucket(Bucket=bucket)
    driver = S3Driver(bucket, storage_options=seaweedfs.storage_options)
    assert driver.keeps_versions() is False
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert driver.keeps_versions() is True
    assert S3Driver("no-such-bucket-here", storage_options=seaweedfs.storage_options).keeps_versions() is None


async def test_an_asynchronous_session_erases_as_well(backend: Backend) -> None:
    """By the same protocol."""
    node = talk(backend.store())
    async with await backend.async_store().session("s") as session:
        receipt = await session.erase(node, state=["step"])
        assert not session.state
        assert set(session.erased_state) == {"step"}
    assert (receipt.ids, receipt.state) == ((node,), ("step",))
    assert holding(backend.snapshot(), "swordfish") == []


def test_verify_tells_of_an_erasure_that_was_cut_short(backend: Backend) -> None:
    """Nothing is damaged, and the next who tidies finishes it."""
    node = talk(backend.store())
    with backend.store().session("s", shared=True) as session:
        paused = Paused(erasing.erase(session._reader, node), backend.driver(), lambda each: isinstance(each, Delete))
        assert {each.kind for each in backend.store().verify("s")} >= {"dirty"}
        assert {each.severity for each in backend.store().verify("s")} == {"oddity"}
        session.optimize()
        paused.go_on()
    assert [each for each in backend.store().verify("s") if each.kind != "waste"] == []


def test_frames_of_an_erasure_that_was_cut_short_are_not_remembered(backend: Backend) -> None:
    """Segments still hold it, so what is read of them shows the rest and stays in the memory of no handle."""
    node = talk(backend.store())

    def rewrites(request: Request) -> bool:
        return isinstance(request, Put) and "/segments/" in request.key

    with backend.store().session("s", shared=True) as session:
        Paused(erasing.erase(session._reader, node), backend.driver(), rewrites)
        store = Store(Place(backend.driver()))
        shown = store.view("s").history().rows
        assert [row.node.id for row in shown if row.node.erased] == [node]
    assert [key for key, (content, _) in store.place.memory().frames._held.items() if b"swordfish" in content] == []


@pytest.mark.parametrize("at", [0, 1, 2])
def test_positions_behind_the_end_are_not_listed_as_erased(at: int) -> None:
    """What comes there next would count as erased."""
    backend = memory_backend(appends=True)
    with backend.store().session("s") as session:
        session.append("one")
    view = run(resume(Store(Place(backend.driver())).view("s")._reader.keys), backend.driver())
    assert view.end == 1
    fenced = run(fence(view, Erasure(epoch=0, records=((at, "x"),)), nonce="n"), backend.driver())
    assert (fenced is None) == (at > 0)
    with backend.store().session("s") as session:
        session.append("two")
        assert texts(session.context)[-1] == "two"


@pytest.mark.parametrize("made", ["fork", "copy", "repair"])
def test_what_was_erased_is_gone_from_copies_that_are_made_later(backend: Backend, made: str) -> None:
    """They list no erasure of their own; still no amendment and no edited context brings a message back."""
    store = backend.store()
    with store.session("s") as session:
        node = session.append(SECRET).node
        session.append("on")
        session.erase(node)
        session.fork("fork")
    store.copy("s", name="copy")
    store.repair("s", into="repair")
    with store.session(made) as session:
        with pytest.raises(UsageError, match="erased"):
            session.amend(node, user(SECRET))
        other = session.context[-1].node
        session.commit(context=[ContextItem(node=node, message={"role": "user", "content": SECRET}), other])
        assert texts(session.context) == ["[erased]", "on"]
    assert texts(backend.store().view(made).context) == ["[erased]", "on"]
    assert holding(backend.snapshot(), SECRET) == []


def test_the_task_of_a_later_subagent_stays(backend: Backend) -> None:
    """Only the card of the subagent whose link was erased has the same text; another one may have its name now."""
    store = backend.store()
    session = store.session("s")
    session.append("hi")
    for task in ("secret one", "harmless two"):
        with store.spawn(session, "child", task=task) as child:
            child.append("work")
        if task == "secret one":
            store.delete("child")
    first, second = (note.id for note in session.notes("link"))
    session.erase(first)
    assert backend.store().view("child").info.task == "harmless two"
    session.erase(second)
    assert backend.store().view("child").info.task == ""


def test_the_task_of_a_subagent_goes_though_it_was_linked_again(backend: Backend) -> None:
    """A second link of its name, behind its creation, made no other session."""
    store = backend.store()
    session = store.session("s")
    session.append("hi")
    with store.spawn(session, "child", task="secret") as child:
        child.append("work")
    while now_ms() <= backend.store().view("child").info.created_ms:
        pass
    session.note("link", {"child": "child", "task": "another"})
    session.erase(session.notes("link")[0].id)
    assert backend.store().view("child").info.task == ""
