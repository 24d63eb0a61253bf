"""Checks of what was delivered, jobs that survive a restart, what retention looks through, and how far the feed goes"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import UserDefinedType
from typing_extensions import override

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


class TransactionId(UserDefinedType[int]):
    """PostgreSQL's xid8."""

    cache_ok = True

    @override
    def get_col_spec(self, **_: object) -> str:
        return "xid8"


# What a submission said does not come back once it is erased: an attempt that was under way may still be told of then,
# with an excerpt of the specialist's answer, and the specialist's word on it may still be read.
ERASED = "EXISTS (SELECT 1 FROM submissions s WHERE s.seq = {submission} AND s.erased_at IS NOT NULL)"
OF_ATTEMPT = "(SELECT d.submission FROM deliveries d WHERE d.id = NEW.delivery)"
TRIGGERS: dict[str, list[str]] = {
    "sqlite": [
        f"""CREATE TRIGGER attempts_of_erased AFTER INSERT ON attempts
            WHEN NEW.excerpt IS NOT NULL AND {ERASED.format(submission=OF_ATTEMPT)}
            BEGIN UPDATE attempts SET excerpt = NULL WHERE id = NEW.id; END""",
        f"""CREATE TRIGGER deliveries_of_erased AFTER UPDATE OF resolution ON deliveries
            WHEN NEW.resolution IS NOT NULL AND {ERASED.format(submission="NEW.submission")}
            BEGIN UPDATE deliveries SET resolution = NULL WHERE id = NEW.id; END""",
    ],
    "postgresql": [
        # The delivery is locked first: an erasure at the same moment has ended then, or finds the attempt. Its own
        # schema is named, so that no temporary table stands in for it.
        """CREATE FUNCTION forget_excerpt() RETURNS trigger LANGUAGE plpgsql AS $$
            DECLARE erased boolean;
            BEGIN
                EXECUTE format('SELECT 1 FROM %I.deliveries d WHERE d.id = $1 FOR KEY SHARE', TG_TABLE_SCHEMA)
                    USING NEW.delivery;
                EXECUTE format('SELECT s.erased_at IS NOT NULL FROM %1$I.deliveries d JOIN %1$I.submissions s
                    ON s.seq = d.submission WHERE d.id = $1', TG_TABLE_SCHEMA) INTO erased USING NEW.delivery;
                IF erased THEN NEW.excerpt := NULL; END IF;
                RETURN NEW;
            END $$""",
        """CREATE FUNCTION forget_resolution() RETURNS trigger LANGUAGE plpgsql AS $$
            DECLARE erased boolean;
            BEGIN
                EXECUTE format('SELECT s.erased_at IS NOT NULL FROM %I.submissions s WHERE s.seq = $1',
                    TG_TABLE_SCHEMA) INTO erased USING NEW.submission;
                IF erased THEN NEW.resolution := NULL; END IF;
                RETURN NEW;
            END $$""",
        """CREATE TRIGGER attempts_of_erased BEFORE INSERT ON attempts
            FOR EACH ROW WHEN (NEW.excerpt IS NOT NULL) EXECUTE FUNCTION forget_excerpt()""",
        """CREATE TRIGGER deliveries_of_erased BEFORE UPDATE OF resolution ON deliveries
            FOR EACH ROW WHEN (NEW.resolution IS NOT NULL) EXECUTE FUNCTION forget_resolution()""",
    ],
}


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    op.add_column("deliveries", sa.Column("check_due_at", sa.BigInteger(), nullable=True))
    op.add_column("deliveries", sa.Column("checks", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.create_index(
        "ix_deliveries_checks",
        "deliveries",
        ["agent", "check_due_at"],
        unique=False,
        postgresql_where=sa.text("check_due_at IS NOT NULL"),
        sqlite_where=sa.text("check_due_at IS NOT NULL"),
    )
    op.create_index(
        "ix_submissions_kept",
        "submissions",
        ["tenant", "created_at", "seq"],
        unique=False,
        postgresql_where=sa.text("erased_at IS NULL"),
        sqlite_where=sa.text("erased_at IS NULL"),
    )
    op.create_index(
        "ix_deliveries_failed",
        "deliveries",
        ["tenant", "state", "submission"],
        unique=False,
        postgresql_where=sa.text("state IN ('rejected', 'conflict', 'exhausted', 'abandoned')"),
        sqlite_where=sa.text("state IN ('rejected', 'conflict', 'exhausted', 'abandoned')"),
    )
    if dialect == "postgresql":
        for table, column in (("submissions", "created_at"), ("deliveries", "saved_at")):
            op.create_index(
                f"ix_{table}_{column.removesuffix('_at')}",
                table,
                [column],
                unique=False,
                postgresql_using="brin",
                postgresql_with={"pages_per_range": 32},
            )
    op.create_table(
        "jobs",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("filter", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=True),
        sa.Column("examined", sa.BigInteger(), nullable=False),
        sa.Column("results", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_jobs")),
        sa.UniqueConstraint("id", name=op.f("uq_jobs_id")),
    )
    op.create_index(op.f("ix_jobs_tenant_seq"), "jobs", ["tenant", "seq"], unique=False)
    op.create_index(
        "ix_jobs_open",
        "jobs",
        ["seq"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NULL"),
        sqlite_where=sa.text("finished_at IS NULL"),
    )
    op.create_index(
        "ix_provenance_running",
        "provenance",
        ["tenant", "seq"],
        unique=False,
        postgresql_where=sa.text("status = 'running'"),
        sqlite_where=sa.text("status = 'running'"),
    )
    for column in ("limits", "owner_contact", "held_by", "held_why"):
        op.add_column("registrations", sa.Column(column, sa.Text(), nullable=True))
    op.add_column("registrations", sa.Column("held_at", sa.BigInteger(), nullable=True))
    _answer_old_proposals()
    # What waits is moved in batches from now on; until here each decision had moved all of it when it committed.
    op.add_column("agents", sa.Column("parked_revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.add_column("agents", sa.Column("parking_until", sa.BigInteger(), nullable=True))
    op.execute("UPDATE agents SET parked_revision = revision")
    for column in ("last_success_at", "last_failure_at"):
        op.add_column("agent_breakers", sa.Column(column, sa.BigInteger(), nullable=True))
    op.drop_index("ix_deliveries_parked", table_name="deliveries")
    op.create_index(
        "ix_deliveries_parked",
        "deliveries",
        ["agent", "state", "due_at", "id"],
        unique=False,
        postgresql_where=sa.text("state IN ('held', 'needs_owner')"),
        sqlite_where=sa.text("state IN ('held', 'needs_owner')"),
    )
    op.create_table(
        "console_sessions",
        sa.Column("id_hash", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("seal_kid", sa.Text(), nullable=False),
        sa.Column("token_expires_at", sa.BigInteger(), nullable=False),
        sa.Column("refreshing_until", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id_hash", name=op.f("pk_console_sessions")),
    )
    op.create_index(op.f("ix_console_sessions_operator"), "console_sessions", ["operator"], unique=False)
    # One row: up to where events have been thrown away, by the numbers of the cluster that they were written in.
    op.create_table(
        "feed_horizon",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Text(), nullable=False),
        sa.Column("xid", TransactionId().with_variant(sa.BigInteger(), "sqlite"), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_feed_horizon")),
    )
    op.execute("INSERT INTO feed_horizon (id, epoch, xid, seq) VALUES (1, '', '0', 0)")
    for statement in TRIGGERS[dialect]:
        op.execute(statement)


def _answer_old_proposals() -> None:
    """From now on an open proposal of another destination holds deliveries. One from before the version in force was
    approved has been decided about, and must not.
    """
    op.execute(
        "UPDATE registrations SET state = 'superseded' WHERE state = 'proposed' AND EXISTS ("
        " SELECT 1 FROM agents a JOIN registrations f ON f.agent = a.id AND f.version = a.approved_version"
        " WHERE a.id = registrations.agent AND (f.origin <> registrations.origin"
        " OR COALESCE(f.protocol, '') <> COALESCE(registrations.protocol, '')))"
    )
