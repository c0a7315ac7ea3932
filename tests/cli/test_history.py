from __future__ import annotations

import os
from pathlib import Path

from tests.cli.conftest import Recorded

import treering


def test_log(recorded: Recorded) -> None:
    """The conversation down to where the session stands, the newest message last."""
    rows = recorded.program("log", "tea").rows
    assert [row[0] for row in rows[:3]] == [recorded.question, recorded.answer, recorded.again]
    assert rows[-1][0] == recorded.second
    assert [row[2] for row in rows] == ["user", "assistant", "user", "branch_summary", "assistant"]
    assert rows[2][3] == "[turning point]"
    assert rows[3][3] == "2/2"
    assert rows[-1][4] == "another way"


def test_log_of_another_head(recorded: Recorded) -> None:
    """Another head and another node can be looked at without going there."""
    rows = recorded.program("log", "tea", "--head", "main").rows
    assert rows[-1][2:] == ["model_change", "", "model: some-model, provider: someone"]
    assert rows[-2][4] == '→ edit {"path":"a.py"}'
    rows = recorded.program("log", "tea", "--node", "green").rows
    assert rows[-1][0] == recorded.answer
    recorded.program("log", "tea", "--head", "none", code=3)


def test_log_pages(recorded: Recorded) -> None:
    """A page leads to the one above it, without a gap."""
    page = recorded.program.json("log", "tea", "--limit", 2)
    above = recorded.program.json("log", "tea", "--before", page["before"], "--limit", 10)
    ids = [row["id"] for row in above["nodes"] + page["nodes"]]
    assert ids == list(recorded.store.view("tea").path())
    assert above["before"] is None


def test_log_full(recorded: Recorded) -> None:
    """Whole messages are printed under their role and node."""
    out = recorded.program("log", "tea", "--full").out
    assert f"assistant  {recorded.answer}" in out
    assert "\n  it rounds twice\n" in out


def test_log_hides_retracted(recorded: Recorded) -> None:
    """What was retracted is shown on request only."""
    with recorded.store.session("tea") as session:
        session.retract(recorded.answer)
    assert recorded.answer not in recorded.program("log", "tea").out
    rows = recorded.program("log", "tea", "--retracted").rows
    assert [row[3] for row in rows if row[0] == recorded.answer] == ["retracted"]


def test_context(recorded: Recorded) -> None:
    """The context is what the model sees, now or at an earlier point."""
    items = recorded.program.json("context", "tea")["items"]
    view = recorded.store.view("tea")
    assert [(item["node"], item["message"]) for item in items] == [(item.node, item.message) for item in view.context]
    for at in ("green", recorded.answer, recorded.green[-8:]):
        items = recorded.program.json("context", "tea", "--at", at)["items"]
        assert [item["node"] for item in items] == [recorded.question, recorded.answer]
    assert "  it rounds twice" in recorded.program("context", "tea", "--at", "green").out.splitlines()


def test_show_session(recorded: Recorded) -> None:
    """A session shows its card and where it stands."""
    facts = dict(recorded.program("show", "tea").rows)
    assert facts["title"] == "Too much tea"
    assert facts["head"] == "other"
    assert facts["node"] == recorded.second
    assert facts["usage input"] == "100"
    assert facts["state step"] == "2"
    assert "state plan" not in facts
    document = recorded.program.json("show", "tea")
    assert document["session"]["title"] == "Too much tea"
    assert document["heads"]["other"] == recorded.second
    assert document["state"] == {"step": 2}


def test_show_who_has_the_lease(recorded: Recorded) -> None:
    """A session shows which worker has it for itself; a command that would record something beside it is refused."""
    assert recorded.program.json("show", "tea")["lease"] is None
    store = treering.open(recorded.program.store)
    session = store.session("tea", claim=90)
    session._holds.pop().release()  # as on another computer, which this one's lock does not keep out
    facts = dict(recorded.program("show", "tea").rows)
    assert facts["lease"].startswith(f"1: pid {os.getpid()} on ")
    assert facts["lease"].endswith("free after 90 s without a sign of life")
    assert recorded.program.json("show", "tea")["lease"]["ttl"] == 90
    done = recorded.program("branch", "tea", "beside", code=4)
    assert "has the lease" in done.err
    session.close()
    assert recorded.program.json("show", "tea")["lease"] is None


