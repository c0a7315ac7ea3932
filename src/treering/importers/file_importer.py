"""Import files of other programs into a store, and update sessions whose files grew.

Rule 1: a file with the size and time that its card states is not opened.
Rule 2: the new records of a file that has grown are added. If the session was continued in Treering since the last
import, they become a branch, and the current head stays.
Rule 3: a file that no longer begins with the imported records is another session. It is refused, or imported under
another name on request.
Rule 4: records that were made in Treering and came into the file by an export are not recorded a second time. If the
session's head has not moved since the export, it follows the program. Messages without ids are recognised by their
contents, see `treering.importers.matching`.
Rule 5: no two files share a session. A session is named by its id in the file; if that name is taken, by `<id>-2`,
`<id>-3`, ... The name is stored with the path, so it stays the same on later imports. A session that is read from a
pipe has no path: it is recognised only by its records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal

import msgspec

from treering.api.session import Session
from treering.api.store import Store
from treering.errors import ConflictError, CorruptError, TreeringError
from treering.format.register import one_line
from treering.format.values import fields_of
from treering.ids import now_ms
from treering.importers.known_sessions import KnownSessions, is_export_of, is_ours
from treering.importers.matching import is_nameless, matched
from treering.importers.opened_file import OpenedFile, open_file
from treering.importers.origin import Origin, Reading, origin_of, stat_of
from treering.importers.spending import Spending, counted, told_in
from treering.kinds import Kind
from treering.programs.common.entry import PIECE
from treering.programs.common.folder import located
from treering.programs.common.growth import Looks
from treering.programs.common.source import ImportSource, Problem, closing_of
from treering.programs.common.spool import is_stream, settled
from treering.programs.formats import Format
from treering.session.verbs.extending import EXPORTED, SideHead, hung, missing, node_at, notes_among, record_foreign
from treering.store.loading import Progress, origin_note
from treering.store.options import LoadFacts
from treering.transcript.node import Draft

DRAFTS_AT_ONCE = 256
"""The records per append, for a file that has grown."""
TITLE_BYTES_MAX = 200
"""The most bytes of a title on the card, which every list reads; the note of the import has the whole title."""

Outcome = Literal["new", "updated", "unchanged", "copy"]


class ImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of importing one file."""

    path: str
    session: str
    outcome: Outcome
    """`copy`: another file with the same records was imported as `session`."""
    records: int = 0
    """The number of new records."""
    branch: str = ""
    """The head of the new records, if the session was continued on another branch."""
    problems: list[Problem] = []


