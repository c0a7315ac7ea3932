"""The programs themselves are asked: about sessions made by chance, and about what was written for them here."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import treering
from tests.upstream.comparing import FORMATS, differences, first_unequal, plain
from tests.upstream.programs import Program
from tests.upstream.sessions import make_session, write_session
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter, read
from treering.programs.pi import read as pi

SESSIONS: Final = int(os.environ.get("TREERING_UPSTREAM_SESSIONS", "300"))
"""So many are made for each test and program."""
NOT_LISTED: Final = {
    "pi": {"allMessagesText"},
    "omp": {"allMessagesText", "modified", "messageCount", "size", "status"},
}
"""What a list shows besides; of oh-my-pi also what it tells from the beginning of a file, or from its time."""
_SAID: Final = {"role": "user", "content": "from there", "timestamp": 1767700000000}
_ANSWERED: Final = {
    "role": "assistant", "content": [{"type": "text", "text": "yes"}], "api": "x", "provider": "p", "model": "m",
    "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": {"total": 0}},
    "stopReason": "stop", "timestamp": 1767700000001,
}  # fmt: skip


def sessions(program: Program, folder: Path, purpose: str, *, oddity: float = 0) -> Iterator[tuple[Random, Path]]:
    """Yield files with sessions made by chance, the same ones each time, and what decides about further things."""
    for number in range(SESSIONS):
        random = Random(f"{program.name} {purpose} {number}")
        records = make_session(random, program.name, oddity)
        path = folder / f"{number}.jsonl"
        path.write_bytes(write_session(random, records, program.name, whole=not oddity))
        yield random, path


def ask(program: Program, path: Path, leaves: int) -> Any:
    """Return a program's answer about a copy of a file, as some programs write what they open."""
    copy = path.with_name("copy.jsonl")
    copy.write_bytes(path.read_bytes())
    return program.ask("answer", path=str(copy), leaves=leaves)


@pytest.mark.parametrize("oddity", [0, 0.03])
def test_sessions_are_read_as_the_program_reads_them(
    program: Program, count: Counter[str], tmp_path: Path, oddity: float
) -> None:
    """Entries, labels, tree and leaf of a session, and path, context and settings at its entries, are the program's."""
    found = []
    for _, path in sessions(program, tmp_path, "read", oddity=oddity):
        answer = ask(program, path, 8)
        count["damaged files" if oddity else "files"] += 1
        if "error" in answer:
            count["of these refused by the program"] += 1
            continue
        count["places in them"] += len(answer["cases"])
        count["of these without an answer"] += sum("error" in case or "hangs" in case for case in answer["cases"])
        found += [(path.name, each) for each in differences(program.name, path, answer, program.blobs)]
    assert [(name, each.what, each.leaf, first_unequal(each.theirs, each.ours)) for name, each in found] == []


def test_lists_show_what_those_of_the_program_show(program: Program, count: Counter[str], tmp_path: Path) -> None:
    """Title, first prompt, number of messages and last activity are the program's."""
    paths = [path for _, path in sessions(program, tmp_path, "list")]
    listed = program.ask("list", folder=str(tmp_path))
    assert len(listed) == len(paths)
    format_ = FORMATS[program.name]
    for path, theirs in listed.items():
        file = read(path, format=format_)
        if format_ == "omp" and (
            Path(path).stat().st_size > 4096 or pi.listing(file)["firstMessage"] == pi.NO_MESSAGES
        ):
            continue  # it looks no further, and without a prompt it takes the first text of any kind
        ours = file.listing()
        count["rows of lists"] += 1
        names = theirs.keys() - NOT_LISTED[format_]
        assert plain({name: ours.get(name) for name in names}) == plain({name: theirs[name] for name in names}), path


def test_the_program_goes_on_where_the_session_stands(program: Program, count: Counter[str], tmp_path: Path) -> None:
    """A session that was continued here opens in the program as it stands, and is not rewritten by it."""
    format_, target = FORMATS[program.name], tmp_path / "out" / "s.jsonl"
    target.parent.mkdir()
    for random, path in sessions(program, tmp_path, "write"):
        store = treering.open(f"memory://{new_nonce()}")
        name = go_on(store, FileImporter(store).load(path, format=format_).session, random)
        view = store.view(name)
        export(view, target, format=format_, overwrite=True)
        version = read(target, format=format_).header.version
        answer = program.ask("answer", path=str(target), leaves=4)
        count["continued sessions"] += 1
        assert not differences_of(program, target, answer), path.name
        if version == 3:
            assert not answer["rewritten"]
            assert answer["labels"] == {at: text for at, text in view.labels().items() if at in answer["entry_ids"]}
        assert answer["title"] == view.info.title.strip()
        store.close()


