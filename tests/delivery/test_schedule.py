"""When the next attempt is due: the configured waits, jitter that only adds, and Retry-After as a floor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.delivery.schedule import JITTER, Schedule, retry_after_ms, schedule

NOW = 1_792_000_000.0  # 2026-10-14T17:46:40Z


@given(waits=st.lists(st.floats(0, 100_000), min_size=1, max_size=12), position=st.integers(0, 11))
def test_jitter_only_adds(waits: list[float], position: int):
    """A wait is never shorter than configured, and at most a tenth longer."""
    plan = schedule(waits)
    if position >= len(waits):
        return
    wait = plan.wait_ms(position)
    assert round(waits[position] * 1000) <= wait + 1
    assert wait <= waits[position] * 1000 * (1 + JITTER) + 1


def test_a_schedule_of_n_entries_is_n_attempts():
    """The first entry is the wait before the first attempt; after N scheduled attempts none is left."""
    plan = Schedule((0, 5, 30), jitter=0)
    assert plan.starts_at_once
    assert [plan.wait_ms(position) for position in range(3)] == [0, 5000, 30000]
    assert [plan.is_used_up(position) for position in range(4)] == [False, False, False, True]


def test_an_empty_schedule_is_refused():
    """Without an entry there would be no attempt at all."""
    with pytest.raises(ValueError, match="at least one"):
        schedule([])


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("60", 60_000),
        ("0", 0),
        (" 7 ", 7_000),
        ("Wed, 14 Oct 2026 17:47:40 GMT", 60_000),
        ("Wed, 14 Oct 2026 17:47:40 -0000", 60_000),
        ("Wed, 14 Oct 2026 19:47:40 +0200", 60_000),
        ("Wed, 14 Oct 2026 17:45:40 GMT", 0),
        ("Sun Oct 11 08:49:37 1992", 0),
        ("1000000000000", 86_400_000),
        ("999999999999999999", 86_400_000),
        ("9" * 400, 86_400_000),
        ("1e3", 0),
        ("-5", 0),
        ("+5", 0),
        ("1.5", 0),
        ("\u00b2", 0),
        ("\u0665", 0),
        ("", 0),
        ("soon", 0),
        ("Wed, 99 Oct 2026 17:47:40 GMT", 0),
        (None, 0),
    ],
)
def test_retry_after(header: str | None, expected: int):
    """ASCII seconds or an HTTP date; the past is no floor, nonsense is none, and the longest is a day."""
    assert retry_after_ms(header, now=NOW) == expected


@given(st.text(max_size=60))
def test_no_header_makes_retry_after_fail(header: str):
    """Whatever a specialist writes there, the result is a floor within the cap."""
    assert 0 <= retry_after_ms(header, now=NOW) <= 86_400_000


@given(st.integers(0, 86_400_000))
def test_a_floor_is_spread_upwards(floor: int):
    """Those who were turned away together do not return together, and none returns early."""
    spread = Schedule((0,)).spread_ms(floor)
    assert floor <= spread <= floor * (1 + JITTER) + 1
