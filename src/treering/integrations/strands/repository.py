"""Strands' `SessionRepository` on a Treering store, for code that is written against that interface.

A session is a session of the store, with the states of its orchestrators. Each of its agents has its own session,
`<session>/agents/<agent>`, which is linked with it. The nodes of that session are the agent's messages, named by their
numbers, and its state is the agent's state. `TreeringSessionManager` does more with fewer requests.

Rule 1: a redacted message is replaced by a note about its node, after the node was erased. So a message never appears
redacted while its text is still stored.
Rule 2: sessions are not locked between calls. If another writer was first, the call is repeated on the new end of the
session, so that no write is lost, and the transcript has no branches.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from strands.session import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from treering.errors import ConflictError, NotFoundError, SessionDeletedError, TreeringError
from treering.format.erasure import Erased
from treering.format.nesting import fold
from treering.ids import time_text
from treering.integrations.closable import Closable
from treering.integrations.deleting import names_beginning
from treering.integrations.strands.names import EXTRA, belongs_to, require_session_id
from treering.integrations.strands.waiting import results_in, waited
from treering.journal.register import ATTEMPTS_MAX
from treering.programs.strands.keys import FIELDS
from treering.session.index import Index
from treering.session.reader import Reader
from treering.session.verbs.reading import Note, notes
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft, Node

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase

    from treering.api.session import Session as OpenSession
    from treering.api.store import Store

OPEN_MAX: Final = 64
"""Sessions kept open; the least recently used one is closed."""

_MARK: Final = {"keeps": "repository"}
_REVISION: Final = "revision"
_ORCHESTRATOR: Final = "orchestrator:"
_INTERNAL: Final = "internal_state"

F = TypeVar("F", bound=Callable[..., Any])


def _guarded(method: F) -> F:
    """Run one call at a time, and raise the errors that users of Strands expect."""

    @functools.wraps(method)
    def call(self: TreeringSessionRepository, *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            try:
                for _ in range(ATTEMPTS_MAX):
                    with contextlib.suppress(ConflictError, SessionDeletedError):
                        return method(self, *args, **kwargs)
                    self.let_go()
                return method(self, *args, **kwargs)
            except TreeringError as error:
                raise SessionException(str(error)) from error

    return cast(F, call)


class TreeringSessionRepository(Closable, SessionRepository):
    """Keeps sessions, agents and messages in a Treering store; changes are durable when a call returns.

    Several threads, which wait for each other, and several processes may use it. All methods raise `SessionException`
    if the store does not answer or its data are damaged; the exception's cause has the details. Names with path
    separators are refused with `ValueError`. Call `close` at the end, or use it as a context manager.

    Args:
        store: The store in which sessions are kept.
    """

    def __init__(self, store: Store) -> None:
        self.lock = threading.RLock()
        self._store = store
        self._open: OrderedDict[str, OpenSession] = OrderedDict()

    # sessions

    @_guarded
    def create_session(self, session: Session, **_: Any) -> Session:
        """Make a session.

        Raises:
            SessionException: A session of that name exists.
        """
        name = require_session_id(session.session_id)
        if self._look(name) is None:
            with self._store.session(name, extra={EXTRA: _MARK}) as new:
                if _is_empty(new):
                    facts = session.to_dict() | {"session_type": SessionType(session.session_type).value}
                    new.commit(state={"session": facts})
                    return session
        raise SessionException(f"session exists already. session_id={session.session_id!r}")

    @_guarded
    def read_session(self, session_id: str, **_: Any) -> Session | None:
        """Return a session; None if it does not exist."""
        if self._look(require_session_id(session_id)) is None:
            return None
        kept: Any = self._session(session_id).state
        with _whole(session_id):
            return Session.from_dict(kept["session"])

    @_guarded
    def delete_session(self, session_id: str, **_: Any) -> None:
        """Delete a session with all its agents.

        Raises:
            SessionException: It does not exist, or another process holds its lock.
        """
        ended = names_beginning(self._store.place, require_session_id(session_id))
        for each in ended:
            if belongs_to(session_id, each) and self._look(each) is None:
                self._store.delete(each)  # it was deleted before, perhaps not to the end
        links = self._session(session_id, look=True).notes("link")
        agents = sorted({str(link.brief["child"]) for link in links})
        for each in (*agents, session_id):
            self._let_go(each)
            try:
                self._store.delete(each)
            except NotFoundError:
                continue  # an agent that was never created, or was deleted before

    # agents

    @_guarded
    def create_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        """Make an agent.

        Raises:
            SessionException: The session does not exist, or it has an agent of that name.
        """
        session = self._session(session_id)
        name = _agent_name(session_id, session_agent.agent_id)
        if self._look(name) is not None:
            raise SessionException(f"agent exists already. agent_id={session_agent.agent_id!r}")
        try:
            new = self._store.spawn(session, name, task=session_agent.agent_id)
        except ConflictError:  # a call without an answer got as far as its card
            new = self._store.session(name, create=False)
        with new:
            if _is_empty(new):
                _record(new, session_agent, session_agent.created_at)

    @_guarded
    def read_agent(self, session_id: str, agent_id: str, **_: Any) -> SessionAgent | None:
        """Return an agent; None if it does not exist."""
        found = self._look(_agent_name(session_id, agent_id))
        if found is None:
            return None
        kept: Any = found.state
        manager: Any = found.manager
        with _whole(agent_id):
            return SessionAgent(
                agent_id=agent_id,
                state=kept["state"],
                conversation_manager_state=manager,
                # A redaction that was interrupted may have erased it, with the results that waited beside an interrupt.
                _internal_state={} if _INTERNAL in found.erased_state else kept[_INTERNAL],
                created_at=kept["created_at"],
                updated_at=kept["updated_at"],
            )

    @_guarded
    def update_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        """Replace the state of an agent; the time of its creation is kept.

        Raises:
            SessionException: The agent does not exist.
        """
        session = self._agent(session_id, session_agent.agent_id)
        known: Any = session.state
        created_at = session_agent.created_at = str(known.get("created_at", session_agent.created_at))
        _record(session, session_agent, created_at)

    # messages

    @_guarded
    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any) -> None:
        """Add a message, in one request unless a seal is due. For a redacted message only the replacement is stored.

        Raises:
            SessionException: The agent does not exist, or it has another message with that number.
        """
        revision = [_revision(session_message)] if session_message.redact_message is not None else []
        session = self._agent(session_id, agent_id)
        session.append(_draft(session_message), *revision)
        with contextlib.suppress(TreeringError):  # the append is durable already
            session.perform(_tidied)

    @_guarded
    def read_message(self, session_id: str, agent_id: str, message_id: int, **_: Any) -> SessionMessage | None:
        """Return a message; None if it does not exist."""
        name = _node_name(message_id)
        found = self._look(_agent_name(session_id, agent_id))
        messages = [] if found is None else found.perform(_read, lambda names: [name] if name in names else [])
        return messages[0] if messages else None

    @_guarded
    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any) -> None:
        """Replace a message; the time of its creation is kept.

        If the new message is redacted, the old text is erased, also of a tool's result that waited beside an interrupt.
        Otherwise it stays in the journal and is not shown.

        Raises:
            SessionException: The message does not exist.
        """
        name = _node_name(session_message.message_id)
        session = self._agent(session_id, agent_id)
        if not session.perform(_exists, name):  # another process may have made it
            session.refresh()
        if not session.perform(_exists, name):
            raise SessionException(f"message does not exist. message_id={session_message.message_id!r}")
        (before,) = session.perform(_read, lambda _: [name])
        session_message.created_at = before.created_at
        if session_message.redact_message is not None or before.redact_message is not None:
            older = session.perform(_revisions, name)
            spoiled = session.perform(waited, _INTERNAL, results_in(before.message))
            internal: Any = session.state.get(_INTERNAL, {})
            session.erase(name, *older, state=[_INTERNAL] if spoiled else (), reason="redacted")
            if spoiled:  # the results came, so nothing waits any more
                session.commit(state={_INTERNAL: {**internal, "interrupt_state": FIELDS["interrupt_state"]}})
            session.append(_revision(session_message, in_place_of_node=True))
        else:
            amended = Draft(type="edit", kind="amend", target=name, payload=fold(session_message.message))
            session.append(amended, _revision(session_message))

    @_guarded
    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **_: Any
    ) -> list[SessionMessage]:
        """Return messages in the order of their numbers.

        Args:
            session_id: The session.
            agent_id: The agent.
            limit: The most messages to return; None for all.
            offset: How many messages to skip.

        Raises:
            SessionException: The agent does not exist.
        """
        session = self._agent(session_id, agent_id, look=True)
        end = None if limit is None else offset + limit
        return session.perform(_read, lambda names: names[offset:end])

    # orchestrators

    @_guarded
    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        """Store the state of an orchestrator.

        Raises:
            SessionException: The session does not exist.
        """
        session = self._session(session_id)
        session.commit(state={_ORCHESTRATOR + multi_agent.id: multi_agent.serialize_state()})

    @_guarded
    def read_multi_agent(self, session_id: str, multi_agent_id: str, **_: Any) -> dict[str, Any] | None:
        """Return the state of an orchestrator; None if it was never stored."""
        if self._look(require_session_id(session_id)) is None:
            return None
        kept: Any = self._session(session_id).state.get(_ORCHESTRATOR + multi_agent_id)
        return kept  # type: ignore[no-any-return]  # what `serialize_state` returned

    @_guarded
    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        """Replace the state of an orchestrator.

        Raises:
            SessionException: It was never stored.
        """
        session = self._session(session_id, look=True)
        if _ORCHESTRATOR + multi_agent.id not in session.state:
            raise SessionException(f"orchestrator does not exist. id={multi_agent.id!r}")
        session.commit(state={_ORCHESTRATOR + multi_agent.id: multi_agent.serialize_state()})

    # sessions of the store

    def _look(self, name: str) -> OpenSession | None:
        """Return a session after reading the records of all writers; None if it does not exist."""
        if name in self._open:
            try:
                self._open[name].refresh()
            except NotFoundError:  # deleted by another process, and perhaps made again
                self._let_go(name)
        return self._opened(name)

    def _session(self, session_id: str, *, look: bool = False) -> OpenSession:
        found = self._look(session_id) if look else self._opened(require_session_id(session_id))
        if found is None:
            raise SessionException(f"session does not exist. session_id={session_id!r}")
        if found.info.extra.get(EXTRA) != _MARK:
            raise SessionException(f"this session was not made by a repository. session_id={session_id!r}")
        return found

    def _agent(self, session_id: str, agent_id: str, *, look: bool = False) -> OpenSession:
        name = _agent_name(session_id, agent_id)
        found = self._look(name) if look else self._opened(name)
        if found is None:
            raise SessionException(f"agent does not exist. session_id={session_id!r}, agent_id={agent_id!r}")
        return found

    def _opened(self, name: str) -> OpenSession | None:
        if name not in self._open:
            try:
                self._open[name] = self._store.session(name, create=False, hold=False)
            except NotFoundError:
                return None
            if len(self._open) > OPEN_MAX:
                self._let_go(next(iter(self._open)))
        if _is_empty(self._open[name]):
            self._let_go(name)
            return None
        self._open.move_to_end(name)
        return self._open[name]

    def _let_go(self, name: str) -> None:
        if name in self._open:
            with contextlib.suppress(ConflictError, NotFoundError):  # another process writes to it, or deleted it
                self._open.pop(name).close()

    def let_go(self) -> None:
        """Close the open sessions; later calls open them again."""
        for name in tuple(self._open):
            self._let_go(name)

    @_guarded
    def close(self) -> None:
        """Bring the lists of sessions up to date. The repository can be used again."""
        self.let_go()


def _is_empty(session: OpenSession) -> bool:
    """Whether nothing is recorded in a session, as if its creation was interrupted: it can be created then."""
    return session.checkpoint_id is None and session.node is None


def _agent_name(session_id: str, agent_id: str) -> str:
    if not agent_id or "/" in agent_id or "\\" in agent_id:
        raise ValueError(f"not an agent id: it is empty or holds a path separator. agent_id={agent_id!r}")
    return f"{require_session_id(session_id)}/agents/{agent_id}"


def _node_name(message_id: int) -> str:
    if not isinstance(message_id, int):
        raise ValueError(f"message_id is no integer. message_id={message_id!r}")  # noqa: TRY004  # as in Strands
    return str(message_id)


def _record(session: OpenSession, agent: SessionAgent, created_at: str) -> None:
    session.commit(
        state={
            "state": agent.state,
            _INTERNAL: agent._internal_state,  # noqa: SLF001  # a field of the record
            "created_at": created_at,
            "updated_at": agent.updated_at,
        },
        manager=agent.conversation_manager_state,
    )


def _draft(message: SessionMessage) -> Draft:
    """Return the draft of a message's node."""
    said = fold(message.to_message())
    times: dict[str, object] = {"created_at": message.created_at, "updated_at": message.updated_at}
    return Draft(role=said["role"], payload=said, id=_node_name(message.message_id), brief=times)


