"""Sessions of oh-my-pi: what is read, what goes to a model, and what is shown to a person."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from tests.programs.omp import model as omp_model
from tests.programs.omp.sessions import (
    SLOT,
    Entry,
    assistant,
    call,
    damaged_sessions,
    entry,
    file_of,
    redacted,
    result,
    sessions,
    text,
    thinking,
    user,
    written,
)
from tests.programs.pi.reading import HEADER
from tests.sampling import few

import treering
from treering.checkpoint.policy import find_policy
from treering.format import values
from treering.format.record import Skeleton
from treering.importers import FileContext, SessionFile, read
from treering.programs.common.entry import ORDER, RAW
from treering.programs.omp import read as omp

IMAGE = bytes(range(256)) * 4
DIGEST = sha256(IMAGE).hexdigest()


def load(folder: Path, *entries: Any, **more: Any) -> SessionFile:
    """Write entries to a file and read it."""
    return read(written(folder, *entries, **more), format="omp")


def contents(file: SessionFile, leaf: str | None) -> list[Any]:
    """Return what goes to the model, without what is not looked at."""
    return [each.message["content"] for each in file.context(leaf).messages if isinstance(each.message, dict)]


def sources(file: SessionFile, leaf: str | None) -> list[str | None]:
    """Return the entries whose messages go to the model as they are; None for others."""
    return [message.source for message in file.context(leaf).messages]


class TestDetection:
    def test_slot(self) -> None:
        """A title slot and a header behind it are oh-my-pi's, also compressed."""
        assert omp.detect(file_of())
        assert omp.detect(gzip.compress(file_of()))

    @pytest.mark.parametrize(
        "own",
        [
            entry("mode_change", "n1", None, mode="plan"),
            entry("reset_boundary", "n1", None),
            entry("ttsr_injection", "n1", None, injectedRules=[]),
            entry("thinking_level_change", "n1", None, thinkingLevel="low", configured=None),
            entry("model_change", "n1", None, model="a/b", resolvedModelIsFallback=False),
            entry("branch_summary", "n1", None, fromId="root", summary="s", fromExtension=True),
            {**HEADER, "titleSource": "auto"},
        ],
    )
    def test_own_content(self, own: Any) -> None:
        """Without a slot, a type or a field that only oh-my-pi writes tells its files from those of pi."""
        records = [own] if own["type"] != "session" else []
        header = own if not records else HEADER
        assert omp.detect(file_of(user("n0", None), *records, header=header, slot=b""))

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"{",
            SLOT,
            SLOT + b'{"type":"message"}\n',
            file_of(user("n0", None), slot=b""),
            file_of({"type": "mode_change", "parent_id": None}, slot=b""),
            file_of(slot=b'{"type":"title","v":2,"title":"","updatedAt":"","pad":""}\n'),
        ],
    )
    def test_ambiguous(self, data: bytes) -> None:
        """A file that pi could have written, and what is no session, is not taken."""
        assert not omp.detect(data)

    def test_forced(self, tmp_path: Path) -> None:
        """An ambiguous file is pi's, and is read as oh-my-pi's if one says so."""
        path = written(tmp_path, user("n0", None), slot=b"")
        assert read(path).format == "pi"
        assert read(path, format="omp").format == "omp"
        assert read(written(tmp_path, user("n0", None))).format == "omp"


