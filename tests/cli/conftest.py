from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relay.cli import main
from tests.support.configuration import MINIMAL

Relay = Callable[..., Result]


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    file = tmp_path / "relay.toml"
    file.write_text(MINIMAL, encoding="utf-8")
    return file


@pytest.fixture
def relay(config_file: Path) -> Relay:
    """Runs a command with the configuration file before it."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["--config", str(config_file), *arguments], prog_name="relay")

    return run
