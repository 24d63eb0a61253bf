"""What the demonstration's servers demand of proofs of possession (RFC 9449 section 4.3)."""

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from joserfc import jws
from joserfc.jwk import ECKey

from registry.strict_json import loads
from relay.clock import Clock

ALGORITHM = "ES256"
NONCE_SECONDS = 60
"""How long a nonce is given out; it is taken for as long again."""

_JWK_MEMBERS = frozenset({"kty", "crv", "x", "y"})
_LONGEST_JTI = 256

Code = Literal["invalid_dpop_proof", "use_dpop_nonce"]


class ProofRefused(Exception):  # noqa: N818 - reads as what it says
    """A proof does not hold. The message says which demand it misses and quotes nothing of it."""

    def __init__(self, message: str, code: Code = "invalid_dpop_proof") -> None:
        super().__init__(message)
        self.code: Code = code


class Proofs:
    """Checks proofs: each is good once, for a short while, and with a nonce that this process gave out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._secret = os.urandom(32)
        self._used: dict[tuple[str, str], float] = {}

    @property
    def nonce(self) -> str:
        """The nonce to put into the next proof."""
        return self._nonce_of(self._period())

    def check(self, proofs: Sequence[str], *, method: str, url: str, access_token: str | None = None) -> str:
        """The thumbprint of the key that made the one proof for this request; raises ProofRefused."""
        if len(proofs) != 1:
            raise ProofRefused("send one proof")
        key, claims = _verified(proofs[0])
        if claims.get("htm") != method or claims.get("htu") != url:
            raise ProofRefused("htm and htu have to be those of this request")
        if access_token is not None and claims.get("ath") != _digest(access_token):
            raise ProofRefused("ath is of another access token")
        jti, issued_at = claims.get("jti"), claims.get("iat")
        if not isinstance(jti, str) or not 0 < len(jti) <= _LONGEST_JTI:
            raise ProofRefused("jti has to be a text")
        if type(issued_at) is not int or abs(self._clock.unix() - issued_at) > NONCE_SECONDS:
            raise ProofRefused("iat has to be now, in whole seconds")
        self._check_nonce(claims.get("nonce"))
        thumbprint = key.thumbprint()
        self._use(thumbprint, jti)
        return thumbprint

    def _check_nonce(self, nonce: object) -> None:
        period = self._period()
        if nonce not in (self._nonce_of(period), self._nonce_of(period - 1)):
            raise ProofRefused("the proof has to carry the nonce that comes with this answer", "use_dpop_nonce")

    def _use(self, thumbprint: str, jti: str) -> None:
        now = self._clock.unix()
        # No nonce is taken for longer, so that nothing older can come back.
        self._used = {proof: at for proof, at in self._used.items() if now - at <= 2 * NONCE_SECONDS}
        if (thumbprint, jti) in self._used:
            raise ProofRefused("the proof was used before")
        self._used[thumbprint, jti] = now

    def _period(self) -> int:
        return int(self._clock.unix()) // NONCE_SECONDS

    def _nonce_of(self, period: int) -> str:
        return base64.urlsafe_b64encode(hmac.digest(self._secret, str(period).encode(), "sha256")[:18]).decode("ascii")


def _verified(proof: str) -> tuple[ECKey, Mapping[str, Any]]:
    try:
        key = _public_key(jws.extract_compact(proof.encode()).headers())
        claims = loads(jws.deserialize_compact(proof, key, [ALGORITHM]).payload or b"")
    except Exception:  # noqa: BLE001 - odd headers raise TypeError, keys their own kinds
        raise ProofRefused("the header has to hold typ, alg and the public key that the proof is signed with") from None
    if not isinstance(claims, dict):
        raise ProofRefused("the claims are not an object")
    return key, claims


def _public_key(header: Mapping[str, Any]) -> ECKey:
    jwk = header.get("jwk")
    if not isinstance(jwk, dict) or jwk.keys() != _JWK_MEMBERS:
        raise ValueError("no public key of an elliptic curve, or more than that")
    if header != {"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": jwk}:
        raise ValueError("no proof, or more than that")
    return ECKey.import_key(jwk)


def _digest(access_token: str) -> str:
    digest = hashlib.sha256(access_token.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
