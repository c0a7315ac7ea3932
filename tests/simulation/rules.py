"""The rules of the journal. Each has a mutant: a change to the code that breaks the rule.

`docs/reference/journal.md` states the same rules under the same names, with their reasons. In the code a comment marks
the statement that keeps a rule: `# rule: swap-tail`. The mutant changes the marked statement; see
`tests.simulation.changes`. If code is moved, its marks move with it, and this table does not change.

A rule stays in the table as long as the simulation detects its mutant. If the simulation never detects a mutant, either
its rule is no rule, or the simulation lacks a case.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.simulation.changes import (
    Change,
    also_if,
    always,
    argument,
    catching,
    condition,
    first,
    in_other_order,
    instead,
    never,
    only_if,
    over,
    then,
    value,
    without,
    without_argument,
    without_call,
    without_slice,
)

PAGE = Path(__file__).parents[2] / "docs/reference/journal.md"

STORE, LIVES, DISK = ("store",), ("lives",), ("disk",)
SESSION, MOVES, NAMES, LAPTOP = ("session",), ("moves",), ("names",), ("laptop",)
ERASURES, SECRETS, LEASES, STREAMS = ("erasures",), ("secrets",), ("leases",), ("streams",)
DELAYS, DOUBTS = ("delays",), ("doubts",)


class Rule(NamedTuple):
    """One rule and its mutant."""

    name: str
    sentence: str
    change: Change
    """What the mutant does to the marked statement."""
    kinds: tuple[str, ...] = STORE
    """The kinds of schedules that detect the mutant soon; see `tests.simulation.schedule.KINDS`."""
    seed: int = 0
    """The seed of a schedule that once detected the mutant. It is tried first, where few schedules detect the mutant.

    After a change to the code, another seed may be needed.
    """
    test: str = ""
    """A test that detects the mutant. It is run first, where hardly one schedule in 100,000 detects the mutant."""


RULES = (
    # append
    Rule("swap-tail", "An append replaces the tail that its writer saw, or nothing.", argument("expect", "None")),
    Rule(
        "drop-sealed-only",
        "An append drops from the tail only records in segments, never those that latest merely covers.",
        value("view.fresh_lines"),
    ),
    Rule(
        "keep-unsealed",
        "An append keeps every record that is in no segment.",
        value("() if view.sealed > view.tail.header.base else view.tail.lines"),
    ),
    Rule(
        "see-what-is-dropped",
        "A writer treats records that were dropped before it saw them as another writer's, unless the mark of the "
        "base is that of its own last append.",
        never(),
        SESSION,
        test="tests/session/test_rare_meetings.py::test_an_exclusive_handle_stops_where_others_left_nothing_in_the_tail",
    ),
    Rule(
        "tail-reaches",
        "Before its first write, a writer has checked that no segment ends after the tail.",
        never(),
        test="tests/corruption/test_moment.py::test_nothing_is_written_to_a_session_of_two_moments",
    ),
    Rule(
        "sealed-is-there",
        "Before its first write, a writer has checked that segments hold the records that it will drop because "
        "latest states that they are sealed.",
        never(),
        test="tests/corruption/test_moment.py::test_nothing_is_written_to_a_session_of_two_moments",
    ),
    Rule(
        "epoch-reaches",
        "Before its first write, a writer has checked that no segment is of a later epoch than the tail.",
        never(),
        test="tests/corruption/test_moment.py::test_a_segment_of_a_later_epoch_than_the_tail_stops_who_writes",
    ),
    Rule(
        "erased-alike",
        "Before its first write, a writer has checked that the tail and the name of each segment agree on what "
        "was erased up to the epoch of the segment.",
        never(),
        test="tests/corruption/test_diverged.py::test_whatever_a_merge_leaves_is_one_copy_or_refused[aasE+aasE-memory]",
    ),
    Rule(
        "marks-agree",
        "Before its first write, a writer has checked that registers and names of segments agree on the mark of "
        "each position.",
        never(),
        test="tests/corruption/test_diverged.py::test_whatever_a_merge_leaves_is_one_copy_or_refused",
    ),
    Rule(
        "compare-inside",
        "Before its first write, a writer has compared the contents of overlapping segments whose names do not "
        "hold the marks to compare.",
        never(),
        test="tests/corruption/test_diverged.py::test_whatever_a_merge_leaves_is_one_copy_or_refused[as+akaasa-memory]",
    ),
    Rule(
        "accuse-late",
        "A writer reports that registers and segments contradict each other only after it saw the same "
        "contradiction three times in a row: other processes seal and merge between two answers.",
        always(),
    ),
    Rule(
        "seal-when-full",
        "A writer seals a tail that has no room for an append, whatever its compressed size, and refuses an "
        "append for which no tail has room.",
        never(),
        test="tests/session/test_room.py::test_a_context_larger_than_the_room_does_not_block_anything",
    ),
    Rule(
        "read-back",
        "After a refusal, a writer reads which writer's record is at its position; a refusal alone proves nothing.",
        never(),
    ),
    Rule(
        "read-back-by-position",
        "After a refusal, a writer reads the record at its position in the tail or in a segment, not in the "
        "context, which is bounded.",
        value("next((line for line in (*now.latest.lines, *now.tail.lines) if by.encode() in line), None)"),
    ),
    Rule(
        "doubt-is-told",
        "A writer reports that the outcome of an append is unknown, if access is refused when it reads back.",
        instead("raise"),
        test="tests/session/test_faults.py::test_an_append_that_cannot_be_read_back_has_an_unknown_outcome",
    ),
    Rule(
        "fence-doubt",
        "A writer sends the records of an append without an answer again only after the tail has changed.",
        without_argument("fence"),
    ),
    Rule(
        "same-life",
        "A writer does not continue in a session that was deleted and created again.",
        never(),
        test="tests/session/test_writers.py::test_handles_of_a_deleted_life_are_told",
    ),
    Rule(
        "whole-append",
        "An append marks its records as belonging together; a part of them does not count.",
        without_argument("more"),
        DISK,
    ),
    Rule(
        "append-behind-whole",
        "A writer rewrites a log whose end is torn between two lines.",
        always("_ends_whole"),
        DISK,
        seed=346,
    ),
    Rule(
        "poison-rewrite",
        "After a failed sync, a writer writes the whole tail elsewhere before it acknowledges anything.",
        instead("return (yield from _settle(view, by, 0, nonce))"),
        DISK,
    ),
    # seal and close
    Rule(
        "swap-latest",
        "A process that writes latest replaces the latest that it saw, or nothing.",
        argument("expect", "None"),
    ),
    Rule("segment-first", "A process raises sealed only after the segment is durable.", in_other_order),
    Rule(
        "cover-forward",
        "A process does not replace latest from a view whose tail ends before what latest covers.",
        never("covers"),
        seed=71,
    ),
    Rule(
        "cover-same-life",
        "A process that lost the swap of latest to another life reports that the session was deleted.",
        never("life"),
        LIVES,
        seed=530,
    ),
    # markers
    Rule(
        "marker-first",
        "A process that writes latest has first made durable the marker that this latest names.",
        in_other_order,
    ),
    Rule(
        "mark-creation",
        "A creation has first made durable the marker that its latest names; it fails if the marker cannot be written.",
        without(),
        LIVES,
    ),
    Rule(
        "mark-behind-look",
        "A creation writes its marker after it read or wrote the tombstones that it replaces.",
        in_other_order,
        LIVES,
        test="tests/session/test_recent.py::test_who_creates_a_session_puts_its_marker_where_nobody_takes_it_for_waste",
    ),
    Rule(
        "refuse-before-removal",
        "A marker that its session does not name is removed only if latest was replaced after the marker was listed.",
        value("(yield from _delete(keys, strays))"),
        LIVES,
        test="tests/session/test_recent.py::test_who_removes_markers_spares_that_of_a_session_created_meanwhile",
    ),
    Rule(
        "mark-load",
        "The creation of a session that is loaded with its records has first made durable the marker that its "
        "latest names.",
        without(),
    ),
    Rule(
        "name-marker-once",
        "A new marker has a name that was never used: a delayed deletion would hit it.",
        argument("unique", "'0'"),
    ),
    Rule(
        "drop-marker-last",
        "An older marker is deleted only after latest was replaced by one that names the newer marker.",
        first("yield from marker.drop(view.keys, view.latest.card, latest.card)"),
    ),
    Rule("drop-unnamed", "A marker is not deleted while latest names it.", condition("gone.marker"), LIVES),
    Rule("list-the-living", "A list does not show a deleted session because a marker of it is left.", never(), LIVES),
    Rule(
        "count-what-is-named",
        "A list ignores a marker that latest does not name, if it met or can still meet the one that latest names.",
        always(),
        test=("tests/session/test_recent.py::test_lists_by_markers_show_what_lists_by_cards_show"),
    ),
    Rule(
        "count-what-moved",
        "A list counts a marker that latest does not name, if latest names a marker that the list can no longer "
        "meet, since it was written where the list had already been read.",
        value("False"),
        test="tests/session/test_recent.py::test_a_session_that_gets_another_marker_while_a_list_is_read_is_not_passed_over",
    ),
    Rule(
        "mark-activity",
        "The time of a marker is that of the last activity that latest tells: upkeep moves no session in lists.",
        value("now_ms"),
        test="tests/session/test_recent.py::test_upkeep_moves_no_session",
    ),
    # resume
    Rule("fit-base", "A reader of both registers does not use a tail that begins after what latest covers.", never()),
    Rule("fit-end", "A reader of both registers does not use a tail that ends before what latest covers.", never()),
    Rule("fit-life", "A reader of both registers does not use registers of different lives.", never(), LIVES),
    Rule(
        "fit-mark",
        "A reader of both registers does not use a tail whose mark differs from that of latest at the covered "
        "position.",
        never(),
        test="tests/corruption/test_diverged.py::test_whatever_a_merge_leaves_is_one_copy_or_refused",
    ),
    Rule(
        "fit-erased",
        "A reader of both registers does not use registers of one epoch that list different erasures.",
        never(),
        test="tests/corruption/test_moment.py::test_registers_of_copies_that_erased_different_things_do_not_fit",
    ),
    Rule(
        "misfit-twice",
        "A reader of both registers reports damage when it sees the same two mismatched versions twice in a row.",
        never(),
    ),
    Rule(
        "missing-tail",
        "A reader of both registers reports damage when the tail is missing and more records are covered than the "
        "session was loaded with.",
        never("covers"),
    ),
    # read
    Rule(
        "reach-base", "A reader of the graph reads again if the listed segments do not reach the tail's base.", always()
    ),
    Rule(
        "no-gap",
        "A reader of the graph counts a segment only if the segments before it reach its first position.",
        condition("place < len(ordered) and ordered[place].name.first <= reach + 2"),
    ),
    Rule(
        "gap-proven",
        "A reader of the graph reports damage when it sees the same gap three times in a row beside the same tail.",
        never(),
    ),
    Rule(
        "gap-thrice",
        "A reader of the graph does not report a gap that it saw only twice: the session may be deleted after the "
        "tail was read and before the segments are listed.",
        condition("attempts.in_a_row(seen) == 2"),
        ERASURES,
        test="tests/session/test_rare_meetings.py::test_a_gap_that_is_seen_twice_may_be_that_of_a_session_which_is_deleted",
    ),
    Rule(
        "look-again-graph",
        "A reader of the graph reads again when a segment vanished: another process merged it.",
        instead("raise"),
    ),
    Rule(
        "look-again-walk",
        "A walk over all records reads again when a segment vanished: another process merged it.",
        instead("raise"),
        seed=184,
    ),
    Rule(
        "look-again-record",
        "A reader of single records reads again when a segment vanished: another process merged it.",
        instead("raise"),
    ),
    Rule(
        "rows-reach-base",
        "A reader lists the segments again when the tail begins after the end of those that it remembers, also if "
        "it reads single rows only.",
        condition("self._segments"),
        SESSION,
    ),
    Rule(
        "name-once",
        "A reader lists the segments if one that latest names is gone, and does not rely on these names again.",
        without(),
        test="tests/session/test_lookup.py::test_segments_that_latest_names_and_another_writer_merged_are_listed",
    ),
    Rule("reads-end", "A read of the graph ends, whatever the store answers.", always()),
    Rule("look-at-same-life", "A reader of the graph that reads again reads the same life.", never(), seed=725),
    Rule("read-once", "A reader of the graph reads a position once, even if several segments hold it.", value("0")),
    # merge
    Rule("output-first", "A merge makes its output durable before it deletes an input.", in_other_order),
    Rule(
        "merge-neighbours",
        "A merge joins contiguous runs of segments only.",
        value("plan_all(where.segments[::2]) if everything else plan(where.segments)"),
    ),
    Rule("merge-once", "A merge takes a position that several inputs hold from only one of them.", without_slice()),
    Rule(
        "oldest-epoch",
        "The output of a merge has the oldest epoch of its inputs, or that of the tail by whose list the merge "
        "removed erased payloads.",
        value("max(segment.name.epoch for segment in run)"),
        seed=1292,
    ),
    Rule(
        "waste-within",
        "A merge treats a segment as waste only if another one holds all of its positions.",
        always(),
        seed=439,
    ),
    Rule(
        "spare-twins", "A merge treats neither of two segments with the same positions as waste.", always(1), seed=3592
    ),
    Rule(
        "read-holder",
        "A merge treats a segment as waste only after it has read the segment that holds the same positions: a name "
        "proves neither that the segment is undamaged nor that it belongs to the session.",
        without(),
        test="tests/corruption/test_owner.py::test_a_segment_of_another_session_is_damage",
    ),
    # follow
    Rule(
        "follow-same-life",
        "A follower ends with the life, and reports nothing of a later life of that name.",
        without(),
        test="tests/session/test_events.py::test_a_feed_ends_with_the_life",
    ),
    Rule(
        "follow-segments",
        "A follower reads in segments the records that left the tail before it reported them.",
        value("self._from_recent(recent)"),
        test="tests/session/test_events.py::test_a_reader_goes_on_behind_any_event",
    ),
    Rule(
        "follow-acts",
        "A follower reports each act of erasing once, after the records that the same poll showed.",
        value("()"),
        test="tests/session/test_events.py::test_each_type_has_its_value",
    ),
    Rule(
        "follow-bury",
        "A follower shows records that are kept from earlier polls as erased once an act of erasing lists them.",
        without(),
        test="tests/session/test_events.py::test_what_is_kept_for_others_is_erased_as_well",
    ),
    # create and delete
    Rule(
        "create-latest-first",
        "A creation writes latest before the tail, so that a session whose creator is killed at once is listed.",
        first(
            """
