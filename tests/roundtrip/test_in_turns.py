"""What a file said goes back as it was, however often it came in: programs and Treering write in turns.

Compared are records, byte by byte, and not contexts: a context is the same when an extension's entry is given another
name. Each turn a program adds entries of any type, the file is imported, and the session is exported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from tests.roundtrip.authors import AUTHORS, Author
from tests.sampling import few

import treering
from treering.exporters import export
from treering.ids import new_nonce, time_of
from treering.importers import FileImporter
from treering.importers.outline import FileOutline
from treering.programs.claude import entries as claude_entries
from treering.programs.common.entry import PIECE
from treering.programs.kit import read as kit, readable as kit_readable
from treering.programs.omp import read as omp
from treering.programs.operator import read as operator, readable as operator_readable
from treering.programs.pi import read as pi

SEEDS: Final = few(6, whole=12)  # of which each third is as far astray
TURNS: Final = 4


class Desk:
    """A file on which a program and Treering work in turn."""

    def __init__(self, name: str, folder: Path, random: Random) -> None:
        self.format = name
        self.store = treering.open(f"memory://turns-{new_nonce()}")
        self.author: Author = AUTHORS[name](folder / f"given{_SUFFIX.get(name, '.jsonl')}", random)
        self.session = ""
        self._exports = 0

    def take(self) -> None:
        """Import the file."""
        self.session = FileImporter(self.store).load(self.author.path, format=self.format).session

    def given(self) -> bytes:
        """The bytes of the file."""
        return self.author.path.read_bytes()

    def exported(self, session: str | None = None) -> bytes:
        """The bytes of a new export."""
        self._exports += 1
        path = self.author.path.with_name(f"made-{self._exports}{self.author.path.suffix}")
        export(self.store.view(session or self.session), path, format=self.format)
        return path.read_bytes()


_SUFFIX: Final = {"evva": ".json"}


@pytest.fixture(params=AUTHORS)
def name(request: pytest.FixtureRequest) -> str:
    """A format."""
    return str(request.param)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_file_that_grew_comes_back_to_the_byte(name: str, seed: int, tmp_path: Path) -> None:
    """However often it was imported meanwhile, if nothing was recorded here."""
    random = Random(f"{name} grew {seed}")
    desk = Desk(name, tmp_path, random)
    desk.author.begin()
    for _ in range(TURNS):
        desk.author.write(*random.choices([*desk.author.table], k=random.randrange(1, 9)))
        if random.random() < 0.3:
            desk.author.rewrite_header()
        desk.take()
        assert desk.exported() == desk.given()
    desk.store.close()


def test_every_type_of_entry_comes_back_when_it_came_later(name: str, tmp_path: Path) -> None:
    """Each one alone, in all of its forms, after a first import."""
    random = Random(f"{name} each")
    desk = Desk(name, tmp_path, random)
    desk.author.begin()
    desk.author.write(next(iter(desk.author.table)))
    desk.take()
    for kind in desk.author.table:
        desk.author.write_all(kind)
        desk.take()
        assert desk.exported() == desk.given(), kind
    desk.store.close()


@pytest.mark.parametrize("name", ["kit", "omp", "operator", "pi"])
def test_a_fork_has_what_came_later_in_the_same_words(name: str, tmp_path: Path) -> None:
    """Only what an entry follows, or keeps from, may be another one there. So has it what was recorded here."""
    desk = Desk(name, tmp_path, Random(f"{name} fork"))
    desk.author.begin()
    desk.author.astray = 0
    kinds = [kind for kind in desk.author.table if kind not in LEAVING]
    for kind in kinds:
        desk.author.write_all(kind)
        desk.take()
    with desk.store.session(desk.session) as session:
        session.append(treering.user("said here", id="mine"))
        session.fork("fork")
    found = records(desk.exported("fork"))
    given = {record["id"]: record for record in [*records(desk.exported()), *records(desk.given())]}
    assert "mine" in given
    assert {record["type"] for record in found} >= {*kinds} - LEFT_BEHIND
    assert [names for record in found[1:] if (names := changed(record, given[record["id"]]))] == []
    desk.store.close()


@pytest.mark.parametrize("name", ["claude", "kit", "omp", "operator", "pi"])
def test_what_was_recorded_here_keeps_its_words_when_settings_change(name: str, tmp_path: Path) -> None:
    """An answer is written with the model that gave it, and not with the one that is set when the file is written."""
    desk = Desk(name, tmp_path, Random(f"{name} settings"))
    desk.author.begin()
    desk.take()
    before: dict[str, Any] = {}
    with desk.store.session(desk.session) as session:
        for model in ("first", "second"):
            session.set_model(model, provider="theirs")
            session.append(treering.assistant("here", id=f"by-{model}"))
            session.record_usage(input=5)
            written = desk.exported()
            found = {_id_of(record): record for record in map(json.loads, written.splitlines())}
            if model == "first":
                before = found
        session.set_model("third", provider="others")
    found = {_id_of(record): record for record in map(json.loads, desk.exported().splitlines())}
    assert {each: names for each, record in before.items() if (names := changed(found[each], record))} == {}
    words = {model: json.dumps(found[f"by-{model}"]).replace(f"by-{model}", "") for model in ("first", "second")}
    if name != "operator":  # it does not say who gave an answer
        assert all(model in words[model] for model in words)
    desk.store.close()


@pytest.mark.parametrize("name", ["kit", "omp", "operator", "pi"])
def test_the_program_goes_on_below_what_an_extension_noted_here(name: str, tmp_path: Path) -> None:
    """There it is an entry of the tree, and here a note: what follows has all above it, and the session goes along."""
    desk = Desk(name, tmp_path, Random(f"{name} extension"))
    desk.author.begin()
    desk.author.astray = 0
    desk.author.write("message")
    desk.take()
    for turn in range(2):
        with desk.store.session(desk.session) as session:
            session.append(f"here {turn}")
            session.record_extension("mine", {"n": turn})
        export(desk.store.view(desk.session), desk.author.path, format=name, overwrite=True)
        desk.author.write("message")
        desk.take()
        view = desk.store.view(desk.session)
        assert len([*view.path()]) == 3 + 2 * turn
        assert (view.problems(), [*view.heads]) == ((), ["main"])
        assert desk.exported() == desk.given()
    desk.store.close()


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("name", ["kit", "omp", "operator", "pi"])
def test_the_program_keeps_from_what_an_extension_noted_here(name: str, *, here: bool, tmp_path: Path) -> None:
    """The first kept entry is the first one after it, on the path or, for kit, in the file."""
    desk = Desk(name, tmp_path, Random(f"{name} keeps"))
    desk.author.begin()
    desk.author.astray = 0
    desk.author.write("message")
    desk.take()
    with desk.store.session(desk.session) as session:
        session.append("here")
        session.record_extension("mine", {"n": 1})
        session.record_extension("mine", {"n": 2})
        if here:
            session.append("here, too")
    kept = []
    export(desk.store.view(desk.session), desk.author.path, format=name, overwrite=True)
    note = next(each["id"] for each in records(desk.given()) if "mine" in json.dumps(each))
    for turn in range(2):
        kept.append(desk.author.add("message", _question(desk.author)))
        if turn:
            desk.take()
        compaction = dict(desk.author.table["compaction"][0])
        keeps = compaction.keys() & NAMING
        desk.author.add("compaction", compaction | dict.fromkeys(keeps, note))
        desk.take()
        view = desk.store.view(desk.session)
        again = desk.exported()
        assert [item.node for item in view.context][1:] == kept
        assert [item.node for item in view.context] == _shown(desk)
        given = {record["id"]: record for record in records(desk.given())}
        assert [names for record in records(again)[1:] if (names := changed(record, given[record["id"]]))] == []
    desk.store.close()


@pytest.mark.parametrize("name", ["kit", "omp", "operator", "pi"])
def test_the_program_keeps_from_such_a_note_that_is_not_on_its_path(name: str, tmp_path: Path) -> None:
    """It keeps nothing then; kit, which goes by the order of the file, keeps what is behind the note."""
    desk, first, note = _desk_with_extension(name, tmp_path)
    said = [desk.author.add("message", _question(desk.author), below=each) for each in (first, None)]
    compaction = dict(desk.author.table["compaction"][0])
    desk.author.add("compaction", compaction | dict.fromkeys(compaction.keys() & NAMING, note))
    desk.take()
    view = desk.store.view(desk.session)
    assert [item.node for item in view.context][1:] == (said if name == "kit" else [])
    assert [item.node for item in view.context] == _shown(desk)
    assert desk.exported() == desk.given()
    desk.store.close()


@pytest.mark.parametrize("name", ["kit", "omp", "operator", "pi"])
def test_the_program_goes_back_to_what_an_extension_noted_here(name: str, tmp_path: Path) -> None:
    """It hangs where the file said when it came back, though only a label of the program, or nothing, hung on it."""
    desk, first, note = _desk_with_extension(name, tmp_path)
    label = next(each for each in desk.author.table["label"] if each.get("label"))
    desk.author.add("label", {field: first if value == "@" else value for field, value in label.items()})
    desk.author.add("message", _question(desk.author), below=first)
    desk.take()
    back = desk.author.add("message", _question(desk.author), below=note)
    desk.take()
    view = desk.store.view(desk.session)
    assert [*view.path()] == [first, back]
    assert [item.node for item in view.context] == _shown(desk)
    assert desk.exported() == desk.given()
    desk.store.close()


@pytest.mark.parametrize("name", ["kit", "omp", "operator", "pi"])
def test_notes_of_extensions_from_here_and_labels_of_the_program_hang_on_one_another(name: str, tmp_path: Path) -> None:
    """All of them are entries of the tree in the file, and none is a node here: what follows has all above it."""
    desk, first, _ = _desk_with_extension(name, tmp_path)
    label = next(each for each in desk.author.table["label"] if each.get("label"))
    desk.author.add("label", {field: first if value == "@" else value for field, value in label.items()})
    desk.take()
    with desk.store.session(desk.session) as session:
        session.record_extension("mine", {"n": 2})
    export(desk.store.view(desk.session), desk.author.path, format=name, overwrite=True)
    last = desk.author.add("message", _question(desk.author))
    desk.take()
    view = desk.store.view(desk.session)
    assert ([*view.path()], view.problems()) == ([first, last], ())
    assert desk.exported() == desk.given()
    desk.store.close()


def _desk_with_extension(name: str, folder: Path) -> tuple[Desk, str, str]:
    """A file with a message and, written here, data of an extension below it, and the ids of both."""
    desk = Desk(name, folder, Random(f"{name} noted"))
    desk.author.begin()
    first = desk.author.add("message", _question(desk.author))
    desk.take()
    with desk.store.session(desk.session) as session:
        session.record_extension("mine", {"n": 1})
    export(desk.store.view(desk.session), desk.author.path, format=name, overwrite=True)
    return desk, first, next(each["id"] for each in records(desk.given()) if "mine" in json.dumps(each))


def _question(author: Author) -> dict[str, Any]:
    forms = author.table.get("message", author.table.get("user", ()))
    return next(dict(each) for each in forms if "user" in json.dumps(each))


def _shown(desk: Desk) -> list[str | None]:
    """What the program sends where its file ends."""
    return [name for name, _ in FileOutline(desk.author.path, desk.format).shown()]


@pytest.mark.parametrize("name", ["kit", "omp", "operator", "pi"])
def test_a_label_of_the_program_below_one_from_here(name: str, tmp_path: Path) -> None:
    """Both are beside the tree here, and in the file all that follows hangs on them."""
    desk = Desk(name, tmp_path, Random(f"{name} labels"))
    desk.author.begin()
    desk.author.astray = 0
    desk.author.write("message", "message")
    desk.take()
    with desk.store.session(desk.session) as session:
        session.label(session.node or "", "here")
    export(desk.store.view(desk.session), desk.author.path, format=name, overwrite=True)
    desk.author.write("label", "message")
    desk.take()
    assert desk.exported() == desk.given()
    desk.store.close()


def test_a_title_given_here_is_written_once_and_before_later_ones(tmp_path: Path) -> None:
    """An entry of Claude Code with a title has no id: it comes back as one of the program's."""
    desk = Desk("claude", tmp_path, Random("titles"))
    desk.author.begin()
    desk.take()
    for title in ("first", "second"):
        with desk.store.session(desk.session) as session:
            session.set_title(title)
        export(desk.store.view(desk.session), desk.author.path, format="claude", overwrite=True)
        desk.author.write("assistant", "user")
        desk.take()
        assert desk.exported() == desk.given()
    desk.author.write("custom-title")
    desk.take()
    assert desk.exported() == desk.given()
    assert desk.store.view(desk.session).info.title == "Mine"
    desk.store.close()


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", [each for each in AUTHORS if each != "evva"])  # it has no ids
def test_programs_and_treering_write_in_turns(name: str, seed: int, tmp_path: Path) -> None:
    """What the program said stays as it was, in its order; what was recorded here is there once, in the same words.

    Only where an entry hangs that stands beside the tree here may be told in another way by the next export, if nothing
    in the file says it.
    """
    random = Random(f"{name} turns {seed}")
    desk = Desk(name, tmp_path, random)
    desk.author.begin()
    desk.author.astray = (0, 0.3, 1)[seed % 3]
    desk.author.write(*random.choices([*desk.author.table], k=4))
    for _ in range(TURNS):
        desk.take()
        if name != "claude":  # it arranges what it sends by rules of its own
            shown = [node for node in _shown(desk) if PIECE not in str(node)]
            assert shown == [item.node for item in desk.store.view(desk.session).recorded_context]
        given, again = (_by_id(data) for data in (desk.given(), desk.exported()))
        reworded = {each: names for each, records in given.items() if (names := changed(again[each][0], records[0]))}
        assert reworded == {}
        assert {each: len(records) for each, records in again.items() if len(records) > 1} == {}
        said = _said(desk.given())
        with desk.store.session(desk.session) as session:
            for write in random.choices([*HERE.values()], k=random.randrange(1, 4)):
                write(session, random)
        export(desk.store.view(desk.session), desk.author.path, format=name, overwrite=True)
        written = iter(_said(desk.given()))
        assert [record for record in said if record not in written] == []
        desk.author.write(*random.choices([*desk.author.table], k=random.randrange(1, 5)))
    desk.store.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_evva_and_treering_write_in_turns(seed: int, tmp_path: Path) -> None:
    """Its messages have no ids. They are recognised by their contents, and written back to the byte."""
    random = Random(f"evva turns {seed}")
    desk = Desk("evva", tmp_path, random)
    desk.author.begin()
    desk.author.write(*random.choices([*desk.author.table], k=4))
    before: set[str] = set()
    added = 4
    for _ in range(TURNS):
        desk.take()
        view = desk.store.view(desk.session)
        assert desk.exported() == desk.given()
        new = [node for node in view.nodes() if node.id not in before and node.kind == "message"]
        assert (len(new), [*view.heads]) == (added, ["main"])
        with desk.store.session(desk.session) as session:
            for write in random.choices([*HERE.values()], k=random.randrange(1, 4)):
                write(session, random)
        before = {node.id for node in desk.store.view(desk.session).nodes()}
        export(desk.store.view(desk.session), desk.author.path, format="evva", overwrite=True)
        if random.random() < 0.3:
            desk.author.rewrite_header()
        added = random.randrange(0, 4)
        desk.author.write(*random.choices([*desk.author.table], k=added))
    desk.store.close()


