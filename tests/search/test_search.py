"""What is found, and how it is shown."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.search.conftest import found

import treering
from treering.api.store import Store
from treering.errors import UsageError
from treering.kinds import Kind
from treering.search import Index, forget, open_index
from treering.search.texts import OTHER_CHARACTERS_MAX, SAID_CHARACTERS_MAX

CALL = {"type": "tool_use", "name": "grep", "input": {"pattern": "needle"}}


def test_all_words_must_occur(store: Store, index: Index) -> None:
    """Words are joined by AND, in any order; case and accents do not matter."""
    with store.session("a") as session:
        session.append(treering.user("the Café was closed"))
        session.append(treering.user("closed for ever"))
    assert found(index, "closed CAFE") == ["the Café was closed"]
    assert found(index, "closed cafe ever") == []


def test_phrases_and_beginnings(store: Store, index: Index) -> None:
    """Quotes make a phrase, a star a beginning; a quote that is not closed is closed by the end."""
    with store.session("a") as session:
        session.append(treering.user("one two three"))
        session.append(treering.user("two one three"))
    assert found(index, '"one two"') == ["one two three"]
    assert found(index, '"two three') == ["one two three"]
    assert found(index, '"one thr"*') == ["two one three"]
    assert len(found(index, "thr*")) == 2
    assert found(index, "thr") == []


def test_operators_are_text(store: Store, index: Index) -> None:
    """What FTS5 takes for operators is searched for like any other word."""
    with store.session("a") as session:
        session.append(treering.user("this or that"))
        session.append(treering.user("not that"))
    assert found(index, "this OR that") == ["this or that"]
    assert found(index, "NOT that") == ["not that"]
    assert found(index, "text:that") == []


@pytest.mark.parametrize(
    "query",
    [
        "世",
        "你好",
        "好世界",
        "タワー",
        "교에",
        "ワーへ",
        "你好世*",
        "入門",
        "Python",
        "iPhone",
        "の設定",
        "版2リリース",
    ],
)
def test_text_without_spaces(store: Store, index: Index, query: str) -> None:
    """Any piece of a sentence finds it in languages without spaces, and the snippet is as it was written."""
    texts = ["你好世界 abc", "東京タワーへ行く", "학교에서 왔다", "Python入門を読む。iPhoneの設定、版2リリース"]
    with store.session("a") as session:
        session.append(*map(treering.user, texts))
    (text,) = found(index, query)
    assert text in texts
    (hit,) = index.search(query)
    assert [hit.snippet[start:end] for start, end in hit.marks] == [query.rstrip("*")]


def test_marks(store: Store, index: Index) -> None:
    """The marks say where in the snippet the matches are."""
    with store.session("a", title="T", project="p", cwd="/x") as session:
        node = session.append(treering.user("red fish, blue fish \x02\x03\0")).node
    index.update()
    (hit,) = index.search("fish")
    assert (hit.session, hit.node, hit.title, hit.project, hit.cwd, hit.role) == ("a", node, "T", "p", "/x", "user")
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["fish", "fish"]
    assert store.view("a").get(hit.node).payload == {"role": "user", "content": "red fish, blue fish \x02\x03\0"}


def test_kinds(store: Store, index: Index) -> None:
    """Prompts and texts are searched by default; thoughts, calls and results by kind or by role."""
    with store.session("a") as session:
        session.append(treering.user("find the needle"))
        session.append(treering.assistant([{"type": "thinking", "thinking": "a needle?"}, CALL]))
        session.append(treering.tool("needle found", call="1"))
        session.append(treering.assistant("here is the needle"))
        session.compact("the needle was found")
    assert found(index, "needle") == ["find the needle", "here is the needle", "the needle was found"]
    assert found(index, "needle", kinds=["prompt"]) == ["find the needle"]
    assert found(index, "needle", kinds=["thinking"]) == ["a needle?"]
    assert found(index, "needle", kinds=["call", "result"]) == ['grep {"pattern":"needle"}', "needle found"]
    assert found(index, "needle", role="tool") == ["needle found"]
    assert found(index, "needle", role="compaction") == ["the needle was found"]
    assert len(found(index, "needle", role="assistant")) == 3


def test_a_users_tool_result_is_no_prompt(store: Store, index: Index) -> None:
    """What a user's message says is a prompt; a result that it carries is not."""
    with store.session("a") as session:
        result = {"type": "tool_result", "content": "output of ls"}
        session.append(treering.user([result, {"type": "text", "text": "go on"}, {"type": "image", "data": "x"}]))
    assert found(index, kinds=["prompt"]) == ["go on"]
    assert found(index, kinds=["result"]) == ["output of ls"]


def test_filters(store: Store, index: Index) -> None:
    """Project, folder, session and time narrow a search."""
    for name in ("one", "two"):
        with store.session(name, project=f"p-{name}", cwd=f"/{name}") as session:
            session.append(treering.user(f"common {name}"))
    assert found(index, "common", project="p-one") == ["common one"]
    assert found(index, "common", cwd="/two") == ["common two"]
    assert found(index, "common", session="one") == ["common one"]
    times = {hit.session: hit.time_ms for hit in index.search("common")}
    assert found(index, since_ms=max(times.values()) + 1) == []
    assert found(index, until_ms=min(times.values())) == []
    assert len(found(index, since_ms=min(times.values()), until_ms=max(times.values()) + 1)) == 2


