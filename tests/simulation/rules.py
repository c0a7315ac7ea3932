"""The rules of the journal, each with the change to the code that breaks it: a mutant.

`docs/reference/journal.md` states the same rules with their reasons, under the same names. A rule stays in the table as
long as the simulation notices its mutant; one that is never noticed is not a rule, or the simulation lacks something.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs/reference/journal.md"

STORE, LIVES, DISK = ("store",), ("lives",), ("disk",)
SESSION, MOVES, NAMES, LAPTOP = ("session",), ("moves",), ("names",), ("laptop",)
ERASURES, SECRETS = ("erasures",), ("secrets",)


class Rule(NamedTuple):
    """One rule and its mutant."""

    name: str
    sentence: str
    file: str
    """Below the package."""
    before: str
    """What the code says; occurs exactly once in the file."""
    after: str
    """What the mutant says instead."""
    kinds: tuple[str, ...] = STORE
    """Schedules that notice it soon; see `tests.simulation.schedule.KINDS`."""
    seed: int = 0
    """Of a schedule that noticed it once, for rules that few notice: it is tried first. Changes to the code move it."""
    test: str = ""
    """One that notices it, for rules that hardly one schedule in 100,000 needs: it is tried instead."""


RULES = (
    # append
    Rule(
        "swap-tail",
        "An append replaces the tail it saw, or nothing.",
        "journal/append.py",
        "    return Put(view.keys.tail, data, expect=view.tail_version), tail",
        "    return Put(view.keys.tail, data), tail",
    ),
    Rule(
        "drop-sealed-only",
        "An append drops from the tail what lies in segments, never what latest merely covers.",
        "journal/append.py",
        "    kept = view.unsealed_lines\n",
        "    kept = view.fresh_lines\n",
    ),
    Rule(
        "keep-unsealed",
        "An append keeps every record that lies in no segment.",
        "journal/append.py",
        "    kept = view.unsealed_lines\n",
        "    kept = () if view.sealed > view.tail.header.base else view.tail.lines\n",
    ),
    Rule(
        "drop-in-append",
        "Nothing but an append drops anything: a base that rose tells that somebody appended.",
        "journal/erase.py",
        "    header, lines = view.tail.header, view.tail.lines\n",
        """    lines = view.unsealed_lines
    header = msgspec.structs.replace(view.tail.header, base=view.end - len(lines))
""",
        ERASURES,
        test="tests/session/test_never_safe.py",
    ),
    Rule(
        "tail-reaches",
        "Nothing is written where a segment ends behind the tail.",
        "journal/moment.py",
        "    if end > view.end:\n",
        "    if False:\n",
        test="tests/corruption/test_moment.py",
    ),
    Rule(
        "sealed-is-there",
        "Nothing is written where segments lack what the next append drops.",
        "journal/moment.py",
        "    if reach < view.sealed:\n",
        "    if False:\n",
        test="tests/corruption/test_moment.py",
    ),
    Rule(
        "accuse-late",
        "What does not fit has to be seen three times: others seal and merge between two answers.",
        "journal/moment.py",
        "        if looks == GAPS_PROVE:\n",
        "        if True:\n",
    ),
    Rule(
        "seal-when-full",
        "A tail that has no room for an append is sealed first, whatever it compresses to.",
        "journal/append.py",
        "    if size_of(kept) + size_of(lines) > room():\n",
        "    if False:\n",
        test="tests/session/test_room.py",
    ),
    Rule(
        "read-back",
        "After a refusal the writer looks who wrote at its position; a refusal alone proves nothing.",
        "journal/append.py",
        "    return (yield from _settle(view, by, len(request.data), nonce, rewrite=poisoned))",
        """    now = yield from resume(view.keys)
    now.require_same_life(view.life)
    return Overtaken(now, "somebody")""",
    ),
    Rule(
        "read-back-by-position",
        "It looks at its position in the journal, not in the context, which is bounded.",
        "journal/append.py",
        "        there = yield from record_at(now, view.end)\n",
        "        there = next((line for line in (*now.latest.lines, *now.tail.lines) if by.encode() in line), None)\n",
    ),
    Rule(
        "fence-doubt",
        "Records of an append without an answer are sent again only when the tail has changed since.",
        "journal/append.py",
        "rewrite=view.keys.appends, fence=True",
        "rewrite=view.keys.appends, fence=False",
    ),
    Rule(
        "same-life",
        "A handle of a deleted session never goes on in one that was created again.",
        "journal/view.py",
        "        if self.life != life:\n",
        "        if False:\n",
        test="tests/session/test_writers.py",
    ),
    Rule(
        "whole-append",
        "The records of one append say that they belong together; a part of them does not count.",
        "journal/append.py",
        "more=place < last",
        "more=False",
        DISK,
    ),
    Rule(
        "append-behind-whole",
        "A log whose end is torn between two lines is written anew, not added to.",
        "journal/resume.py",
        " and self._ends_whole,\n",
        ",\n",
        DISK,
    ),
    Rule(
        "poison-rewrite",
        "After a failed sync the whole tail is written elsewhere before anything is acknowledged.",
        "journal/append.py",
        """        request, tail = _request(view, lines, nonce, in_place=False)
        (answer,) = yield (request,)
