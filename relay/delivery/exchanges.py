"""Speaking to a specialist as whoever ran the task: one way for sending a rating and for reading it back."""

from registry.credentials import Access, Authorization, Authorizations, CredentialFailure, Purpose
from registry.egress import Egress, Exchange
from registry.model import Acting, Credential, Registration, choose, needs_presence
from registry.protocols.contract import Answer, OutboundRequest
from relay.clock import Clock
from relay.delivery.model import Behalf
from relay.identity.owners import Owners


class OwnerAbsentError(Exception):
    """Only the owner's own sign-in can act, and the owner is not here, or their token is not good any more."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason


class Exchanges:
    """Requests to specialists, each under the identity that ran the task. ``until`` is on the monotonic clock."""

    def __init__(self, egress: Egress, authorizations: Authorizations, owners: Owners, clock: Clock) -> None:
        self._egress = egress
        self._authorizations = authorizations
        self._owners = owners
        self._clock = clock

    async def authorize(self, behalf: Behalf, registration: Registration, until: float, *, fresh: bool) -> Access:
        """What gives access; ``fresh``: the last was refused. Raises OwnerAbsentError or CredentialFailure."""
        # Only an assertion needs the subject, so only then must what is known of it be fresh.
        asserts = any(credential.mode == "owner_assertion" for credential in registration.credentials)
        owner = await (self._owners.by_id(behalf.owner) if asserts else self._owners.known(behalf.owner))
        acting = Acting(
            owner.kind,
            owner.issuer,
            owner.client,
            behalf.ran_as,
            subject_known=owner.subject_sealed,
            present=behalf.live_token is not None,
        )
        credential = choose(registration.credentials, acting)
        if credential is None and needs_presence(registration.credentials, acting):
            raise OwnerAbsentError
        if credential is None:
            raise CredentialFailure("subject_unknown", temporary=False)
        try:
            return await self._authorizations.access_for(
                credential,
                subject=await self._subject(credential, behalf),
                purpose=Purpose(behalf.submission, behalf.task, behalf.sha256),
                deadline=self._left(until),
                fresh=fresh,
                subject_token=behalf.live_token,
                owner=behalf.owner,
            )
        except CredentialFailure as failure:
            if failure.needs_owner and needs_presence(registration.credentials, acting):
                raise OwnerAbsentError(failure.reason) from None
            raise

    async def _subject(self, credential: Credential, behalf: Behalf) -> str | None:
        return await self._owners.subject_of(behalf.owner) if credential.mode == "owner_assertion" else None

    async def send(
        self, behalf: Behalf, registration: Registration, request: OutboundRequest, access: Access, until: float
    ) -> Exchange:
        """One request to the approved origin and its answer. Raises EgressFailure."""
        url = registration.origin + request.path
        traced = {"traceparent": behalf.trace_context} if behalf.trace_context else {}

        async def send(authorization: Authorization) -> Exchange:
            return await self._egress.exchange(
                request.method,
                url,
                headers={**request.headers, **authorization.headers, **traced},
                body=request.body,
                deadline=self._left(until),
                max_answer_bytes=request.max_answer_bytes,
                client_identity=authorization.client_identity,
            )

        return await access.exchange(request.method, url, send)

    def _left(self, until: float) -> float:
        return max(until - self._clock.monotonic(), 0.001)


def answer_of(exchange: Exchange) -> Answer:
    """What an adapter reads."""
    return Answer(exchange.status, exchange.headers, exchange.body, complete=exchange.complete)
