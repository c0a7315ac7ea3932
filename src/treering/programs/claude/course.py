"""The tree of a Claude Code session: the parents of its entries, and the leaf.

Most entries name the one before as `parentUuid`, whatever its type: messages, attachments, progress of tools, notes of
the program. So the chain has forks where the user did not go back.

Rule 1: the target of a note is its nearest ancestor that is a node. An entry whose parent is a note gets that node as
its parent.
Rule 2: one answer and the results of its calls are one run. Claude Code writes an entry for each block of an answer,
and the parent of each result is the block with its call. Here the nodes of a run form a chain in their order, and an
entry whose parent is any of them becomes a child of the last one. Only an entry that returns to a run which has ended
begins a branch. Messages that the program makes of attachments belong to the run of their parent.
Rule 3: an entry depends only on those before it.
Rule 4: the parent of an entry without `parentUuid` is the entry before it. The output of Claude Code and some files
have only such entries; in a session file a root has a `parentUuid` of null.

A course can be continued from stored records, see `Course.recall`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from hashlib import blake2b, sha256
from typing import Final, NamedTuple

import msgspec

from treering.errors import UsageError
from treering.format.values import encode, fields_of
from treering.programs.claude.entries import (
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
from treering.programs.common.memo import Facts, Memo, Recalled, new_in
from treering.programs.common.reader import text_of

_STARTS_AGENT: Final = frozenset({"Task", "Agent"})
"""Tools that start a subagent."""
_encoder: Final = msgspec.json.Encoder()


class _Run:
    """Nodes that form one answer with its results."""

    __slots__ = ("ended", "first", "tip", "writer")

    def __init__(self, first: str, tip: str, writer: str, *, ended: bool = False) -> None:
        self.first = first
        """Its first node, by which it is known."""
        self.tip = tip
        self.writer = writer
        self.ended = ended
        """An entry outside the run follows it."""


class _Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The facts of an entry that decide the leaf."""

    parent: str
    speaks: bool
    main: bool
    at: int
    """The number of entries before it."""


class _End(NamedTuple):
    """The nearest message at or above an end of the chain."""

    uuid: str = ""
    """Empty if there is none."""
    at: int = 0
    main: bool = False


