"""`AsyncSession`: one session to record in, for asynchronous code.

Written by `python -m tests.facades`: change what it is written from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from treering.api import session_body
from treering.api.async_view import AsyncReading
from treering.api.awaiting import AwaitingWriting
from treering.session import verbs
from treering.session.writer import Writer
from treering.transcript.node import HERE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from msgspec import UnsetType

    from treering.checkpoint.prune import KeepCheckpoints
    from treering.erasure.erasing import Receipt
    from treering.journal.merge import Merged
    from treering.session.content import ContextItem
    from treering.session.record import Appended
    from treering.session.recording import Message
    from treering.session.verbs.effects import Effect
    from treering.session.verbs.pruning import Pruned
    from treering.transcript.node import Draft, Here


class AsyncSession(AsyncReading[Writer], AwaitingWriting):
    """A session to record in. Use it as a context manager, or call `close`.

    A session is used by one conversation; its methods may be called from several threads or tasks, one after the other.
    """

    async def append(
        self, *messages: Message, head: str | None = None, expect: str | Here | None = HERE, new_ids: bool = False
    ) -> Appended:
        """Record messages in order; durable when it returns.

        Args:
            messages: Drafts, JSON objects with a role, or text from the user. A draft with a parent of its own is added
                below that node, on a new head, and does not move this session.
            head: Append to this head instead of the current one.
            expect: The node that you expect the head to point to; None for the place before the first node.
            new_ids: You know that no node of the session has an id that you chose, and that no other writer chooses it, for
                example because it is random. Otherwise the first call with a chosen id reads the ids of the session.

        Raises:
            HeadMovedError: The head does not point to `expect`.
            ConflictError: Another writer writes this exclusive session.
            NotFoundError: A draft names a parent that does not exist.
            UsageError: A value cannot be stored exactly, or there is nothing to record; or an id that you chose, here or
                for a buffered draft, is the id of another node (`duplicate_id`): see `discard`.
            UnavailableError: The store did not answer; the messages may be recorded. The next call finds out.
        """
        return await self.perform(verbs.conversation.append, *messages, head=head, expect=expect, new_ids=new_ids)

    async def commit(
        self,
        messages: Message | Iterable[Message] = (),
        *,
        state: Mapping[str, object] | None = None,
        drop: Sequence[str] = (),
        manager: object = UNSET,
        context: Sequence[ContextItem | str] | UnsetType = UNSET,
        label: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, object] | None = None,
        expect: str | Here | None = HERE,
        expect_checkpoint: str | Here | None = HERE,
        merge: bool = False,
        new_ids: bool = False,
    ) -> Appended:
        """End a turn: record messages and a checkpoint in one append, all or nothing.

        Messages appended before belong to the turn. Without new records since the last checkpoint, and none to add, the
        call does nothing.

        Args:
            messages: As for `append`: one, or several, or none.
            state: Keys of the agent's state that changed, with their new values.
            drop: Keys to remove.
            manager: State of a conversation manager, replaced as a whole; None clears it.
            context: What the model sees in front of these messages, if that changes: nodes by id, or items whose message
                replaces the node's own. It may also name one of these messages by an id that you chose; the model then sees
                that message at this place.
            label: A name to find the checkpoint by.
            step: The agent's own count.
            metadata: Small JSON values for lists of checkpoints.
            expect: As for `append`.
            expect_checkpoint: The checkpoint whose state you used, and which you expect to be the newest of the head; None
                for no checkpoint at all.
            merge: In a shared session, set and drop these keys in the newest state of the head, even if another writer has
                changed it: for keys that are independent of all other keys. Otherwise, if another writer committed since
                you looked, a commit that changes the state goes on a new head, with the state that you saw.
            new_ids: As for `append`.

        Raises:
            HeadMovedError: The head does not point to `expect`, or its newest checkpoint is not `expect_checkpoint`, or you
                gave `expect` and its newest checkpoint is not the one that you saw. Further errors are those of `append`.
        """
        return await self.perform(
            verbs.conversation.commit,
            messages,
            state=state,
            drop=drop,
            manager=manager,
            context=context,
            label=label,
            step=step,
            metadata=metadata,
            expect=expect,
            expect_checkpoint=expect_checkpoint,
            merge=merge,
            new_ids=new_ids,
        )

    async def flush(self) -> None:
        """Record buffered drafts, see `durability="turn"` and `first_write="assistant"`; durable when it returns.

        They are recorded in one append, or in more if they are too large for one.

        Raises:
            UsageError: Another writer recorded another node under an id that you chose for a draft (`duplicate_id`).
                Drafts that are not recorded stay buffered: see `discard`. Further errors are those of `append`.
        """
        await self.perform(session_body.flush)

    async def discard(self, *ids: str) -> tuple[Draft, ...]:
        """Discard buffered drafts, so that no later call records them.

        If `flush` or `commit` raises because an id is taken by now, discard that draft, or all drafts, and append them
        again with changes; later drafts may name its id.

        Args:
            ids: Ids of the drafts; without any, all drafts are discarded.

        Returns:
            The drafts in their order, with the ids that they were to get.

        Raises:
            NotFoundError: No buffered draft has such an id: it may be recorded already. Nothing was discarded.
            UnavailableError: Some drafts are part of an append without an answer, and the store still does not answer.
        """
        return await self.perform(session_body.discard, *ids)

    async def keep_stream(self, stream: str) -> Appended:
        """Record the stored part of an open stream as a node, whose brief says `stream: partial`: take it over, and end it.

        If its writer is still alive, it gets a `StreamLostError`.

        Args:
            stream: Its id.

        Returns:
            What was recorded; no nodes if nothing was stored of the stream: then it is discarded.

        Raises:
            NotFoundError: No stream with this id is open.
            StreamLostError: Another writer continued or ended the stream at the same time. Further errors are those of
                `append`; call again then.
        """
        return await self.perform(verbs.streaming.keep_stream, stream)

    async def discard_stream(self, stream: str) -> None:
        """End an open stream without a node, and delete its pieces.

        Args:
            stream: Its id.

        Raises:
            NotFoundError: No stream with this id is open. Further errors are those of `append`.
        """
        await self.perform(verbs.streaming.discard_stream, stream)

    async def compact(
        self,
        /,
        summary: str,
        *,
        kept: str | None = None,
        tokens_before: int | None = None,
        tokens_after: int | None = None,
        state: Mapping[str, object] | None = None,
        **details: object,
    ) -> Appended:
        """Replace the context by a summary and the messages from node `kept` on.

        Args:
            summary: The text that the model sees instead.
            kept: The first message that stays; None keeps none.
            tokens_before: Size of the context before.
            tokens_after: Size of the context after.
            state: As for `commit`.
            details: Kept with the compaction, for example `files_read=[...]`, `files_changed=[...]`.

        Returns:
            What was recorded: no nodes if a hook cancelled the compaction.

        Raises:
            NotFoundError: There is no node `kept`.
        """
        return await self.perform(
            verbs.conversation.compact,
            summary,
            kept=kept,
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            state=state,
            **details,
        )

    async def close_open_calls(self, /, reason: str) -> Appended:
        """Record an error result with the reason for every open call, all in one append.

        Each has the shape of its call, and `interrupted` in its brief. Without open calls nothing is written.

        Args:
            reason: The text for the model, such as `"the agent was stopped before this call returned"`.

        Returns:
            The nodes of the results; one node if the API answers all calls in one message.

        Raises:
            UsageError: `reason` is empty.
            HeadMovedError: Another writer moved the head; refresh, and look again.
        """
        return await self.perform(verbs.open_calls.close_open_calls, reason)

    async def effect(self, call: str, *, key: str | None = None, about: object = None) -> Effect:
        """Record that a call begins, unless its outcome is known; durable when it returns.

        If the outcome of the returned effect is `unresolved`, make the call, and then call `end_effect`. Otherwise the call
        was made before, and the effect has its result.

        Args:
            call: The id of the tool call.
            key: Two calls with the same key are one effect; at most 256 bytes, by default the id of the call. All branches
                of the session share the keys.
            about: A description, to find out later whether the call was made: a JSON value of at most 8 KiB.

        Raises:
            UnresolvedEffectError: The call began before, in this or another process, and its end is not recorded. It may
                have been made: find out, and call `end_effect`.
            UsageError: The key is empty or too long, `about` is too large, or too many effects are unresolved.
            ConflictError: Another writer writes this exclusive session.
            UnavailableError: The store did not answer; do not make the call. Begin it again when the store does.
        """
        return await self.perform(verbs.effects.effect, call, key=key, about=about)

    async def describe_effect(self, key: str, about: object) -> None:
        """Replace the description of an unresolved effect, for example once the called service returned an order number.

        Args:
            key: The key of the effect.
            about: A JSON value of at most 8 KiB.

        Raises:
            NotFoundError: No effect of that key is unresolved.
            UsageError: `about` is too large.
        """
        await self.perform(verbs.effects.describe_effect, key, about)

    async def end_effect(self, key: str, result: object = None, *, error: object = None, made: bool = True) -> None:
        """Record how a call ended: right after it, or later, once you have found out whether it was made.

        With `durability="turn"` the outcome is recorded when the turn ends; until then a kill leaves the effect unresolved.

        Args:
            key: The key of the effect.
            result: What the call returned; any value that a payload may have.
            error: The error, if the call failed; a failed call counts as made.
            made: False if the call was not made: then it may begin again.

        Raises:
            NotFoundError: No effect of that key began.
            UsageError: The effect already ended in another way; or the call was not made, but a result or error is given.
            ConflictError: Another writer writes this exclusive session.
            UnavailableError: The store did not answer. Call again.
        """
        await self.perform(verbs.effects.end_effect, key, result, error=error, made=made)

    async def set_model(self, model: str, *, provider: str | None = None, role: str | None = None) -> Appended:
        """Record that another model answers from here on.

        Args:
            model: Its name.
            provider: The service that runs it.
            role: The purpose of a model other than the one that answers, for example `smol` or `plan`. The answering model
                stays the same, and the setting `models` maps roles to `provider/model`.
        """
        return await self.perform(verbs.conversation.set_model, model, provider=provider, role=role)

    async def set_thinking(self, thinking: object) -> Appended:
        """Record another thinking level; None clears it."""
        return await self.perform(verbs.conversation.set_thinking, thinking)

    async def set_mode(self, mode: object) -> Appended:
        """Record another mode of work, for example `plan`; None clears it."""
        return await self.perform(verbs.conversation.set_mode, mode)

    async def set_title(self, title: str) -> None:
        """Set the title of the session; an empty one removes it."""
        await self.perform(verbs.notes.set_title, title)

    async def set_status(self, status: str) -> None:
        """Set the status that lists show: `done`, `waiting`, or any other short word."""
        await self.perform(verbs.notes.set_status, status)

    async def move(self, *, project: str | None = None, cwd: str | None = None) -> None:
        """Set the project or the folder of the session; the folder is made absolute. Neither identifies the session."""
        await self.perform(verbs.notes.move, project=project, cwd=cwd)

    async def label(self, target: str, text: str | None) -> None:
        """Label a node or a checkpoint; None removes the label."""
        await self.perform(verbs.notes.label, target, text)

    async def note(
        self, kind: str, brief: Mapping[str, object] | None = None, *, target: str | None = None, payload: object = None
    ) -> str:
        """Attach a note to a node, or to the whole session; no head moves. Returns its id."""
        return await self.perform(verbs.notes.note, kind, brief, target=target, payload=payload)

    async def record_usage(
        self, /, *, target: str | None = None, turn: bool = True, reset: bool = False, **numbers: float
    ) -> None:
        """Add the cost of a turn to the sums: tokens and money by name. Navigating back does not subtract it.

        Imports use the names `input`, `output`, `cache_read`, `cache_write`, `reasoning`, `total` and `cost`.

        Args:
            target: The node that the usage belongs to.
            turn: False for a call of a model outside the turns, such as one that summarises: it is added to the sums, and
                `last_usage`, which gives the size of the context, does not change.
            reset: Start the sums anew with these numbers.
            numbers: Amounts by name.

        Raises:
            UsageError: An amount is no number, or is not finite. Further errors are those of `append`.
        """
        await self.perform(verbs.notes.record_usage, target=target, turn=turn, reset=reset, **numbers)

    async def record_system(self, prompt: object, tools: Sequence[object] = ()) -> str:
        """Record the current system prompt and tools, for audit; they are not restored. Returns the id of the note."""
        return await self.perform(verbs.notes.record_system, prompt, tools)

    async def record_extension(self, extension: str, data: object, *, target: str | None = None) -> str:
        """Record an extension's own data at a node, by default the current one. Returns the id of the note."""
        return await self.perform(verbs.notes.record_extension, extension, data, target=target)

    async def amend(self, node: str, payload: object) -> None:
        """Show another payload for a node from now on; the original stays readable in the journal.

        The model sees this payload as a message, also in place of a summary and of an entry of another program.

        Raises:
            UsageError: The node was erased.
        """
        await self.perform(verbs.edits.amend, node, payload)

    async def retract(self, node: str) -> None:
        """Hide a node from the context and from pages; `unretract` shows it again."""
        await self.perform(verbs.edits.retract, node)

    async def unretract(self, node: str) -> None:
        """Show a retracted node again: in pages, and at its former place in the context.

        Args:
            node: Its id.

        Raises:
            UsageError: It is not retracted.
        """
        await self.perform(verbs.edits.unretract, node)

    async def checkout(self, node: str | None, *, keep_state: bool = False) -> None:
        """Move to `node`: the next append continues from there, and the model sees the context of that node.

        The current head moves. Nodes below `node` stay in the graph, as a branch.

        Args:
            node: Any node of the session; None is the place before the first one, to begin again with another first
                message.
            keep_state: Keep the agent's current state; else it is restored to that of `node`.

        Raises:
            NotFoundError: There is no such node.
            ConflictError: Another writer writes this exclusive session.
        """
        await self.perform(verbs.navigation.checkout, node, keep_state=keep_state)

    async def switch(self, head: str, *, keep_state: bool = False) -> None:
        """Continue on another head.

        Args:
            head: Its name.
            keep_state: As for `checkout`.

        Raises:
            NotFoundError: There is no such head.
        """
        await self.perform(verbs.navigation.switch, head, keep_state=keep_state)

    async def branch(
        self, head: str, *, node: str | None = None, summary: str | None = None, keep_state: bool = False
    ) -> None:
        """Make a new head and continue on it; the old one stays where it is.

        Args:
            head: Its name, not in use yet.
            node: The node to branch from; None: the current node.
            summary: Describes the branch left behind to the model; recorded as the first node of the new branch.
            keep_state: Keep the agent's current state; else it is restored to that of `node`.

        Raises:
            UsageError: There is a head of that name, or the name is empty. If an earlier call had no answer, it may have
                made the head: `flush` finds out, and `head` is that one then.
            NotFoundError: There is no such node.
        """
        await self.perform(verbs.navigation.branch, head, node=node, summary=summary, keep_state=keep_state)

    async def drop_head(self, head: str) -> None:
        """Forget a head; its nodes stay.

        Raises:
            NotFoundError: There is no such head.
            UsageError: It is the current head.
        """
        await self.perform(verbs.navigation.drop_head, head)

    async def rewind(self, checkpoint: str) -> None:
        """Go back to a checkpoint: its state, context and node together. Later nodes stay as a branch.

        Args:
            checkpoint: Its id.

        Raises:
            NotFoundError: There is no such checkpoint, or it was pruned.
        """
        await self.perform(verbs.navigation.rewind, checkpoint)

    async def fork(
        self,
        session: str,
        *,
        node: str | None = None,
        title: str | None = None,
        project: str | None = None,
        cwd: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Make a new session from the path to a node, with the context, state, labels and edits that belong to it.

        A link to the new session is recorded in the parent first, so that erasing finds the copies.

        Args:
            session: Name of the new session.
            node: The node to fork at, as a `checkout` would restore it; by default the current node.
            title: Its title; by default that of the parent.
            project: Its project; by default that of the parent.
            cwd: Its working directory, for example a second checkout; by default that of the parent.
            extra: Further facts on its card; by default those of the parent.

        Raises:
            UsageError: The name is that of the parent.
            ConflictError: A session of that name exists.
            NotFoundError: There is no such node.
        """
        await self.perform(verbs.forking.fork, session, node=node, title=title, project=project, cwd=cwd, extra=extra)

    async def prune(self, keep: KeepCheckpoints, *, dry_run: bool = False) -> Pruned:
        """Remove checkpoints from lists, and remove their labels, metadata and unneeded bodies from sealed segments.

        Args:
            keep: The checkpoints to keep. The checkpoint that holds the state of a head is kept, too, unless `keep` names
                other heads; those of the current head and of this handle's head are always kept.
            dry_run: Only return what would be pruned.
        """
        return await self.perform(verbs.pruning.prune, keep, dry_run=dry_run)

    async def erase(self, *ids: str, state: Collection[str] = (), manager: bool = False, reason: str = "") -> Receipt:
        """Erase the payloads of nodes and notes, or the agent's state, permanently, also from forks of this session.

        An `Erased` replaces a payload: its hash, the time and the reason. A model sees `[erased]`, with the ids of tool
        calls kept, so that calls and results still belong together. Labels, and notes about the node, stay. So do settings
        that the node changes, of which the receipt warns.

        For a key of the state, all values that it has had until now are erased, in all checkpoints. Checkpoints then read
        as if the key had not been set, and `erased_state` lists it. Earlier forks lose their values of the key, too.

        Args:
            ids: Nodes and notes. A call without any argument finishes interrupted erasures: it searches again for
                everything ever erased here.
            state: Keys of the agent's state.
            manager: Erase the state of the conversation manager.
            reason: Shown in place of the payload; at most 200 bytes.

        Returns:
            The receipt; the payload is no longer stored.

        Raises:
            NotFoundError: The node or note does not exist, or no checkpoint has such a key; nothing was erased.
            UsageError: A checkpoint or an edit cannot be erased, or too much was erased already.
            ConflictError: Another writer writes this exclusive session.
            UnavailableError: The store did not answer. Call again to finish.
        """
        return await self.perform(session_body.erase, *ids, state=state, manager=manager, reason=reason)

    async def refresh(self) -> bool:
        """Read the session again, and move to the node that the head points to now; return whether anything is new.

        Returns False if the session still does not exist.
        """
        return await self.perform(Writer.refresh)

    async def renew(self, *, ttl: float | None = None) -> None:
        """Keep the lease for another `ttl` seconds from now on: one write. Every append renews the lease, too.

        Call it before a long turn, with a `ttl` that is longer than the turn, or from time to time during the turn.

        Args:
            ttl: Seconds from now on; by default the `ttl` of `claim`, or of the last call.

        Raises:
            LeaseLostError: Another worker took it. Stop: only that worker's records count now.
            UsageError: This handle has no lease, or `ttl` is out of range.
            UnavailableError: The store did not answer; the lease may be renewed.
        """
        await self.perform(verbs.leasing.renew, ttl=ttl)

    async def seal(self) -> None:
        """Write the unsealed records to a segment, and a new `latest` that covers them."""
        await self.perform(verbs.conversation.seal)

    async def optimize(self, *, everything: bool = False) -> Merged:
        """Merge small segments, and finish erasures that another process began.

        Args:
            everything: Merge all segments that can be merged, and remove leftovers of earlier lives and of ended streams.
        """
        return await self.perform(verbs.conversation.optimize, everything=everything)
