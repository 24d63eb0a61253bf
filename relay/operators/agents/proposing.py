"""A proposal that comes over HTTP: completed from what is known of the agent, and checked as the file's entries are.

Files are the machine's own affair: a proposal may name those that the configuration, or a registration, names for the
same purpose already. Otherwise whoever may propose could have any file of the machine sent to an origin of theirs.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import RowMapping

from registry import registrations
from registry.model import AgentId
from registry.registrations import Declaration
from relay.config import Config
from relay.config.problems import Place, Problem
from relay.config.proposals import problems_of, written_again
from relay.errors import FieldProblem
from relay.http.fields import invalid, pointer
from relay.operators.agents.configured import decided_for
from relay.operators.agents.wire import camel
from relay.storage.engine import Database

FILES: Final = (
    "token_file",
    "key_file",
    "dpop_key_file",
    "client_certificate_file",
    "client_certificate_key_file",
)


class Proposals:
    """Makes declarations of what operators propose."""

    def __init__(self, db: Database, config: Config) -> None:
        self._db = db
        self._config = config

    async def complete(self, agent: AgentId, changes: Mapping[str, Any]) -> Declaration:
        """What is said of the agent with these changes, which go by the configuration's keys.

        The rest is as in the version that was decided for, else as in the newest. Raises `Refusal` (``invalid_field``).
        """
        async with self._db.read() as connection:
            histories = await registrations.histories(connection)
        versions = histories.get(agent, [])
        if not versions:
            missing = [name for name in ("name", "origin") if name not in changes]
            if missing:
                raise invalid(
                    *(FieldProblem(pointer(name), "This field is required of a new agent.") for name in missing)
                )
        directory = self._config.path.parent
        written = written_again(_base(agent, versions), changes, directory)
        problems = problems_of(self._config, written)
        if "credentials" in changes:
            known = _known_files(self._config.agents, histories.values())
            problems += _unknown_files(written.declaration(), known)
        if problems:
            raise invalid(*(FieldProblem(_pointer(each.place), f"This {each.text}.") for each in problems))
        return written.declaration()


def _base(agent: AgentId, versions: Sequence[RowMapping]) -> Declaration:
    if not versions:
        return Declaration(agent=agent, name="", origin="", protocol=None, credentials=())
    return registrations.declared(decided_for(versions) or versions[-1])


def _known_files(
    declarations: Iterable[Declaration], histories: Iterable[Sequence[RowMapping]]
) -> Mapping[str, frozenset[str]]:
    """The files that may be named, by the key that they were named under."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    stored = (each for rows in histories for row in rows for each in json.loads(row["credentials"]))
    configured = (asdict(each) for declaration in declarations for each in declaration.credentials)
    for credential in (*stored, *configured):
        for key in FILES:
            if (name := credential.get(key)) is not None:
                known[key].add(name)
    return {key: frozenset(names) for key, names in known.items()}


def _unknown_files(declaration: Declaration, known: Mapping[str, frozenset[str]]) -> Iterator[Problem]:
    for number, credential in enumerate(declaration.credentials):
        for key in FILES:
            name = getattr(credential, key, None)
            if name is not None and name not in known.get(key, ()):
                text = "must be a file that the configuration, or a registration, names for this already"
                yield Problem(("agents", 0, "credentials", number, key), text)


def _pointer(place: Place) -> str:
    """Where in the body; an id stands in the path, so that a problem of it is the whole body's."""
    steps = place[2:]
    return "" if steps == ("id",) else pointer(*(camel(step) if isinstance(step, str) else step for step in steps))
