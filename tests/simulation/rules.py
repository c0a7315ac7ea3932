"""The rules of the journal, each with the change to the code that breaks it: a mutant.

`docs/reference/journal.md` states the same rules with their reasons, under the same names. The code says with a comment
where it keeps one: `# rule: swap-tail`. The mutant changes the statement that is marked so; see
`tests.simulation.changes`. Code that is moved takes its marks along, and nothing has to be said here.

A rule stays in the table as long as the simulation notices its mutant; one that is never noticed is not a rule, or the
simulation lacks something.
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


class Rule(NamedTuple):
    """One rule and its mutant."""

    name: str
    sentence: str
    change: Change
    """What the mutant does to the statement that is marked."""
    kinds: tuple[str, ...] = STORE
    """Schedules that notice it soon; see `tests.simulation.schedule.KINDS`."""
    seed: int = 0
    """Of a schedule that noticed it once, for rules that few notice: it is tried first. Changes to the code move it."""
    test: str = ""
    """One that notices it, for rules that hardly one schedule in 100,000 needs: it is tried instead."""


RULES = (
    # append
    Rule("swap-tail", "An append replaces the tail it saw, or nothing.", argument("expect", "None")),
    Rule(
        "drop-sealed-only",
        "An append drops from the tail what lies in segments, never what latest merely covers.",
        value("view.fresh_lines"),
    ),
    Rule(
        "keep-unsealed",
        "An append keeps every record that lies in no segment.",
        value("() if view.sealed > view.tail.header.base else view.tail.lines"),
    ),
    Rule(
        "see-what-is-dropped",
        "What was dropped before a handle saw it is somebody else's, unless the mark of the base is its own.",
        never(),
        SESSION,
        test="tests/session/test_rare_meetings.py::test_an_exclusive_handle_stops_where_others_left_nothing_in_the_tail",
    ),
    Rule(
        "tail-reaches",
        "Nothing is written where a segment ends behind the tail.",
        never(),
        test="tests/corruption/test_moment.py::test_nothing_is_written_to_a_session_of_two_moments",
    ),
    Rule(
        "sealed-is-there",
        "Nothing is written where segments lack what the next append drops.",
        never(),
        test="tests/corruption/test_moment.py::test_nothing_is_written_to_a_session_of_two_moments",
    ),
    Rule(
        "epoch-reaches",
        "Nothing is written where a segment is of a later epoch than the tail.",
        never(),
        test="tests/corruption/test_moment.py::test_a_segment_of_a_later_epoch_than_the_tail_stops_who_writes",
    ),
    Rule(
        "erased-alike",
        "Nothing is written where a segment lacks other payloads than the tail says were erased by its epoch.",
        never(),
        test="tests/corruption/test_diverged.py::test_whatever_a_merge_leaves_is_one_copy_or_refused[aasE+aasE-memory]",
    ),
    Rule(
        "marks-agree",
        "Nothing is written where registers and names of segments tell different marks of a position.",
        never(),
        test="tests/corruption/test_diverged.py::test_whatever_a_merge_leaves_is_one_copy_or_refused",
    ),
    Rule(
        "compare-inside",
        "Segments that end inside others are compared by what they hold.",
        never(),
        test="tests/corruption/test_diverged.py::test_whatever_a_merge_leaves_is_one_copy_or_refused[as+akaasa-memory]",
    ),
    Rule(
        "accuse-late",
        "What does not fit has to be seen three times: others seal and merge between two answers.",
        always(),
    ),
    Rule(
        "seal-when-full",
        "A tail that has no room for an append is sealed first, whatever it compresses to.",
        never(),
        test="tests/session/test_room.py::test_a_context_larger_than_the_room_does_not_block_anything",
    ),
    Rule(
        "read-back",
        "After a refusal the writer looks who wrote at its position; a refusal alone proves nothing.",
        never(),
    ),
    Rule(
        "read-back-by-position",
        "It looks at its position in the journal, not in the context, which is bounded.",
        value("next((line for line in (*now.latest.lines, *now.tail.lines) if by.encode() in line), None)"),
    ),
    Rule(
        "doubt-is-told",
        "A writer that may not read back says that the outcome is unknown.",
        instead("raise"),
        test="tests/session/test_faults.py::test_an_append_that_cannot_be_read_back_has_an_unknown_outcome",
    ),
    Rule(
        "fence-doubt",
        "Records of an append without an answer are sent again only when the tail has changed since.",
        without_argument("fence"),
    ),
    Rule(
        "same-life",
        "A handle of a deleted session never goes on in one that was created again.",
        never(),
        test="tests/session/test_writers.py::test_handles_of_a_deleted_life_are_told",
    ),
    Rule(
        "whole-append",
        "The records of one append say that they belong together; a part of them does not count.",
        without_argument("more"),
        DISK,
    ),
    Rule(
        "append-behind-whole",
        "A log whose end is torn between two lines is written anew, not added to.",
        always("_ends_whole"),
        DISK,
        seed=346,
    ),
    Rule(
        "poison-rewrite",
        "After a failed sync the whole tail is written elsewhere before anything is acknowledged.",
        instead("return (yield from _settle(view, by, 0, nonce))"),
        DISK,
    ),
    # seal and close
    Rule("swap-latest", "Sealing and closing replace the latest they saw, or nothing.", argument("expect", "None")),
    Rule("segment-first", "Sealed rises only after the segment is durable.", in_other_order),
    Rule(
        "cover-forward",
        "Nobody replaces latest by a view whose tail ends before what latest covers.",
        never("covers"),
        seed=71,
    ),
    Rule(
        "cover-same-life",
        "A handle whose swap was lost to another life is told that its session was deleted.",
        never("life"),
        LIVES,
        seed=530,
    ),
    # markers
    Rule("marker-first", "A marker is durable before latest names it.", in_other_order),
    Rule("mark-creation", "So is that of a session to be created.", without(), LIVES),
    Rule(
        "mark-behind-look",
        "A creation puts its marker after it read or wrote the tombstones that it replaces.",
        in_other_order,
        LIVES,
        test="tests/session/test_recent.py::test_who_creates_a_session_puts_its_marker_where_nobody_takes_it_for_waste",
    ),
    Rule(
        "refuse-before-removal",
        "A marker is removed only after writes that may name it are refused.",
        value("(yield from _delete(keys, strays))"),
        LIVES,
        test="tests/session/test_recent.py::test_who_removes_markers_spares_that_of_a_session_created_meanwhile",
    ),
    Rule("mark-load", "So is that of a session to be loaded.", without()),
    Rule("name-marker-once", "The name of a marker is never used twice.", argument("unique", "'0'")),
    Rule(
        "drop-marker-last",
        "An older marker is deleted after latest names the newer one.",
        first("yield from marker.drop(view.keys, view.latest.card, latest.card)"),
    ),
    Rule("drop-unnamed", "A marker that latest names is not deleted.", condition("gone.marker"), LIVES),
    Rule("list-the-living", "The marker of a deleted session shows nothing.", never(), LIVES),
    Rule(
        "count-what-is-named",
        "A marker that latest does not name shows nothing.",
        always(),
        test=("tests/session/test_recent.py::test_lists_by_markers_show_what_lists_by_cards_show"),
    ),
    Rule(
        "count-what-moved",
        "A session that got another marker while a list was read is not passed over.",
        value("False"),
        test="tests/session/test_recent.py::test_a_session_that_gets_another_marker_while_a_list_is_read_is_not_passed_over",
    ),
    # resume
    Rule("fit-base", "A tail that begins after what latest covers does not fit it.", never()),
    Rule("fit-end", "A tail that ends before what latest covers does not fit it.", never()),
    Rule("fit-life", "Registers of different lives do not fit.", never(), LIVES),
    Rule(
        "fit-mark",
        "A tail that has another record in front of what latest covers does not fit it.",
        never(),
        test="tests/corruption/test_diverged.py::test_whatever_a_merge_leaves_is_one_copy_or_refused",
    ),
    Rule(
        "fit-erased",
        "Registers of one epoch that list different things as erased do not fit.",
        never(),
        test="tests/corruption/test_moment.py::test_registers_of_copies_that_erased_different_things_do_not_fit",
    ),
    Rule("misfit-twice", "The same two versions twice that do not fit are damage.", never()),
    Rule(
        "missing-tail",
        "A missing tail is damage where latest covers more than the session was born with.",
        never("covers"),
    ),
    # read
    Rule("reach-base", "The listed segments reach the tail's base without a gap, or the reader looks again.", always()),
    Rule(
        "no-gap",
        "A segment counts only where the ones before it reach.",
        condition("place < len(ordered) and ordered[place].name.first <= reach + 2"),
    ),
    Rule("gap-proven", "The same gap three times beside the same tail is damage.", never()),
    Rule(
        "gap-thrice",
        "A gap seen twice may be that of a session which is deleted right then.",
        condition("attempts.in_a_row(seen) == 2"),
        ERASURES,
        test="tests/session/test_rare_meetings.py::test_a_gap_that_is_seen_twice_may_be_that_of_a_session_which_is_deleted",
    ),
    Rule(
        "look-again-graph",
        "A reader of the graph whose segment vanished was overtaken by a merge, and looks again.",
        instead("raise"),
    ),
    Rule("look-again-walk", "So does a walk over all records.", instead("raise"), seed=184),
    Rule("look-again-record", "So does whoever looks up single records.", instead("raise")),
    Rule(
        "rows-reach-base",
        "Who looks at single rows again lists the segments again once the tail begins behind those listed before.",
        condition("self._segments"),
        SESSION,
    ),
    Rule(
        "name-once",
        "Segments that latest names, of which one was gone, are not asked for again.",
        without(),
        test="tests/session/test_lookup.py::test_segments_that_latest_names_and_another_writer_merged_are_listed",
    ),
    Rule("reads-end", "A read ends, whatever the store answers.", always()),
    Rule("look-at-same-life", "Whoever looks again looks at the same life.", never(), seed=725),
    Rule("read-once", "A position that several segments hold is read once.", value("0")),
    # merge
    Rule("output-first", "The output of a merge is durable before an input is deleted.", in_other_order),
    Rule(
        "merge-neighbours",
        "Only contiguous runs are merged.",
        value("plan_all(where.segments[::2]) if everything else plan(where.segments)"),
    ),
    Rule("merge-once", "A merge takes a position that several inputs hold from one of them.", without_slice()),
    Rule(
        "oldest-epoch",
        "The output of a merge carries the oldest epoch of its inputs.",
        value("max(segment.name.epoch for segment in run)"),
        seed=1292,
    ),
    Rule("waste-within", "A segment is waste only if another one holds all of its positions.", always(), seed=439),
    Rule("spare-twins", "Of two segments that hold the same positions neither is waste.", always(1), seed=3592),
    Rule(
        "read-holder",
        "A segment is waste only once the one that holds its positions was read.",
        without(),
        test="tests/corruption/test_owner.py::test_a_segment_of_another_session_is_damage",
    ),
    # follow
    Rule(
        "follow-same-life",
        "A feed ends with the life, and tells nothing of a later one of that name.",
        without(),
        test="tests/session/test_events.py::test_a_feed_ends_with_the_life",
    ),
    Rule(
        "follow-segments",
        "What left the tail before it was told is read in segments.",
        value("self._from_recent(recent)"),
        test="tests/session/test_events.py::test_a_reader_goes_on_behind_any_event",
    ),
    Rule(
        "follow-acts",
        "Each act of erasing is told.",
        value("()"),
        test="tests/session/test_events.py::test_each_type_has_its_value",
    ),
    Rule(
        "follow-bury",
        "Records kept from earlier looks are shown as erased once an act says so.",
        without(),
        test="tests/session/test_events.py::test_what_is_kept_for_others_is_erased_as_well",
    ),
    # create and delete
    Rule(
        "create-latest-first",
        "Creation writes latest before the tail.",
        first(
            """