def test_evva_goes_on_behind_an_export_while_the_session_goes_on_here(tmp_path: Path) -> None:
    """What the program said comes as a branch below what was exported, and nothing of that is there twice."""
    desk = Desk("evva", tmp_path, Random("evva at once"))
    desk.author.begin()
    desk.author.write("0")
    desk.take()
    with desk.store.session(desk.session) as session:
        exported = session.append("exported").node
        export(desk.store.view(desk.session), desk.author.path, format="evva", overwrite=True)
        session.append("later")
    desk.author.write("1")
    desk.take()
    view = desk.store.view(desk.session)
    assert [*view.heads] == ["main", "evva"]
    assert [node.parent for node in view.nodes() if node.id in view.heads.values()] == [exported, exported]
    assert [node.kind for node in view.nodes()].count("message") == 4
    with desk.store.session(desk.session) as session:
        session.checkout(view.heads["evva"])
    assert desk.exported() == desk.given()
    desk.store.close()


@pytest.mark.parametrize("stood", ["before an import", "before a checkout", "before a message"])
def test_evva_goes_on_behind_an_export_of_an_older_place(stood: str, tmp_path: Path) -> None:
    """The session stood there when it was exported, and does so no more; no branch ends there."""
    desk = Desk("evva", tmp_path, Random("evva old place"))
    desk.author.begin()
    desk.author.write("0", "1", "2")
    desk.take()
    first = next(node.id for node in desk.store.view(desk.session).nodes() if node.kind == "message")
    last = desk.store.view(desk.session).node
    with desk.store.session(desk.session) as session:
        session.checkout(first)
    if stood == "before an import":
        desk.author.write("3")
        desk.take()
    export(desk.store.view(desk.session), desk.author.path, format="evva", overwrite=True)
    with desk.store.session(desk.session) as session:
        if stood == "before a message":
            session.append("meanwhile")
        else:
            session.checkout(last or "")
    desk.author.write("0")
    desk.take()
    with desk.store.session(desk.session) as session:
        session.checkout(desk.store.view(desk.session).heads.get("evva", session.node))
    *_, new = desk.store.view(desk.session).nodes()
    assert (new.parent, len(json.loads(desk.exported())["session"]["messages"])) == (first, 2)
    desk.store.close()


