"""Ids of ours: ordered, greater than what was seen, and recognised."""

from __future__ import annotations

import threading
import time

from treering.ids import IdClock, new_id, time_of

LATE = "eeeeffff0000" + "7" + "abc" + "8" + "0" * 15  # the clock of its writer was far ahead


def test_new_ids_sort_in_the_order_they_were_made() -> None:
    """However fast ids are made, each is greater than the one before."""
    clock = IdClock()
    made = [clock.new() for _ in range(10_000)]
    assert made == sorted(set(made))


def test_threads_share_no_id() -> None:
    """Ids made by several threads at once differ."""
    clock = IdClock()
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend([clock.new() for _ in range(2_000)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8_000


def test_new_ids_are_greater_than_observed_ones() -> None:
    """After an id from a clock that is ahead was seen, new ids are greater; seeing older ones changes nothing."""
    clock = IdClock()
    old = clock.new()
    clock.observe(LATE)
    first = clock.new()
    clock.observe(old)
    clock.observe(first)
    assert LATE < first < clock.new()


def test_foreign_ids_leave_the_clock_alone() -> None:
    """Only ids of ours say a time; others move no clock, however great they are."""
    clock = IdClock()
    clock.observe("zzzz")
    clock.observe(LATE.upper())
    made = clock.new()
    assert made < LATE
    assert time_of("zzzz") is None
    assert time_of(LATE.upper()) is None


def test_ids_at_the_end_of_the_clock_leave_it_alone() -> None:
    """An id after which nothing could come is no reason to have no ids any more."""
    clock = IdClock()
    clock.observe("ffffffffffff" + "7" + "fff" + "b" + "f" * 15)
    assert clock.new() < LATE


def test_an_id_carries_the_time_it_was_made() -> None:
    """The milliseconds in an id lie between the clock's readings before and after."""
    before = time.time_ns() // 1_000_000
    made = time_of(IdClock().new())
    assert made is not None
    assert before <= made <= time.time_ns() // 1_000_000


def test_ids_have_the_version_and_variant_of_rfc_9562() -> None:
    """An id of ours is a UUID of version 7, without dashes."""
    made = new_id()
    assert (len(made), made[12], made[16] in "89ab") == (32, "7", True)
