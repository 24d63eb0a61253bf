"""Storing submissions: one statement for all that arrive together, then the first attempt in this process."""

import hashlib
import json
import uuid
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import text

from registry.model import Acting, Agent, RanAs, Snapshot, needs_presence, obstacle
from registry.protocols.catalog import ADAPTERS
from registry.protocols.contract import Rated
from registry.registrations import Registrations
from relay.clock import Clock
from relay.delivery.courier import Courier
from relay.delivery.model import Claim, Claimed
from relay.delivery.schedule import Schedule
from relay.feedback.accept_statement import AcceptStatement
from relay.feedback.model import Facts, Offer
from relay.identity.model import Owner, OwnerKind
from relay.storage.engine import Database
from relay.storage.group_commit import GroupCommit
from relay.storage.records import dumps

RAN_AS: tuple[RanAs, ...] = ("owner", "client")

OwnerClass = tuple[str, OwnerKind, str, str, bool]
"""What decides whom the relay can act for: tenant, kind, issuer, client, and whether the subject is sealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """An offer with whose it is. ``tenant`` and ``client`` are of the token that brought it."""

    offer: Offer = field(repr=False)
    owner: Owner
    tenant: str
    client: str
    trace_context: str | None
    live_token: str | None = field(default=None, repr=False)
    token: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False)

    @property
    def owner_class(self) -> OwnerClass:
        owner = self.owner
        return (self.tenant, owner.kind, owner.issuer, owner.client, owner.subject_sealed)

    def keys(self) -> Iterable[Hashable]:
        """What one batch may hold only once. The task's agent may be unknown yet, so the task stands for all of its
        agents.
        """
        return (self.owner.id, "id", self.offer.id), (self.owner.id, "task", self.offer.task)


class Acceptance:
    """Accepts offers, grouped; see `relay.storage.group_commit`."""

    def __init__(
        self,
        db: Database,
        registry: Registrations,
        courier: Courier,
        schedule: Schedule,
        clock: Clock,
        *,
        lease_seconds: float,
        capacity: int,
    ) -> None:
        self._db = db
        self._registry = registry
        self._courier = courier
        self._clock = clock
        self._timing = {
            "first_wait_ms": 0 if schedule.starts_at_once else schedule.wait_ms(0),
            "lease_ms": round(lease_seconds * 1000),
        }
        self._statement = AcceptStatement(db)
        self._group: GroupCommit[Offered, Facts] = GroupCommit(self._write, Offered.keys, capacity=capacity)

    def __len__(self) -> int:
        return len(self._group)

    async def run(self) -> None:
        await self._group.run()

    async def offer(self, offered: Offered) -> Facts:
        """What the database knew, and what it stored; returns after the commit. Raises `QueueFullError`."""
        return await self._group.submit(offered)

    async def _write(self, batch: Sequence[Offered]) -> Sequence[Facts]:
        snapshot = self._registry.snapshot
        classes = {c: n for n, c in enumerate(dict.fromkeys(o.owner_class for o in batch))}
        before = self._clock.monotonic()
        parameters = {
            "offers": dumps(_row(n, o, classes) for n, o in enumerate(batch)),
            "capabilities": dumps(_capabilities(snapshot, classes)),
            "slots": dumps({"agent": a, "free": free} for a, free in self._courier.free(snapshot).items()),
            **self._timing,
        }
        rows = await self._run(parameters)
        self._courier.carry([_claimed(batch[row["n"]], row, before) for row in rows if row["state"] == "sending"])
        return [_facts(row) for row in rows]

    async def _run(self, parameters: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        if self._db.dialect == "postgresql":
            async with self._db.statement() as connection:
                found = await connection.execute(text(self._statement.whole), parameters)
                return [dict(row) for row in found.mappings()]
        return await self._run_sqlite(parameters)

    async def _run_sqlite(self, parameters: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        sql = self._statement
        async with self._db.write() as connection:
            found = [dict(row) for row in (await connection.execute(text(sql.facts), parameters)).mappings()]
            offers = {offer["n"]: offer for offer in _loads(parameters["offers"])}
            ready = dumps(_ready(offers[row["n"]], row) for row in found if row["ready"])
            inserted = (await connection.execute(text(sql.insert_submissions), {"ready": ready})).mappings().all()
            placed = await connection.execute(
                text(sql.place), {**parameters, "ready": ready, "inserted": dumps(map(dict, inserted))}
            )
            places = [dict(row) for row in placed.mappings()]
            stored = await connection.execute(text(sql.insert_deliveries), {**parameters, "placed": dumps(places)})
            deliveries = {row["submission"]: dict(row) for row in stored.mappings()}
            await connection.execute(text(sql.tell), {"stored": dumps(deliveries.values())})
        by_offer = {place["n"]: deliveries[place["seq"]] for place in places}
        return [_with_delivery(row, by_offer.get(row["n"])) for row in found]


def _loads(rows: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(rows)
    return loaded


def _ready(offer: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    payload = offer["payloads"][facts["protocol"]]
    kept = ("target", "ran_as", "registration_version", "needs_presence", "protocol", "held", "shut")
    return {**offer, "payloads": None, **payload, **{name: facts[name] for name in kept}}


def _with_delivery(facts: Mapping[str, Any], delivery: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if delivery is None:
        return {**facts, "seq": None, "delivery": None, "state": None}
    return {**facts, "seq": delivery["submission"], "delivery": delivery["id"], "state": delivery["state"]}


def _row(n: int, offered: Offered, classes: Mapping[OwnerClass, int]) -> dict[str, Any]:
    offer = offered.offer
    return {
        "n": n,
        "owner": offered.owner.id,
        "tenant": offered.tenant,
        "client": offered.client,
        "id": offer.id,
        "agent": offer.agent,
        "task": offer.task,
        "rating": offer.rating,
        "comment": offer.comment,
        "payloads": _payloads(offer),
        "trace": offered.trace_context,
        "class": classes[offered.owner_class],
        "token": offered.token,
    }


def _payloads(offer: Offer) -> dict[str, dict[str, str]]:
    """The exact bytes for each protocol: which one applies is known only once the task is found."""
    payloads = {}
    for name, adapter in ADAPTERS.items():
        body = adapter.encode(Rated(offer.id, offer.task, offer.rating, offer.comment)).body or b""
        payloads[name] = {"body": body.decode(), "sha256": hashlib.sha256(body).hexdigest()}
    return payloads


def _capabilities(snapshot: Snapshot, classes: Mapping[OwnerClass, int]) -> Iterator[dict[str, Any]]:
    for (tenant, kind, issuer, client, sealed), number in classes.items():
        for agent in snapshot.values():
            for ran_as in RAN_AS:
                acting = Acting(kind, issuer, client, ran_as, subject_known=sealed, present=kind == "human")
                yield {"class": number, **_capability(agent, tenant, acting)}


def _capability(agent: Agent, tenant: str, acting: Acting) -> dict[str, Any]:
    approved = agent.approved
    return {
        "agent": agent.id,
        "ran_as": acting.ran_as,
        "revision": agent.revision,
        "obstacle": _obstacle(agent, acting),
        "held": agent.is_held_for(tenant),
        "needs_presence": approved is not None and needs_presence(approved.credentials, acting),
        "lineage": approved.lineage if approved else 0,
        "protocol": approved.protocol if approved else None,
    }


def _obstacle(agent: Agent, acting: Acting) -> str | None:
    """As `registry.model.obstacle`, but an owner who is here can have the subject sealed and try again."""
    found = obstacle(agent, acting, ADAPTERS)
    known = replace(acting, subject_known=True)
    if found == "destination_cannot_act_for_owner" and obstacle(agent, known, ADAPTERS) is None:
        return "subject_not_sealed"
    return found


def _facts(row: Mapping[str, Any]) -> Facts:
    return Facts(
        known=row["known"],
        named=row["named"],
        specialists=row["specialists"],
        agent=row["target"],
        status=row["status"],
        taken=row["taken"],
        fresh=bool(row["fresh"]),
        obstacle=row["obstacle"],
        seq=row["seq"],
        delivery=row["delivery"],
        state=row["state"],
    )


def _claimed(offered: Offered, row: Mapping[str, Any], claimed_at: float) -> Claimed:
    offer = offered.offer
    payload = _payloads(offer)[row["protocol"]]
    return Claimed(
        claim=Claim(
            delivery=row["delivery"],
            token=offered.token,
            number=1,
            cause="accept",
            position=1,
            agent=row["target"],
            tenant=offered.tenant,
            pinned=row["registration_version"],
        ),
        window_ms=0,
        claimed_at=claimed_at,
        owner=offered.owner.id,
        submission=offer.id,
        task=offer.task,
        rating=offer.rating,
        comment=offer.comment,
        payload=payload["body"].encode(),
        sha256=payload["sha256"],
        ran_as=row["ran_as"],
        protocol=row["protocol"],
        trace_context=offered.trace_context,
        live_token=offered.live_token,
    )
