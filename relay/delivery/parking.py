"""Where deliveries wait: pending, held for an operator, or waiting for their owner. After a decision they are moved.

The decision itself commits first, and from then on nobody claims or settles by what was before it (see
`docs/why/registry-revisions.md`). The rows follow in batches, so that accepting never waits for a backlog. Which
revision they follow, and who is at it until when, stands beside the agent: a later decision takes over, and what a dead
process left is found by the next look of any worker.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from sqlalchemy import RowMapping, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from registry import registrations
from registry.model import Acting, Agent, AgentId, needs_presence
from relay.delivery.wakeup import notify
from relay.redaction import outline
from relay.storage.engine import Database
from relay.storage.records import ColumnType, dumps, recordset

log = structlog.get_logger(__name__)

BATCH: Final = 1_000
TURN_MS: Final = 15_000
"""How long others leave an agent to whoever moves its deliveries, without a sign of them."""

# Each in the words of the index that has these rows in order; SQLite takes a partial index by its words alone.
WAITING: Final = (
    "d.state = 'pending'",
    "d.state = 'held' AND d.state IN ('held', 'needs_owner')",
    "d.state = 'needs_owner' AND d.state IN ('held', 'needs_owner')",
    # Stays as it is, but its settle goes by whether the owner has to be present.
    "d.state = 'sending'",
)

Position = tuple[int, int]
START: Final[Position] = (-1, 0)

# The share lock makes a decision wait for the batch, and the next batch see the decision.
STAND = "SELECT revision, parking_until - {now} AS left FROM agents WHERE id = :agent {share}"

LOOK = """
SELECT d.id, d.due_at, d.state, d.needs_presence, d.tenant, s.registration_version AS pinned, s.ran_as, o.kind,
    o.issuer, o.client, CASE WHEN o.sealed_subject IS NULL THEN 0 ELSE 1 END AS sealed
FROM (
    SELECT d.id, d.due_at, d.state, d.needs_presence, d.tenant, d.submission, d.owner FROM deliveries d
    WHERE d.agent = :agent AND {waiting} AND (d.due_at, d.id) > (:due_at, :id)
    ORDER BY d.due_at, d.id LIMIT :batch {lock}) AS d
JOIN submissions s ON s.seq = d.submission JOIN owners o ON o.id = d.owner
ORDER BY d.due_at, d.id
"""

PLACES: Mapping[str, ColumnType] = {"id": "bigint", "state": "text", "needs_presence": "boolean", "moves": "boolean"}
MOVE = """
UPDATE deliveries SET state = p.state, needs_presence = p.needs_presence,
    state_since = CASE WHEN p.moves THEN {now} ELSE deliveries.state_since END,
    version = deliveries.version + CASE WHEN p.moves THEN 1 ELSE 0 END
FROM {places} AS p WHERE deliveries.id = p.id
"""
TELL = """
INSERT INTO events (tenant, owner, kind, ref, state, at)
SELECT d.tenant, d.owner, 'feedback', d.submission, d.state, {now}
FROM {places} AS p JOIN deliveries d ON d.id = p.id WHERE p.moves ORDER BY d.id
"""

BEGIN = "UPDATE agents SET parking_until = {now} + :turn_ms WHERE id = :agent"
GO_ON = f"{BEGIN} AND revision = :revision"
LEAVE = "UPDATE agents SET parking_until = 0 WHERE id = :agent AND revision = :revision"
END = "UPDATE agents SET parked_revision = revision, parking_until = NULL WHERE id = :agent AND revision = :revision"
IS_LEFT = "parked_revision <> revision AND COALESCE(parking_until, 0) <= {now}"
LEFT = f"SELECT id FROM agents WHERE {IS_LEFT} ORDER BY id"
ADOPT = f"{BEGIN} AND {IS_LEFT} RETURNING id"


@dataclass(frozen=True, slots=True)
class Moved:
    """How many deliveries were parked, and how many set free. ``complete``: there are no more to be moved; else a
    worker, or whoever has decided something later, goes on.
    """

    parked: int
    freed: int
    complete: bool


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one transaction did, and where the next goes on; None: nowhere, it was the last of its kind."""

    moved: Counter[str]
    changed: int
    next: Position | None