tail = empty_tail(card, keys.session, nonce)
yield (TailRegister(keys).prepare(tail, expect=seen.tail_version),)
"""
        ),
    ),
    Rule("create-swaps", "Creation replaces the latest it saw, or nothing.", argument("expect", "None"), LIVES),
    Rule("create-if-free", "A name is used again only when the life before it was deleted.", never(), LIVES),
    Rule("adopt", "Whoever finds latest of a life without a tail may go on with it.", always(), LIVES),
    Rule(
        "adopt-at-rest",
        "A life without a tail beside an older tombstone is believed only when two looks in a row show it.",
        always(1),
        LIVES,
        seed=9591,
    ),
    Rule(
        "tail-from-born",
        "The tail begins behind the records that the life was born with.",
        argument("base", "0"),
        LIVES,
    ),
    Rule(
        "load-segments-first",
        "A session is born only when the segments of its records are durable.",
        in_other_order,
        NAMES,
    ),
    Rule(
        "discard-refused",
        "What was loaded is removed only if its creation was refused, never while it is in doubt.",
        catching("(ConflictError, OSError)"),
        NAMES,
    ),
    Rule(
        "fence-without-tail",
        "Deletion writes its tombstone into the tail also where there is no tail yet.",
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
        "Deletion puts its tombstone in the tail first, where appends are swapped.",
        first("yield from _bury(seen, life, nonce)\nyield from _empty_folder(keys.folder(life))"),
        LIVES,
    ),
    Rule(
        "delete-one-life",
        "A deletion ends the life it found and no later one.",
        first("life = seen.life"),
        LIVES,
        seed=6062,
    ),
    Rule("bury-own", "A deletion marks the card of its own life only.", never("life"), LIVES),
    Rule(
        "stone-has-own-id",
        "A tombstone is a write of its own: no writer takes it for the one whose answer it did not get.",
        value("register.tombstone(life, card.write, updated=card.updated, marker=card.marker)"),
        LIVES,
        test="tests/session/test_deleted_meanwhile.py::test_a_writer_without_an_answer_does_not_take_the_tombstone_for_its_own",
    ),
    Rule(
        "finish-deletion",
        "A deletion that was cut short is finished by the next one.",
        then("if seen.dead: return"),
        LIVES,
    ),
    Rule("own-folder", "Every life has a folder of its own.", value('f"{self.home}life/"')),
    # erase
    Rule(
        "announce-nothing",
        "What a card announces of records is no part of the fold until latest accounts for them.",
        always(),
        SESSION,
    ),
    Rule(
        "erase-tail-first",
        "Erasing swaps the tail before latest follows.",
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
        "An erasure that was overtaken looks for copies made meanwhile.",
        condition("not self._end"),
        ERASURES,
        seed=19,
    ),
    Rule(
        "fence-what-is-there",
        "Nothing behind the end is listed as erased: a record seen before it was safe may be gone.",
        never(),
        DISK,
        test="tests/session/test_rare_meetings.py::test_nothing_behind_the_end_is_listed_as_erased",
    ),
    Rule(
        "cover-one-epoch", "A view whose registers are of different epochs replaces nothing.", never("torn"), seed=3070
    ),
    Rule("heal-anybody", "Whoever needs latest lets it follow the tail first.", without(), ERASURES),
    Rule(
        "heal-whole",
        "Latest follows the tail in all that was erased.",
        value("bury(view.latest, burials(view.tail.header.erased[-1:], view.burials.erasures[-1:]))"),
    ),
    Rule("rewrite-first", "A dirty segment is rewritten before it is deleted.", without()),
    Rule("sweep-all", "It goes on until a listing shows no dirty segment.", over("where.segments")),
    Rule(
        "name-epoch",
        "The name of a segment tells of the epoch that its lines were read under.",
        value("SegmentName.marked(first, view.end, view.epoch + 1, unique, marks)"),
    ),
    Rule(
        "bury-on-read",
        "What the tail says was erased is shown as erased, whatever a segment holds.",
        without_call("bury"),
        seed=711,
    ),
    Rule("bury-memory", "A handle forgets what was erased before it writes latest again.", value("False"), ERASURES),
    Rule(
        "bury-latest-read",
        "Who reads latest before it followed the tail leaves out what was erased.",
        never(),
        ERASURES,
    ),
    Rule(
        "bury-brought",
        "What was read before an erasure is not brought into latest after it.",
        without_call("bury_line"),
        ERASURES,
        seed=2054,
    ),
    Rule("no-copies-after", "Nobody records a copy of what was erased.", without_call("without_messages"), ERASURES),
    Rule("no-edits-after", "Nobody amends what was erased.", never(), ERASURES),
    Rule(
        "gone-blobs",
        "Nobody refers to a blob that an erasure listed.",
        without_argument("inside"),
        ERASURES,
        test="tests/session/test_erasing.py::test_what_was_a_blob_that_was_erased_is_kept_inside_when_it_is_said_again",
    ),
    Rule(
        "shared-blobs",
        "A blob is deleted only if no record that is left refers to it.",
        value("sorted(listed)"),
        ERASURES,
    ),
    Rule("fork-links-first", "A fork tells its parent where it is before it copies.", without(), ERASURES, seed=560),
    Rule(
        "fork-reads-last",
        "A fork reads what it copies after it took its name.",
        without(),
        ERASURES,
        test="tests/session/test_erasure_beside.py::test_a_fork_that_was_killed_when_it_was_made_holds_nothing_"
        "that_was_erased_meanwhile",
    ),
    Rule(
        "refuse-forks",
        "Whoever erases refuses the forks under way, which may have read it before.",
        always(),
        ERASURES,
        seed=392,
    ),
    Rule(
        "sweep-forks",
        "Whoever erases removes what a fork that was killed left beside one that lives.",
        without(),
        ERASURES,
        test="tests/session/test_rare_meetings.py::test_what_a_killed_fork_left_beside_one_that_lives_goes_with_what_is_erased",
    ),
    Rule("every-copy", "Erasing a message takes the copies that checkpoints hold of it.", value("0"), ERASURES),
    Rule(
        "every-value",
        "Erasing a key of the state takes every value that it ever had.",
        only_if("not self.records"),
        SECRETS,
    ),
    Rule("values-in-forks", "A fork that was linked before loses its values of the key, too.", value("[]"), SECRETS),
    Rule(
        "forget-values",
        "A handle forgets the values that were erased before it writes latest again.",
        without_call("bury_checkpoint"),
        SECRETS,
    ),
    Rule(
        "forget-basis",
        "A handle forgets erased values of the checkpoint that it stands on, also where that is not the newest.",
        never(),
        SECRETS,
        test="tests/session/test_erasing_state.py::test_a_handle_that_stands_on_an_older_checkpoint_forgets_it_too",
    ),
    Rule("copy-clean", "A copy holds nothing that was erased after its segment was written.", value("False"), ERASURES),
    Rule(
        "copy-looks-again",
        "A copy is created only if nothing was erased since it looked at the original.",
        always(),
        ERASURES,
        seed=161,
    ),
    Rule(
        "copy-leaves-nothing",
        "What an earlier look copied, and the last one does not show, is gone before a copy is created.",
        without(),
        ERASURES,
    ),
    Rule(
        "copy-shared-blobs",
        "A blob that an erasure listed is copied only if a record that is left refers to it.",
        never(),
        ERASURES,
        seed=276,
    ),
    # purge
    Rule("stones-first", "A life begins in place of a tombstone, never where nothing is.", always(), LIVES, seed=4084),
    Rule(
        "load-looks-first",
        "A load looks at latest before it writes anything.",
        argument("seen", "None"),
        NAMES,
        seed=10330,
    ),
    Rule(
        "purge-refuses-loads",
        "Before folders are deleted beside a tombstone, that is replaced.",
        never(),
        LIVES,
        seed=3321,
    ),
    Rule("purge-lists-first", "Folders are listed before latest is looked at.", in_other_order, LIVES, seed=1030),
    Rule(
        "purge-by-version",
        "Tombstones are deleted by version.",
        without_argument("expect"),
        LIVES,
        test="tests/session/test_purging.py",
    ),
    Rule(
        "purge-at-rest",
        "Both tombstones were there at one moment.",
        always(),
        test="tests/session/test_purging.py::test_a_purge_leaves_what_ends_a_life_that_began_meanwhile",
    ),
    Rule("spare-the-living", "The folder of the life that latest names stays.", always(), LIVES),
    # a session
    Rule(
        "settle-first",
        "A handle finds out what became of an append without an answer before it sends the next one.",
        value("None"),
        SESSION,
        seed=413,
    ),
    Rule(
        "late-move",
        "A handle that its append moves, as turns out later, stands on the checkpoint it stood on then.",
        without(),
        LAPTOP,
        test="tests/session/test_shared_races.py",
    ),
    Rule("exclusive-stops", "An exclusive handle stops when somebody else wrote.", value("False"), SESSION),
    Rule(
        "stop-while-planning",
        "So it does if it was looking at the graph for what to record when it saw that.",
        without(),
        LAPTOP,
        test="tests/session/test_writers.py",
    ),
    Rule(
        "see-what-is-covered",
        "Who folds anew from latest looks for others also in what that covers by now, as far as the tail has it.",
        over("()"),
        ERASURES,
        test="tests/session/test_writers.py",
    ),
    Rule(
        "plan-again",
        "What was planned is planned again if a handle learns of others while it seals a full tail for it.",
        never("_moved_on"),
        SESSION,
        test="tests/session/test_shared_races.py",
    ),
    Rule(
        "state-stands",
        "A checkpoint that says something of the state goes upon the newest one of its head, or beside it.",
        never(),
        SESSION,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "first-head-stays",
        "The head of a session that has state alone is recorded before another one, which would be the only one.",
        never(),
        LAPTOP,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "shown-stays",
        "What a caller was shown changes when it looks or goes elsewhere, and not because a call met others.",
        without_argument("blindly"),
        SESSION,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "seal-shows-nothing",
        "What a full tail's seal read of others is shown to nobody by the append that it was for.",
        value("False"),
        test="tests/session/test_rare_meetings.py::test_what_a_seal_of_a_full_tail_read_was_shown_to_nobody",
    ),
    Rule(
        "own-head-is-apart",
        "What a handle stands on at its own head is no state of the head that another writer made current there.",
        never(),
        test=(
            "tests/session/test_rare_meetings.py"
            "::test_a_branch_keeps_its_state_where_a_refused_handle_of_another_head_seals"
        ),
    ),
    Rule(
        "own-is-not-common",
        "Latest is made of what everybody folds, and not of what a handle stands on.",
        never(),
        SESSION,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "pruned-own-counts",
        "Where a head's own checkpoint was pruned, no older one of it stands in: it may tell of a branch that it left.",
        value("[entry for entry in there if self._is_own(entry) and entry.id not in pruned]"),
        SESSION,
        test="tests/session/test_state_of_heads.py",
    ),
    Rule(
        "pruned-is-gone",
        "Who has a pruned checkpoint in memory forgets it, and looks which one holds the state now, as everybody does.",
        never(),
        SESSION,
        test="tests/session/test_state_of_heads.py",
    ),
    Rule("own-is-no-conflict", "A late append of one's own is no conflict.", value("bool(records)"), SESSION),
    Rule(
        "given-id-anew",
        "An id that a caller chose is looked for again in what others recorded since, before its record is sent.",
        without(),
        LAPTOP,
        seed=2400,
    ),
    Rule("put-off-id-anew", "So is that of a record that was put off.", value("_NONE"), LAPTOP, seed=107),
    Rule(
        "drop-own-late",
        "What was put off is dropped for a record of one's own, not for another's of the same id.",
        value("{record.id for record in news.records}"),
        LAPTOP,
        seed=3499,
    ),
    Rule(
        "one-id-one-record",
        "An id names one node, note or edit; the same note again is recorded already.",
        value("{}"),
        test="tests/session/test_chosen_ids.py",
    ),
    Rule(
        "create-under-new-life",
        "Every try to create is a life of its own.",
        only_if("not self._lives"),
        NAMES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "bring-until-done",
        "A move is recorded only when latest was replaced; somebody else's latest does not carry what it needs.",
        also_if("True"),
        MOVES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "bring-before-move",
        "What a context needs is brought into latest before the move to it is recorded.",
        without(),
        MOVES,
    ),
    Rule(
        "carry-what-fits",
        "Whoever writes latest leaves out what it has no room for; it can always be written.",
        never(),
        test="tests/session/test_room.py",
    ),
    Rule(
        "carry-the-least",
        "If there is no room for the state either, latest says only what all else is found by.",
        never(),
        test="tests/session/test_room.py",
    ),
    Rule(
        "refuse-what-stays",
        "What latest cannot leave out is refused before it is acknowledged.",
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
        "A lease is taken from somebody only when no sign of life was seen for its time.",
        never(),
        LEASES,
    ),
    Rule(
        "sign-of-holder",
        "What its holder records is a sign of life, as its renewals are.",
        value("_Sign(view.life, lease.number, 0, 0)"),
        LEASES,
    ),
    Rule("raise-number", "Whoever takes a lease raises its number.", value("max(1, there.number)"), LEASES),
    Rule("holder-only", "Nobody else records anything while somebody has the lease.", without(), LEASES),
    Rule(
        "keep-lease",
        "Whoever rewrites the tail keeps what it says of the lease.",
        value(
            "msgspec.structs.replace(view.tail.header, base=base, before=(base, mark) if mark else UNSET, nonce=nonce, "
            "lease=UNSET)"
        ),
        LEASES,
    ),
    Rule("release-own", "A lease is given back only by who has it.", never(), LEASES),
    Rule(
        "tell-the-loser",
        "A handle whose lease another one took stops, and says why.",
        without(),
        LEASES,
        test="tests/session/test_leases.py",
    ),
    # streams
    Rule(
        "note-first",
        "The journal tells of a stream before any piece of it is stored.",
        first('yield from _tape(writer, new, "").begin()'),
        STREAMS,
    ),
    Rule("swap-chunk", "A write replaces the chunk that it saw, or nothing.", argument("expect", "None"), STREAMS),
    Rule(
        "close-first",
        "A chunk is begun only when the one before is closed.",
        condition("self._chunk is not None and len(self._chunk.writes) > 1"),
        STREAMS,
    ),
    Rule("same-line-again", "A write without an answer is sent again as it was.", without(), STREAMS),
    Rule(
        "take-stream",
        "Who goes on with a stream writes first where the writer before would write next.",
        value("Swapped(cell.version, 0)"),
        STREAMS,
    ),
    Rule("tell-the-fenced", "Who finds another writer in its chunk stops.", never(), STREAMS),
    Rule(
        "look-behind-own-chunk",
        "Who begins a chunk looks behind that whether it still has the stream.",
        without(),
        STREAMS,
        seed=303,
    ),
    Rule(
        "look-behind-late-chunk",
        "Who finds a chunk that is not the one it knew looks behind that whether it still has the stream.",
        without(),
        STREAMS,
        test="tests/session/test_streams.py::test_a_writer_stops_at_its_own_chunk_if_only_a_late_write_is_in_it",
    ),
    Rule("note-the-taker", "The journal tells of who goes on before that reads.", value("there.note"), STREAMS),
    Rule("end-own", "Only who took a stream last ends it.", never(), STREAMS),
    Rule(
        "node-first",
        "The pieces are removed when the node is durable.",
        first("yield from drop_chunks(live.tape.chunks())"),
        STREAMS,
    ),
    Rule(
        "list-then-look",
        "Who tidies reads which streams are open behind the list of what there is.",
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
        "Who erases removes the pieces of streams that have ended, too.",
        without(),
        STREAMS,
        test="tests/session/test_streams.py",
    ),
    Rule("tidy-pieces", "Whoever tidies up removes them.", without(), STREAMS, test="tests/session/test_streams.py"),
    Rule(
        "look-behind-chunk",
        "A chunk is shown only if the journal, read behind it, says that the stream is open.",
        never(),
        STREAMS,
        test="tests/session/test_streams.py",
    ),
    Rule(
        "rest-from-node",
        "What was not shown when the chunks went is told from the node.",
        value("[end_piece(StreamStatus.COMPLETE, self.offset)]"),
        STREAMS,
    ),
    Rule(
        "copy-open-streams",
        "A copy shows an answer as being written only if it still is behind the look at its pieces.",
        never(),
        STREAMS,
        test="tests/session/test_copies.py::test_an_answer_that_ends_while_it_is_copied_is_whole_in_the_copy",
    ),
    Rule("sign-of-writer", "A writer is taken for dead only after its time without a sign.", never(), STREAMS),
    # what the session protocol does beside them
    Rule(
        "absent-thrice",
        "A register that is missing has to be seen missing three times: it may have been there in between.",
        never(),
        LIVES,
        test="tests/journal/test_look.py",
    ),
    Rule(
        "own-tombstone",
        "A life whose own tombstone is in the tail is over, and is no life without a tail yet.",
        never("life"),
        LIVES,
    ),
    Rule(
        "plan-anew",
        "What was planned while the session moved on is planned again.",
        condition("self._moved_on(seen, end) and False"),
        SESSION,
        test="tests/session/test_shared_races.py",
    ),
    Rule(
        "carry-on",
        "Who replaces latest and accounts for nothing new leaves in it what was brought for a move.",
        never(),
        MOVES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "tidy-erases",
        "Whoever tidies takes away what was stored late of what was erased.",
        never(),
        ERASURES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "cover-anew",
        "What was made up before an erasure is not covered after it.",
        without(),
        ERASURES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "bring-from-tail",
        "What lies in the tail is brought, too: it may be sealed, and dropped.",
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