""",
        "        return (yield from _settle(view, by, len(request.data), nonce, rewrite=False))\n",
        DISK,
    ),
    Rule(
        "settle-durable",
        "A record that is found in a log after a doubt is written anew before it is acknowledged.",
        "journal/append.py",
        "rewrite=view.keys.appends, fence=True",
        "rewrite=False, fence=True",
        DISK,
        seed=480,
    ),
    # seal and close
    Rule(
        "swap-latest",
        "Sealing and closing replace the latest they saw, or nothing.",
        "journal/cover.py",
        "Put(view.keys.latest, data, expect=view.latest_version)",
        "Put(view.keys.latest, data)",
    ),
    Rule(
        "segment-first",
        "Sealed rises only after the segment is durable.",
        "journal/cover.py",
        """        yield from ask(_segment(view, nonce), Written)
        sealed = view.end
    card = msgspec.structs.replace(
        card,
        session=view.keys.session,
        life=view.life,
        epoch=view.latest.card.epoch,
        erased=view.latest.card.erased,
        erasures=view.latest.card.erasures,
        covers=view.end,
        sealed=sealed,
        dead=False,
        write=nonce,
        lines=len(lines),
    )
    return (yield from _swap(view, Latest(card=card, lines=tuple(lines))))
""",
        """        sealed = view.end
    card = msgspec.structs.replace(
        card,
        session=view.keys.session,
        life=view.life,
        epoch=view.latest.card.epoch,
        erased=view.latest.card.erased,
        erasures=view.latest.card.erasures,
        covers=view.end,
        sealed=sealed,
        dead=False,
        write=nonce,
        lines=len(lines),
    )
    outcome = yield from _swap(view, Latest(card=card, lines=tuple(lines)))
    if sealing:
        yield from ask(_segment(view, nonce), Written)
    return outcome
