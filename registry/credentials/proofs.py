"""Demonstrating proof of possession (RFC 9449): tokens that are of no use to whoever else gets hold of them."""

import base64
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable

from joserfc import jwt
from joserfc.jwk import ECKey
from yarl import URL

from registry.credentials.assertions import SigningKey, signing_key
from registry.credentials.oauth_errors import error_code
from registry.egress import Exchange

_NONCE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,512}")
"""RFC 9449 section 8.1, with a bound."""

_ASKS_FOR_NONCE = "use_dpop_nonce"
_BAD_REQUEST, _UNAUTHORIZED = 400, 401


def proof_key(pem: bytes) -> SigningKey:
    """The key in a PEM file, for proofs; ValueError for anything but EC P-256."""
    key = signing_key(pem)
    if key.algorithm != "ES256":
        raise ValueError("holds no EC P-256 key, which proofs are signed with")
    return key


def made_up_key() -> SigningKey:
    """A new key, which nobody else will ever have."""
    key = ECKey.generate_key("P-256")
    return SigningKey(key, "ES256", key.thumbprint())


class Prover:
    """Makes proofs with one key, and remembers which nonce each server wants in them."""

    def __init__(self, key: SigningKey, now: Callable[[], float]) -> None:
        self.key = key
        self._now = now
        self._nonces: dict[str, str] = {}
        """By origin. There are two of them for a credential: its token endpoint's, and its specialist's."""

    async def exchange(
        self, method: str, url: str, send: Callable[[str], Awaitable[Exchange]], *, access_token: str | None = None
    ) -> Exchange:
        """What ``send`` brings when it is given a proof; it is given another where the answer asks for a nonce.

        A server that only says which nonce it wants has not looked at the request (sections 8 and 9), so that it may be
        sent again. Once: a nonce that is refused again is not the trouble.
        """
        origin, nonce = _origin(url), self._nonces.get(_origin(url))
        answer = await send(self._proof(method, url, nonce, access_token))
        wanted = self._heed(origin, answer)
        if wanted is None or wanted == nonce or not asks_for_nonce(answer):
            return answer
        answer = await send(self._proof(method, url, wanted, access_token))
        self._heed(origin, answer)
        return answer

    def _heed(self, origin: str, answer: Exchange) -> str | None:
        """The nonce that an answer brings, of whatever status (section 8.2). It replaces the one before."""
        nonce = answer.headers.get("dpop-nonce", "")
        if _NONCE.fullmatch(nonce) is None:
            return None
        self._nonces[origin] = nonce
        return nonce

    def _proof(self, method: str, url: str, nonce: str | None, access_token: str | None) -> str:
        claims = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": url.partition("?")[0],
            "iat": int(self._now()),
        }
        if nonce is not None:
            claims["nonce"] = nonce
        if access_token is not None:
            claims["ath"] = _digest(access_token)
        header = {"typ": "dpop+jwt", "alg": self.key.algorithm, "jwk": self.key.key.as_dict(private=False)}
        return jwt.encode(header, claims, self.key.key, algorithms=[self.key.algorithm])


def asks_for_nonce(answer: Exchange) -> bool:
    """Whether a server wants the same request again, with the nonce that came with its answer."""
    if answer.status not in {_BAD_REQUEST, _UNAUTHORIZED}:
        return False
    error = error_code(answer)
    if error is not None:
        return error == _ASKS_FOR_NONCE
    challenge = answer.headers.get("www-authenticate", "")
    # Where there are several challenges the egress shows the first, which may be another scheme's: one without an error
    # does not say that the nonce is not the trouble.
    return answer.status == _UNAUTHORIZED and (_ASKS_FOR_NONCE in challenge or "error=" not in challenge)


def _origin(url: str) -> str:
    return str(URL(url, encoded=True).origin())


def _digest(access_token: str) -> str:
    """``ath`` (section 4.2): a proof goes with one token."""
    digest = hashlib.sha256(access_token.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
