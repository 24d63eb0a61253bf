"""Figures add up to what lists return, on both engines, and days are those of the zone."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.identity.model import OwnerId
from relay.operators.analytics.model import PERCENTS, Breakdown, By, Figures, wilson
from relay.operators.analytics.store import Analytics
from relay.operators.submissions.filter import SubmissionFilter, condition, own_condition
from relay.operators.submissions.model import Submission
from tests.delivery.conftest import TENANT
from tests.operators.submissions.conftest import Desk
from tests.operators.submissions.test_search import FILTER, SUBMISSION, clear

UTC_ZONE = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")
SPRING = 1_774_742_400_000  # 2026-03-29T00:00:00Z, an hour before clocks change in Berlin
BYS: tuple[By | None, ...] = (None, "agent", "day", "state", "client")

RATED = st.builds(
    lambda row, hours, elapsed, reason: {
        **row,
        "created_at": SPRING + hours * 3_600_000,
        "saved_at": SPRING + hours * 3_600_000 + elapsed if row["state"] == "saved" else None,
        "reason": reason,
    },
    SUBMISSION,
    st.integers(-30, 50),
    st.integers(0, 9),
    st.sampled_from([None, "timeout", "server_error"]),
)
WANTED = st.builds(
    lambda wanted, since, until: replace(wanted, since=since, until=until),
    FILTER,
    st.sampled_from([None, SPRING]),
    st.sampled_from([None, SPRING + 86_400_000]),
)

KEYS: Mapping[By, Callable[[Submission], str]] = {
    "agent": lambda s: s.agent,
    "day": lambda s: datetime.fromtimestamp(s.created_at / 1000, UTC).astimezone(BERLIN).date().isoformat(),
    "state": lambda s: s.state,
    "client": lambda s: s.client,
}


def figures_of(listed: Sequence[Submission]) -> Figures:
    """What is said of a list, in other words."""
    times = sorted(s.saved_at - s.created_at for s in listed if s.saved_at is not None)
    reasons = Counter(s.last_attempt.reason for s in listed if s.state != "saved" and s.last_attempt is not None)
    return Figures(
        states=dict(Counter(s.state for s in listed)),
        ups=sum(s.rating == "up" for s in listed),
        downs=sum(s.rating == "down" for s in listed),
        percentiles={p: next(t for n, t in enumerate(times, 1) if 100 * n >= p * len(times)) for p in PERCENTS}
        if times
        else {},
        reasons={str(reason): n for reason, n in reasons.items() if reason is not None},
    )


def breakdown_of(listed: Sequence[Submission], by: By | None) -> Breakdown:
    """The same of each part."""
    keys = [] if by is None else sorted({KEYS[by](s) for s in listed})
    parts = [(key, figures_of([s for s in listed if by is not None and KEYS[by](s) == key])) for key in keys]
    return Breakdown(total=figures_of(listed), parts=parts)


async def place(desk: Desk, number: int, row: Mapping[str, Any]) -> int:
    """A submission, with the attempts that failed before its newest."""
    given_ = {name: value for name, value in row.items() if name != "reason"}
    delivery = await desk.place(number, **given_)
    for attempt, reason in enumerate(("dns_failed", row["reason"])):
        if row["reason"] is not None:
            await desk.outbox.change(
                "INSERT INTO attempts (delivery, number, cause, started_at, outcome, error_kind, ambiguous)"
                " VALUES (:delivery, :number, 'schedule', 1, 'retry', :reason, false)",
                delivery=delivery,
                number=attempt,
                reason=reason,
            )
    return delivery


async def forget(desk: Desk) -> None:
    await desk.outbox.change("DELETE FROM attempts")
    await clear(desk.db)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(RATED, max_size=8), wanted=st.lists(WANTED, min_size=1, max_size=3), erased=st.integers(0, 8))
async def test_figures_are_those_of_the_list(
    desk: Desk, rows: Sequence[dict[str, Any]], wanted: Sequence[SubmissionFilter], erased: int
):
    """Whatever the filter: the whole and its parts say exactly what the list under the same filter holds."""
    await forget(desk)
    placed = [await place(desk, number, row) for number, row in enumerate(rows)]
    if erased < len(placed) and rows[erased]["state"] == "saved":  # nothing else may be erased
        await desk.erase(placed[erased])
    analytics = Analytics(desk.db)
    for one in (SubmissionFilter(), *wanted):
        listed = await desk.submissions.page(TENANT, one, before=None, most=100)
        for by in BYS:
            found = await analytics.figures(condition(TENANT, one), by, BERLIN)
            assert found == breakdown_of(listed, by), by
            assert found.total.count == await desk.submissions.count(TENANT, one)
            assert found.total.erased == sum(s.rating is None for s in listed)
            assert by is None or sum(part.count for _, part in found.parts) == found.total.count


async def test_ones_own_are_ones_own(desk: Desk):
    """Those of the owner under whichever tenant, and of nobody else; the filter holds as well."""
    await desk.place(1, state="saved", saved_at=1_101)
    await desk.place(2, tenant="other")
    await desk.place(3, owner=2)
    analytics = Analytics(desk.db)
    everything = await analytics.figures(own_condition(OwnerId(1), SubmissionFilter()), "state", UTC_ZONE)
    assert everything.total.states == {"pending": 1, "saved": 1}
    saved = await analytics.figures(own_condition(OwnerId(1), SubmissionFilter(state="saved")), None, UTC_ZONE)
    assert (saved.total.count, saved.total.percentiles) == (1, {50: 100, 95: 100, 99: 100})


def instant(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "moments", "days"),
    [
        (
            "Asia/Tokyo",
            ["2026-03-01T23:30:00+09:00", "2026-03-02T00:00:00+09:00"],
            {"2026-03-01": 1, "2026-03-02": 1},
        ),
        (
            "Europe/Berlin",
            # A day of 23 hours: from midnight to midnight, and a millisecond on either side.
            [
                "2026-03-28T22:59:59.999+00:00",
                "2026-03-28T23:00:00+00:00",
                "2026-03-29T21:59:59.999+00:00",
                "2026-03-29T22:00:00+00:00",
            ],
            {"2026-03-28": 1, "2026-03-29": 2, "2026-03-30": 1},
        ),
        (
            "Europe/Berlin",
            # And one of 25.
            [
                "2026-10-24T21:59:59.999+00:00",
                "2026-10-24T22:00:00+00:00",
                "2026-10-25T22:59:59.999+00:00",
                "2026-10-25T23:00:00+00:00",
            ],
            {"2026-10-24": 1, "2026-10-25": 2, "2026-10-26": 1},
        ),
        (
            "Pacific/Apia",
            # A day that there never was.
            ["2011-12-30T09:59:59.999+00:00", "2011-12-30T10:00:00+00:00"],
            {"2011-12-29": 1, "2011-12-31": 1},
        ),
        ("America/New_York", ["1970-01-01T00:00:00.001+00:00"], {"1969-12-31": 1}),
    ],
    ids=["23:30 in Tokyo", "spring", "autumn", "a lost day", "before the epoch"],
)
async def test_a_rating_falls_on_its_day(desk: Desk, zone: str, moments: list[str], days: dict[str, int]):
    """By the clocks of the zone as they are at that moment."""
    for number, moment in enumerate(moments):
        await desk.place(number, created_at=instant(moment))
    found = await Analytics(desk.db).figures(condition(TENANT, SubmissionFilter()), "day", ZoneInfo(zone))
    assert {key: part.count for key, part in found.parts} == days


async def test_percentiles_are_of_many(desk: Desk):
    """By nearest rank: of the times 1 to 200, the hundredth, the 190th and the 198th."""
    for number in range(1, 201):
        await desk.place(number, state="saved", created_at=1_000, saved_at=1_000 + number)
    found = await Analytics(desk.db).figures(condition(TENANT, SubmissionFilter()), None, UTC_ZONE)
    assert found.total.percentiles == {50: 100, 95: 190, 99: 198}
    assert found.total.up_share == wilson(200, 200)


async def test_nothing_is_counted_as_nothing(desk: Desk):
    """By a day as well, though there is none."""
    for by in BYS:
        found = await Analytics(desk.db).figures(condition(TENANT, SubmissionFilter()), by, BERLIN)
        assert found == breakdown_of([], by)
