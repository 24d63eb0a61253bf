"""Clocks that differ, and time zones that are not UTC."""

import asyncio
import random
import time
from collections.abc import Callable
from email.utils import formatdate

import psycopg
from sqlalchemy import make_url

from tests.faults.case import PATIENT, Case
from tests.faults.cases.databases import busy
from tests.faults.stage import Stage
from tests.faults.witness import Behaviour, Line, Post, Witness, acknowledge, saying

AHEAD_SECONDS = 600
FLOOR_SECONDS = 3
LONGEST_WAIT_SECONDS = 60
"""No wait of the case may be longer; a mistaken zone is wrong by half an hour at least."""


async def clocks_differ(stage: Stage) -> None:
    """One process is ten minutes ahead, one behind; whose claims run out, the database's clock alone decides."""
    fast = await stage.serve(ahead=AHEAD_SECONDS)
    slow = await stage.serve(ahead=-AHEAD_SECONDS)
    stage.people.go_to(fast, slow)
    stage.faults += 2
    if not stage.on_sqlite:
        await stage.work(ahead=AHEAD_SECONDS)
        await stage.work()
        stage.faults += 1
    await stage.rate()
    await stage.come_to_rest()
    [row] = await stage.rows("SELECT count(*) AS total FROM attempts WHERE outcome = 'lost'")
    stage.breaches += ["a claim was taken from a living process"] * int(row["total"])
    [row] = await stage.rows("SELECT max(started_at) - {now} AS ahead, {now} - min(started_at) AS ago FROM attempts")
    if row["ahead"] > 0 or row["ago"] > AHEAD_SECONDS * 1000 / 2:
        stage.breaches.append("an attempt was logged by the clock of a process")


async def elsewhere(stage: Stage) -> None:
    """The processes run in one zone, the database in another, far from each other and from UTC."""
    prefix = ("env", "TZ=America/St_Johns")
    if stage.on_sqlite:
        stage.people.go_to(await stage.serve(prefix=prefix))
    else:
        url = make_url(stage.database_url)
        async with await psycopg.AsyncConnection.connect(stage.database_url, autocommit=True) as connection:
            await connection.execute(f"ALTER DATABASE \"{url.database}\" SET timezone TO 'Pacific/Kiritimati'")
        gateway, _ = await asyncio.gather(stage.serve("--no-worker", prefix=prefix), stage.work(prefix=prefix))
        stage.people.go_to(gateway)
    await stage.rate()
    await stage.come_to_rest()
    [row] = await stage.rows("SELECT max(due_at - state_since) AS wait FROM deliveries")
    if row["wait"] > LONGEST_WAIT_SECONDS * 1000:
        stage.breaches.append("a delivery waits for the hour of another zone")


def by_date(_chance: random.Random) -> Callable[[Post], Behaviour]:
    """A plan: the first few are told to come back at a date, given in GMT as HTTP has it."""
    turned_away: set[str] = set()

    def plan(post: Post) -> Behaviour:
        if len(turned_away) < 20 and post.id not in turned_away:
            turned_away.add(post.id)
            return come_back_at
        return acknowledge

    return plan


async def come_back_at(witness: Witness, line: Line, post: Post) -> None:
    moment = int(time.time()) + FLOOR_SECONDS  # noqa: TID251 - the specialist's own clock
    witness.tell_to_wait(post, moment - time.time() - 0.1)  # noqa: TID251
    await saying(429, lambda _: {}, f"Retry-After: {formatdate(moment, usegmt=True)}")(witness, line, post)


CASES = (
    Case(
        name="clocks",
        about="processes ten minutes ahead of and behind the database's clock",
        act=clocks_differ,
        plan=busy,
        settings=PATIENT,
    ),
    Case(
        name="zones",
        about="session and processes in zones that are not UTC; Retry-After as a date",
        act=elsewhere,
        plan=by_date,
        settings=PATIENT,
    ),
)