tail = empty_tail(card, keys.session, nonce)
yield (TailRegister(keys).prepare(tail, expect=seen.tail_version),)
"""
        ),
    ),
    Rule("create-swaps", "A creation replaces the latest that it saw, or nothing.", argument("expect", "None"), LIVES),
    Rule("create-if-free", "A creation uses a name again only when the life before it was deleted.", never(), LIVES),
    Rule(
        "adopt",
        "A process that finds latest of a life without a tail may continue that life: its creator may have been "
        "killed.",
        always(),
        LIVES,
    ),
    Rule(
        "adopt-at-rest",
        "A process continues a life without a tail beside an older tombstone only after it saw both twice in a row.",
        always(1),
        LIVES,
        seed=9591,
    ),
    Rule(
        "tail-from-born",
        "The tail begins after the records with which the life was loaded.",
        argument("base", "0"),
        LIVES,
    ),
    Rule(
        "load-segments-first",
        "A session is created only when the segments of its records are durable.",
        in_other_order,
        NAMES,
    ),
    Rule(
        "discard-refused",
        "Loaded segments are removed only if the creation of their session was refused or not begun, never while its "
        "outcome is unknown.",
        catching("(ConflictError, OSError)"),
        NAMES,
    ),
    Rule(
        "fence-without-tail",
        "A deletion writes its tombstone to the tail also if there is no tail yet.",
        only_if("not seen.in_creation"),
        LIVES,
    ),
    Rule(
        "tombstone-of-life",
        "A tombstone in the tail says nothing about the card of another life.",
        value("not self.in_creation"),
        LIVES,
    ),
    Rule(
        "tombstone-in-tail-first",
        "A deletion writes its tombstone to the tail first, since appends swap the tail.",
        first("yield from _bury(seen, life, nonce)\nyield from _empty_folder(keys.folder(life))"),
        LIVES,
    ),
    Rule(
        "delete-one-life",
        "A deletion ends the life that it found, and no later one.",
        first("life = seen.life"),
        LIVES,
        seed=6062,
    ),
    Rule("bury-own", "A deletion marks only the card of the life that it ends.", never("life"), LIVES),
    Rule(
        "stone-has-own-id",
        "A tombstone in latest has a write id of its own, never that of the card it replaces: a writer that got "
        "no answer would take the tombstone for its own write.",
        value("register.tombstone(life, card.write, updated=card.updated, marker=card.marker)"),
        LIVES,
        test="tests/session/test_deleted_meanwhile.py::test_a_writer_without_an_answer_does_not_take_the_tombstone_for_its_own",
    ),
    Rule(
        "finish-deletion",
        "The next deletion or creation finishes an interrupted deletion.",
        then("if seen.dead: return"),
        LIVES,
    ),
    Rule("own-folder", "Every life has a folder of its own.", value('f"{self.home}life/"')),
    # erase
    Rule(
        "announce-nothing",
        "A resume of a life whose latest covers nothing ignores the facts about records on its card.",
        always(),
        SESSION,
    ),
    Rule(
        "erase-tail-first",
        "An erasure swaps the tail first: the new tail has the next epoch, lists the positions, and does not hold "
        "their payloads.",
        then(
            """