class TestHeader:
    def test_slot_goes_first(self, tmp_path: Path) -> None:
        """The title slot counts, not the title in the header; without a slot the header's does."""
        header = {**HEADER, "title": "Old", "titleSource": "user", "additionalDirectories": ["/b"]}
        file = load(tmp_path, header=header)
        assert (file.title, file.header.extra["titleSource"]) == ("A title", "auto")
        assert file.header.extra["additionalDirectories"] == ["/b"]
        assert load(tmp_path, header=header, slot=b"").title == "Old"

    def test_empty_slot(self, tmp_path: Path) -> None:
        """A slot without a title means that there is none."""
        slot = b'{"type":"title","v":1,"title":"","updatedAt":"x","pad":" "}\n'
        file = load(tmp_path, header={**HEADER, "title": "Old", "titleSource": "user"}, slot=slot)
        assert file.title == ""
        assert "titleSource" not in file.header.extra

    def test_slot_is_kept(self, tmp_path: Path) -> None:
        """The bytes of slot and header are in the first note, also of a slot that says nothing to us."""
        for slot in (SLOT, b'{"type":"title","v":2}\n'):
            note, *_ = omp.open_source(written(tmp_path, slot=slot)).drafts()
            assert (note.source or {})["slot"] == slot.decode().rstrip("\n")
            assert json.loads(str((note.source or {})[RAW])) == HEADER

    def test_titles_in_the_tree(self, tmp_path: Path) -> None:
        """A change of title is a note about the past, not the title, and no child of it is lost."""
        changed = entry("title_change", "n1", "n0", title="Other", source="user")
        file = load(tmp_path, user("n0", None), changed, user("n2", "n1"))
        assert file.title == "A title"
        assert sources(file, "n2") == ["n0", "n2"]

    def test_listing(self, tmp_path: Path) -> None:
        """Without a title the list has that of the latest compaction, and without a prompt what was said first."""
        rows = [assistant("n0", None, text(" "), text("hello")), entry("compaction", "n1", "n0", shortSummary="first")]
        rows += [entry("compaction", "n2", "n1", shortSummary="short"), entry("compaction", "n3", "n2", summary="S")]
        shown = load(tmp_path, *rows, slot=b"").listing()
        assert (shown["title"], shown["firstMessage"]) == ("short", " ")
        shown = load(tmp_path, *rows, user("n4", "n3", "please")).listing()
        assert (shown["title"], shown["firstMessage"]) == ("A title", "please")
        assert load(tmp_path).listing()["firstMessage"] == "(no messages)"

    def test_second_header(self, tmp_path: Path) -> None:
        """A second header is an entry without a parent, as it is in oh-my-pi."""
        file = load(tmp_path, user("n0", None), {**HEADER, "id": "s-2"}, user("n1", "n0"))
        assert file.entry_ids == ["n0", "s-2", "n1"]
        assert sources(file, "s-2") == []
        assert sources(file, "n1") == ["n0", "n1"]


class TestPairs:
    def test_unpaired_call(self, tmp_path: Path) -> None:
        """A call without a result goes, thinking beside it loses its signature, and encrypted thinking goes."""
        turn = assistant("n1", "n0", redacted(), thinking(), text(), call("c1"), call("c2"), stop="toolUse")
        file = load(tmp_path, user("n0", None), turn, result("n2", "n1", "c2"))
        assert contents(file, "n2")[1] == [thinking(None), text(), call("c2")]
        assert sources(file, "n2") == ["n0", None, "n2"]
        assert contents(file, "n1")[1] == [thinking(None), text()]

    def test_paired_calls(self, tmp_path: Path) -> None:
        """A turn whose calls all have results goes as it is, signatures and all."""
        turn = assistant("n0", None, redacted(), thinking(), call("c1"), stop="toolUse")
        file = load(tmp_path, turn, result("n1", "n0", "c1"))
        assert sources(file, "n1") == ["n0", "n1"]

    def test_nothing_left(self, tmp_path: Path) -> None:
        """A turn of which nothing is left goes; a person still sees that there was one, and how many calls it had."""
        turn = assistant("n1", "n0", redacted(), call("c1"), call("c2"), stop="toolUse")
        file = load(tmp_path, user("n0", None), turn)
        assert sources(file, "n1") == ["n0"]
        row = file.transcript("n1")[1].message
        assert isinstance(row, dict)
        assert (row["content"], row["strippedToolCalls"]) == ([], 2)

    @pytest.mark.parametrize("count", [35, 36, omp.CALLS_MAX])
    def test_many_calls(self, tmp_path: Path, count: int) -> None:
        """Also among very many calls of one turn, the one without a result is found."""
        names = [f"call_{number}_{'x' * 60}" for number in range(count)]
        turn = assistant("n0", None, *(call(name) for name in names))
        answers = [result(f"n{at}", f"n{at - 1}", name) for at, name in enumerate(names[1:], 1)]
        file = load(tmp_path, turn, *answers)
        assert contents(file, f"n{count - 1}")[0] == [call(name) for name in names[1:]]

    def test_too_many_calls(self, tmp_path: Path) -> None:
        """Calls beyond the number that a brief can hold are never taken out."""
        names = [f"c{number}" for number in range(omp.CALLS_MAX + 5)]
        file = load(tmp_path, assistant("n0", None, *(call(name) for name in names)))
        assert contents(file, "n0") == [[call(name) for name in names[omp.CALLS_MAX :]]]