class FileImporter:
    """Imports files into one store. It reads all cards once to find the earlier imports.

    Use one importer for many files: making it takes one LIST and a ranged GET for each session. It takes about a
    kilobyte of memory for each imported session.
    """

    def __init__(
        self, store: Store, *, project: str = "", policy: str | None = None, looks: Looks | None = None
    ) -> None:
        """Read the cards of the store.

        Args:
            store: The store in which sessions are made.
            project: The project of new sessions.
            policy: The policy of new sessions; by default that of the program.
            looks: The stored progress of reading large files; by default in the user's cache folder.
        """
        self._store = store
        self._looks = looks or Looks()
        self._project = project
        self._policy = policy
        self._known = KnownSessions(store)

    # imported files

    def origin(self, session: str) -> Origin | None:
        """Return the file from which a session was imported; None if there is none."""
        return self._known.origin(session)

    def find(self, path: str | os.PathLike[str]) -> Origin | None:
        """Return the last import from a path; None if there is none."""
        return self._known.at(path)

    def is_unchanged(self, path: str | os.PathLike[str]) -> bool:
        """Tell whether a file was imported and still has the same size and time."""
        origin = self.find(path)
        return origin is not None and (origin.size, origin.mtime_ns) == stat_of(path)

    # one file

    def load(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,  # noqa: A002  # as it is called everywhere here
        of: Format | None = None,
        name: str | None = None,
        again: bool = False,
        progress: Progress | None = None,
    ) -> ImportResult:
        """Import a file, or its new records if it was imported before.

        Args:
            path: The file, compressed by gzip or not; for some programs a folder or its URL. It is never written. Data
                from a pipe continue the session with the same id if they begin with its records.
            format: The name of its format; by default it is detected from the content.
            of: The format itself, if it is not registered.
            name: The name of the session; by default its id in the file, with a number if that name is taken.
            again: Make another session from a file that was rewritten since it was imported.
            progress: Called with the number of records of a new session that are done.

        Raises:
            UsageError: It is no session file of a known format.
            NotFoundError: There is no such file.
            AccessError: The file may not be read.
            ConflictError: The file was rewritten (kind `rewritten`), or another session has that name.
            SessionHeldError: Another process has the session open.
        """
        pipe = Path(path) if is_stream(path) else None
        with settled(located(path)) as place:
            known = self.find(place) if pipe is None else None
            if known is not None and self.is_unchanged(place) and name in (None, known.session):
                return ImportResult(path=str(path), session=known.session, outcome="unchanged")
            while True:
                names = len(self._known.names)
                try:
                    file = open_file(place, of, format, pipe)
                    return self._import(file, known, name=name, again=again, progress=progress)
                except CorruptError as error:
                    if error.kind != Kind.LOOK:
                        raise
                    self._looks.drop(Path(place))  # the origin recorded with it is correct
                except ConflictError:
                    if len(self._known.names) == names:
                        raise
                    known = self.find(place) if pipe is None else None  # the session that was met may be its own

    def _import(
        self, file: OpenedFile, known: Origin | None, *, name: str | None, again: bool, progress: Progress | None
    ) -> ImportResult:
        if name is not None:
            known = self._known.require_same(name, file)
        elif known is None or not file.is_of(known):
            known = self._known.elsewhere(file) or self._known.made_here(file)
        taken = self._update(known, file) if known is not None else None
        if taken is None and known is not None and file.name in (known.path, "") and not again:
            raise ConflictError(
                f"file was rewritten: it no longer begins with what was imported. path={str(file.path)!r}, "
                f"session={known.session!r}",
                kind=Kind.REWRITTEN,
                remedy="import it again as a session of its own: `treering import --again`",
            )
        return taken or self._import_new(self._known.free_name(name or file.source.header.session_id), file, progress)

    def _import_new(self, name: str, file: OpenedFile, progress: Progress | None) -> ImportResult:
        source, done = file.source, 0
        reading = Reading(source, file.growth(self._looks))
        header = source.header
        facts: LoadFacts = {
            "title": one_line(header.title, TITLE_BYTES_MAX),
            "project": self._project,
            "cwd": header.cwd,
            "task": one_line(str(header.extra.get("subagent_task") or ""), TITLE_BYTES_MAX),
            "extra": {"imported": header.format},
        }
        if header.created_ms is not None:
            facts["created_ms"] = header.created_ms

        def report(records: int) -> None:
            nonlocal done
            done = records
            if progress is not None:
                progress(records)

        origin = Origin(session=name, format=header.format, id=header.session_id, path=file.name)

        def remember() -> dict[str, object]:
            nonlocal origin
            origin = self._read_to(origin, file, reading)
            return origin.facts

        try:
            self._store.load(
                name,
                _all_drafts(reading),
                leaf=lambda: source.leaf,
                facts=facts,
                policy=self._policy or file.format.POLICIES[0],
                origin=remember,
                progress=report,
            )
        except ConflictError as error:
            if error.kind == Kind.EXISTS:
                self._known.meet(name)
            raise
        self._known.names.add(name)
        self._known.remember(origin)
        return ImportResult(path=str(file.path), session=name, outcome="new", records=done, problems=source.problems)

    def _read_to(self, origin: Origin, file: OpenedFile, reading: Reading) -> Origin:
        """Return the origin to store after a file was read to its end."""
        header = file.source.header
        if reading.look is not None:
            self._looks.keep(Path(file.path), reading.look)
        found = msgspec.structs.replace(
            origin,
            path=file.name or origin.path,
            size=file.stat[0],
            mtime_ns=file.stat[1],
            units=reading.units,
            digest=reading.digest,
            header=reading.header,
            tail=reading.tail()[0],
            leaf=file.source.leaf,
            newest=None,
            active_ms=reading.active_ms or header.created_ms,
            parent=header.parent_session,
            imported_ms=now_ms(),
        )
        return msgspec.structs.replace(found, parent_session=origin.parent_session or self._known.parent_of(found))

    # new records of a file

    def _update(self, known: Origin, file: OpenedFile) -> ImportResult | None:
        """Record the new records of a file; None if the file does not begin with the recorded ones."""
        source = file.source
        if file.name not in (known.path, "") and self._known.is_there(known):
            same = Reading(source).begins_with(known)
            return ImportResult(path=str(file.path), session=known.session, outcome="copy") if same else None
        with self._store.session(known.session, create=False) as session:
            spent = counted(source, lambda: self._store.view(known.session))
            known = origin_of(session.info) or known  # the card may be older than an update that was interrupted
            reading = Reading(source, file.growth(self._looks, known.units))
            begins = reading.begins_with(known)
            match = matched(session, source, file.format.POLICIES[0], known, begins=begins)
            if match is not None:
                begins, reading = False, match
            elif not begins:
                if is_nameless(source) or not is_export_of(session, source):
                    return None
                reading = Reading(source, file.growth(self._looks))
            stood, active_ms = session.node, session.info.updated_ms
            done, written = _add_new(session, known, reading, all_new=begins)
            leaf = session.perform(node_at, reading.leaf, known.leaf) if is_ours(reading.leaf) else reading.leaf
            reached = (known.leaf, known.newest or known.leaf, leaf)  # an import was interrupted behind its move
            follows = stood in (*reached, *written, *([match.stood] if match is not None else ()))
            ended = _add_closing(session, source)
            side = None
            if follows and ended:
                session.rewind(ended[-1].id or "")
            elif follows and session.node != leaf:
                session.checkout(leaf)
            elif not follows and leaf != known.leaf:
                side = SideHead(known.head or _free_head(session, known.format), leaf)
            drafts = [*_besides(session, known, reading), *spent]
            origin = msgspec.structs.replace(self._read_to(known, file, reading), leaf=leaf)
            if side is not None:
                origin = msgspec.structs.replace(origin, head=side.name)
            if not follows:
                origin = msgspec.structs.replace(origin, active_ms=max(active_ms, origin.active_ms or 0))
            session.perform(record_foreign, [*drafts, origin_note(origin.facts)], side)
        self._known.remember(origin)
        done += len(ended) + len(drafts)
        return ImportResult(
            path=str(file.path),
            session=known.session,
            outcome="updated" if done else "unchanged",
            records=done,
            branch=side.name if side else "",
            problems=source.problems if done else [],
        )

    # parents

    def link_parents(self) -> int:
        """Link sessions with parents that were imported after them; return the number of linked sessions."""
        linked = 0
        for origin in self._known:
            parent = self._known.parent_of(origin) if origin.parent and origin.parent_session is None else None
            if parent is None:
                continue
            found = msgspec.structs.replace(origin, parent_session=parent)
            try:
                with self._store.session(origin.session, create=False) as session:
                    session.perform(record_foreign, [origin_note(found.facts)])
            except TreeringError:
                continue  # another process has it open, or it is damaged; the next import tries again
            self._known.remember(found)
            linked += 1
        return linked