""",
    ),
    Rule(
        "cover-forward",
        "Nobody replaces latest by a view whose tail ends before what latest covers.",
        "journal/cover.py",
        " or view.end < view.covers:",
        ":",
        seed=129,
    ),
    Rule(
        "cover-same-life",
        "A handle whose swap was lost to another life is told that its session was deleted.",
        "journal/cover.py",
        "    if there.card.dead or there.card.life != view.life:\n",
        "    if there.card.dead:\n",
        LIVES,
    ),
    Rule(
        "cover-durable",
        "What was only seen in a log is written anew before latest or a segment tells of it.",
        "journal/cover.py",
        "    if not view.durable:\n",
        "    if False:\n",
        DISK,
        seed=2262,
    ),
    # resume
    Rule(
        "fit-base",
        "A tail that begins after what latest covers does not fit it.",
        "journal/resume.py",
        "        if tail.header.base > card.covers:\n",
        "        if False:\n",
    ),
    Rule(
        "fit-end",
        "A tail that ends before what latest covers does not fit it.",
        "journal/resume.py",
        "        if tail.end < card.covers:\n",
        "        if False:\n",
    ),
    Rule(
        "fit-life",
        "Registers of different lives do not fit.",
        "journal/resume.py",
        "        if card.dead or tail.header.dead or tail.header.life != card.life:\n",
        "        if False:\n",
        LIVES,
    ),
    Rule(
        "misfit-twice",
        "The same two versions twice that do not fit are damage.",
        "journal/resume.py",
        "        if looks == seen.proven_by:\n",
        "        if False:\n",
    ),
    Rule(
        "log-last",
        "A log is read after latest: what that covers is in whichever log is read later.",
        "journal/resume.py",
        "    if any(keys.appends for keys in sessions):\n",
        "    if False:\n",
        DISK,
        test="tests/journal/test_look.py",
    ),
    Rule(
        "missing-tail",
        "A missing tail is damage where latest covers more than the session was born with.",
        "journal/resume.py",
        "self.card.dead or self.card.covers != self.card.born:\n",
        "self.card.dead:\n",
    ),
    # read
    Rule(
        "reach-base",
        "The listed segments reach the tail's base without a gap, or the reader looks again.",
        "journal/read.py",
        "        if reach >= tail.header.base:\n",
        "        if True:\n",
    ),
    Rule(
        "no-gap",
        "A segment counts only where the ones before it reach.",
        "journal/read.py",
        "ordered[place].name.first <= reach:",
        "ordered[place].name.first <= reach + 2:",
    ),
    Rule(
        "gap-proven",
        "The same gap three times beside the same tail is damage.",
        "journal/read.py",
        "        if looks == GAPS_PROVE:\n",
        "        if False:\n",
    ),
    Rule(
        "gap-thrice",
        "A gap seen twice may be that of a session which is deleted right then.",
        "journal/read.py",
        "        if looks == GAPS_PROVE:\n",
        "        if looks == 2:\n",
        ERASURES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "look-again-graph",
        "A reader of the graph whose segment vanished was overtaken by a merge, and looks again.",
        "journal/read.py",
        """            rows = yield from _sealed_skeletons(found.segments)
        except NotFoundError:
            continue
""",
        """            rows = yield from _sealed_skeletons(found.segments)
        except NotFoundError:
            raise
""",
    ),
    Rule(
        "look-again-walk",
        "So does a walk over all records.",
        "journal/read.py",
        """            lines = yield from segment_lines(segment)
        except NotFoundError:
            continue
""",
        """            lines = yield from segment_lines(segment)
        except NotFoundError:
            raise
""",
        seed=78,
    ),
    Rule(
        "look-again-record",
        "So does whoever looks up single records.",
        "journal/read.py",
        """            found |= yield from sealed_records(where, wanted)
        except NotFoundError:
            continue
""",
        """            found |= yield from sealed_records(where, wanted)
        except NotFoundError:
            raise
""",
    ),
    Rule(
        "reads-end",
        "A read ends, whatever the store answers.",
        "journal/read.py",
        """    for _ in range(LOOKS_MAX):
        found = yield from survey(keys, life)
        try:
""",
        """    while True:
        found = yield from survey(keys, life)
        try:
""",
    ),
    Rule(
        "look-at-same-life",
        "Whoever looks again looks at the same life.",
        "journal/read.py",
        "        if life and tail.header.life != life:\n",
        "        if False:\n",
        seed=1589,
    ),
    Rule(
        "read-once",
        "A position that several segments hold is read once.",
        "journal/read.py",
        "            rows += new[len(rows) - footer.first :]\n",
        "            rows += new\n",
    ),
    # merge
    Rule(
        "output-first",
        "The output of a merge is durable before an input is deleted.",
        "journal/merge.py",
        """    yield from ask(Put(key, data), Written)
    waste = [segment for segment in where.waste if _holds(name, segment.name)]
    yield from delete_segments([*run, *waste])