class TestFailedTurns:
    @pytest.mark.parametrize("stop", ["error", "aborted"])
    def test_goes_with_its_results(self, tmp_path: Path, stop: str) -> None:
        """A failed turn goes, and so do the results of its calls; a person sees them."""
        turn = assistant("n1", "n0", text(), call("c1"), stop=stop)
        file = load(tmp_path, user("n0", None), turn, result("n2", "n1", "c1"), user("n3", "n2"))
        assert sources(file, "n3") == ["n0", "n3"]
        assert [row.source for row in file.transcript("n3")] == ["n0", "n1", "n2", "n3"]

    def test_interrupted_thinking(self, tmp_path: Path) -> None:
        """A failed turn stays if the note about its interrupted thinking follows; other messages do not save it."""
        note = entry("custom_message", "n2", "n1", customType="interrupted-thinking", content="x", display=False)
        turn = assistant("n1", "n0", thinking(None), stop="aborted")
        file = load(tmp_path, user("n0", None), turn, note, entry("label", "n3", "n1"), user("n4", "n3"))
        assert sources(file, "n2") == ["n0", "n1", None]
        assert sources(file, "n4") == ["n0", "n4"]

    def test_retried(self, tmp_path: Path) -> None:
        """A turn that was retried is not sent again; a person sees it."""
        file = load(tmp_path, assistant("n0", None, text(), retryRecovery={"x": 1}), user("n1", "n0"))
        assert sources(file, "n1") == ["n1"]
        assert [row.source for row in file.transcript("n1")] == ["n0", "n1"]

    def test_mute(self, tmp_path: Path) -> None:
        """A turn that failed before anything was said is not sent, though a note about its thinking follows."""
        note = entry("custom_message", "n1", "n0", customType="interrupted-thinking", content="x", display=False)
        for blocks, sent in (([], []), ([text(" "), thinking(None) | {"thinking": ""}], []), ([thinking()], ["n0"])):
            file = load(tmp_path, assistant("n0", None, *blocks, stop="error"), note)
            assert sources(file, "n1") == [*sent, None]

    def test_for_one_turn(self, tmp_path: Path) -> None:
        """What an extension said for one turn only is not sent again; a message of the same name is."""
        for kind in ("prewalk-plan", "vibe-mode-context"):
            row = entry("custom_message", "n0", None, customType=kind, content="x", display=False)
            message = {"role": "custom", "customType": kind, "content": "x", "display": False}
            file = load(tmp_path, row, entry("message", "n1", "n0", message=message))
            assert (sources(file, "n1"), len(file.transcript("n1"))) == (["n1"], 2)

    def test_rehydrated(self, tmp_path: Path) -> None:
        """GitHub Copilot gets no replay of a connection that is gone, and no signatures; the entry keeps both."""
        payload = {"type": "openaiResponsesHistory", "provider": "github-copilot", "items": []}
        more: dict[str, Any] = {"provider": "github-copilot", "providerPayload": payload}
        file = load(tmp_path, user("n0", None), assistant("n1", "n0", thinking(), text(), **more))
        assert sources(file, "n1") == ["n0", "n1"]
        message = file.context("n1").messages[1].message
        assert isinstance(message, dict)
        assert ("providerPayload" in message, message["content"]) == (False, [thinking(None), text()])
        assert file.entries[1].record["message"]["providerPayload"] == payload


