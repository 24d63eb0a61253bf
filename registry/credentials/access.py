"""What the relay presents at a specialist: a token, alone or with a proof for each request, and a certificate."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from registry.credentials.tokens import AccessToken
from registry.egress import ClientIdentity, Exchange


@dataclass(frozen=True, slots=True)
class Authorization:
    """What authorizes one request: headers, and the certificate of the connection that it goes over."""

    headers: Mapping[str, str] = field(repr=False)
    client_identity: ClientIdentity | None = None


Send = Callable[[Authorization], Awaitable[Exchange]]
"""Sends the one request that it was made for."""


@dataclass(frozen=True, slots=True)
class Access:
    """Access to one specialist, for the requests of one attempt."""

    token: AccessToken
    client_identity: ClientIdentity | None = None

    async def exchange(self, method: str, url: str, send: Send) -> Exchange:
        """The answer to the request that ``send`` sends, given its authorization.

        ``send`` is called again, once, where the server asks for a nonce in the proof (RFC 9449 section 9).
        """
        value, prover = self.token.value, self.token.prover
        if prover is None:
            return await send(Authorization({"Authorization": f"Bearer {value}"}, self.client_identity))

        async def send_with(proof: str) -> Exchange:
            headers = {"Authorization": f"DPoP {value}", "DPoP": proof}
            return await send(Authorization(headers, self.client_identity))

        return await prover.exchange(method, url, send_with, access_token=value)
