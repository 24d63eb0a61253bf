"""One TOML file, read once at the start. Nothing else in the program reads the environment."""

from relay.config.files import require_files
from relay.config.loading import load
from relay.config.model import Config

__all__ = ["Config", "load", "require_files"]
