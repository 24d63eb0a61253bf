"""What operators do to deliveries, one or many in a transaction: safe beside workers, told of, and audited."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry import registrations
from registry.model import Acting, Agent, Snapshot, needs_presence
from registry.registrations import Decision
from relay.delivery import wakeup
from relay.delivery.model import DeliveryId, State
from relay.delivery.statements import TELL
from relay.delivery.store import CHANGED
from relay.operators import audit
from relay.operators.submissions import statements
from relay.operators.submissions.model import CHANGING, Action, Outcome, Standing, judge
from relay.storage.engine import Database
from relay.storage.records import dumps, recordset

_STATEMENTS: Final[Mapping[Outcome, str]] = {
    "reopened": statements.REOPEN,
    "made_due": statements.MAKE_DUE,
    "abandoned": statements.ABANDON,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """What an action did to one delivery: ``after`` equals ``before`` where the state did not change."""

    owner: str
    submission: str
    outcome: Outcome
    before: State
    after: State


@dataclass(frozen=True, slots=True)
class _Judged:
    row: RowMapping
    outcome: Outcome
    resting: State
    needs_presence: bool


async def act(
    db: Database,
    connection: AsyncConnection,
    action: Action,
    deliveries: Sequence[DeliveryId],
    decision: Decision,
    *,
    only: State | None = None,
    job: str | None = None,
) -> list[Acted]:
    """Do ``action`` to each of these deliveries as it stands now, and say what that was, in the order of submission.

    ``only`` spares those that are not in this state any more; ``job`` is named in the audit log.

    Changes, events and audit entries are in the transaction of ``connection``, which ends soon after: until then no
    decision about these agents is made, and no claim of these deliveries.
    """
    chosen = dumps({"id": delivery} for delivery in deliveries)
    if db.dialect == "postgresql":
        for lock in (statements.LOCK_AGENTS, statements.LOCK_DELIVERIES):
            await connection.execute(_filled(db, lock), {"chosen": chosen})
    snapshot = await registrations.load(connection)
    rows = (await connection.execute(_filled(db, statements.STANDING), {"chosen": chosen})).mappings().all()
    judged = [_judge(row, snapshot, decision.at, partial(judge, action, only=only)) for row in rows]
    after: dict[int, State] = {}
    for outcome in sorted({one.outcome for one in judged} & CHANGING):
        after |= await _change(db, connection, outcome, judged, decision)
    acted = [_acted(one, after) for one in judged]
    await audit.record_all(connection, [_entry(action, one, decision, job) for one in judged if one.row["id"] in after])
    if "pending" in after.values():
        await wakeup.notify(connection)
    return acted


def _judge(row: RowMapping, snapshot: Snapshot, now: int, verdict: Callable[[Standing], Outcome]) -> _Judged:
    earliest = max(now, row["not_before"])
    standing = Standing(state=row["state"], erased=row["erased_at"] is not None, waits_longer=row["due_at"] > earliest)
    agent = snapshot[row["agent"]]
    presence = _needs_presence(agent, row)
    resting: State = "needs_owner" if presence else "pending"
    if agent.is_held(row["tenant"], row["pinned"]):
        resting = "held"
    return _Judged(row, verdict(standing), resting, presence)


def _needs_presence(agent: Agent, row: RowMapping) -> bool:
    if agent.approved is None:
        return False
    acting = Acting(row["kind"], row["issuer"], row["client"], row["ran_as"], subject_known=bool(row["sealed"]))
    return needs_presence(agent.approved.credentials, acting)


async def _change(
    db: Database, connection: AsyncConnection, outcome: Outcome, judged: Sequence[_Judged], decision: Decision
) -> dict[int, State]:
    """The state of each delivery that this outcome changed."""
    chosen = dumps(
        {"id": j.row["id"], "before": j.row["state"], "resting": j.resting, "needs_presence": j.needs_presence}
        for j in judged
        if j.outcome == outcome
    )
    parameters: dict[str, Any] = {"chosen": chosen, "at": decision.at}
    if outcome == "abandoned":
        parameters |= {"by": decision.by, "why": decision.why}
    found = await connection.execute(_filled(db, _STATEMENTS[outcome]), parameters)
    changed = [dict(row) for row in found.mappings()]
    tell = TELL.replace("{changed}", recordset(db.dialect, "changed", CHANGED))
    await connection.execute(db.sql(tell), {"changed": dumps(changed)})
    return {row["id"]: row["state"] for row in changed}


def _acted(judged: _Judged, after: Mapping[int, State]) -> Acted:
    row = judged.row
    # What was being sent when we locked and had come back when we looked may have been claimed again before we wrote.
    overtaken = judged.outcome in CHANGING and row["id"] not in after
    return Acted(
        owner=row["owner"],
        submission=row["submission"],
        outcome="being_sent" if overtaken else judged.outcome,
        before=row["state"],
        after=after.get(row["id"], row["state"]),
    )


def _entry(action: Action, judged: _Judged, decision: Decision, job: str | None) -> audit.Entry:
    row = judged.row
    state = judged.resting if judged.outcome == "reopened" else row["state"]
    after: dict[str, Any] = {"state": "abandoned" if judged.outcome == "abandoned" else state}
    if judged.outcome != "abandoned":
        after["dueAt"] = max(decision.at, row["not_before"])
    return audit.Entry(
        at=decision.at,
        tenant=row["tenant"],
        actor=decision.by,
        action=f"submission.{action}",
        target=f"{row['owner']}/{row['submission']}",
        before={"state": row["state"], "dueAt": row["due_at"]},
        after={**after, **({} if job is None else {"job": job})},
        why=decision.why,
    )


def _filled(db: Database, statement: str) -> Any:  # noqa: ANN401 - a statement of SQLAlchemy's
    greatest = "GREATEST" if db.dialect == "postgresql" else "max"
    chosen = recordset(db.dialect, "chosen", statements.CHOSEN)
    return text(statement.replace("{greatest}", greatest).replace("{chosen}", chosen))
