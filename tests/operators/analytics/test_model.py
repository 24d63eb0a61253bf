"""Intervals of shares, and where days begin, without a database."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.operators.analytics.model import DAY_MS, offsets, wilson

ZONES = (
    "UTC",
    "Asia/Tokyo",
    "Europe/Berlin",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
)


@pytest.mark.parametrize(
    ("ups", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
    ids=["81 of 263", "15 of 148", "none of 20", "1 of 29", "all of 29"],
)
def test_the_interval_is_the_published_one(ups: int, trials: int, low: float, high: float):
    """Wilson's score interval without correction, as the literature has it; the last by symmetry."""
    found = wilson(ups, trials)
    assert found is not None
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(trials=st.integers(1, 10**9), data=st.data())
def test_the_interval_holds_the_share(trials: int, data: st.DataObject):
    """Within 0 and 1, however many there are, and the same from the other side."""
    ups = data.draw(st.integers(0, trials))
    found, other = wilson(ups, trials), wilson(trials - ups, trials)
    assert found is not None
    assert other is not None
    assert 0 <= found.low <= found.share <= found.high <= 1
    assert found.low == pytest.approx(1 - other.high, abs=1e-9)


def test_nothing_has_no_share():
    """There is nothing to divide by."""
    assert wilson(0, 0) is None


@given(
    name=st.sampled_from(ZONES),
    first=st.datetimes(datetime(1975, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001
    days=st.integers(0, 800),
    share=st.floats(0, 1),
)
def test_offsets_are_those_of_the_zone(name: str, first: datetime, days: int, share: float):
    """At any moment of the span the clocks are ahead by what the zone itself says, half hours and a lost day too."""
    zone = ZoneInfo(name)
    start = round(first.replace(tzinfo=UTC).timestamp() * 1000)
    end = start + days * DAY_MS
    known = offsets(zone, start, end)
    assert all(a.since < b.since and a.offset != b.offset for a, b in pairwise(known))
    for moment in {
        start + round((end - start) * share),
        end,
        *(k.since for k in known),
        *(k.since - 1 for k in known[1:]),
    }:
        told = [each for each in known if each.since <= moment][-1].offset
        really = datetime.fromtimestamp(moment / 1000, UTC).astimezone(zone).utcoffset()
        assert timedelta(milliseconds=told) == really
