"""The SQL of accepting: what the database knows of each offer, and storing those that nothing stands against.

On PostgreSQL this is one statement for a whole batch, so one round trip and one commit. On SQLite the same parts run
one after the other in one transaction. An offer that should have been stored and was not lost a race: the winner's
row lay outside the statement's snapshot, and a second look finds it.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from relay.delivery.wakeup import CHANNEL
from relay.storage.engine import Database, Dialect
from relay.storage.express import for_psycopg
from relay.storage.records import ColumnType, dumps, recordset

OFFERS: dict[str, ColumnType] = {
    "n": "int",
    "owner": "bigint",
    "tenant": "text",
    "client": "text",
    "id": "text",
    "agent": "text",
    "task": "text",
    "rating": "text",
    "comment": "text",
    "payloads": "json",
    "trace": "text",
    "class": "int",
    "token": "text",
}

CAPABILITIES: dict[str, ColumnType] = {
    "class": "int",
    "agent": "text",
    "ran_as": "text",
    "revision": "bigint",
    "obstacle": "text",
    "held": "boolean",
    "needs_presence": "boolean",
    "lineage": "int",
    "protocol": "text",
}

SLOTS: dict[str, ColumnType] = {"agent": "text", "free": "int"}

READY: dict[str, ColumnType] = {
    **OFFERS,
    "target": "text",
    "ran_as": "text",
    "registration_version": "int",
    "needs_presence": "boolean",
    "protocol": "text",
    "held": "boolean",
    "shut": "boolean",
    "body": "text",
    "sha256": "text",
}

FACTS = """
offers AS {materialized} (SELECT * FROM {offers} AS r),
capabilities AS {materialized} (SELECT * FROM {capabilities} AS r),
known AS (SELECT o.n, s.seq FROM offers o {known}),
candidates AS (
    SELECT o.n, p.agent, p.role, p.ran_as, p.status, p.registration_version, p.run FROM offers o {candidates}),
counted AS (
    SELECT n, count(*) AS named, sum(CASE WHEN role = 'specialist' THEN 1 ELSE 0 END) AS specialists
    FROM candidates GROUP BY n),
single AS (
    SELECT o.owner, o.task, o.class, k.* FROM candidates k JOIN counted ON counted.n = k.n AND counted.named = 1
    JOIN offers o ON o.n = k.n),
taken AS (SELECT single.n, s.seq FROM single {taken}),
judged AS {materialized} (
    SELECT single.n, c.obstacle, c.needs_presence, c.protocol,
        (c.held OR pinned.lineage <> c.lineage) AS held,
        (b.open_until IS NOT NULL OR COALESCE(b.paused_until, 0) > {now}) AS shut
    FROM single
    JOIN capabilities c ON c.class = single.class AND c.agent = single.agent AND c.ran_as = single.ran_as
    JOIN agents a ON a.id = single.agent AND a.revision = c.revision
    JOIN registrations pinned ON pinned.agent = single.agent AND pinned.version = single.registration_version
    LEFT JOIN agent_breakers b ON b.agent = single.agent
    {share}),
facts AS {materialized} (
    SELECT o.n, known.seq AS known, COALESCE(counted.named, 0) AS named,
        COALESCE(counted.specialists, 0) AS specialists, single.agent AS target, single.status, single.ran_as,
        single.registration_version, single.run, taken.seq AS taken, judged.n IS NOT NULL AS fresh, judged.obstacle,
        judged.held, judged.shut, judged.needs_presence, judged.protocol,
        (known.n IS NULL AND counted.named = 1 AND counted.specialists = 1 AND taken.n IS NULL
         AND single.status <> 'running' AND judged.n IS NOT NULL AND judged.obstacle IS NULL) AS ready
    FROM offers o
    LEFT JOIN known ON known.n = o.n
    LEFT JOIN counted ON counted.n = o.n
    LEFT JOIN single ON single.n = o.n
    LEFT JOIN taken ON taken.n = o.n
    LEFT JOIN judged ON judged.n = o.n)
"""

FACT_NAMES = (
    "n", "known", "named", "specialists", "target", "status", "ran_as", "registration_version", "run", "taken", "fresh",
    "obstacle", "held", "shut", "needs_presence", "protocol", "ready",
)  # fmt: skip

PLACED_NAMES: dict[str, ColumnType] = {
    "seq": "bigint",
    "n": "int",
    "target": "text",
    "tenant": "text",
    "owner": "bigint",
    "needs_presence": "boolean",
    "token": "text",
    "state": "text",
    "claimed": "int",
}

KNOWN = "s.owner = o.owner AND s.id = o.id"
CANDIDATES = "p.owner = o.owner AND p.task = o.task AND (o.agent IS NULL OR p.agent = o.agent)"
TAKEN = "s.owner = single.owner AND s.agent = single.agent AND s.task = single.task"

INSERT_SUBMISSIONS = """
INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol, rating,
    comment, payload, sha256, trace_context, created_at)
