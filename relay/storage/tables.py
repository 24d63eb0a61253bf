"""Every table of the relay; the registry's own are declared beside it. The migrations make them, a test compares.

Times are milliseconds since the epoch, by the database's clock, whatever the session's time zone.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    FetchedValue,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import UserDefinedType
from typing_extensions import override

from registry.tables import agent_holds, agents, metadata, registrations

__all__ = [
    "agent_breakers",
    "agent_holds",
    "agents",
    "attempts",
    "audit_log",
    "console_sessions",
    "deliveries",
    "events",
    "feed_horizon",
    "jobs",
    "key_checks",
    "metadata",
    "owners",
    "provenance",
    "provenance_evidence",
    "rate_limits",
    "registrations",
    "submissions",
]


class TransactionId(UserDefinedType[int]):
    """PostgreSQL's xid8. SQLite, with its single writer, needs none."""

    cache_ok = True

    @override
    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


# SQLite numbers rows by itself only where the key is spelled INTEGER.
serial = BigInteger().with_variant(Integer, "sqlite")
transaction_id = TransactionId().with_variant(BigInteger, "sqlite")

# A range's smallest and largest value is all that such an index keeps: a write costs next to nothing.
RANGES: Any = {"postgresql_using": "brin", "postgresql_with": {"pages_per_range": 32}}

