"""What stands beside the entries of oh-my-pi's sessions: title slots, blobs and breadcrumbs."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import treering
from treering.ids import new_nonce
from treering.importers import FileImporter
from treering.programs.omp import blobs as omp_blobs, breadcrumbs, title_slot as omp_title
from treering.programs.omp.title_slot import TitleSlot

IMAGE = bytes(range(256)) * 4
IMAGE_TEXT = base64.b64encode(IMAGE).decode()
IMAGE_REFERENCE = omp_blobs.PREFIX + sha256(IMAGE).hexdigest()
URL = "data:image/png;base64,AAAA"
URL_REFERENCE = omp_blobs.PREFIX + sha256(URL.encode()).hexdigest()


class TestTitleSlot:
    @given(st.text(max_size=300) | st.just("half \ud83d"), st.sampled_from(["", "auto", "user"]))
    def test_width(self, title: str, source: str) -> None:
        """A slot has 256 bytes whatever the title, and says the title or its beginning."""
        line = omp_title.build_title_slot(TitleSlot(title, source, "2026-01-05T08:00:01.000Z"))
        assert len(line) == omp_title.TITLE_SLOT_BYTES
        assert line.endswith(b"\n")
        read = omp_title.read_title_slot(line)
        assert read is not None
        assert title.startswith(read.title)
        assert (read.source, read.updated_at) == (source, "2026-01-05T08:00:01.000Z")

    def test_keeps_short_titles(self) -> None:
        """A title that fits is not cut, and the line is what oh-my-pi writes."""
        line = omp_title.build_title_slot(TitleSlot("Slot title", "user", "2026-01-05T08:00:01.000Z"))
        begin = (
            b'{"type":"title","v":1,"title":"Slot title","source":"user","updatedAt":"2026-01-05T08:00:01.000Z","pad":"'
        )
        assert line == begin + b" " * (256 - len(begin) - 3) + b'"}\n'

    @pytest.mark.parametrize(
        "change",
        [
            {"v": 2},
            {"type": "session"},
            {"title": 1},
            {"updatedAt": None},
            {"pad": None},
            {"source": "me"},
            {"source": 3},
            {"source": {"x": 1}},
            {"source": []},
        ],
    )
    def test_refuses_others(self, change: dict[str, object]) -> None:
        """A line that oh-my-pi does not take for a slot is none here."""
        slot = {"type": "title", "v": 1, "title": "t", "source": "auto", "updatedAt": "x", "pad": ""}
        assert omp_title.title_slot_of(slot) == TitleSlot("t", "auto", "x")
        assert omp_title.read_title_slot(json.dumps(slot | change).encode()) is None

    @pytest.mark.parametrize("line", [b"", b"{", b"[]", b"\xff", b"[" * 5000])
    def test_refuses_garbage(self, line: bytes) -> None:
        """What is no JSON object is no slot and no error."""
        assert omp_title.read_title_slot(line) is None


def image(data: str, **more: object) -> dict[str, object]:
    """Return an image block."""
    return {"type": "image", "data": data, "mimeType": "image/png", **more}


class TestBlobs:
    def setup_method(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.missing: list[str] = []

    def save(self, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        self.kept[digest] = data
        return digest

    def resolved(self, value: object) -> object:
        return omp_blobs.resolve(value, self.load, self.missing.append)

    def load(self, digest: str) -> bytes | None:
        assert len(bytes.fromhex(digest)) == 32, "a name that could lead out of the folder is never looked for"
        return self.kept.get(digest)

    @pytest.mark.parametrize(
        ("inline", "stored"),
        [
            ({"message": {"content": [image(IMAGE_TEXT)]}}, {"message": {"content": [image(IMAGE_REFERENCE)]}}),
            ({"message": {"images": [image(IMAGE_TEXT)]}}, {"message": {"images": [image(IMAGE_REFERENCE)]}}),
            (
                {"frames": [{"data": IMAGE_TEXT, "mimeType": "IMAGE/PNG"}]},
                {"frames": [{"data": IMAGE_REFERENCE, "mimeType": "IMAGE/PNG"}]},
            ),
            (
                {"items": [{"type": "image_generation_call", "result": IMAGE_TEXT}]},
                {"items": [{"type": "image_generation_call", "result": IMAGE_REFERENCE}]},
            ),
            ({"a": [{"image_url": URL}]}, {"a": [{"image_url": URL_REFERENCE}]}),
        ],
    )
    def test_places(self, inline: object, stored: object) -> None:
        """In each place that may hold a reference, writing and reading are each other's inverse."""
        assert omp_blobs.externalise(inline, self.save) == stored
        assert self.resolved(stored) == inline
        assert self.missing == []

    @pytest.mark.parametrize(
        "value",
        [
            {"message": {"content": IMAGE_REFERENCE}},
            {"message": {"content": [{"type": "text", "text": IMAGE_REFERENCE}]}},
            {"other": [image(IMAGE_REFERENCE)]},
            {"content": [{"data": IMAGE_REFERENCE, "mimeType": "image/png"}]},
            {"images": [{"data": IMAGE_REFERENCE, "mimeType": "text/plain"}]},
            {"type": "other_call", "result": IMAGE_REFERENCE},
            {"image_url": {"url": IMAGE_REFERENCE}},
        ],
    )
    def test_other_places(self, value: object) -> None:
        """The text of a reference in any other place is just text."""
        self.save(IMAGE)
        assert self.resolved(value) == value

    @pytest.mark.parametrize(
        "value",
        [
            {"content": [image(IMAGE_TEXT[:1020])]},
            {"content": [image("no base64 " * 200)]},
            {"content": [image(IMAGE_TEXT.rstrip("="))]},
            {"content": [{"type": "thinking", "thinkingSignature": "s", "image_url": URL}]},
            {"content": [{"type": "redactedThinking", "data": IMAGE_TEXT}]},
            {"image_url": "https://example.org/image.png"},
        ],
    )
    def test_stays_inline(self, value: object) -> None:
        """Short images, what is no plain base64, and signed blocks are written as they are."""
        assert omp_blobs.externalise(value, self.save) == value
        assert self.kept == {}

    @pytest.mark.parametrize(
        "reference",
        [
            IMAGE_REFERENCE,
            "blob:sha256:../../etc/passwd",
            "blob:sha256:",
            IMAGE_REFERENCE.upper().replace("BLOB:SHA", "blob:sha"),
        ],
    )
    @pytest.mark.parametrize(
        "value",
        [
            {"content": [image("X")]},
            {"images": [image("X")]},
            {"frames": [image("X")]},
            {"content": [{"type": "input_image", "image_url": "X"}]},
            {"items": [{"type": "image_generation_call", "result": "X"}]},
        ],
    )
    def test_missing(self, reference: str, value: object) -> None:
        """A reference that leads nowhere is reported and replaced: no model ever sees it."""
        stored = json.loads(json.dumps(value).replace('"X"', json.dumps(reference)))
        assert omp_blobs.PREFIX not in json.dumps(self.resolved(stored))
        assert self.missing == [reference]

    def test_folder(self, tmp_path: Path) -> None:
        """Blobs are found in the nearest folder of that name above the session, and checked against their name."""
        blobs = tmp_path / "agent" / "blobs"
        blobs.mkdir(parents=True)
        good, bad = sha256(IMAGE).hexdigest(), sha256(b"other").hexdigest()
        (blobs / good).write_bytes(IMAGE)
        (blobs / bad).write_bytes(b"damaged")
        found = omp_blobs.find_folder(tmp_path / "agent" / "sessions" / "--repo--" / "s.jsonl")
        assert found == blobs
        load = omp_blobs.loader(found)
        assert load(good) == IMAGE
        assert load(bad) is None
        assert load("0" * 64) is None
        assert omp_blobs.loader(None)(good) is None


