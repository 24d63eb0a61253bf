"""One agent's entry outside the configuration file: checked by the same rules, as part of the same deployment."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from registry.registrations import Declaration
from relay.config.checks import AGENT_CHECKS
from relay.config.loading import decode_fragment
from relay.config.model import Config
from relay.config.problems import Problem, report
from relay.config.sections import File, WrittenAgent
from relay.errors import ConfigError


def read_proposal(config: Config, path: Path) -> Declaration:
    """The one ``[[agents]]`` entry of a file, with paths relative to it. Raises ConfigError as `load` does."""
    agents, lines = decode_fragment(path)
    if len(agents) != 1:
        raise ConfigError(f"{path}: must hold one [[agents]] entry, and holds {len(agents)}")
    if problems := problems_of(config, agents[0]):
        raise ConfigError(report(str(path), problems, lines))
    return agents[0].declaration()


def problems_of(config: Config, written: WrittenAgent) -> list[Problem]:
    """What stands against this entry in this deployment; a place begins with ``agents`` and 0."""
    file = File(
        server=config.server,
        database=config.database,
        owners=config.owners,
        identity=config.identity,
        agents=(written,),
    )
    return [problem for check in AGENT_CHECKS for problem in check(file)]


def written_again(declaration: Declaration, changes: Mapping[str, Any], directory: Path) -> WrittenAgent:
    """The entry that says the same as ``declaration`` but for ``changes``, by the file's own keys. None: left out.

    Paths that ``changes`` names are relative to ``directory``. Raises `msgspec.ValidationError`.
    """
    same = asdict(declaration)
    entry = {"id": same.pop("agent"), **same, "credentials": [asdict(c) for c in declaration.credentials], **changes}
    return msgspec.convert(_without_none(entry), WrittenAgent, dec_hook=lambda _, value: directory / str(value))


def _without_none(value: Any) -> Any:  # noqa: ANN401 - anything that JSON knows
    if isinstance(value, Mapping):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value
