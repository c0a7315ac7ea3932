from __future__ import annotations

import time

import pytest

from treering.cli.text import ago, clean, counted, iso_time, local_time, one_line, short_id, size_text


def test_clean() -> None:
    """Control characters become visible; tabs, line breaks and other scripts stay."""
    assert clean("a\x1b[2J\tb\r\nc\rd\x00\x9b") == "a\\x1b[2J\tb\nc\\x0dd\\x00\\x9b"
    assert clean("ünïcode 🌲 日本") == "ünïcode 🌲 日本"
    assert clean("\u202eabc\ud800") == "\\u202eabc\\ud800"


def test_one_line() -> None:
    """Line breaks become spaces, and a cut shows."""
    assert one_line(" a\n\n b\tc ") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"


def test_short_ids() -> None:
    """Random ids are shown by their end, where ids of one moment differ; words stay."""
    assert short_id("01a2008032117a59afe6c9f3af3d1b89") == "…af3d1b89"
    assert short_id("d703a1a9-1b7b-4fb1-b512-c9738b1fe617") == "…8b1fe617"
    assert short_id("91abcf65") == "91abcf65"
    assert short_id("fix-login") == "fix-login"
    assert short_id(None) == ""


def test_times() -> None:
    """Times are exact for programs, and whatever a foreign file claims is no error."""
    assert iso_time(1767600000123) == "2026-01-05T08:00:00.123Z"
    assert iso_time(0) == local_time(0) == ago(0) == ""
    for odd in (10**17, -(10**17), 253402300800000):
        assert str(odd)[:5] in iso_time(odd)
        assert local_time(odd) == str(odd)


@pytest.mark.parametrize(("zone", "ms"), [("EAST-14", 253402300799000), ("WEST12", -62135596800000)])
def test_ends_of_the_calendar(monkeypatch: pytest.MonkeyPatch, zone: str, ms: int) -> None:
    """A time of the calendar that is outside of it in the zone of the reader is a number."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        shown = local_time(ms)
    time.tzset()
    assert shown == str(ms)
    assert iso_time(ms)[-1] == "Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (7200, "2 h ago"),
        (86400, "1 d ago"),
    ],
)
def test_ago(seconds: int, text: str) -> None:
    """A time of late is told by its distance."""
    now = 1767600000000
    assert ago(now - seconds * 1000, now) == text


def test_long_ago() -> None:
    """A time of long ago is told by its date."""
    now = 1767600000000
    assert ago(now - 31 * 86_400_000, now) == local_time(now - 31 * 86_400_000)


def test_numbers() -> None:
    """Sizes and counts read well."""
    assert [size_text(size) for size in (0, 999, 1000, 1_500_000, 2 * 10**12)] == [
        "0 B", "999 B", "1.0 kB", "1.5 MB", "2000.0 GB",
    ]  # fmt: skip
    assert [counted(number, "node") for number in (0, 1, 1234)] == ["0 nodes", "1 node", "1,234 nodes"]
