"""The registry's tables. Times are milliseconds since the epoch, by the database's clock."""

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, PrimaryKeyConstraint, Table, Text, text

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("approved_version", Integer),
    Column("updated_at", BigInteger, nullable=False),
    # The revision by which the waiting deliveries were moved last, and until when somebody is at it.
    Column("parked_revision", BigInteger, nullable=False, server_default=text("0")),
    Column("parking_until", BigInteger),
)

registrations = Table(
    "registrations",
    metadata,
    Column("agent", Text, ForeignKey("agents.id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("protocol", Text),
    Column("credentials", Text, nullable=False),
    Column("lineage", Integer, nullable=False),
    Column("proposed_at", BigInteger, nullable=False),
    Column("proposed_by", Text, nullable=False),
    Column("proposed_why", Text),
    Column("approved_at", BigInteger),
    Column("approved_by", Text),
    Column("approved_why", Text),
    Column("revoked_at", BigInteger),
    Column("revoked_by", Text),
    Column("revoked_why", Text),
    Column("limits", Text),
    Column("owner_contact", Text),
    Column("held_at", BigInteger),
    Column("held_by", Text),
    Column("held_why", Text),
    PrimaryKeyConstraint("agent", "version"),
)

agent_holds = Table(
    "agent_holds",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("agent", Text, ForeignKey("agents.id"), nullable=False),
    Column("held_at", BigInteger, nullable=False),
    Column("held_by", Text, nullable=False),
    Column("why", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "agent"),
)