class TestCompaction:
    def chain(self, *kinds: tuple[str, dict[str, Any]]) -> list[Any]:
        rows = [user("n0", None), user("n1", "n0")]
        for kind, fields in kinds:
            number = len(rows)
            rows += [entry(kind, f"n{number}", f"n{number - 1}", **fields), user(f"n{number + 1}", f"n{number}")]
        return rows

    COMPACTION = ("compaction", {"summary": "S", "firstKeptEntryId": "n1", "tokensBefore": 9})
    NOTES: ClassVar[list[tuple[str, dict[str, Any]]]] = [
        ("label", {"targetId": "n0", "label": "x"}),
        ("title_change", {"title": "New", "source": "user"}),
        ("model_usage", {"purpose": "title", "usage": {"input": 1}}),
    ]
    RESET: tuple[str, dict[str, Any]] = ("reset_boundary", {})

    def test_reset(self, tmp_path: Path) -> None:
        """Of a reset and a compaction the later one counts; a person sees all of it."""
        file = load(tmp_path, *self.chain(self.COMPACTION, self.RESET))
        assert sources(file, "n5") == ["n5"]
        assert sources(file, "n4") == []
        assert len(file.transcript("n5")) == 5
        file = load(tmp_path, *self.chain(self.RESET, self.COMPACTION))
        assert sources(file, "n5") == [None, "n1", "n3", "n5"]

    def test_fields(self, tmp_path: Path) -> None:
        """The summary carries what the entry says of itself."""
        more = {
            "shortSummary": "s",
            "tokensAfter": 3,
            "method": "soft",
            "warning": "w",
            "details": {},
            "fromHook": True,
        }
        kind, fields = self.COMPACTION
        file = load(tmp_path, *self.chain((kind, fields | more)))
        assert file.context("n2").messages[0].message == {
            "role": "compactionSummary", "summary": "S", "shortSummary": "s", "tokensBefore": 9, "tokensAfter": 3,
            "method": "soft", "warning": "w", "timestamp": 1767600002000,
        }  # fmt: skip

    @pytest.mark.parametrize(("through", "kept"), [("n0", ["n1"]), ("n1", []), ("n2", []), ("gone", []), (None, [])])
    def test_replay(self, tmp_path: Path, through: str | None, kept: list[str]) -> None:
        """A provider's replay replaces the kept messages; only messages after its end are sent."""
        remote = {"provider": "openai", "replacementHistory": [{"type": "message"}]}
        more = {"preserveData": {"openaiRemoteCompaction": remote}, "providerReplayThroughEntryId": through}
        kind, fields = self.COMPACTION
        file = load(tmp_path, *self.chain((kind, fields | more)))
        assert sources(file, "n3") == [None, *kept, "n3"]
        message = file.context("n3").messages[0].message
        assert isinstance(message, dict)
        assert message["providerPayload"] == {
            "type": "openaiResponsesHistory", "provider": "openai", "items": [{"type": "message"}]
        }  # fmt: skip
        assert [row.source for row in file.transcript("n3")] == ["n0", "n1", None, "n3"]
        assert "providerPayload" not in str(file.transcript("n3"))

    def test_replay_through_a_label(self, tmp_path: Path) -> None:
        """The end of a replay may be a label: what follows it is sent."""
        remote = {"openaiRemoteCompaction": {"provider": "openai", "replacementHistory": []}}
        end = {"preserveData": remote, "providerReplayThroughEntryId": "n1"}
        rows = [user("n0", None), entry("label", "n1", "n0", targetId="n0", label="x"), user("n2", "n1")]
        file = load(tmp_path, *rows, entry("compaction", "n3", "n2", summary="S", tokensBefore=1, **end))
        assert sources(file, "n3") == [None, "n2"]
        rows = [entry("label", "n1", None, targetId="n2", label="x"), user("n2", "n1")]
        file = load(tmp_path, *rows, entry("compaction", "n3", "n2", summary="S", tokensBefore=1, **end))
        assert sources(file, "n3") == [None, "n2"]

    def test_pictures(self, tmp_path: Path) -> None:
        """Older history that was made into pictures is shown with the summary, between its first and last text."""
        frame = {"data": "AAAA", "mimeType": "image/png", "cols": 1, "rows": 2, "chars": 3}
        archive = {"frames": [frame, {"data": "no frame"}], "textHead": "old", "textTail": "new"}
        kind, fields = self.COMPACTION
        file = load(tmp_path, *self.chain((kind, fields | {"preserveData": {"snapcompact": archive}})))
        message = file.context("n2").messages[0].message
        assert isinstance(message, dict)
        image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        below, above = "old\n-------------- imaged middle below\n", "-------------- imaged middle above\nnew"
        assert message["blocks"] == [text(below), image, text(above)]
        assert message["images"] == [image]

    def test_lost_pictures(self, tmp_path: Path) -> None:
        """Where nothing is left of the middle, the last text follows the first one and says so."""
        for lost, between in ((0, ""), (5, "\n-------------- middle history omitted above\n")):
            archive = {"frames": [], "textHead": "old", "textTail": "new", "truncatedChars": lost}
            kind, fields = self.COMPACTION
            file = load(tmp_path, *self.chain((kind, fields | {"preserveData": {"snapcompact": archive}})))
            message = file.context("n2").messages[0].message
            assert isinstance(message, dict)
            assert message["blocks"] == [text(f"old{between}new")]

    NATIVE: ClassVar[dict[str, Any]] = {
        "preserveData": {"anthropicCompaction": {"provider": "anthropic", "content": "S", "filesText": "f", "x": 1}}
    }

    def test_native(self, tmp_path: Path) -> None:
        """A summary that Anthropic wrote goes back to it, a moment older than the first message that follows it."""
        kind, fields = self.COMPACTION
        file = load(tmp_path, *self.chain((kind, fields | self.NATIVE)))
        payload = {"type": "anthropicCompaction", "provider": "anthropic", "content": "S", "filesText": "f"}
        message = file.context("n2").messages[0].message
        assert isinstance(message, dict)
        assert (message["providerPayload"], message["timestamp"]) == (payload, 1767600000999)
        file = load(tmp_path, *self.chain((kind, fields | self.NATIVE | {"firstKeptEntryId": None})))
        times = [file.context(leaf).messages[0].message for leaf in ("n2", "n3")]
        assert [message["timestamp"] for message in times if isinstance(message, dict)] == [
            1767600002000,
            1767600002999,
        ]

    @pytest.mark.parametrize("note", NOTES)
    def test_native_from_a_note(self, tmp_path: Path, note: tuple[str, dict[str, Any]]) -> None:
        """If what is kept begins with a label or another note, the summary is a moment older than that.

        Its time comes from the note itself, whether a message follows the note, or the compaction, or nothing.
        """
        kind, fields = self.COMPACTION
        rows = [user("n0", None), entry(note[0], "n1", "n0", **note[1])]
        compaction = entry(kind, "n7", "n1", **fields, **self.NATIVE)
        times = [
            self.times(load(tmp_path, *rows, compaction), "n7"),
            self.times(load(tmp_path, *rows, compaction, user("n8", "n7")), "n8"),
            self.times(load(tmp_path, *rows, user("n4", "n1"), compaction | {"parentId": "n4"}), "n7"),
        ]
        assert times == [[1767600000999], [1767600000999, 1767600000001], [1767600000999, 1767600000001]]
        unreadable = [rows[0], rows[1] | {"timestamp": "soon"}, compaction]
        assert self.times(load(tmp_path, *unreadable), "n7") == [1767600007000]

    def test_native_from_a_note_of_another_branch(self, tmp_path: Path) -> None:
        """A note that is not above the compaction dates nothing."""
        kind, fields = self.COMPACTION
        rows = [user("n0", None), entry("label", "n1", "n0", targetId="n0", label="x"), user("n2", "n0")]
        file = load(tmp_path, *rows, entry(kind, "n7", "n2", **fields, **self.NATIVE))
        assert self.times(file, "n7") == [1767600007000]

    def times(self, file: SessionFile, leaf: str) -> list[Any]:
        return [each.message["timestamp"] for each in file.context(leaf).messages if isinstance(each.message, dict)]

    @pytest.mark.parametrize("first", ["n1", "n7"])
    def test_rollover_keeping_nothing(self, tmp_path: Path, first: str) -> None:
        """The user's latest request stays also if nothing else does: behind the kept label there is no message.

        The same holds for a compaction that names itself.
        """
        more = {"summary": "S", "firstKeptEntryId": first, "tokensBefore": 9}
        rows = [user("n0", None), entry("label", "n1", "n0", targetId="n0", label="x")]
        rollover = entry("compaction", "n7", "n1", **more, details={"kind": "experimental-context-rollover"})
        assert sources(load(tmp_path, *rows, rollover, user("n8", "n7")), "n8") == [None, "n0", "n8"]
        gone = rollover | {"firstKeptEntryId": "gone"}
        assert sources(load(tmp_path, *rows, gone, user("n8", "n7")), "n8") == [None, "n8"]

    def test_rollover(self, tmp_path: Path) -> None:
        """Where no turns are summarised, the user's latest request stays, unless it is kept or was cleared away."""
        rows = [user("n0", None), assistant("n1", "n0", text()), assistant("n2", "n1", text())]
        compaction = {"summary": "S", "firstKeptEntryId": "n2", "tokensBefore": 9}
        rollover = compaction | {"details": {"kind": "experimental-context-rollover"}}
        assert sources(load(tmp_path, *rows, entry("compaction", "n3", "n2", **compaction)), "n3") == [None, "n2"]
        assert sources(load(tmp_path, *rows, entry("compaction", "n3", "n2", **rollover)), "n3") == [None, "n0", "n2"]
        kept = rollover | {"firstKeptEntryId": "n0"}
        assert sources(load(tmp_path, *rows, entry("compaction", "n3", "n2", **kept)), "n3") == [None, "n0", "n1", "n2"]
        rows[1] = entry("reset_boundary", "n1", "n0")
        assert sources(load(tmp_path, *rows, entry("compaction", "n3", "n2", **rollover)), "n3") == [None, "n2"]

    def test_replaced_pictures(self, tmp_path: Path) -> None:
        """A person is not shown pictures that were replaced at once."""
        kind, fields = self.COMPACTION
        rows = [user("n0", None), entry(kind, "n1", "n0", **fields, method="snapcompact")]
        rows += [entry(kind, "n2", "n1", **fields, method="snapcompact"), user("n3", "n2")]
        assert [row.entry for row in load(tmp_path, *rows).transcript("n3")] == ["n0", "n2", "n3"]


