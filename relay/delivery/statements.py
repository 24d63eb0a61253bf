"""The SQL of the outbox. ``{now}`` is the database's clock in milliseconds; row sources come in as one JSON parameter.

On PostgreSQL CLAIM and SETTLE are one statement each, so one round trip; on SQLite their parts run one after the other
in one transaction of its single writer.
"""

from relay.storage.records import ColumnType

SLOTS: dict[str, ColumnType] = {"agent": "text", "free": "int", "revision": "bigint"}

# Takes the probe of each breaker that may half-open and has something due: one process gets it.
PROBE = """
UPDATE agent_breakers SET probe_until = {now} + :lease_ms
WHERE agent IN (SELECT agent FROM {slots} AS s) AND open_until <= {now} AND COALESCE(probe_until, 0) <= {now}
    AND COALESCE(paused_until, 0) <= {now}
    AND (SELECT min(d.due_at) FROM deliveries d WHERE d.agent = agent_breakers.agent AND d.state = 'pending') <= {now}
RETURNING agent
"""

# What each agent may be sent now: its free slots, one for a probe, none while its breaker is open, while it is paused,
# or if the registry has changed since it was read.
ABLE = """
SELECT s.agent, CASE WHEN b.open_until IS NULL THEN s.free WHEN p.agent IS NOT NULL THEN 1 ELSE 0 END AS free
FROM {slots} AS s
JOIN agents a ON a.id = s.agent AND a.revision = s.revision AND a.approved_version IS NOT NULL
LEFT JOIN agent_breakers b ON b.agent = s.agent
LEFT JOIN {probes} AS p ON p.agent = s.agent
WHERE COALESCE(b.paused_until, 0) <= {now}
"""

# Led by the agent: one agent's backlog is never scanned for the others.
DUE = """
SELECT d.id FROM deliveries d
WHERE d.agent = {agent} AND d.state = 'pending' AND d.due_at <= {now}
    AND NOT EXISTS (SELECT 1 FROM agent_holds h WHERE h.agent = d.agent AND h.tenant = d.tenant)
ORDER BY d.due_at, d.id LIMIT {free}
"""

TAKE = """
UPDATE deliveries SET state = 'sending', state_since = {now}, claim_token = :token, claim_cause = 'schedule',
    claimed_at = {now}, lease_until = {now} + :lease_ms, schedule_position = schedule_position + 1,
    attempt_count = attempt_count + 1, version = version + 1
WHERE {due}
RETURNING *
"""

# An attempt that the owner asked for: not before a floor, not while the breaker is open, at most one in five seconds.
# What waits for its owner goes out only from the process that holds their live token.
TAKE_ONE = """
UPDATE deliveries SET state = 'sending', state_since = {now}, claim_token = :token, claim_cause = :cause,
    claimed_at = {now}, lease_until = {now} + :lease_ms, owner_attempt_at = {now},
    attempt_count = attempt_count + 1, version = version + 1
WHERE id = :id AND not_before <= {now}
    AND (state = 'pending' OR (:present AND state = 'needs_owner' AND due_at <= {now}))
    AND COALESCE(owner_attempt_at, 0) <= {now} - :owner_gap_ms
    AND EXISTS (SELECT 1 FROM agents a WHERE a.id = deliveries.agent AND a.revision = :revision
                AND a.approved_version IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM agent_holds h WHERE h.agent = deliveries.agent AND h.tenant = deliveries.tenant)
    AND NOT EXISTS (SELECT 1 FROM agent_breakers b WHERE b.agent = deliveries.agent
                    AND (b.open_until IS NOT NULL OR COALESCE(b.paused_until, 0) > {now}))
RETURNING *
"""

CLAIMED = """
SELECT d.id, d.claim_token AS token, d.attempt_count AS number, d.claim_cause AS cause,
    d.schedule_position AS position, d.claimed_at - d.window_started_at AS window_ms, d.agent, d.tenant, d.owner,
    s.id AS submission, s.task, s.rating, s.comment, s.payload, s.sha256, s.ran_as, s.protocol,
    s.registration_version AS pinned, s.trace_context
FROM {taken} AS d JOIN submissions s ON s.seq = d.submission
"""

