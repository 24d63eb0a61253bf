"""The SQL of reading back. ``{now}`` is the database's clock in milliseconds; rows come in as one JSON parameter.

The same on both engines but for locks, of which SQLite with its single writer needs none.
"""

from relay.storage.records import ColumnType

SLOTS: dict[str, ColumnType] = {"agent": "text", "revision": "bigint"}

# Which of the agents may be asked now and have something due: none whose breaker is open, which is paused, or which the
# registry has changed since it was read. A breaker that may half-open is left to a delivery to probe, if there is one.
# The least is looked up in an index; for EXISTS PostgreSQL might scan the table.
DUE_AGENTS = """
SELECT s.agent FROM {slots} AS s
JOIN agents a ON a.id = s.agent AND a.revision = s.revision AND a.approved_version IS NOT NULL
LEFT JOIN agent_breakers b ON b.agent = s.agent
WHERE COALESCE(b.paused_until, 0) <= {now}
    AND (b.open_until IS NULL OR (b.open_until <= {now}
         AND (SELECT min(p.due_at) FROM deliveries p WHERE p.agent = s.agent AND p.state = 'pending') IS NULL))
    AND (SELECT min(d.check_due_at) FROM deliveries d WHERE d.agent = s.agent AND d.check_due_at IS NOT NULL) <= {now}
"""

# Those due, and those so soon due that they would come up while the same owner's list is being read.
CANDIDATES = """
SELECT d.id, d.owner, d.check_due_at, d.check_due_at <= {now} AS due FROM deliveries d
WHERE d.agent = :agent AND d.check_due_at <= {now} + :horizon_ms
ORDER BY d.check_due_at, d.id LIMIT :most
"""

CHOSEN: dict[str, ColumnType] = {"id": "bigint", "check_due_at": "bigint"}

UNTOUCHED = """
SELECT d.id FROM {chosen} AS c JOIN deliveries d ON d.id = c.id AND d.check_due_at = c.check_due_at
ORDER BY d.id {lock}
"""

TAKE = """
UPDATE deliveries SET check_due_at = {now} + :lease_ms WHERE {untouched} RETURNING id
"""

TAKEN = """
SELECT d.id, d.check_due_at, d.checks, d.agent, d.tenant, d.owner, d.state, d.evidence, d.resolution,
    s.registration_version AS pinned, s.protocol, s.ran_as, s.id AS submission, s.task, s.rating, s.comment, s.sha256
FROM {taken} AS t JOIN deliveries d ON d.id = t.id JOIN submissions s ON s.seq = d.submission
"""

FINDINGS: dict[str, ColumnType] = {
    "id": "bigint",
    "check_due_at": "bigint",
    "evidence": "text",
    "seen": "boolean",
    "resolved": "boolean",
    "resolution": "text",
    "hurries": "boolean",
    "counts": "int",
    "wait_ms": "bigint",
    "news": "boolean",
}

# Brought forward at most to now, and never to before the specialist's own floor.
APPLY = """
UPDATE deliveries SET
    evidence = COALESCE(c.evidence, deliveries.evidence),
    evidence_at = CASE WHEN c.seen THEN {now} ELSE deliveries.evidence_at END,
    resolution = CASE WHEN c.resolved THEN c.resolution ELSE deliveries.resolution END,
    due_at = CASE WHEN c.hurries AND deliveries.state = 'pending'
        THEN {least}(deliveries.due_at, {greatest}({now}, deliveries.not_before)) ELSE deliveries.due_at END,
    check_due_at = {now} + c.wait_ms,
    checks = deliveries.checks + c.counts,
    version = deliveries.version + CASE WHEN c.news THEN 1 ELSE 0 END
FROM {findings} AS c
WHERE deliveries.id = c.id AND deliveries.check_due_at = c.check_due_at
RETURNING deliveries.id, deliveries.submission, deliveries.tenant, deliveries.owner, deliveries.state
"""

CONFLICTS: dict[str, ColumnType] = {
    "id": "bigint",
    "version": "int",
    "status": "int",
    "duration_ms": "int",
}

# What is being sent at this moment will find out by itself.
CONFLICT = """
UPDATE deliveries SET state = 'conflict', state_since = {now}, attempt_count = attempt_count + 1, check_due_at = NULL,
    version = version + 1
WHERE id IN (SELECT id FROM {conflicts} AS c) AND state IN ('pending', 'held', 'needs_owner')
RETURNING id
"""

LOG = """
INSERT INTO attempts (delivery, number, cause, registration_version, started_at, duration_ms, phase, status, outcome,
    error_kind, ambiguous)
SELECT d.id, d.attempt_count, 'reconcile', c.version, {now} - c.duration_ms, c.duration_ms, 'body', c.status,
    'conflict', 'read_back_differs', false
FROM {conflicts} AS c JOIN deliveries d ON d.id = c.id
"""

CONFIRMATION = """
SELECT s.id AS submission, s.agent, s.task, p.seq AS provenance, p.run, d.evidence, d.evidence_at, d.resolution
FROM submissions s JOIN deliveries d ON d.submission = s.seq
LEFT JOIN provenance p ON p.owner = s.owner AND p.task = s.task AND p.agent = s.agent
WHERE s.seq = :seq
"""

REFERENCES = "SELECT kind, id FROM provenance_evidence WHERE provenance = :provenance ORDER BY kind, id"