class TestNotebook:
    def note(self, name: str, parent: str | None, **data: object) -> Entry:
        return entry("custom", name, parent, customType="experimental_context_notes", data=data)

    def shown(self, folder: Path, *entries: Entry) -> list[str | None]:
        return [row.entry for row in load(folder, *entries).context(entries[-1]["id"]).messages]

    def test_in_front(self, tmp_path: Path) -> None:
        """The latest notebook stands in front of all, also of a summary; what is none is passed over."""
        rows = [
            user("n0", None),
            self.note("n1", "n0", version=1, text="old"),
            self.note("n2", "n1", version=1, text="new"),
        ]
        rows += [self.note("n3", "n2", version=2, text="x"), self.note("n4", "n3", version=1, text="x" * 16_385)]
        assert self.shown(tmp_path, *rows) == ["n2", "n0"]
        compaction = entry("compaction", "n5", "n4", summary="S", tokensBefore=9)
        assert self.shown(tmp_path, *rows, compaction, user("n6", "n5")) == ["n2", "n5", "n6"]

    def test_cleared(self, tmp_path: Path) -> None:
        """An empty notebook shows nothing, and none is in force behind a reset."""
        rows = [user("n0", None), self.note("n1", "n0", version=1, text="old")]
        assert self.shown(tmp_path, *rows, self.note("n2", "n1", version=1, text="")) == ["n0"]
        assert self.shown(tmp_path, *rows, entry("reset_boundary", "n2", "n1"), user("n3", "n2")) == ["n3"]