def test_evva_goes_on_without_what_was_hidden_here(tmp_path: Path) -> None:
    """A document that does not know yet of a retracted message goes on where it ended; an export lacks the message."""
    desk = Desk("evva", tmp_path, Random("evva hidden"))
    desk.author.begin()
    desk.author.write("0", "1")
    desk.take()
    with desk.store.session(desk.session) as session:
        session.retract(next(node.id for node in session.nodes() if node.kind == "message"))
    desk.author.write("2")
    desk.take()
    assert len(json.loads(desk.given())["session"]["messages"]) == 3
    assert len(json.loads(desk.exported())["session"]["messages"]) == 2
    desk.store.close()


def test_counters_and_model_of_evva_go_on_from_those_of_the_file(tmp_path: Path) -> None:
    """What an export counted is not counted again, and a model that the program chose since stays chosen."""
    desk = Desk("evva", tmp_path, Random("evva counters"))
    desk.author.begin()
    desk.author.write("0")
    desk.take()
    for turn in range(2):
        with desk.store.session(desk.session) as session:
            session.set_model("ours", provider="here")
            session.append(treering.assistant("said"))
            session.record_usage(input=10)
        export(desk.store.view(desk.session), desk.author.path, format="evva", overwrite=True)
        written = json.loads(desk.given())
        assert written["model"] == "ours"
        assert written["session"]["usage"]["InputTokens"] == 2 + 10 * (turn + 1) + turn
        desk.author.rewrite_header()
        desk.author.write("1")
        desk.take()
    with desk.store.session(desk.session) as session:
        session.append("last")
    assert json.loads(desk.exported())["model"] == json.loads(desk.given())["model"] != "ours"
    desk.store.close()