SELECT r.owner, r.tenant, r.client, r.id, r.target, r.task, r.ran_as, r.registration_version, r.protocol, r.rating,
    r.comment, {bytes}, r.sha256, r.trace, {now}
FROM {ready} AS r WHERE true ORDER BY r.owner, r.id
ON CONFLICT DO NOTHING RETURNING seq, owner, id, created_at
"""

INSERT_DELIVERIES = """
INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at, not_before,
    claim_token, claim_cause, claimed_at, lease_until, schedule_position, attempt_count, window_started_at, evidence,
    version)
SELECT 'feedback', r.seq, r.target, r.tenant, r.owner, r.needs_presence, r.state, {now}, {now} + :first_wait_ms, 0,
    CASE WHEN r.claimed = 1 THEN r.token END, CASE WHEN r.claimed = 1 THEN 'accept' END,
    CASE WHEN r.claimed = 1 THEN {now} END, CASE WHEN r.claimed = 1 THEN {now} + :lease_ms END,
    r.claimed, r.claimed, {now}, 'unchecked', 1
FROM {placed} AS r WHERE true
RETURNING id, submission, state, tenant, owner, due_at
"""

PLACED = """
SELECT x.*, CASE WHEN x.state = 'sending' THEN 1 ELSE 0 END AS claimed FROM (
    SELECT i.seq, r.n, r.target, r.tenant, r.owner, r.needs_presence, r.token, CASE
        WHEN r.held THEN 'held'
        WHEN NOT r.shut AND :first_wait_ms = 0
            AND row_number() OVER (PARTITION BY r.target, r.held, r.shut ORDER BY r.n) <= COALESCE(f.free, 0)
            THEN 'sending'
        WHEN r.needs_presence THEN 'needs_owner'
        ELSE 'pending' END AS state
    FROM {ready} AS r {join} {inserted} AS i ON r.owner = i.owner AND r.id = i.id
    LEFT JOIN {slots} AS f ON f.agent = r.target) AS x
