"""Paths of agents and orchestrators in the layouts of Strands Agents, and the reading of one file."""

from __future__ import annotations

import re
import uuid
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from treering.format.values import Fields
from treering.programs.common.entry import Entry
from treering.programs.common.lines import decode
from treering.programs.common.source import Imported, ProblemLog
from treering.programs.common.times import read_time
from treering.programs.strands.keys import agent_session, orchestrator_session
from treering.transcript.node import Draft

FORMAT: Final = "strands"
Record = tuple[Entry | None, list[Draft]]

_LOG: Final = re.compile(
    r"(?P<unit>.*/session_(?P<session>[^/]+)/(?P<kind>agents/agent|multi_agents/multi_agent)_(?P<id>[^/]+))"
    r"(?:/(?:agent|multi_agent|messages/message_\d+)\.json)?"
)
_SNAPSHOTS: Final = re.compile(
    r"(?P<unit>.*/(?P<session>[^/]+)/scopes/(?P<kind>agent|multiAgent)/(?P<id>[^/]+))"
    r"(?:/snapshots/(?:snapshot_latest|manifest|immutable_history/snapshot_[\w-]+)\.json)?"
)
_BESIDE: Final = re.compile(r".*/session_[^/]+/session\.json")


class Unit(NamedTuple):
    """An agent or an orchestrator, and its folder."""

    path: str
    """The absolute path or the URL of its folder."""
    session: str
    """The id of the session in Strands."""
    id: str
    """The id of the agent or orchestrator."""
    orchestrates: bool
    snapshots: bool
    """Whether it is stored as snapshots, and not as a log of messages."""

    @property
    def name(self) -> str:
        """The name of its session in Treering."""
        return (orchestrator_session if self.orchestrates else agent_session)(self.session, self.id)

    def made_id(self, *parts: object) -> str:
        """Return an id in the form of Strands: the same for the same parts on every reading."""
        seed = "\0".join([self.session, self.id, *map(str, parts)]).encode("utf-8", "surrogatepass")
        return str(uuid.UUID(bytes=blake2b(seed, digest_size=16).digest(), version=4))

    def header(self, created: object, extra: Fields) -> Imported:
        """Return the facts about its session."""
        facts: Fields = {"strands_session": self.session, "orchestrator" if self.orchestrates else "agent": self.id}
        return Imported(
            format=FORMAT, version=1, session_id=self.name, created_ms=read_time(created), extra=facts | extra
        )


def unit_at(path: str) -> Unit | None:
    """Return the agent or orchestrator of a folder, or of a file in it; None if Strands uses no such path."""
    if found := _LOG.fullmatch(path):
        orchestrates = found["kind"].startswith("multi")
        return Unit(found["unit"], found["session"], found["id"], orchestrates, snapshots=False)
    if found := _SNAPSHOTS.fullmatch(path):
        return Unit(found["unit"], found["session"], found["id"], found["kind"] == "multiAgent", snapshots=True)
    return None


def unit_of(path: str) -> str | None:
    """Return the folder to which a file belongs; see `treering.programs.common.folder.UnitOf`."""
    unit = unit_at(path)
    if unit is not None:
        return unit.path if unit.path != path else None
    return "" if _BESIDE.fullmatch(path) else None


def read_object(data: bytes, name: str, log: ProblemLog) -> Fields | None:
    """Return the JSON object in a file; if there is none, report a problem and return None."""
    value: Any = None
    try:
        value, replaced = decode(data)
    except (ValueError, RecursionError) as error:
        log.report(0, 0, "json", f"file holds no JSON value, skipped: {error}. name={name!r}")
        return None
    if replaced:
        log.report(0, 0, "utf8", f"bytes that are not UTF-8 were replaced by U+FFFD. name={name!r}")
    if not isinstance(value, dict):
        log.report(0, 0, "no_object", f"file holds no JSON object, skipped. name={name!r}")
        return None
    return value


def import_note(header: Imported) -> Draft:
    """Return the note of the kind `import`, without bytes, since there is no header."""
    facts = {name: value for name, value in msgspec.structs.asdict(header).items() if value not in ("", None)}
    return Draft(type="note", kind="import", parent=None, payload=facts)