def test_a_document_of_evva_with_other_messages_is_refused(tmp_path: Path) -> None:
    """A compaction of evva puts a brief in the place of all messages: the session has had no such beginning."""
    desk = Desk("evva", tmp_path, Random("evva rewritten"))
    desk.author.begin()
    desk.author.write("0", "1")
    desk.take()
    document = json.loads(desk.given())
    document["session"]["messages"] = [{"Role": "user", "Content": "in short"}]
    desk.author.path.write_text(json.dumps(document))
    with pytest.raises(treering.ConflictError, match="rewritten"):
        desk.take()
    desk.store.close()


def test_a_message_that_the_program_edited_is_hidden_when_its_edit_is(tmp_path: Path) -> None:
    """An edit of pi stands in the place of a message: when it was retracted here, the program shows neither."""
    desk = Desk("pi", tmp_path, Random("edits"))
    desk.author.begin()
    desk.author.astray = 0
    desk.author.add("message", desk.author.table["message"][0])
    edited = desk.author.leaf()
    for text in ("other", "another"):
        replacement = {"role": "user", "content": text}
        desk.author.add("context_edit", {"targetId": edited, "replacement": replacement})
    desk.author.add("message", desk.author.table["message"][0])
    desk.take()
    with desk.store.session(desk.session) as session:
        first, second = [node.id for node in session.nodes() if node.kind == "context_edit"]
        session.retract(first)
        assert [item.node for item in session.context] == [second, desk.author.leaf()]
        assert desk.exported()
        session.retract(second)
        assert [item.node for item in session.context] == [desk.author.leaf()]
    last = desk.author.leaf()
    for _ in range(2):
        export(desk.store.view(desk.session), desk.author.path, format="pi", overwrite=True)
        assert [name for name, _ in FileOutline(desk.author.path, "pi").shown()] == [last]
        desk.take()
    desk.store.close()