""",
        """    waste = [segment for segment in where.waste if _holds(name, segment.name)]
    yield from delete_segments([*run, *waste])
    yield from ask(Put(key, data), Written)
""",
    ),
    Rule(
        "merge-neighbours",
        "Only contiguous runs are merged.",
        "journal/merge.py",
        "    runs = plan_all(where.segments) if everything",
        "    runs = plan_all(where.segments[::2]) if everything",
    ),
    Rule(
        "merge-once",
        "A merge takes a position that several inputs hold from one of them.",
        "journal/merge.py",
        "(yield from segment_lines(segment))[first + len(lines) - segment.name.first :]",
        "(yield from segment_lines(segment))",
    ),
    Rule(
        "oldest-epoch",
        "The output of a merge carries the oldest epoch of its inputs.",
        "journal/merge.py",
        "    epoch = max(where.tail.header.epoch, min(segment.name.epoch for segment in run))\n",
        "    epoch = max(segment.name.epoch for segment in run)\n",
        seed=1819,
    ),
    Rule(
        "waste-within",
        "A segment is waste only if another one holds all of its positions.",
        "journal/merge.py",
        " if _holds(kept.name, each.name) and not _holds(each.name, kept.name)]",
        "]",
    ),
    Rule(
        "spare-twins",
        "Of two segments that hold the same positions neither is waste.",
        "journal/merge.py",
        " and not _holds(each.name, kept.name)]",
        "]",
        seed=447,
    ),
    Rule(
        "read-holder",
        "A segment is waste only once the one that holds its positions was read.",
        "journal/merge.py",
        "            yield from segment_lines(kept)\n",
        "            pass\n",
        test="tests/corruption/test_owner.py",
    ),
    # create and delete
    Rule(
        "create-latest-first",
        "Creation writes latest before the tail.",
        "journal/life.py",
        """    latest = Latest(card=card, lines=lines)
    (answer,) =""",
        """    latest = Latest(card=card, lines=lines)
    first = encode_tail(empty_tail(card, keys.session, nonce), compressed=not keys.appends)
    yield (Put(keys.tail, first, expect=seen.tail_version),)
    (answer,) =""",
    ),
    Rule(
        "create-swaps",
        "Creation replaces the latest it saw, or nothing.",
        "journal/life.py",
        """encode_latest(card, lines), expect=seen.latest_version),)
    if isinstance(answer, Written):
        tail =""",
        """encode_latest(card, lines)),)
    if isinstance(answer, Written):
        tail =""",
        LIVES,
    ),
    Rule(
        "create-if-free",
        "A name is used again only when the life before it was deleted.",
        "journal/life.py",
        """        if not (seen.absent or seen.dead):
            raise _exists(keys)
        if ABSENT""",
        "        if ABSENT",
        LIVES,
    ),
    Rule(
        "adopt",
        "Whoever finds latest of a life without a tail may go on with it.",
        "journal/resume.py",
        "        if self.card is None or self.card.dead or self.card.covers != self.card.born:\n",
        "        if True:\n",
        LIVES,
    ),
    Rule(
        "adopt-at-rest",
        "A life without a tail beside an older tombstone is believed only when two looks in a row show it.",
        "journal/resume.py",
        " and (not seen.torn or looks == seen.proven_by):",
        ":",
        LIVES,
        seed=11411,
    ),
    Rule(
        "tail-from-born",
        "The tail begins behind the records that the life was born with.",
        "journal/view.py",
        "        base=card.born,\n",
        "        base=0,\n",
        LIVES,
    ),
    Rule(
        "load-segments-first",
        "A session is born only when the segments of its records are durable.",
        "session/lineage.py",
        """        yield from self.seal()
        try:
            view = yield from self._create()
        except ConflictError:""",
        """        try:
            view = yield from self._create()
            yield from self.seal()
        except ConflictError:""",
        NAMES,
    ),
    Rule(
        "discard-refused",
        "What was loaded is removed only if its creation was refused, never while it is in doubt.",
        "session/lineage.py",
        "        except ConflictError:\n            yield from life.discard(self.keys, self.life)\n",
        "        except (ConflictError, OSError):\n            yield from life.discard(self.keys, self.life)\n",
        NAMES,
    ),
    Rule(
        "fence-without-tail",
        "Deletion writes its tombstone into the tail also where there is no tail yet.",
        "journal/life.py",
        "        if life == seen.life and not seen.dead and not",
        "        if life == seen.life and not seen.dead and not seen.in_creation and not",
        LIVES,
    ),
    Rule(
        "tombstone-of-life",
        "A tombstone in the tail says nothing about the card of another life.",
        "journal/resume.py",
        "        return self.card is None or self.card.dead or self.card.life == self.tail.header.life\n",
        "        return not self.in_creation\n",
        LIVES,
    ),
    Rule(
        "tombstone-in-tail-first",
        "Deletion puts its tombstone in the tail first, where appends are swapped.",
        "journal/life.py",
        "        if life == seen.life and not seen.dead and not (yield from _fence(seen, life, nonce)):\n",
        """        yield from _bury(seen, life)
        yield from _empty_folder(keys.folder(life))
        if life == seen.life and not seen.dead and not (yield from _fence(seen, life, nonce)):
