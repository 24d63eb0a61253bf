"""How agents fare: breaker, backlog, and how long the oldest has waited.

Goes by the partial indexes of what waits alone, so that years of finished deliveries cost nothing.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.model import AgentId
from relay.storage.engine import Database

BreakerState = Literal["closed", "open", "half_open"]
WaitingState = Literal["pending", "sending", "held", "needs_owner"]

_COUNT: Final = """
SELECT d.agent, d.state, count(*) AS total, min(d.window_started_at) AS oldest FROM deliveries d
WHERE {waiting}{whose} GROUP BY d.agent, d.state
"""

# Each in the words of its index.
_WAITING: Final = ("d.state = 'pending'", "d.state = 'sending'", "d.state IN ('held', 'needs_owner')")

_BREAKERS: Final = "SELECT b.*, {now} AS now FROM agent_breakers b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """An agent's breaker, which all tenants share. Times in milliseconds.

    ``open_until`` says when an open one half-opens, ``paused_until`` until when the specialist has asked for a pause.
    ``attempts`` and ``failures`` are those of the window that began at ``window_started_at``.
    """

    state: BreakerState = "closed"
    open_until: int | None = None
    paused_until: int | None = None
    window_started_at: int | None = None
    attempts: int = 0
    failures: int = 0
    last_success_at: int | None = None
    last_failure_at: int | None = None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for an agent, by state, and since when the oldest has (milliseconds): since it was accepted, or since
    an explicit retry gave it a new schedule. None: nothing waits.
    """

    totals: Mapping[WaitingState, int] = field(default_factory=dict)
    oldest: int | None = None

    @property
    def waiting(self) -> int:
        return sum(self.totals.values())


@dataclass(frozen=True, slots=True)
class Health:
    """How one agent fares."""

    breaker: Breaker = Breaker()
    backlog: Backlog = Backlog()


async def healths(
    db: Database, connection: AsyncConnection, *, tenant: str | None = None, agent: AgentId | None = None
) -> Mapping[str, Health]:
    """How the agents fare, or the one. The backlog is one tenant's alone, or everybody's; who has neither a backlog nor
    a history is left out.
    """
    parameters = {name: value for name, value in (("tenant", tenant), ("agent", agent)) if value is not None}
    backlogs = await _backlogs(db, connection, parameters)
    one = " WHERE b.agent = :agent" if agent is not None else ""
    only = {"agent": agent} if agent is not None else {}
    found = (await connection.execute(db.sql(_BREAKERS + one), only)).mappings()
    breakers = {row["agent"]: _breaker(row) for row in found}
    return {
        each: Health(breakers.get(each, Breaker()), backlogs.get(each, Backlog()))
        for each in breakers.keys() | backlogs.keys()
    }


def count_statement(*, by: Mapping[str, Any]) -> str:
    """Counts what waits, of the ``tenant`` and ``agent`` that ``by`` names."""
    whose = "".join(f" AND d.{name} = :{name}" for name in by)
    return "UNION ALL".join(_COUNT.format(waiting=waiting, whose=whose) for waiting in _WAITING)


async def _backlogs(db: Database, connection: AsyncConnection, parameters: Mapping[str, Any]) -> Mapping[str, Backlog]:
    rows: defaultdict[str, list[RowMapping]] = defaultdict(list)
    for row in (await connection.execute(db.sql(count_statement(by=parameters)), parameters)).mappings():
        rows[row["agent"]].append(row)
    return {
        agent: Backlog({row["state"]: row["total"] for row in each}, min(row["oldest"] for row in each))
        for agent, each in rows.items()
    }


def _breaker(row: RowMapping) -> Breaker:
    open_until, now = row["open_until"], row["now"]
    state: BreakerState = "closed"
    if open_until is not None:
        state = "open" if open_until > now else "half_open"
    paused = row["paused_until"]
    return Breaker(
        state=state,
        open_until=open_until,
        paused_until=paused if paused is not None and paused > now else None,
        window_started_at=row["window_started_at"],
        attempts=row["attempts"],
        failures=row["failures"],
        last_success_at=row["last_success_at"],
        last_failure_at=row["last_failure_at"],
    )