def test_show_node(recorded: Recorded) -> None:
    """A node is shown whole."""
    out = recorded.program("show", "tea", recorded.answer).out
    assert f"node\t{recorded.answer}\n" in out
    assert "  it rounds twice\n" in out
    node = recorded.program.json("show", "tea", "turning point")["node"]
    assert node["id"] == recorded.again
    assert node["label"] == "turning point"
    assert node["payload"] == {"role": "user", "content": "fix it"}


def test_show_checkpoint(recorded: Recorded) -> None:
    """A checkpoint is shown with its state and context."""
    checkpoint = recorded.program.json("show", "tea", recorded.green)["checkpoint"]
    assert checkpoint["label"] == "green"
    assert checkpoint["state"] == {"step": 1, "plan": ["look"]}
    assert [item["node"] for item in checkpoint["context"]] == [recorded.question, recorded.answer]
    facts = dict(recorded.program("show", "tea", recorded.green).rows)
    assert facts["state plan"] == '["look"]'


def test_values_beyond_json(recorded: Recorded) -> None:
    """State that JSON has no value for is printed as it is stored, never as something else."""
    with recorded.store.session("tea") as session:
        session.commit(state={"nan": float("nan"), "key": b"\0\1", "odd": "\ud800"})
    state = recorded.program.json("show", "tea")["state"]
    assert state["nan"] == {"$float": "nan"}
    assert state["key"] == {"$bytes": "AAE="}
    assert list(state["odd"]) == ["$str"]


def test_deep_payload(recorded: Recorded) -> None:
    """The deepest payload that can be stored can also be printed."""
    deep: object = "down"
    for _ in range(99):
        deep = [deep]
    with recorded.store.session("tea") as session:
        node = session.append(treering.user(deep)).node
    payload = recorded.program.json("show", "tea", node)["node"]["payload"]
    assert str(payload).count("[") == 99


def test_tree(recorded: Recorded) -> None:
    """The tree names every branch, head, label and checkpoint."""
    lines = recorded.program("tree", "tea").out.splitlines()
    assert lines[0] == f"{recorded.question} .. {recorded.answer}  1 user, 1 assistant  1 checkpoint"
    assert lines[1] == f"{recorded.again}  user  [turning point]"
    assert lines[2].startswith(f"├─{recorded.first}  assistant")
    assert lines[3].startswith("│ ")
    assert lines[3].endswith("model_change  (main)")
    assert "branch_summary" in lines[4]
    assert lines[5].startswith(f"{recorded.second}  assistant  (other)")
    assert lines[5].endswith("1 checkpoint")


def test_tree_with_text(recorded: Recorded) -> None:
    """On request each row tells how its first message begins."""
    lines = recorded.program("tree", "tea", "--text").out.splitlines()
    assert lines[0].endswith("why is the total wrong?")
    assert lines[-1].endswith("another way")


def test_tree_json(recorded: Recorded) -> None:
    """For programs each row names its parent."""
    rows = recorded.program.json("tree", "tea")["rows"]
    assert [row["parent"] for row in rows[:3]] == [None, recorded.answer, recorded.again]


def test_checkpoints(recorded: Recorded) -> None:
    """All checkpoints are listed, the newest last; some can be chosen."""
    entries = recorded.program.json("checkpoints", "tea")["checkpoints"]
    assert [entry["id"] for entry in entries] == [entry.id for entry in recorded.store.view("tea").checkpoints()]
    (row,) = recorded.program("checkpoints", "tea", "--labelled").rows
    assert row[0] == recorded.green
    assert row[-1] == "green"
    assert {row[2] for row in recorded.program("checkpoints", "tea", "--head", "other").rows} == {"other"}
    (row,) = recorded.program("checkpoints", "tea", "--limit", 1).rows
    assert row[0] == entries[-1]["id"]


def test_diff(recorded: Recorded) -> None:
    """Two points are compared by state, settings and what the model sees."""
    document = recorded.program.json("diff", "tea", "green", recorded.second)
    assert document["a"] == recorded.green
    assert document["state"]["changed"] == {"step": {"from": 1, "to": 2}}
    assert document["state"]["removed"] == {"plan": ["look"]}
    assert document["state"]["added"] == {}
    assert document["context"]["kept"] == 2
    assert [item["node"] for item in document["context"]["added"]][::2] == [recorded.again, recorded.second]
    back = recorded.program.json("diff", "tea", recorded.second, "green")
    assert [item["node"] for item in back["context"]["removed"]][::2] == [recorded.again, recorded.second]


