"""A repair saves what can be read of a damaged session into a new one, says what is lost, and leaves the old one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec
import pytest
from tests.drivers import PassingDriver
from tests.session.backends import Backend, memory_backend, texts

import treering
from treering.api.store import Store
from treering.api.view import View
from treering.errors import ConflictError, CorruptError, FormatVersionError, NotFoundError, UnavailableError, UsageError
from treering.format.erasure import Erased
from treering.format.line import close_line
from treering.format.register import Tail, decode_tail, encode_tail
from treering.format.salvage import salvage_content
from treering.format.segment import build_segment, read_footer, read_segment
from treering.maintenance.repair import Repair
from treering.storage.requests import Answer, Batch, Delete, Driver, Found, Get, Put, Request
from treering.store.place import Place

LARGE = "large " * 60_000
SAID = ["m0", "m1", "m2", "m3", "m4", "m5", LARGE, "m7"]


class Damaged(NamedTuple):
    """A session `s`: two segments, a tail, a branch, a blob, and a checkpoint at every turn."""

    backend: Backend

    @property
    def store(self) -> Store:
        return self.backend.store()

    @property
    def objects(self) -> dict[str, bytes]:
        return self.backend.snapshot()

    def key(self, part: str, number: int = 0) -> str:
        """The key of an object of `s`."""
        return sorted(key for key in self.objects if part in key and "/s" in key)[number]

    def put(self, key: str, data: bytes | None) -> None:
        """Replace an object, or remove it."""
        self.backend.driver().execute((Delete((key,)) if data is None else Put(key, data),))

    def repair(self) -> tuple[Repair, View]:
        """Repair into `t`; the damaged session must stay as it is, and the new one be sound but for lost blobs."""
        before = self.objects
        done = self.store.repair("s", into="t")
        after = self.objects
        new = ("latest/t.", "/t/", ".t=.")
        assert {key: data for key, data in after.items() if not any(part in key for part in new)} == before
        damage = [each for each in self.store.verify("t") if each.severity == "damage"]
        assert {each.kind for each in damage} <= {"missing_blob"}
        view = self.store.view("t")
        for entry in view.checkpoints():
            view.checkpoint(entry.id)
        for row in view.nodes():
            view.get(row.id)
        with self.store.session("t") as session:
            session.append("on")
        return done, view


@pytest.fixture(params=[False, True], ids=["objects", "logs"])
def damaged(request: pytest.FixtureRequest) -> Damaged:
    """The session, sound so far."""
    place = Damaged(memory_backend(appends=request.param))
    with place.store.session("s", title="T", project="P") as session:
        for number in range(4):
            session.commit([SAID[number]], state={"n": number})
        session.seal()
        session.commit(["m4"], state={"n": 4, "kept": "since here"}, label="four")
        session.branch("other")
        session.append("m5", LARGE)
        session.seal()
        session.commit(["m7"], state={"n": 7})
    return place


def said(view: View) -> list[object]:
    """What all messages of all branches say, in the order they were recorded."""
    payloads = [view.get(row.id).payload for row in view.nodes()]
    return [each["content"] if isinstance(each, dict) else each for each in payloads]


def kinds(done: Repair) -> set[str]:
    """What sorts of loss there are."""
    return {loss.kind for loss in done.losses}


def flip(data: bytes, at: int) -> bytes:
    """One bit of one byte."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_sound_session_is_repaired_to_itself(damaged: Damaged) -> None:
    """Nothing is lost of what is sound: records, branches, context, state, facts, large parts."""
    before = damaged.store.view("s")
    done, view = damaged.repair()
    assert done.losses == ()
    assert not done.lost
    assert said(view) == SAID
    assert (texts(view.context), view.state) == (SAID, {"n": 7, "kept": "since here"})
    assert (view.heads, view.head) == (before.heads, "other")
    assert (view.info.title, view.info.project) == ("T", "P")
    assert view.info.extra["repaired_from"] == "s"
    assert list(view.lines())[: done.records] == list(before.lines())
    assert len(view.checkpoints()) == len(before.checkpoints()) + 1
    assert (done.nodes, done.messages, done.blobs) == (8, 8, 1)


