"""One Chromium for all tests; for each a relay, its specialists, and browsers of its own."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.support.workbench import CHROMIUM_OPTIONS, Workbench, workbench

PATIENT = '["0s", "200ms", "500ms", "1s", "1s", "2s", "2s", "4s", "4s", "8s", "1h"]'
"""Tried often enough that nobody waits for a specialist that is back; none is exhausted while a test looks at it."""
REQUIRED = "RELAY_TEST_REQUIRE_BROWSER"


def executable() -> str:
    """Chromium's path. Without one the test is skipped, or fails where one is required."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        missing = "there is no Chromium: install one (Debian: apt-get install chromium) to test what browsers show"
        if os.environ.get(REQUIRED):  # noqa: TID251 - a switch of the tests
            pytest.fail(f"{REQUIRED} is set, but {missing}")
        pytest.skip(missing)
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = executable()
    expect.set_options(timeout=20_000)
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=path, args=CHROMIUM_OPTIONS)
        yield running
        await running.close()


@pytest_asyncio.fixture(loop_scope="session")
async def bench(tmp_path: Path, sqlite_database_url: str, browser: Browser) -> AsyncIterator[Workbench]:
    async with workbench(tmp_path, sqlite_database_url, browser, schedule=PATIENT) as opened:
        yield opened
