"""The specialist errs."""

import json
import random
import uuid
from collections.abc import Callable, Sequence

from relay.delivery.schedule import JITTER
from tests.faults.case import PATIENT, Case, deliver
from tests.faults.stage import Stage
from tests.faults.witness import (
    Behaviour,
    Line,
    Post,
    Witness,
    acknowledge,
    answer_twice,
    at_first,
    break_off,
    drip,
    hang,
    reset,
    saying,
    too_late,
)

LIES: Sequence[Behaviour] = (
    saying(200, lambda post: {"id": post.id, "saved": True}),
    saying(202, lambda post: {"id": post.id, "saved": True}),
    saying(201, lambda _: {"id": str(uuid.uuid4()), "saved": True}),
    saying(201, lambda post: {"id": post.task, "saved": True}),
    saying(201, lambda post: {"id": post.id, "saved": 1}),
    saying(201, lambda post: {"id": post.id, "saved": "true"}),
    saying(201, lambda post: {"id": post.id, "saved": False}),
    saying(201, lambda post: {"id": post.id}),
    saying(201, lambda post: [{"id": post.id, "saved": True}]),
    saying(201, lambda _: b""),
    saying(201, lambda _: b"<html>saved</html>"),
    saying(201, lambda post: f'{{"id":"{uuid.uuid4()}","saved":true,"id":"{post.id}"}}'.encode()),
    saying(201, lambda post: f'{{"id":"{post.id}","saved":false,"saved":true}}'.encode()),
    saying(201, lambda post: json.dumps({"id": post.id, "saved": True, "padding": "x" * 100_000}).encode()),
    saying(201, lambda post: {"id": post.id, "saved": True}, "Content-Encoding: gzip"),
    saying(307, lambda post: {"id": post.id, "saved": True}, "Location: /api/feedback"),
    saying(500, lambda post: {"id": post.id, "saved": True}),
)
"""Answers that resemble the one that saves."""

FLOOR_SECONDS = 2
TURNED_AWAY = 30
"""How many posts a specialist under a storm turns away before it recovers; those in flight at once are fewer."""


def from_the_start(behaviours: Sequence[Behaviour]) -> Callable[[random.Random], Callable[[Post], Behaviour]]:
    return lambda chance: at_first(behaviours, chance)


def storm(_chance: random.Random) -> Callable[[Post], Behaviour]:
    """A plan: the first posts are told to come back later, the others are welcome."""
    turned_away: set[str] = set()

    def plan(post: Post) -> Behaviour:
        if len(turned_away) < TURNED_AWAY and post.id not in turned_away:
            turned_away.add(post.id)
            return come_back_later
        return acknowledge

    return plan


async def come_back_later(witness: Witness, line: Line, post: Post) -> None:
    witness.tell_to_wait(post, FLOOR_SECONDS)
    await saying(429, lambda _: {}, f"Retry-After: {FLOOR_SECONDS}")(witness, line, post)


async def weather_a_storm(stage: Stage) -> None:
    """Nothing comes back before the floor, which the witness watches; and what was turned away comes back spread."""
    await stage.open()
    await stage.rate()
    await stage.come_to_rest()
    turns = await stage.rows(
        "SELECT d.not_before, a.started_at FROM attempts a JOIN deliveries d ON d.id = a.delivery"
        " WHERE a.number = 2 AND d.not_before > 0"
    )
    delays = [turn["started_at"] - turn["not_before"] for turn in turns]
    if len(delays) < stage.witness.faults:
        stage.breaches.append(f"{stage.witness.faults - len(delays)} of those turned away have no second attempt")
    if max(delays, default=0) - min(delays, default=0) < FLOOR_SECONDS * JITTER * 1000 / 4:
        stage.breaches.append("all of those turned away came back at the same instant")


CASES = (
    Case(
        name="lies",
        about="200, 202, another id, saved: 1, duplicate keys, a cut or encoded body, a redirect, a 500 with saved",
        act=deliver,
        plan=from_the_start(LIES),
    ),
    Case(name="drips", about="the right answer, too slowly to end", act=deliver, plan=from_the_start([drip])),
    Case(name="hangs", about="takes the rating and never answers", act=deliver, plan=from_the_start([hang])),
    Case(
        name="resets", about="resets the connection, before or in its answer", act=deliver, plan=from_the_start([reset])
    ),
    Case(
        name="late",
        about="stores the rating and acknowledges it after the deadline",
        act=deliver,
        plan=from_the_start([too_late(1.3)]),
    ),
    Case(
        name="twice",
        about="two answers to one request on a connection that stays open",
        act=deliver,
        plan=from_the_start([answer_twice]),
    ),
    Case(
        name="breaks-off",
        about="closes the connection in the middle of the right answer",
        act=deliver,
        plan=from_the_start([break_off]),
    ),
    Case(
        name="storm",
        about=f"429 with Retry-After: {FLOOR_SECONDS} to all in flight",
        act=weather_a_storm,
        plan=storm,
        settings=PATIENT,
    ),
)