@pytest.mark.parametrize("name", ["claude", "kit", "omp", "operator", "pi"])
def test_a_file_in_which_messages_were_amended_and_nothing_else_is_known(name: str, tmp_path: Path) -> None:
    """Nothing in it has an id from here. If another message says something else, too, the program rewrote it."""
    desk = Desk(name, tmp_path, Random("amended"))
    desk.author.begin()
    kind = "user" if name == "claude" else "message"
    desk.author.add(kind, _question(desk.author))
    first, second = [desk.author.add(kind, _question(desk.author)) for _ in range(2)]
    desk.take()
    first, second = [*desk.store.view(desk.session).path()][-2:]
    with desk.store.session(desk.session) as session:
        session.amend(first, {"role": "user", "content": "amended"})
    export(desk.store.view(desk.session), desk.author.path, format=name, overwrite=True)
    desk.author.add(kind, _question(desk.author))
    desk.take()
    view = desk.store.view(desk.session)
    assert [*view.path()][-3:-1] == [first, second]
    assert first in _shown(desk)
    assert desk.exported() == desk.given()
    line = next(
        line for line in desk.given().splitlines() if second.encode() in line[:400] and b'"amended"' not in line
    )
    other = line.replace(b"question", b"another").replace(b"words", b"another").replace(b"a \\u003c b", b"another")
    assert other != line
    desk.author.path.write_bytes(desk.given().replace(line, other))
    with pytest.raises(treering.ConflictError, match="rewritten"):
        desk.take()
    desk.store.close()


