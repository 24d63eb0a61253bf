"""What `relay operators agents propose` sends: from the options, or from a file written like the configuration."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

_KEYS: Final = {
    "name": "name",
    "origin": "origin",
    "protocol": "protocol",
    "owner_contact": "ownerContact",
}
"""The members of a proposal by the configuration's keys."""


def body_of(agent: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """What changes, by the API's names. Raises `click.UsageError`."""
    if said["protocol"] and said["no_protocol"]:
        raise click.UsageError("--protocol and --no-protocol exclude each other")
    changes: dict[str, Any] = {name: said[key] for key, name in _KEYS.items() if said[key] is not None}
    if said["no_protocol"]:
        changes["protocol"] = None
    if said["in_flight"]:
        changes["limits"] = {"inFlight": said["in_flight"]}
    if (said["file"] is None) == (not changes):
        raise click.UsageError("say what changes, by --file or by the other options")
    return changes or from_file(agent, said["file"])


def from_file(agent: str, path: Path) -> dict[str, Any]:
    """The one ``[[agents]]`` entry of a file. Whether it will do is for the relay to say."""
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"--file {path}: {error}") from None
    entries = written.get("agents")
    if not isinstance(entries, list) or len(entries) != 1 or not isinstance(entries[0], dict) or len(written) != 1:
        raise click.UsageError(f"--file {path}: must hold one [[agents]] entry, and nothing else")
    entry = dict(entries[0])
    if entry.pop("id", None) != agent:
        raise click.UsageError(f"--file {path} is about another agent than {agent}")
    if not entry:
        raise click.UsageError(f"--file {path} says nothing of the agent but its id")
    return {_camel(key): _renamed(value) for key, value in entry.items()}


def _renamed(value: Any) -> Any:  # noqa: ANN401 - anything that TOML knows
    if isinstance(value, dict):
        return {_camel(key): _renamed(each) for key, each in value.items()}
    return [_renamed(each) for each in value] if isinstance(value, list) else value


def _camel(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(map(str.title, rest))
