"""A relay with a console that delivers, on either engine, and an operator who is signed in."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.console import Browser
from tests.support.consoled import Consoled, consoled


@pytest.fixture
async def relay(tmp_path: Path, database_url: str) -> AsyncIterator[Consoled]:
    async with consoled(tmp_path, database_url) as running:
        yield running


@pytest.fixture
async def operator(relay: Consoled) -> AsyncIterator[Browser]:
    async with relay.world.browser() as browser:
        await browser.sign_in()
        yield browser