class _Said(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The facts of a message to compare if its `uuid` is used again."""

    parent: str | None
    words: bytes
    """A digest of them."""


class _KnownRun(NamedTuple):
    """A stored run."""

    tip: str
    writer: str
    ended: bool


class _RecalledRuns:
    """The stored runs of a course, and new ones."""

    def __init__(self, memo: Memo) -> None:
        self._kept: Recalled[_KnownRun] = Recalled(memo, "runs", _KNOWN_RUN)
        self.runs: dict[str, _Run] = {}
        """By first node: runs that were loaded or are new, and so may have changed."""

    def find(self, first: str) -> _Run:
        """Return a run by its first node."""
        if first not in self.runs:
            kept = self._kept[first]
            self.runs[first] = _Run(first, kept.tip, kept.writer, ended=kept.ended)
        return self.runs[first]


class _RecalledNames(MutableMapping[str, _Run]):
    """The runs by node, or by id of an answer: stored ones, and later changes."""

    def __init__(self, memo: Memo, table: str, runs: _RecalledRuns) -> None:
        self.firsts: Recalled[str] = Recalled(memo, table, _NAME)
        self._of = runs

    @property
    def runs(self) -> dict[str, _Run]:
        """See `_RecalledRuns`."""
        return self._of.runs

    def __getitem__(self, name: str) -> _Run:
        return self._of.find(self.firsts[name])

    def __setitem__(self, name: str, run: _Run) -> None:
        self.firsts[name] = run.first
        self._of.runs[run.first] = run

    def __delitem__(self, name: str) -> None:
        del self.firsts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.firsts)

    def __len__(self) -> int:
        return len(self.firsts)


def _runs_in(table: Mapping[str, _Run]) -> Iterable[_Run]:
    """The runs of a table that may not be kept as they are."""
    return table.runs.values() if isinstance(table, _RecalledNames) else table.values()


def _firsts_in(table: Mapping[str, _Run]) -> Iterable[tuple[str, str]]:
    """The names in a table that are not kept, and the first nodes of their runs."""
    if isinstance(table, _RecalledNames):
        return table.firsts.new.items()
    return ((name, run.first) for name, run in table.items())


class _Ended(NamedTuple):
    """The facts of stored steps that decide the leaf."""

    ends: dict[str, _End] = {}  # noqa: RUF012  # never changed
    """Steps without children."""
    awaited: set[str] = set()  # noqa: RUF012  # likewise
    """Parents that are not among them."""


class Known(msgspec.Struct, frozen=True, array_like=True):
    """The state of a course after an entry, from which another can continue; see also `Course.facts`."""

    renamed: dict[str, str]
    tasks: dict[bytes, str]
    stepped: int
    newest: dict[str, str]
    kept: dict[str, str]
    ended: _Ended
    chosen: str
    named: bool


_KNOWN_RUN, _STEP, _SAID = (msgspec.json.Decoder(each) for each in (_KnownRun, _Step, _Said))
_NAME, _PLACE = msgspec.json.Decoder(str), msgspec.json.Decoder(str | None)


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
        self._runs: MutableMapping[str, _Run] = {}  # of each node
        self._answers: MutableMapping[str, _Run] = {}  # the run that the id of an answer means from here on
        self._anchors: MutableMapping[str, str | None] = {}  # of each note: the nearest node above it
        self._renamed: dict[str, str] = {}  # uuids that were used before, and the id of the latest such entry
        self._tasks: dict[bytes, str] = {}  # nodes that started subagents, by what these were told
        self._steps: MutableMapping[str, _Step] = {}
        self._stepped = 0
        self._newest: dict[str, str] = {}  # by writer
        self._kept: dict[str, str] = {}  # the last message that a compaction keeps, and what it stands behind then
        self._said: MutableMapping[str, _Said] = {}  # of each message with a `uuid`
        self._ended = _Ended()
        self._chosen = ""
        self._named = False

    @property
    def known(self) -> Known:
        """Its state, without the facts of single entries; valid until the next one is added."""
        return Known(
            renamed=self._renamed,
            tasks=self._tasks,
            stepped=self._stepped,
            newest=self._newest,
            kept=self._kept,
            ended=_Ended(self._ends(), self._awaited()),
            chosen=self._chosen,
            named=self._named,
        )

    @property
    def facts(self) -> Facts:
        """The facts of single entries that are not in the memo; valid until the next one is added."""
        runs = {run.first: run for table in (self._runs, self._answers) for run in _runs_in(table)}
        return {
            "runs": ((name, _KnownRun(run.tip, run.writer, run.ended)) for name, run in runs.items()),
            "run_of": _firsts_in(self._runs),
            "answers": _firsts_in(self._answers),
            "anchors": new_in(self._anchors),
            "steps": new_in(self._steps),
            "said": new_in(self._said),
        }

    def go_on(self, known: Known, memo: Memo) -> None:
        """Continue from the state of another course of the same file."""
        runs = _RecalledRuns(memo)
        self._runs, self._answers = (_RecalledNames(memo, table, runs) for table in ("run_of", "answers"))
        self._anchors = Recalled(memo, "anchors", _PLACE)
        self._steps, self._said = Recalled(memo, "steps", _STEP), Recalled(memo, "said", _SAID)
        self._renamed, self._tasks, self._stepped = known.renamed, known.tasks, known.stepped
        self._newest, self._kept, self._ended = known.newest, known.kept, known.ended
        self._chosen, self._named = known.chosen, known.named

    def add(self, entry: Mapping[str, object]) -> Spot:
        """Return the place of the next entry."""
        own, kind = text_of(entry.get("uuid")), text_of(entry.get("type"))
        above, missing = self._above(entry)
        came = own in self._steps  # hardly any does so twice
        before = self._corrected(entry, own) if came else None
        again = came and before is None and self._is_again(entry, own)
        name = self._new_id() if again else self._free_name(own)
        if own and kind in LINKED:
            self._steps.pop(own, None)  # of two with one uuid, the later one counts, and its place
            speaks = kind in SPEAKERS
            parent = (self._before(entry) or "") if is_unlinked(entry) else text_of(entry.get("parentUuid"))
            newest = self._newest.get("")
            parent = newest if newest is not None and newest == parent else parent  # one text in memory and not two
            self._steps[own] = _Step(parent, speaks, speaks and not is_side(entry), self._stepped)
            self._stepped += 1
        if kind == "system" and is_boundary(entry) and (kept := kept_of(entry)) is not None:
            self._kept[kept.last] = kept.after
        if kind == "last-prompt":
            self._chosen = text_of(entry.get("leafUuid"))
        self._named = self._named or (kind == "custom-title" and bool(text_of(entry.get("customTitle"))))
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
        """Add a recorded node or note; all of them must be added, in the order of their records.

        Later entries get the same places as after reading the file. The leaf is unknown: that needs the entries
        themselves.

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
            role == "tool",
            "queued" in brief or kind == "custom_message",
            text_of(brief.get("side")),
        )
        run = self._answers.get(traits.answer) or (self._runs.get(parent or "") if traits.joins else None)
        self._settle(name, parent, traits, run if run is not None and run.tip == parent else None)

    def _corrected(self, entry: Mapping[str, object], own: str) -> str | None:
        """Return the node of which an entry is another version: it has the same `uuid` and parent."""
        node = self._find(own)
        parent, said = text_of(entry.get("parentUuid")), self._said.get(node or "")
        if said is None or is_unlinked(entry) or not (self._steps[own].parent == parent != own):
            return None
        return node if is_node(entry) and said.words != _words(entry) else None

    def _correct(self, entry: Mapping[str, object], name: str, before: str) -> Spot:
        """Add a new version of a node as its sibling: later children of either become children of this one."""
        run, parent, traits = self._runs[before], self._said[before].parent, traits_of(entry)
        self._settle(name, parent, traits, run if run.tip == before else None)
        return Spot(name, parent, note=False, traits=traits)

    def _is_again(self, entry: Mapping[str, object], own: str) -> bool:
        """Tell whether an entry is a repetition: a node with its `uuid` has the same parent."""
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
        """Return the parent of an entry, and the parent that it names if that is missing.

        Many versions of Claude Code lost parents: a process ended before it wrote them. Then Claude Code takes the
        entry before as the parent, and so does this.
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
        """The newest node by the writer of an entry."""
        return self._newest.get(writer_of(entry))

    def _node_at(self, name: str | None) -> str | None:
        """Return `name`, or its nearest ancestor that is a node if it is a note."""
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
        return Spot(name, parent, note=False, spawned_by=spawned_by, missing=missing, traits=traits)

    def _goes_along(self, entry: Mapping[str, object], above: str | None) -> bool:
        """Tell whether the parent of an attachment has no other child: otherwise it would look like a branch."""
        run = self._runs.get(self._node_at(above) or "")
        return run is not None and not run.ended and run.writer == writer_of(entry)

    def _joined(self, entry: Mapping[str, object], traits: Traits, node: str | None) -> _Run | None:
        """The run to which a node belongs; None if it begins one."""
        if not traits.joins:
            return _going_on(self._answers.get(traits.answer), traits)
        source = self._find(text_of(entry.get("sourceToolAssistantUUID")))
        return _going_on(self._runs.get(node or ""), traits) or _going_on(self._runs.get(source or ""), traits)

    def _below(self, node: str | None, traits: Traits) -> str | None:
        """The parent of a node: the end of the run of the node that it names, or the node that began its sidechain."""
        run = self._runs.get(node or "")
        return node if run is None or run.writer != traits.writer else run.tip

    def _settle(self, name: str, parent: str | None, traits: Traits, run: _Run | None) -> None:
        before = self._runs.get(parent or "")
        if run is None:
            if before is not None and before.writer == traits.writer:
                before.ended = True
            run = _Run(name, name, traits.writer)
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
        ends = self._ends()
        last = [end for end in ends.values() if end.uuid]
        main = [end for end in last if end.main]
        newest = max(main or last, key=lambda end: end.at, default=_End())
        chosen = ends.get(self._chosen, _End()).uuid or newest.uuid
        if not chosen:
            return self._newest.get("")
        node = self._node_at(self._find(chosen))
        run = self._runs.get(node or "")
        return None if run is None else run.tip

    def _ends(self) -> dict[str, _End]:
        """The steps that no other follows, and the messages that they stand for."""
        steps = self._new_steps()
        followed = {step.parent for step in steps.values()}
        kept = {} if steps is self._steps else self._ended.ends
        ends = {uuid: end for uuid, end in kept.items() if uuid not in followed}
        speaker: dict[str, str | None] = {}
        for uuid in steps:
            if uuid not in followed:
                above = self._speaker_above(uuid, speaker)
                ends[uuid] = _End() if above is None else _End(above, self._steps[above].at, self._steps[above].main)
        return ends

    def _awaited(self) -> set[str]:
        """What steps follow that is not there."""
        steps = self._new_steps()
        kept = set[str]() if steps is self._steps else self._ended.awaited
        return kept | {step.parent for step in steps.values() if step.parent and step.parent not in self._steps}

    def _new_steps(self) -> Mapping[str, _Step]:
        """The steps that are not kept; all of them, if one of these changes what is kept of the others."""
        if (
            not isinstance(self._steps, Recalled)
            or self._steps.replaces
            or self._steps.new.keys() & (self._ended.awaited)
        ):
            return self._steps
        return self._steps.new

    def _speaker_above(self, uuid: str, known: dict[str, str | None]) -> str | None:
        """The nearest message at or above an entry; `known` remembers answers."""
        passed: list[str] = []
        found: str | None = None
        cursor = uuid
        while cursor in self._steps and cursor not in known:
            known[cursor] = None  # a chain may have a cycle
            passed.append(cursor)
            if self._steps[cursor].speaks:
                found = cursor
                break
            cursor = self._steps[cursor].parent
        else:
            found = known.get(cursor)
        known.update(dict.fromkeys(passed, found))
        return found


def _going_on(run: _Run | None, traits: Traits) -> _Run | None:
    """Return the run if it has not ended and has the same writer; otherwise None."""
    return run if run is not None and not run.ended and run.writer == traits.writer else None


def _told(entry: Mapping[str, object]) -> Iterable[str]:
    """Keys by which the subagents of an answer are recognised: their prompts, and the ids of their calls."""
    for block in blocks_of(entry):
        if block.get("type") == "tool_use" and block.get("name") in _STARTS_AGENT:
            yield from filter(None, (text_of(fields_of(block.get("input")).get("prompt")), text_of(block.get("id"))))


def _task(entry: Mapping[str, object]) -> str:
    """The key of the call that began a sidechain, from its first entry."""
    return text_of(entry.get("parent_tool_use_id")) or text_of(fields_of(entry.get("message")).get("content"))


def _words(entry: Mapping[str, object]) -> bytes:
    """Return a digest of the contents of an entry, without its usage."""
    content = fields_of(entry.get("message")).get("content")
    try:
        data = _encoder.encode(content)
    except (UnicodeEncodeError, RecursionError, msgspec.MsgspecError, OverflowError):
        try:
            data = encode(content)
        except UsageError:
            return b""  # nested too deep to be compared; all such entries count as equal
    # SHA-256 has instructions of its own in most processors
    return sha256(data).digest()[:8]


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
