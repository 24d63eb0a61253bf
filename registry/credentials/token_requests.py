"""Asking token endpoints for tokens, as the clients that are registered there."""

from collections.abc import Callable
from dataclasses import dataclass

from registry.credentials.assertions import SigningKey, client_assertion, signing_key
from registry.credentials.client_certificates import ClientCertificates
from registry.credentials.failures import CredentialFailure
from registry.credentials.proofs import Prover, made_up_key, proof_key
from registry.credentials.secret_files import SecretFiles, SecretUnusable
from registry.credentials.token_endpoint import MAX_ANSWER_BYTES, Form, read_answer, request_body
from registry.credentials.tokens import AccessToken
from registry.egress import ClientIdentity, Egress, EgressFailure, Exchange
from registry.model import CertifiedCredential, GrantedCredential

_FORM_HEADERS = {"content-type": "application/x-www-form-urlencoded"}
_LASTING = frozenset({"address_refused", "request_refused", "url_refused"})
"""Failures of the egress that stay until an operator changes the configuration."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A grant to ask for. ``form`` makes its parameters, anew for each request: an assertion is good once.

    ``issued_type`` is what an exchange has to bring (RFC 8693 section 2.2.1).
    """

    form: Callable[[SigningKey], Form]
    issued_type: str | None = None


class TokenRequests:
    """Requests tokens. Keeps the keys that they need, and no token."""

    def __init__(self, egress: Egress, now: Callable[[], float]) -> None:
        self._egress = egress
        self._now = now
        self._keys = SecretFiles(signing_key)
        self._proof_keys = SecretFiles(proof_key)
        self._provers: dict[GrantedCredential, Prover] = {}
        self._certificates = ClientCertificates(egress.client_identity)

    async def token(self, credential: GrantedCredential, wish: Wish, deadline: float) -> AccessToken:
        """A new token; raises CredentialFailure. ``deadline`` bounds each exchange, in seconds."""
        key = await self._key(credential)
        prover = await self._prover(credential)
        identity = await self.identity(credential)
        asked_at = self._now()

        async def send(proof: str | None = None) -> Exchange:
            body = self._body(credential, key, wish)
            headers = _FORM_HEADERS if proof is None else {**_FORM_HEADERS, "DPoP": proof}
            return await self._egress.exchange(
                "POST",
                credential.token_endpoint,
                headers=headers,
                body=body,
                deadline=deadline,
                max_answer_bytes=MAX_ANSWER_BYTES,
                client_identity=identity,
            )

        try:
            answer = await (prover.exchange("POST", credential.token_endpoint, send) if prover else send())
        except EgressFailure as failure:
            raise unreachable(failure.kind) from None
        return read_answer(answer, asked_at=asked_at, prover=prover, issued_type=wish.issued_type)

    async def identity(self, credential: CertifiedCredential) -> ClientIdentity | None:
        """The certificate that goes with the credential; None: it needs none. Raises CredentialFailure."""
        try:
            return await self._certificates.of(credential)
        except SecretUnusable as error:
            raise CredentialFailure("client_certificate_unusable", temporary=False, hint=str(error)) from None

    def _body(self, credential: GrantedCredential, key: SigningKey, wish: Wish) -> bytes:
        proof = client_assertion(key, client_id=credential.client_id, issuer=credential.issuer, now=self._now())
        return request_body(
            wish.form(key), resource=credential.resource, scope=credential.scope, client_assertion=proof
        )

    async def _key(self, credential: GrantedCredential) -> SigningKey:
        return await _usable(self._keys, credential.key_file)

    async def _prover(self, credential: GrantedCredential) -> Prover | None:
        """The prover of this credential, as long as its key stays the same."""
        if not credential.dpop:
            return None
        prover = self._provers.get(credential)
        if credential.dpop_key_file is None:
            key = made_up_key() if prover is None else prover.key
        else:
            key = await _usable(self._proof_keys, credential.dpop_key_file)
            prover = self._provers.get(credential)
        if prover is None or prover.key is not key:
            prover = self._provers[credential] = Prover(key, self._now)
        return prover


async def _usable(keys: SecretFiles[SigningKey], path: str) -> SigningKey:
    try:
        return await keys.get(path)
    except SecretUnusable as error:
        raise CredentialFailure("key_unreadable", temporary=False, hint=str(error)) from None


def unreachable(kind: str) -> CredentialFailure:
    """The egress got no answer from a token endpoint."""
    return CredentialFailure("token_endpoint_unreachable", temporary=kind not in _LASTING, cause=kind)
