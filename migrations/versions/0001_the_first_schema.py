"""The first schema"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import UserDefinedType
from typing_extensions import override

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


class TransactionId(UserDefinedType[int]):
    """PostgreSQL's xid8."""

    cache_ok = True

    @override
    def get_col_spec(self, **_: object) -> str:
        return "xid8"


def transaction_column(dialect: str) -> sa.Column[int]:
    """The transaction that wrote an event, filled by the database itself; SQLite has one writer and needs none."""
    if dialect == "postgresql":
        return sa.Column("xid", TransactionId(), server_default=sa.text("pg_current_xact_id()"), nullable=False)
    return sa.Column("xid", sa.BigInteger(), server_default=sa.text("0"), nullable=False)


KEPT = (
    "seq",
    "owner",
    "tenant",
    "client",
    "id",
    "agent",
    "task",
    "ran_as",
    "registration_version",
    "protocol",
    "trace_context",
    "created_at",
)
ERASED = ("rating", "comment", "payload", "sha256")
WAITING = "('pending', 'sending', 'held', 'needs_owner')"


def is_erasure(same: str) -> str:
    """SQL: this UPDATE is an erasure and nothing else. ``same`` is the NULL-safe equality."""
    kept = " AND ".join(f"NEW.{column} {same} OLD.{column}" for column in KEPT)
    gone = " AND ".join(f"NEW.{column} IS NULL" for column in ERASED)
    return f"OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL AND {kept} AND {gone}"


