"""A relay with a console on a clock that can be turned, and a browser."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import TurnableClock
from tests.support.console import Browser, World, world


@pytest.fixture
async def console(tmp_path: Path, sqlite_database_url: str, clock: TurnableClock) -> AsyncIterator[World]:
    async with world(tmp_path, sqlite_database_url, clock) as running:
        yield running


@pytest.fixture
async def browser(console: World) -> AsyncIterator[Browser]:
    async with console.browser() as browser:
        yield browser
