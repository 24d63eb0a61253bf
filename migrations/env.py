"""Alembic's entry. The connection is handed in by `relay.storage.schema`; from alembic's own command line, by a URL."""

from alembic import context
from sqlalchemy import Connection, text

from registry.tables import metadata
from relay.storage import tables  # noqa: F401 - declares the relay's tables on the same metadata


def run(connection: Connection) -> None:
    """Bring the schema up, a transaction each; on PostgreSQL with timeouts, so that a migration never waits in a
    queue of locks that every other statement then waits behind.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET lock_timeout = '10s'"))
        connection.execute(text("SET statement_timeout = '10min'"))
        connection.commit()
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transaction_per_migration=True,
        transactional_ddl=True,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