# Starts a new window for a delivery that had come to its end: the schedule and the grace for a 404 begin again. The
# specialist's floor stands.
REOPEN = """
UPDATE deliveries SET state = CASE WHEN :held THEN 'held' WHEN needs_presence THEN 'needs_owner' ELSE 'pending' END,
    state_since = {now}, due_at = {greatest}({now}, not_before), schedule_position = 0,
    window_started_at = {now}, version = version + 1
WHERE id = :id AND state IN ('rejected', 'exhausted')
    AND EXISTS (SELECT 1 FROM submissions s WHERE s.seq = deliveries.submission AND s.erased_at IS NULL)
    AND EXISTS (SELECT 1 FROM agents a WHERE a.id = deliveries.agent AND a.revision = :revision {share})
RETURNING submission, tenant, owner, state
"""

WAITING_FOR = """
SELECT d.id, d.agent FROM deliveries d LEFT JOIN agent_breakers b ON b.agent = d.agent
WHERE d.owner = :owner AND d.state = 'needs_owner' AND d.due_at <= {now}
    AND b.open_until IS NULL AND COALESCE(b.paused_until, 0) <= {now}
ORDER BY d.due_at, d.id LIMIT 100
"""

EXPIRED = """
SELECT d.id, d.agent, d.tenant, d.claim_token AS token, d.attempt_count AS number, d.claim_cause AS cause,
    d.schedule_position AS position, s.registration_version AS pinned,
    {least}({now} - d.claimed_at, 2147483647) AS age_ms
FROM deliveries d JOIN submissions s ON s.seq = d.submission
WHERE d.state = 'sending' AND d.lease_until <= {now} ORDER BY d.lease_until LIMIT 256
"""

OUTCOMES: dict[str, ColumnType] = {
    "n": "int",
    "delivery": "bigint",
    "token": "text",
    "agent": "text",
    "revision": "bigint",
    "held": "boolean",
    "outcome": "text",
    "number": "int",
    "cause": "text",
    "version": "int",
    "duration_ms": "int",
    "phase": "text",
    "status": "int",
    "reason": "text",
    "ambiguous": "boolean",
    "excerpt": "text",
    "exhausted": "boolean",
    "advances": "boolean",
    "wait_ms": "bigint",
    "floor_ms": "bigint",
    "pause_ms": "bigint",
    "unhealthy": "boolean",
    "needs_presence": "boolean",
    "check_ms": "bigint",
}

# The registry as the outcome was judged by. The share lock makes a change of it wait, or this settle start over.
# A valid acknowledgement needs no registry.
FRESH = """
SELECT a.id, a.revision FROM agents a JOIN (SELECT DISTINCT agent, revision FROM {outcomes} AS _) AS o
    ON o.agent = a.id AND o.revision = a.revision
"""

CHANGE = """
UPDATE deliveries SET
    state = CASE
        WHEN o.outcome IN ('saved', 'rejected', 'conflict') THEN o.outcome
        -- What waits for its owner uses up no schedule.
        WHEN o.exhausted AND NOT COALESCE(o.needs_presence, deliveries.needs_presence) THEN 'exhausted'
        WHEN o.held THEN 'held'
        WHEN COALESCE(o.needs_presence, deliveries.needs_presence) THEN 'needs_owner'
        ELSE 'pending' END,
    state_since = {now},
    due_at = CASE
        WHEN o.outcome NOT IN ('retry', 'lost') THEN deliveries.due_at
        WHEN o.advances THEN {now} + o.wait_ms
        ELSE {greatest}(deliveries.due_at, {now} + o.wait_ms) END,
    not_before = CASE WHEN o.floor_ms > 0 THEN {now} + o.floor_ms ELSE deliveries.not_before END,
    schedule_position = deliveries.schedule_position
        - CASE WHEN o.outcome = 'released' AND o.advances THEN 1 ELSE 0 END,
    attempt_count = deliveries.attempt_count - CASE WHEN o.outcome = 'released' AND o.phase IS NULL THEN 1 ELSE 0 END,
    saved_at = CASE WHEN o.outcome = 'saved' THEN {now} ELSE deliveries.saved_at END,
    needs_presence = COALESCE(o.needs_presence, deliveries.needs_presence),
    -- What the specialist keeps is read back from here on, by a schedule of its own.
    check_due_at = CASE WHEN o.check_ms IS NULL THEN deliveries.check_due_at ELSE {now} + o.check_ms END,
    checks = CASE WHEN o.check_ms IS NULL THEN deliveries.checks ELSE 0 END,
    claim_token = NULL, claim_cause = NULL, lease_until = NULL, version = deliveries.version + 1
FROM {accepted} AS o
WHERE deliveries.id = o.delivery AND deliveries.state <> 'saved'
    AND (o.outcome = 'saved' OR (deliveries.state = 'sending' AND deliveries.claim_token = o.token
         AND (o.outcome <> 'lost' OR deliveries.lease_until <= {now})))
RETURNING deliveries.id, deliveries.submission, deliveries.tenant, deliveries.owner, deliveries.state
"""

