"""Bringing the schema up, and knowing whether it is."""

from dataclasses import dataclass
from importlib.resources import files

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from relay.errors import StartupError
from relay.storage.engine import Database

# One number for every relay, so that two processes that start together migrate one after the other.
ADVISORY_LOCK = 7_236_014_285


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The revision in the database (None: empty), the newest that this program knows, and what lies between."""

    current: str | None
    newest: str
    pending: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        return self.current == self.newest


def _configuration() -> AlembicConfig:
    configuration = AlembicConfig()
    configuration.set_main_option("script_location", str(files("migrations")))
    return configuration


async def migrate(db: Database, *, upto: str = "head") -> SchemaStatus:
    """Bring the database to the newest revision, or an earlier one; safe when several processes start at once."""
    async with db.connect_for_migration() as connection:
        if db.dialect == "postgresql":
            await connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": ADVISORY_LOCK})
            await connection.commit()
        try:
            await connection.run_sync(_upgrade, upto)
        finally:
            if db.dialect == "postgresql":
                await connection.rollback()
                await connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": ADVISORY_LOCK})
                await connection.execute(text("RESET lock_timeout"))
                await connection.execute(text("RESET statement_timeout"))
                await connection.commit()
    return await status(db)


def _upgrade(connection: Connection, upto: str) -> None:
    configuration = _configuration()
    configuration.attributes["connection"] = connection
    command.upgrade(configuration, upto)


async def status(db: Database) -> SchemaStatus:
    """Compare the database's revision with the newest. A revision that this program does not know is an error."""
    async with db.read() as connection:
        current = await connection.run_sync(lambda c: MigrationContext.configure(c).get_current_revision())
    script = ScriptDirectory.from_config(_configuration())
    newest = script.get_current_head()
    if newest is None:
        raise StartupError("this installation has no migrations: install it again")
    known = [revision.revision for revision in script.walk_revisions()]
    if current is not None and current not in known:
        raise StartupError(
            f"the database is at migration {current}, which this version does not know: run a newer relay"
        )
    pending = known[: known.index(current)] if current else known
    return SchemaStatus(current, newest, tuple(reversed(pending)))


async def require_current(db: Database) -> None:
    """Refuse to work on a schema that is behind."""
    state = await status(db)
    if not state.is_current:
        raise StartupError(
            f"the database is at migration {state.current or 'none'}, this version needs {state.newest}: "
            "run `relay migrate` first (or set [database] auto_migrate = true)"
        )
