"""Where the entries of a Claude Code session stand.

Most entries name the one before as `parentUuid`, whatever it is: messages, attachments, progress of tools, notes of the
program. So the chain forks where nobody went back.

Rule 1: a note stands on the nearest node above it. What names a note as its parent follows that node.
Rule 2: one answer and the results of its calls are one run. Claude Code writes an entry for each block of an answer,
and hangs each result on the block with its call. Here the nodes of a run follow each other as they came, and what names
any of them as its parent follows the last one. Only what comes back to a run that went on already is a branch.
Messages of the program, which it makes of attachments, go with what they follow.
Rule 3: an entry depends only on those before it.
Rule 4: an entry that does not say what it follows, follows the one before it. The output of Claude Code and some files
have only such; in a session file a root says that it follows nothing.

A course can be carried on from what is stored, see `Course.recall`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b, sha256
from typing import Final, NamedTuple

import msgspec

from treering.errors import UsageError
from treering.format.values import encode, fields_of
from treering.importers.claude_entries import (
    LINKED,
    SPEAKERS,
    Spot,
    Traits,
    blocks_of,
    is_boundary,
    is_local_command,
    is_node,
    is_side,
    is_unlinked,
    kept_of,
    told_by,
    traits_of,
    writer_of,
)
from treering.importers.reader import text_of

_STARTS_AGENT: Final = frozenset({"Task", "Agent"})
"""Tools that start a subagent."""
_encoder: Final = msgspec.json.Encoder()


class _Run:
    """Nodes that say one thing together."""

    __slots__ = ("ended", "tip", "writer")

    def __init__(self, tip: str, writer: str, *, ended: bool = False) -> None:
        self.tip = tip
        self.writer = writer
        self.ended = ended
        """Something follows that is not of the run."""


class _Step(NamedTuple):
    """What the choice of the leaf must know of an entry."""

    parent: str
    speaks: bool
    main: bool


class _Said(NamedTuple):
    """What must be known of a message if its `uuid` comes again."""

    parent: str | None
    words: bytes
    """A digest of them."""


class Known(msgspec.Struct, frozen=True, array_like=True):
    """What a course knows behind an entry, so that another one can go on there."""

    runs: list[tuple[str, str, bool]]
    """Tip, writer, and whether it ended."""
    run_of: dict[str, int]
    """Of each node."""
    answers: dict[str, int]
    anchors: dict[str, str | None]
    renamed: dict[str, str]
    tasks: dict[bytes, str]
    steps: dict[str, _Step]
    newest: dict[str, str]
    kept: dict[str, str]
    said: dict[str, _Said]
    chosen: str
    named: bool


class Course:
    """Gives the entries of one session their places, one after the other.

    Memory: a few small objects for each entry with a `uuid`, and nothing of its content.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        """Begin before the first entry.

        Args:
            new_id: Makes ids for entries that have none, or one that was used before.
        """
        self._new_id = new_id
        self._runs: dict[str, _Run] = {}  # of each node
        self._answers: dict[str, _Run] = {}  # the run that the id of an answer means from here on
        self._anchors: dict[str, str | None] = {}  # of each note: the nearest node above it
        self._renamed: dict[str, str] = {}  # uuids that were used before, and the id of the latest such entry
        self._tasks: dict[bytes, str] = {}  # nodes that started subagents, by what these were told
        self._steps: dict[str, _Step] = {}
        self._newest: dict[str, str] = {}  # by writer
        self._kept: dict[str, str] = {}  # the last message that a compaction keeps, and what it stands behind then
        self._said: dict[str, _Said] = {}  # of each message with a `uuid`
        self._chosen = ""
        self._named = False

    @property
    def known(self) -> Known:
        """What it knows; valid until the next entry is added."""
        runs = {run: place for place, run in enumerate(dict.fromkeys((*self._runs.values(), *self._answers.values())))}
        return Known(
            runs=[(run.tip, run.writer, run.ended) for run in runs],
            run_of={name: runs[run] for name, run in self._runs.items()},
            answers={name: runs[run] for name, run in self._answers.items()},
            anchors=self._anchors,
            renamed=self._renamed,
            tasks=self._tasks,
            steps=self._steps,
            newest=self._newest,
            kept=self._kept,
            said=self._said,
            chosen=self._chosen,
            named=self._named,
        )

    def go_on(self, known: Known) -> None:
        """Go on where another course of the same file stood."""
        runs = [_Run(tip, writer, ended=ended) for tip, writer, ended in known.runs]
        self._runs = {name: runs[place] for name, place in known.run_of.items()}
        self._answers = {name: runs[place] for name, place in known.answers.items()}
        self._anchors, self._renamed, self._tasks = known.anchors, known.renamed, known.tasks
        self._steps, self._newest, self._kept, self._said = known.steps, known.newest, known.kept, known.said
        self._chosen, self._named = known.chosen, known.named

    def add(self, entry: Mapping[str, object]) -> Spot:
        """Return the place of the next entry."""
        own = text_of(entry.get("uuid"))
        above, missing = self._above(entry)
        came = own in self._steps  # hardly any does so twice
        before = self._corrected(entry, own) if came else None
        again = came and before is None and self._is_again(entry, own)
        name = self._new_id() if again else self._free_name(own)
        if own and text_of(entry.get("type")) in LINKED:
            self._steps.pop(own, None)  # of two with one uuid, the later one counts, and its place
            speaks = text_of(entry.get("type")) in SPEAKERS
            parent = (self._before(entry) or "") if is_unlinked(entry) else text_of(entry.get("parentUuid"))
            self._steps[own] = _Step(parent, speaks, speaks and not is_side(entry))
        kept = kept_of(entry) if is_boundary(entry) else None
        if kept is not None:
            self._kept[kept.last] = kept.after
        if entry.get("type") == "last-prompt":
            self._chosen = text_of(entry.get("leafUuid"))
        self._named = self._named or (entry.get("type") == "custom-title" and bool(text_of(entry.get("customTitle"))))
        if again:
            self._anchors[name] = own
            return Spot(name, own, note=True)
        if is_node(entry) or is_local_command(entry) or (told_by(entry) and self._goes_along(entry, above)):
            spot = self._add_node(entry, name, above, missing) if before is None else self._correct(entry, name, before)
            if own:
                self._said[name] = _Said(spot.parent, _words(entry))
            return spot
        return self._add_note(entry, name, above)

    def recall(
        self, name: str, parent: str | None, *, note: bool, kind: str, role: str, brief: Mapping[str, object]
    ) -> None:
        """Take in a node or note that was recorded before. Give all of them, in the order of their records.

        What follows has the places that it would have had, but for the leaf: that needs the entries themselves.

        Args:
            name: Its id.
            parent: The parent of a node, the target of a note.
            note: It is a note.
            kind: Its kind.
            role: Its role.
            brief: Its brief, as `read_entry` made it.
        """
        uuid = text_of(brief.get("uuid"))
        if uuid:
            self._renamed[uuid] = name
        if note:
            self._anchors[name] = parent
            self._named = self._named or (kind == "title" and brief.get("by") != "ai")
            return
        if "kept_last" in brief:
            self._kept[text_of(brief["kept_last"])] = text_of(brief.get("kept_after"))
        traits = Traits(
            text_of(brief.get("answer")),
            role == "tool" or "queued" in brief or kind == "custom_message",
            text_of(brief.get("side")),
        )
        run = self._answers.get(traits.answer) or (self._runs.get(parent or "") if traits.joins else None)
        self._settle(name, parent, traits, run if run is not None and run.tip == parent else None)

    def _corrected(self, entry: Mapping[str, object], own: str) -> str | None:
        """The node that says in other words what an entry says: it has its `uuid`, and follows the same entry."""
        node = self._find(own)
        parent, said = text_of(entry.get("parentUuid")), self._said.get(node or "")
        if said is None or is_unlinked(entry) or not (self._steps[own].parent == parent != own):
            return None
        return node if is_node(entry) and said.words != _words(entry) else None

    def _correct(self, entry: Mapping[str, object], name: str, before: str) -> Spot:
        """Add a node beside the one that it is written for anew: what names either follows this one from here on."""
        run, parent = self._runs[before], self._said[before].parent
        self._settle(name, parent, traits_of(entry), run if run.tip == before else None)
        return Spot(name, parent, note=False)

    def _is_again(self, entry: Mapping[str, object], own: str) -> bool:
        """Tell whether a node was written before: its `uuid` is known, and follows the same entry there."""
        if own not in self._runs or own in self._renamed:
            return False
        return is_unlinked(entry) or self._steps[own].parent == text_of(entry.get("parentUuid")) != own

    def _free_name(self, own: str) -> str:
        if own and own not in self._runs and own not in self._anchors:
            return own
        name = self._new_id()
        if own:
            self._renamed[own] = name
        return name

    def _find(self, uuid: str | None) -> str | None:
        return self._renamed.get(uuid, uuid) if uuid else None

    def _above(self, entry: Mapping[str, object]) -> tuple[str | None, str | None]:
        """The entry that one follows, and what it names instead if that is not there.

        Claude Code lost parents in many versions: a process that ended had not written them. It goes on from the entry
        before then, and so does this.
        """
        named = text_of(entry.get("parentUuid"))
        boundary = not named and is_boundary(entry)
        if boundary:
            named = text_of(entry.get("logicalParentUuid"))
        if named and named != entry.get("uuid"):
            found = self._find(named)
            behind = None if boundary else self._find(self._kept.get(named))
            found = behind if behind in self._runs else found
            if found in self._runs or found in self._anchors:
                return found, None
            return (None if boundary else self._before(entry)), named
        return (self._before(entry) if is_unlinked(entry) else None), None

    def _before(self, entry: Mapping[str, object]) -> str | None:
        """The newest node by whoever wrote an entry."""
        return self._newest.get(writer_of(entry))

    def _node_at(self, name: str | None) -> str | None:
        """Return `name`, or the nearest node above it if it is a note."""
        return name if name is None else self._anchors.get(name, name)

    def _add_note(self, entry: Mapping[str, object], name: str, above: str | None) -> Spot:
        if not text_of(entry.get("parentUuid")) and not is_unlinked(entry):
            above = self._find(text_of(entry.get("messageId")) or text_of(entry.get("leafUuid")))
        node = self._node_at(above)
        self._anchors[name] = target = node if node in self._runs else None
        return Spot(name, target, note=True, named=self._named)

    def _add_node(self, entry: Mapping[str, object], name: str, above: str | None, missing: str | None) -> Spot:
        traits = traits_of(entry)
        node = self._node_at(above)
        run = self._joined(entry, traits, node)
        parent = run.tip if run is not None else self._below(node, traits)
        self._settle(name, parent, traits, run)
        task = _task(entry) if parent is None and is_side(entry) else ""
        for told in _told(entry):
            self._tasks[_digest(told)] = name
        spawned_by = self._tasks.get(_digest(task)) if task else None
        return Spot(name, parent, note=False, spawned_by=spawned_by, missing=missing)

    def _goes_along(self, entry: Mapping[str, object], above: str | None) -> bool:
        """Tell whether what an attachment follows has not gone on: else it would look like a branch."""
        run = self._runs.get(self._node_at(above) or "")
        return run is not None and not run.ended and run.writer == writer_of(entry)

    def _joined(self, entry: Mapping[str, object], traits: Traits, node: str | None) -> _Run | None:
        """The run that a node goes on; None if it begins one."""
        runs = [self._answers.get(traits.answer)]
        if traits.joins:
            source = self._find(text_of(entry.get("sourceToolAssistantUUID")))
            runs = [self._runs.get(node or ""), self._runs.get(source or "")]
        going_on = (run for run in runs if run is not None and not run.ended and run.writer == traits.writer)
        return next(going_on, None)

    def _below(self, node: str | None, traits: Traits) -> str | None:
        """What a node follows that names another: the end of that one's run. A sidechain is told where it began."""
        run = self._runs.get(node or "")
        return node if run is None or run.writer != traits.writer else run.tip

    def _settle(self, name: str, parent: str | None, traits: Traits, run: _Run | None) -> None:
        before = self._runs.get(parent or "")
        if run is None:
            if before is not None and before.writer == traits.writer:
                before.ended = True
            run = _Run(name, traits.writer)
        run.tip = name
        self._runs[name] = run
        if traits.answer:
            self._answers[traits.answer] = run
        self._newest[traits.writer] = name

    # the leaf

    def leaf(self) -> str | None:
        """Return the node at which Claude Code would go on; None if nothing was said.

        An end of the chain stands for the nearest message above it. The one that counts is that which the last entry of
        the type `last-prompt` names, if it is still an end; else the last one in the file that is no sidechain; else
        the last. (As Claude Code 2.1.330 was seen to do it. Its SDK leaves out the first of these, and passes over what
        the program wrote last.)
        """
        followed = {step.parent for step in self._steps.values()}
        speaker: dict[str, str | None] = {}
        ends = {uuid: self._speaker_above(uuid, speaker) for uuid in self._steps if uuid not in followed}
        leaves = {*ends.values()}
        last = [uuid for uuid in self._steps if uuid in leaves]
        main = [uuid for uuid in last if self._steps[uuid].main]
        chosen = ends.get(self._chosen) or next(iter((main or last)[::-1]), None)
        if chosen is None:
            return self._newest.get("")
        node = self._node_at(self._find(chosen))
        run = self._runs.get(node or "")
        return None if run is None else run.tip

    def _speaker_above(self, uuid: str, known: dict[str, str | None]) -> str | None:
        """The nearest message at or above an entry; `known` remembers answers."""
        passed: list[str] = []
        found: str | None = None
        cursor = uuid
        while cursor in self._steps and cursor not in known:
            known[cursor] = None  # a chain may come round in a circle
            passed.append(cursor)
            if self._steps[cursor].speaks:
                found = cursor
                break
            cursor = self._steps[cursor].parent
        else:
            found = known.get(cursor)
        known.update(dict.fromkeys(passed, found))
        return found


def _told(entry: Mapping[str, object]) -> Iterable[str]:
    """By what one can know the subagents that an answer starts: what they are told, and their calls."""
    for block in blocks_of(entry):
        if block.get("type") == "tool_use" and block.get("name") in _STARTS_AGENT:
            yield from filter(None, (text_of(fields_of(block.get("input")).get("prompt")), text_of(block.get("id"))))


def _task(entry: Mapping[str, object]) -> str:
    """By what one can know the call that began a sidechain, from its first entry."""
    return text_of(entry.get("parent_tool_use_id")) or text_of(fields_of(entry.get("message")).get("content"))


def _words(entry: Mapping[str, object]) -> bytes:
    """Return a digest of what an entry says, without what is counted of it."""
    content = fields_of(entry.get("message")).get("content")
    try:
        data = _encoder.encode(content)
    except (UnicodeEncodeError, RecursionError, msgspec.MsgspecError, OverflowError):
        try:
            data = encode(content)
        except UsageError:
            return b""  # too deep to be recorded as it is, and not told from another such one
    # SHA-256 has instructions of its own in most processors
    return sha256(data).digest()[:8]


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