owners = Table(
    "owners",
    metadata,
    Column("id", serial, primary_key=True),
    Column("owner_key", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("lookup_hmac", LargeBinary, nullable=False),
    Column("pepper_kid", Text, nullable=False),
    Column("sealed_subject", LargeBinary),
    Column("seal_kid", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("erased_at", BigInteger),
    UniqueConstraint("lookup_hmac", "pepper_kid"),
)

key_checks = Table(
    "key_checks",
    metadata,
    Column("name", Text, nullable=False),
    Column("kid", Text, nullable=False),
    Column("check_value", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("name", "kid"),
)

provenance = Table(
    "provenance",
    metadata,
    Column("seq", serial, primary_key=True),
    Column("owner", BigInteger, ForeignKey("owners.id"), nullable=False),
    Column("tenant", Text, nullable=False),
    Column("recorded_by", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("registration_version", Integer, nullable=False),
    Column("task", Text, nullable=False),
    Column("conversation", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("ran_as", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("parent", Text),
    Column("run", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    ForeignKeyConstraint(["agent", "registration_version"], ["registrations.agent", "registrations.version"]),
    # Led by owner and task: accepting looks a task up without knowing its agent.
    UniqueConstraint("owner", "task", "agent"),
    Index(None, "owner", "answer"),
    Index(None, "owner", "conversation"),
    Index(None, "tenant", "run"),
    # Tasks recorded under two owners are shown to operators.
    Index(None, "agent", "task"),
    # And so are those that run for too long.
    Index(
        "ix_provenance_running",
        "tenant",
        "seq",
        postgresql_where=text("status = 'running'"),
        sqlite_where=text("status = 'running'"),
    ),
)

provenance_evidence = Table(
    "provenance_evidence",
    metadata,
    Column("provenance", BigInteger, ForeignKey("provenance.seq"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("id", Text, nullable=False),
    PrimaryKeyConstraint("provenance", "kind", "id"),
)

submissions = Table(
    "submissions",
    metadata,
    Column("seq", serial, primary_key=True),
    Column("owner", BigInteger, ForeignKey("owners.id"), nullable=False),
    Column("tenant", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("ran_as", Text, nullable=False),
    Column("registration_version", Integer, nullable=False),
    Column("protocol", Text, nullable=False),
    # The next four are NULL once the submission is erased.
    Column("rating", Text),
    Column("comment", Text),
    Column("payload", LargeBinary),
    Column("sha256", Text),
    Column("trace_context", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("erased_at", BigInteger),
    UniqueConstraint("owner", "id"),
    UniqueConstraint("owner", "agent", "task"),
    Index(None, "owner", "seq"),
    Index(None, "tenant", "seq"),
    # What retention looks through: a tombstone is never looked at again.
    Index(
        "ix_submissions_kept",
        "tenant",
        "created_at",
        "seq",
        postgresql_where=text("erased_at IS NULL"),
        sqlite_where=text("erased_at IS NULL"),
    ),
    # For who looks at a span of time: rows lie in the order in which they were made, so that ranges of pages suffice.
    Index("ix_submissions_created", "created_at", **RANGES).ddl_if(dialect="postgresql"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", serial, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("submission", BigInteger, ForeignKey("submissions.seq"), nullable=False, unique=True),
    Column("agent", Text, ForeignKey("agents.id"), nullable=False),
    Column("tenant", Text, nullable=False),
    Column("owner", BigInteger, nullable=False),
    # Whether only the owner's own sign-in can act (a mode that needs the owner's live token).
    Column("needs_presence", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("state_since", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("claim_token", Text),
    Column("claim_cause", Text),
    Column("claimed_at", BigInteger),
    Column("lease_until", BigInteger),
    Column("schedule_position", Integer, nullable=False),
    Column("attempt_count", Integer, nullable=False),
    Column("window_started_at", BigInteger, nullable=False),
    Column("owner_attempt_at", BigInteger),
    Column("saved_at", BigInteger),
    Column("abandoned_by", Text),
    Column("abandoned_why", Text),
    Column("evidence", Text, nullable=False),
    Column("evidence_at", BigInteger),
    Column("resolution", Text),
    Column("version", Integer, nullable=False),
    # When what the specialist keeps is next read back, and how often it has been; NULL: not again.
    Column("check_due_at", BigInteger),
    Column("checks", Integer, nullable=False, server_default=text("0")),
    # Led by the agent: one agent's backlog must not be scanned for the others, and claims stay fair.
    Index(
        "ix_deliveries_due",
        "agent",
        "due_at",
        "id",
        postgresql_where=text("state = 'pending'"),
        sqlite_where=text("state = 'pending'"),
    ),
    Index(
        "ix_deliveries_leases",
        "lease_until",
        postgresql_where=text("state = 'sending'"),
        sqlite_where=text("state = 'sending'"),
    ),
    Index(
        "ix_deliveries_needs_owner",
        "owner",
        postgresql_where=text("state = 'needs_owner'"),
        sqlite_where=text("state = 'needs_owner'"),
    ),
    Index(
        "ix_deliveries_parked",
        "agent",
        "state",
        "due_at",
        "id",
        postgresql_where=text("state IN ('held', 'needs_owner')"),
        sqlite_where=text("state IN ('held', 'needs_owner')"),
    ),
    Index(
        "ix_deliveries_checks",
        "agent",
        "check_due_at",
        postgresql_where=text("check_due_at IS NOT NULL"),
        sqlite_where=text("check_due_at IS NOT NULL"),
    ),
    # What operators look for among millions that are saved. What is saved at its first schedule never stands in it.
    Index(
        "ix_deliveries_failed",
        "tenant",
        "state",
        "submission",
        postgresql_where=text("state IN ('rejected', 'conflict', 'exhausted', 'abandoned')"),
        sqlite_where=text("state IN ('rejected', 'conflict', 'exhausted', 'abandoned')"),
    ),
    # How many are saved in a minute.
    Index("ix_deliveries_saved", "saved_at", **RANGES).ddl_if(dialect="postgresql"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", serial, primary_key=True),
    Column("delivery", BigInteger, ForeignKey("deliveries.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("cause", Text, nullable=False),
    Column("registration_version", Integer),
    Column("started_at", BigInteger, nullable=False),
    Column("duration_ms", Integer),
    Column("phase", Text),
    Column("status", Integer),
    Column("outcome", Text, nullable=False),
    Column("error_kind", Text),
    Column("ambiguous", Boolean, nullable=False),
    Column("excerpt", Text),
    Index(None, "delivery", "id"),
)

agent_breakers = Table(
    "agent_breakers",
    metadata,
    Column("agent", Text, ForeignKey("agents.id"), primary_key=True),
    Column("window_started_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("open_until", BigInteger),
    Column("probe_token", Text),
    Column("probe_until", BigInteger),
    # A Retry-After of the agent as a whole (429, 503): nothing of this agent is claimed before.
    Column("paused_until", BigInteger),
    # When an attempt last ended well, and badly, as the breaker counts them.
    Column("last_success_at", BigInteger),
    Column("last_failure_at", BigInteger),
)

events = Table(
    "events",
    metadata,
    Column("seq", serial, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("owner", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("ref", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    # Numbers commit out of order: readers stop below the oldest running transaction.
    Column("xid", transaction_id, FetchedValue(), nullable=False),
    Index(None, "owner", "xid", "seq"),
)

# One row: up to where events have been thrown away, by the numbers of the cluster that they were written in.
feed_horizon = Table(
    "feed_horizon",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("epoch", Text, nullable=False),
    Column("xid", transaction_id, nullable=False),
    Column("seq", BigInteger, nullable=False),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("seq", serial, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("tenant", Text),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("before", Text),
    Column("after", Text),
    Column("why", Text),
    Index(None, "tenant", "seq"),
)

# Work on many rows that an operator asked for: it survives a restart, and whoever holds the lease goes on with it.
jobs = Table(
    "jobs",
    metadata,
    Column("seq", serial, primary_key=True),
    Column("id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("filter", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("why", Text),
    Column("state", Text, nullable=False),
    Column("total", BigInteger),
    Column("examined", BigInteger, nullable=False),
    Column("results", Text, nullable=False),
    # The last number looked at, and the last to look at: what comes in later is not touched.
    Column("position", BigInteger, nullable=False),
    Column("upto", BigInteger, nullable=False),
    Column("problem", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    UniqueConstraint("id"),
    Index(None, "tenant", "seq"),
    Index(
        "ix_jobs_open",
        "seq",
        postgresql_where=text("finished_at IS NULL"),
        sqlite_where=text("finished_at IS NULL"),
    ),
)

# Who is signed in at the console. Of a session's id only the SHA-256 is kept; its tokens are sealed. Times are the
# gateways', in milliseconds.
console_sessions = Table(
    "console_sessions",
    metadata,
    Column("id_hash", Text, primary_key=True),
    # The operator's public name, the same for all their sessions.
    Column("operator", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("seal_kid", Text, nullable=False),
    Column("token_expires_at", BigInteger, nullable=False),
    # One request at a time gets new tokens.
    Column("refreshing_until", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    Index(None, "operator"),
)

rate_limits = Table(
    "rate_limits",
    metadata,
    Column("bucket", Text, nullable=False),
    Column("window", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    PrimaryKeyConstraint("bucket", "window"),
)
