"""Counting requests as they come in, refusing what is too much, and telling callers how they stand."""

import hmac
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_network
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from relay.errors import Refusal
from relay.http.forwarding import Address, TrustedProxies
from relay.http.limits import Policy
from relay.identity.model import OwnerTuple, Principal
from relay.identity.recents import Recents
from relay.limits.counts import Counts
from relay.limits.model import Bucket, Limit, Standing, fields

STANDINGS: Final = web.RequestKey("standings", list[Standing])
"""Of a request's limits, as far as it has been counted."""

_BUCKET_BYTES: Final = 16
_REMEMBERED: Final = 8192
"""Owners whose buckets need not be worked out again: that takes half of the time of counting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Requests a minute; 0: any number."""

    per_owner: int = 0
    per_client: int = 0
    per_address: int = 0


class Admission:
    """Lets requests in. `middleware` goes inside `problems`, `admit` and `mark` belong to the hooks of their names.

    ``key`` keeps the names of buckets from being guessed: addresses are few, and subjects may be known. ``exempt`` are
    the names of routes that are never counted.
    """

    def __init__(
        self, counts: Counts, quotas: Quotas, proxies: TrustedProxies, *, key: bytes, exempt: Collection[str] = ()
    ) -> None:
        self._counts = counts
        self._quotas = quotas
        self._proxies = proxies
        self._key = key
        self._exempt = frozenset(exempt)
        self._known: Recents[OwnerTuple, tuple[Limit, ...]] = Recents(_REMEMBERED)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count the request for its address, before anything is known of its caller."""
        if self._quotas.per_address and request.match_info.route.name not in self._exempt:
            address = self._address(request)
            if address is not None:
                self._take(request, [self._limit("address", self._quotas.per_address, _network(address))])
        return await handler(request)

    def admit(self, request: web.Request, caller: Principal) -> None:
        """Count the request for its verified caller. Raises `Refusal` (429 ``rate_limited``)."""
        if not (self._quotas.per_owner or self._quotas.per_client):
            return
        limits = self._known.get(caller.owner)
        if limits is None:
            limits = tuple(self._limits(caller.owner))
            self._known.put(caller.owner, limits)
        self._take(request, limits)

    async def mark(self, request: web.Request, response: web.StreamResponse) -> None:
        """For ``on_response_prepare``: every answer to a counted request says how its caller stands."""
        standings = request.get(STANDINGS)
        if standings:
            response.headers.update(fields(standings))

    def _limits(self, owner: OwnerTuple) -> Iterator[Limit]:
        if self._quotas.per_client:
            yield self._limit("client", self._quotas.per_client, owner.issuer, owner.client)
        if self._quotas.per_owner:
            names = (owner.kind, owner.issuer, owner.client, owner.subject)
            yield self._limit("owner", self._quotas.per_owner, *names)

    def _take(self, request: web.Request, limits: Sequence[Limit]) -> None:
        standings, spent = self._counts.take(limits)
        request[STANDINGS] = [*request.get(STANDINGS, ()), *standings]
        if spent:
            raise _rate_limited(spent)

    def _address(self, request: web.Request) -> Address | None:
        return self._proxies.client(
            request.remote or "",
            forwarded_for=request.headers.getall("X-Forwarded-For", ()),
            forwarded=request.headers.getall("Forwarded", ()),
        )

    def _limit(self, policy: Policy, quota: int, *names: str) -> Limit:
        parts = [name.encode() for name in (policy, *names)]
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        digest = hmac.digest(self._key, message, "sha256")[:_BUCKET_BYTES]
        return Limit(policy, quota, Bucket(digest.hex()))


def _network(address: Address) -> str:
    """Who has one IPv6 address has all of its /64 network."""
    return str(ip_network((address, 64), strict=False) if isinstance(address, IPv6Address) else address)


def _rate_limited(spent: list[Standing]) -> Refusal:
    wait = max(each.reset_seconds for each in spent)
    limits = ", ".join(f"{each.limit.quota} for one {each.limit.policy}" for each in spent)
    return Refusal(
        "rate_limited",
        f"Requests a minute are limited: {limits}. Send the request again in {wait} s.",
        extra={"violated-policies": [each.limit.policy for each in spent]},
        headers={"Retry-After": str(wait)},
    )
