"""Fetching an issuer's key set: from the address that is configured, else from the one its metadata names."""

from typing import Final

from registry.egress import Egress, EgressFailure, Exchange
from relay.identity import discovery, jwks
from relay.identity.jwks import KeySet
from relay.identity.model import IssuerPolicy

MAX_KEY_SET_BYTES: Final = 262_144
"""Sets with certificate chains in them are long."""

HTTP_OK: Final = 200


class FetchFailed(Exception):  # noqa: N818 - reads as what it says
    """There is no key set to be had. ``problem`` is a short code, ``detail`` what the connection itself had to say."""

    def __init__(self, problem: str, detail: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.detail = detail


class KeySource:
    """Where the keys of one issuer come from."""

    def __init__(self, policy: IssuerPolicy, egress: Egress) -> None:
        self._policy = policy
        self._egress = egress

    async def fetch(self, deadline: float) -> KeySet:
        """The key set as it is published now; ``deadline`` (seconds) is that of each exchange. Raises `FetchFailed`."""
        address = self._policy.jwks_uri or await self._discover(deadline)
        exchange = await self._get(address, deadline, MAX_KEY_SET_BYTES)
        try:
            return jwks.read(exchange.body)
        except jwks.KeySetUnusable as unusable:
            raise FetchFailed(f"key_set_{unusable.reason}") from None

    async def _discover(self, deadline: float) -> str:
        """Ask afresh each time: an issuer may move its keys."""
        problem: FetchFailed | None = None
        for url in discovery.metadata_urls(self._policy.issuer):
            try:
                exchange = await self._get(url, deadline, discovery.MAX_METADATA_BYTES)
                return discovery.jwks_uri(exchange.body, self._policy.issuer)
            except FetchFailed as failure:
                problem = problem or failure
            except discovery.MetadataUnusable as unusable:
                # Says more than that the other document is not there.
                problem = FetchFailed(unusable.reason)
        raise problem or FetchFailed("no_metadata")

    async def _get(self, url: str, deadline: float, max_bytes: int) -> Exchange:
        try:
            exchange = await self._egress.exchange(
                "GET", url, headers={}, deadline=deadline, max_answer_bytes=max_bytes
            )
        except EgressFailure as failure:
            raise FetchFailed(failure.kind, failure.detail) from None
        if exchange.status != HTTP_OK:
            raise FetchFailed(f"status_{exchange.status}")
        if not exchange.complete:
            raise FetchFailed("answer_too_long")
        return exchange
