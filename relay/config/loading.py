"""From a file to a `Config`, or to one report of everything that is wrong with it."""

import os
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from relay.config.checks import CHECKS
from relay.config.defaults import fill
from relay.config.diagnosis import diagnose
from relay.config.durations import Duration
from relay.config.lines import find_lines
from relay.config.model import Config
from relay.config.problems import Place, report
from relay.config.sections import AgentsFile, File, WrittenAgent
from relay.errors import ConfigError

T = TypeVar("T")

DATABASE_PASSWORD = "RELAY_DATABASE_PASSWORD"  # noqa: S105 - the variable's name


def load(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Read, decode and check the configuration file at ``path``.

    ``environ`` is the process's own if left out; only RELAY_DATABASE_PASSWORD is taken from it. Of other files nothing
    is read here (see `relay.config.files`). Raises ConfigError with a line for each problem.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251 - the one place
    text = _read(path)
    written = _parse(path, text)
    fill(written)
    file = _decode(path, text, written, File)
    _check(path, text, file)
    return Config.of(file, path=path.absolute(), database_password=environ.get(DATABASE_PASSWORD))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (at byte {error.start})") from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None


def decode_fragment(path: Path) -> tuple[tuple[WrittenAgent, ...], Mapping[Place, int]]:
    """The agents of a file that holds nothing else, and the lines of its keys. Raises ConfigError as `load` does."""
    text = _read(path)
    return _decode(path, text, _parse(path, text), AgentsFile).agents, find_lines(text)


def _decode(path: Path, text: str, written: dict[str, Any], expected: type[T]) -> T:
    decode = partial(msgspec.convert, dec_hook=partial(_decode_own_types, path.absolute().parent))
    try:
        file: T = decode(written, expected)
    except msgspec.ValidationError as error:
        problems = diagnose(written, expected, decode)
        raise ConfigError(report(str(path), problems, find_lines(text)) or f"{path}: {error}") from None
    return file


def _decode_own_types(directory: Path, expected: type[Any], value: object) -> object:
    """Durations, and paths relative to the file. ValueError becomes the decoder's own error."""
    if expected is Duration:
        return Duration.parse(value)
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be the path of a file, in quotation marks")
    return directory / value


def _check(path: Path, text: str, file: File) -> None:
    problems = [problem for check in CHECKS for problem in check(file)]
    if problems:
        raise ConfigError(report(str(path), problems, find_lines(text)))
