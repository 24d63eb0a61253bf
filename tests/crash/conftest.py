"""The scene of a crash, on each engine."""

from functools import partial
from pathlib import Path

import pytest

from tests.support.scene import SceneAt, scene_at


@pytest.fixture(name="scene_at")
def scene_at_fixture(tmp_path: Path, database_url: str) -> SceneAt:
    """Sets the scene in a fresh directory and a fresh database; once on each engine."""
    return partial(scene_at, tmp_path, database_url)


@pytest.fixture
def postgres_scene_at(tmp_path: Path, postgres_database_url: str) -> SceneAt:
    """The same on PostgreSQL alone, for what only a database server can do."""
    return partial(scene_at, tmp_path, postgres_database_url)
