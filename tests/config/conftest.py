from collections.abc import Callable
from pathlib import Path

import pytest

from relay.config import Config, load
from relay.errors import ConfigError


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[..., Config]:
    def write_and_load(text: str, **environ: str) -> Config:
        file = tmp_path / "relay.toml"
        file.write_text(text, encoding="utf-8")
        return load(file, environ)

    return write_and_load


@pytest.fixture
def refused(loaded: Callable[..., Config], tmp_path: Path) -> Callable[[str], str]:
    """The report on a file that must not load, without the directory."""

    def report(text: str) -> str:
        with pytest.raises(ConfigError) as refusal:
            loaded(text)
        return str(refusal.value).replace(f"{tmp_path}/", "")

    return report
