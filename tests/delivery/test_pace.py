"""How much of an agent's backlog is claimed ahead."""

from relay.delivery.pace import Pace
from tests.conftest import TurnableClock


def test_the_pace_follows_what_happens(clock: TurnableClock):
    """Nothing is expected of an agent that has done nothing; a quick one is expected to stay quick; one that comes to
    a halt is expected to do less at every look."""  # noqa: D209
    pace = Pace(clock)
    assert pace.within(1.0) == 0
    expected = []
    for _ in range(8):
        for _ in range(100):
            pace.count()
        clock.turn(0.1)
        expected.append(pace.within(1.0))
    assert expected == sorted(expected)
    assert 990 <= expected[-1] <= 1000
    halted = []
    for _ in range(12):
        clock.turn(0.1)
        halted.append(pace.within(1.0))
    assert halted == sorted(halted, reverse=True)
    assert halted[-1] == 0


def test_a_moment_is_no_measure(clock: TurnableClock):
    """Two looks at the same instant divide by no time, and lose no count."""
    pace = Pace(clock)
    pace.count()
    assert pace.within(1.0) == 0
    clock.turn(1)
    assert pace.within(10.0) == 5


def test_a_halt_is_expected_to_last(clock: TurnableClock):
    """After a failure nothing is expected, however quick it was, until more has come to an end."""
    pace = Pace(clock)
    for _ in range(100):
        pace.count()
    clock.turn(0.1)
    assert pace.within(1.0) == 500
    pace.count()
    pace.halt()
    clock.turn(0.1)
    assert pace.within(1.0) == 0
