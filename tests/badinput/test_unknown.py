"""Records of kinds and with fields that we do not know: they survive whatever is done, and move nothing."""

from __future__ import annotations

import json

import pytest
from tests.badinput.conftest import Damaged
from tests.session.backends import texts

import treering
from treering.errors import FormatVersionError
from treering.format.frames import add_check, compress, decompress_frame, remove_check, walk
from treering.format.line import close_line
from treering.format.register import Tail, decode_latest, decode_tail, encode_tail


def add_record(place: Damaged, fields: str) -> bytes:
    """Append a record as a later version would; return its line."""
    compressed = not place.driver().appends
    tail = decode_tail(place.read(place.tail), key="", compressed=compressed)
    line = close_line(f'{{"at":{tail.end},"by":"later.1",{fields}}}'.encode())
    place.write(place.tail, encode_tail(Tail(header=tail.header, lines=(*tail.lines, line)), compressed=compressed))
    return line


UNKNOWN = {
    "type": '"type":"dream","id":"d1","what":[1],"brief":{},"body":{"x":1}',
    "node kind": '"type":"node","kind":"dream","id":"d1","head":"","brief":{},"body":{"x":1}',
    "note kind": '"type":"note","kind":"dream","id":"d1","target":"nobody","brief":{"a":1},"body":{"x":1}',
    "edit kind": '"type":"edit","kind":"dream","id":"d1","target":"nobody","brief":{},"body":{"x":1}',
    "field": '"type":"note","kind":"x","id":"d1","later":{"deep":[1.50]},"brief":{},"body":{"x":1}',
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_records_survive(damaged: Damaged, name: str) -> None:
    """A record we do not understand outlives appends, seals, merges, navigation, pruning and copies, byte by byte."""
    line = add_record(damaged, UNKNOWN[name])
    said = [f"m{number}" for number in range(7)]
    with damaged.store().session("s") as session:
        assert texts(session.context) == said
        session.append("on")
        session.seal()
        session.checkout(session.path()[2])
        session.prune(treering.KeepCheckpoints(last=1))
        session.append("drop")
        session.optimize(everything=True)
    damaged.store().copy("s", name="copy")
    for session_name in ("s", "copy"):
        assert line in list(damaged.store().view(session_name).lines())
        assert [found for found in damaged.store().verify(session_name) if found.severity == "damage"] == []


@pytest.mark.parametrize("name", ["type", "edit kind"])
def test_a_critical_record_is_read_around_and_not_sealed(damaged: Damaged, name: str) -> None:
    """Readers skip a critical unknown record; appends work; a seal is refused with the advice to upgrade."""
    line = add_record(damaged, UNKNOWN[name].replace('"brief"', '"critical":true,"brief"'))
    with damaged.store().session("s") as session:
        session.append("on")
        with pytest.raises(FormatVersionError) as caught:
            session.seal()
        assert caught.value.key == damaged.tail
        assert "upgrade" in caught.value.remedy
        session.append("and on")
    view = damaged.store().view("s")
    assert texts(view.context)[-2:] == ["on", "and on"]
    assert line in list(view.lines())


def test_an_unknown_view_is_refused_and_a_policy_is_not_needed(damaged: Damaged) -> None:
    """How a message is made from a node must be known; which policy chose it need not be."""
    with damaged.store().session("s") as session:
        node = session.append("x").node
    record = (
        f'"type":"checkpoint","id":"ID","head":"main","target":"{node}","brief":{{"full":true}},'
        f'"body":{{"full":true,"context":[{{"node":"{node}","view":"VIEW"}}],"policy":"later@7"}}'
    )
    add_record(damaged, record.replace("ID", "first").replace("VIEW", "summary@1"))
    assert texts(damaged.store().view("s").context)[0].startswith("Earlier messages")
    add_record(damaged, record.replace("ID", "second").replace("VIEW", "summary@9"))
    before = damaged.stored()
    view = damaged.store().view("s")
    with pytest.raises(FormatVersionError, match="summary@9") as caught:
        _ = view.context
    assert caught.value.remedy
    assert len(view.history().rows) == 8
    assert damaged.stored() == before


def with_later_fields(line: bytes) -> bytes:
    """The header of a tail as a later version might have written it: more is said of the tail, and of each act."""
    fields = {name: value for name, value in json.loads(line).items() if name != "_c"} | {"later": {"deep": [1.5]}}
    for act in fields["erasures"]:
        act["witness"] = "notary"
    return close_line(json.dumps(fields, separators=(",", ":")).encode())


def test_what_a_later_version_says_in_the_header_and_of_acts_of_erasing_survives(damaged: Damaged) -> None:
    """Whoever writes a register anew keeps it: appends, seals, further erasures, and `latest` that follows."""
    with damaged.store().session("s") as session:
        path = session.path()
        session.erase(path[0])
    compressed = not damaged.driver().appends
    data = damaged.read(damaged.tail)
    content = decompress_frame(data, walk(remove_check(data, key=""), key="")[0], key="") if compressed else data
    old, _, rest = content.partition(b"\n")
    new = with_later_fields(old) + rest
    damaged.write(damaged.tail, add_check(compress(new)) if compressed else new)
    with damaged.store().session("s") as session:
        session.append("on")
        session.seal()
        session.erase(path[1])
        session.append("and on")
        session.seal()
        session.checkout(path[2])
    header = decode_tail(damaged.read(damaged.tail), key="", compressed=compressed).header
    assert header.unknown == (("later", b'{"deep":[1.5]}'),)
    assert isinstance(header.erasures, tuple)
    latest = decode_latest(damaged.read(damaged.latest), key="").card
    for acts in (header.erasures, latest.erasures):
        assert [act.unknown for act in acts] == [(("witness", b'"notary"'),), ()]
    assert [found for found in damaged.store().verify("s") if found.severity == "damage"] == []
