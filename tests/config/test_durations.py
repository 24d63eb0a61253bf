"""Spans of time as operators write them."""

import pytest

from relay.config.durations import Duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("0s", 0), ("500ms", 0.5), ("5s", 5), ("2m", 120), ("1h", 3600), ("24h", 86_400), ("30d", 2_592_000)],
)
def test_durations_are_seconds(written: str, seconds: float):
    """Every unit, and zero."""
    assert Duration.parse(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "5", "s", "-5s", "1.5s", "5 s", "5S", "5MS", "5us", "٥s", "5s\n", "31d", 5, None, True]
)
def test_other_durations_are_refused(written: object):
    """A number without its unit is a guess, and a month is longer than any wait should be."""
    with pytest.raises(ValueError, match="must be"):
        Duration.parse(written)
