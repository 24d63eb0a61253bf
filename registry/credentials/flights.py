"""Tokens that are kept: each fetched by one caller at a time, while the others wait for what it brings."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from registry.credentials.failures import CredentialFailure
from registry.credentials.tokens import AccessToken

Fetch = Callable[[], Awaitable[AccessToken]]


class Flights:
    """The kept tokens, by what they are for; the one unused for longest makes room. In memory only."""

    def __init__(self, now: Callable[[], float], *, capacity: int) -> None:
        self._now = now
        self._capacity = capacity
        self._flights: dict[Hashable, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    async def token(self, key: Hashable, fetch: Fetch, *, fresh: bool, by: Hashable = None) -> AccessToken:
        """The token for ``key``, kept or fetched; raises CredentialFailure.

        ``fresh`` drops a kept one. ``by`` names what is shown to get it: a failure is shared only with those who wait
        with the same.
        """
        return await self._of(key).token(fetch, fresh=fresh, by=by)

    def _of(self, key: Hashable) -> "Flight":
        flight = self._flights.pop(key, None) or Flight(self._now)
        while len(self._flights) >= self._capacity:
            # One that is being fetched stays: its callers would otherwise fetch twice.
            idle = next((each for each, flight in self._flights.items() if not flight.busy), None)
            if idle is None:
                break
            del self._flights[idle]
        self._flights[key] = flight
        return flight


class Flight:
    """One token.

    No task of its own: a caller that is cancelled takes its fetch with it, and the next in line starts another.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = asyncio.Lock()
        self._landed = 0
        self._by: Hashable = None
        self._outcome: AccessToken | CredentialFailure | None = None

    @property
    def busy(self) -> bool:
        return self._lock.locked()

    async def token(self, fetch: Fetch, *, fresh: bool, by: Hashable) -> AccessToken:
        seen = self._landed
        if not fresh and isinstance(self._outcome, AccessToken) and self._now() < self._outcome.good_until:
            return self._outcome
        async with self._lock:
            if self._landed == seen or (isinstance(self._outcome, CredentialFailure) and self._by != by):
                await self._fly(fetch, by)
            return self._result()

    async def _fly(self, fetch: Fetch, by: Hashable) -> None:
        self._outcome = None
        try:
            self._outcome = await fetch()
        except CredentialFailure as failure:
            self._outcome = failure.again()
        self._by = by
        self._landed += 1

    def _result(self) -> AccessToken:
        match self._outcome:
            case AccessToken() as token:
                return token
            case CredentialFailure() as failure:
                raise failure.again()
            case None:
                raise AssertionError("a flight that landed has an outcome")
