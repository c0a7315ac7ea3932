"""`Store`: sessions in a folder or a bucket, for blocking code.

Written by `python -m tests.facades`: change what it is written from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from treering.api.blocking import BlockingStore
from treering.api.session import Session
from treering.api.view import View
from treering.session.snapshot import DEFAULT_POLICY
from treering.storage.open import TIMEOUT_SECONDS
from treering.store.place import open_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Any, Unpack

    from treering.maintenance.backup import BackedUp, Backup
    from treering.maintenance.reindexing import Reindexed
    from treering.maintenance.repair import Repair
    from treering.maintenance.retention import Retained, RetainedRow, Retention
    from treering.maintenance.verify import Finding
    from treering.session.redaction import Redactor
    from treering.storage.observing import Observer
    from treering.storage.open import Target
    from treering.store.catalogue import Sessions
    from treering.store.info import SessionInfo
    from treering.store.loading import Progress
    from treering.store.options import LoadFacts, OpenOptions
    from treering.transcript.node import Draft


class Store(BlockingStore):
    """Sessions in a folder or a bucket. Nothing is read or written until a session is asked for."""

    def namespace(self, name: str) -> Store:
        """A separate store inside this one, for one tenant; it has no access to sessions of other tenants."""
        return Store(self._body.namespace(name))

    def namespaces(self) -> dict[str, Store]:
        """The namespaces directly in this store, by name: those in which anything is stored, even if only a tombstone.

        A name of more than about 100 characters is stored and listed as its hash: `=h` and 64 hex digits.
        """
        return {name: Store(place) for name, place in (self._run(self._body.namespaces())).items()}

    def session(self, session: str | None = None, **options: Unpack[OpenOptions]) -> Session:
        """Resume a session, or prepare to create it with its first record. Two reads, however long the session is.

        Args:
            session: Any name; by default a new, random one.
            options: See `OpenOptions`.

        Raises:
            SessionHeldError: Another local process holds it, or with `claim` another worker has the lease.
            NotFoundError: The session does not exist, and `create` is false.
            UsageError: There is no such option, or its value is not allowed.
            CorruptError: The session is damaged; run `treering verify`.
            UnavailableError: The store does not answer.
        """
        return Session(self._run(self._body.session(session, **options)))

    def view(self, session: str, *, policy: str | None = None) -> View:
        """Open a session for reading only, also while other processes write to it.

        Args:
            session: Its name.
            policy: The policy that chooses what the model sees; by default that of the newest checkpoint.

        Raises:
            NotFoundError: There is no such session.
        """
        return View(self._run(self._body.view(session, policy=policy)))

    def sessions(
        self,
        *,
        project: str | None = None,
        cwd: str | None = None,
        status: str | None = None,
        limit: int = 20,
        after: str | None = None,
        below: bool = False,
    ) -> Sessions:
        """One page of sessions, the most recently active first, from their cards alone.

        Args:
            project: Only sessions of this project.
            cwd: Only sessions with this working directory.
            status: Only sessions with this status; empty: sessions without a status.
            limit: The maximum number of rows.
            after: `Sessions.after` of the page before.
            below: Include the namespaces in this store, however deep; see `SessionInfo.namespace`.

        Raises:
            UsageError: `after` is not from a page of this store.
        """
        return self._run(
            self._body.sessions(project=project, cwd=cwd, status=status, limit=limit, after=after, below=below)
        )

    def each_session(self, *, below: bool = False, begins: str = "") -> Iterator[SessionInfo]:
        """Yield all sessions, the most recently active first: one LIST, and a ranged GET for each card.

        Args:
            below: Include the namespaces in this store, however deep; see `SessionInfo.namespace`.
            begins: Only sessions whose names begin with this text. No other cards are read, except those of sessions
                with very long names.
        """
        return self._each(self._body.each_session(below=below, begins=begins))

    def recent(self, *, project: str | None = None, cwd: str | None = None, below: bool = False) -> SessionInfo | None:
        """The session that was active last, of a project or a working directory; None if there is none.

        Args:
            project: Only sessions of this project.
            cwd: Only sessions with this working directory.
            below: Include the namespaces in this store, however deep.
        """
        return self._run(self._body.recent(project=project, cwd=cwd, below=below))

    def spawn(self, parent: Session, session: str, *, task: str) -> Session:
        """Start a session for a subagent, linked with its parent in both directions.

        Args:
            parent: The parent session; the link to the new one is recorded there first.
            session: Name of the new session.
            task: The subagent's task; shown in lists.

        Raises:
            ConflictError: A session of that name exists. If another process made it at the same moment, the parent
                keeps a link to it.
        """
        return Session(self._run(self._body.spawn(parent, session, task=task)))

    def delete(self, session: str, *, missing_ok: bool = False) -> None:
        """Delete a session with all its contents; its name can be reused.

        Args:
            session: Its name.
            missing_ok: Do nothing if there is no such session, so that the call can be repeated.

        Raises:
            NotFoundError: There never was such a session, or it was purged. Deleting a deleted one again does nothing.
            SessionHeldError: Another local process has it open.
        """
        self._run(self._body.delete(session, missing_ok=missing_ok))

    def purge(self, session: str | None = None, *, older_than: timedelta | None = None) -> tuple[str, ...]:
        """Vacuum: remove the tombstones of deleted sessions, and objects left by killed or stalled processes.

        Args:
            session: A deleted session; by default all deleted ones.
            older_than: Only sessions deleted longer ago than this by the store's clock.

        Returns:
            The names of the purged sessions. A long name that is stored nowhere any more is its hash, as keys have it.

        Raises:
            UsageError: The session was not deleted.
            NotFoundError: Nothing of it is stored.
            UnsafeStoreError: The store ignores conditions on deletions.
        """
        return self._run(self._body.purge(session, older_than=older_than))

    def retain(
        self,
        policy: Retention,
        *,
        dry_run: bool = False,
        now: datetime | None = None,
        on_result: Callable[[RetainedRow], None] | None = None,
    ) -> Retained:
        """Delete old sessions and prune checkpoints by a policy. One session that fails does not stop the others.

        Args:
            policy: What to keep, and for how long.
            dry_run: Only return what would be done; nothing is written.
            now: The time that ages are counted from; by default the current time.
            on_result: Called with each row as soon as it is done, for a log.

        Returns:
            The outcome for every session of this namespace.

        Raises:
            UnavailableError: The sessions cannot be listed.
        """
        return self._run(self._body.retain(policy, dry_run=dry_run, now=now, on_result=on_result))

    def copy(
        self, session: str, target: Store | None = None, *, name: str | None = None, progress: Progress | None = None
    ) -> None:
        """Copy a session in its current state, also while it is in use.

        Objects are copied as they are, and every byte is checked. Nothing that was erased before the copy is made is in
        it. An erasure in the original at the moment when the copy is created may not reach the copy: erase there, too.

        Args:
            session: The session to copy.
            target: The store to copy to; by default this one.
            name: The name of the copy; by default the same.
            progress: Called with the number of records done.

        Raises:
            UsageError: Source and target are the same.
            NotFoundError: There is no such session.
            ConflictError: A session of that name exists in the target.
            CorruptError: The session is damaged; there is no copy.
            FormatVersionError: Its newest records can only be understood by a later version.
        """
        self._run(self._body.copy(session, target.place if target else None, name=name, progress=progress))

    def backup(
        self,
        target: Store,
        *,
        sessions: Sequence[str] | None = None,
        delete: bool = False,
        on_result: Callable[[BackedUp], None] | None = None,
        progress: Progress | None = None,
    ) -> Backup:
        """Update a backup of this store, also while it is in use: each session is copied as of one moment.

        Only objects that the backup lacks are read and written. Payloads erased here are removed there. The backup is a
        store; to restore it, back it up to an empty place. One session that fails does not stop the rest.

        Args:
            target: The place of the backup: another store, or an empty place. Only backups may write there.
            sessions: Names of single sessions; by default all, with those of namespaces below, and all parcels.
            delete: Remove content from the backup that this store no longer has: deleted sessions, and records that a
                session lost when an older copy was restored over it. By default deleted sessions stay in the backup,
                and lost records are an error in the row of the session.
            on_result: Called with each row as soon as it is done.
            progress: Called with the number of bytes written so far.

        Raises:
            UsageError: The target is this store, or a namespace in it.
            UnavailableError: One of the stores cannot be listed.
        """
        return self._run(
            self._body.backup(target.place, sessions=sessions, delete=delete, on_result=on_result, progress=progress)
        )

    def load(
        self,
        session: str,
        drafts: Iterable[Draft],
        *,
        leaf: Callable[[], str | None],
        facts: LoadFacts | None = None,
        policy: str = DEFAULT_POLICY,
        origin: Callable[[], Mapping[str, object]] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Create a session from the drafts of an importer, completely or not at all.

        Args:
            session: Its name.
            drafts: Records in order; parents are kept even if missing. Read once, so a generator is fine.
            leaf: Called after the last draft; returns the node that the head points to.
            facts: Facts about the session: title, project, cwd, `created_ms`, ...
            policy: The policy that chooses what the model sees, now and when the session is continued.
            origin: Called after `leaf`; returns facts about the file for the card: see `treering.importers.origin`.
            progress: Called with the number of records done.

        Raises:
            ConflictError: A session of that name exists.
        """
        self._run(
            self._body.load(session, drafts, leaf=leaf, facts=facts, policy=policy, origin=origin, progress=progress)
        )

    def verify(self, session: str) -> list[Finding]:
        """Read all objects of a session and report all damage and oddities; changes nothing.

        Raises:
            NotFoundError: There is no such session.
        """
        return self._run(self._body.verify(session))

    def repair(
        self, session: str, *, into: str, target: Store | None = None, progress: Progress | None = None
    ) -> Repair:
        """Salvage the readable records of a damaged session into a new one; the damaged one is not changed.

        Args:
            session: The damaged session, by its exact name.
            into: Name of the new session.
            target: The store of the new session; by default this one.
            progress: Called with the number of records done.

        Returns:
            What was salvaged and what was lost.

        Raises:
            NotFoundError: There is no such session, or it was deleted.
            ConflictError: A session of the new name exists.
            UsageError: The new name is that of the damaged session.
            CorruptError: Nothing can be read.
            FormatVersionError: A newer version wrote a part of it.
        """
        return self._run(
            self._body.repair(session, into=into, target=target.place if target else None, progress=progress)
        )

    def reindex(self) -> Reindexed:
        """Give each session a marker for lists, also in namespaces below, and remove markers that no session names.

        Lists read markers only where the store says that each session has one: a new store says so from the start,
        other stores after this call. It is needed once for a store made by an earlier version, and after objects were
        copied or restored by hand.

        Raises:
            UnavailableError: The store does not answer; call again.
        """
        return self._run(self._body.reindex())

    def verify_all(self) -> Iterator[tuple[str, list[Finding]]]:
        """Verify all sessions, one after the other; yields each name with its findings."""
        return self._each(self._body.verify_all())

    def verify_parcels(self) -> Iterator[tuple[str, list[Finding]]]:
        """Verify parcels, which integrations keep beside sessions; yields each name with its findings."""
        return self._each(self._body.verify_parcels())


