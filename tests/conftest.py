"""What every test may use: a migrated database on each engine, and a clock that can be turned."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from sqlalchemy import make_url

from relay.storage.engine import Database
from tests.support import databases

# How long an example takes says how busy the machine is.
settings.register_profile("relay", deadline=None)
settings.load_profile("relay")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL: the one named by RELAY_TEST_POSTGRES_URL, or an embedded one on a private socket."""
    with databases.postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> Iterator[str]:
    """The name of a migrated database that tests clone, since a clone is much faster than the migrations."""
    with databases.postgres_template(postgres_url) as name:
        yield name


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file that tests copy."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    databases.migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def new_postgres_database(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes fresh, migrated PostgreSQL databases; gives the URL of each."""
    postgres_url: str = request.getfixturevalue("postgres_url")
    template: str = request.getfixturevalue("postgres_template")
    made: list[str] = []

    def create(template: str = template) -> str:
        made.append(databases.clone_postgres(postgres_url, template))
        return made[-1]

    yield create
    databases.drop_postgres(postgres_url, *(make_url(url).database for url in made))


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