class TestSettings:
    def test_models(self, tmp_path: Path) -> None:
        """The default model is that of the messages until one is chosen; other roles have settings of their own."""
        rows = [
            assistant("n0", None, text()),
            entry("model_change", "n1", "n0", model="groq/llama", role="smol"),
            assistant("n2", "n1", text(), provider="google", model="gemini"),
            entry("model_change", "n3", "n2", model="openai/gpt"),
            assistant("n4", "n3", text()),
        ]
        file = load(tmp_path, *rows)
        assert [file.context(row["id"]).state["models"] for row in rows] == [
            {"default": "anthropic/claude"},
            {"default": "anthropic/claude", "smol": "groq/llama"},
            {"default": "google/gemini", "smol": "groq/llama"},
            {"default": "openai/gpt", "smol": "groq/llama"},
            {"default": "openai/gpt", "smol": "groq/llama"},
        ]

    @pytest.mark.parametrize(
        ("value", "tiers"),
        [
            ({"openai": "flex", "google": "nonsense", "other": "flex"}, {"openai": "flex"}),
            ({"openai": 3}, None),
            ("priority", {"openai": "priority", "anthropic": "priority", "google": "priority"}),
            ("openai-only", {"openai": "priority"}),
            ("claude-only", {"anthropic": "priority"}),
            ("scale", {"openai": "scale"}),
            ("nonsense", None),
            (None, None),
        ],
    )
    def test_tiers(self, tmp_path: Path, value: object, tiers: object) -> None:
        """Tiers of service are kept by family of models; words of old files are understood."""
        file = load(tmp_path, entry("service_tier_change", "n0", None, serviceTier=value))
        assert file.context("n0").state.get("serviceTier") == tiers

    def test_before_the_first_entry(self, tmp_path: Path) -> None:
        """Before the first entry nothing is set."""
        file = load(tmp_path, entry("mode_change", "n0", None, mode="plan"))
        state: dict[str, object] = {"thinkingLevel": "off", "models": {}, "injectedTtsrRules": [], "mode": "none"}
        assert file.context(None) == FileContext(messages=[], state=state)

    def test_many_rules(self, tmp_path: Path) -> None:
        """Of more rules than a brief can hold the first ones are a setting; the entry keeps all."""
        rules = [f"rule-{number}" for number in range(200)]
        file = load(tmp_path, entry("ttsr_injection", "n0", None, injectedRules=rules))
        shown = file.context("n0").state["injectedTtsrRules"]
        assert isinstance(shown, list)
        assert 20 < len(shown) < 200
        assert shown == rules[: len(shown)]


