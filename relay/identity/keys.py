"""The issuers' keys, fetched when they are needed and kept for a while.

A request never waits for a fetch that it can do without: keys past their age are served while fresher ones are on
their way, and for as long as the issuer cannot be reached, up to a limit. At most one fetch per issuer is in flight.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog

from registry.egress import Egress
from relay.clock import Clock
from relay.identity.jwks import KeySet, VerificationKey
from relay.identity.key_source import FetchFailed, KeySource
from relay.identity.model import IssuerPolicy
from relay.identity.refusals import keys_unavailable

_log = structlog.stdlib.get_logger("relay.identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How long keys are good, and how often an issuer may be asked. All in seconds."""

    max_age: float = 600
    stale_limit: float = 3600
    """Keys older than this are not used, whatever the reason that there are no newer ones."""
    cooldown: float = 30
    """Between two fetches, so that made-up key ids cannot be turned against an issuer."""
    retry: float = 5
    """After a failed fetch."""
    deadline: float = 5
    """Of one fetch, discovery included."""
    patience: float = 1
    """How long a request waits for fresher keys where older ones would do."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """How a fetch went. ``problem`` is a short code; None: it went well."""

    issuer: str
    problem: str | None
    keys: int
    ignored: int


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """What is held of an issuer. ``usable`` says whether a token of it could be judged now."""

    issuer: str
    usable: bool
    keys: int
    age_seconds: float | None
    problem: str | None


class IssuerKeys:
    """The keys of one issuer."""

    def __init__(
        self,
        policy: IssuerPolicy,
        egress: Egress,
        clock: Clock,
        freshness: Freshness,
        observe: Callable[[Fetched], None],
    ) -> None:
        self._issuer = policy.issuer
        self._source = KeySource(policy, egress)
        self._clock = clock
        self._freshness = freshness
        self._observe = observe
        self._held = KeySet({}, 0)
        self._fetched_at: float | None = None
        self._next_fetch = float("-inf")
        self._problem: str | None = None
        self._fetching: asyncio.Task[None] | None = None

    def at_hand(self, kid: str, algorithm: str) -> VerificationKey | None:
        """The key, if fresh keys are held and it is among them."""
        return self._held.find(kid, algorithm) if self._age() < self._freshness.max_age else None

    async def find(self, kid: str, algorithm: str) -> VerificationKey | None:
        """The key; None: the issuer has no such key. Raises `Refusal` (``keys_unavailable``) if that cannot be told."""
        if self._age() >= self._freshness.max_age:
            await self._refresh(patience=self._freshness.patience if self._usable(kid, algorithm) else None)
        key = self._usable(kid, algorithm)
        if key is None:
            await self._refresh(patience=None)
            key = self._usable(kid, algorithm)
        if key is None and (self._problem is not None or not self._within_limit()):
            raise keys_unavailable(self._next_fetch - self._clock.monotonic())
        return key

    async def load(self) -> None:
        """Fetch the keys if fresh ones are not held and the issuer may be asked."""
        if self._age() >= self._freshness.max_age:
            await self._refresh(patience=None)

    def status(self) -> KeyStatus:
        age = None if self._fetched_at is None else self._age()
        usable = self._within_limit() and bool(self._held.keys)
        return KeyStatus(self._issuer, usable, len(self._held.keys), age, self._problem)

    async def close(self) -> None:
        """Give up a fetch that is still running."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching})

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock.monotonic() - self._fetched_at

    def _within_limit(self) -> bool:
        return self._age() < self._freshness.stale_limit

    def _usable(self, kid: str, algorithm: str) -> VerificationKey | None:
        return self._held.find(kid, algorithm) if self._within_limit() else None

    async def _refresh(self, *, patience: float | None) -> None:
        """Join the fetch in flight or start one, unless it is too soon, and wait for it (``patience`` at most)."""
        if self._fetching is None:
            if self._clock.monotonic() < self._next_fetch:
                return
            # The fetch belongs to everyone who waits, so that one who leaves does not cancel it for the others.
            self._fetching = asyncio.create_task(self._fetch())  # noqa: TID251 - awaited below and in close()
            self._fetching.add_done_callback(self._finish)
        done, _ = await asyncio.wait({self._fetching}, timeout=patience)
        for task in done:
            if not task.cancelled():
                task.result()  # a fetch fails without raising: what it raises is a fault of ours, to be seen

    def _finish(self, _task: asyncio.Task[None]) -> None:
        self._fetching = None

    async def _fetch(self) -> None:
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._freshness.deadline):
                self._held = await self._source.fetch(self._freshness.deadline)
        except TimeoutError:
            self._settle("deadline_exceeded", self._freshness.retry)
        except FetchFailed as failure:
            self._settle(failure.problem, self._freshness.retry)
        else:
            self._fetched_at = started
            self._settle(None, self._freshness.cooldown)

    def _settle(self, problem: str | None, pause: float) -> None:
        self._problem = problem
        self._next_fetch = self._clock.monotonic() + pause
        outcome = Fetched(self._issuer, problem, len(self._held.keys), self._held.ignored)
        if problem is None:
            _log.info("keys_fetched", issuer=outcome.issuer, keys=outcome.keys, ignored=outcome.ignored)
        else:
            _log.warning("keys_not_fetched", issuer=outcome.issuer, problem=problem)
        self._observe(outcome)


def _ignore(_outcome: Fetched) -> None:
    """Nobody counts."""


class KeySets:
    """The keys of every configured issuer. ``observe`` is told of each fetch."""

    def __init__(
        self,
        policies: Iterable[IssuerPolicy],
        egress: Egress,
        clock: Clock,
        freshness: Freshness | None = None,
        observe: Callable[[Fetched], None] = _ignore,
    ) -> None:
        freshness = freshness or Freshness()
        self._issuers = {p.issuer: IssuerKeys(p, egress, clock, freshness, observe) for p in policies}

    def at_hand(self, issuer: str, kid: str, algorithm: str) -> VerificationKey | None:
        """The key, if it can be said without waiting that it is current."""
        return self._issuers[issuer].at_hand(kid, algorithm)

    async def find(self, issuer: str, kid: str, algorithm: str) -> VerificationKey | None:
        """The key of a configured issuer; None: it has no such key. Raises `Refusal` (``keys_unavailable``)."""
        return await self._issuers[issuer].find(kid, algorithm)

    async def load(self) -> None:
        """Fetch what is missing or old, of all issuers at once. A failure is only recorded: see `status`."""
        async with asyncio.TaskGroup() as group:
            for keys in self._issuers.values():
                group.create_task(keys.load())

    def status(self) -> Sequence[KeyStatus]:
        return tuple(keys.status() for keys in self._issuers.values())

    async def close(self) -> None:
        for keys in self._issuers.values():
            await keys.close()