TRIGGERS: dict[str, list[str]] = {
    "sqlite": [
        f"""CREATE TRIGGER submissions_immutable BEFORE UPDATE ON submissions WHEN NOT ({is_erasure("IS")}
                AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.submission = OLD.seq AND d.state IN {WAITING}))
            BEGIN SELECT RAISE(ABORT, 'submissions are immutable'); END""",
        """CREATE TRIGGER submissions_kept BEFORE DELETE ON submissions
            BEGIN SELECT RAISE(ABORT, 'submissions are immutable'); END""",
        # INSERT OR REPLACE deletes without firing the trigger above: a row whose keys are taken never comes in.
        """CREATE TRIGGER submissions_not_replaced BEFORE INSERT ON submissions
            WHEN EXISTS (SELECT 1 FROM submissions s WHERE s.seq = NEW.seq
                OR (s.owner = NEW.owner AND s.id = NEW.id)
                OR (s.owner = NEW.owner AND s.agent = NEW.agent AND s.task = NEW.task))
            BEGIN SELECT RAISE(IGNORE); END""",
        """CREATE TRIGGER audit_log_immutable BEFORE UPDATE ON audit_log
            BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
        """CREATE TRIGGER audit_log_kept BEFORE DELETE ON audit_log
            BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
        """CREATE TRIGGER audit_log_not_replaced BEFORE INSERT ON audit_log
            WHEN EXISTS (SELECT 1 FROM audit_log a WHERE a.seq = NEW.seq)
            BEGIN SELECT RAISE(IGNORE); END""",
    ],
    "postgresql": [
        """CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'restrict_violation'; END $$""",
        f"""CREATE FUNCTION allow_only_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
            DECLARE waits boolean;
            BEGIN
                -- Named with its schema, so that no temporary table stands in for it; locked, so that a retry at the
                -- same moment comes before or after.
                EXECUTE format('SELECT COALESCE(bool_or(x.state IN {WAITING.replace("'", "''")}), false) FROM
                    (SELECT d.state FROM %I.deliveries d WHERE d.submission = $1 FOR UPDATE) AS x', TG_TABLE_SCHEMA)
                    INTO waits USING OLD.seq;
                IF NOT waits AND {is_erasure("IS NOT DISTINCT FROM")} THEN RETURN NEW; END IF;
                RAISE EXCEPTION 'submissions is immutable' USING ERRCODE = 'restrict_violation';
            END $$""",
        """CREATE TRIGGER submissions_immutable BEFORE UPDATE ON submissions
            FOR EACH ROW EXECUTE FUNCTION allow_only_erasure()""",
        """CREATE TRIGGER submissions_kept BEFORE DELETE ON submissions
            FOR EACH ROW EXECUTE FUNCTION refuse_change()""",
        """CREATE TRIGGER submissions_not_truncated BEFORE TRUNCATE ON submissions
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()""",
        """CREATE TRIGGER audit_log_immutable BEFORE UPDATE OR DELETE ON audit_log
            FOR EACH ROW EXECUTE FUNCTION refuse_change()""",
        """CREATE TRIGGER audit_log_not_truncated BEFORE TRUNCATE ON audit_log
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()""",
    ],
}


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    op.create_table(
        "agents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("approved_version", sa.Integer(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
    )
    op.create_table(
        "audit_log",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit_log")),
    )
    op.create_index(op.f("ix_audit_log_tenant_seq"), "audit_log", ["tenant", "seq"], unique=False)

    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("ref", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        transaction_column(dialect),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
    )
    op.create_index(op.f("ix_events_owner_xid_seq"), "events", ["owner", "xid", "seq"], unique=False)

    op.create_table(
        "key_checks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kid", sa.Text(), nullable=False),
        sa.Column("check_value", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "kid", name=op.f("pk_key_checks")),
    )
    op.create_table(
        "owners",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("owner_key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("lookup_hmac", sa.LargeBinary(), nullable=False),
        sa.Column("pepper_kid", sa.Text(), nullable=False),
        sa.Column("sealed_subject", sa.LargeBinary(), nullable=True),
        sa.Column("seal_kid", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("erased_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_owners")),
        sa.UniqueConstraint("lookup_hmac", "pepper_kid", name=op.f("uq_owners_lookup_hmac_pepper_kid")),
        sa.UniqueConstraint("owner_key", name=op.f("uq_owners_owner_key")),
    )
    op.create_table(
        "rate_limits",
        sa.Column("bucket", sa.Text(), nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("bucket", "window", name=op.f("pk_rate_limits")),
    )
    op.create_table(
        "agent_breakers",
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("window_started_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("open_until", sa.BigInteger(), nullable=True),
        sa.Column("probe_token", sa.Text(), nullable=True),
        sa.Column("probe_until", sa.BigInteger(), nullable=True),
        sa.Column("paused_until", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_agent_breakers_agent")),
        sa.PrimaryKeyConstraint("agent", name=op.f("pk_agent_breakers")),
    )
    op.create_table(
        "agent_holds",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("held_at", sa.BigInteger(), nullable=False),
        sa.Column("held_by", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_agent_holds_agent")),
        sa.PrimaryKeyConstraint("tenant", "agent", name=op.f("pk_agent_holds")),
    )
    op.create_table(
        "registrations",
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=True),
        sa.Column("credentials", sa.Text(), nullable=False),
        sa.Column("lineage", sa.Integer(), nullable=False),
        sa.Column("proposed_at", sa.BigInteger(), nullable=False),
        sa.Column("proposed_by", sa.Text(), nullable=False),
        sa.Column("proposed_why", sa.Text(), nullable=True),
        sa.Column("approved_at", sa.BigInteger(), nullable=True),
        sa.Column("approved_by", sa.Text(), nullable=True),
        sa.Column("approved_why", sa.Text(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.Column("revoked_why", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_registrations_agent")),
        sa.PrimaryKeyConstraint("agent", "version", name=op.f("pk_registrations")),
    )
    op.create_table(
        "submissions",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("ran_as", sa.Text(), nullable=False),
        sa.Column("registration_version", sa.Integer(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("rating", sa.Text(), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("trace_context", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("erased_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["owner"], ["owners.id"], name=op.f("fk_submissions_owner")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_submissions")),
        sa.UniqueConstraint("owner", "agent", "task", name=op.f("uq_submissions_owner_agent_task")),
        sa.UniqueConstraint("owner", "id", name=op.f("uq_submissions_owner_id")),
    )
    op.create_index(op.f("ix_submissions_owner_seq"), "submissions", ["owner", "seq"], unique=False)
    op.create_index(op.f("ix_submissions_tenant_seq"), "submissions", ["tenant", "seq"], unique=False)

    op.create_table(
        "deliveries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("submission", sa.BigInteger(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("needs_presence", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("state_since", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("claim_token", sa.Text(), nullable=True),
        sa.Column("claim_cause", sa.Text(), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("schedule_position", sa.Integer(), nullable=False),
        sa.Column("attempt_count", sa.Integer(), nullable=False),
        sa.Column("window_started_at", sa.BigInteger(), nullable=False),
        sa.Column("owner_attempt_at", sa.BigInteger(), nullable=True),
        sa.Column("saved_at", sa.BigInteger(), nullable=True),
        sa.Column("abandoned_by", sa.Text(), nullable=True),
        sa.Column("abandoned_why", sa.Text(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("evidence_at", sa.BigInteger(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_deliveries_agent")),
        sa.ForeignKeyConstraint(["submission"], ["submissions.seq"], name=op.f("fk_deliveries_submission")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("submission", name=op.f("uq_deliveries_submission")),
    )
    op.create_index(
        "ix_deliveries_due",
        "deliveries",
        ["agent", "due_at", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
        sqlite_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_deliveries_leases",
        "deliveries",
        ["lease_until"],
        unique=False,
        postgresql_where=sa.text("state = 'sending'"),
        sqlite_where=sa.text("state = 'sending'"),
    )
    op.create_index(
        "ix_deliveries_needs_owner",
        "deliveries",
        ["owner"],
        unique=False,
        postgresql_where=sa.text("state = 'needs_owner'"),
        sqlite_where=sa.text("state = 'needs_owner'"),
    )
    op.create_index(
        "ix_deliveries_parked",
        "deliveries",
        ["agent", "state"],
        unique=False,
        postgresql_where=sa.text("state IN ('held', 'needs_owner')"),
        sqlite_where=sa.text("state IN ('held', 'needs_owner')"),
    )

    op.create_table(
        "provenance",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("recorded_by", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("registration_version", sa.Integer(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("conversation", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("ran_as", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["agent", "registration_version"],
            ["registrations.agent", "registrations.version"],
            name=op.f("fk_provenance_agent_registration_version"),
        ),
        sa.ForeignKeyConstraint(["owner"], ["owners.id"], name=op.f("fk_provenance_owner")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_provenance")),
        sa.UniqueConstraint("owner", "task", "agent", name=op.f("uq_provenance_owner_task_agent")),
    )
    op.create_index(op.f("ix_provenance_agent_task"), "provenance", ["agent", "task"], unique=False)
    op.create_index(op.f("ix_provenance_owner_answer"), "provenance", ["owner", "answer"], unique=False)
    op.create_index(op.f("ix_provenance_owner_conversation"), "provenance", ["owner", "conversation"], unique=False)
    op.create_index(op.f("ix_provenance_tenant_run"), "provenance", ["tenant", "run"], unique=False)

    op.create_table(
        "attempts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("delivery", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("registration_version", sa.Integer(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=True),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("error_kind", sa.Text(), nullable=True),
        sa.Column("ambiguous", sa.Boolean(), nullable=False),
        sa.Column("excerpt", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["delivery"], ["deliveries.id"], name=op.f("fk_attempts_delivery")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
    )
    op.create_index(op.f("ix_attempts_delivery_id"), "attempts", ["delivery", "id"], unique=False)

    op.create_table(
        "provenance_evidence",
        sa.Column("provenance", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["provenance"], ["provenance.seq"], name=op.f("fk_provenance_evidence_provenance")),
        sa.PrimaryKeyConstraint("provenance", "kind", "id", name=op.f("pk_provenance_evidence")),
    )
    for statement in TRIGGERS[dialect]:
        op.execute(statement)