class TestCustomMessages:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            (
                {"customType": "e", "content": "c", "display": True},
                {"customType": "e", "content": "c", "display": True},
            ),
            ({"content": []}, {"customType": "custom-message", "content": [], "display": False}),
            (
                {"customType": "e", "content": "c", "display": 1, "attribution": "user"},
                {"customType": "e", "content": "c", "display": False, "attribution": "user"},
            ),
            (
                {"customType": "e", "content": "c", "attribution": "someone"},
                {"customType": "e", "content": "c", "display": False, "attribution": "agent"},
            ),
        ],
    )
    def test_shape(self, tmp_path: Path, fields: dict[str, Any], message: dict[str, Any]) -> None:
        """An extension's message is made whole where its entry lacks something."""
        file = load(tmp_path, entry("custom_message", "n0", None, **fields))
        assert file.context("n0").messages[0].message == {"role": "custom", **message, "timestamp": 1767600000000}

    @pytest.mark.parametrize("content", [None, 3, {}])
    def test_without_content(self, tmp_path: Path, content: object) -> None:
        """An extension's message without content is shown to nobody."""
        file = load(tmp_path, entry("custom_message", "n0", None, customType="e", content=content))
        assert file.context("n0").messages == file.transcript("n0") == []


class TestBlobs:
    def image(self, data: str) -> dict[str, Any]:
        return {"type": "image", "data": data, "mimeType": "image/png"}

    def test_resolved(self, tmp_path: Path) -> None:
        """Images in files of their own go to the model as images, and their entries need no second copy."""
        (tmp_path / "blobs").mkdir()
        (tmp_path / "blobs" / DIGEST).write_bytes(IMAGE)
        path = written(tmp_path, user("n0", None, [text(f"blob:sha256:{DIGEST}"), self.image(f"blob:sha256:{DIGEST}")]))
        file = read(path)
        inline = self.image(base64.b64encode(IMAGE).decode())
        assert contents(file, "n0") == [[text(f"blob:sha256:{DIGEST}"), inline]]
        assert sources(file, "n0") == ["n0"]
        assert file.problems == []
        _, draft = omp.open_source(path).drafts()
        assert draft.source is None

    def test_missing(self, tmp_path: Path) -> None:
        """A missing image becomes a text and a problem, and the entry keeps its bytes; a folder given later has it."""
        entries = user("n0", None, "first"), user("n1", "n0", [self.image(f"blob:sha256:{DIGEST}")])
        path = written(tmp_path, *entries)
        file = read(path)
        assert "blob:" not in str(contents(file, "n1"))
        assert [(problem.kind, problem.line) for problem in file.problems] == [("blob", 4)]
        *_, draft = omp.open_source(path).drafts()
        assert DIGEST in str((draft.source or {})[RAW])
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / DIGEST).write_bytes(IMAGE)
        assert read(path, blobs=tmp_path / "elsewhere").problems == []


