"""An ID token says who signed in only if it is this issuer's, for this console and for this sign-in."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from joserfc.util import urlsafe_b64encode

from registry.egress import Egress, EgressPolicy
from relay.identity.keys import KeySets
from relay.identity.model import IssuerPolicy
from relay.web.console.sign_in.identities import Identities
from relay.web.console.sign_in.model import SignInFailed, Tokens
from tests.conftest import TurnableClock
from tests.support.issuer import AUDIENCE, TestIssuer

NONCE = "n-1"
ACCESS = "an-access-token"


class Signed:
    """ID tokens as they should be, and as a test wants them instead."""

    def __init__(self, issuer: TestIssuer, identities: Identities) -> None:
        self.issuer = issuer
        self.identities = identities

    def token(self, header: dict[str, Any] | None = None, **changes: Any) -> str:
        own = {"sub": "olga", "aud": "console", "nonce": NONCE, "name": " Olga "}
        claims = self.issuer.claims(**{**own, **changes})
        return self.issuer.sign(self.issuer.header(**{"typ": "JWT", **(header or {})}), claims)

    async def name(self, token: str | None) -> str:
        return (await self.identities.of(Tokens(access=ACCESS, identity=token), nonce=NONCE)).name

    async def refused(self, token: str | None) -> str:
        with pytest.raises(SignInFailed) as caught:
            await self.name(token)
        return caught.value.reason


@pytest.fixture
async def signed(clock: TurnableClock) -> AsyncIterator[Signed]:
    async with TestIssuer(now=clock.unix) as issuer, Egress(EgressPolicy(development=True)) as egress:
        algorithms = ("ES256", "RS256")
        policy = IssuerPolicy(issuer=issuer.url, audience=AUDIENCE, algorithms=algorithms, jwks_uri=issuer.jwks_uri)
        keys = KeySets([policy], egress, clock)
        yield Signed(
            issuer,
            Identities(issuer=issuer.url, client_id="console", algorithms=algorithms, keys=keys, clock=clock),
        )
        await keys.close()


def half_of(token: str) -> str:
    """``at_hash`` of an access token (OpenID Connect Core 1.0 section 3.1.3.6)."""
    return urlsafe_b64encode(hashlib.sha256(token.encode()).digest()[:16]).decode()


async def test_who_it_is(signed: Signed) -> None:
    """A name for the eyes, whether or not the token has a type, several audiences, or a hash of the access token."""
    assert await signed.name(signed.token()) == "Olga"
    assert await signed.name(signed.token({"typ": None})) == "Olga"
    assert await signed.name(signed.token(at_hash=half_of(ACCESS))) == "Olga"
    assert await signed.name(signed.token(aud=["console", "another"], azp="console")) == "Olga"
    assert await signed.name(signed.token(name=None, preferred_username="olga.o")) == "olga.o"


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "n-2"},
        {"nonce": None},
        {"nonce": ""},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "workbench"},
        {"aud": []},
        {"aud": None},
        {"aud": ["console", "another"], "azp": "another"},
        {"sub": None},
        {"sub": 7},
        {"exp": 1_800_000_000},
        {"exp": None},
        {"exp": "soon"},
        {"iat": None},
        {"iat": 1_800_000_061},
        {"at_hash": half_of("another")},
    ],
    ids=str,
)
async def test_claims_of_another(signed: Signed, changes: dict[str, Any]) -> None:
    """Another sign-in, issuer, client or access token, nobody, too late or too early: nobody signed in."""
    assert await signed.refused(signed.token(**changes)) == "id_token_claims"


async def test_signatures(signed: Signed) -> None:
    """No signature, another key's, an algorithm that is not allowed, keys in the header, or no token at all."""
    good = signed.token()
    head, _, tail = good.rpartition(".")
    unsigned = head + "." + "A" * len(tail)
    assert await signed.refused(unsigned) == "id_token_signature"
    assert await signed.refused(signed.token({"alg": "none"})) == "id_token_header"
    assert await signed.refused(signed.token({"alg": "HS256"})) == "id_token_header"
    assert await signed.refused(signed.token({"jwk": {"kty": "EC"}})) == "id_token_header"
    assert await signed.refused(signed.token({"kid": "unknown"})) == "id_token_key"
    assert await signed.refused(signed.token({"kid": None})) == "id_token_malformed"
    assert await signed.refused(signed.issuer.sign(signed.issuer.header(typ="JWT"), [])) == "id_token_malformed"
    assert await signed.refused("x" * 9000) == "id_token_too_long"
    for odd in (None, "", "a.b", "..", "\ud800"):
        assert await signed.refused(odd) == "id_token_malformed"