class TestBreadcrumbs:
    def test_parse(self) -> None:
        """A breadcrumb names folder and session file, and may carry marks in any order."""
        crumb = breadcrumbs.parse_breadcrumb("/repo\n/s/a.jsonl\ncwdstat 12 34\nfresh\n")
        assert crumb is not None
        assert (crumb.cwd, crumb.session_file) == (Path("/repo"), Path("/s/a.jsonl"))
        assert (crumb.fresh, crumb.folder) == (True, (12, 34))
        plain = breadcrumbs.parse_breadcrumb("/repo\nsub/a.jsonl\ncwdstat x\n")
        assert plain is not None
        assert (plain.session_file, plain.fresh, plain.folder) == (Path("/repo/sub/a.jsonl"), False, None)

    @pytest.mark.parametrize("text", ["", "\n", "/repo", "/repo\n", "/repo\n\nfresh"])
    def test_no_breadcrumb(self, text: str) -> None:
        """A file with fewer than two paths is no breadcrumb."""
        assert breadcrumbs.parse_breadcrumb(text) is None

    def test_terminal(self, tmp_path: Path) -> None:
        """A terminal finds its own breadcrumb, as long as the session is there or was only just begun."""
        place = tmp_path / breadcrumbs.FOLDER
        place.mkdir()
        session = tmp_path / "s.jsonl"
        session.write_text("{}")
        (place / "pts-3").write_text(f"/repo\n{session}\n")
        (place / "tmux-%1").write_text("/repo\n/gone.jsonl\n")
        (place / "kitty-7").write_text("/repo\n/gone.jsonl\nfresh\n")
        mine = breadcrumbs.terminal_breadcrumb(tmp_path, {"TMUX_PANE": "%1"}, "/dev/pts/3")
        assert mine is not None
        assert mine.session_file == session
        assert breadcrumbs.terminal_breadcrumb(tmp_path, {"TMUX_PANE": "%1"}, None) is None
        begun = breadcrumbs.terminal_breadcrumb(tmp_path, {"KITTY_WINDOW_ID": "7"}, None)
        assert begun is not None
        assert begun.fresh
        assert breadcrumbs.terminal_breadcrumb(tmp_path, {}, None) is None
        assert breadcrumbs.terminal_breadcrumb(tmp_path, {"WT_SESSION": "../x"}, None) is None
        assert {crumb.session_file.name for crumb in breadcrumbs.find_breadcrumbs(tmp_path)} == {
            "s.jsonl",
            "gone.jsonl",
        }
        assert breadcrumbs.find_breadcrumbs(tmp_path / "none") == []

    def test_moved_folder(self, tmp_path: Path) -> None:
        """A folder that was renamed is still the one that the breadcrumb means; another of its name is not."""
        old, new = tmp_path / "old", tmp_path / "new"
        old.mkdir()
        there = old.stat()
        crumb = breadcrumbs.parse_breadcrumb(f"{old}\n/s\ncwdstat {there.st_dev} {there.st_ino}")
        assert crumb is not None
        old.rename(new)
        assert crumb.is_of(new)
        assert not crumb.is_of(tmp_path)
        assert not crumb.is_of(tmp_path / "gone")


@pytest.mark.parametrize(("before", "set_here", "after", "told"), [
    ("A", None, "B", "B"),
    ("A", None, "", ""),
    ("A", "mine", "A", "mine"),
    ("A", "mine", "B", "B"),
    ("", "mine", "", "mine"),
])  # fmt: skip
def test_an_import_follows_a_change_of_the_title(
    before: str, set_here: str | None, after: str, told: str, tmp_path: Path
) -> None:
    """One that was taken off too; a title that was set here stays if only the rest of the header changed."""
    path, store = tmp_path / "x.jsonl", treering.open(f"memory://omp-{new_nonce()}")
    for text, cwd, chosen in ((before, "/one", set_here), (after, "/two", None)):
        slot = omp_title.build_title_slot(TitleSlot(text, "user", "2026-01-05T08:00:01.000Z"))
        header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-05T08:00:00.000Z", "cwd": cwd}
        path.write_bytes(slot + json.dumps(header).encode() + b"\n")
        FileImporter(store).load(path)
        if chosen is not None:
            with store.session("s") as session:
                session.set_title(chosen)
    assert store.view("s").info.title == told
