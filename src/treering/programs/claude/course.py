"""The tree of a Claude Code session: the parents of its entries, and the leaf.

Most entries name the entry before them as `parentUuid`, whatever its type: messages, attachments, progress of tools,
notes of the program. So the chain has forks also where the user did not go back.

Rule 1: the target of a note is its nearest ancestor that is a node. An entry whose parent is a note gets that node as
its parent.
Rule 2: one answer and the results of its calls are one run. Claude Code writes an entry for each block of an answer,
and the parent of each result is the block with its call. Here the nodes of a run form a chain in their order, and an
entry whose parent is any of them becomes a child of the last one. Only an entry that returns to a run which has ended
begins a branch. Messages that the program makes of attachments belong to the run of their parent.
Rule 3: the place of an entry depends only on earlier entries.
Rule 4: the parent of an entry without `parentUuid` is the entry before it. The output of Claude Code and some files
have only such entries; in a session file a root has a `parentUuid` of null.

A course can be continued from stored records, see `Course.recall`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from hashlib import blake2b
from typing import Final

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
from treering.programs.claude.runs import RecalledNames, RecalledRuns, Run, Table, firsts_in, runs_in
from treering.programs.claude.steps import Ended, Step, Steps
from treering.programs.common.memo import Facts, Memo, Recalled, new_in
from treering.programs.common.reader import text_of

_STARTS_AGENT: Final = frozenset({"Task", "Agent"})
"""Tools that start a subagent."""
_encoder: Final = msgspec.json.Encoder()


class Known(msgspec.Struct, frozen=True, array_like=True):
    """The state of a course after an entry, from which another course can continue; see also `Course.facts`."""

    renamed: dict[str, str]
    tasks: dict[bytes, str]
    newest: dict[str, str]
    kept: dict[str, str]
    ended: Ended
    chosen: str
    named: bool


_PLACE = msgspec.json.Decoder(str | None)


class Course:
    """Gives the entries of one session their places, one after the other.

    Memory: a few small objects for each entry with a `uuid`, and nothing of its content.
    """

    def __init__(
        self, new_id: Callable[[], str], entry_at: Callable[[int], Mapping[str, object]] = lambda _: {}
    ) -> None:
        """Begin before the first entry.

        Args:
            new_id: Makes ids for entries without an id, or with one that was used before.
            entry_at: Returns an earlier entry by its place in the file, to compare it with an entry of the same `uuid`.
        """
        self._new_id = new_id
        self._entry_at = entry_at
        self._runs: Table = {}  # of each node
        self._answers: Table = {}  # by id of an answer: its run, until that has ended
        self._anchors: MutableMapping[str, str | None] = {}  # of each note: the nearest node above it
        self._renamed: dict[str, str] = {}  # uuids that were used before, and the id of the latest such entry
        self._tasks: dict[bytes, str] = {}  # nodes that started subagents, by digest of the task
        self._steps = Steps()
        self._newest: dict[str, str] = {}  # by writer
        self._kept: dict[str, str] = {}  # by last message that a compaction keeps: the message before the kept ones
        self._chosen = ""
        self._named = False

    @property
    def known(self) -> Known:
        """The state of the course, without the facts of single entries; valid until the next entry is added."""
        return Known(
            renamed=self._renamed,
            tasks=self._tasks,
            newest=self._newest,
            kept=self._kept,
            ended=self._steps.ended,
            chosen=self._chosen,
            named=self._named,
        )

    @property
    def facts(self) -> Facts:
        """The facts of single entries that are not in the memo; valid until the next entry is added."""
        return {
            "runs": {run.first: run for table in (self._runs, self._answers) for run in runs_in(table)}.items(),
            "run_of": firsts_in(self._runs),
            "answers": firsts_in(self._answers),
            "anchors": new_in(self._anchors),
            "steps": self._steps.new,
        }

    def go_on(self, known: Known, memo: Memo) -> None:
        """Continue from the state of another course of the same file."""
        runs = RecalledRuns(memo)
        self._runs, self._answers = (RecalledNames(memo, table, runs) for table in ("run_of", "answers"))
        self._anchors = Recalled(memo, "anchors", _PLACE)
        self._steps.go_on(known.ended, memo)
        self._renamed, self._tasks, self._newest, self._kept = known.renamed, known.tasks, known.newest, known.kept
        self._chosen, self._named = known.chosen, known.named

    def add(self, entry: Mapping[str, object], place: int) -> Spot:
        """Return the place of the next entry.

        Args:
            entry: The entry.
            place: Its place in the file: any number greater than that of the entry before.
        """
        own, kind = text_of(entry.get("uuid")), text_of(entry.get("type"))
        above, missing = self._above(entry)
        before = self._steps.get(own)  # an entry with the same uuid; this is very rare
        corrected = self._corrected(entry, own, before) if before is not None else None
        again = before is not None and corrected is None and self._is_again(entry, own, before)
        name = self._new_id() if again else self._free_name(own)
        named = self._named_by(entry) if own and kind in LINKED else None
        if kind == "system" and is_boundary(entry) and (kept := kept_of(entry)) is not None:
            self._kept[kept.last] = kept.after
        elif kind == "last-prompt":
            self._chosen = text_of(entry.get("leafUuid"))
        elif kind == "custom-title" and text_of(entry.get("customTitle")):
            self._named = True
        if again:
            self._anchors[name] = own
            spot = Spot(name, own, note=True)
        elif before is not None and corrected is not None:
            spot = self._correct(entry, name, corrected, before)
        elif is_node(entry) or is_local_command(entry) or (told_by(entry) and self._goes_along(entry, above)):
            spot = self._add_node(entry, name, above, missing)
        else:
            spot = self._add_note(entry, name, above)
        if named is not None:
            said, parent = (-1, None) if spot.note else (place, spot.parent)
            if again and before is not None:
                said, parent = before.said, before.above
            speaks = kind in SPEAKERS
            step = Step(named, place, speaks, speaks and not is_side(entry), said, parent)
            self._steps.add(own, step, again=before is not None)
        return spot

    def recall(
        self, name: str, parent: str | None, *, note: bool, kind: str, role: str, brief: Mapping[str, object]
    ) -> None:
        """Add a recorded node or note; all of them must be added, in the order of their records.

        Later entries get the same places as after reading the file. `leaf` does not work then: it needs the entries
        themselves.

        Args:
            name: Its id.
            parent: The parent of a node, the target of a note.
            note: Whether it is a note.
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

    def _corrected(self, entry: Mapping[str, object], own: str, before: Step) -> str | None:
        """Return the node of which an entry is another version: it has the same `uuid` and parent."""
        if before.said < 0 or is_unlinked(entry) or not before.parent == text_of(entry.get("parentUuid")) != own:
            return None
        said = self._entry_at(before.said) if is_node(entry) else {}
        return self._find(own) if said and _words(said) != _words(entry) else None

    def _correct(self, entry: Mapping[str, object], name: str, node: str, before: Step) -> Spot:
        """Add a new version of a node as its sibling: later children of either become children of this one."""
        run, traits = self._runs[node], traits_of(entry)
        self._settle(name, before.above, traits, run if run.tip == node else None)
        return Spot(name, before.above, note=False, traits=traits)

    def _is_again(self, entry: Mapping[str, object], own: str, before: Step) -> bool:
        """Tell whether an entry repeats an earlier entry: a node with its `uuid` has the same parent."""
        if own not in self._runs or own in self._renamed:
            return False
        return is_unlinked(entry) or before.parent == text_of(entry.get("parentUuid")) != own

    def _named_by(self, entry: Mapping[str, object]) -> str:
        """Return the parent of an entry in the file."""
        named = (self._before(entry) or "") if is_unlinked(entry) else text_of(entry.get("parentUuid"))
        newest = self._newest.get("")
        return newest if newest is not None and newest == named else named  # share the text

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

        Many versions of Claude Code lost parents: a process ended before it wrote them. Claude Code then takes the
        entry before as the parent, and this method does the same.
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
        """Return the newest node by the writer of an entry."""
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

    def _joined(self, entry: Mapping[str, object], traits: Traits, node: str | None) -> Run | None:
        """Return the run that a node continues; None if it begins a new run."""
        if not traits.joins:
            return _going_on(self._answers.get(traits.answer), traits)
        source = self._find(text_of(entry.get("sourceToolAssistantUUID")))
        return _going_on(self._runs.get(node or ""), traits) or _going_on(self._runs.get(source or ""), traits)

    def _below(self, node: str | None, traits: Traits) -> str | None:
        """Return the parent of a node that names `node`: the end of that node's run if its writer is the same."""
        run = self._runs.get(node or "")
        return node if run is None or run.writer != traits.writer else run.tip

    def _settle(self, name: str, parent: str | None, traits: Traits, run: Run | None) -> None:
        before = self._runs.get(parent or "")
        if run is None:
            if before is not None and before.writer == traits.writer:
                self._end(before)
            run = Run(name, name, traits.writer, traits.answer)
        run.tip = name
        self._runs[name] = run
        if traits.answer:
            self._answers[traits.answer] = run
        self._newest[traits.writer] = name

    def _end(self, run: Run) -> None:
        if run.answer and self._answers.get(run.answer) is run:
            del self._answers[run.answer]
        run.answer, run.ended = "", True

    def leaf(self) -> str | None:
        """Return the node at which Claude Code would continue, see `Steps.leaf`; None if there is no message."""
        chosen = self._steps.leaf(self._chosen)
        if not chosen:
            return self._newest.get("")
        node = self._node_at(self._find(chosen))
        run = self._runs.get(node or "")
        return None if run is None else run.tip


