"""The operations of a store, without I/O: each method is a protocol, which `Store` runs and `AsyncStore` awaits.

Both are generated from this class by `python -m tests.facades`: users see the signatures and docstrings written here. A
`Place` becomes a store, an `Opened` a session or a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Unpack

from treering import journal, maintenance, storage, store
from treering._late import Kind
from treering.checkpoint.policy import find_policy
from treering.errors import NotFoundError, UsageError
from treering.ids import now_ms
from treering.session import verbs
from treering.session.options import Options
from treering.session.reader import Reader
from treering.session.snapshot import DEFAULT_POLICY
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.store.place import Opened, Opening, Place, loaded_card, release, wanted_by
from treering.transcript.node import Draft

if TYPE_CHECKING:
    from treering.maintenance.backup import BackedUp, Backup
    from treering.maintenance.reindexing import Reindexed
    from treering.maintenance.repair import Repair
    from treering.maintenance.retention import Retained, RetainedRow, Retention
    from treering.maintenance.verify import Finding
    from treering.storage.effects import Job, Performer, Stream
    from treering.store.catalogue import Sessions
    from treering.store.info import SessionInfo
    from treering.store.loading import Progress
    from treering.store.options import LoadFacts, OpenOptions


class StoreBody:
    """Sessions in a folder or a bucket. Nothing is read or written until a session is asked for."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def namespace(self, name: str) -> Place:
        """A separate store inside this one, for one tenant; it has no access to sessions of other tenants."""
        return self._place.namespace(name)

    def namespaces(self) -> Steps[dict[str, Place]]:
        """The namespaces directly in this store, by name: those in which anything is stored, even if only a tombstone.

        A name of more than about 100 characters is stored and listed as its hash: `=h` and 64 hex digits.
        """
        found = yield from store.inventory.namespaces(self._place.prefix, appends=self._place.driver.appends)
        return {name: self._place.at(prefix) for name, prefix in found.items()}

    def session(self, session: str | None = None, **options: Unpack[OpenOptions]) -> Job[Opened[Writer]]:
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
        return self._place.open(Opening.of(session, options))

    def view(self, session: str, *, policy: str | None = None) -> Steps[Opened[Reader]]:
        """Open a session for reading only, also while other processes write to it.

        Args:
            session: Its name.
            policy: The policy that chooses what the model sees; by default that of the newest checkpoint.

        Raises:
            NotFoundError: There is no such session.
        """
        return self._place.look(session, policy)

    def sessions(
        self,
        *,
        project: str | None = None,
        cwd: str | None = None,
        status: str | None = None,
        limit: int = 20,
        after: str | None = None,
        below: bool = False,
    ) -> Steps[Sessions]:
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
        return store.recent.list_page(
            self._place.prefix,
            appends=self._place.driver.appends,
            limit=limit,
            after=after,
            wanted=wanted_by(project, cwd, status),
            below=below,
        )

    def each_session(self, *, below: bool = False, begins: str = "") -> Stream[SessionInfo]:
        """Yield all sessions, the most recently active first: one LIST, and a ranged GET for each card.

        Args:
            below: Include the namespaces in this store, however deep; see `SessionInfo.namespace`.
            begins: Only sessions whose names begin with this text. No other cards are read, except those of sessions
                with very long names.
        """
        place, count = self._place, store.catalogue.CARDS_AT_ONCE_MAX
        listings = yield from store.catalogue.list_cards(
            place.prefix, appends=place.driver.appends, below=below, begins=begins
        )
        for start in range(0, len(listings), count):
            rows = yield from store.catalogue.read_cards(listings[start : start + count])
            yield storage.effects.Items([row for row in rows if row.id.startswith(begins)])

    def recent(
        self, *, project: str | None = None, cwd: str | None = None, below: bool = False
    ) -> Steps[SessionInfo | None]:
        """The session that was active last, of a project or a working directory; None if there is none.

        Args:
            project: Only sessions of this project.
            cwd: Only sessions with this working directory.
            below: Include the namespaces in this store, however deep.
        """
        place, wanted = self._place, wanted_by(project, cwd)
        return store.recent.newest(place.prefix, appends=place.driver.appends, wanted=wanted, below=below)

    def spawn(self, parent: Performer, session: str, *, task: str) -> Job[Opened[Writer]]:
        """Start a session for a subagent, linked with its parent in both directions.

        Args:
            parent: The parent session; the link to the new one is recorded there first.
            session: Name of the new session.
            task: The subagent's task; shown in lists.

        Raises:
            ConflictError: A session of that name exists. If another process made it at the same moment, the parent
                keeps a link to it.
        """
        keys = self._place.keys(session)
        yield from journal.life.require_free(keys)
        card = yield storage.effects.Perform(lambda: parent.perform(verbs.forking.link_child, session, task))
        opened = yield from self._place.open(Opening(session, card, Options()))
        if not opened.reader.creation.is_new:  # another process was first while the link was recorded
            release(opened.holds)
            raise journal.life.taken(keys)
        return opened

    def delete(self, session: str, *, missing_ok: bool = False) -> Job[None]:
        """Delete a session with all its contents; its name can be reused.

        Args:
            session: Its name.
            missing_ok: Do nothing if there is no such session, so that the call can be repeated.

        Raises:
            NotFoundError: There never was such a session, or it was purged. Deleting a deleted one again does nothing.
            SessionHeldError: Another local process has it open.
        """
        try:
            yield from self._place.delete(session)
        except NotFoundError as error:
            if not missing_ok or error.kind != Kind.SESSION:
                raise

    def purge(self, session: str | None = None, *, older_than: timedelta | None = None) -> Job[tuple[str, ...]]:
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
        before = None if older_than is None else now_ms() - older_than // timedelta(milliseconds=1)
        return self._place.purge(session, before_ms=before)

    def retain(
        self,
        policy: Retention,
        *,
        dry_run: bool = False,
        now: datetime | None = None,
        on_result: Callable[[RetainedRow], None] | None = None,
    ) -> Job[Retained]:
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
        listings = yield from store.catalogue.list_cards(self._place.prefix, appends=self._place.driver.appends)
        rows: list[SessionInfo] = []
        for start in range(0, len(listings), store.catalogue.CARDS_AT_ONCE_MAX):
            rows += yield from store.catalogue.read_cards(listings[start : start + store.catalogue.CARDS_AT_ONCE_MAX])
        retaining = maintenance.retaining.Retaining(
            self._place, policy, now_ms() if now is None else int(now.timestamp() * 1000)
        )
        return (yield from retaining.run(rows, dry_run=dry_run, on_result=on_result or (lambda _: None)))

    def copy(
        self, session: str, target: Place | None = None, *, name: str | None = None, progress: Progress | None = None
    ) -> Job[None]:
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
        from treering.storage.wrapper import innermost  # opening a session does not need it

        where = target or self._place
        keys = where.keys(name or session)
        if innermost(where.driver) is innermost(self._place.driver) and keys == self._place.keys(session):
            raise UsageError("a copy needs another name or another store", kind=Kind.COPY)
        yield from store.copying.copy_session(
            self._place.keys(session), where.driver, keys, prepare=where.prepare, progress=progress
        )

    def backup(
        self,
        target: Place,
        *,
        sessions: Sequence[str] | None = None,
        delete: bool = False,
        on_result: Callable[[BackedUp], None] | None = None,
        progress: Progress | None = None,
    ) -> Job[Backup]:
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
        return maintenance.backup.back_up(
            self._place, target, sessions=sessions, delete=delete, on_result=on_result, progress=progress
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
    ) -> Job[None]:
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
        place, chosen = self._place, find_policy(policy)
        keys = place.keys(session)
        yield from journal.life.require_free(keys)
        yield from place.prepare()
        from treering.session.loader import Loader

        loader = Loader(keys, chosen, loaded_card(session, facts or {}), place.redaction)
        yield from store.loading.import_drafts(loader, drafts=drafts, leaf=leaf, origin=origin, progress=progress)

    def verify(self, session: str) -> Steps[list[Finding]]:
        """Read all objects of a session and report all damage and oddities; changes nothing.

        Raises:
            NotFoundError: There is no such session.
        """
        return maintenance.verify.verify_session(self._place.keys(session))

    def repair(
        self, session: str, *, into: str, target: Place | None = None, progress: Progress | None = None
    ) -> Job[Repair]:
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
        where = target or self._place
        if where is self._place and into == session:
            raise UsageError(
                f"a session cannot be repaired into itself. session={session!r}",
                kind=Kind.SAME_NAME,
                remedy="choose another name: the damaged session is left as it is",
            )
        keys = where.keys(into)
        yield from storage.effects.on(where.driver, journal.life.require_free(keys))
        yield from storage.effects.on(where.driver, where.prepare())
        return (
            yield from maintenance.repair.repair_session(
                self._place.keys(session),
                where.driver,
                keys,
                policy=find_policy(DEFAULT_POLICY),
                card=loaded_card(session, {}),
                progress=progress,
            )
        )

    def reindex(self) -> Steps[Reindexed]:
        """Give each session a marker for lists, also in namespaces below, and remove markers that no session names.

        Lists read markers only where the store says that each session has one: a new store says so from the start,
        other stores after this call. It is needed once for a store made by an earlier version, and after objects were
        copied or restored by hand.

        Raises:
            UnavailableError: The store does not answer; call again.
        """
        return maintenance.reindexing.reindex(self._place.prefix, appends=self._place.driver.appends)

    def verify_all(self) -> Stream[tuple[str, list[Finding]]]:
        """Verify all sessions, one after the other; yields each name with its findings."""
        return maintenance.verify.verify_store(self._place.prefix, appends=self._place.driver.appends)

    def verify_parcels(self) -> Stream[tuple[str, list[Finding]]]:
        """Verify parcels, which integrations keep beside sessions; yields each name with its findings."""
        return maintenance.parcels.verify_parcels(self._place.prefix)