def test_a_label_written_below_what_hides_a_message_does_not_part_from_it(tmp_path: Path) -> None:
    """The entry that hides comes back as a node behind the label, so the label is written before it from then on."""
    desk = Desk("pi", tmp_path, Random("hidden and labelled"))
    desk.author.begin()
    first, second = [desk.author.add("message", desk.author.table["message"][0]) for _ in range(2)]
    desk.take()
    with desk.store.session(desk.session) as session:
        session.retract(first)
        session.label(second, "here")
    export(desk.store.view(desk.session), desk.author.path, format="pi", overwrite=True)
    for _ in range(3):
        desk.author.add("message", desk.author.table["message"][0])
        desk.take()
        assert first not in _shown(desk)
        assert [item.node for item in desk.store.view(desk.session).recorded_context] == _shown(desk)
        export(desk.store.view(desk.session), desk.author.path, format="pi", overwrite=True)
    desk.store.close()


def test_a_message_stays_hidden_where_the_entry_that_hides_it_is_on_another_branch(tmp_path: Path) -> None:
    """Retracted here is retracted on all branches; in pi only below the entry that says so. So another one does."""
    desk = Desk("pi", tmp_path, Random("hidden elsewhere"))
    desk.author.begin()
    first, second = [desk.author.add("message", desk.author.table["message"][0]) for _ in range(2)]
    desk.take()
    with desk.store.session(desk.session) as session:
        session.retract(first)
    export(desk.store.view(desk.session), desk.author.path, format="pi", overwrite=True)
    desk.author.add("message", desk.author.table["message"][0])
    desk.take()
    assert desk.exported() == desk.given()
    with desk.store.session(desk.session) as session:
        session.checkout(second)
    for _ in range(2):
        export(desk.store.view(desk.session), desk.author.path, format="pi", overwrite=True)
        assert _shown(desk) == [second]
        desk.take()
    assert desk.exported() == desk.given()
    assert len([record for record in records(desk.given()) if record["type"] == "context_edit"]) == 2
    desk.store.close()


