"""A relay on SQLite, for whoever tries the whole contract: the contract is the same on every engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.seeds import Seeded, seed
from tests.support.gateway import Gateway, small_world


@pytest.fixture
async def gateway(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[Gateway]:
    """A relay with nothing in it."""
    async with small_world(tmp_path, sqlite_database_url) as (running, _):
        yield running


@pytest.fixture
async def seeded(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[Seeded]:
    """A relay whose caller finds tasks of every kind, and submissions in several states that stay as they are."""
    async with small_world(tmp_path, sqlite_database_url, schedule='["0s", "1h"]') as (running, specialists):
        yield await seed(running, specialists)
