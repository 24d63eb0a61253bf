"""Who may do what at a specialist of the demonstration: the token decides, and nothing in the request."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from registry.strict_json import NotStrictJson, loads
from relay.demo.assertions import DETAILS_TYPE
from relay.demo.proofs import ALGORITHM, ProofRefused, Proofs
from relay.errors import Refusal
from relay.http.bodies import read_bytes
from relay.identity.compact import parse
from relay.identity.model import OwnerTuple, Principal
from relay.identity.refusals import REALM, insufficient_scope
from relay.identity.scopes import holds
from relay.identity.tokens import Verifier
from relay.receiver import Caller

MAX_BODY_BYTES = 65_536

_BOUND_SCHEME = re.compile(r"\Adpop ", re.IGNORECASE)

_RATING_SCOPES: Mapping[str, tuple[str, ...]] = {
    # Whoever may send a rating may read back what became of it.
    "GET": ("feedback:read", "feedback:write"),
    "POST": ("feedback:write",),
    "PATCH": ("operator:write",),
}


class Callers:
    """Verifies callers.

    ``clients`` are the OAuth clients that may call; ``secret`` keeps owner keys opaque. ``origin`` is how proofs name
    this server.
    """

    def __init__(
        self, verifier: Verifier, proofs: Proofs, *, origin: str, clients: frozenset[str], secret: bytes
    ) -> None:
        self._verifier = verifier
        self._proofs = proofs
        self._origin = origin
        self._clients = clients
        self._secret = secret

    async def rating(self, request: web.Request) -> Caller | None:
        """The caller of the receiver's routes; None: no valid token. Raises Refusal."""
        try:
            principal = await self._principal(request, *_RATING_SCOPES.get(request.method, ()))
        except NotProven:
            raise
        except Refusal as refusal:
            if refusal.code == "unauthenticated":
                return None
            raise
        details = _details(principal)
        if details is not None and request.method != "GET":
            await _require_bound(request, details)
        return Caller(self.owner_key(principal.owner), operator=holds(principal, "operator:write"))

    async def running(self, request: web.Request, scope: str) -> str:
        """The owner key of a caller who may use runs. A token that was made for one submission may not."""
        principal = await self._principal(request, scope)
        if _details(principal) is not None:
            raise _forbidden("This token is for one submission only.")
        return self.owner_key(principal.owner)

    def owner_key(self, owner: OwnerTuple) -> str:
        """The opaque name of an owner here; the same for ever, and telling nothing without the secret."""
        # Length before text: no two tuples look the same.
        parts = (f"{len(part)}:{part}" for part in (owner.kind, owner.issuer, owner.client, owner.subject))
        digest = hmac.digest(self._secret, "".join(parts).encode(), "sha256")
        return "own_" + base64.b32encode(digest[:15]).decode("ascii").lower()

    async def _principal(self, request: web.Request, *scopes: str) -> Principal:
        """The verified caller, of an allowed client, with one of the scopes."""
        principal = await self._verified(request)
        if principal.client not in self._clients:
            raise _forbidden("The token's client may not call this specialist.")
        if principal.scopes.isdisjoint(scopes):
            raise insufficient_scope(scopes[0] if scopes else "", f"The token needs the scope {' or '.join(scopes)}.")
        return principal

    async def _verified(self, request: web.Request) -> Principal:
        """The caller; where the token is bound to a key, only with a proof that the caller has it (RFC 9449)."""
        values = request.headers.getall("Authorization", [])
        bare = [_BOUND_SCHEME.sub("Bearer ", value) for value in values]
        principal = await self._verifier.verify(bare)
        confirmed = parse(principal.token).claims.get("cnf")
        if confirmed is None and bare == values:
            return principal
        if confirmed is None or bare == values:
            # Section 7.2: a bound token is no bearer token, and a bearer token is bound to nothing.
            raise NotProven("invalid_token", "Present the token as what it was given out as.", self._proofs.nonce)
        self._require_possession(request, principal.token, confirmed)
        return principal

    def _require_possession(self, request: web.Request, token: str, confirmed: object) -> None:
        url = self._origin + request.rel_url.raw_path
        proofs = request.headers.getall("DPoP", [])
        try:
            key = self._proofs.check(proofs, method=request.method, url=url, access_token=token)
        except ProofRefused as error:
            raise NotProven(error.code, f"The proof does not hold: {error}.", self._proofs.nonce) from None
        if confirmed != {"jkt": key}:
            raise NotProven("invalid_token", "The token is bound to another key.", self._proofs.nonce)


class NotProven(Refusal):
    """A token that is bound to a key came without a proof that the caller has it (RFC 9449 section 7.1)."""

    def __init__(self, error: str, detail: str, nonce: str) -> None:
        challenge = f'DPoP realm="{REALM}", error="{error}", algs="{ALGORITHM}"'
        super().__init__("unauthenticated", detail, headers={"WWW-Authenticate": challenge, "DPoP-Nonce": nonce})


def _details(principal: Principal) -> object:
    """What the token is bound to (RFC 9396), as its verified text has it; None: to nothing."""
    return parse(principal.token).claims.get("authorization_details")


async def _require_bound(request: web.Request, details: object) -> None:
    """Refuse a request that is not, byte for byte, the one that the token was made for."""
    body = await read_bytes(request, max_bytes=MAX_BODY_BYTES)
    submission = _object(body)
    expected = {
        "type": DETAILS_TYPE,
        "submission_id": submission.get("id"),
        "task_id": submission.get("taskId"),
        "payload_sha256": hashlib.sha256(body).hexdigest(),
    }
    if details != [expected]:
        raise _forbidden("This token is for another submission.")


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        value = loads(body)
    except NotStrictJson:
        return {}
    return value if isinstance(value, dict) else {}


def _forbidden(detail: str) -> Refusal:
    challenge = {"WWW-Authenticate": f'Bearer realm="{REALM}", error="insufficient_scope"'}
    return Refusal("insufficient_scope", detail, headers=challenge)