""",
        LIVES,
    ),
    Rule(
        "delete-one-life",
        "A deletion ends the life it found and no later one.",
        "journal/life.py",
        "        if life == seen.life and not seen.dead and",
        "        life = seen.life\n        if not seen.dead and",
        LIVES,
        seed=1691,
    ),
    Rule(
        "bury-own",
        "A deletion marks the card of its own life only.",
        "journal/life.py",
        "        if card is None or card.dead or card.life != life:\n",
        "        if card is None or card.dead:\n",
        LIVES,
    ),
    Rule(
        "finish-deletion",
        "A deletion that was cut short is finished by the next one.",
        "journal/life.py",
        "        life = life or seen.life\n",
        "        life = life or seen.life\n        if seen.dead:\n            return\n",
        LIVES,
    ),
    Rule(
        "own-folder",
        "Every life has a folder of its own.",
        "format/paths.py",
        '        return f"{self.home}{encode_id(life)}/"\n',
        '        return f"{self.home}life/"\n',
    ),
    # erase
    Rule(
        "announce-nothing",
        "What a card announces of records is no part of the fold until latest accounts for them.",
        "session/tally.py",
        "    return card if card.covers else msgspec.structs.replace(card, **_NOTHING_YET)",
        "    return card",
        SESSION,
    ),
    Rule(
        "erase-tail-first",
        "Erasing swaps the tail before latest follows.",
        "journal/erase.py",
        """    tail = _fenced(view, erasure, nonce)
""",
        """    tail = _fenced(view, erasure, nonce)
    card = msgspec.structs.replace(view.latest.card, epoch=tail.header.epoch, write=nonce)
    yield (Put(view.keys.latest, encode_latest(card, view.latest.lines), expect=view.latest_version),)