def _all_drafts(reading: Reading) -> Iterator[Draft]:
    yield from reading.header_drafts
    spending = Spending()
    for part in reading.parts(1):
        yield from spending.with_notes(part)
    yield from spending.finish()
    yield from counted(reading.source)
    yield from reading.tail()[1]
    yield from closing_of(reading.source)


def _add_new(session: Session, known: Origin, reading: Reading, *, all_new: bool) -> tuple[int, list[str | None]]:
    """Record new records in parts, each with its position in the file, so that a kill between two parts does no harm.

    Args:
        session: The session.
        known: The origin that the last import stored.
        reading: The file, from the end of the last reading.
        all_new: Whether all records are new; otherwise records that are recorded already are skipped.

    Returns:
        The number of records; and the session's node when it was exported to the file, if it was.
    """
    done, stands = 0, dict[str, str | None]()
    newest = reached = known.newest or known.leaf
    spending = Spending(partial(told_in, session, reached))
    again = not all_new or hasattr(reading.source, "closing")  # new records may be part of an earlier ending
    for part in reading.parts(DRAFTS_AT_ONCE):
        ours = [draft for draft in part if is_ours(draft.id)]
        new = session.perform(missing, [draft for draft in part if not _is_piece(draft.id)]) if again or ours else part
        done += len(new)
        notes = session.perform(notes_among, [draft.id for draft in ours])
        back: list[Draft] = []
        for draft in part:
            if draft.id in notes:
                back.append(_back(draft, newest))
            elif draft.type == "node":
                newest = draft.id
        new = session.perform(hung, new, back, known.leaf)
        reached = next((each.id for each in reversed(part) if each.type == "node" and not _is_piece(each.id)), reached)
        partly = msgspec.structs.replace(
            known, size=0, mtime_ns=0, units=reading.units, digest=reading.digest, newest=reached
        )
        spent = [*spending.with_notes(new), *spending.finish()]
        session.perform(record_foreign, [*spent, origin_note(partly.facts)])
        for draft in ours:
            place = _place(draft, here=draft not in new and draft.id not in notes)
            stands[str(draft.id)] = stands.get(place or "", place)
    return done, [session.perform(node_at, place, known.leaf) for place in [*stands.values()][-1:]]