def _going_on(run: Run | None, traits: Traits) -> Run | None:
    """Return the run if it has not ended and has the same writer, else None."""
    return run if run is not None and not run.ended and run.writer == traits.writer else None


def _told(entry: Mapping[str, object]) -> Iterable[str]:
    """Return the keys by which subagents of an answer are recognised: their prompts, and the ids of their calls."""
    for block in blocks_of(entry):
        if block.get("type") == "tool_use" and text_of(block.get("name")) in _STARTS_AGENT:
            yield from filter(None, (text_of(fields_of(block.get("input")).get("prompt")), text_of(block.get("id"))))


def _task(entry: Mapping[str, object]) -> str:
    """Return the key of the call that began a sidechain, from the sidechain's first entry."""
    return text_of(entry.get("parent_tool_use_id")) or text_of(fields_of(entry.get("message")).get("content"))


def _words(entry: Mapping[str, object]) -> bytes:
    """Return the content of an entry's message as bytes, without its usage."""
    content = fields_of(entry.get("message")).get("content")
    try:
        data = _encoder.encode(content)
    except (UnicodeEncodeError, RecursionError, msgspec.MsgspecError, OverflowError):
        try:
            data = encode(content)
        except UsageError:
            return b""  # nested too deep; such contents are not distinguished
    return data


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