""",
    ),
    Rule(
        "fence-copies",
        "An erasure that was overtaken looks for copies made meanwhile.",
        "session/traces.py",
        "        while self._end < writer.view.end:\n",
        "        while not self._end:\n",
        ERASURES,
        seed=61,
    ),
    Rule(
        "fence-what-is-there",
        "Nothing behind the end is listed as erased: a record seen before it was safe may be gone.",
        "journal/erase.py",
        "    if any(at >= view.end for at, _ in erasure.records):\n        return None\n",
        "",
        DISK,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "cover-one-epoch",
        "A view whose registers are of different epochs replaces nothing.",
        "journal/cover.py",
        "    if view.torn or view.end < view.covers:\n",
        "    if view.end < view.covers:\n",
        seed=4168,
    ),
    Rule(
        "heal-anybody",
        "Whoever needs latest lets it follow the tail first.",
        "session/keeper.py",
        "            yield from self.heal()  # and what was to be covered was made up before: the caller looks again\n",
        "",
        ERASURES,
    ),
    Rule(
        "heal-whole",
        "Latest follows the tail in all that was erased.",
        "journal/erase.py",
        "        buried = bury(view.latest, view.burials)\n",
        "        buried = bury(view.latest, burials(view.tail.header.erased[-1:], view.burials.erasures[-1:]))\n",
    ),
    Rule(
        "rewrite-first",
        "A dirty segment is rewritten before it is deleted.",
        "journal/erase.py",
        "    yield from ask(Put(key, build_segment(lines, key=key)), Written)\n",
        "",
    ),
    Rule(
        "sweep-all",
        "It goes on until a listing shows no dirty segment.",
        "journal/erase.py",
        "        dirty = [each for each in (*where.segments, *where.waste) if",
        "        dirty = [each for each in where.segments if",
    ),
    Rule(
        "name-epoch",
        "The name of a segment tells of the epoch that its lines were read under.",
        "journal/cover.py",
        "view.tail.header.epoch, unique)",
        "view.tail.header.epoch + 1, unique)",
    ),
    Rule(
        "bury-on-read",
        "What the tail says was erased is shown as erased, whatever a segment holds.",
        "journal/read.py",
        "            found |= {at: where.burials.bury(lines[at - first], at) for at in here}\n",
        "            found |= {at: lines[at - first] for at in here}\n",
        seed=2490,
    ),
    Rule(
        "bury-memory",
        "A handle forgets what was erased before it writes latest again.",
        "session/reader.py",
        "        outdated = vanished or known.epoch != view.epoch\n",
        "        outdated = vanished\n",
        ERASURES,
    ),
    Rule(
        "bury-latest-read",
        "Who reads latest before it followed the tail leaves out what was erased.",
        "session/reader.py",
        "        if view.torn:\n            bury_state",
        "        if False:\n            bury_state",
        ERASURES,
    ),
    Rule(
        "bury-brought",
        "What was read before an erasure is not brought into latest after it.",
        "session/keeper.py",
        "bury_line(line, self.burials) for name",
        "line for name",
        ERASURES,
        seed=21050,
    ),
    Rule(
        "no-copies-after",
        "Nobody records a copy of what was erased.",
        "session/recording.py",
        "            context=without_messages(context, self.writer.burials.names),\n",
        "            context=context,\n",
        ERASURES,
    ),
    Rule(
        "no-edits-after",
        "Nobody amends what was erased.",
        "session/recording.py",
        '        if draft.type == "edit" and draft.kind == "amend" and draft.target in burials.names:\n',
        "        if False:\n",
        ERASURES,
    ),
    Rule(
        "gone-blobs",
        "Nobody refers to a blob that an erasure listed.",
        "session/recording.py",
        "encode_payload(draft, inside=burials.blobs)",
        "encode_payload(draft)",
        ERASURES,
        test="tests/session/test_erasing.py",
    ),
    Rule(
        "shared-blobs",
        "A blob is deleted only if no record that is left refers to it.",
        "journal/erase.py",
        "    dead = sorted(listed - living)\n",
        "    dead = sorted(listed)\n",
        ERASURES,
    ),
    Rule(
        "fork-links-first",
        "A fork tells its parent where it is before it copies.",
        "session/lineage.py",
        """    yield from note(writer, "link", {"fork": session}, target=node)
    yield from flush(writer)
    card =""",
        "    card =",
        ERASURES,
    ),
    Rule(
        "fork-reads-last",
        "A fork reads what it copies after it took its name.",
        "session/lineage.py",
        "    yield from writer.look_again()\n",
        "",
        ERASURES,
        test="tests/session/test_erasure_beside.py",
    ),
    Rule(
        "refuse-forks",
        "Whoever erases refuses the forks under way, which may have read it before.",
        "session/erasing.py",
        "        if (yield from refuse_loads(keys, nonce=new_nonce())):\n            return None\n",
        "        return None\n",
        ERASURES,
    ),
    Rule(
        "sweep-forks",
        "Whoever erases removes what a fork that was killed left beside one that lives.",
        "session/erasing.py",
        "            yield from sweep_folders(keys, nonce=new_nonce())",
        "            pass",
        ERASURES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "every-value",
        "Erasing a key of the state takes every value that it ever had.",
        "session/traces.py",
        "        if living:\n",
        "        if living and not self.records:\n",
        SECRETS,
    ),
    Rule(
        "values-in-forks",
        "A fork that was linked before loses its values of the key, too.",
        "session/erasing.py",
        "    return [act for act in acts if linked_at < act.end and _is_child(writer, fork)]\n",
        "    return []\n",
        SECRETS,
    ),
    Rule(
        "forget-values",
        "A handle forgets the values that were erased before it writes latest again.",
        "session/burial.py",
        "        state.checkpoint = _without_values(checkpoint, marks.of_state(since))\n",
        "        state.checkpoint = checkpoint\n",
        SECRETS,
    ),
    # purge
    Rule(
        "stones-first",
        "A life begins in place of a tombstone, never where nothing is.",
        "journal/life.py",
        "        if ABSENT not in seen.versions:\n            return seen\n",
        "        return seen\n",
        LIVES,
        seed=4084,
    ),
    Rule(
        "load-looks-first",
        "A load looks at latest before it writes anything.",
        "session/lineage.py",
        "born=self.end, seen=self._seen",
        "born=self.end, seen=None",
        NAMES,
        seed=1572,
    ),
    Rule(
        "purge-refuses-loads",
        "Before folders are deleted beside a tombstone, that is replaced.",
        "journal/purge.py",
        "not (yield from _refuse_loads(seen, nonce)):",
        "False:",
        LIVES,
        seed=3321,
    ),
    Rule(
        "purge-lists-first",
        "Folders are listed before latest is looked at.",
        "journal/purge.py",
        """        listed = yield from _list_folders(keys)
        seen = yield from look(keys)
