"""One run of one case: everything is set up, goes wrong, comes to rest, and is judged."""

import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from sqlalchemy import make_url

from relay.storage.engine import Dialect
from tests.faults.case import Case, NotHereError
from tests.faults.facts import Findings, findings
from tests.faults.stage import NAME, staged
from tests.faults.witness import Witness
from tests.support import databases
from tests.support.peers import Authority

ADDRESS = "127.0.0.2"
"""Of the specialist that has a name: another than that of the loopback interface, which no name may lead to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run came to. ``skipped`` says why it could not take place, ``broken`` what ended it early; ``wrong`` is
    what the case itself found.
    """

    case: str
    engine: Dialect
    faults: int = 0
    submissions: int = 0
    attempts: int = 0
    findings: Findings | None = None
    wrong: tuple[str, ...] = ()
    skipped: str | None = None
    broken: str | None = None
    seconds: float = 0

    @property
    def clean(self) -> bool:
        """A run in which nothing went wrong shows nothing, and is not clean."""
        if self.findings is None:
            return self.skipped is not None
        return self.findings.clean and self.faults > 0


class Engines:
    """Fresh, migrated databases on either engine; any thread may ask for them."""

    def __init__(self, directory: Path, wanted: Collection[Dialect]) -> None:
        self._stack = ExitStack()
        self._template = directory / "template.db"
        self._wanted = wanted

    def __enter__(self) -> Self:
        if "sqlite" in self._wanted:
            databases.migrate(f"sqlite:///{self._template}")
        if "postgresql" in self._wanted:
            self._server = self._stack.enter_context(databases.postgres_server())
            self._postgres_template = self._stack.enter_context(databases.postgres_template(self._server))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def database(self, engine: Dialect, place: Path) -> Iterator[str]:
        """The URL of one; a SQLite file lies at ``place``."""
        if engine == "sqlite":
            shutil.copy(self._template, place / "relay.db")
            yield f"sqlite:///{place / 'relay.db'}"
            return
        url = databases.clone_postgres(self._server, self._postgres_template)
        yield url
        databases.drop_postgres(self._server, make_url(url).database)


@contextmanager
def engines(wanted: Collection[Dialect]) -> Iterator[Engines]:
    with tempfile.TemporaryDirectory(prefix="relay-faults-") as directory, Engines(Path(directory), wanted) as made:
        yield made


def run(case: Case, engine: Dialect, made: Engines, *, size: int, seed: int) -> Result:
    """Run a case on an engine. An error in the case itself, as opposed to a finding, is raised."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="relay-fault-") as name:
        try:
            with case.place(Path(name)) as place, made.database(engine, place) as url:
                result = asyncio.run(play(case, engine, Path(name), url, size=size, seed=seed))
        except NotHereError as reason:
            return Result(case=case.name, engine=engine, skipped=str(reason))
    return replace(result, seconds=time.monotonic() - began)


async def play(case: Case, engine: Dialect, directory: Path, url: str, *, size: int, seed: int) -> Result:
    """Run a case in a directory, on a database that is ready."""
    chance = random.Random(f"{seed} {case.name} {engine}")  # noqa: S311 - the seed of a test
    witness = Witness(chance, case.plan(chance))
    authority = Authority(directory) if case.named else None
    if authority:
        witness.tls, witness.host = authority.server(NAME), ADDRESS
    async with staged(
        size=size,
        chance=chance,
        directory=directory,
        database_url=url,
        witness=witness,
        settings=case.settings,
        behind_proxy=case.behind_proxy,
        authority=authority,
    ) as stage:
        await case.act(stage)
        await stage.come_to_rest()
        facts = await stage.facts(case.excused)
        return Result(
            case=case.name,
            engine=engine,
            faults=stage.faults + witness.faults,
            submissions=len(facts.stored),
            attempts=sum(s.attempts for s in facts.stored),
            findings=findings(facts),
            wrong=tuple(facts.breaches),
        )
