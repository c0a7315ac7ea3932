"""A store: a folder or a bucket with sessions in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from treering.checkpoint.policy import find_policy
from treering.errors import UsageError
from treering.ids import now_ms
from treering.journal import life
from treering.maintenance.backup import BackedUp, Backup, back_up
from treering.maintenance.parcels import verify_parcels
from treering.maintenance.repair import Repair, repair_session
from treering.maintenance.retention import Retained, RetainedRow, Retention
from treering.maintenance.verify import Finding, verify_session, verify_store
from treering.session.blocking import Session, View
from treering.session.catalogue import CARDS_AT_ONCE_MAX, Sessions, list_cards, list_sessions, newest, read_cards
from treering.session.info import SessionInfo
from treering.session.inventory import namespaces
from treering.session.lineage import Loader, link_child
from treering.session.loading import Progress, copy_session, import_drafts
from treering.session.place import (
    LoadFacts,
    Opening,
    OpenOptions,
    Place,
    loaded_card,
    open_place,
    passing_over_missing,
    purging,
    release,
    wanted_by,
)
from treering.session.redaction import Redactor
from treering.session.state import DEFAULT_POLICY
from treering.session.writer import Options
from treering.storage.run import run
from treering.transcript.node import Draft

if TYPE_CHECKING:
    from treering.storage.open import Target

__all__ = ["LoadFacts", "OpenOptions", "Place", "Store", "open"]


class Store:
    """Sessions in a folder or a bucket, for blocking code. Nothing is read or written until a session is asked for."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __repr__(self) -> str:
        """Name the kind of store and the part of it."""
        return f"<Store {self._place.driver.name} {self._place.prefix!r}>"

    def namespace(self, name: str) -> Store:
        """A store of its own inside this one, for one tenant; it sees no other's sessions."""
        return Store(self._place.namespace(name))

    def namespaces(self) -> dict[str, Store]:
        """The namespaces directly in this store, by name: those in which anything is stored, be it a tombstone.

        A name of more than some 100 characters is stored as its hash, which stands in its place: `=h` and 64 digits.
        """
        found = run(namespaces(self._place.prefix, appends=self._place.driver.appends), self._place.driver)
        return {name: Store(self._place.at(prefix)) for name, prefix in found.items()}

    def session(self, session: str | None = None, **options: Unpack[OpenOptions]) -> Session:
        """Resume a session, or make ready to create it with its first record. Two reads, however long it is.

        Args:
            session: Any name; by default a new one is made up.
            options: See `OpenOptions`.

        Raises:
            SessionHeldError: Another local process holds it.
            NotFoundError: There is none, and `create` is false.
            UsageError: An option has no meaning.
            CorruptError: It is damaged; run `treering verify`.
            UnavailableError: The store does not answer.
        """
        return self._open(Opening.of(session, options))

    def _open(self, opening: Opening) -> Session:
        writer, holds = self._place.writer(opening)
        try:
            run(writer.open(), self._place.driver)
        except BaseException:
            release(holds)
            raise
        return Session(writer, self._place.driver, self._place.location_of(opening.session), holds)

    def view(self, session: str, *, policy: str | None = None) -> View:
        """Look at a session without ever writing to it; others may have it open.

        Args:
            session: Its name.
            policy: Chooses what a model would see; by default that of the newest checkpoint.

        Raises:
            NotFoundError: There is none.
        """
        reader = self._place.reader(session, policy)
        run(reader.resume(), self._place.driver)
        return View(reader, self._place.driver, self._place.location_of(session))

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
            project: Only those of this project.
            cwd: Only those about this folder.
            status: Only those that stand so; empty: those without a status.
            limit: Most rows.
            after: `Sessions.after` of the page before.
            below: Also sessions of the namespaces in this store, and in those; see `SessionInfo.namespace`.
        """
        wanted = wanted_by(project, cwd, status)
        return run(
            list_sessions(
                self._place.prefix,
                appends=self._place.driver.appends,
                limit=limit,
                after=after,
                wanted=wanted,
                below=below,
            ),
            self._place.driver,
        )

    def each_session(self, *, below: bool = False) -> Iterator[SessionInfo]:
        """Yield all sessions, the most recently active first: one LIST, and a ranged GET for each card."""
        listings = run(
            list_cards(self._place.prefix, appends=self._place.driver.appends, below=below), self._place.driver
        )
        for start in range(0, len(listings), CARDS_AT_ONCE_MAX):
            part = listings[start : start + CARDS_AT_ONCE_MAX]
            yield from run(read_cards(part), self._place.driver)

    def recent(self, *, project: str | None = None, cwd: str | None = None, below: bool = False) -> SessionInfo | None:
        """The session that was last active, of a project or about a folder: where I was."""
        return run(
            newest(self._place.prefix, appends=self._place.driver.appends, wanted=wanted_by(project, cwd), below=below),
            self._place.driver,
        )

    def spawn(self, parent: Session, session: str, *, task: str) -> Session:
        """Start a subagent's session, linked with the one that asked for it in both directions.

        Raises:
            ConflictError: There is a session of that name.
        """
        keys = self._place.keys(session)
        run(life.require_free(keys), self._place.driver)
        card = parent.perform(link_child, session, task)
        return self._open(Opening(session, card, Options()))

    def delete(self, session: str, *, missing_ok: bool = False) -> None:
        """Delete a session and everything in it; its name can be used again.

        Args:
            session: Its name.
            missing_ok: Do nothing if there is none, so that it can be asked for twice.

        Raises:
            NotFoundError: There is none.
            SessionHeldError: Another local process has it open.
        """
        with passing_over_missing(missing_ok=missing_ok):
            self._place.delete(session)

    def purge(self, session: str | None = None, *, older_than: timedelta | None = None) -> tuple[str, ...]:
        """Remove what deletions leave: tombstones, and what killed or stalled processes left behind.

        Args:
            session: This one, which was deleted; by default all deleted ones.
            older_than: Only those whose tombstone has stood that long by the store's clock.

        Returns:
            The names of which nothing is stored any more.

        Raises:
            UsageError: The session was not deleted.
            NotFoundError: Nothing of it is stored.
            UnsafeStoreError: The store ignores conditions on deletions.
        """
        names = run(purging(self._place, session, older_than), self._place.driver)
        self._place.driver.scrub(*(self._place.keys(name).home for name in names))
        return names

    def retain(
        self,
        policy: Retention,
        *,
        dry_run: bool = False,
        now: datetime | None = None,
        told: Callable[[RetainedRow], None] | None = None,
    ) -> Retained:
        """Delete old sessions and prune checkpoints by a policy. One session that fails does not stop the others.

        Args:
            policy: What to keep, and how long.
            dry_run: Only say what would be done; nothing is written.
            now: The time that ages are counted from; by default the clock's.
            told: Called with each row as soon as it is done, for a log.

        Returns:
            What became of every session of this namespace.

        Raises:
            UnavailableError: The sessions cannot be listed.
        """
        from treering.session.retaining import Retaining

        now_is = now_ms() if now is None else int(now.timestamp() * 1000)
        run_of = Retaining(self._place, lambda name: self.session(name, create=False), policy, now_is)
        return run_of.run(list(self.each_session()), dry_run=dry_run, told=told or (lambda _: None))

    def copy(
        self, session: str, target: Store | None = None, *, name: str | None = None, progress: Progress | None = None
    ) -> None:
        """Copy a session as it is at this moment, also while it is in use.

        Args:
            session: The one to copy.
            target: The store to copy to; by default this one.
            name: Its name there; by default the same.
            progress: Told how many records are done.

        Raises:
            UsageError: It would be copied onto itself.
            ConflictError: There is a session of that name in the target.
        """
        where = self._place if target is None else target._place  # noqa: SLF001  # of the same class
        keys = where.keys(name or session)
        if where.driver is self._place.driver and keys == self._place.keys(session):
            raise UsageError("a copy needs another name or another store", kind="copy")
        reader = self._place.reader(session)
        run(reader.resume(), self._place.driver)
        run(life.require_free(keys), where.driver)
        run(where.prepare(), where.driver)
        copy_session(self._place.driver, reader, where.driver, keys, progress)

    def backup(
        self,
        target: Store,
        *,
        sessions: Sequence[str] | None = None,
        delete: bool = False,
        told: Callable[[BackedUp], None] | None = None,
        progress: Progress | None = None,
    ) -> Backup:
        """Bring a backup of this store up to date, also while it is in use: each session is copied as of one moment.

        Only what the backup lacks is read and written. What was erased here disappears there. The backup is a store; to
        restore it, back it up to an empty place. One session that fails does not stop the others.

        Args:
            target: Where the backup is; the part of another store, or an empty place. Nobody else writes there.
            sessions: Names of single sessions; by default all, those of namespaces below and what others keep beside
                the sessions included.
            delete: Remove from the backup what this store has no longer: sessions that were deleted, and records that
                a session lost when an older copy was restored over it. By default the first is kept, and the second
                is an error of its row.
            told: Called with each row as soon as it is done.
            progress: Called with the number of bytes written so far.

        Raises:
            UsageError: The target is this store.
            UnavailableError: One of the stores cannot be listed.
        """
        where = target._place  # of the same class
        return back_up(self._place, where, sessions=sessions, delete=delete, told=told, progress=progress)

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
        """Make a session from what an importer read: it exists when everything is in, or not at all.

        Args:
            session: Its name.
            drafts: Records in order; parents are kept whatever they name. Read once, so a generator is fine.
            leaf: Asked after the last draft for the node to stand at.
            facts: What is known of the session: title, project, cwd, `created_ms`, ...
            policy: Chooses what the model sees, then and when the session is continued.
            origin: Asked after that for facts about the file, to be kept on the card: see `treering.importers.origin`.
            progress: Told how many records are done.

        Raises:
            ConflictError: There is a session of that name.
        """
        place, chosen = self._place, find_policy(policy)
        keys = place.keys(session)
        run(life.require_free(keys), place.driver)
        run(place.prepare(), place.driver)
        loader = Loader(keys, chosen, loaded_card(session, facts or {}), place.redaction)
        import_drafts(place.driver, loader, drafts=drafts, leaf=leaf, origin=origin, progress=progress)

    def verify(self, session: str) -> list[Finding]:
        """Read everything a session consists of and report all damage and oddities; changes nothing.

        Raises:
            NotFoundError: There is none.
        """
        keys = self._place.keys(session)
        return verify_session(self._place.driver, keys)

    def repair(
        self, session: str, *, into: str, target: Store | None = None, progress: Progress | None = None
    ) -> Repair:
        """Salvage what can be read of a damaged session into a new one; the damaged one is not changed.

        Args:
            session: The damaged session, by its exact name.
            into: Name of the new one.
            target: The store to make it in; by default this one.
            progress: Told how many records are done.

        Returns:
            What was salvaged, and what was lost.

        Raises:
            NotFoundError: There is no such session, or it was deleted.
            ConflictError: There is a session of the new name.
            UsageError: The new name is that of the damaged session.
            CorruptError: Nothing of it can be read.
            FormatVersionError: A newer version wrote some of it.
        """
        where = self._place if target is None else target._place  # noqa: SLF001  # of the same class
        if where is self._place and into == session:
            raise UsageError(
                f"a session cannot be repaired into itself. session={session!r}",
                kind="same_name",
                remedy="choose another name: the damaged session is left as it is",
            )
        keys = where.keys(into)
        run(life.require_free(keys), where.driver)
        run(where.prepare(), where.driver)
        return repair_session(
            self._place.driver,
            self._place.keys(session),
            where.driver,
            keys,
            policy=find_policy(DEFAULT_POLICY),
            card=loaded_card(session, {}),
            progress=progress,
        )

    def verify_all(self) -> Iterator[tuple[str, list[Finding]]]:
        """Verify all sessions, one after the other: names and what was found."""
        return verify_store(self._place.driver, self._place.prefix)

    def verify_parcels(self) -> Iterator[tuple[str, list[Finding]]]:
        """Verify what others keep beside the sessions, for example Strands' snapshots: names and what was found."""
        return verify_parcels(self._place.driver, self._place.prefix)

    def close(self) -> None:
        """Give back connections and files. Sessions opened from this store must be closed before."""
        self._place.driver.close()


def open(  # noqa: A001  # `treering.open`, as in gzip, shelve and fsspec
    target: Target,
    *,
    path: str = "",
    namespace: str | None = None,
    single_writer: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    redactor: Redactor | None = None,
) -> Store:
    """Open a store. Nothing is created before the first record.

    Args:
        target: A folder, `s3://bucket/prefix`, `memory://name`, any fsspec URL or filesystem object.
        path: Where the store lies in a filesystem object.
        namespace: A part of the store for one tenant.
        single_writer: You promise that one process at a time writes here. Needed for stores that cannot swap.
        storage_options: Passed on to the client of a remote store.
        redactor: Is given every text that is about to be stored, and returns what is stored instead; see
            `treering.redact_patterns`. It must leave alone what it returned. Signed and encrypted parts, base64, ids
            and roles are not given to it. Copies, forks and repairs keep what is stored already as it is.

    Raises:
        UsageError: The target is none of these.
        UnsafeStoreError: The store cannot swap, and `single_writer` was not promised.
    """
    return Store(
        open_place(
            target,
            path=path,
            namespace=namespace,
            single_writer=single_writer,
            storage_options=storage_options,
            redactor=redactor,
        )
    )