""",
        """        seen = yield from look(keys)
        listed = yield from _list_folders(keys)
""",
        LIVES,
        seed=1030,
    ),
    Rule(
        "purge-by-version",
        "Tombstones are deleted by version.",
        "journal/purge.py",
        "    (answer,) = yield (Delete((key,), expect=version),)\n",
        "    (answer,) = yield (Delete((key,)),)\n",
        LIVES,
        seed=3053,
    ),
    Rule(
        "spare-the-living",
        "The folder of the life that latest names stays.",
        "journal/purge.py",
        "if not key.startswith(folders)]",
        "if True]",
        LIVES,
    ),
    # a session
    Rule(
        "settle-first",
        "A handle finds out what became of an append without an answer before it sends the next one.",
        "session/writer.py",
        "        self._doubt = _Doubt(view, by, planned)",
        "        self._doubt = None",
        SESSION,
        seed=413,
    ),
    Rule(
        "exclusive-stops",
        "An exclusive handle stops when somebody else wrote.",
        "session/others.py",
        "        self.met = self.met or (self.wrote(new) and not self._shared)\n",
        "        self.met = False\n",
        SESSION,
    ),
    Rule(
        "stop-while-planning",
        "So it does if it was looking at the graph for what to record when it saw that.",
        "session/writer.py",
        "            return False\n        self.others.check()\n",
        "            return False\n",
        LAPTOP,
        test="tests/session/test_never_safe.py",
    ),
    Rule(
        "see-what-is-covered",
        "Who folds anew from latest looks for others also in what that covers by now, as far as the tail has it.",
        "session/reader.py",
        "for line in tail.lines[max(0, since - base) : covered - base]]\n",
        "for line in ()]\n",
        ERASURES,
        test="tests/session/test_never_safe.py",
    ),
    Rule(
        "plan-again",
        "What was planned is planned again if a handle learns of others while it seals a full tail for it.",
        "session/writer.py",
        "        if self.view.unsealed_lines or self._moved_on(seen, end):\n",
        "        if self.view.unsealed_lines:\n",
        SESSION,
        test="tests/session/test_shared_races.py",
    ),
    Rule(
        "state-stands",
        "A checkpoint that says something of the state goes upon the newest one of its head, or beside it.",
        "session/basis.py",
        "    if says_state and not knows:\n",
        "    if False:\n",
        SESSION,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "shown-stays",
        "What a caller was shown changes when it looks or goes elsewhere, and not because a call met others.",
        "session/writer.py",
        "            self._move_along(blindly=self.behind)",
        "            self._move_along()",
        SESSION,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "own-is-not-common",
        "Latest is made of what everybody folds, and not of what a handle stands on.",
        "session/anchor.py",
        "        return self._folded() if self.behind else super()._common_state()\n",
        "        return super()._common_state()\n",
        SESSION,
        test="tests/session/test_basis.py",
    ),
    Rule(
        "own-is-no-conflict",
        "A late append of one's own is no conflict.",
        "session/others.py",
        "any(not record.by.startswith(self._prefix) for record in new)",
        "bool(new)",
        SESSION,
    ),
    Rule(
        "create-under-new-life",
        "Every try to create is a life of its own.",
        "session/writer.py",
        "        self._lives.append(new_nonce())\n",
        "        self._lives.extend([] if self._lives else [new_nonce()])\n",
        NAMES,
        seed=1775,
    ),
    Rule(
        "bring-until-done",
        "A move is recorded only when latest was replaced; somebody else's latest does not carry what it needs.",
        "session/keeper.py",
        "            if not missing or (yield from self.cover(seal=False, again=True, lines=missing)):\n",
        """            if missing:
                yield from self.cover(seal=False, again=True, lines=missing)
            if True:
