"""The SQL of what operators do to deliveries. ``{chosen}`` is a row source with the columns of CHOSEN.

They run in one transaction with the agents locked against decisions and the deliveries locked against claims and
settles; still each looks at the state by which it was chosen, and what is not so any more is left alone.
"""

from typing import Final

from relay.storage.records import ColumnType

CHOSEN: Final[dict[str, ColumnType]] = {
    "id": "bigint",
    "before": "text",
    "resting": "text",
    "needs_presence": "boolean",
}

# A decision about an agent changes its row first and its deliveries then: so its row is locked first here as well.
LOCK_AGENTS: Final = """
SELECT a.id FROM agents a
WHERE a.id IN (SELECT d.agent FROM deliveries d JOIN {chosen} AS c ON c.id = d.id) ORDER BY a.id FOR SHARE OF a
"""

# Not what is being sent: it is left alone, and its settle, which takes many in an order of its own, must not meet ours.
LOCK_DELIVERIES: Final = """
SELECT d.id FROM deliveries d JOIN {chosen} AS c ON c.id = d.id WHERE d.state <> 'sending'
ORDER BY d.id FOR UPDATE OF d
"""

STANDING: Final = """
SELECT d.id, d.agent, d.tenant, d.state, d.due_at, d.not_before, s.seq, s.id AS submission, o.owner_key AS owner,
    s.erased_at, s.ran_as, s.registration_version AS pinned,
    o.kind, o.issuer, o.client, o.sealed_subject IS NOT NULL AS sealed
FROM deliveries d JOIN {chosen} AS c ON c.id = d.id
JOIN submissions s ON s.seq = d.submission JOIN owners o ON o.id = s.owner
ORDER BY s.seq
"""

# A new window: the schedule and the grace for a 404 begin again. A wait that the specialist asked for stands.
REOPEN: Final = """
UPDATE deliveries SET state = c.resting, state_since = :at, due_at = {greatest}(:at, deliveries.not_before),
    schedule_position = 0, window_started_at = :at, needs_presence = c.needs_presence,
    abandoned_by = NULL, abandoned_why = NULL, version = deliveries.version + 1
FROM {chosen} AS c WHERE deliveries.id = c.id AND deliveries.state = c.before
RETURNING deliveries.id, deliveries.submission, deliveries.tenant, deliveries.owner, deliveries.state
"""

MAKE_DUE: Final = """
UPDATE deliveries SET due_at = {greatest}(:at, deliveries.not_before), version = deliveries.version + 1
FROM {chosen} AS c WHERE deliveries.id = c.id AND deliveries.state = c.before
RETURNING deliveries.id, deliveries.submission, deliveries.tenant, deliveries.owner, deliveries.state
"""

ABANDON: Final = """
UPDATE deliveries SET state = 'abandoned', state_since = :at, abandoned_by = :by, abandoned_why = :why,
    version = deliveries.version + 1
FROM {chosen} AS c WHERE deliveries.id = c.id AND deliveries.state = c.before
RETURNING deliveries.id, deliveries.submission, deliveries.tenant, deliveries.owner, deliveries.state
"""