class TestAgainstTheModel:
    @given(sessions())
    @settings(max_examples=few(26, whole=80), suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_contexts(self, tmp_path: Path, entries: list[dict[str, Any]]) -> None:
        """At every entry, what goes to a model, the settings and what a person sees are those of the plain model."""
        file = load(tmp_path, *entries)
        for at in entries:
            path = omp_model.path_to(entries, at["id"])
            context = file.context(at["id"])
            assert file.path(at["id"]) == [row["id"] for row in path]
            assert [each.message for each in context.messages] == [message for _, message in omp_model.sent(path)]
            assert [each.message for each in file.transcript(at["id"])] == [
                message for _, message in omp_model.transcript(path)
            ]
            assert omp_model.without_null(context.state) == omp_model.state_of(path)

    @given(sessions())
    @settings(max_examples=few(16, whole=50), suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_extending(self, tmp_path: Path, entries: list[dict[str, Any]]) -> None:
        """Going on from the context of a node gives what the whole path gives, or says that it needs the path."""
        nodes = {row.id: row for row in skeletons(written(tmp_path, *entries))}
        for policy in map(find_policy, omp.POLICIES):
            for row in nodes.values():
                path = [row]
                while (above := nodes.get(path[0].parent or "")) is not None:
                    path.insert(0, above)
                extended = policy.extend(policy.build(path[:-1]), row)
                assert extended in (None, policy.build(path))

    @given(sessions())
    @settings(max_examples=few(16, whole=50), suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_bytes(self, tmp_path: Path, entries: list[dict[str, Any]]) -> None:
        """The bytes of every entry can be made again of its draft; those that oh-my-pi wrote need no copy for that."""
        for entry_, drafts in omp.open_source(written(tmp_path, *entries)).records():
            if entry_ is not None:
                source = drafts[-1].source or {}
                assert RAW not in source
                record = omp.to_record(drafts[-1], entry_.record["parentId"])
                order = source.get(ORDER, [*record])
                assert isinstance(order, list)
                record = {name: record[name] for name in order}
                record.pop(ORDER, None)
                assert omp.encode(record) == entry_.raw


class TestDamage:
    @given(damaged_sessions())
    @settings(max_examples=few(20, whole=60), suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_value_anywhere(self, tmp_path: Path, entries: list[Any]) -> None:
        """Whatever a field holds, the file is read, and a store that takes it sends what the file sends."""
        path = written(tmp_path, *entries)
        file, source = read(path, format="omp"), omp.open_source(path)
        file.tree()
        for name in file.entry_ids:
            if name is not None:
                file.transcript(name)
        store = treering.open(f"memory://{uuid.uuid4()}")
        store.load("s", source.drafts(), leaf=lambda: source.leaf, policy="omp")
        shown = [item.message for item in store.view("s").recorded_context]
        if file.leaf is not None and len(set(file.entry_ids)) == len(entries):
            assert shown == [each.message for each in file.context(file.leaf).messages]

    @pytest.mark.parametrize(
        ("damage", "kinds"),
        [
            (b"}{", ["torn", "garbage"]),
            (b"\0\0\0", ["nul"]),
            (b'{"type":"message","id":"n9"', ["torn"]),
            (b"\n\r\n", []),
            (b"\xef\xbb\xbf", ["bom"]),
        ],
    )
    def test_beside_a_record(self, tmp_path: Path, damage: bytes, kinds: list[str]) -> None:
        """Damage in front of a record costs nothing but itself, and is reported with its line."""
        path = tmp_path / "damaged.jsonl"
        first, second = file_of(user("n0", None)), file_of(user("n1", "n0"), slot=b"").splitlines(keepends=True)[1]
        path.write_bytes(first + damage + second)
        file = read(path)
        assert sources(file, "n1") == ["n0", "n1"]
        assert set(kinds) >= {problem.kind for problem in file.problems if problem.kind != "glued"}
        assert {problem.line for problem in file.problems} <= {4}

    def test_slot(self, tmp_path: Path) -> None:
        """A damaged slot hides the title, and nothing else."""
        path = tmp_path / "damaged.jsonl"
        path.write_bytes(SLOT[10:] + file_of(user("n0", None), slot=b""))
        file = read(path, format="omp")
        assert (file.title, sources(file, "n0")) == ("", ["n0"])


def skeletons(path: Path) -> list[Skeleton]:
    """Return the nodes of a file as policies see them."""
    drafts = [draft for draft in omp.open_source(path).drafts() if draft.type == "node"]
    return [
        Skeleton(
            at, "node", draft.kind, draft.id or "", draft.parent if isinstance(draft.parent, str) else None, "",
            draft.role, None, 0, None, values.encode(draft.brief or {}), 0, False,
        )
        for at, draft in enumerate(drafts)
    ]  # fmt: skip


class TestStore:
    @given(sessions())
    @settings(max_examples=few(8, whole=25), suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_forks(self, tmp_path: Path, entries: list[dict[str, Any]]) -> None:
        """A session in a store, and a fork of it at any node, has all of the path and sends what the file would."""
        path = written(tmp_path, *entries)
        file, source = read(path), omp.open_source(path)
        store = treering.open(f"memory://{uuid.uuid4()}")
        store.load("s", source.drafts(), leaf=lambda: source.leaf, policy="omp")
        nodes = {draft.id for draft in source.drafts() if draft.type == "node"}
        with store.session("s") as session:
            for name in [name for name in file.entry_ids if name in nodes][-3:]:
                session.fork(f"fork-{name}", node=name)
                with store.session(f"fork-{name}") as fork:
                    shown = [each.message for each in file.context(name).messages]
                    assert [item.message for item in fork.recorded_context] == shown
                    assert list(fork.path()) == [above for above in file.path(name) if above in nodes]
