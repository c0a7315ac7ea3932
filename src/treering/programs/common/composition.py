"""Write a session as a file of lines: a header, then one entry per line.

Imported records are written with their own bytes, in their order, so an unchanged session gives the file from which it
was imported. Nodes recorded in Treering follow in their order, translated to the program's format. Labels, titles and
usage recorded in Treering come last: in these programs they are entries of the tree, descendants of the session's head.
That also sets the leaf, since the programs continue at the last entry of the file. If there are none and the last entry
is on another branch, an entry is added that only repeats a known fact.

Old files without ids are written unchanged if the session is unchanged, otherwise in the newest version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec

from treering.api.view import View
from treering.format.values import Fields, fields_of
from treering.ids import new_id, time_of
from treering.messages import shape_of
from treering.programs.common.blocks import LOST, lost
from treering.programs.common.entry import PIECE, RAW, Encode, as_bytes, framed
from treering.programs.common.hidden import EDITS, hidden
from treering.programs.common.in_force import InForce
from treering.programs.common.line_buffer import LineBuffer, broken
from treering.programs.common.reader import text_of
from treering.programs.common.rules import Rules
from treering.programs.common.source_record import numbered_record, object_in, own_id, record_bytes
from treering.programs.common.stored import (
    NO_JSON,
    VALUES,
    Stored,
    is_circular,
    is_fork,
    let_index_go,
    stored_drafts,
    title_of_creation,
)
from treering.programs.common.target import NOT_WRITTEN, UNTOLD, Composed, LeftOut, LineExporter
from treering.programs.formats import Format, find_format
from treering.session.verbs.extending import EXPORTED
from treering.transcript.node import Draft

_NO_WORD: Final = "the format has no such record"
_REASONS: Final = LOST | {
    VALUES: NO_JSON,
    "damage": "bytes in which there is no record",
    "link": "links to other sessions of the store",
    "session": "the header has no id, or another type, and the program opens no such file",
    "retract": "the format cannot hide a message there",
    "amend": "only what an amended record says now is written",
}

_SHOWN: Final = frozenset({"message", "custom_message", "branch_summary"})
"""Kinds that are messages to a model."""
_KEPT: Final = ("firstKeptEntryId", "first_kept_entry_id")
"""The fields that name the first entry that a compaction keeps."""
_NOWHERE: Final = "nowhere"
_WITH_IDS: Final = 2
"""The first version of pi's format with ids."""
_ROLES_RENEWED: Final = frozenset({"custom"})
"""Roles that had other names in an old version."""
_LEAF: Final = "leaf"
"""Notes of Operator-Use that name the leaf."""


def compose_lines(view: View, target: LineExporter, encode: Encode | None = None) -> Composed:
    """Make the file of a session. In memory are only ids and similar facts, and amended messages.

    Args:
        view: The session.
        target: The format.
        encode: Encodes a record, for programs that keep parts of records in separate files; by default that of the
            format.
    """
    return _Composer(view, target, encode or find_format(target.FORMAT).encode).compose()