"""

TELL = """
INSERT INTO events (tenant, owner, kind, ref, state, at)
SELECT r.tenant, r.owner, 'feedback', r.submission, r.state, {now} FROM {stored} AS r
"""


class AcceptStatement:
    """The statements of one dialect, put together once: ``whole`` on PostgreSQL, `run` on SQLite."""

    def __init__(self, db: Database) -> None:
        self._now = db.now
        dialect = db.dialect
        source = {
            "offers": recordset(dialect, "offers", OFFERS),
            "capabilities": recordset(dialect, "capabilities", CAPABILITIES),
        }
        slots = recordset(dialect, "slots", SLOTS)
        if dialect == "postgresql":
            facts = self._fill(
                FACTS, **source, **_lookups(dialect), materialized="MATERIALIZED", share="FOR SHARE OF a"
            )
            self.whole = for_psycopg(self._whole(facts, slots))
            return
        facts = self._fill(FACTS, **source, **_lookups(dialect), materialized="", share="")
        self.facts = _in_one(f"WITH {facts} SELECT * FROM facts", FACT_NAMES)
        ready = recordset(dialect, "ready", READY)
        insert = self._fill(INSERT_SUBMISSIONS, ready=ready, bytes="CAST(r.body AS BLOB)")
        self.insert_submissions = _without_returning(insert)
        # Nobody else writes meanwhile: what was ready has gone in.
        placed_by_key = self._fill(PLACED, inserted="submissions", ready=ready, slots=slots, join="CROSS JOIN")
        self.place = _in_one(placed_by_key, PLACED_NAMES)
        placed = recordset(dialect, "placed", PLACED_NAMES)
        self.insert_deliveries = _without_returning(self._fill(INSERT_DELIVERIES, placed=placed))
        stored = f"""(SELECT p.n, s.seq, s.created_at, d.id, d.submission, d.state, d.due_at, d.tenant, d.owner
            FROM {placed} AS p CROSS JOIN submissions s ON s.seq = p.seq
            CROSS JOIN deliveries d ON d.submission = s.seq)"""
        self.tell = self._fill(TELL, stored=stored)
        self.stored = _in_one(f"SELECT * FROM {stored}", ("n", "seq", "created_at", "id", "state", "due_at"))

    def _fill(self, statement: str, **parts: str) -> str:
        for name, part in {**parts, "now": self._now}.items():
            statement = statement.replace("{" + name + "}", part)
        return statement

    def _whole(self, facts: str, slots: str) -> str:
        return f"""WITH {facts},
            ready AS MATERIALIZED (
                SELECT o.*, f.target, f.ran_as, f.registration_version, f.needs_presence, f.protocol, f.held, f.shut,
                    o.payloads -> f.protocol ->> 'body' AS body, o.payloads -> f.protocol ->> 'sha256' AS sha256
                FROM facts f JOIN offers o ON o.n = f.n WHERE f.ready),
            inserted AS ({self._fill(INSERT_SUBMISSIONS, ready="ready", bytes="convert_to(r.body, 'UTF8')")}),
            placed AS MATERIALIZED ({self._fill(PLACED, inserted="inserted", ready="ready", slots=slots, join="JOIN")}),
            stored AS ({self._fill(INSERT_DELIVERIES, placed="placed")}),
            told AS ({self._fill(TELL, stored="stored")}),
            woken AS MATERIALIZED (
                SELECT pg_notify('{CHANNEL}', '') FROM (SELECT 1 FROM stored WHERE state = 'pending' LIMIT 1) AS x)
            SELECT f.n, f.known, f.named, f.specialists, f.target, f.status, f.ran_as, f.registration_version, f.run,
                f.taken,
                f.fresh, f.obstacle, f.protocol, f.needs_presence, p.seq, st.id AS delivery, st.state, st.due_at,
                i.created_at,
                (SELECT count(*) FROM woken)
            FROM facts f LEFT JOIN placed p ON p.n = f.n LEFT JOIN stored st ON st.submission = p.seq
            LEFT JOIN inserted i ON i.seq = p.seq ORDER BY f.n"""

    def run(self, connection: sqlite3.Connection, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """SQLite: the rows that ``whole`` gives, from the same parts one after the other, within a transaction."""
        found = _one(connection, self.facts, parameters)
        offers = msgspec.json.decode(parameters["offers"])
        ready = dumps(_ready(offers[row["n"]], row) for row in found if row["ready"])
        connection.execute(self.insert_submissions, {"ready": ready})
        placed = dumps(_one(connection, self.place, {**parameters, "ready": ready}))
        connection.execute(self.insert_deliveries, {**parameters, "placed": placed})
        connection.execute(self.tell, {"placed": placed})
        stored = {row["n"]: row for row in _one(connection, self.stored, {"placed": placed})}
        return [_with_delivery(row, stored.get(row["n"])) for row in sorted(found, key=itemgetter("n"))]


def _in_one(query: str, names: Iterable[str]) -> str:
    """The query's rows as one JSON text.

    After every row SQLite's thread has to get hold of the interpreter again, against a busy event loop.
    """
    members = ", ".join(f"'{name}', x.{name}" for name in names)
    return f"SELECT json_group_array(json_object({members})) FROM ({query}) AS x"


def _one(connection: sqlite3.Connection, statement: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(connection.execute(statement, parameters).fetchone()[0])
    return found


def _without_returning(statement: str) -> str:
    return statement[: statement.index("RETURNING")]


def _ready(offer: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    payload = offer["payloads"][facts["protocol"]]
    kept = ("target", "ran_as", "registration_version", "needs_presence", "protocol", "held", "shut")
    return {**offer, "payloads": None, **payload, **{name: facts[name] for name in kept}}


def _with_delivery(facts: Mapping[str, Any], stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if stored is None:
        return {**facts, "seq": None, "delivery": None, "state": None, "due_at": None, "created_at": None}
    kept = {name: stored[name] for name in ("seq", "state", "due_at", "created_at")}
    return {**facts, **kept, "delivery": stored["id"]}


def _lookups(dialect: Dialect) -> dict[str, str]:
    """Each offer looks its rows up by index. A plain join made PostgreSQL scan the whole table for a few offers."""
    task = "p.agent, p.role, p.ran_as, p.status, p.registration_version, p.run"
    wanted = {
        "known": ("submissions s", "s.seq", KNOWN),
        "candidates": ("provenance p", task, CANDIDATES),
        "taken": ("submissions s", "s.seq", TAKEN),
    }
    if dialect == "sqlite":
        return {name: f"CROSS JOIN {table} ON {condition}" for name, (table, _, condition) in wanted.items()}
    return {
        name: f"CROSS JOIN LATERAL (SELECT {columns} FROM {table} WHERE {condition} LIMIT 100) AS {table[-1]}"
        for name, (table, columns, condition) in wanted.items()
    }
