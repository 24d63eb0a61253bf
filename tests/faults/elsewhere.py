"""A relay in other surroundings: its clock is wrong, or its name server says what a file says.

``python -m tests.faults.elsewhere --ahead SECONDS --names FILE …`` and then what ``relay`` takes. Nothing of the relay
itself is replaced but what it is handed by its composition root in any case.
"""

import json
import socket
from functools import partial
from pathlib import Path

import click
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

import relay.app
import relay.processes
from registry.egress import Egress
from relay.cli.program import program
from relay.clock import SystemClock


class Ahead(SystemClock):
    """The system's clock, and so many seconds more, as on a machine that never heard of NTP."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @override
    def unix(self) -> float:
        return super().unix() + self._seconds

    @override
    def monotonic(self) -> float:
        return super().monotonic() + self._seconds


class NamesFile(AbstractResolver):
    """Addresses by name, read from a JSON file at each look-up; a name that is not there does not resolve.

    Where a name has several lists of addresses, each look-up uses up one of them but the last.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._asked: dict[str, int] = {}

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        pages: list[list[str]] = json.loads(self._file.read_text()).get(host, [[]])
        asked = self._asked[host] = self._asked.get(host, -1) + 1
        addresses = pages[asked % len(pages)]
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            ResolveResult(hostname=host, host=a, port=port, family=socket.AF_INET, proto=0, flags=0) for a in addresses
        ]

    @override
    async def close(self) -> None:
        """Nothing is held."""


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--ahead", type=float, default=0.0)
@click.option("--names", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def main(ahead: float, names: Path | None, arguments: tuple[str, ...]) -> None:
    relay.processes.assembled = partial(relay.app.assembled, clock=Ahead(ahead))
    if names is not None:
        relay.app.Egress = partial(Egress, resolver=NamesFile(names))
    program.main(arguments)


if __name__ == "__main__":
    main()