card = msgspec.structs.replace(view.latest.card, epoch=tail.header.epoch, write=nonce)
latest = Latest(card=card, lines=view.latest.lines)
yield (LatestRegister(view.keys).prepare(latest, expect=view.latest_version),)
"""
        ),
    ),
    Rule(
        "fence-copies",
        "An erasure has searched for all copies up to the end of the tail that it swaps; if other records came "
        "first, it searches again.",
        condition("not self._end"),
        ERASURES,
        seed=111,
    ),
    Rule(
        "fence-what-is-there",
        "An erasure lists no positions after the end of the journal: a record that was read there before it was "
        "durable may be lost.",
        never(),
        DISK,
        test="tests/session/test_rare_meetings.py::test_nothing_behind_the_end_is_listed_as_erased",
    ),
    Rule(
        "cover-one-epoch",
        "A process does not replace latest from a view whose registers are of different epochs.",
        never("torn"),
        seed=3070,
    ),
    Rule(
        "heal-anybody",
        "A process that replaces a latest of an older epoch than the tail's first removes from it what the tail "
        "lists as erased.",
        without(),
        ERASURES,
    ),
    Rule(
        "heal-whole",
        "After an erasure has swapped the tail, latest is replaced by one of the tail's epoch, without everything "
        "that the tail lists as erased.",
        value("bury(view.latest, burials(view.tail.header.erased[-1:], view.burials.erasures[-1:]))"),
    ),
    Rule(
        "rewrite-first",
        "A dirty segment is rewritten before it is deleted: it may hold the only copy of its other records.",
        without(),
    ),
    Rule(
        "sweep-all",
        "An erasure rewrites dirty segments until a listing shows none, and so does optimize.",
        over("where.segments"),
    ),
    Rule(
        "name-epoch",
        "A segment is named by the epoch of the tail that its lines were read with, a merged one by the oldest epoch.",
        value("SegmentName.marked(first, view.end, view.epoch + 1, unique, marks)"),
    ),
    Rule(
        "bury-on-read",
        "Readers show as erased what the tail lists as erased, whatever a segment holds.",
        without_call("bury"),
        seed=711,
    ),
    Rule(
        "bury-memory",
        "A handle removes erased payloads from memory before it writes latest again.",
        value("False"),
        ERASURES,
    ),
    Rule(
        "bury-latest-read",
        "Readers show as erased what the tail lists as erased, also if they read a latest of an older epoch.",
        never(),
        ERASURES,
    ),
    Rule(
        "bury-brought",
        "A handle removes erased payloads from records that it read for a move that is not recorded yet, before "
        "it writes latest again.",
        without_call("bury_line"),
        ERASURES,
        seed=329,
    ),
    Rule("no-copies-after", "A checkpoint does not hold a message of an erased node.", value("False"), ERASURES),
    Rule("no-edits-after", "An erased node is not amended.", never(), ERASURES),
    Rule(
        "gone-blobs",
        "The tail lists the blobs of erased records, and no new record refers to them.",
        without_argument("inside"),
        ERASURES,
        test="tests/session/test_erasing.py::test_what_was_a_blob_that_was_erased_is_kept_inside_when_it_is_said_again",
    ),
    Rule(
        "shared-blobs",
        "The blobs of erased records are deleted only if no remaining record refers to them.",
        value("sorted(listed)"),
        ERASURES,
    ),
    Rule("fork-links-first", "A fork records its name in its parent before it copies.", without(), ERASURES, seed=10),
    Rule(
        "fork-reads-last",
        "A fork reads the records to copy after it read the tombstone that it replaces.",
        without(),
        ERASURES,
        test="tests/session/test_erasure_beside.py::test_a_fork_that_was_killed_when_it_was_made_holds_nothing_"
        "that_was_erased_meanwhile",
    ),
    Rule(
        "refuse-forks",
        "For every fork that does not exist yet, an erasure replaces the tombstone that the fork may have read, "
        "so that the creation of an early copy is refused.",
        always(),
        ERASURES,
        seed=76,
    ),
    Rule(
        "sweep-forks",
        "If a fork exists, an erasure deletes the folders of other lives of the fork's name, left by killed forks.",
        without(),
        ERASURES,
        test="tests/session/test_rare_meetings.py::test_what_a_killed_fork_left_beside_one_that_lives_goes_with_what_is_erased",
    ),
    Rule("every-copy", "Erasing a message removes the copies that checkpoints hold of it.", value("0"), ERASURES),
    Rule(
        "every-value",
        "Erasing a key of the state lists all checkpoints that hold a value of it, up to the end of the journal.",
        only_if("not self.records"),
        SECRETS,
    ),
    Rule(
        "values-in-forks",
        "Erasing a key of the state up to an end of the journal also removes, once, the values of that key from each "
        "fork that was linked before that end.",
        value("[]"),
        SECRETS,
    ),
    Rule(
        "forget-values",
        "Erased values of the state are removed from latest, and from a handle before it writes latest again.",
        without_call("bury_checkpoint"),
        SECRETS,
    ),
    Rule(
        "forget-basis",
        "Erased values and messages are also removed from the checkpoint that a handle stands on, if another "
        "writer committed a newer one.",
        never(),
        SECRETS,
        test="tests/session/test_erasing_state.py::test_a_handle_that_stands_on_an_older_checkpoint_forgets_it_too",
    ),
    Rule(
        "copy-clean",
        "A copy writes a dirty segment without what was erased; the names of its own segments mention no erasure.",
        value("False"),
        ERASURES,
        seed=144,
    ),
    Rule(
        "copy-looks-again",
        "A copy is created only if nothing was erased since it read the tail that it copies; otherwise it copies "
        "again from the current tail.",
        always(),
        ERASURES,
        seed=161,
    ),
    Rule(
        "copy-leaves-nothing",
        "Before a copy is created, it deletes the objects that it wrote and no longer needs.",
        without(),
        STREAMS,
        test="tests/session/test_copies.py::test_what_a_copy_does_not_need_in_the_end_is_deleted",
    ),
    Rule(
        "copy-begins-anew",
        "If a payload was erased since a copy began, the copy begins again in the folder of another life: a delayed "
        "write of the first attempt is never read.",
        never(),
        DELAYS,
        seed=2885,
    ),
    Rule(
        "copy-shared-blobs",
        "A copy leaves out the blobs that the tail lists as erased, unless a remaining record refers to them.",
        never(),
        ERASURES,
        seed=317,
    ),
    # purge
    Rule(
        "stones-first",
        "A creation replaces a tombstone; without one it first writes one, of a life that never existed, into "
        "both registers.",
        always(),
        LIVES,
        seed=4084,
    ),
    Rule(
        "load-looks-first",
        "A load reads the tombstone that its creation replaces before it writes any record.",
        argument("seen", "None"),
        NAMES,
        seed=10330,
    ),
    Rule(
        "purge-refuses-loads",
        "A tombstone in latest is replaced by another one before folders are deleted.",
        never(),
        LIVES,
        seed=333,
    ),
    Rule(
        "purge-lists-first",
        "A purge lists the folders of lives before it reads latest.",
        in_other_order,
        LIVES,
        seed=1030,
    ),
    Rule(
        "purge-by-version",
        "A purge deletes tombstones by version, and only when no life is left.",
        without_argument("expect"),
        LIVES,
        test="tests/session/test_purging.py",
    ),
    Rule(
        "purge-at-rest",
        "A purge has seen both tombstones so often in a row that both existed at one moment: the tombstone in the "
        "tail may end a life that began since latest was read.",
        always(),
        test="tests/session/test_purging.py::test_a_purge_leaves_what_ends_a_life_that_began_meanwhile",
    ),
    Rule("spare-the-living", "A purge keeps the folders of the lives in the registers.", always(), LIVES),
    # a session
    Rule(
        "settle-first",
        "A writer determines the outcome of one append before it sends the next.",
        value("None"),
        SESSION,
        seed=163,
    ),
    Rule(
        "settle-last",
        "A writer determines the outcome of its last append before it goes.",
        without(),
        SESSION,
        test="tests/session/test_closing.py",
    ),
    Rule(
        "late-move",
        "When an append that moves its handle turns out later to have succeeded, the handle moves to the node and the "
        "checkpoint of its plan, unless `refresh-is-newer` says otherwise.",
        without(),
        LAPTOP,
        test="tests/session/test_shared_races.py",
    ),
    Rule("exclusive-stops", "An exclusive writer stops when another writer wrote.", value("False"), SESSION),
    Rule(
        "stop-while-planning",
        "An exclusive writer stops when it detects another writer while it reads for an append.",
        without(),
        LAPTOP,
        test="tests/session/test_writers.py",
    ),
    Rule(
        "see-what-is-covered",
        "A writer looks for other writers also among the records that latest has covered since, as far back as "
        "the tail reaches.",
        over("()"),
        ERASURES,
        test="tests/session/test_writers.py",
    ),
    Rule(
        "plan-again",
        "A handle repeats a plan if it detects another writer while it seals a full tail for the planned append.",
        never("_moved_on"),
        SESSION,
        test="tests/session/test_shared_races.py",
    ),
    Rule(
        "state-stands",
        "A writer does not base state, context or a label on a checkpoint of its head that is newer than the one "
        "its caller was shown; it begins a new head instead.",
        never(),
        SESSION,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "first-head-stays",
        "A writer whose head has checkpoints, and neither a node nor a move, records that head before it records "
        "another one.",
        never(),
        LAPTOP,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "shown-stays",
        "A writer keeps showing its caller the same position until the caller refreshes, navigates or records, "
        "whatever a call read.",
        without_argument("blindly"),
        SESSION,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "seal-shows-nothing",
        "A writer does not count a checkpoint as shown to its caller if it read the checkpoint only to seal a full "
        "tail for an append.",
        value("False"),
        test="tests/session/test_rare_meetings.py::test_what_a_seal_of_a_full_tail_read_was_shown_to_nobody",
    ),
    Rule(
        "own-head-is-apart",
        "A writer does not take the state of its own head for that of another head that is current, even if both "
        "are at one node.",
        never(),
        test=(
            "tests/session/test_rare_meetings.py"
            "::test_a_branch_keeps_its_state_where_a_refused_handle_of_another_head_seals"
        ),
    ),
    Rule(
        "stay-on-own-head",
        "A writer that stands on another head than the session's current one does not move to the current one because "
        "of what a call read.",
        value("True"),
        test=("tests/session/test_rare_meetings.py::test_an_exclusive_handle_beside_the_current_head_stays_on_its_own"),
    ),
    Rule(
        "refresh-is-newer",
        "A writer that was refreshed goes on from there, not from its own append before, if the refresh showed that "
        "append and what others added to its head.",
        value("False"),
        DOUBTS,
        seed=587,
    ),
    Rule(
        "late-commit-stays",
        "A writer that a refresh moved to another head does not take the checkpoint of its own append before, which "
        "had no answer, unless that append moves it.",
        value("True"),
        test="tests/session/test_rare_meetings.py"
        "::test_a_handle_behind_a_late_commit_of_state_goes_on_from_what_a_refresh_showed",
    ),
    Rule(
        "shown-when-whole",
        "A writer whose refresh fails half way stays at the place that its caller was shown before.",
        without(),
        test="tests/session/test_lost_answers.py::test_a_refresh_that_fails_shows_nothing",
    ),
    Rule(
        "undone-is-unknown",
        "When an edit is undone, the context is unknown, unless it did not show it or shows it already.",
        condition("False"),
        test="tests/session/test_lost_answers.py::test_a_message_shown_again_is_in_the_context_of_every_head",
    ),
    Rule(
        "other-head-is-unknown",
        "A writer that turns to another head does not take the context and the checkpoint of the head before for those "
        "of that head, even if both are at one node.",
        without(),
        test="tests/session/test_rare_meetings.py"
        "::test_what_is_sealed_behind_a_late_branch_has_the_state_of_the_branch",
    ),
    Rule(
        "stay-apart",
        "A writer that made a checkpoint on another head than the current one does not take its state for that of the "
        "current head, even if both are at one node.",
        value("False"),
        test="tests/session/test_rare_meetings.py"
        "::test_what_is_written_behind_a_late_append_has_the_state_of_the_current_head",
    ),
    Rule(
        "own-is-not-common",
        "A writer makes latest from the fold that is common to all writers, not from an older checkpoint of its "
        "own position.",
        never(),
        SESSION,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "pruned-own-counts",
        "A writer does not take an older checkpoint of a head for the state at a node if a newer one of that "
        "head, at the node or nearer to it, was pruned.",
        value("[entry for entry in there if self._is_own(entry) and entry.id not in pruned]"),
        SESSION,
        test="tests/session/test_state_of_heads.py",
    ),
    Rule(
        "pruned-is-gone",
        "A writer forgets a checkpoint in its fold when a record prunes it, and looks up which checkpoint holds "
        "the state then.",
        never(),
        SESSION,
        test="tests/session/test_state_of_heads.py",
    ),
    Rule(
        "own-is-no-conflict",
        "A writer does not take a late append of its own for that of another writer.",
        value("bool(records)"),
        SESSION,
    ),
    Rule(
        "given-id-anew",
        "Before it sends a record under an id that its caller chose, a writer looks for that id among the records "
        "that other writers added since.",
        without(),
        LAPTOP,
        seed=3434,
    ),
    Rule(
        "put-off-id-anew",
        "Before it sends a buffered record under an id that its caller chose, a writer looks for that id among "
        "the records that other writers added since.",
        value("_NONE"),
        LAPTOP,
        seed=2884,
    ),
    Rule(
        "drop-own-late",
        "A writer does not discard a buffered record because another writer recorded one with the same id.",
        value("{record.id for record in news.records}"),
        LAPTOP,
        seed=5658,
    ),
    Rule(
        "one-id-one-record",
        "A writer refuses a chosen id for a node if a note or an edit has it, and for a note or an edit if a node "
        "has it; the same note again counts as recorded already.",
        value("{}"),
        test="tests/session/test_chosen_ids.py",
    ),
    Rule(
        "create-under-new-life",
        "Every attempt to create a session uses a new life: an earlier one may have been continued by another "
        "process, and deleted.",
        only_if("not self._lives"),
        NAMES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "bring-until-done",
        "Before a move is recorded, a process repeats its write of latest until it has replaced latest itself: a "
        "latest of another writer does not hold the records of the move.",
        also_if("True"),
        MOVES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "bring-before-move",
        "A process writes the records that a context needs into latest before the move to that context is recorded.",
        without(),
        MOVES,
    ),
    Rule(
        "carry-what-fits",
        "A process that writes latest leaves out the records for which latest has no room.",
        never(),
        test="tests/session/test_room.py",
    ),
    Rule(
        "carry-the-least",
        "A process that writes latest leaves out the state as well, if there is no room for that: then latest "
        "holds only the facts needed to find the rest.",
        never(),
        test="tests/session/test_room.py",
    ),
    Rule(
        "refuse-what-stays",
        "Before a process acknowledges a record, it refuses one that makes the card or the list of heads too "
        "large, since latest cannot leave these out.",
        without(),
        test="tests/session/test_room.py",
    ),
    # leases
    Rule(
        "take-by-swap",
        "A lease is taken, renewed and given back by replacing the tail that was seen.",
        argument("expect", "None"),
        LEASES,
    ),
    Rule(
        "spare-the-holder",
        "A lease is taken from a worker only after no sign of life was seen for the time that the lease states.",
        never(),
        LEASES,
    ),
    Rule(
        "sign-of-holder",
        "A sign of life is a change that only the holder makes: of the lease number, of the count of its "
        "renewals, of the end of the journal.",
        value("_Sign(view.life, lease.number, 0, 0)"),
        LEASES,
    ),
    Rule("raise-number", "A worker that takes a lease raises its number.", value("max(1, there.number)"), LEASES),
    Rule(
        "holder-only",
        "While a worker has the lease, no other worker appends; and a worker that lost the lease does not append, "
        "even if it is free again.",
        without(),
        LEASES,
    ),
    Rule(
        "keep-lease",
        "A process that rewrites the tail for another reason keeps the lease in it.",
        value(
            "msgspec.structs.replace(view.tail.header, base=base, before=(base, mark) if mark else UNSET, nonce=nonce, "
            "lease=UNSET)"
        ),
        LEASES,
    ),
    Rule("release-own", "Only the holder of a lease gives it back.", never(), LEASES),
    Rule(
        "fence-claim",
        "Who gives up after a claim without an answer replaces the tail that the claim names.",
        value("view"),
        LEASES,
        test="tests/session/test_leases.py",
    ),
    Rule(
        "tell-the-loser",
        "A handle that sees that another worker took its lease stops, and reports it.",
        without(),
        LEASES,
        test="tests/session/test_leases.py",
    ),
    # streams
    Rule(
        "note-first",
        "The note that begins a stream is durable before the first chunk of the stream is written.",
        first('yield from _tape(writer, new, "").begin()'),
        STREAMS,
    ),
    Rule(
        "swap-chunk",
        "A write replaces or extends the chunk that its writer saw, or does nothing.",
        argument("expect", "None"),
        STREAMS,
    ),
    Rule(
        "close-first",
        "A chunk is begun only after the one before was closed by its last write.",
        condition("self._chunk is not None and len(self._chunk.writes) > 1"),
        STREAMS,
    ),
    Rule(
        "same-line-again",
        "A write without an answer is sent again unchanged, before any other write.",
        without(),
        STREAMS,
    ),
    Rule(
        "take-stream",
        "A writer that goes on with a stream writes to the object in which the previous writer would write next, "
        "before it relies on what it read.",
        value("Swapped(cell.version, 0)"),
        STREAMS,
    ),
    Rule("tell-the-fenced", "A writer that finds another writer's line in its chunk stops.", never(), STREAMS),
    Rule(
        "look-behind-own-chunk",
        "A writer that began a chunk reads the journal after that, and stops if it does not have the stream any more.",
        without(),
        STREAMS,
        seed=303,
    ),
    Rule(
        "look-behind-late-chunk",
        "A writer whose write was refused, and that finds nothing new in a chunk of another version, reads the "
        "journal after that: a late write may have begun a deleted chunk again.",
        without(),
        STREAMS,
        test="tests/session/test_streams.py::test_a_writer_stops_at_its_own_chunk_if_only_a_late_write_is_in_it",
    ),
    Rule(
        "note-the-taker",
        "A writer that goes on with a stream of another writer, or keeps what is stored of it, first records that "
        "in the journal.",
        value("there.note"),
        STREAMS,
    ),
    Rule(
        "end-own",
        "Only the writer that took a stream last records its end, and only while the stream is open.",
        never(),
        STREAMS,
    ),
    Rule(
        "node-first",
        "The chunks of a stream are deleted only when the end of the stream is durable.",
        first("yield from drop_chunks(live.tape.chunks())"),
        STREAMS,
    ),
    Rule(
        "list-then-look",
        "A process that deletes chunks of ended streams first lists the chunks, and then reads which streams are open.",
        first(
            """
