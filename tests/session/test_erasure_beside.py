"""Erasing and deleting: what drivers keep beside objects, and sessions that hold copies without saying so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.session.at_rest import Paused, holding
from tests.session.backends import Backend, local_backend, memory_backend, texts

from treering.format.paths import SessionKeys
from treering.journal import life
from treering.session.verbs import forking
from treering.storage.generic import GenericDriver
from treering.storage.requests import Batch, Driver, Put, Steps
from treering.storage.slots import HEADER_BYTES
from treering.transcript.node import Draft, user

SECRET = "the password is swordfish"


def slots_backend() -> Backend:
    """A store that keeps each register in two slots, of which one holds what it said before."""
    files, root = MemoryFileSystem(), f"/beside-{os.urandom(6).hex()}"

    def contents() -> dict[str, bytes]:
        found = {path: files.cat_file(path) for path in files.find(root)}
        return {path: data[HEADER_BYTES:] if path.endswith((".a", ".b")) else data for path, data in found.items()}

    return Backend("slots", lambda: GenericDriver(files, root), contents)


def talk(backend: Backend) -> str:
    """A session that says something secret; return the node that does."""
    with backend.store().session("s") as session:
        node = session.append(SECRET).node
        session.commit(["and now?"])
    return node


def test_no_slot_holds_what_a_register_said_before_it_was_erased() -> None:
    """Where a register has two slots, the older bytes go as well, and what is left is read as before."""
    backend = slots_backend()
    node = talk(backend)
    with backend.store().session("s") as session:
        session.erase(node)
    assert holding(backend.snapshot(), SECRET) == []
    with backend.store().session("s") as session:
        session.append("more")
        assert len(session.history().rows) == 3


def test_no_slot_holds_what_a_deleted_session_said() -> None:
    """Only the tombstones are left, and a purge takes those."""
    backend = slots_backend()
    talk(backend)
    backend.store().delete("s")
    assert holding(backend.snapshot(), SECRET) == []
    assert backend.store().purge("s") == ("s",)
    assert not [path for path in backend.snapshot() if "sessions/" in path or "latest/" in path]


@pytest.mark.parametrize("kind", ["latest/", "segments/", "sessions/s/tail"])
@pytest.mark.parametrize("verb", ["erase", "delete", "purge"])
def test_what_killed_writers_left_goes_too(tmp_path: Path, kind: str, verb: str) -> None:
    """In every folder of the session, also where nothing has to be written and the folder was settled before."""
    backend = local_backend(tmp_path / "store")
    store = backend.store()
    with store.session("s") as session:
        node = session.append(SECRET).node
        session.seal()
        session.commit(["and now?"])
        folder = next(os.path.dirname(name) for name in backend.snapshot() if kind in name)
        if verb == "erase":
            session.erase(node)  # nothing of it is left to be rewritten
            leave(tmp_path / "store" / folder)
            session.erase(node)
    if verb != "erase":
        leave(tmp_path / "store" / folder)
        store.delete("s")
    if verb == "purge" and not kind.startswith("latest"):
        leave(tmp_path / "store" / folder)
        store.purge("s")
    assert holding(backend.snapshot(), SECRET) == []


def leave(folder: Path) -> None:
    """A temporary file whose writer was killed."""
    (folder / ".tmp-0123456789ab").write_text(SECRET)


# copies that do not say where they are


def test_a_fork_that_was_killed_when_it_was_made_holds_nothing_that_was_erased_meanwhile() -> None:
    """Whenever it read what it copies: it has not to come back for that. A session that is there is clean."""
    before = 0
    while stopped := begun(before):
        backend, steps, batch = stopped
        with backend.store().session("s", shared=True) as session:
            session.erase(*[row.node.id for row in session.history().rows if row.node.payload == asked(SECRET)])
        for sent in until_made(steps, backend.driver(), batch):
            made = any(isinstance(request, Put) and request.key.startswith("latest/fork") for request in sent)
            if made and "fork" in {row.id for row in backend.store().sessions().rows}:
                assert SECRET not in str(backend.store().view("fork").history().rows), before
        backend.store().view("fork")
        before += 1
    assert before > 10


def begun(count: int) -> tuple[Backend, Steps[None], Batch] | None:
    """A fork of a session that was stopped before its request of that number; None if it has fewer."""
    backend = memory_backend()
    talk(backend)
    steps = forking.fork(backend.store().session("s", shared=True)._reader, "fork")
    batch = next(steps)
    for _ in range(count):
        try:
            batch = steps.send(backend.driver().execute(batch))
        except StopIteration:
            return None
    return backend, steps, batch


def until_made(steps: Steps[None], driver: Driver, batch: Batch) -> Iterator[Batch]:
    """Go on to the end; yield each batch when it was answered."""
    while True:
        answers = driver.execute(batch)
        yield batch
        try:
            batch = steps.send(answers)
        except StopIteration:
            return


def asked(text: str) -> dict[str, str]:
    """What a user's message is stored as."""
    return {"role": "user", "content": text}


def forks_of(backend: Backend, *names: str) -> str:
    """A session and forks, each of the one before; return the node that says something secret."""
    node = talk(backend)
    for parent, fork in zip(("s", *names), names, strict=False):
        with backend.store().session(parent) as session:
            session.fork(fork)
    return node


def test_forks_of_several_deleted_forks_are_found() -> None:
    """Nothing names those between any more, so all are looked at whose parent is not there."""
    backend = memory_backend()
    node = forks_of(backend, "a", "b", "c")
    backend.store().delete("a")
    backend.store().delete("b")
    with backend.store().session("s") as session:
        receipt = session.erase(node)
    assert ([each.session for each in receipt.forks], receipt.missing) == (["c"], ("a",))
    assert holding(backend.snapshot(), SECRET) == []