class Parking:
    """Moves waiting deliveries to where the registry puts them now."""

    def __init__(self, db: Database, *, batch: int = BATCH, poll_seconds: float = 1.0) -> None:
        self._db = db
        self._batch = batch
        self._poll = poll_seconds
        postgresql = db.dialect == "postgresql"
        places = recordset(db.dialect, "places", PLACES)
        self._stand = db.sql(STAND.replace("{share}", "FOR SHARE" if postgresql else ""))
        lock = "FOR UPDATE OF d" if postgresql else ""
        self._look = {kind: text(LOOK.replace("{waiting}", kind).replace("{lock}", lock)) for kind in WAITING}
        self._move = db.sql(MOVE.replace("{places}", places))
        self._tell = db.sql(TELL.replace("{places}", places))

    async def begin(self, connection: AsyncConnection, agent: AgentId) -> None:
        """Say, in the decision's own transaction, that whoever makes it will call `park`."""
        await connection.execute(self._db.sql(BEGIN), {"agent": agent, "turn_ms": TURN_MS})

    async def park(self, agent: AgentId, *, most_batches: int | None = None) -> Moved:
        """Move everything that waits for this agent, or the first ``most_batches`` of it.

        Safe beside accepting, claims, settles and other decisions, and again after a crash at any point.
        """
        async with self._db.read() as connection:
            known = (await registrations.load(connection))[agent]
        tally: Counter[str] = Counter()
        complete = await self._park(known, tally, most_batches)
        freed = tally["pending"]
        return Moved(sum(tally.values()) - freed, freed, complete)

    async def _park(self, agent: Agent, tally: Counter[str], most_batches: int | None) -> bool:
        batches = 0
        while True:
            changed = 0
            for kind in WAITING:
                position: Position | None = START
                while position is not None:
                    if batches == most_batches:
                        await self._write(LEAVE, agent)
                        return False
                    batch = await self._step(agent, kind, position)
                    if batch is None:
                        return False  # a later decision looks after them
                    batches += 1
                    changed += batch.changed
                    tally.update(batch.moved)
                    position = batch.next
            # What was claimed before a batch came to it, and settled behind its back, is found by another round.
            if not changed:
                return await self._write(END, agent)

    async def _step(self, agent: Agent, kind: str, after: Position) -> _Batch | None:
        """One batch in one transaction; None: something else has been decided meanwhile."""
        async with self._db.write() as connection:
            stand = (await connection.execute(self._stand, {"agent": agent.id})).one()
            if stand.revision != agent.revision:
                return None
            wanted = {"agent": agent.id, "due_at": after[0], "id": after[1], "batch": self._batch}
            rows = (await connection.execute(self._look[kind], wanted)).mappings().all()
            places = list(_places(agent, rows))
            if places:
                both = {"places": dumps(places)}
                await connection.execute(self._move, both)
                await connection.execute(self._tell, both)
            moved = Counter(place["state"] for place in places if place["moves"])
            if moved["pending"]:
                await notify(connection)
        if stand.left is not None and stand.left < TURN_MS / 2:
            await self._write(GO_ON, agent)
        last = rows[-1] if len(rows) == self._batch else None
        return _Batch(moved, len(places), None if last is None else (last["due_at"], last["id"]))

    async def _write(self, statement: str, agent: Agent) -> bool:
        parameters: dict[str, Any] = {"agent": agent.id, "revision": agent.revision}
        if ":turn_ms" in statement:
            parameters["turn_ms"] = TURN_MS
        async with self._db.write() as connection:
            return (await connection.execute(self._db.sql(statement), parameters)).rowcount > 0

    async def run(self) -> None:
        """Go on, for ever, with what others have left."""
        while True:
            try:
                for agent in await self._adopt():
                    moved = await self.park(agent)
                    log.info("deliveries_moved", agent=agent, parked=moved.parked, freed=moved.freed)
            except (DBAPIError, PoolTimeoutError, OSError) as error:
                log.warning("deliveries_not_moved", **outline(error))
            await asyncio.sleep(self._poll)

    async def _adopt(self) -> Sequence[AgentId]:
        async with self._db.read() as connection:
            left = (await connection.execute(self._db.sql(LEFT))).scalars().all()
        adopted: list[AgentId] = []
        for agent in left:
            async with self._db.write() as connection:
                mine = await connection.execute(self._db.sql(ADOPT), {"agent": agent, "turn_ms": TURN_MS})
                adopted += [AgentId(each) for each in mine.scalars()]
        return adopted


def _places(agent: Agent, rows: Iterable[RowMapping]) -> Iterator[dict[str, Any]]:
    """Each row that has to change, with the state and the presence that it should have."""
    for row in rows:
        needs = bool(row["needs_presence"]) if agent.approved is None else _needs_presence(agent, row)
        state = row["state"] if row["state"] == "sending" else _resting(agent, row, needs=needs)
        if (state, needs) != (row["state"], bool(row["needs_presence"])):
            yield {"id": row["id"], "state": state, "needs_presence": needs, "moves": state != row["state"]}


def _resting(agent: Agent, row: RowMapping, *, needs: bool) -> str:
    if agent.is_held(row["tenant"], row["pinned"]):
        return "held"
    return "needs_owner" if needs else "pending"


def _needs_presence(agent: Agent, row: RowMapping) -> bool:
    """Credentials may have changed: whether the owner has to be present is worked out again."""
    acting = Acting(row["kind"], row["issuer"], row["client"], row["ran_as"], subject_known=bool(row["sealed"]))
    return agent.approved is not None and needs_presence(agent.approved.credentials, acting)
