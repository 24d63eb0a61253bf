"""Cases of the fault suite with few submissions, one of each kind: the fault comes about, and the run is clean.

`make faults` runs them all, with many more submissions.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from relay.storage.engine import Dialect
from tests.faults.case import Case, NotHereError
from tests.faults.cases.catalog import CASES
from tests.faults.run import Result, play

SUBMISSIONS = 20
OF_EACH_KIND = {
    "late",
    "no-name",
    "settle-cut-after",
    "expiry-cut-before",
    "locked",
    "serve-killed",
    "zones",
    "file-limit",
}
QUICK = [(case, engine) for case in CASES if case.name in OF_EACH_KIND for engine in case.engines]

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where the case wants its SQLite file."""
    case: Case = request.getfixturevalue("case")
    try:
        with case.place(tmp_path) as made:
            yield made
    except NotHereError as reason:
        pytest.skip(str(reason))


@pytest.fixture
def url(request: pytest.FixtureRequest, engine: Dialect, place: Path) -> str:
    """A migrated database of the engine, at that place."""
    if engine == "postgresql":
        found: str = request.getfixturevalue("postgres_database_url")
        return found
    template: Path = request.getfixturevalue("sqlite_template")
    (place / "relay.db").write_bytes(template.read_bytes())
    return f"sqlite:///{place / 'relay.db'}"


@pytest.mark.parametrize(("case", "engine"), QUICK, ids=[f"{case.name}-{engine}" for case, engine in QUICK])
async def test_case(case: Case, engine: Dialect, tmp_path: Path, url: str):
    """Nothing is lost, doubled, saved without an acknowledgement or stuck, and the fault really happened."""
    assert make_url(url).get_backend_name() == engine
    result = await play(case, engine, tmp_path, url, size=max(SUBMISSIONS, case.short // 5), seed=1)
    assert result.clean, told(result)


def told(result: Result) -> str:
    return f"{result.findings}, after {result.faults} faults; {', '.join(result.wrong)}"
