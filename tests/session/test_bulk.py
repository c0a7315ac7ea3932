"""Many nodes in one pass, pages without their images, and large parts by their digest."""

from __future__ import annotations

import base64
import os
import random
from pathlib import Path

import msgspec
import pytest
from tests.session.backends import Backend, backend_of

import treering
from treering import BlobRef, user
from treering.format.media import media_type_of
from treering.session.verbs import reading
from treering.storage.requests import Get

PNG = b"\x89PNG\r\n\x1a\n" + os.urandom(60_000)


def image(data: bytes = PNG) -> dict[str, object]:
    """A message with an image."""
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}
    return {"role": "user", "content": [{"type": "image", "source": source}]}


def grown(backend: Backend, chance: random.Random, *, count: int = 60) -> list[str]:
    """A session with branches, edits, labels, seals and erasures; ids of its nodes, in order."""
    with backend.store().session("s", shared=True) as session:
        nodes = [session.append("first").node]
        for number in range(count):
            if chance.random() < 0.2:
                session.checkout(chance.choice(nodes))
            nodes += session.append(*[f"m{number}"] * chance.choice([1, 3])).nodes
            if chance.random() < 0.1:
                session.seal()
            if chance.random() < 0.1:
                session.label(chance.choice(nodes), f"L{number}")
            if chance.random() < 0.1:
                session.erase(chance.choice(nodes))
            if chance.random() < 0.1:
                session.retract(chance.choice(nodes))
            if not backend.store().view("s").get(node := chance.choice(nodes)).erased:
                session.amend(node, user(f"A{number}").payload)
    return nodes


@pytest.mark.parametrize("seed", range(6))
def test_each_node_is_what_get_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """By names in any order, by range, by subtree: the same nodes as one by one, a few at a time in memory."""
    chance = random.Random(seed)
    monkeypatch.setattr(reading, "NODES_AT_ONCE", chance.choice([1, 7, 256]))
    monkeypatch.setattr(reading, "NODES_BYTES", chance.choice([200, 4_000, 4_000_000]))
    backend = backend_of(chance.choice(["memory", "logs", "local"]), tmp_path)
    nodes = grown(backend, chance)
    view = backend.store().view("s")
    one_by_one = {node: view.get(node) for node in nodes}
    assert list(backend.store().view("s").each_node()) == [one_by_one[node] for node in nodes]
    some = chance.sample(nodes, 20)
    assert list(backend.store().view("s").each_node(some)) == [one_by_one[node] for node in some]
    first, end = sorted(chance.sample(range(view._reader.replica.state.end), 2))
    within = [node for node in one_by_one.values() if first <= node.at < end]
    assert list(view.each_node(first=first, end=end)) == within
    top = chance.choice(nodes)
    below = [node for node in one_by_one.values() if top in view.path(node.id)]
    assert list(backend.store().view("s").each_node(below=top)) == below
    assert list(view.each_node(below=top, first=first, end=end)) == [node for node in below if node in within]


def test_what_is_asked_for_must_be_there(backend: Backend) -> None:
    """An unknown node raises, and so do names together with a place."""
    with backend.store().session("s") as session:
        node = session.append("a").node
        with pytest.raises(treering.NotFoundError):
            list(session.each_node([node, "nobody"]))
        with pytest.raises(treering.NotFoundError):
            list(session.each_node(below="nobody"))
        for where in ({"below": node}, {"first": 1}, {"end": 1}):
            with pytest.raises(treering.UsageError):
                session.each_node([node], **where)
        assert list(session.each_node([])) == []
        assert list(session.each_node(first=5)) == []


def test_images_are_left_out_of_a_page(backend: Backend) -> None:
    """References stand in their places, no blob is read, and each can be read by itself with its media type."""
    with backend.store().session("s") as session:
        node = session.append(image()).node
        session.append("a text " * 60_000)
    store, counts = backend.counted()
    view = store.view("s")
    counts.reset()
    text, picture = (row.node for row in view.history(blobs=False).rows)
    refs = [text.payload["content"], picture.payload["content"][0]["source"]["data"]]
    assert all(isinstance(ref, BlobRef) for ref in refs)
    assert picture == view.get(node, blobs=False) == next(view.each_node(blobs=False))
    assert not any("/blobs/" in request.key for request in counts.requests if isinstance(request, Get))
    found = view.blob(refs[1].sha256)
    assert (found.data, found.media_type) == (PNG, "image/png")
    found = backend.store().view("s").blob(refs[0].sha256)
    assert (found.data.decode(), found.media_type) == ("a text " * 60_000, "text/plain")
    assert view.get(node).payload == image()
    decoded = msgspec.json.decode(treering.to_json(picture))
    assert decoded["payload"]["content"][0]["source"]["data"]["$blob"] == refs[1].sha256


def test_a_blob_that_is_not_there(backend: Backend) -> None:
    """Another digest, an erased image, a name that leads elsewhere: not found."""
    with backend.store().session("s") as session:
        node = session.append(image()).node
        ref = session.get(node, blobs=False).payload["content"][0]["source"]["data"]
        session.append("b")
        session.erase(node)
    view = backend.store().view("s")
    for digest in (ref.sha256, "0" * 64, "../tail.jsonl", ref.sha256.upper(), ""):
        with pytest.raises(treering.NotFoundError):
            view.blob(digest)


def test_images_of_many_nodes_are_read_few_at_a_time(tmp_path: Path) -> None:
    """A session with more images than have room in memory is read to its end."""
    backend = backend_of("memory", tmp_path)
    with backend.store().session("s") as session:
        session.append(*[image(os.urandom(40_000)) for _ in range(40)])
        session.seal()
    store, counts = backend.counted()
    view = store.view("s")
    counts.reset()
    most = 0
    for _ in view.each_node():
        most = max(most, len(view._reader.blobs.at_hand))
    assert most <= 40 + 16  # those of the context stay; a few beside them
    read = [request for request in counts.requests if isinstance(request, Get) and "/blobs/" in request.key]
    assert len(read) <= 40


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"\xff\xd8\xff\xe0..", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF", "application/octet-stream"),
        (b"\0\0\0\x18ftypisom", "video/mp4"),
        (b"\0\0\0\x18ftypavif", "image/avif"),
        (b"%PDF-1.7", "application/pdf"),
        (b"<svg onload=x>", "text/plain"),
        ("Grüße".encode(), "text/plain"),
        (b"\xfe\xfd", "application/octet-stream"),
        (b"a\0b", "application/octet-stream"),
        (b"", "text/plain"),
    ],
)
def test_media_types(data: bytes, media_type: str) -> None:
    """By how the bytes begin; text that a browser would run is text."""
    assert media_type_of(data) == media_type


def test_a_pass_reads_each_frame_once(tmp_path: Path) -> None:
    """A long session: as many requests as reading its records takes, and not one for each node."""
    backend = backend_of("memory", tmp_path)
    with backend.store().session("s") as session:
        for _ in range(12):
            session.append(*[os.urandom(500).hex() for _ in range(100)])
            session.seal()
        session.optimize(everything=True)
        session.append("last")
    store, counts = backend.counted()
    view = store.view("s")
    counts.reset()
    assert sum(1 for _ in view.each_node()) == 1201
    assert counts.total <= 12