early = yield from look()
def look():
    yield from ()
    return early
"""
        ),
        STREAMS,
        test="tests/session/test_streams.py",
    ),
    Rule(
        "erase-pieces",
        "An erasure deletes the chunks of ended streams, too, before it returns the receipt.",
        without(),
        STREAMS,
        test="tests/session/test_streams.py",
    ),
    Rule(
        "tidy-pieces",
        "A call of optimize(everything=True) deletes the chunks of ended streams, too.",
        without(),
        STREAMS,
        test="tests/session/test_streams.py",
    ),
    Rule(
        "look-behind-chunk",
        "A reader shows a chunk only if the journal, read after it, says that the stream is open.",
        never(),
        STREAMS,
        test="tests/session/test_streams.py",
    ),
    Rule(
        "rest-from-node",
        "If a chunk is gone, a reader takes the rest of the answer from the node.",
        value("[end_piece(StreamStatus.COMPLETE, self.offset)]"),
        STREAMS,
    ),
    Rule(
        "copy-open-streams",
        "A copy is created only if the streams that are open in it are still open in the original, by a read of "
        "the journal after their chunks.",
        never(),
        STREAMS,
        test="tests/session/test_copies.py::test_an_answer_that_ends_while_it_is_copied_is_whole_in_the_copy",
    ),
    Rule(
        "sign-of-writer",
        "A reader takes a writer for dead only after the writer's chunk was unchanged for the time that the chunk "
        "states.",
        never(),
        STREAMS,
    ),
    # more rules of sessions
    Rule(
        "absent-thrice",
        "A reader relies on a register being absent only after it saw that three times in a row: the register may "
        "have existed in between.",
        never(),
        LIVES,
        test="tests/journal/test_look.py",
    ),
    Rule(
        "own-tombstone",
        "A life whose own tombstone is in the tail has ended; it is not a life without a tail.",
        never("life"),
        LIVES,
    ),
    Rule(
        "plan-anew",
        "A writer repeats a plan if the session changed while the plan was made.",
        condition("self._moved_on(seen, end) and False"),
        SESSION,
        test="tests/session/test_shared_races.py",
    ),
    Rule(
        "carry-on",
        "A process that replaces latest and covers nothing new keeps in it the records for a move that is not "
        "recorded yet.",
        never(),
        MOVES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "tidy-erases",
        "A call of optimize removes late copies of erased payloads, blobs included.",
        never(),
        ERASURES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "cover-anew",
        "A latest composed before an erasure is not written after it.",
        without(),
        ERASURES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "bring-from-tail",
        "A process writes the records for a move into latest also if they are in the tail: they may be sealed, "
        "and dropped.",
        value(
            "state.lines.keys() - state.borrowed | {decode_record(line).id for line in self._replica.view.tail.lines}"
        ),
        MOVES,
        test="tests/session/test_rare_meetings.py",
    ),
)


def stated_rules() -> list[tuple[str, str, str]]:
    """Letter, number and name of each rule on the page."""
    return re.findall(r"^\| ([A-Z])(\d+) \| `([a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