def test_forks_are_found_whose_parent_lost_its_name_to_another_session() -> None:
    """It is no fork of ours, so the fork is missing, and what was copied from it is looked for."""
    backend = memory_backend()
    node = forks_of(backend, "a", "b")
    backend.store().delete("a")
    with backend.store().session("a") as session:
        session.append("something else")
    with backend.store().session("s") as session:
        receipt = session.erase(node)
    assert ([each.session for each in receipt.forks], receipt.missing) == (["b"], ("a",))
    assert holding(backend.snapshot(), SECRET) == []


def family(backend: Backend) -> str:
    """A session with secret state, a fork of it, and a subagent; return the link to the subagent."""
    with backend.store().session("s") as session:
        session.commit(["hello"], state={"key": SECRET})
        session.fork("fork")
        with backend.store().spawn(session, "child", task=SECRET) as child:
            child.append("at work")
        (link,) = [note.id for note in session.notes("link") if "child" in note.brief]
    return link


@pytest.mark.parametrize("way", ["copy", "repair"])
def test_forks_of_a_session_that_got_another_name_lose_its_state(way: str) -> None:
    """Their parent is gone, and the session is a copy of it. A later value stays, also in another erasure."""
    backend = memory_backend()
    link, store = family(backend), backend.store()
    store.copy("s", name="t") if way == "copy" else store.repair("s", into="t")
    store.delete("s")
    with store.session("t") as session:
        receipt = session.erase(link, state=["key"])
    assert [(each.session, each.state) for each in receipt.forks] == [("fork", ("key",)), ("child", ())]
    assert holding(backend.snapshot(), SECRET) == []
    with store.session("fork") as fork:
        fork.commit(["more"], state={"key": SECRET})
    with store.session("t") as session:
        again = session.erase()
    assert ([each.session for each in again.forks], again.missing, again.warnings) == (["fork", "child"], (), ())
    assert store.view("fork").state == {"key": SECRET}


def test_a_copy_says_which_forks_are_those_of_the_original() -> None:
    """They keep their state, as the original does."""
    backend = memory_backend()
    family(backend)
    store = backend.store()
    store.copy("s", name="t")
    with store.session("t") as session:
        receipt = session.erase(state=["key"])
    assert (receipt.forks, receipt.missing) == ((), ("fork",))
    assert ["'fork'" in warning for warning in receipt.warnings] == [True]
    assert store.view("fork").state == store.view("s").state == {"key": SECRET}


def test_a_session_that_has_the_id_by_chance_is_left_alone() -> None:
    """Ids of other programs are short, and unique only within their session; the payload tells a copy."""
    backend = memory_backend()
    with backend.store().session("s") as session:
        session.append(user(SECRET, id="4a5b6c7d"))
        session.fork("a")
    backend.store().delete("a")
    with backend.store().session("parent") as parent, backend.store().spawn(parent, "b", task="") as child:
        child.append(user("something else", id="4a5b6c7d"))
    backend.store().delete("parent")
    with backend.store().session("s") as session:
        assert session.erase("4a5b6c7d").forks == ()
    assert "something else" in str(backend.store().view("b").context)


def test_a_deletion_of_a_fork_that_was_cut_short_is_finished() -> None:
    """Else its card and its segments would keep what was erased."""
    backend = memory_backend()
    node = forks_of(backend, "a")
    keys = SessionKeys("", "a", appends=False)
    Paused(life.delete(keys, nonce="n"), backend.driver(), lambda request: getattr(request, "key", "") == keys.latest
           and isinstance(request, Put))  # fmt: skip
    with backend.store().session("s") as session:
        assert session.erase(node).missing == ("a",)
    assert holding(backend.snapshot(), SECRET) == []


def test_what_a_program_shows_in_place_of_a_message_goes_with_it() -> None:
    """An edit of pi holds the rest of the message that it is about, and a result must still name its call."""
    backend = memory_backend()
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "details": {"stdout": SECRET}}
    call = {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}]}
    edit = {"replacement": {"content": f"in short: {SECRET}"}, "message": {**result, "content": None}}
    with backend.store().session("s", policy="pi-1.5") as session:
        session.append(call)
        node = session.append({**result, "content": [{"type": "text", "text": SECRET}]}).node
        shown = session.append(
            Draft(kind="context_edit", role="", payload=edit, brief={"target": node, "edit": "amend"})
        ).node
        session.commit(["and now?"])
        assert [item.node for item in session.context][1:2] == [shown]
        session.seal()
        session.fork("a")
        assert session.erase(node).records == 2
        assert session.context[1].message == {
            "role": "toolResult", "toolCallId": "c1", "toolName": "bash", "content": "[erased]",
        }  # fmt: skip
    assert holding(backend.snapshot(), SECRET) == []
    assert "toolCallId" in str(backend.store().view("a").context[1].message)


def test_an_edit_that_only_hides_a_message_goes_on_hiding_it() -> None:
    """There is no copy in it."""
    backend = memory_backend()
    with backend.store().session("s", policy="pi-1.5") as session:
        node = session.append(user(SECRET)).node
        session.append(
            Draft(kind="context_edit", payload={"replacement": None}, brief={"target": node, "edit": "retract"})
        )
        session.commit(["and now?"])
        assert session.erase(node).records == 1
        assert texts(session.context) == ["and now?"]
