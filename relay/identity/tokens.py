"""Bearer tokens: JWTs in the RFC 9068 profile, verified from nothing but what is configured."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from joserfc import jws
from joserfc.jws import JWSRegistry
from typing_extensions import override

from relay.clock import Clock
from relay.errors import ConfigError
from relay.identity import claims
from relay.identity.compact import MAX_TOKEN_BYTES, Unverified, media_type, parse
from relay.identity.jwks import VerificationKey
from relay.identity.keys import KeySets
from relay.identity.model import ALGORITHMS, IssuerPolicy, Principal
from relay.identity.recents import Recents
from relay.identity.refusals import Defect, TokenDefect, ambiguous_authentication, unauthenticated

CACHED_TOKENS: Final = 8192

_log = structlog.stdlib.get_logger("relay.identity")


@dataclass(frozen=True, slots=True)
class _Verified:
    """A token that was good, with the key it was verified by: it is good for as long as that key is published."""

    principal: Principal = field(repr=False)
    kid: str
    algorithm: str
    key: VerificationKey


def _ignore(_defect: Defect) -> None:
    """Nobody counts."""


class Verifier:
    """Turns Authorization headers into principals. ``observe`` is told why a token was refused."""

    def __init__(
        self,
        issuers: Sequence[IssuerPolicy],
        keys: KeySets,
        clock: Clock,
        observe: Callable[[Defect], None] = _ignore,
    ) -> None:
        for policy in issuers:
            _check_policy(policy)
        self._policies: Mapping[str, IssuerPolicy] = {policy.issuer: policy for policy in issuers}
        self._types = {p.issuer: frozenset(media_type(t) for t in p.token_types) for p in issuers}
        self._keys = keys
        self._clock = clock
        self._observe = observe
        self._verified: Recents[bytes, _Verified] = Recents(CACHED_TOKENS)

    async def verify(self, authorization_header_values: Sequence[str]) -> Principal:
        """The caller whom the request's Authorization headers name.

        Raises `Refusal`: ``unauthenticated`` with one text for every defect, ``malformed_request`` for two headers,
        ``keys_unavailable`` if the issuer's keys cannot be had.
        """
        if len(authorization_header_values) > 1:
            raise ambiguous_authentication("Send one Authorization header, not several.")
        token = _bearer(authorization_header_values)
        try:
            if token is None:
                raise TokenDefect("no_token")  # noqa: TRY301 - counted like the others
            return await self._principal(token)
        except TokenDefect as defect:
            reason = defect.reason
        _log.info("token_refused", reason=reason)
        self._observe(reason)
        raise unauthenticated(token_sent=token is not None)

    async def _principal(self, token: str) -> Principal:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._verified.get(digest)
        if known is not None:
            if await self._still_stands(known):
                return known.principal
            self._verified.drop(digest)
        verified = await self._verify(parse(token))
        self._verified.put(digest, verified)
        return verified.principal

    async def _still_stands(self, known: _Verified) -> bool:
        if self._clock.unix() >= known.principal.expires_at:
            return False
        issuer = known.principal.issuer
        key = self._keys.at_hand(issuer, known.kid, known.algorithm)
        return (key or await self._keys.find(issuer, known.kid, known.algorithm)) == known.key

    async def _verify(self, unverified: Unverified) -> _Verified:
        issuer = unverified.claims.get("iss")
        # The issuer is fixed before anything is looked up by what the token says.
        policy = self._policies.get(issuer) if isinstance(issuer, str) else None
        if policy is None:
            raise TokenDefect("unknown_issuer")
        if unverified.type not in self._types[policy.issuer]:
            raise TokenDefect("wrong_type")
        if unverified.algorithm not in policy.algorithms:
            raise TokenDefect("algorithm_not_allowed")
        key = await self._key(policy.issuer, unverified)
        _check_signature(unverified, key)
        principal = claims.principal(unverified.claims, policy, unverified.token, self._clock.unix())
        return _Verified(principal, unverified.kid, unverified.algorithm, key)

    async def _key(self, issuer: str, unverified: Unverified) -> VerificationKey:
        key = await self._keys.find(issuer, unverified.kid, unverified.algorithm)
        if key is None:
            raise TokenDefect("unknown_key")
        if key.algorithm not in (None, unverified.algorithm):
            raise TokenDefect("key_not_for_algorithm")
        return key


class _OneAlgorithm(JWSRegistry):
    """joserfc's rules for one algorithm, which is on the issuer's list.

    Unknown header members are ignored, as RFC 7515 section 4 says; the dangerous ones are refused before. The
    sizes are bounded as a whole. ``EdDSA`` would warn at each use.
    """

    max_header_length = max_payload_length = max_signature_length = MAX_TOKEN_BYTES

    def __init__(self, algorithm: str) -> None:
        super().__init__(algorithms=(algorithm,), strict_check_header=False)
        self._only = algorithm

    @override
    def get_alg(self, name: str) -> Any:
        if name != self._only:
            raise TokenDefect("algorithm_not_allowed")
        return self.algorithms[name]


_RULES: Final = {algorithm: _OneAlgorithm(algorithm) for algorithm in ALGORITHMS}


def _check_signature(unverified: Unverified, key: VerificationKey) -> None:
    try:
        jws.deserialize_compact(unverified.token, key.key, registry=_RULES[unverified.algorithm])
    except Exception:  # noqa: BLE001 - odd headers make joserfc raise more than its own errors, a raw TypeError too
        raise TokenDefect("bad_signature") from None


def _bearer(values: Collection[str]) -> str | None:
    """The token of a Bearer header (RFC 6750 section 2.1; the scheme's case does not matter); None: there is none."""
    for value in values:
        scheme, _, token = value.partition(" ")
        if scheme.lower() == "bearer":
            return token.lstrip(" ") or None
    return None


def _check_policy(policy: IssuerPolicy) -> None:
    for algorithm in policy.algorithms:
        if algorithm not in ALGORITHMS:
            raise ConfigError(
                f"[[identity.issuers]] {policy.issuer}: algorithms names {algorithm}, which is not one of "
                f"{', '.join(ALGORITHMS)}"
            )
