"""What the console says to the token endpoint of an issuer, and which endpoints it goes to."""

import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from joserfc.jwk import ECKey

from registry.egress import Egress, EgressPolicy
from relay.web.console.sign_in.model import Registration, SignInFailed
from relay.web.console.sign_in.provider import Providers
from tests.conftest import TurnableClock
from tests.support.issuer import TestIssuer
from tests.support.token_endpoint import TokenEndpoint

Make = Callable[..., Providers]


@pytest.fixture
async def issuer(clock: TurnableClock) -> AsyncIterator[TestIssuer]:
    async with TestIssuer(now=clock.unix) as issuer:
        issuer.metadata = {
            "authorization_endpoint": f"{issuer.url}/authorize",
            "token_endpoint": f"{issuer.url}/token",
        }
        yield issuer


@pytest.fixture
async def endpoint() -> AsyncIterator[TokenEndpoint]:
    async with TokenEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def make(issuer: TestIssuer, endpoint: TokenEndpoint, clock: TurnableClock) -> AsyncIterator[Make]:
    async with Egress(EgressPolicy(development=True)) as egress:
        registration = Registration(
            issuer=issuer.url,
            client_id="relay console",
            redirect_uri="https://relay.example.org/console/callback",
            scope="openid",
            token_endpoint=endpoint.url,
        )
        yield lambda **changes: Providers(replace(registration, **changes), egress, clock)


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text("s3cr:t+/\n")
    path.chmod(0o600)
    return str(path)


async def refused(providers: Providers) -> tuple[str, int]:
    with pytest.raises(SignInFailed) as caught:
        await providers.redeem("c-1", "v-1")
    assert "quoted-secret" not in caught.value.advice
    return caught.value.reason, caught.value.status


async def test_public_client(make: Make, endpoint: TokenEndpoint) -> None:
    """Without a secret the client names itself, and the verifier is what it has."""
    endpoint.members = {"refresh_token": "r-1", "id_token": "i-1"}
    tokens = await make(resource="https://relay.example.org").redeem("c-1", "v-1")
    assert (tokens.refresh, tokens.identity) == ("r-1", "i-1")
    assert endpoint.forms == [
        {
            "grant_type": "authorization_code",
            "code": "c-1",
            "redirect_uri": "https://relay.example.org/console/callback",
            "code_verifier": "v-1",
            "resource": "https://relay.example.org",
            "client_id": "relay console",
        }
    ]
    assert "Authorization" not in endpoint.headers[0]


async def test_secret(make: Make, endpoint: TokenEndpoint, issuer: TestIssuer, secret_file: str) -> None:
    """A secret goes into the header, encoded as in RFC 6749, or into the form where the issuer knows nothing else."""
    await make(secret_file=secret_file).redeem("c-1", "v-1")
    scheme, _, value = endpoint.headers[0]["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(value)) == ("Basic", b"relay%20console:s3cr%3At%2B%2F")
    assert "client_secret" not in endpoint.forms[0]

    issuer.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    await make(secret_file=secret_file).redeem("c-1", "v-1")
    assert "Authorization" not in endpoint.headers[1]
    assert endpoint.forms[1]["client_secret"] == "s3cr:t+/"


async def test_key(make: Make, endpoint: TokenEndpoint, issuer: TestIssuer, tmp_path: Path) -> None:
    """A key signs that it is this client, for this issuer."""
    key = ECKey.generate_key("P-256")
    (tmp_path / "key.pem").write_bytes(key.as_pem(private=True))
    (tmp_path / "key.pem").chmod(0o600)
    await make(key_file=str(tmp_path / "key.pem")).refresh("r-1")
    claims = endpoint.assertion("client_assertion", key).claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("relay console", "relay console", issuer.url)
    assert endpoint.forms[0]["grant_type"] == "refresh_token"


async def test_a_refresh_token_that_stays(make: Make, endpoint: TokenEndpoint) -> None:
    """Where the issuer gives no new refresh token, the old one goes on; where it does, the new one."""
    assert (await make().refresh("r-1")).refresh == "r-1"
    endpoint.members = {"refresh_token": "r-2"}
    assert (await make().refresh("r-1")).refresh == "r-2"


async def test_refusals(make: Make, endpoint: TokenEndpoint, tmp_path: Path) -> None:
    """Errors are known by their codes; nothing else of what the issuer says is logged or shown."""
    endpoint.refuse("invalid_grant")
    assert await refused(make()) == ("invalid_grant", 400)
    endpoint.refuse("quoted-secret")
    assert await refused(make()) == ("unknown_error", 400)
    for body in (b"[]", b"<html>", b'{"access_token":"a","access_token":"b"}', b"{" + b" " * 70_000 + b"}"):
        endpoint.answer = (200, body)
        assert await refused(make()) == ("token_answer_no_json_200", 502)
    for body in (b"{}", b'{"access_token":"a","token_type":"DPoP"}', b'{"access_token":"a b","token_type":"Bearer"}'):
        endpoint.answer = (200, body)
        assert await refused(make()) == ("malformed_token_answer", 502)
    assert await refused(make(secret_file=str(tmp_path / "none"))) == ("secret_unusable", 500)


async def test_endpoints(make: Make, issuer: TestIssuer, endpoint: TokenEndpoint) -> None:
    """The issuer's metadata may name endpoints at the issuer's own origin; others a person has to configure."""
    assert (await make(token_endpoint=None).provider()).token_endpoint == f"{issuer.url}/token"
    issuer.metadata["token_endpoint"] = endpoint.url
    assert await refused(make(token_endpoint=None)) == ("token_endpoint_at_another_origin", 503)
    issuer.metadata["code_challenge_methods_supported"] = ["plain"]
    assert await refused(make()) == ("no_pkce_with_s256", 503)
    issuer.metadata["issuer"] = "https://evil.example"
    assert await refused(make()) == ("metadata_of_another_issuer", 503)
    assert endpoint.forms == []


async def test_an_issuer_that_is_away(make: Make, issuer: TestIssuer, clock: TurnableClock) -> None:
    """Without metadata nobody signs in; what was found is used for a while, and then looked up again."""
    providers = make()
    await providers.provider()
    issuer.fail()
    clock.turn(600)
    await providers.provider()
    clock.turn(1)
    assert await refused(providers) == ("status_503", 503)
    issuer.recover()
    clock.turn(4)
    assert await refused(providers) == ("status_503", 503)  # not asked again yet
    clock.turn(1)
    await providers.redeem("c-1", "v-1")
