"""Where a case takes place: a database, a specialist, people, and relays as processes of their own."""

import asyncio
import json
import random
import ssl
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from sqlalchemy import make_url, text
from typing_extensions import override

from relay.storage.engine import Database
from tests.faults.facts import WAITING, Facts, Stored
from tests.faults.people import People
from tests.faults.proxy import Proxy
from tests.faults.witness import Witness
from tests.support.gateway import write_config
from tests.support.issuer import TestIssuer
from tests.support.peers import Authority
from tests.support.processes import RELAY, GatewayProcess, Process, Processes

SETTINGS: Mapping[str, Any] = {
    "level": "info",
    "deadline": 1,
    "lease": 6.5,
    "grace": 5,
    "in_flight": 32,
    "breaker_minimum": 1_000_000,
    # No row comes to the end of its schedule before the fault has passed.
    "schedule": json.dumps(["0s", *["100ms"] * 99]),
}
"""Short leases, so that a run sees many of them end."""

STALEMATE_SECONDS = 45
"""So long nothing has been delivered: what still waits then is left to the verdict."""

OVERDUE_MS = 5_000
"""So long after its lease or its due time no live worker leaves a delivery alone."""

SKEW_SECONDS = 1_200
"""How far the times in tokens lie from now: farther than any clock of a case is off."""

NAME = "specialist.example.org"
ISSUER_NAME = "login.example.org"

STORED = """
SELECT s.id, s.task, s.payload, d.state, (SELECT count(*) FROM attempts a WHERE a.delivery = d.id) AS attempts,
    CASE d.state WHEN 'sending' THEN d.lease_until WHEN 'pending' THEN d.due_at END < {now} - :overdue AS overdue
FROM submissions s LEFT JOIN deliveries d ON d.submission = s.seq
"""


class Issuer(TestIssuer):
    """Its tokens are good for clocks that are wrong. With ``tls`` it is found under a name, as in production."""

    def __init__(self, host: str, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._host = host
        self._tls = tls

    @override
    def claims(self, **overrides: object) -> dict[str, object]:
        now = int(self.now())
        return super().claims(**{"iat": now - SKEW_SECONDS, "exp": now + SKEW_SECONDS, **overrides})

    @override
    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, 0, ssl_context=self._tls).start()
        port = self._runner.addresses[0][1]
        self.url = f"https://{ISSUER_NAME}:{port}" if self._tls else f"http://{self._host}:{port}"


@dataclass(kw_only=True)
class Stage:
    """What a case acts on."""

    size: int
    chance: random.Random
    directory: Path
    database_url: str
    """The database itself, which the relay may see through a proxy."""
    db: Database
    witness: Witness
    people: People
    processes: Processes
    proxy: Proxy | None = None
    faults: int = 0
    """How often the case has brought its fault about, beyond those of the specialist."""
    breaches: list[str] = field(default_factory=list)
    names: Path | None = None
    """The file that the relays take for the DNS, see `tests.faults.elsewhere`."""

    @property
    def on_sqlite(self) -> bool:
        return self.db.dialect == "sqlite"

    async def open(self) -> None:
        """The usual cast: one process that serves and works."""
        self.people.go_to(await self.serve())

    async def serve(self, *options: str, ahead: float = 0, prefix: Sequence[str] = ()) -> GatewayProcess:
        return await self.processes.serve(*options, launcher=self._launcher(ahead, prefix))

    async def work(self, *, ahead: float = 0, prefix: Sequence[str] = ()) -> Process:
        return await self.processes.work(launcher=self._launcher(ahead, prefix))

    def _launcher(self, ahead: float, prefix: Sequence[str]) -> Sequence[str]:
        if not ahead and self.names is None:
            return (*prefix, *RELAY)
        names = ("--names", str(self.names)) if self.names else ()
        return (*prefix, sys.executable, "-m", "tests.faults.elsewhere", "--ahead", str(ahead), *names)

    async def rate(self, count: int | None = None) -> None:
        await self.people.rate(self.size if count is None else count)

    async def rows(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        async with self.db.read() as connection:
            found = await connection.execute(self.db.sql(statement), parameters)
            return [dict(row) for row in found.mappings()]

    async def waiting(self) -> int:
        """How many deliveries have not come to their end."""
        states = ", ".join(f"'{state}'" for state in sorted(WAITING))
        [row] = await self.rows(f"SELECT count(*) AS total FROM deliveries WHERE state IN ({states})")
        return int(row["total"])

    async def come_to_rest(self) -> None:
        """Return when nothing waits any more, or when nothing has moved for long."""
        loop = asyncio.get_running_loop()
        left, since = await self.waiting(), loop.time()
        while left and loop.time() - since < STALEMATE_SECONDS:
            await asyncio.sleep(0.1)
            if (now_left := await self.waiting()) != left:
                left, since = now_left, loop.time()

    async def facts(self, excused: frozenset[str]) -> Facts:
        rows = await self.rows(STORED, overdue=OVERDUE_MS)
        return Facts(
            accepted=frozenset(self.people.accepted),
            refused=tuple(self.people.refused),
            excused=excused,
            stored=[
                Stored(**{**row, "payload": bytes(row["payload"]), "overdue": bool(row["overdue"])}) for row in rows
            ],
            held=self.witness.held,
            received=dict(self.witness.received),
            acknowledged=frozenset(self.witness.acknowledged),
            breaches=(*self.breaches, *self.witness.breaches),
        )


@asynccontextmanager
async def staged(
    *,
    size: int,
    chance: random.Random,
    directory: Path,
    database_url: str,
    witness: Witness,
    settings: Mapping[str, Any],
    behind_proxy: bool,
    authority: Authority | None,
) -> AsyncIterator[Stage]:
    """Everything but the relays. With an ``authority`` the relays are configured as in production: names, TLS, and no
    address of this machine that is not allowed explicitly.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(witness.listening())
        issuer = Issuer(witness.host, authority.server(ISSUER_NAME) if authority else None)
        await stack.enter_async_context(issuer)
        proxy = await stack.enter_async_context(Proxy(database_url)) if behind_proxy else None
        origin = f"https://{NAME}:{witness.peer.port}" if authority else f"http://localhost:{witness.peer.port}"
        config = write_config(
            directory,
            proxy.url if proxy else database_url,
            issuer,
            {"literature": origin},
            **{**SETTINGS, **settings},
        )
        if authority:
            egress = f'\n[egress]\nca_file = "{authority.file}"\nallow_networks = ["{witness.host}/32"]\n'
            config.write_text(config.read_text().replace("development = true", "development = false") + egress)
        db = Database.open(database_url)
        stack.push_async_callback(db.close)
        processes = await stack.enter_async_context(Processes(config, issuer))
        yield Stage(
            size=size,
            chance=chance,
            directory=directory,
            database_url=database_url,
            db=db,
            witness=witness,
            people=People(chance),
            processes=processes,
            proxy=proxy,
            names=directory / "names.json" if authority else None,
        )


async def terminate_backends(stage: Stage) -> int:
    """End every connection that relays have to the database, whatever it does; how many there were."""
    ours = make_url(stage.database_url).database
    async with stage.db.read() as connection:
        found = await connection.execute(
            text(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = :name AND pid <> pg_backend_pid()"
            ),
            {"name": ours},
        )
        return int(found.scalar_one())