def _said(data: bytes) -> list[dict[str, Any]]:
    """What the program said, but for what it hangs on and keeps from."""
    found = map(json.loads, data.splitlines()[1:])
    said = [record for record in found if time_of(_id_of(record)) is None]
    return [{name: value for name, value in record.items() if name not in NAMING} for record in said]


def _by_id(data: bytes) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for record in map(json.loads, data.splitlines()[1:]):
        if name := record.get("id", record.get("uuid")):
            found.setdefault(name, []).append(record)
    return found


def _call(session: treering.Session, random: Random) -> None:
    name = f"h{random.random()}"
    call = {"type": "tool_use", "id": name, "name": "ls", "input": {}}
    session.append(treering.assistant([{"type": "text", "text": "so"}, call]))
    session.append(treering.tool("one file", call=name))


def _a_node(session: treering.Session, random: Random) -> str:
    nodes = [node.id for node in session.nodes()]
    return random.choice(nodes) if nodes else session.append("to be about").node


def _keep(session: treering.Session, random: Random) -> None:
    session.append("kept")
    session.compact("in short", kept=random.choice([*session.path()][-1:]))


HERE: Final[Mapping[str, Callable[[treering.Session, Random], object]]] = {
    "call": _call,
    "compaction": lambda session, _: session.compact("in short"),
    "compaction that keeps": _keep,
    "extension": lambda session, _: session.record_extension("mine", {"n": 1}),
    "going back": lambda session, random: session.checkout(_a_node(session, random)),
    "label": lambda session, random: session.label(_a_node(session, random), f"label {random.randrange(9)}"),
    "message": lambda session, _: session.append("a question"),
    "mode": lambda session, _: session.set_mode("plan"),
    "model": lambda session, random: session.set_model(f"m{random.randrange(9)}", provider="p"),
    "note": lambda session, _: session.note("remark", {"x": 1}),
    "system": lambda session, _: session.record_system("be brief"),
    "thinking": lambda session, _: session.set_thinking("high"),
    "title": lambda session, random: session.set_title(f"Title {random.randrange(99)}"),
    "unlabel": lambda session, random: session.label(_a_node(session, random), ""),
    "usage": lambda session, _: session.record_usage(input=5),
}
"""What is recorded here, by kind."""