def test_the_program_and_treering_take_turns(program: Program, count: Counter[str], tmp_path: Path) -> None:
    """What the program adds to a file that was written over is found here, once, and the session goes along with it."""
    format_ = FORMATS[program.name]
    for random, path in sessions(program, tmp_path, "turns"):
        store = treering.open(f"memory://{new_nonce()}")
        name = FileImporter(store).load(path, format=format_).session
        with store.session(name) as session:
            session.append(treering.assistant("from here"))  # pi 0.73 writes files twice in which there is no answer
        for _ in range(2):
            go_on(store, name, random, forks=False)
            export(store.view(name), path, format=format_, overwrite=True)
            deeds = [["appendMessage", _SAID], ["branch", {"$": random.randrange(20)}], ["appendMessage", _ANSWERED]]
            deeds += [["appendLabelChange", {"$": random.randrange(20)}, "theirs"]]
            acted = program.ask("act", path=str(path), deeds=deeds if random.random() < 0.5 else [deeds[0], deeds[2]])
            assert "error" not in acted, path.name
            taken, answer = FileImporter(store).load(path, format=format_), ask(program, path, 4)
            count["turns"] += 1
            assert (taken.session, taken.outcome, taken.branch) == (name, "updated", ""), path.name
            assert not differences_of(program, path, answer), path.name
            view = store.view(name)
            assert not view.problems()
            sent = read(path, format=format_).context(acted["leaf"], POLICIES[program.name])
            assert [item.node for item in view.recorded_context] == [row.entry for row in sent.messages], path.name
        store.close()


POLICIES: Final = {"pi073": "pi-1.5", "pi152": "pi-1.5", "omp": "omp"}
"""By whose rules an imported session is shown."""


def differences_of(program: Program, path: Path, answer: dict[str, Any]) -> list[str]:
    """Tell what the program says of a file and we do not."""
    found = differences(program.name, path, answer, program.blobs)
    return [f"{each.what} at {each.leaf}: {first_unequal(each.theirs, each.ours)}" for each in found]


def go_on(store: treering.Store, name: str, random: Random, *, forks: bool = True) -> str:
    """Do some things to a session; return its name, or that of a fork of it."""
    with store.session(name) as session:
        for deed in random.choices(DEEDS, k=random.randrange(6)):
            deed(session, random)
        session.commit()
        nodes = [node.id for node in session.nodes()]
        if not forks or not nodes or random.random() < 0.7:
            return name
        session.fork("fork", node=random.choice(nodes))
    return "fork"


def _any_node(session: treering.Session, random: Random) -> str | None:
    nodes = [node.id for node in session.nodes()]
    return random.choice(nodes) if nodes else None


def _compact(session: treering.Session, kept: str | None) -> None:
    try:
        session.compact("in short", kept=kept)
    except treering.UsageError as error:
        if error.kind != "parted":
            raise


def _look(session: treering.Session, random: Random) -> None:
    name = f"k{random.randrange(1000)}"
    call = {"id": name, "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    session.append(treering.assistant("I look", tool_calls=[call]))
    session.append(treering.tool("two files", call=name))


def _label(session: treering.Session, random: Random) -> None:
    node = _any_node(session, random)
    if node is not None:
        session.label(node, random.choice(("mine", None)))


DEEDS: Final[tuple[Callable[[treering.Session, Random], object], ...]] = (
    lambda session, _: session.append("more"),
    lambda session, _: session.append(treering.assistant("yes")),
    _look,
    _label,
    lambda session, random: session.checkout(_any_node(session, random)),
    lambda session, _: session.checkout(None),
    lambda session, random: session.set_title(f"title {random.randrange(9)}"),
    lambda session, random: _compact(session, _any_node(session, random)),
    lambda session, _: session.compact("all of it"),
    lambda session, _: session.set_model("m", provider="p"),
    lambda session, _: session.set_thinking("high"),
    lambda session, _: session.record_usage(input=5),
)