def _back(draft: Draft, after: str | None) -> Draft:
    """Return a note with the place in the file of a note that was recorded in Treering and exported as an entry."""
    links = {name: target for name, target in (draft.links or {}).items() if name == "source_parent"}
    links |= {"parent": draft.parent} if isinstance(draft.parent, str) else {}
    links |= {"after": after} if after is not None else {}
    return Draft(type="note", kind=EXPORTED, target=draft.id, links=links, parent=None)


def _place(draft: Draft, *, here: bool) -> str | None:
    """Return the node of a session that ends with an entry: a recorded node itself, else the node or note above it.

    For a note that names the leaf, it is the note's target.
    """
    if draft.type == "node":
        return draft.id if here else draft.parent if isinstance(draft.parent, str) else None
    return draft.target if draft.kind == "leaf" else (draft.links or {}).get("source_parent")


def _is_piece(name: str | None) -> bool:
    return name is not None and is_ours(name.rpartition(PIECE)[0])


def _add_closing(session: Session, source: ImportSource) -> list[Draft]:
    """Record the final state of a program's session, and return its new records."""
    drafts = closing_of(source)
    new = session.perform(missing, drafts) if drafts else []
    if new:
        session.perform(record_foreign, new)
    return new


def _besides(session: Session, known: Origin, reading: Reading) -> list[Draft]:
    """Return drafts for other changes of a file: of the header, which some programs rewrite, and damage at the end."""
    drafts: list[Draft] = []
    header = reading.source.header
    if header.cwd and not session.info.cwd:  # the first records of a file may not tell it
        drafts.append(Draft(type="note", kind="place", parent=None, brief={"cwd": header.cwd}))
    if reading.header != known.header:
        drafts += reading.header_drafts
        title = one_line(header.title, TITLE_BYTES_MAX)
        before = [fields_of(note.payload).get("title", "") for note in session.notes("import")] or [""]
        if header.title != before[-1] and title != session.info.title:  # a title that was set here may stay otherwise
            drafts.append(Draft(type="note", kind="title", parent=None, brief={"title": title or None}))
    tail, damage = reading.tail()
    return drafts + damage if tail != known.tail else drafts


def _free_head(session: Session, name: str) -> str:
    """Return a free name for the head of another program: the name of its format, with a number if that is taken."""
    return (
        name
        if name not in session.heads
        else next(each for number in count(2) if (each := f"{name}-{number}") not in session.heads)
    )
