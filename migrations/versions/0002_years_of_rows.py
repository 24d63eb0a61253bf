"""Checks of what was delivered, jobs that survive a restart, and what retention looks through"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
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
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
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
    for column in ("limits", "owner_contact", "held_by", "held_why"):
        op.add_column("registrations", sa.Column(column, sa.Text(), nullable=True))
    op.add_column("registrations", sa.Column("held_at", sa.BigInteger(), nullable=True))
