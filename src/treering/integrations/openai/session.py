"""A session of the OpenAI Agents SDK that is kept in a session of Treering.

Rule 1: awaited calls run in threads, one at a time for each session. So a session serves any number of tasks, threads
and event loops, and a cancelled call ends when the operation that it began has ended.
Rule 2: an open session holds no lock in the store.
Rule 3: each call first reads the changes of other processes; see `treering.integrations.openai.history` for what they
may do at the same time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from agents import RunState, SessionSettings
from agents.memory import session as protocol
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from treering.api.async_store import AsyncStore
from treering.api.session import Session
from treering.api.store import Store
from treering.errors import SessionDeletedError, UnavailableError, UsageError
from treering.format import values
from treering.ids import new_id, time_of
from treering.integrations.closable import Closable
from treering.integrations.openai import history, turns, usage
from treering.kinds import Kind
from treering.session.content import ContextItem
from treering.storage.requests import Steps
from treering.storage.threads import in_thread

if TYPE_CHECKING:
    from agents import Agent, RunResultBase
    from agents.items import TResponseInputItem

T = TypeVar("T")

MAIN: Final = "main"
RUN_STATE: Final = "run_state"
"""The key of the session's state that holds a paused run."""
UNANSWERED_MAX: Final = 16


class TreeringSession(Closable):
    """Keeps the history of a conversation for `Runner.run(agent, ..., session=...)`.

    Each item is a node of the transcript, stored once. Items that are popped, cleared, replaced by a compaction, or
    left out by a branch stay in the transcript.

    Several processes may use a session at the same time: the items of all of them are kept, in the order in which they
    were recorded.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        store: Store | AsyncStore,
        *,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
        title: str = "",
    ) -> None:
        """Make a session object, without reading or writing anything.

        Args:
            session_id: The name of the session in the store.
            store: The store, from `treering.open`. Closing this object does not close the store.
            session_settings: How many items `get_items` returns if a call gives no limit.
            title: The title of a new session.
        """
        settings = dict(session_settings) if isinstance(session_settings, Mapping) else session_settings
        self.session_id = session_id
        self.session_settings = SessionSettings() if settings is None else coerce_session_settings(settings)
        self._store = Store(store.place)
        self._title = title
        self._lock = threading.Lock()
        self._opened: Session | None = None
        self._pid = os.getpid()
        self._unanswered: dict[tuple[Callable[..., Steps[None]], bytes], list[str]] = {}
        """Calls whose outcome is unknown, by what they were given, and the ids of the records that they sent."""
        self._taken: history.Taken | None = None
        """What the last call took, if that was a `pop_item` whose outcome is unknown."""

    # methods that a runner calls

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[TResponseInputItem]:
        """Return the history, the oldest item first.

        Args:
            limit: How many of the newest items to return; by default the limit in the settings, or all. Less than 0:
                all.
            branch_id: The branch; by default the current one.

        Raises:
            UsageError: There is no such branch.
        """
        found = [each.message for each in await self._perform(history.items, branch_id)]
        count = resolve_session_limit(limit, self.session_settings)
        if count is not None and count >= 0:
            found = found[max(0, len(found) - count) :]
        return cast("list[TResponseInputItem]", found)

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Record items at the end of the current branch; they are durable when this returns.

        If a call raised `UnavailableError`, repeat it with the same items: they are recorded once.

        Raises:
            UsageError: A value cannot be stored exactly.
            UnavailableError: The store did not answer; the items may be recorded.
        """
        if items:
            await self._add(history.add, cast("Sequence[Mapping[str, Any]]", items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out of the current branch and return it; None if there is none.

        The transcript keeps it, as a branch without a name. If a call raised `UnavailableError`, repeat it before any
        other: it takes out one item.
        """
        taken, self._taken = self._taken or history.Taken(), None
        try:
            return cast("TResponseInputItem | None", await self._perform(history.pop, taken))
        except UnavailableError:
            self._taken = taken
            raise

    async def clear_session(self) -> None:
        """Empty the current branch.

        The transcript keeps its items. `Store.delete` deletes the session, and `Session.erase` removes messages.
        """
        await self._perform(history.clear)

    # a run that waits for an answer

    async def save_run_state(self, state: RunState[Any, Any]) -> None:
        """Save a run that was interrupted, for example by a call that a person has to approve."""
        await self._perform(history.commit, {RUN_STATE: state.to_json()})

    async def load_run_state(self, agent: Agent[Any], **options: Any) -> RunState[Any, Any] | None:
        """Return the run that was saved last on the current branch; None if there is none.

        Args:
            agent: The agent with which the run began.
            options: Options of `RunState.from_json`.
        """
        found = await self._perform(history.state, RUN_STATE)
        return None if found is None else await RunState.from_json(agent, found, **options)

    async def clear_run_state(self) -> None:
        """Remove the saved run of the current branch; call this once the run was continued."""
        await self._perform(history.drop_state, RUN_STATE)

    # branches

    async def create_branch_from_turn(self, turn_number: int, branch_name: str | None = None) -> str:
        """Make a branch that ends before a turn, so that the user can say something else, and continue on it.

        A paused run that was saved in a turn that the branch leaves out stays where it is.

        Args:
            turn_number: A turn of the current branch, from 1 on.
            branch_name: A name that was not used before; by default one is made.

        Returns:
            The name of the branch.

        Raises:
            UsageError: There is no such turn, or the name is empty or was used.
        """
        if branch_name is not None and not branch_name.strip():
            raise UsageError("Branch name cannot be empty", kind=Kind.HEAD)
        made = f"branch_from_turn_{turn_number}_{int(time.time())}"
        return await self._perform(history.branch, turn_number, branch_name, otherwise=made)

    async def create_branch_from_content(self, search_term: str, branch_name: str | None = None) -> str:
        """Make a branch that ends before the first turn that contains a text; see `find_turns_by_content`.

        Raises:
            UsageError: No user message contains the text, or the name is empty or was used.
        """
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise UsageError(f"No user turns found containing {search_term!r}", kind=Kind.NODE)
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Continue on another branch.

        Raises:
            UsageError: There is no such branch.
        """
        await self._perform(history.switch, branch_id)

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:  # noqa: FBT001, FBT002  # as in the SDK
        """Delete a branch. Its items stay in the transcript, and its name is not used again.

        Args:
            branch_id: The branch; not `main`.
            force: Delete it even if it is the current branch, and continue on `main`.

        Raises:
            UsageError: There is no such branch, or it cannot be deleted.
        """
        if not branch_id.strip():
            raise UsageError("Branch ID cannot be empty", kind=Kind.HEAD)
        if branch_id == MAIN:
            raise UsageError("Cannot delete the 'main' branch", kind=Kind.HEAD)
        await self._perform(history.drop, branch_id, instead=MAIN if force else None)

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return the branches that have items, the oldest first.

        Returns:
            For each branch `branch_id`, `message_count`, `user_turns`, `is_current`, and `created_at`, the time at
            which its first item was recorded.
        """
        found = []
        for branch in await self._perform(history.branches):
            if branch.items:
                row = {
                    "branch_id": branch.name,
                    "message_count": len(branch.items),
                    "user_turns": sum(each.begins for each in turns.turned(branch.items)),
                    "is_current": branch.is_current,
                    "created_at": _time_of(branch.items[0].node),
                }
                found.append(row)
        return found

    # turns

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return what the user said in each turn of a branch, by default of the current one.

        Returns:
            For each turn `turn`, `content` (its beginning), `full_content`, `timestamp`, and `can_branch`, which is
            always true.

        Raises:
            UsageError: There is no such branch.
        """
        return [_row_of(each) for each in await self._turned(branch_id) if each.begins]

    async def find_turns_by_content(self, search_term: str, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return the turns whose user message contains a text, in upper or lower case.

        Returns:
            The same fields as `get_conversation_turns`, with the whole text in `content`.

        Raises:
            UsageError: There is no such branch.
        """
        wanted = turns.folded(search_term)
        said = [each for each in await self._turned(branch_id) if each.begins]
        found = [each for each in said if any(wanted in turns.folded(text) for text in turns.texts_of(each.content))]
        return [_row_of(each, whole=True) for each in found]

    async def get_conversation_by_turns(self, branch_id: str | None = None) -> dict[int, list[dict[str, str | None]]]:
        """Return, by turn, the `type` and `tool_name` of each of its items.

        Raises:
            UsageError: There is no such branch.
        """
        found: dict[int, list[dict[str, str | None]]] = {}
        for each in await self._turned(branch_id):
            row = {"type": turns.type_of(each.item), "tool_name": turns.tool_of(each.item)}
            found.setdefault(each.turn, []).append(row)
        return found

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str | None, int, int]]:
        """Return the tools that were called: the name, the number of calls in a turn, and the turn.

        Raises:
            UsageError: There is no such branch.
        """
        return turns.tools_used(await self._perform(history.items, branch_id))

    # usage

    async def store_run_usage(self, result: RunResultBase) -> None:
        """Record what a run cost, as the cost of the newest turn of the current branch.

        The cost is included in the sums of the session: see `treering.Session.usage`. As with items, a call without an
        answer may be repeated.
        """
        await self._add(usage.store, [_usage_of(result.context_wrapper.usage)])

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """Return the cost of all turns of a branch, by default of all branches; None if no cost was stored."""
        told = await self._perform(usage.of_branches, branch_id)
        rows = [row for each in told.values() for row in each.values()]
        if not rows:
            return None
        return {name: sum(row[name] for row in rows) for name in usage.NUMBERS} | {"total_turns": len(rows)}

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Return a list with the cost of each turn of a branch.

        With `user_turn_number`, return the cost of that turn as a dict, which is empty if no cost was stored.
        """
        branch = branch_id if branch_id is not None else await self._perform(history.current)
        of_turns = (await self._perform(usage.of_branches, branch)).get(branch, {})
        if user_turn_number is not None:
            return of_turns.get(user_turn_number, {})
        return [{"user_turn_number": turn, **row} for turn, row in sorted(of_turns.items())]

    # open and close

    def close(self) -> None:
        """Write a card that covers all records, and close the session. A later call opens it again."""
        with self._lock:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()

    async def _turned(self, branch: str | None) -> list[turns.Turned]:
        return turns.turned(await self._perform(history.items, branch))

    async def _add(self, verb: Callable[..., Steps[None]], said: Sequence[Mapping[str, Any]]) -> None:
        """Record something, unless the same call had no answer before, and records with its ids are there."""
        key = (verb, values.encode(list(said))) if self._unanswered else None
        ids = self._unanswered.get(key) if key is not None else None
        new = [new_id() for _ in said] if ids is None else ids
        try:
            await self._perform(verb, said, new, again=ids is not None)
        except UnavailableError:
            self._unanswered[verb, values.encode(list(said))] = new
            for oldest in [*self._unanswered][:-UNANSWERED_MAX]:
                del self._unanswered[oldest]
            raise
        if key is not None:
            self._unanswered.pop(key, None)

    async def _perform(self, verb: Callable[..., Steps[T]], *arguments: Any, **named: Any) -> T:
        done: T = await in_thread(self._run, lambda session: session.perform(verb, *arguments, **named))
        self._taken = None
        return done

    def _run(self, work: Callable[[Session], T]) -> T:
        with self._lock:
            if self._pid != os.getpid():  # a forked process opens its own
                self._opened, self._pid = None, os.getpid()
            try:
                return work(self._session())
            except SessionDeletedError:
                self._opened = None  # and try again: the name may stand for a new session now
                return work(self._session())

    def _session(self) -> Session:
        if self._opened is None:
            self._opened = self._store.session(self.session_id, shared=True, hold=False, title=self._title)
        return self._opened

    # compaction by the SDK

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> Any:
        """Return the newest items, with a function that replaces the last of them unless another writer added items.

        `OpenAIResponsesCompactionSession` looks for a method of this name; it clears and refills sessions without it.
        None if the SDK has no such class, and for a subclass that overrides `get_items` or `add_items`.
        """
        made = getattr(protocol, "_CompactionSnapshot", None)
        ours, own = TreeringSession, type(self)
        if made is None or own.get_items is not ours.get_items or own.add_items is not ours.add_items:
            return None
        found: Sequence[ContextItem] = await self._perform(history.items)
        shown = found[max(0, len(found) - limit) :]

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            expected = [each.node for each in shown[start:]]
            return await self._perform(history.replace, expected, output, expired=prune_prefix)

        return made([each.message for each in shown], len(shown) == len(found), replace_suffix)


def _row_of(each: turns.Turned, *, whole: bool = False) -> dict[str, Any]:
    return {
        "turn": each.turn,
        "content": turns.preview_of(each.content, whole=whole),
        "full_content": each.content,
        "timestamp": _time_of(each.node),
        "can_branch": True,
    }


def _time_of(node: str) -> str:
    """Return the time at which a node was recorded, in the format of SQLite."""
    return datetime.fromtimestamp((time_of(node) or 0) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _usage_of(told: Any) -> dict[str, Any]:
    numbers = {name: getattr(told, name, 0) or 0 for name in usage.NUMBERS}
    details = {name: vars(getattr(told, name)) if getattr(told, name, None) else None for name in usage.DETAILS}
    return numbers | details