def _revision(message: SessionMessage, *, in_place_of_node: bool = False) -> Draft:
    """Return the note about a new version of a node's message; it holds the message itself if the node was erased."""
    payload: dict[str, object] = {"created_at": message.created_at, "updated_at": message.updated_at}
    if message.redact_message is not None:
        payload["redacted"] = True
    if in_place_of_node:
        payload["message"] = fold(message.to_message())
    return Draft(type="note", kind=_REVISION, target=_node_name(message.message_id), payload=payload)


def _tidied(writer: Writer) -> Steps[None]:
    """Merge segments if there are many new ones: Strands never closes a repository, and a list reads every segment."""
    if writer.upkeep.should_optimize(quiet=True):
        yield from writer.upkeep.optimize()


def _names(index: Index) -> list[str]:
    """Return the nodes of messages, in the order of their numbers."""
    return [name for _, name in sorted((int(row.id), row.id) for row in index.graph if _is_number(row.id))]


@contextlib.contextmanager
def _whole(name: str) -> Iterator[None]:
    """Tell it if a part of what is read is missing."""
    try:
        yield
    except KeyError as error:
        part = error.args[0]
        raise SessionException(f"a part was erased, or something else made it. id={name!r}, part={part!r}") from error


def _is_number(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdigit()


def _exists(reader: Reader, name: str) -> Steps[bool]:
    index = yield from reader.replica.index()
    return name in index.graph


def _revisions(reader: Reader, name: str) -> Steps[list[str]]:
    """Return the notes about new versions of a message."""
    index = yield from reader.replica.index()
    return [row.id for row in index.graph.annotations.of(name) if row.kind == _REVISION]


def _read(reader: Reader, choose: Callable[[list[str]], list[str]]) -> Steps[list[SessionMessage]]:
    """Read the messages with the names that `choose` returns, each in its last version."""
    index = yield from reader.replica.index()
    chosen = choose(_names(index))
    nodes = yield from reader.content.nodes([index.graph.node(name) for name in chosen])
    revisions = yield from notes(reader, _REVISION)
    last = {note.target: note for note in revisions if not isinstance(note.payload, Erased)}
    return [_message(node, last.get(node.id)) for node in nodes]


def _message(node: Node, revision: Note | None) -> SessionMessage:
    facts: Any = node.brief if revision is None else revision.payload
    said: Any = facts.get("message", node.payload)
    redacted = facts.get("redacted", False)
    if isinstance(said, Erased):  # erased but not replaced: a redaction was interrupted
        content = said.message.get("content")
        blocks = content if isinstance(content, list) else [{"text": str(content)}]
        said, redacted = {"role": node.role, "content": blocks}, True
    then = time_text(node.time_ms, "auto")  # the note's times were erased with the text
    return SessionMessage(
        message=said,
        message_id=int(node.id),
        redact_message=said if redacted else None,
        created_at=facts.get("created_at", then),
        updated_at=facts.get("updated_at", then),
    )
