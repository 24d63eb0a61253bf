"""A small world around each test: an issuer, two specialists, and a relay between them, on each engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, small_world
from tests.support.specialist import Specialist

World = tuple[Gateway, dict[str, Specialist]]


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncIterator[World]:
    async with small_world(tmp_path, database_url) as running:
        yield running


@pytest.fixture
def relay(world: World) -> Gateway:
    return world[0]


@pytest.fixture
def literature(world: World) -> Specialist:
    return world[1]["literature"]


@pytest.fixture
def chemistry(world: World) -> Specialist:
    return world[1]["chemistry"]
