"""Counting submissions where they are: in the database, the same on both engines."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, tzinfo
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.operators.analytics.model import (
    DAY_MS,
    EPOCH_DAY,
    NOTHING,
    PERCENTS,
    Breakdown,
    By,
    Figures,
    Offset,
    offsets,
)
from relay.operators.analytics.pace import Pace, pace
from relay.operators.submissions.filter import WITH_DELIVERIES, Condition
from relay.storage.engine import Database

# The newest attempt is looked for only where it tells of a failure.
_REASON: Final = """
CASE WHEN d.state <> 'saved' THEN (
    SELECT a.error_kind FROM attempts a WHERE a.id = (SELECT max(id) FROM attempts WHERE delivery = d.id)) END
"""
# One statement, and so one moment: the parts add up to the whole. A key of NULL stands for the whole.
_FIGURES: Final = """
WITH chosen AS (
    SELECT {key} AS key, d.state, s.rating, {reason} AS reason,
        CASE WHEN d.state = 'saved' THEN d.saved_at - s.created_at END AS elapsed
    FROM {source} WHERE {condition}),
keyed AS ({keyed}),
ranked AS (
    SELECT key, elapsed, row_number() OVER (PARTITION BY key ORDER BY elapsed) AS place,
        count(*) OVER (PARTITION BY key) AS size
    FROM keyed WHERE elapsed IS NOT NULL)
SELECT key, 'state' AS about, state AS name, count(*) AS number FROM keyed GROUP BY key, state
UNION ALL SELECT key, 'rating', rating, count(*) FROM keyed WHERE rating IS NOT NULL GROUP BY key, rating
UNION ALL SELECT key, 'reason', reason, count(*) FROM keyed WHERE reason IS NOT NULL GROUP BY key, reason
{percentiles}
"""
_WHOLE: Final = "SELECT CAST(NULL AS text) AS key, state, rating, reason, elapsed FROM chosen"
_PARTS: Final = "SELECT key, state, rating, reason, elapsed FROM chosen"
# Nearest rank in whole numbers: the smallest value that at least so many percent are not above.
_PERCENTILE: Final = """
UNION ALL SELECT key, 'percentile', '{percent}', elapsed FROM ranked WHERE place = ({percent} * size + 99) / 100
"""
_PERCENTILES: Final = "".join(_PERCENTILE.format(percent=percent) for percent in PERCENTS)

_BOUNDS: Final = "SELECT min(s.created_at) AS first, max(s.created_at) AS last FROM {source} WHERE {condition}"

_KEYS: Final[Mapping[By | None, str]] = {
    None: "CAST(NULL AS text)",
    "agent": "s.agent",
    "state": "d.state",
    "client": "s.client",
}


class Analytics:
    """Figures of the submissions that a condition names."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def figures(self, where: Condition, by: By | None, zone: tzinfo) -> Breakdown:
        """The whole, and its parts. A day is one of ``zone``'s, its key such as ``2026-03-29``; only those count that
        have something in them.
        """
        async with self._db.read() as connection:
            key = await _day(connection, where, zone) if by == "day" else _KEYS[by]
            sql = _FIGURES.format(
                key=key,
                reason=_REASON,
                source=WITH_DELIVERIES,
                condition=where.sql,
                keyed=_WHOLE if by is None else f"{_PARTS} UNION ALL {_WHOLE}",
                percentiles=_PERCENTILES,
            )
            rows = await connection.execute(text(sql), where.parameters)
            return _breakdown(rows.mappings(), by)

    async def pace(self, tenant: str, *, minutes: int) -> Pace:
        """How many were saved in each of the last minutes."""
        return await pace(self._db, tenant, minutes=minutes)


async def _day(connection: AsyncConnection, where: Condition, zone: tzinfo) -> str:
    """The ordinal of the day on which a submission was made, by the clocks of a zone, as SQL that gives text."""
    sql = _BOUNDS.format(source=where.source, condition=where.sql)
    bounds = (await connection.execute(text(sql), where.parameters)).mappings().one()
    if bounds["first"] is None:
        return "CAST(NULL AS text)"
    # What is made between this statement and the next belongs to a day as well.
    known = offsets(zone, bounds["first"], bounds["last"] + DAY_MS)
    local = f"s.created_at + {_ahead(known)}"
    return f"CAST(({local} + {EPOCH_DAY * DAY_MS}) / {DAY_MS} AS text)"


def _ahead(known: list[Offset]) -> str:
    """The offset at a submission's creation, as SQL: the clocks change a few times, the days are many."""
    if len(known) == 1:
        return f"({known[0].offset})"
    cases = [f"WHEN s.created_at < {after.since} THEN {before.offset}" for before, after in pairwise(known)]
    return f"(CASE {' '.join(cases)} ELSE {known[-1].offset} END)"


@dataclass(slots=True)
class _Told:
    """What the rows say of one key, by what they are about."""

    about: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def figures(self) -> Figures:
        ratings = self.about["rating"]
        states: dict[Any, int] = self.about["state"]
        # Percents come as text, since a column of a union has one type.
        named = self.about["percentile"]
        return Figures(
            states=dict(sorted(states.items())),
            ups=ratings.get("up", 0),
            downs=ratings.get("down", 0),
            percentiles={percent: named[str(percent)] for percent in PERCENTS if str(percent) in named},
            reasons=dict(sorted(self.about["reason"].items(), key=lambda item: (-item[1], item[0]))),
        )


def _breakdown(rows: Iterable[Mapping[Any, Any]], by: By | None) -> Breakdown:
    told: dict[str | None, _Told] = defaultdict(_Told)
    for row in rows:
        told[row["key"]].about[row["about"]][row["name"]] = row["number"]
    total = told.pop(None).figures() if None in told else NOTHING
    parts = [(key, each.figures()) for key, each in told.items() if key is not None]
    if by == "day":
        parts = [(date.fromordinal(int(key)).isoformat(), figures) for key, figures in parts]
    return Breakdown(total=total, parts=sorted(parts, key=lambda part: part[0]))