""",
        MOVES,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "bring-before-move",
        "What a context needs is brought into latest before the move to it is recorded.",
        "session/navigation.py",
        "        yield from writer.bring(restored)\n",
        "",
        MOVES,
    ),
    Rule(
        "fold-again",
        "A handle folds again from latest what it saw in a log that was replaced since.",
        "session/reader.py",
        "    return not before.durable and",
        "    return False and",
        LAPTOP,
        seed=614,
    ),
    Rule(
        "carry-what-fits",
        "Whoever writes latest leaves out what it has no room for; it can always be written.",
        "session/state.py",
        "        if (left := left - len(line)) < 0:\n",
        "        if False:\n",
        test="tests/session/test_room.py",
    ),
    Rule(
        "carry-the-least",
        "If there is no room for the state either, latest says only what all else is found by.",
        "session/state.py",
        "    if left < 0:\n",
        "    if False:\n",
        test="tests/session/test_room.py",
    ),
    Rule(
        "refuse-what-stays",
        "What latest cannot leave out is refused before it is acknowledged.",
        "session/writer.py",
        "            require_room(self.state, planned.records)\n",
        "",
        test="tests/session/test_room.py",
    ),
    Rule(
        "new-index",
        "Who creates a session knows nothing of what a life before it held.",
        "session/writer.py",
        "        self._view, self._index = view, None  #",
        "        self._view = view  #",
        SESSION,
        test="tests/session/test_rare_meetings.py",
    ),
    Rule(
        "one-log",
        "Positions of a log are not looked up in one that replaced it.",
        "session/reader.py",
        "            if not may_have_vanished(self.view, found.tail):",
        "            if True:",
        LAPTOP,
        test="tests/session/test_never_safe.py",
    ),
)


def stated_rules() -> list[tuple[str, str, str]]:
    """Letter, number and name of each rule on the page."""
    return re.findall(r"^\| ([A-Z])(\d+) \| `([a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