@pytest.mark.parametrize("register", ["latest/", "/tail.jsonl"])
@pytest.mark.parametrize("damage", ["missing", "flipped", "cut"])
def test_a_lost_register_costs_what_only_it_held(damaged: Damaged, register: str, damage: str) -> None:
    """Without `latest` the records tell everything but the facts; without the tail all that was sealed is left."""
    key = damaged.key(register)
    data = damaged.objects[key]
    middle = len(data) // 2
    damaged.put(key, {"missing": None, "flipped": flip(data, middle), "cut": data[:middle]}[damage])
    done, view = damaged.repair()
    assert key in {loss.key for loss in done.losses}
    if register == "latest/":
        assert said(view) == SAID
        assert view.state == {"n": 7, "kept": "since here"}
        assert (texts(view.context), view.head) == (SAID, "other")
        assert not done.lost
    else:
        assert said(view)[:7] == SAID[:7]
        assert (damage == "cut" and damaged.backend.name == "logs") or "records" in kinds(done)  # a log may end early
        assert view.info.title == "T"


def test_all_damage_is_told_where_no_register_can_be_read(damaged: Damaged) -> None:
    """Which segments the session has follows from its folder then."""
    keys = [damaged.key("latest/"), damaged.key("/tail.jsonl"), damaged.key("/segments/")]
    for key in keys:
        data = bytearray(damaged.objects[key])
        data[len(data) // 2] ^= 0x55
        damaged.put(key, bytes(data))
    damaged.put(keys[1], b"nonsense\n")
    found = {each.key for each in damaged.store.verify("s") if each.severity == "damage"}
    assert found >= {*keys}


def test_without_any_register_the_segments_are_left(damaged: Damaged) -> None:
    """Both registers gone, the folder tells: all sealed records, and the state that went with them."""
    damaged.put(damaged.key("latest/"), None)
    damaged.put(damaged.key("/tail.jsonl"), None)
    done, view = damaged.repair()
    assert said(view) == SAID[:7]
    assert view.state == {"n": 4, "kept": "since here"}
    assert done.lost


@pytest.mark.parametrize("number", [0, 1])
def test_a_lost_segment_costs_its_records(damaged: Damaged, number: int) -> None:
    """What `latest` does not hold besides is lost, and named by position; the agent goes on where it was."""
    key = damaged.key("/segments/", number)
    first, end = (int(part) for part in key.rpartition("/")[2].split("-")[:2])
    with damaged.store.session("s") as session:
        session.checkout(None)  # so that `latest` has no need of what was said
        session.append("new root")
        session.seal()
    damaged.put(key, None)
    done, view = damaged.repair()
    lost = [range(loss.first, loss.end) for loss in done.losses if loss.kind == "records"]  # type: ignore[arg-type]
    assert lost
    assert all(first <= part.start < part.stop <= end for part in lost)
    assert all(loss.key.endswith("/segments/") for loss in done.losses if loss.kind == "records")
    assert sum(map(len, lost)) == end - first
    assert texts(view.context) == ["new root"]
    assert [text for text in said(view) if text in SAID] == (SAID[4:] if number == 0 else [*SAID[:4], "m7"])
    assert len(done.orphans) == 1
    assert done.orphans[0] in {row.id for row in view.nodes()}
    assert "checkpoint" in kinds(done)


def test_the_other_frames_of_a_damaged_segment_survive() -> None:
    """A damaged frame costs records of its own, whose ids the index still tells; not those of the frames beside it."""
    place = Damaged(memory_backend())
    with place.store.session("s") as session:
        ids = [session.append(f"{number} " + f"{number:x}" * 200_000).node for number in range(8)]
        session.seal()
        session.checkout(None)
        session.append("elsewhere")
        session.seal()
    key = place.key("/segments/")
    data = place.objects[key]
    footer = read_footer(data, len(data), key=key)
    assert not isinstance(footer, int)
    frame = footer.frames[1]
    place.put(key, flip(data, (frame.start + frame.end) // 2))
    done, view = place.repair()
    lost = range(frame.first_row, frame.first_row + frame.rows)
    losses = [each for each in done.losses if each.kind == "records"]  # whole lines around the damage may survive
    assert all(each.key == key for each in losses)
    assert all(lost.start <= (each.first or 0) < (each.end or 0) <= lost.stop for each in losses)
    assert {each.offset for each in done.losses if each.kind == "object"} == {frame.start}
    gone = [node for node in ids if any(node in each.ids for each in losses)]
    assert len(gone) >= 1
    assert [row.id for row in view.nodes()][:-1] == [node for node in ids if node not in gone]


def test_without_its_index_a_segment_is_read_line_by_line(damaged: Damaged) -> None:
    """The footer is not needed to find whole records."""
    key = damaged.key("/segments/")
    damaged.put(key, damaged.objects[key][:-1])
    done, view = damaged.repair()
    assert said(view) == SAID
    assert kinds(done) == {"object"}
    assert not done.lost


def test_the_other_lines_of_a_damaged_log_survive() -> None:
    """In a log, a damaged line costs its own record."""
    place = Damaged(memory_backend(appends=True))
    with place.store.session("s") as session:
        for number in range(6):
            session.append(f"m{number}")
    key = place.key("/tail.jsonl")
    data = place.objects[key]
    place.put(key, flip(data, data.index(b'"m2"') + 1))
    with pytest.raises(CorruptError):
        place.store.view("s")
    place.put(place.key("latest/"), None)  # which shows the message as well
    done, view = place.repair()
    assert said(view) == ["m0", "m1", "m3", "m4", "m5"]
    assert ("records", 2, 3) in {(loss.kind, loss.first, loss.end) for loss in done.losses}
    assert texts(view.context)[-3:] == ["m3", "m4", "m5"]


def test_a_flipped_line_break_costs_one_record() -> None:
    """Two lines that run together are one that is lost and one that is found."""
    place = Damaged(memory_backend(appends=True))
    with place.store.session("s") as session:
        for number in range(3):
            session.append(f"m{number}")
    place.put(place.key("latest/"), None)
    key = place.key("/tail.jsonl")
    data = place.objects[key]
    place.put(key, flip(data, data.index(b"\n", data.index(b'"m1"'))))
    _, view = place.repair()
    assert said(view) == ["m0", "m2"]


@pytest.mark.parametrize("lost", [True, False], ids=["missing", "damaged"])
def test_a_lost_blob_is_a_note(damaged: Damaged, *, lost: bool) -> None:
    """A large part that is missing, or has other bytes, is not copied; the message that holds it is kept."""
    key = damaged.key("/blobs/")
    damaged.put(key, None if lost else flip(damaged.objects[key], 5))
    done, view = damaged.repair()
    (loss,) = done.losses
    assert (loss.kind, loss.key, loss.ids) == ("blob", key, (key.rpartition("/")[2],))
    assert done.lost
    assert "missing attachment" in texts(view.context)[6]
    assert not any("/t/" in each and "/blobs/" in each for each in damaged.objects)


def test_a_head_on_a_lost_node_goes_back(damaged: Damaged) -> None:
    """A head whose node is lost stands on the last of its nodes that is left."""
    with damaged.store.session("s") as session:
        session.branch("third")
        session.append("only on the third")
        session.switch("main")
        session.append("main again")
        session.seal()
        session.append("main once more")
        session.seal()
    keys = sorted(key for key in damaged.objects if "/segments/" in key)
    for key in (damaged.key("latest/"), damaged.key("/tail.jsonl"), keys[-1], keys[1]):
        damaged.put(key, None)
    done, view = damaged.repair()
    by_text = dict(zip(said(view), (row.id for row in view.nodes()), strict=True))
    wanted = {"main": "main again", "third": "only on the third", "other": "m7"}
    assert view.heads == {head: by_text[text] for head, text in wanted.items()}
    assert done.lost


def test_an_unknown_field_survives_a_new_position(damaged: Damaged) -> None:
    """Records that move up where others are lost keep fields that we do not know."""
    compressed = not damaged.backend.driver().appends
    key = damaged.key("/tail.jsonl")
    tail = decode_tail(damaged.objects[key], key=key, compressed=compressed)
    line = close_line(b'{"at":%d,"by":"later.1","type":"dream","id":"d","later":[1.50],"body":{"x":1}}' % tail.end)
    damaged.put(key, encode_tail(Tail(header=tail.header, lines=(*tail.lines, line)), compressed=compressed))
    damaged.put(damaged.key("/segments/"), None)
    _, view = damaged.repair()
    (found,) = [each for each in view.lines() if b'"type":"dream"' in each]
    assert found.partition(b",")[2][:-20] == line.partition(b",")[2][:-20]


class Stalled(PassingDriver):
    """An eraser that dies at a request of one kind."""

    def __init__(self, inner: Driver, dies: Callable[[Request], bool]) -> None:
        super().__init__(inner)
        self._dies = dies

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        if any(map(self._dies, batch)):
            raise UnavailableError("killed")
        return self.inner.execute(batch)


@pytest.mark.parametrize("lost", ["nothing", "tail", "latest"])
@pytest.mark.parametrize("cut", ["latest/", "/segments/", "nowhere"])
def test_what_was_erased_stays_erased(damaged: Damaged, lost: str, cut: str) -> None:
    """What an erasure that was cut short left in a segment or in `latest` does not come back."""
    if lost == "tail" and cut == "latest/":
        pytest.skip("the tail alone told of the erasure, and it is lost")
    with damaged.store.session("s") as session:
        session.append("drop what is sealed")
        node = session.path()[1]
    driver = Stalled(damaged.backend.driver(), lambda each: isinstance(each, Put) and cut in each.key)
    with contextlib.suppress(UnavailableError):
        Store(Place(driver)).session("s", shared=True).erase(node)
    assert (b'"m1"' in everything(damaged, "s")) == (cut != "nowhere")
    if lost != "nothing":
        damaged.put(damaged.key("/tail.jsonl" if lost == "tail" else "latest/"), None)
    done, view = damaged.repair()
    assert b'"m1"' not in everything(damaged, "t")
    assert node in {row.id for row in view.nodes()}
    assert isinstance(said(view)[1], Erased)
    assert done.nodes == 9 if lost != "tail" else 8


def test_facts_of_the_card_stay_erased(damaged: Damaged) -> None:
    """`latest` still has a title and further facts of which the tail says that they were erased."""
    with damaged.store.session("s") as session:
        notes = [session.note("card", {"fields": ["bot/key"]}, payload={"bot": {"key": "swordfish", "name": "b"}})]
        notes.append(session.note("title", {"title": "swordfish"}))
    driver = Stalled(damaged.backend.driver(), lambda each: isinstance(each, Put) and "latest/" in each.key)
    with contextlib.suppress(UnavailableError):
        Store(Place(driver)).session("s", shared=True).erase(*notes)
    assert b"swordfish" in everything(damaged, "s")
    _, view = damaged.repair()
    assert b"swordfish" not in everything(damaged, "t")
    assert (view.info.title, view.info.extra["bot"]) == ("", {"name": "b"})


def test_what_is_erased_while_it_is_repaired_is_erased_in_the_new_session(damaged: Damaged) -> None:
    """Payloads and state, which may have been copied by then; and what was erased before is no state there either."""
    with damaged.store.session("s") as session:
        session.commit(["m7"], state={"first": "secret one", "token": "secret two"})
        session.erase(state=["first"])
        session.seal()
        node = session.path()[1]
    progress: list[int] = []

    def step(done: int) -> None:
        progress.append(done)
        if len(progress) == 1:  # somebody who got no further than the tail
            driver = Stalled(damaged.backend.driver(), lambda each: isinstance(each, Put) and "latest/" in each.key)
            with contextlib.suppress(UnavailableError):
                Store(Place(driver)).session("s", shared=True).erase(node, state=["token"])

    damaged.store.repair("s", into="t", progress=step)
    assert progress
    for secret in (b'"m1"', b"secret"):
        assert secret not in everything(damaged, "t")
    view = damaged.store.view("t")
    assert view.erased_state.keys() == {"first", "token"}
    assert view.state["n"] == 7


def everything(place: Damaged, session: str) -> bytes:
    """All content of a session's objects."""
    objects = [data for key, data in place.objects.items() if f"/{session}/" in key or f"/{session}." in key]
    return b"".join(salvage_content(data) or data for data in objects)


def test_the_copy_of_the_newest_epoch_wins(damaged: Damaged) -> None:
    """With both registers lost nothing tells what was erased, but a rewritten segment beside the old one does."""
    old = damaged.objects[damaged.key("/segments/")]
    name = damaged.key("/segments/")
    with damaged.store.session("s") as session:
        session.append("drop what is sealed")
        session.erase(session.path()[1])
    damaged.put(name, old)
    damaged.put(damaged.key("latest/"), None)
    damaged.put(damaged.key("/tail.jsonl"), None)
    damaged.store.repair("s", into="t")
    assert b'"m1"' not in everything(damaged, "t")


class Failing(PassingDriver):
    """A disk that reads a segment well once, and only its beginning from then on."""

    reads = 0

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        answers = list(self.inner.execute(batch))
        for place, (request, answer) in enumerate(zip(batch, answers, strict=True)):
            if isinstance(request, Get) and "/segments/" in request.key and isinstance(answer, Found):
                self.reads += 1
                if self.reads > 1:
                    answers[place] = msgspec.structs.replace(answer, data=answer.data[:60])
        return tuple(answers)


def test_what_reads_well_only_once_is_told_of(damaged: Damaged) -> None:
    """An error that says so, and no session of the new name."""
    store = Store(Place(Failing(damaged.backend.driver())))
    with pytest.raises(UnavailableError, match="is gone"):
        store.repair("s", into="t")
    assert [row.id for row in damaged.store.each_session()] == ["s"]
    assert damaged.store.repair("s", into="t").losses == ()


@pytest.mark.parametrize("verb", ["repair", "copy"])
def test_what_fails_leaves_no_payload_under_the_new_name(damaged: Damaged, verb: str) -> None:
    """An erasure in the session would not find it there."""

    def stop(done: int) -> None:
        if done == end:
            left = [key for key in damaged.objects if "/t/" in key and "tail" not in key]
            raise RuntimeError(f"stopped behind {len(left)} objects")

    end = sum(1 for _ in damaged.store.view("s").lines())
    store = damaged.store
    begin = partial(store.repair, into="t") if verb == "repair" else partial(store.copy, name="t")
    with pytest.raises(RuntimeError, match=r"behind [1-9]"):
        begin("s", progress=stop)
    assert b'"m1"' not in everything(damaged, "t")
    assert [key for key in damaged.objects if "/t/" in key and "tail" not in key] == []
    assert [row.id for row in damaged.store.each_session()] == ["s"]


def test_what_cannot_be_repaired_is_refused(damaged: Damaged) -> None:
    """No session, a deleted one, a name that is taken, nothing readable, a newer version: each has its own error."""
    store = damaged.store
    with store.session("gone") as session:
        session.append("x")
    store.delete("gone")
    before = damaged.objects
    for name in ("never", "gone"):
        with pytest.raises(NotFoundError):
            store.repair(name, into="t")
    with pytest.raises(UsageError, match="into itself"):
        store.repair("s", into="s")
    assert damaged.objects == before
    with store.session("taken") as session:
        session.append("x")
    with pytest.raises(ConflictError):
        store.repair("s", into="taken")
    damaged.put("latest/u.jsonl.zst", b"nothing of use")
    with pytest.raises(CorruptError, match="nothing"):
        store.repair("u", into="t")


def test_a_newer_segment_is_not_taken_for_damage(damaged: Damaged, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair by an old version would lose what a newer one wrote: it says to upgrade and makes nothing."""
    key = damaged.key("/segments/")
    lines = read_segment(damaged.objects[key], key=key)
    with monkeypatch.context() as later:
        later.setattr("treering.format.segment.INDEX_VERSION", 3)
        damaged.put(key, build_segment(lines, key=key))
    before = damaged.objects
    with pytest.raises(FormatVersionError, match="upgrade"):
        damaged.store.repair("s", into="t")
    assert damaged.objects == before


async def test_an_asynchronous_store_repairs_as_well(damaged: Damaged) -> None:
    """The same, awaited, into another store."""
    target = memory_backend()
    done = await damaged.backend.async_store().repair("s", into="s", target=target.async_store())
    assert done.losses == ()
    assert said(target.store().view("s")) == SAID


def test_it_says_how_far_it_is(damaged: Damaged) -> None:
    """Progress rises to the number of records."""
    told: list[int] = []
    done = damaged.store.repair("s", into="t", progress=told.append)
    assert told == sorted(told)
    assert told[-1] == done.records


Change = Callable[[bytes], bytes | None]
CHANGES: Mapping[str, Change] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "foreign": lambda _: b"\x28\xb5\x2f\xfd" * 50,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("part", ["latest/", "/tail.jsonl", "/segments/", "/blobs/"])
def test_any_object_may_be_anything(damaged: Damaged, part: str, change: str) -> None:
    """Whatever stands in place of an object, the rest is saved and the new session can be used."""
    key = damaged.key(part)
    damaged.put(key, CHANGES[change](damaged.objects[key]))
    done, view = damaged.repair()
    assert done.losses
    assert treering.RepairLoss is type(done.losses[0])
    assert len(view.nodes()) >= 4