class _Composer:
    """Makes one file."""

    def __init__(self, view: View, target: LineExporter, encode: Encode, *, changed: bool = False) -> None:
        self._view = view
        self._target = target
        self._encode = encode
        self._format: Format = find_format(target.FORMAT)
        self._header: bytes = b""
        self._lines = LineBuffer()
        self._held: list[bytes] = []
        """JSON lines that are no records, held back until an entry follows: as the last line they would be the leaf."""
        self._ids: list[str | None] = []
        self._nodes: dict[str, str | None] = {}
        """By written entry: the entry if it is a node, or its nearest ancestor that is a node."""
        self._meant: dict[str, str] = {}
        """By id in the file: the last entry so far that has it, to which later references refer."""
        self._stand_ins: set[str] = set()
        """Notes that are written in place of nodes."""
        self._last: str | None = None
        """The entry at which the program would continue if the file ended now."""
        self._later: list[Draft] = []
        self._left: Counter[tuple[str, bool]] = Counter()
        self._forked = is_fork(view.info)
        self._hidden = view.perform(hidden)
        """Retracted nodes that a model would otherwise see, or that are on the path."""
        self._amended: dict[str | None, Draft] = {}
        self._renamed: dict[str, str | None] = {}
        """Entries whose id in Treering differs from that in the file, which was duplicate or missing."""
        self._there: set[str | None] = set()
        """Entries of the imported file; a fork may lack some of the file's notes."""
        self._adrift: set[str | None] = set()
        """Notes of a fork whose parent is not in the fork."""
        self._nodes_here: set[str | None] = set()
        """Nodes that were recorded in Treering."""
        self._notes_here: set[str | None] = set()
        """Notes that were recorded in Treering. After an earlier export, entries of the program may be below them."""
        self._hang: dict[str, str | None] = {}
        """By entry named as `source_parent`: the nearest node above it, the parent of the first node below it."""
        self._back: dict[str | None, str | None] = {}
        """By note that an export wrote and an import read: its parent in the file; `_NOWHERE` if there are several."""
        self._first: dict[str, str] = {}
        """By node that is written as several entries: the first of these entries."""
        self._titled = target.TITLED  # whether the file says the title
        self._settings = InForce(view)
        self._newest: str | None = None  # the node taken last
        self._unseen: dict[str, tuple[str, str]] = {}
        self._old: int | None = None  # version of the file that was imported last; None if there was none
        # Whether the imported entries from here on had ids; an entry without an id follows the entry before it.
        self._has_ids = True
        self._went_on = False
        """Whether nodes were recorded in Treering. Records imported later come from a newer version of the file."""
        self._labels, self._circular = view.labels(), is_circular(view)
        self._changed = changed
        """Whether the file has more records than the imported file, or another leaf. Then its ids must be unique."""

    def compose(self) -> Composed:
        self._view.perform(let_index_go)
        self._open(self._look_over())
        for each in self._records():
            self._take(each)
        if not self._changed and not self._stands_at(self._view.node):
            return _Composer(self._view, self._target, self._encode, changed=True).compose()
        self._close()
        self._left.update([("damage", False)] * len(self._held))
        left = [LeftOut(kind, count, _REASONS.get(kind, _NO_WORD), seen) for (kind, seen), count in self._left.items()]
        labels = {name: text for name, text in self._labels.items() if name in self._nodes}
        ambiguous = self._circular or (bool(self._renamed) and not self._changed)
        lines, new = chain([self._header], self._lines), self._changed or self._forked
        return Composed(
            data=broken((_legible(line, self._format.RULES) for line in lines) if new else lines, ended=new),
            entry_ids=self._ids,
            labels=labels,
            left_out=[*left, *self._target.not_sent()],
            pieces=frozenset(
                name for name in self._ids if name is not None and name.rpartition(PIECE)[0] in self._first
            ),
            unseen=self._unseen,
            foreign=bool(self._nodes_here or self._amended),
            ambiguous=ambiguous,
        )

    def _records(self) -> Iterator[Stored]:
        return _reunited(stored_drafts(self._view, self._target.FORMAT), self._stand_ins)

    def _look_over(self) -> Draft | None:
        """Read all records once for the facts needed before the first one is written; return the header's note."""
        header, named, erased, nodes = None, list[tuple[str, str, bool, object]](), set[object](), set[object]()
        for each in self._records():
            draft = each.draft
            if draft.kind == "amend":
                self._amended[draft.target] = draft
            header = draft if draft.type == "note" and draft.kind == "import" else header
            if not each.imported:
                self._look_at_own(draft)
                continue
            self._there.add(own := own_id(draft))
            self._renamed |= {str(draft.id): own} if own != draft.id else {}
            erased |= {draft.id} if each.erased else set()
            nodes |= {own} if draft.type == "node" else set()
            if (above := (draft.links or {}).get("source_parent")) is not None:
                named.append((above, str(draft.id), draft.type == "node", draft.parent))
        for above, name, is_node, parent in reversed(named):
            if parent in erased and above in nodes and above != parent:  # only what is below still tells its id
                self._renamed[str(parent)], self._changed = above, True
            below = parent if is_node else self._hang.get(name, _NOWHERE)
            if isinstance(below, str | None) and below != _NOWHERE:
                self._hang[above] = below
        return header

    def _look_at_own(self, draft: Draft) -> None:
        self._changed = self._changed or draft.type != "note" or draft.kind not in NOT_WRITTEN
        if draft.kind == EXPORTED:
            links = draft.links or {}
            place = links.get("source_parent", links.get("parent"))
            self._back[draft.target] = place if self._back.get(draft.target, place) == place else _NOWHERE
        {"node": self._nodes_here, "note": self._notes_here}.get(draft.type, set()).add(draft.id)

    # the header

    def _open(self, note: Draft | None) -> None:
        payload = fields_of(note.payload if note is not None else None)
        raw = as_bytes((note.source or {}).get(RAW)) if note is not None else b""
        if payload.get("format") != self._target.FORMAT or not raw:
            self._header = self._encode(self._target.header(self._view.info, None)) + b"\n"
            return
        self._old = payload.get("version", 1)
        record = object_in(raw)
        named, right = bool(text_of(record.get("id"))), self._format.RULES.header
        typed = right is None or record.get("type") == right
        if self._forked:
            self._header = self._encode(self._target.header(self._view.info, record)) + b"\n"
        elif self._renews or (self._changed and not (named and typed)):
            record |= {} if typed else {"type": right}
            record |= {"version": self._target.VERSION} if self._renews else {}
            record = record if named else _with_id(record, text_of(payload.get("session_id")))
            self._header = self._encode(record) + b"\n"
        else:
            self._header = framed(note, raw) if note is not None else b""
            refused = not typed or (self._format.RULES.needs_id and not named)
            self._left.update({("session", True): 1} if refused else {})

    @property
    def _renews(self) -> bool:
        """Whether the file has an old version and must get the newest, since its program would rewrite it otherwise."""
        return self._is_older(self._target.VERSION) and (self._changed or self._forked)

    def _is_older(self, version: int) -> bool:
        """Whether a file was imported that has an older version than this one."""
        return self._old is not None and self._old < version

    @property
    def _numbers_anew(self) -> bool:
        """Whether the file had no ids and needs them now."""
        return self._renews and self._is_older(_WITH_IDS)

    @property
    def _is_mended(self) -> bool:
        """Whether lines that are no records are left out, since the program would not open the file with them."""
        return self._format.RULES.refuses and (self._changed or self._forked)

    # the entries

    def _take(self, stored: Stored) -> None:
        draft = stored.draft
        self._left.update({(VALUES, draft.type != "note"): stored.lacked} if stored.lacked else {})
        self._newest = draft.id if draft.type == "node" else self._newest
        self._titled = self._titled or (draft.type == "note" and draft.kind == "title")
        if draft.type == "edit":
            self._take_edit(draft)
        elif draft.type == "note" and draft.kind == "damage" and _is_json(draft) and not self._is_mended:
            self._held.append(framed(draft, as_bytes(draft.payload["bytes"])))  # read just now
        elif draft.type == "note" and draft.kind in NOT_WRITTEN:
            if draft.kind == "import" and (payload := fields_of(draft.payload)).get("format") == self._target.FORMAT:
                self._has_ids = payload.get("version", 1) >= _WITH_IDS
            self._left.update([(draft.kind, False)] if draft.kind not in UNTOLD else [])
        elif (draft.brief or {}).get("stand_in"):
            self._take_own(msgspec.structs.replace(draft, kind="stand_in"))
        elif stored.imported and draft.type == "note" and draft.kind == "session":
            self._lines.append(framed(draft, as_bytes((draft.source or {}).get(RAW))))
        elif stored.imported:
            self._settle(draft)
            follows = not self._has_ids and not self._went_on
            self._write(self._in_words(stored), self._parent(draft), follows=follows)
        else:
            self._went_on = True
            self._take_own(self._as_amended(draft))

    def _settle(self, draft: Draft) -> None:
        """Write the notes recorded before an imported entry first, since the last label or title counts."""
        notes = [note for note in self._later if note.kind not in EDITS]
        if not notes:
            return
        self._later = [edit for edit in self._later if edit.kind in EDITS]
        named = (draft.links or {}).get("source_parent") in {note.id for note in notes}
        below = self._hang.get(str((draft.links or {}).get("source_parent")), self._last) if named else self._last
        for note in notes:
            place = self._back.pop(note.id, _NOWHERE)
            if place is None or place in self._meant:
                self._back[note.id] = below = place
            self._write(msgspec.structs.replace(note, source=None), below)
            below = note.id

    def _in_words(self, stored: Stored) -> Draft:
        """Return an imported record with its current content: an amended or erased message in the program's format."""
        draft = stored.draft
        amended = self._as_amended(draft)
        said = (amended is not draft or stored.erased) and draft.kind == "message"
        made = self._target.adapt(amended, self._settings.at(draft, self._newest)) if said else None
        if made is not None:
            self._count_lost(amended.payload)
        return made if made is not None and made.kind == "message" else amended

    def _as_amended(self, draft: Draft) -> Draft:
        amended = self._amended.get(draft.id)
        return draft if amended is None else msgspec.structs.replace(draft, payload=amended.payload, source=None)

    def _take_edit(self, edit: Draft) -> None:
        hides = edit.kind == "retract" and edit.target in self._hidden
        meant = self._hidden.get(str(edit.target))
        made = self._target.retract(msgspec.structs.replace(edit, target=meant)) if hides else None
        if made is not None:
            del self._hidden[str(edit.target)]  # once is enough
            name = new_id() if made.id in self._there else made.id  # it was reimported on another branch
            self._later += [msgspec.structs.replace(made, id=name)] if meant is not None else []
        elif not (edit.brief or {}).get("undo"):
            self._left[edit.kind, hides] += 1

    def _take_own(self, draft: Draft) -> None:
        parent = self._parent(_without_origin(draft))
        for piece in self._apart(_without_origin(draft)):
            made = self._target.adapt(piece, self._settings.at(draft, self._newest))
            if (reason := self._why_unseen(draft, made)) is not None:
                self._unseen[str(draft.id)] = (draft.kind, reason)
            elif made is None:
                self._left[draft.kind, False] += 1
            elif draft.kind in _SHOWN and isinstance(draft.payload, dict):
                self._count_lost(piece.payload)
            if made is not None and draft.type == "note":
                self._later.append(made)
            elif made is not None:
                self._write(made, parent)
                parent = made.id

    def _count_lost(self, message: object) -> None:
        """Count the parts of a message that the program cannot hold."""
        fields = fields_of(message)
        if shape_of(fields) != self._target.FORMAT:
            kinds = lost(fields, self._target.HOLDS, self._target.HOLDS_IN_RESULTS)
            self._left.update((kind, True) for kind in kinds)

    def _apart(self, draft: Draft) -> list[Draft]:
        """Split a draft into the drafts that the program needs for the same message; the last one has its id."""
        brief = draft.brief or {}
        if draft.kind == "compaction" and brief.get("kept") in self._first:
            return [msgspec.structs.replace(draft, brief=brief | {"kept": self._first[str(brief["kept"])]})]
        if draft.kind == "compaction" and brief.get("kept") not in self._nodes:
            # It keeps nothing, in all programs except kit: kit would send everything to the end of the file.
            kept_nothing = {name: value for name, value in brief.items() if name != "kept"}
            return [msgspec.structs.replace(draft, brief=kept_nothing)]
        if draft.kind != "message" or not isinstance(draft.payload, dict):
            return [draft]
        messages = self._target.apart(draft.payload)
        names = [f"{draft.id}{PIECE}{number}" for number in range(1, len(messages))] + [str(draft.id)]
        if len(names) > 1:
            self._first[str(draft.id)] = names[0]
        pairs = zip(names, messages, strict=True)
        return [msgspec.structs.replace(draft, id=name, payload=message) for name, message in pairs]

    def _why_unseen(self, draft: Draft, made: Draft | None) -> str | None:
        """Return why the program will not show a message; None if it will, or if the node is no message."""
        if draft.type != "node" or draft.kind not in _SHOWN or (draft.brief or {}).get("context") is False:
            return None
        if made is None or made.kind not in _SHOWN:
            return "there is nothing in it that the program would send"
        summary = made.payload.get("summary") if isinstance(made.payload, dict) else None
        if made.kind == "branch_summary" and not summary and not self._target.SENDS_EMPTY:
            return "the program does not send summaries that are empty"
        return None

    def _parent(self, draft: Draft) -> str | None:
        """Return the parent that the entry of a draft names; in a file it may be a label."""
        named = (draft.links or {}).get("source_parent")
        parent = draft.parent if isinstance(draft.parent, str) else None
        if self._changed and parent in self._renamed and named in (None, self._renamed[parent]):
            return parent
        if named is None or not self._is_elsewhere(draft, named):
            return named or parent
        if draft.type == "node":
            return parent
        self._adrift.add(own_id(draft))
        return self._last

    def _is_elsewhere(self, draft: Draft, named: object) -> bool:
        """Tell whether the note that an entry names as its parent is no ancestor, as in a fork that lacks the note."""
        if named in self._notes_here:
            stands = self._nodes.get(str(named), _NOWHERE)
            return stands is _NOWHERE or (draft.type == "node" and stands != draft.parent)
        return self._forked and (named not in self._there or named in self._adrift)

    def _keeps_elsewhere(self, draft: Draft) -> bool:
        """Tell whether the first kept entry of a compaction's record is such a note."""
        kept, source = (draft.brief or {}).get("kept"), draft.source or {}
        if kept is None or (kept not in self._there and kept not in self._nodes_here):
            return False
        record = object_in(as_bytes(source[RAW])) if RAW in source else source
        named = [record[name] for name in _KEPT if name in record]
        return any(name not in self._back and self._is_elsewhere(draft, name) for name in named)

    def _write(self, draft: Draft, parent: str | None, *, follows: bool = False) -> None:
        """Add an entry. With `follows`, for old files, its parent is the last entry, whatever parent it names."""
        for line in self._held:
            self._lines.append(line)
        self._held.clear()
        name, own = draft.id or "", own_id(draft)
        above = self._last if follows else self._meant.get(parent or "", parent)
        had_ids = self._old is not None and self._old >= _WITH_IDS
        anew = self._numbers_anew or (follows and had_ids)  # the latter also after an earlier export
        if follows:
            parent = above if anew else (draft.links or {}).get("source_parent")
        named = (draft.links or {}).get("source_parent")
        moved = (named not in (None, parent) and self._is_elsewhere(draft, named)) or self._keeps_elsewhere(draft)
        moved = moved or (self._renews and draft.role in _ROLES_RENEWED)
        renumber = anew or moved or (self._changed and self._is_renamed(draft))
        linear = not self._has_ids and not anew
        record = numbered_record(draft, parent, self._format) if renumber else None
        encoded = self._encode(record) if record is not None else None
        self._lines.append(framed(draft, encoded or record_bytes(draft, parent, self._format, self._encode)))
        if draft.kind not in self._format.RULES.outside:
            self._ids.append(name if renumber or linear else own)
            stands = own if own in self._stand_ins else self._nodes.get(above or "")
            self._nodes[name] = name if draft.type == "node" else stands
        self._meant[own or name] = name
        self._last = draft.target if draft.type == "note" and draft.kind == _LEAF else name

    def _is_renamed(self, draft: Draft) -> bool:
        """Tell whether the entry of a draft has another id now, or names an entry that has."""
        brief = draft.brief or {}
        named = (draft.id, draft.parent, draft.target, brief.get("kept"), brief.get("target"))
        return any(name in self._renamed for name in named if isinstance(name, str))

    # the end of the file

    def _close(self) -> None:
        """Write the notes below the session's head, and make the head's node the leaf."""
        node = self._view.node
        if not self._titled and self._old is None and (title := title_of_creation(self._view.info)) is not None:
            self._take_own(title)
        for draft in self._later:
            below = self._last if self._stands_at(node) else node
            self._write(msgspec.structs.replace(draft, source=None), below)
        if self._stands_at(node):
            return
        name = new_id()
        label = self._labels.get(node) if node is not None else None
        restated = self._target.restate(node, label, name, time_of(name) or 0)
        if restated is None:
            self._left["leaf", True] += 1
        else:
            self._write(restated, node)

    def _stands_at(self, node: str | None) -> bool:
        """Tell whether `node` would be the leaf if the file ended now."""
        return self._nodes.get(self._last or "") == node


