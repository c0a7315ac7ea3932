"""Which session a file belongs to: the sessions of a store, and the files from which they were imported.

It is learnt from the cards, once. Sessions that were recorded in Treering have no such file; a file with the id that
such a session has in exports, and with records that were made in Treering, is an export of it. So is one whose messages
have no ids, if it begins with a context of the session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.errors import ConflictError, NotFoundError
from treering.ids import time_of
from treering.importers.matching import is_nameless, matched
from treering.importers.opened_file import OpenedFile
from treering.importers.origin import Origin, Reading, name_of_path, origin_of
from treering.kinds import Kind
from treering.programs import part_of
from treering.programs.common.folder import is_url
from treering.programs.common.source import ImportSource
from treering.session.verbs.extending import missing
from treering.transcript.node import Draft


class KnownSessions:
    """The sessions of a store. It takes about a kilobyte of memory for each imported one.

    Args:
        store: The store, whose cards are read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.names: set[str] = set()
        self._origins: dict[str, Origin] = {}
        self._by_path: dict[str, str] = {}
        self._by_id: dict[str, list[str]] = {}
        self._exported: dict[str, dict[str, str]] = {}
        """By program: sessions that were recorded here, by the ids that they have in exports to it."""
        for info in store.each_session():
            self.names.add(info.id)
            if origin := origin_of(info):
                self.remember(origin)

    def __iter__(self) -> Iterator[Origin]:
        """Yield the origins of all imported sessions; they may be replaced meanwhile."""
        return iter([*self._origins.values()])

    def origin(self, session: str) -> Origin | None:
        """Return the file from which a session was imported; None if there is none."""
        return self._origins.get(session)

    def at(self, path: str | os.PathLike[str]) -> Origin | None:
        """Return the last import from a path; None if there is none."""
        session = self._by_path.get(name_of_path(path))
        return self._origins[session] if session is not None else None

    def remember(self, origin: Origin) -> None:
        """Take in what an import has stored."""
        before = self._origins.get(origin.session)
        if before is None:
            self._by_id.setdefault(origin.id, []).append(origin.session)
        elif self._by_path.get(before.path) == origin.session:
            del self._by_path[before.path]
        self._origins[origin.session] = origin
        other = self._by_path.get(origin.path)
        if other is None or self._origins[other].imported_ms <= origin.imported_ms:
            self._by_path[origin.path] = origin.session

    def meet(self, name: str) -> None:
        """Learn of a session that another process made meanwhile, or an import of this one that had no answer."""
        with suppress(NotFoundError):  # it was deleted again
            info = self._store.view(name).info
            self.names.add(name)
            if origin := origin_of(info):
                self.remember(origin)

    def require_same(self, name: str, file: OpenedFile) -> Origin | None:
        """Return the origin of the session with a given name, which must be this file; None for a new name."""
        if name not in self.names:
            return None
        known = self._origins.get(name)
        if known is None or not file.is_of(known) or file.name not in (known.path, ""):
            raise ConflictError(
                f"session exists already, and was not imported from this file. session={name!r}",
                kind=Kind.EXISTS,
                remedy="choose another name",
            )
        return known

    def elsewhere(self, file: OpenedFile) -> Origin | None:
        """Find a session with the id of the file and the same first records, whose own file is missing or equal."""
        for session in self._by_id.get(file.source.header.session_id, ()):
            origin = self._origins[session]
            if file.is_of(origin) and (not file.name or origin.path != file.name):
                reading = Reading(file.source)
                if reading.begins_with(origin) and (not file.name or not self.is_there(origin) or reading.ended):
                    return origin
        return None

    def made_here(self, file: OpenedFile) -> Origin | None:
        """Return an origin with nothing read for a session that was recorded here, if the file is an export of it."""
        source, header = file.source, file.source.header
        name = self._named_here(header.format).get(header.session_id)
        if name is None or name in self._origins:
            return None
        origin = Origin(session=name, format=header.format, id=header.session_id, path=file.name)
        with suppress(NotFoundError):  # it was deleted meanwhile
            view = self._store.view(name)
            if is_nameless(source):
                match = matched(view, source, file.format.POLICIES[0], origin, begins=False)
                return origin if match is not None and match.stood is not None else None
            return origin if is_export_of(view, source) else None
        return None

    def _named_here(self, program: str) -> Mapping[str, str]:
        """Return the sessions that were recorded here, by the ids that they have in exports to a program."""
        if program not in self._exported:
            id_of = getattr(part_of(program, "write"), "id_of", str)
            self._exported[program] = {id_of(name): name for name in self.names - self._origins.keys()}
        return self._exported[program]

    def is_there(self, origin: Origin) -> bool:
        """Tell whether the file of a session is where it was: not if another session was imported from that place."""
        is_its_own = self._by_path.get(origin.path, origin.session) == origin.session
        return is_its_own and (is_url(origin.path) or os.path.exists(origin.path))

    def free_name(self, name: str) -> str:
        """Return a name for a new session: this one, or with a number if it is taken."""
        if name not in self.names:
            return name
        return next(each for number in count(2) if (each := f"{name}-{number}") not in self.names)

    def parent_of(self, origin: Origin) -> str | None:
        """Return the session of the file that is named as parent: by its path, its id, or its file name."""
        if not origin.parent:
            return None
        folder = os.path.dirname(origin.path)
        path = name_of_path(os.path.join(folder, os.path.expanduser(origin.parent)))
        found = self._by_path.get(path)
        if found is None:
            sessions = self._by_id.get(origin.parent, []) or self._by_id.get(_id_in(origin.parent), [])
            found = next((each for each in sessions if self._origins[each].format == origin.format), None)
        return found if found != origin.session else None


def is_export_of(session: Session | View, source: ImportSource) -> bool:
    """Tell whether a file holds records that were made in Treering, and so is an export of the session."""
    names = {draft.id for _, drafts in source.records() for draft in drafts if is_ours(draft.id)}
    known = len(session.perform(missing, [Draft(kind="", id=name) for name in names])) < len(names)
    return known or _only_amended(session, source)


def _only_amended(session: Session | View, source: ImportSource) -> bool:
    """Tell whether a file has all nodes of a session and differs only in messages amended or erased in Treering."""
    left = {node.id: node.amended or node.erased for node in session.nodes()}
    if not any(left.values()):
        return False
    drafts = (draft for _, drafts in source.records() for draft in drafts if draft.type == "node")
    same = all(left.pop(str(draft.id), True) or session.original(str(draft.id)) == draft.payload for draft in drafts)
    return same and not left


def is_ours(name: str | None) -> bool:
    """Tell whether an id was made in Treering."""
    return name is not None and time_of(name) is not None


def _id_in(path: str) -> str:
    """Return the id in the name of a file that begins with a time, as in pi and similar programs."""
    return Path(path).name.removesuffix(".gz").removesuffix(".jsonl").rpartition("_")[2]