def _id_of(record: Mapping[str, Any]) -> str:
    return str(record.get("id", record.get("uuid", record["type"])))


def records(data: bytes) -> list[dict[str, Any]]:
    """The records of a file of lines that have ids."""
    return [record for line in data.splitlines() if "id" in (record := json.loads(line))]


def changed(record: Mapping[str, object], given: Mapping[str, object]) -> list[str]:
    """The names of fields that differ, but for those that name other entries."""
    names = [*dict.fromkeys([*given, *record])]
    return [name for name in names if name not in NAMING and record.get(name) != given.get(name)]


LEAVING: Final = {"leaf", "system_prompt"}
"""Types of entries behind which the program goes on elsewhere."""
LEFT_BEHIND: Final = {"usage", "model_usage"}
"""Types of entries that stay with the session that was forked."""
NAMING: Final = {"parentId", "parent_id", "firstKeptEntryId", "first_kept_entry_id"}


def _unread(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(names, ())


KNOWN: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "claude": _unread(claude_entries.TYPES),
    "kit": {**_unread(kit_readable.FIELDS), **_unread(kit.READERS), **kit.WRITTEN},
    "omp": {**_unread(omp.OWN_TYPES), **_unread(omp.READERS), **omp.WORDS.written},
    "operator": {**_unread(operator_readable.FIELDS), **_unread(operator.READERS), **operator.WRITTEN},
    "pi": {**_unread(pi.READERS), **pi.WORDS.written},
}
"""The types of entries that an importer knows, and their fields as far as it has words for them."""


@pytest.mark.parametrize("format_", KNOWN)
def test_the_programs_write_all_that_an_importer_knows(format_: str) -> None:
    """No type of entry, and no field of one, can be added to an importer without being written here."""
    table = AUTHORS[format_].table
    missing = {
        kind: set(names) - {name for form in table.get(kind, ()) for name in form}
        for kind, names in KNOWN[format_].items()
        if kind != "session"
    }
    assert {kind: names for kind, names in missing.items() if names or kind not in table} == {}


@pytest.mark.parametrize("name", ["omp", "pi"])
def test_a_file_without_ids_keeps_the_ids_of_its_first_export(name: str, tmp_path: Path) -> None:
    """A program that went on below a label of it, which got an id and a parent then, finds them in the next export."""
    path = tmp_path / "old.jsonl"
    said = [{"type": "message", "timestamp": TIMES[at], "message": _message(f"{at}")} for at in range(3)]
    label = {"type": "label", "timestamp": TIMES[3], "targetId": "e1", "label": "here"}
    header = {"type": "session", "version": 1, "id": "s-1", "timestamp": TIMES[0], "cwd": "/repo"}
    path.write_text("".join(json.dumps(record) + "\n" for record in (header, *said, label)))
    store = treering.open(f"memory://turns-{new_nonce()}")
    importer = FileImporter(store)
    session = importer.load(path, format=name).session
    for text in ("first", "second"):
        with store.session(session) as opened:
            opened.append(treering.assistant(text))
        export(store.view(session), path, format=name, overwrite=True)
        records = [json.loads(line) for line in path.read_text().splitlines()]
        labels = [record for record in records if record["type"] == "label"]
        assert [(each["id"], each["parentId"]) for each in labels] == [(labels[0]["id"], records[3]["id"])]
        below = {"type": "message", "id": f"b-{text}", "parentId": labels[0]["id"], "timestamp": TIMES[4]}
        with path.open("a") as file:
            file.write(json.dumps({**below, "message": _message(text)}) + "\n")
        importer.load(path, format=name)
        found = [item.message for item in store.view(session).context]
        assert [each["content"] for each in found] == ["0", "1", "2", text]
    store.close()


def _message(text: str) -> dict[str, object]:
    return {"role": "user", "content": text, "timestamp": 1767600000000}


TIMES: Final = [f"2026-01-05T08:00:0{second}.000Z" for second in range(9)]