def _reunited(records: Iterable[Stored], names: set[str]) -> Iterator[Stored]:
    """Give notes back the ids that their stand-in nodes have; a stand-in comes before its note and is not written.

    Args:
        records: All records, in their order.
        names: The function adds the ids of the notes to this set.
    """
    held: Stored | None = None
    for each in records:
        last = held.draft if held is not None else None
        if last is not None and (last.brief or {}).get("stand_in") and each.imported and own_id(each.draft) == last.id:
            held = each._replace(draft=msgspec.structs.replace(each.draft, id=last.id))
            names.add(str(last.id))
            continue
        if held is not None:
            yield held
        held = each
    if held is not None:
        yield held


def _with_id(header: Fields, name: str) -> Fields:
    """Return a header with an id, at the place where the programs write it."""
    front: Fields = {field: header[field] for field in ("type", "version") if field in header}
    return {**front, "id": name, **{field: value for field, value in header.items() if field != "id"}}


def _without_origin(draft: Draft) -> Draft:
    """Return a draft without its source, which is in the format of another program."""
    links = {name: target for name, target in (draft.links or {}).items() if name != "source_parent"}
    return msgspec.structs.replace(draft, source=None, links=links or None)


def _is_json(damage: Draft) -> bool:
    """Tell whether the bytes are JSON, which every reader accepts, and not a broken line."""
    return isinstance(damage.payload, dict) and damage.payload.get("kind") in ("null", "no_object")


def _legible(line: bytes, rules: Rules) -> bytes:
    """Return a line with the same JSON that the program reads as one line: it may end lines at other characters."""
    if not rules.ends or line.isascii():
        return line
    text = line.decode(errors="replace")
    for end in rules.ends:
        text = text.replace(end, f"\\u{ord(end):04x}")
    return text.encode()