# Logged from whatever claim, except that a claim is lost only once, and that nothing was sent has nothing to tell.
LOG = """
INSERT INTO attempts (delivery, number, cause, registration_version, started_at, duration_ms, phase, status, outcome,
    error_kind, ambiguous, excerpt)
SELECT o.delivery, o.number, o.cause, o.version, {now} - o.duration_ms, o.duration_ms, o.phase, o.status, o.outcome,
    o.reason, o.ambiguous, o.excerpt
FROM {accepted} AS o
WHERE o.phase IS NOT NULL AND (o.outcome <> 'lost' OR o.delivery IN (SELECT id FROM {changed} AS _))
"""

TELL = """
INSERT INTO events (tenant, owner, kind, ref, state, at)
SELECT c.tenant, c.owner, 'feedback', c.submission, c.state, {now} FROM {changed} AS c
"""

# One row an agent. A success closes the breaker; too large a share of failures within the window opens it, and so does
# a failure while it half-opens. Attempts that were lost, given back, or
# never got past the authorization server say nothing of the agent.
BREAKERS = """
INSERT INTO agent_breakers (agent, window_started_at, attempts, failures, last_success_at, last_failure_at, open_until,
    paused_until)
SELECT agent, {now}, total, failed, CASE WHEN failed < total THEN {now} END, CASE WHEN failed > 0 THEN {now} END,
    CASE WHEN total >= :minimum AND failed >= :ratio * total THEN {now} + :open_ms END,
    CASE WHEN pause_ms > 0 THEN {now} + pause_ms END
FROM (
    SELECT agent, count(*) AS total, sum(CASE WHEN unhealthy THEN 1 ELSE 0 END) AS failed, max(pause_ms) AS pause_ms
    FROM {accepted} AS o WHERE phase IS NOT NULL AND phase <> 'authorize' AND outcome NOT IN ('lost', 'released')
    GROUP BY agent ORDER BY agent
) AS o WHERE true
ON CONFLICT (agent) DO UPDATE SET
    window_started_at = CASE WHEN {restart} THEN excluded.window_started_at ELSE agent_breakers.window_started_at END,
    attempts = excluded.attempts + CASE WHEN {restart} THEN 0 ELSE agent_breakers.attempts END,
    failures = excluded.failures + CASE WHEN {restart} THEN 0 ELSE agent_breakers.failures END,
    last_success_at = COALESCE(excluded.last_success_at, agent_breakers.last_success_at),
    last_failure_at = COALESCE(excluded.last_failure_at, agent_breakers.last_failure_at),
    open_until = CASE
        WHEN agent_breakers.open_until IS NOT NULL AND excluded.failures < excluded.attempts THEN NULL
        WHEN agent_breakers.open_until > {now} THEN agent_breakers.open_until
        WHEN agent_breakers.open_until IS NOT NULL THEN {now} + :open_ms
        WHEN NOT ({restart}) AND agent_breakers.attempts + excluded.attempts >= :minimum
            AND agent_breakers.failures + excluded.failures >= :ratio * (agent_breakers.attempts + excluded.attempts)
            THEN {now} + :open_ms
        ELSE excluded.open_until END,
    probe_until = CASE WHEN agent_breakers.open_until IS NOT NULL AND agent_breakers.open_until <= {now} THEN NULL
        ELSE agent_breakers.probe_until END,
    paused_until = CASE WHEN excluded.paused_until IS NULL THEN agent_breakers.paused_until
        ELSE {greatest}(COALESCE(agent_breakers.paused_until, 0), excluded.paused_until) END
"""

RESTART = """
(agent_breakers.open_until IS NOT NULL OR agent_breakers.window_started_at + :window_ms <= excluded.window_started_at)
"""