def open(
    target: Target,
    *,
    path: str = "",
    namespace: str | None = None,
    single_writer: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    redactor: Redactor | None = None,
    observer: Observer | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Store:
    """Open a store. Nothing is created before the first record.

    Args:
        target: A folder, `s3://bucket/prefix`, `memory://name`, any fsspec URL or filesystem object.
        path: The path of the store in a filesystem object.
        namespace: A part of the store for one tenant.
        single_writer: You promise that only one process at a time writes here. Needed for stores without
            compare-and-swap.
        storage_options: Passed on to the client of a remote store.
        redactor: Gets every text before it is stored, and returns the text to store; see `treering.redact_patterns`.
            It must be idempotent. It does not get signed and encrypted parts, base64, ids and roles. Copies, forks
            and repairs keep stored texts as they are.
        observer: Gets a `RequestBatch` after each batch of requests to the store, for metrics and logs. The thread or
            event loop that waited for the requests calls it. It must not use the store. If it raises, the call ends as
            by an interrupt.
        timeout: Seconds after which a request to S3 without an answer fails, with all its attempts. Slow uploads and
            downloads may take longer, and a call may need several requests one after the other.

    Raises:
        UsageError: The target is none of these, or `timeout` is not positive.
        UnsafeStoreError: The store has no compare-and-swap, and `single_writer` was not promised.
    """
    return Store(
        open_place(
            target,
            path=path,
            namespace=namespace,
            single_writer=single_writer,
            storage_options=storage_options,
            redactor=redactor,
            observer=observer,
            timeout=timeout,
        )
    )
