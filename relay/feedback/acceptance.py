"""Storing submissions: one statement for all that arrive together, then the first attempt in this process."""

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from registry.model import Acting, Agent, RanAs, Snapshot, needs_presence, obstacle
from registry.protocols.catalog import ADAPTERS
from registry.protocols.contract import Rated
from registry.registrations import Registrations
from relay.clock import Clock
from relay.delivery.courier import Courier
from relay.delivery.model import Claim, Claimed, claim_token
from relay.delivery.schedule import Schedule
from relay.feedback.accept_statement import AcceptStatement
from relay.feedback.model import Facts, Offer, Stored
from relay.identity.model import Owner, OwnerKind
from relay.storage.engine import Database
from relay.storage.group_commit import GroupCommit
from relay.storage.records import dumps

RAN_AS: tuple[RanAs, ...] = ("owner", "client")

OwnerClass = tuple[str, OwnerKind, str, str, bool]
"""What decides whom the relay can act for: tenant, kind, issuer, client, and whether the subject is sealed."""


MOST_CLASSES = 10_000
"""How many are remembered before all are worked out anew."""

Payloads = Mapping[str, Mapping[str, str]]
"""By protocol: the exact body, and its SHA-256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """An offer with whose it is. ``tenant`` and ``client`` are of the token that brought it."""

    offer: Offer = field(repr=False)
    owner: Owner
    tenant: str
    client: str
    trace_context: str | None
    live_token: str | None = field(default=None, repr=False)
    token: str = field(default_factory=claim_token, repr=False)

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
        self._line = db.line() if db.dialect == "postgresql" else None
        self._capabilities = _Capabilities()
        self.capacity = capacity
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
        payloads = [_payloads(offered.offer) for offered in batch]
        before = self._clock.monotonic()
        free = self._courier.free(snapshot)
        parameters = {
            "offers": dumps(_row(n, o, payloads[n], classes) for n, o in enumerate(batch)),
            "capabilities": dumps(self._capabilities.of(snapshot, classes)),
            "slots": dumps({"agent": a, "free": slots} for a, slots in free.items()),
            **self._timing,
        }
        rows = await self._run(parameters)
        sending = [row for row in rows if row["state"] == "sending"]
        self._courier.carry([_claimed(batch[row["n"]], payloads[row["n"]], row, before) for row in sending])
        taken = Counter(row["target"] for row in sending)
        waiting = {row["target"] for row in rows if row["state"] == "pending"}
        # Not of one that is paused, or behind a breaker: its slots are free.
        self._courier.expect_more(agent for agent in waiting if taken[agent] >= free[agent])
        return [_facts(row) for row in rows]

    async def _run(self, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        if self._line is not None:
            return await self._line.rows(self._statement.whole, parameters)
        return await self._db.transact(lambda connection: self._statement.run(connection, parameters))


def _row(n: int, offered: Offered, payloads: Payloads, classes: Mapping[OwnerClass, int]) -> dict[str, Any]:
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
        "payloads": payloads,
        "trace": offered.trace_context,
        "class": classes[offered.owner_class],
        "token": offered.token,
    }


def _payloads(offer: Offer) -> Payloads:
    """The exact bytes for each protocol: which one applies is known only once the task is found."""
    payloads = {}
    for name, adapter in ADAPTERS.items():
        body = adapter.encode(Rated(offer.id, offer.task, offer.rating, offer.comment)).body or b""
        payloads[name] = {"body": body.decode(), "sha256": hashlib.sha256(body).hexdigest()}
    return payloads


class _Capabilities:
    """Whom the relay can act for at each agent, worked out once for each class of owners and state of the registry."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._rows: dict[OwnerClass, list[dict[str, Any]]] = {}

    def of(self, snapshot: Snapshot, classes: Mapping[OwnerClass, int]) -> Iterator[dict[str, Any]]:
        """A row for each class, agent and way that a task may have run, the class by its number."""
        if snapshot is not self._snapshot or len(self._rows) > MOST_CLASSES:
            self._snapshot, self._rows = snapshot, {}
        for owner_class, number in classes.items():
            rows = self._rows.get(owner_class)
            if rows is None:
                rows = self._rows[owner_class] = list(_judged(snapshot, owner_class))
            yield from ({"class": number, **row} for row in rows)


def _judged(snapshot: Snapshot, owner_class: OwnerClass) -> Iterator[dict[str, Any]]:
    tenant, kind, issuer, client, sealed = owner_class
    for agent in snapshot.values():
        for ran_as in RAN_AS:
            acting = Acting(kind, issuer, client, ran_as, subject_known=sealed, present=kind == "human")
            yield _capability(agent, tenant, acting)


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
        stored=None if row["seq"] is None else _stored(row),
    )


def _stored(row: Mapping[str, Any]) -> Stored:
    return Stored(
        seq=row["seq"],
        delivery=row["delivery"],
        state=row["state"],
        agent=row["target"],
        ran_as=row["ran_as"],
        pinned=row["registration_version"],
        run=row["run"],
        created_at=row["created_at"],
        due_at=row["due_at"],
    )


def _claimed(offered: Offered, payloads: Payloads, row: Mapping[str, Any], claimed_at: float) -> Claimed:
    offer = offered.offer
    payload = payloads[row["protocol"]]
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