def test_diff_with_now(recorded: Recorded) -> None:
    """Without a second point the session as it stands is compared, in lines for people."""
    out = recorded.program("diff", "tea", "green").out.splitlines()
    assert out[:2] == ['- state plan = ["look"]', "~ state step = 1 -> 2"]
    assert out[2] == f"+ item {recorded.again} user: fix it"
    assert recorded.program("diff", "tea", recorded.second).out == ""


def test_diff_of_edited_item(recorded: Recorded) -> None:
    """A message that was amended is edited, neither added nor removed."""
    with recorded.store.session("tea") as session:
        session.amend(recorded.answer, {"role": "assistant", "content": "it rounds once"})
    document = recorded.program.json("diff", "tea", "green")
    assert [item["message"]["content"] for item in document["context"]["edited"]] == ["it rounds once"]


def test_settings_differ(recorded: Recorded) -> None:
    """A change of model shows in a comparison."""
    settings = recorded.program.json("diff", "tea", recorded.first, "main")["settings"]
    assert settings["added"] == {"model": "some-model", "provider": "someone"}


def test_open_calls(recorded: Recorded) -> None:
    """Open calls are printed with the state, and left out of the context."""
    use = {"type": "tool_use", "id": "c9", "name": "boil", "input": {"cups": 2}}
    with recorded.store.session("tea") as session:
        node = session.append({"role": "assistant", "content": [use]}).node
    assert ["open call", f"boil c9 in {node}"] in recorded.program("show", "tea").rows
    (call,) = recorded.program.json("show", "tea")["open_calls"]
    assert call == {"id": "c9", "name": "boil", "arguments": {"cups": 2}, "node": node}
    sent, every = (recorded.program.json("context", "tea", *more)["items"] for more in ((), ("--recorded",)))
    assert [item["node"] for item in every] == [*(item["node"] for item in sent), node]
    recorded.program("context", "tea", "--at", node, "--recorded")


def test_what_a_session_was_in_the_middle_of(recorded: Recorded) -> None:
    """Calls whose outcome nobody knows, and answers that have not ended, are printed with the state."""
    with recorded.store.session("tea") as session:
        session.effect("c9", key="boil-1", about={"cups": 2})
        stream = session.stream()
        stream.write("two minu")
        stream.flush()
        rows = recorded.program("show", "tea").rows
        document = recorded.program.json("show", "tea")
        stream.stop()
    assert ["unresolved effect", "c9 (key boil-1): nobody knows whether it was made"] in rows
    assert ["open stream, writing", f"{stream.id}, 8 characters of assistant"] in rows
    (effect,), (answer,) = document["unresolved_effects"], document["open_streams"]
    assert (effect["call"], effect["key"], effect["outcome"], effect["about"]) == (
        "c9",
        "boil-1",
        "unresolved",
        {"cups": 2},
    )
    assert (answer["id"], answer["status"], answer["offset"]) == (stream.id, "writing", 8)


def test_an_erased_message_is_its_tombstone_in_documents(recorded: Recorded) -> None:
    """A message, and a page of them, say what remains of what was erased; both commands failed on it."""
    with recorded.store.session("tea") as session:
        session.erase(recorded.answer, reason="asked to")
    one = recorded.program.json("show", "tea", recorded.answer)["node"]
    (row,) = [each for each in recorded.program.json("log", "tea")["nodes"] if each["id"] == recorded.answer]
    assert one["payload"]["$erased"]["reason"] == row["payload"]["$erased"]["reason"] == "asked to"


def test_a_head_that_is_half_of_an_emoji(recorded: Recorded, tmp_path: Path) -> None:
    """Every document tells of it, as a pair, and pages of HTML are written."""
    name = {"$str": "YWx07aC9"}
    with recorded.store.session("tea") as session:
        session.branch("alt\ud83d")
    heads = recorded.program.json("show", "tea")["heads"]["$map"]
    assert [name, recorded.second] in heads
    assert recorded.program.json("branch", "tea")["heads"]["$map"] == heads
    recorded.program("export", "tea", "--format", "html", "-o", tmp_path / "tea.html")
    assert "alt\\ud83d" in recorded.program("show", "tea").out
