"""Treering, by its public interface."""

from __future__ import annotations

import treering
from benchmarks.contestants.contestant import Contestant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.workload import Message

COMPACT_EVERY = 80  # messages appended one by one: what bounds the context of an agent without a window
COMPACT_EVERY_TURNS = 100
KEPT = 16
OTHER = "other"
SUMMARY = "What was done so far, in a few words."


class Treering(Contestant):
    """Treering on a disk or in a bucket."""

    folder = "treering"
    shared = False
    tail_bytes = 0
    """How long the tail is at least that a resume finds besides the last messages."""

    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        self.root = f"{place}/{self.folder}"
        self.store = treering.open(self.root)

    def write(self, session: str, messages: Sequence[Message]) -> None:
        """Store a session without waiting for the disk; one for a bucket is copied there."""
        import tempfile
        from pathlib import Path

        if "://" not in self.root:
            self._record(unsynced_store(Path(self.root)), session, messages)
            return
        with tempfile.TemporaryDirectory() as folder:
            local = unsynced_store(Path(folder))
            self._record(local, session, messages)
            local.copy(session, self.store)

    def _record(self, store: treering.Store, session: str, messages: Sequence[Message]) -> None:
        turns = [messages[at : at + 2] for at in range(0, len(messages), 2)]
        sealed = max(0, len(messages) - self.window) // 2
        with store.session(session, title=session) as recorded:
            for step, turn in enumerate(turns):
                if step and step % COMPACT_EVERY_TURNS == 0:
                    recorded.compact(SUMMARY, kept=recorded.recorded_context[-self.window :][0].node)
                if step == sealed and step:
                    self._seal(recorded)
                if step == len(messages) // 4:
                    self._branch(recorded)
                shown = recorded.recorded_context[len(turn) - self.window :]
                recorded.commit(list(map(_draft, turn)), context=shown, state={"step": step}, step=step)

    def _seal(self, session: treering.Session) -> None:
        session.seal()
        payload = "x" * 20_000
        for _ in range(self.tail_bytes // len(payload)):
            session.note("filler", {}, payload=payload)

    def _branch(self, session: treering.Session) -> None:
        """Leave a branch of two messages behind."""
        if session.node is None:
            return
        context = session.recorded_context
        session.branch(OTHER, node=context[-1].node, keep_state=True)
        session.commit([treering.user("another way"), treering.assistant("let us see")])
        session.switch("main")

    def resume(self, session: str) -> Sequence[str]:
        with self.store.session(session, create=False) as resumed:
            context, state = resumed.recorded_context, resumed.state
        if "step" not in state:
            raise ValueError(f"the state was not restored. session={session!r}")
        return [_text(item.message) for item in context]

    def begin(self, session: str) -> None:
        self.open = self.store.session(session, shared=self.shared)
        self.nodes: list[str] = []

    def append(self, text: str) -> None:
        self.nodes.append(self.open.append(treering.user(text)).node)
        if len(self.nodes) % COMPACT_EVERY == 0:
            self.open.compact(SUMMARY, kept=self.nodes[-KEPT])

    def turn(self, texts: Sequence[str], step: int) -> None:
        shown = self.open.recorded_context[len(texts) - self.window :]
        self.open.commit(
            [treering.user(texts[0]), treering.assistant(texts[1])], context=shown, state={"step": step}, step=step
        )

    def end(self) -> None:
        self.open.close()

    def page(self, session: str, count: int) -> Sequence[str]:
        rows = self.store.view(session).history(limit=count).rows
        return [_text(row.node.payload) for row in reversed(rows) if row.node.role]

    def skeleton(self, session: str) -> int:
        nodes = self.store.view(session).nodes()
        return len(dict(zip(nodes.ids, nodes.parents, strict=True)))

    def switch(self, session: str) -> Sequence[str]:
        """Go to the other branch; the way back is not part of the task."""
        with self.store.session(session) as opened:
            opened.switch(OTHER if opened.head != OTHER else "main")
            return [_text(item.message) for item in opened.recorded_context]

    def travel(self, session: str, step: int) -> Sequence[str]:
        view = self.store.view(session)
        found = next(entry for entry in view.checkpoints() if entry.step == step)
        return [_text(item.message) for item in view.checkpoint(found.id).context]

    def list(self, count: int) -> int:
        return len(self.store.sessions(limit=count).rows)

    def counts(self, session: str) -> dict[str, int]:
        """Return how many nodes and checkpoints there are: also those of compactions and of the branch."""
        view = self.store.view(session)
        return {"nodes": len(view.nodes()), "checkpoints": len(view.checkpoints())}

    def everything(self, session: str) -> Sequence[str]:
        """Return the texts of all branches."""
        view = self.store.view(session)
        return [_text(view.get(node.id).payload) for node in view.nodes() if node.role]

    def optimize(self, session: str) -> None:
        with self.store.session(session) as opened:
            opened.seal()
            opened.optimize(everything=True)
            opened.set_status("done")  # an append drops from the tail what was sealed


class Shared(Treering):
    """The same, for writers who share sessions."""

    shared = True


class FullTail(Treering):
    """The same with a tail that is about to be sealed: the most that resuming may have to read."""

    folder = "treering-full-tail"
    tail_bytes = 1_000_000


def _draft(message: Message) -> treering.Draft:
    if message["role"] == "tool":
        return treering.tool(message["content"], call="call")
    return treering.user(message["content"]) if message["role"] == "user" else treering.assistant(message["content"])


def _text(payload: object) -> str:
    content = payload["content"]  # type: ignore[index]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def unsynced_store(folder: object) -> treering.Store:
    """Return a store that does not wait for the disk, to prepare sessions quickly."""
    from treering.storage.local import LocalDriver
    from treering.storage.local_disk import Sync
    from treering.store.place import Place

    def nothing(_fd: int) -> None:
        return

    return treering.Store(Place(LocalDriver(folder, sync=Sync(nothing, nothing))))  # type: ignore[arg-type]
