"""The specialist's name errs. The relays ask a name server that reads a file, see `tests.faults.elsewhere`."""

import asyncio
import json

from tests.faults.case import Case
from tests.faults.stage import ISSUER_NAME, NAME, Stage
from tests.support.peers import answer_all, serve
from tests.support.processes import until


def publish(stage: Stage, *pages: list[str]) -> None:
    """What the name resolves to, look-up by look-up, over and over; an empty page: not at all."""
    assert stage.names is not None
    fresh = stage.names.with_suffix(".new")
    fresh.write_text(json.dumps({NAME: pages, ISSUER_NAME: [[stage.witness.host]]}))
    fresh.replace(stage.names)


async def attempted(stage: Stage, phase: str) -> int:
    """How many attempts ended in this phase."""
    [row] = await stage.rows("SELECT count(*) AS total FROM attempts WHERE phase = :phase", phase=phase)
    return int(row["total"])


async def no_such_name(stage: Stage) -> None:
    """No name server knows the name until there are as many failed attempts as submissions."""
    publish(stage, [])
    await stage.open()
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.rate())

        async def failed() -> bool:
            return await attempted(stage, "resolve") >= stage.size

        await until(failed, "attempts that fail for want of an address")
    if stage.witness.posts:
        stage.breaches.append("something was sent before the name had an address")
    stage.faults += await attempted(stage, "resolve")
    publish(stage, [stage.witness.host])


async def rebinding(stage: Stage) -> None:
    """Every second look-up leads to 127.0.0.1, where something listens at the same port; every third to both."""
    async with serve(answer_all, None, port=stage.witness.peer.port) as trap:
        publish(stage, [stage.witness.host], ["127.0.0.1"], [stage.witness.host, "127.0.0.1"])
        await stage.open()
        await stage.rate()
        await stage.come_to_rest()
        [row] = await stage.rows("SELECT count(*) AS total FROM attempts WHERE error_kind = 'address_refused'")
        stage.faults += int(row["total"])
        stage.breaches += [f"127.0.0.1 was dialled: {trap.connections}"] * (trap.connections > 0)


CASES = (
    Case(name="no-name", about="the specialist's name does not resolve, then it does", act=no_such_name, named=True),
    Case(
        name="rebinding",
        about="the name leads to the approved address, then to 127.0.0.1, then to both",
        act=rebinding,
        named=True,
    ),
)
