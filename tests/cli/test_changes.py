from __future__ import annotations

from tests.cli.conftest import Recorded


def test_branches(recorded: Recorded) -> None:
    """Without a name the branches are listed, the one in hand marked."""
    view = recorded.store.view("tea")
    assert recorded.program("branch", "tea").rows == [["", "main", view.heads["main"]], ["*", "other", recorded.second]]
    assert recorded.program.json("branch", "tea")["heads"] == view.heads


def test_new_branch(recorded: Recorded) -> None:
    """A new branch begins where it is told to, and its summary is what the model sees of the old one."""
    document = recorded.program.json("branch", "tea", "third", "--at", recorded.answer[-8:], "--summary", "it failed")
    view = recorded.store.view("tea")
    assert (document["head"], document["node"]) == ("third", view.node)
    assert view.path()[:-1] == (recorded.question, recorded.answer)
    assert "it failed" in str(view.context[-1].message)
    assert view.state == {"step": 2}


def test_branch_with_old_state(recorded: Recorded) -> None:
    """On request the agent's state goes back as well."""
    recorded.program("branch", "tea", "third", "--at", recorded.answer, "--old-state")
    assert recorded.store.view("tea").state == {"step": 1, "plan": ["look"]}


def test_switch_and_drop(recorded: Recorded) -> None:
    """One can go on with another branch, and forget one that is not in hand."""
    recorded.program("branch", "tea", "main", "--switch")
    assert recorded.store.view("tea").head == "main"
    recorded.program("branch", "tea", "main", "--drop", code=2)
    recorded.program("branch", "tea", "other", "--drop")
    view = recorded.store.view("tea")
    assert set(view.heads) == {"main"}
    assert view.get(recorded.second).id == recorded.second
    recorded.program("branch", "tea", "other", "--switch", code=3)


def test_branch_refuses(recorded: Recorded) -> None:
    """Options that contradict each other are refused before anything is written."""
    before = recorded.store.view("tea").stored()
    for arguments in (
        ("x", "--switch", "--drop"),
        ("x", "--switch", "--at", "green"),
        ("--at", "green"),
        ("--old-state",),
        ("main",),
        ("x", "--at", "nowhere"),
    ):
        recorded.program("branch", "tea", *arguments, code=3 if "nowhere" in arguments else 2)
    assert recorded.store.view("tea").stored() == before


def test_fork(recorded: Recorded) -> None:
    """A fork is a session of its own with the path to a node, and both know of each other."""
    document = recorded.program.json("fork", "tea", "tea-2", "--at", "green", "--title", "Again", "--cwd", "/other")
    assert document["session"] == "tea-2"
    forked = recorded.store.view("tea-2")
    assert forked.path() == (recorded.question, recorded.answer)
    assert forked.state == {"step": 1, "plan": ["look"]}
    assert (forked.info.title, forked.info.parent_session, forked.info.cwd) == ("Again", "tea", "/other")
    assert "exist" in recorded.program("fork", "tea", "tea-2", code=4).err


def test_rewind_to_a_checkpoint(recorded: Recorded) -> None:
    """A rewind restores state, context and node; what came after stays."""
    before = {node.id for node in recorded.store.view("tea").nodes()}
    document = recorded.program.json("rewind", "tea", "green")
    view = recorded.store.view("tea")
    assert document["node"] == view.node == recorded.answer
    assert view.state == {"step": 1, "plan": ["look"]}
    assert [item.node for item in view.context] == [recorded.question, recorded.answer]
    assert {node.id for node in view.nodes()} == before


def test_rewind_to_a_node(recorded: Recorded) -> None:
    """A rewind may also go to a node without a checkpoint."""
    recorded.program("rewind", "tea", "turning point")
    view = recorded.store.view("tea")
    assert view.node == recorded.again
    assert view.state == {"step": 1, "plan": ["look"]}
    recorded.program("rewind", "tea", "nowhere", code=3)


def test_seal(recorded: Recorded) -> None:
    """Sealing moves records to a segment; a second time there is nothing to do."""
    before = recorded.store.view("tea")
    document = recorded.program.json("seal", "tea")
    assert document["before"]["segments"] == 0
    assert document["after"]["segments"] == 1
    assert recorded.program.json("seal", "tea")["after"]["segments"] == 1
    after = recorded.store.view("tea")
    assert (after.context, after.state, after.path()) == (before.context, before.state, before.path())


def test_seal_merges(recorded: Recorded) -> None:
    """Segments of several seals become one."""
    recorded.program("seal", "tea")
    with recorded.store.session("tea") as session:
        session.append("more")
        session.seal()
    document = recorded.program.json("seal", "tea")
    assert (document["before"]["segments"], document["after"]["segments"]) == (2, 1)


def test_rm(recorded: Recorded) -> None:
    """A session is deleted only after a confirmation, and only by its full name."""
    assert "--yes" in recorded.program("rm", "tea", code=2).err
    recorded.program("rm", "te", "--yes", code=3)
    assert recorded.store.view("tea").info.title == "Too much tea"
    recorded.program("rm", "tea", "--yes")
    assert recorded.program("ls").out == ""
    recorded.program("show", "tea", code=3)
    recorded.program("rm", "tea", "--yes")  # finishes a deletion that was cut short
    recorded.program("rm", "never", "--yes", code=3)
    assert "no session" in recorded.program("rm", "never", "--yes", "--missing-ok").err


def test_held_session(recorded: Recorded) -> None:
    """A session that another process has open can be read, and writing says who holds it."""
    with recorded.store.session("tea"):
        done = recorded.program("rewind", "tea", "green", code=4)
        assert "already held" in done.err
        assert "pid" in done.err
        recorded.program("rm", "tea", "--yes", code=4)
        recorded.program("seal", "tea", code=4)
        recorded.program("log", "tea")
    recorded.program("rewind", "tea", "green")