def test_history_folds_what_was_said_in_a_row(store: Store, index: Index) -> None:
    """Without words the newest come first, and equal prompts in a row are one, as in a shell's history."""
    with store.session("a") as session:
        for place, text in enumerate(["go", "go", "stop", "go"]):
            session.perform(_append_at, text, 1000 + place)
    index.update()
    assert [(hit.snippet, hit.folded) for hit in index.search(kinds=["prompt"])] == [("go", 0), ("stop", 0), ("go", 1)]
    assert [(hit.snippet, hit.folded) for hit in index.search("go")] == [("go", 2)]
    assert index.search("go")[0].time_ms == 1003


def _append_at(writer, text, time_ms):  # type: ignore[no-untyped-def]
    from treering.session.verbs.conversation import append
    from treering.transcript.node import Draft

    draft = Draft(role="user", payload={"role": "user", "content": text}, time_ms=time_ms)
    return (yield from append(writer, draft))


def test_forks_are_folded(store: Store, index: Index) -> None:
    """A text that a fork repeats is one hit of a search."""
    with store.session("a") as session:
        session.append(treering.user("common"))
        session.fork("b")
    index.update()
    (hit,) = index.search("common")
    assert hit.folded == 1


def test_order_and_limit(store: Store, index: Index) -> None:
    """The best come first, or the newest; no more than asked for."""
    with store.session("a") as session:
        session.append(treering.user("fish fish fish"))
        session.append(treering.user("a fish among very many other words of no account at all"))
    index.update()
    assert index.search("fish", limit=1)[0].snippet == "fish fish fish"
    assert index.search("fish", limit=1, order="newest")[0].snippet.startswith("a fish")


def test_long_texts_are_cut(store: Store, index: Index) -> None:
    """Of long texts the beginning is searched, also where it is stored apart; of results less."""
    middle = SAID_CHARACTERS_MAX - 100
    said = "x " * (middle // 2) + "inside " + "x " * 200_000 + "outside"
    with store.session("a") as session:
        session.append(treering.user(said))
        session.append(treering.tool("y " * (OTHER_CHARACTERS_MAX // 2) + "outside", call="1"))
    assert len(found(index, "inside")) == 1
    assert found(index, "outside", kinds=["prompt", "text", "result"]) == []


def test_odd_ids(store: Store, index: Index) -> None:
    """Names and ids of any characters come back as they are, also where a name is hashed in keys."""
    names = ["\ud800half", "long" * 100, "a/b\0c"]
    for name in names:
        with store.session(name, title="\udfff", project=name) as session:
            session.append(treering.user("common \ud800", id=f"id-{name}"))
    index.update()
    hits = {hit.session: hit for hit in index.search("common", order="newest")}
    every = {hit.session for name in names for hit in index.search("common", session=name)}
    assert every == set(names)
    assert all(hit.node == f"id-{name}" for name, hit in hits.items())
    assert [hit.session for hit in index.search("common", project="long" * 100)] == ["long" * 100]


@pytest.mark.parametrize("limit", [0, -1, 2**70])
def test_wrong_limits(index: Index, limit: int) -> None:
    """A number of hits that cannot be counted is refused."""
    with pytest.raises(UsageError, match=f"limit={limit}$") as caught:
        index.search("x", limit=limit)
    assert caught.value.kind == Kind.LIMIT


@pytest.mark.parametrize("time", [2**70, -(2**70), float("nan"), float("inf")])
def test_wrong_times(index: Index, time: float) -> None:
    """A time that no clock shows is refused; what the index can count is not."""
    with pytest.raises(UsageError, match=f"since_ms={time}"):
        index.search("x", since_ms=time)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"until_ms={time}"):
        index.search("x", until_ms=time)  # type: ignore[arg-type]
    assert index.search("x", limit=2**53 - 1, since_ms=-(2**53) + 1, until_ms=2**53 - 1) == []


def test_wrong_filters(index: Index) -> None:
    """A filter, kind or order that has no meaning is refused."""
    with pytest.raises(UsageError, match="no such filter"):
        index.search("x", colour="red")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="no such kind"):
        index.search("x", kinds=["prompts"])
    with pytest.raises(UsageError, match="order"):
        index.search("x", order="worst")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="too many words"):
        index.search("x " * 1001)


@pytest.mark.usefixtures("cache")
def test_namespaces_have_their_own(tmp_path: Path) -> None:
    """Each store and namespace has a file of its own in the cache folder, and sees no other's."""
    store = treering.open(tmp_path / "store")
    with store.namespace("ann").session("hers") as session:
        session.append(treering.user("common"))
    with open_index(store) as one, open_index(store.namespace("ann")) as two:
        assert (found(one), found(two)) == ([], ["common"])
        assert one.path != two.path
        assert Path(two.path or "").stat().st_mode & 0o077 == 0
    assert not list((tmp_path / "store").rglob("*.sqlite"))
    assert open_index(treering.open(f"file://{tmp_path}/store/")).path == one.path


@pytest.mark.usefixtures("cache")
def test_a_store_in_memory_leaves_no_file(tmp_path: Path) -> None:
    """The index of a store in memory is in memory."""
    store = treering.open("memory://searched")
    with store.session("a") as session:
        session.append(treering.user("common"))
    with open_index(store) as index:
        assert index.path is None
        assert found(index) == ["common"]
    assert not forget(store, "a")
    assert list(tmp_path.iterdir()) == []


async def test_an_asynchronous_store(tmp_path: Path) -> None:
    """The index of an asynchronous store is used from threads."""
    store = treering.aopen(tmp_path / "store")
    async with await store.session("a") as session:
        await session.append(treering.user("common"))
    with open_index(store, tmp_path / "index") as index:
        await asyncio.to_thread(index.update)
        assert [hit.snippet for hit in await asyncio.to_thread(index.search, "common")] == ["common"]
