"""`AsyncView`: one session to read, for asynchronous code.

Written by `python -m tests.facades`: change what it is written from.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeVar

from treering.api.awaiting import AwaitingSession
from treering.session import verbs
from treering.session.reader import Readable, Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from treering.checkpoint.checkpoint import CheckpointInfo
    from treering.session.content import ContextItem
    from treering.session.streams import OpenStream, Piece
    from treering.session.verbs.comparing import Diff
    from treering.session.verbs.effects import Effect
    from treering.session.verbs.following import Event
    from treering.session.verbs.open_calls import OpenCall
    from treering.session.verbs.reading import Blob, CheckpointView, History, Note, SessionSize, Siblings
    from treering.transcript.graph import GraphProblem
    from treering.transcript.node import Node
    from treering.transcript.nodes import Nodes
    from treering.transcript.tree import OutlineRow

R = TypeVar("R", bound=Readable)


class AsyncReading(AwaitingSession[R]):
    """The methods that sessions and views have in common."""

    async def at(self, position: int) -> AsyncView:
        """The session as of its first `position` records: heads, context, state, pages, and all else that views have.

        Payloads erased since are erased there, too, and checkpoints pruned since are missing. `info` is that of today,
        except for counts, times, head and node; `stored` counts what is stored today.

        Args:
            position: The position of the first record to leave out: `at(event.at + 1)` is the session as of an event.

        Raises:
            UsageError: The session has fewer records.
            NotFoundError: The checkpoint that held the state then was pruned.
        """
        return AsyncView(self._beside(await self.perform(verbs.past.at, position)))

    async def history(
        self,
        *,
        head: str | None = None,
        node: str | None = None,
        before: str | None = None,
        limit: int = 50,
        retracted: bool = False,
        blobs: bool = True,
    ) -> History:
        """One page of the conversation, from a head towards the root, newest first.

        Args:
            head: The head to start from; by default the current one.
            node: Start from this node instead.
            before: The cursor of the page below.
            limit: The maximum number of rows.
            retracted: Show retracted nodes too.
            blobs: Read large images and texts, too; else a `BlobRef` replaces each, and `blob` reads it.

        Raises:
            NotFoundError: There is no such head or node.
        """
        return await self.perform(
            verbs.reading.history, head=head, node=node, before=before, limit=limit, retracted=retracted, blobs=blobs
        )

    async def get(self, node: str, *, blobs: bool = True) -> Node:
        """One node with its payload, later edits applied. `each_node` reads many at once.

        Args:
            node: Its id.
            blobs: Read large images and texts, too; else a `BlobRef` replaces each.

        Raises:
            NotFoundError: There is no such node.
        """
        return await self.perform(verbs.reading.get, node, blobs=blobs)

    def each_node(
        self,
        nodes: Iterable[str] | None = None,
        *,
        below: str | None = None,
        first: int = 0,
        end: int | None = None,
        blobs: bool = True,
    ) -> AsyncIterator[Node]:
        """Yield nodes with their payloads, later edits applied: many in one pass, with only some in memory at a time.

        Args:
            nodes: Only these, by their ids, in this order; by default all nodes, in the order they were recorded.
            below: Only this node and its descendants.
            first: Only nodes recorded at this position or later.
            end: Only nodes recorded before this position.
            blobs: Read large images and texts, too; else a `BlobRef` replaces each, and `blob` reads it.

        Raises:
            NotFoundError: There is no such node.
            UsageError: `nodes` is given together with `below`, `first` or `end`.
        """
        return self._each(verbs.reading.each_node, nodes, below=below, first=first, end=end, blobs=blobs)

    async def blob(self, sha256: str) -> Blob:
        """One large image or text by its `BlobRef.sha256`, as a page read with `blobs=False` names it.

        Raises:
            NotFoundError: The session has no blob of that digest, or the blob was erased, or is damaged.
        """
        return await self.perform(verbs.reading.blob, sha256)

    async def original(self, node: str) -> Any:
        """The payload of a node as it was first recorded, without later edits."""
        return await self.perform(verbs.reading.original, node)

    async def path(self, node: str | None = None, *, limit: int | None = None) -> tuple[str, ...]:
        """Ids from a root down to a node, by default the head's.

        Args:
            node: The last node of the path.
            limit: Only the last `limit` ids.

        Raises:
            NotFoundError: There is no such node.
            UsageError: `limit` is less than 1.
        """
        return await self.perform(verbs.reading.path, node, limit=limit)

    async def children(self, node: str | None) -> tuple[str, ...]:
        """Ids of the children of a node, oldest first; those of None are the roots."""
        return await self.perform(verbs.reading.children, node)

    async def siblings(self, node: str) -> Siblings:
        """The children of a node's parent, the node itself included."""
        return await self.perform(verbs.reading.siblings, node)

    async def newest_leaf(self, node: str) -> str:
        """The end of the branch to show when a user goes to another version of a message.

        From the node it descends to the child recorded last, again and again, until a node has no children. A retracted
        child is skipped if it has siblings that are not retracted. A node without children is its own end.

        Raises:
            NotFoundError: There is no such node.
        """
        return await self.perform(verbs.reading.newest_leaf, node)

    async def leaves(self) -> tuple[str, ...]:
        """Ids of the nodes without children: the ends of all branches."""
        return await self.perform(verbs.reading.leaves)

    async def tree(self) -> Sequence[OutlineRow]:
        """The outline of the whole graph, with straight runs folded; reads no payload.

        Each row is made when it is accessed.
        """
        return await self.perform(verbs.reading.tree)

    async def nodes(self) -> Nodes:
        """All nodes without payloads, in the order they were recorded; each is made when it is accessed.

        `ids`, `parents` and further columns of the result give one field of all nodes, without making any.
        """
        return await self.perform(verbs.reading.nodes)

    async def problems(self) -> tuple[GraphProblem, ...]:
        """Oddities of the graph: orphans, cycles, duplicate ids. Worth a look, never an error."""
        return await self.perform(verbs.reading.problems)

    async def labels(self) -> Mapping[str, str]:
        """Label by node or checkpoint; read-only."""
        return await self.perform(verbs.reading.labels)

    async def checkpoints(self, *, before: str | None = None, limit: int | None = None) -> tuple[CheckpointInfo, ...]:
        """The checkpoints that were not pruned, oldest first; a label given later is shown.

        Args:
            before: Only those made before this checkpoint: the first one of the page that is already shown.
            limit: Only the newest `limit` checkpoints; by default all.

        Raises:
            NotFoundError: There is no such checkpoint.
        """
        return await self.perform(verbs.reading.checkpoints, before=before, limit=limit)

    async def checkpoint(self, checkpoint: str) -> CheckpointView:
        """One checkpoint of any age: the context and the agent's state.

        Raises:
            NotFoundError: There is no such checkpoint, or it was pruned.
        """
        return await self.perform(verbs.reading.checkpoint, checkpoint)

    async def checkpoints_at(self, checkpoints: Sequence[str]) -> tuple[CheckpointView, ...]:
        """Several checkpoints, in the order asked for, with contexts and states; records that they share are read once.

        All of them are in memory together. Messages that several contexts show are the same objects, so copy one before
        you change it.

        Args:
            checkpoints: Their ids, for example those of a page of `checkpoints`.

        Raises:
            NotFoundError: There is no such checkpoint, or it was pruned.
        """
        return await self.perform(verbs.reading.checkpoints_at, checkpoints)

    async def context_at(self, node: str | None, *, recorded: bool = False) -> tuple[ContextItem, ...]:
        """The messages to send to the model at a node, as a `checkout` from this head restores them.

        Args:
            node: The node; None is the place before the first one.
            recorded: Include the messages that `Session.context` leaves out.
        """
        return await self.perform(verbs.reading.context_at, node, recorded=recorded)

    async def diff(self, a: str, b: str | None = None) -> Diff:
        """Compare two points of the session: state, settings, and what the model sees.

        A node stands for the state and context that a `checkout` of it from this head restores. Contexts are compared as
        they were recorded: with the messages that `context` leaves out, and without buffered messages.

        Args:
            a: A checkpoint or a node.
            b: A checkpoint or a node; by default the point where the session stands now.

        Raises:
            NotFoundError: There is no such checkpoint or node, or the checkpoint was pruned.
        """
        return await self.perform(verbs.comparing.diff, a, b)

    async def notes(self, kind: str | None = None, *, on_path: bool = False) -> tuple[Note, ...]:
        """Notes, oldest first.

        Args:
            kind: Only this kind, for example `usage`, `system` or `link`.
            on_path: Only notes about nodes on the path of the head, and about the session as a whole.
        """
        return await self.perform(verbs.reading.notes, kind, on_path=on_path)

    async def extensions(self, extension: str | None = None, *, on_path: bool = True) -> tuple[Note, ...]:
        """The notes of one extension, or of all extensions, oldest first.

        Args:
            extension: Its name; by default all extensions. `Note.brief` names them.
            on_path: Only along the path of the head (the default), and about the session as a whole.
        """
        return await self.perform(verbs.reading.extensions, extension, on_path=on_path)

    async def open_calls(self) -> tuple[OpenCall, ...]:
        """The tool calls at the end of the context that have no result yet, in order; the context leaves them out.

        There are such calls while a turn is running, or after an agent was killed in one. A call after which the
        conversation continued is not among them: no provider accepts a result for it any more.
        """
        return await self.perform(verbs.open_calls.open_calls)

    async def unresolved_effects(self) -> tuple[Effect, ...]:
        """The effects whose end is not recorded, oldest first: their calls are running now, or may have been made.

        Sends no request. After a kill, find out for each whether it was made, and call `end_effect`.
        """
        return await self.perform(verbs.effects.unresolved_effects)

    async def find_effect(self, key: str) -> Effect | None:
        """The effect of that key, whatever its outcome; None if it never began, or was not made."""
        return await self.perform(verbs.effects.find_effect, key)

    async def last_compaction(self) -> str | None:
        """The newest compaction on the path of the head; None if there is none."""
        return await self.perform(verbs.conversation.last_compaction)

    async def stored(self) -> SessionSize:
        """Count records, segments and bytes: one GET of the tail, and a list of the segments; no segment is read."""
        return await self.perform(verbs.reading.stored)

    def lines(self, first: int = 0) -> AsyncIterator[bytes]:
        """Yield every record line, with one segment in memory at a time.

        Args:
            first: The position to start from.

        Raises:
            UsageError: It is negative.
        """
        return self._each(verbs.reading.lines, first)

    def events(
        self, *, first: int | None = None, after: str | None = None, poll_seconds: float = 1.0
    ) -> AsyncIterator[Event]:
        """Yield each event of the session once, by any writer, in order; waits for new ones.

        Events are nodes, notes, edits, moves of heads, checkpoints, erasures, and at last the deletion of the session. A
        payload that is erased before its event is yielded is an `Erased`; a later erasure is an event of its own.

        All followers of a session through one store share one conditional GET for each `poll_seconds`.

        Args:
            first: The position to start from. All erasures so far are yielded, too, after the existing records.
            after: Continue after an event: its `after`. No event is repeated or left out, whatever happened since.
                By default start after the records that this view or session shows.
            poll_seconds: How long to wait between polls.

        Raises:
            UsageError: Both `first` and `after` are given, or one of them is no place in a session.
            NotFoundError: The session has no record yet.
            CorruptError: Records that were yielded before are gone: an older copy of the session was restored.
        """
        return self._each(verbs.following.events, first=first, after=after, poll_seconds=poll_seconds)

    def follow(self, *, poll_seconds: float = 1.0, first: int | None = None) -> AsyncIterator[Node]:
        """Yield nodes as they are added, by any writer; waits for new ones. `events` yields all kinds of events.

        Args:
            poll_seconds: How long to wait between polls.
            first: The position to start from; by default the end of the journal.

        Raises:
            SessionDeletedError: The session was deleted.
            NotFoundError: The session has no record yet.
        """
        return self._each(verbs.following.follow, poll_seconds=poll_seconds, first=first)

    async def open_streams(self, *ids: str) -> tuple[OpenStream, ...]:
        """Answers that were begun and have not ended, with their stored pieces; no request if there are none.

        The list is as of the last read; their pieces are read now, one GET for each 64 KiB.

        Args:
            ids: Only these; by default all.
        """
        return await self.perform(verbs.streaming.open_streams, *ids)

    def follow_stream(self, stream: str, *, offset: int = 0, poll_seconds: float = 0.2) -> AsyncIterator[Piece]:
        """Yield each piece of an answer once and in order, as they are stored; waits for new ones.

        The last piece has the kind `PieceKind.END`, and says how the stream ended. A stream that `FAILED`, or whose writer
        was `LOST`, is still open: a writer may continue it. Then call again with the offset of that last piece.

        An idle reader sends one conditional GET for each `poll_seconds`.

        Args:
            stream: The id of the stream, which is also the id of its node; it may have ended long ago.
            offset: Start there: the `after` of the last piece.
            poll_seconds: How long to wait between two looks.

        Raises:
            NotFoundError: No stream has this id; or the session was deleted while it was followed.
            CorruptError: The stored pieces are damaged.
            UnavailableError: The store does not answer. Call again, with the offset of the last piece.
        """
        return self._each(verbs.streaming.follow_stream, stream, offset=offset, poll_seconds=poll_seconds)


class AsyncView(AsyncReading[Reader]):
    """A session for reading only, as of the last `refresh`; no method writes."""

    async def refresh(self) -> bool:
        """Read the session again; return whether anything is new."""
        return await self.perform(Reader.refresh)
