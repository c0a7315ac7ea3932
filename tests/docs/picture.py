"""The picture in the README: a session with a branch whose writer was killed, and what resuming it reads.

`python -m tests.docs.picture` draws it anew. Everything in it is taken from a real session: a process records it in a
store on disk and kills itself, and this one resumes it through a driver that keeps all requests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from tests.docs.pages import ROOT

from treering.api.store import Store
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.storage.requests import Get
from treering.store.place import Place

PICTURE = ROOT / "docs/picture.svg"
BYTES_MAX = 8_000
"""Of the picture: it is loaded with every view of the page."""

PROGRAM = """
import os, signal, sys, treering

session = treering.open(sys.argv[1]).session("fix-login")
question = session.append(treering.user("the test fails on CI")).node
session.commit([treering.assistant("it is the time zone")], state={"step": 1})
session.branch("other-idea", node=question)
session.commit([treering.assistant("it is the clock: times differ")], state={"step": 1})
session.commit([treering.user("fix it"), treering.assistant("done, and the test passes")], state={"step": 2})
session.append(treering.user("now the other one"))
os.kill(os.getpid(), signal.SIGKILL)
"""
"""Records a session, and dies in the middle of a turn."""

WIDTH, HEIGHT = 880, 300
ROW = 32
LEFT, RIGHT, TOP = 28, 496, 76
INDENT = 26
LETTERS_MAX = 40
"""As many as fit beside a branch."""
STYLE = """
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2a24}
.h{font:600 14px system-ui,sans-serif}.q{fill:#5c6b62}.k{fill:#1a7f4b;font-weight:600}
.l{stroke:#1a7f4b;stroke-width:2;fill:none}.n{fill:#1a7f4b}.o{fill:#fff;stroke:#1a7f4b;stroke-width:2}
.b{fill:#fbfdfb;stroke:#d5e0d8}.p{fill:#dff2e6}
@media(prefers-color-scheme:dark){text{fill:#e3ebe6}.q{fill:#9bada2}.k{fill:#63d297}.l,.o{stroke:#63d297}
.n{fill:#63d297}.o{fill:#141a17}.b{fill:#141a17;stroke:#2c3831}.p{fill:#214231}}
""".strip().replace("\n", "")


class Row(NamedTuple):
    """A node of the session, in the order in which nodes are drawn."""

    node: str
    parent: str | None
    level: int
    """0: on the path of the head; 1: beside it."""
    text: str
    heads: tuple[str, ...]
    step: str
    """What the checkpoint made there says; empty if there is none."""


class Resumed(NamedTuple):
    """What is seen by the process that resumes."""

    reads: tuple[str, ...]
    state: str
    context: tuple[str, ...]
    rows: tuple[Row, ...]


def resumed(folder: Path) -> Resumed:
    """Have a session recorded and its writer killed; resume it."""
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == -signal.SIGKILL
    counting = CountingDriver(LocalDriver(str(folder)), keep=True)
    with Store(Place(counting)).session("fix-login") as session:
        reads = tuple(request.key for request in counting.requests if isinstance(request, Get))
        assert len(reads) == counting.total
        state = dict(session.state)
        context = tuple(f"{item.message['role']}: {item.message['content']}" for item in session.context)
        return Resumed(reads, str(state), context, tuple(_rows(session)))


def _rows(session: Any) -> Iterator[Row]:
    """All nodes; a branch beside the path stands behind its parent."""
    path = session.path()
    nodes = list(session.nodes())
    steps = {info.node: str(dict(session.checkpoint(info.id).state)) for info in session.checkpoints()}
    heads: dict[str, list[str]] = {}
    for head, node in session.heads.items():
        heads.setdefault(node, []).append(head)

    def row(identifier: str, level: int) -> Row:
        node = session.get(identifier)
        text = f"{node.role}: {node.payload['content']}"
        return Row(identifier, node.parent, level, text, tuple(heads.get(identifier, ())), steps.get(identifier, ""))

    for each in path:
        yield row(each, 0)
        yield from (row(node.id, 1) for node in nodes if node.parent == each and node.id not in path)


def drawn(found: Resumed) -> str:
    """The picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t">',
        '<title id="t">A session with a branch, and what a new process reads after its writer was killed</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="b" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"/>',
        _text(LEFT, 34, "Everything that happened, with branches", "h"),
        _text(RIGHT, 34, "kill -9, then in a new process: two reads", "h"),
        *_tree(found.rows),
        *_resume(found),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _tree(rows: tuple[Row, ...]) -> Iterator[str]:
    places = {row.node: (LEFT + 6 + INDENT * row.level, TOP + ROW * index) for index, row in enumerate(rows)}
    for row in rows:
        x, y = places[row.node]
        if row.parent is not None:
            above, start = places[row.parent]
            yield f'<path class="l" d="M{above} {start}V{y}H{x}"/>'
    for row in rows:
        x, y = places[row.node]
        yield f'<circle class="{"n" if row.step else "o"}" cx="{x}" cy="{y}" r="6"/>'
        yield _text(x + 16, y + 4, _cut(row.text))
        for head in row.heads:
            width = 8 * len(head) + 14
            yield f'<rect class="p" x="{RIGHT - 40 - width}" y="{y - 10}" width="{width}" height="20" rx="10"/>'
            yield _text(RIGHT - 33 - width, y + 4, head, "k")
    yield _text(LEFT, HEIGHT - 20, "● a checkpoint: state and context are kept", "q")


def _resume(found: Resumed) -> Iterator[str]:
    lines = [("GET " + key, "k") for key in found.reads]
    lines += [("state", "q"), (found.state, ""), ("what the model sees next", "q")]
    lines += [(_cut(each), "") for each in found.context]
    for index, (line, kind) in enumerate(lines):
        yield _text(RIGHT + (0 if kind else 16), TOP - 8 + 22 * index, line, kind)


def _cut(text: str) -> str:
    return text if len(text) <= LETTERS_MAX else text[: LETTERS_MAX - 1] + "…"


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{style}>{escape(text)}</text>'


def picture() -> str:
    """The picture, of a session recorded just now."""
    with tempfile.TemporaryDirectory() as folder:
        return drawn(resumed(Path(folder) / "agents"))


if __name__ == "__main__":
    PICTURE.write_text(picture())
