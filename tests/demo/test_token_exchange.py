"""The demonstration's issuer exchanges a live token of its own for one at a specialist, and nothing else (RFC 8693)."""

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey

from registry.credentials import Authorizations, CredentialFailure, Purpose
from registry.egress import Egress
from registry.model import TokenExchange
from relay.demo.issuer import Issuer
from tests.conftest import TurnableClock
from tests.support.demo import (
    ACCESS_TOKEN_TYPE,
    DETAILS,
    LEFT_OUT,
    NOW,
    RELAY,
    SPECIALIST,
    SUBMISSION,
    Client,
    post_json,
    read,
    verified,
    without,
)
from tests.support.issuer import compact

REFUSED = (400, "invalid_request")
PURPOSE = Purpose(SUBMISSION, "task-1", "ab" * 32)

Forge = Callable[..., str]


@pytest.fixture
def forge(issuer: Issuer, issuer_state: Path) -> Forge:
    """Signs, with the issuer's own key, a live token of alice's that is changed as a test wants it."""
    key = ECKey.import_key((issuer_state / "issuer.pem").read_bytes())

    def forge(*, header: dict[str, Any] | None = None, signed_by: ECKey = key, **claims: Any) -> str:
        head = without({"alg": "ES256", "typ": "at+jwt", "kid": key.thumbprint(), **(header or {})})
        own = {
            "iss": issuer.url,
            "aud": RELAY,
            "sub": "alice",
            "client_id": "workbench",
            "scope": "feedback:write feedback:read",
            "tenant": "demo",
            "jti": secrets.token_urlsafe(8),
            "iat": NOW,
            "exp": NOW + 300,
            "may_act": {"sub": RELAY},
        }
        body = json.dumps(without({**own, **claims})).encode()
        return compact(json.dumps(head).encode(), body, signed_by, "ES256")

    return forge


@pytest.fixture
def credential(issuer: Issuer, issuer_state: Path) -> TokenExchange:
    return TokenExchange(
        issuer=issuer.url,
        client_id="workbench",
        token_endpoint=f"{issuer.url}/token",
        key_file=str(issuer_state / "workbench.pem"),
        resource=SPECIALIST,
        scope="feedback:write",
    )


class TestGrant:
    async def test_token(self, issuer: Issuer, client: Client, egress: Egress) -> None:
        """The token is the same person's and client's, at the specialist alone, and says that the relay acts."""
        answer = read(await client.ask(client.exchange_form(await client.live_token())))

        claims = (await verified(issuer, egress, answer.pop("access_token"))).claims
        assert answer == {
            "token_type": "Bearer",
            "issued_token_type": ACCESS_TOKEN_TYPE,
            "expires_in": 300,
            "scope": "feedback:write",
        }
        assert claims.pop("jti")
        assert claims == {
            "iss": issuer.url,
            "aud": SPECIALIST,
            "sub": "alice",
            "client_id": "workbench",
            "scope": "feedback:write",
            "tenant": "demo",
            "act": {"sub": RELAY},
            "iat": NOW,
            "exp": NOW + 300,
        }

    async def test_relays_own_credentials(
        self, issuer: Issuer, client: Client, authorizations: Authorizations, credential: TokenExchange, egress: Egress
    ) -> None:
        """What the relay's own code asks for is granted, once for as long as it lasts."""
        tokens = []
        for _ in range(2):
            live = await client.live_token()
            access = await authorizations.access_for(
                credential, subject=None, purpose=PURPOSE, deadline=10, subject_token=live, owner=1
            )
            tokens.append(access.token.value)
        assert tokens[0] == tokens[1]
        assert (await verified(issuer, egress, tokens[0])).claims["sub"] == "alice"

    async def test_revoked_while_here(
        self, issuer: Issuer, client: Client, authorizations: Authorizations, credential: TokenExchange, egress: Egress
    ) -> None:
        """A person whose access was revoked is not acted for, whatever token they still have; restored, they are."""
        live = await client.live_token()
        await post_json(egress, f"{issuer.url}/demo/revoke", {"user": "alice"})
        assert await client.error(client.exchange_form(live)) == REFUSED

        with pytest.raises(CredentialFailure) as caught:
            await authorizations.access_for(
                credential, subject=None, purpose=PURPOSE, deadline=10, subject_token=live, owner=1
            )
        assert (caught.value.reason, caught.value.needs_owner) == ("subject_token_refused:invalid_request", True)

        await post_json(egress, f"{issuer.url}/demo/restore", {"user": "alice"})
        assert (await client.ask(client.exchange_form(live))).status == 200

    async def test_never_longer(self, client: Client, clock: TurnableClock) -> None:
        """What is exchanged ends no later than what it was exchanged for."""
        live = await client.live_token(expires_in=100)
        assert read(await client.ask(client.exchange_form(live)))["expires_in"] == 100
        clock.turn(40)
        later = client.assertions.of_client(iat=NOW + 40, exp=NOW + 100)
        assert read(await client.ask(client.exchange_form(live, client_assertion=later)))["expires_in"] == 60

    async def test_never_more(self, client: Client) -> None:
        """A token that may only read is not exchanged for one that may write, nor a person's for an operator's."""
        reading = await client.live_token(scope="feedback:read")
        assert await client.error(client.exchange_form(reading)) == (400, "invalid_scope")
        assert read(await client.ask(client.exchange_form(reading, scope=LEFT_OUT)))["scope"] == "feedback:read"
        whole = await client.live_token()
        assert await client.error(client.exchange_form(whole, scope="operator:write")) == (400, "invalid_scope")

    async def test_other_resource(self, client: Client) -> None:
        """Tokens are given out for known resources only, whoever is there."""
        form = client.exchange_form(await client.live_token(), resource="https://evil.example")
        assert await client.error(form) == (400, "invalid_target")


class TestSubjectTokens:
    async def test_forged_as_it_should_be(self, client: Client, forge: Forge) -> None:
        """What the forgeries below change is the reason that they are refused."""
        assert (await client.ask(client.exchange_form(forge()))).status == 200

    @pytest.mark.parametrize(
        "change",
        [
            {"aud": SPECIALIST},
            {"aud": "https://relay.example.org"},
            {"aud": [RELAY]},
            {"aud": LEFT_OUT},
            {"client_id": "another"},
            {"client_id": LEFT_OUT},
            {"may_act": LEFT_OUT},
            {"may_act": {"sub": "https://relay.example.org"}},
            {"may_act": {"sub": RELAY, "iss": "x"}},
            {"may_act": RELAY},
            {"exp": NOW},
            {"exp": NOW - 1},
            {"exp": float(NOW + 300)},
            {"exp": LEFT_OUT},
            {"iss": "https://login.example.org"},
            {"sub": "mallory"},
            {"sub": "workbench"},
            {"header": {"typ": "JWT"}},
            {"header": {"typ": LEFT_OUT}},
            {"header": {"kid": "another"}},
            {"header": {"jku": "https://evil.example/jwks"}},
            {"header": {"alg": "none"}},
            {"signed_by": ECKey.generate_key("P-256")},
        ],
    )
    async def test_refused(self, client: Client, forge: Forge, change: dict[str, Any]) -> None:
        """Another audience, client, issuer or key, nobody who may act, an end that has come: none is exchanged."""
        assert await client.error(client.exchange_form(forge(**change))) == REFUSED

    @pytest.mark.parametrize("token", [LEFT_OUT, "a.b.c", "...."])
    async def test_no_token(self, client: Client, token: Any) -> None:
        """What is no token is refused like a bad one."""
        assert await client.error(client.exchange_form(token)) == REFUSED

    async def test_expired(self, client: Client, clock: TurnableClock) -> None:
        """A live token is live until its end and not a second longer."""
        live = await client.live_token(expires_in=30)
        clock.turn(30)
        proof = client.assertions.of_client(iat=NOW + 30, exp=NOW + 90)
        assert await client.error(client.exchange_form(live, client_assertion=proof)) == REFUSED

    async def test_changed_body(self, client: Client) -> None:
        """A token whose claims were changed after it was signed is nobody's."""
        header, _, signature = (await client.live_token()).split(".")
        _, payload, _ = (await client.live_token("operator")).split(".")
        assert await client.error(client.exchange_form(f"{header}.{payload}.{signature}")) == REFUSED

    async def test_of_other_places(self, client: Client) -> None:
        """A token for a specialist is not exchanged, whether given to a person, asserted, or itself exchanged."""
        live = await client.live_token()
        exchanged = read(await client.ask(client.exchange_form(live)))["access_token"]
        asserted = read(await client.ask(client.owner_form()))["access_token"]
        asserted_here = read(await client.ask(client.owner_form(resource=RELAY)))
        assert asserted_here["authorization_details"] == [DETAILS]
        for token in (
            await client.live_token(resource=SPECIALIST),
            exchanged,
            asserted,
            asserted_here["access_token"],
            client.assertions.of_owner(),
            client.assertions.of_client(),
        ):
            assert await client.error(client.exchange_form(token)) == REFUSED

    async def test_of_a_machine(self, client: Client) -> None:
        """The machine client is nobody who could be present; it has a grant of its own."""
        assert await client.error(client.exchange_form(await client.live_token("workbench"))) == REFUSED


class TestRequests:
    @pytest.mark.parametrize(
        "change",
        [
            {"subject_token_type": LEFT_OUT},
            {"subject_token_type": "urn:ietf:params:oauth:token-type:jwt"},
            {"requested_token_type": "urn:ietf:params:oauth:token-type:refresh_token"},
            {"actor_token": "x"},
            {"actor_token_type": ACCESS_TOKEN_TYPE},
            {"audience": "literature"},
        ],
        ids=str,
    )
    async def test_other_kinds(self, client: Client, change: dict[str, Any]) -> None:
        """Access tokens for access tokens, by the client that acts, for a resource: nothing else is offered."""
        assert await client.error(client.exchange_form(await client.live_token(), **change)) == REFUSED

    @pytest.mark.parametrize(
        "change",
        [{"client_assertion": LEFT_OUT}, {"client_assertion_type": LEFT_OUT}, {"client_id": "somebody"}],
        ids=str,
    )
    async def test_no_client_authentication(self, client: Client, change: dict[str, Any]) -> None:
        """A live token alone is exchanged for nobody."""
        form = client.exchange_form(await client.live_token(), **change)
        assert await client.error(form) == (401, "invalid_client")

    async def test_replayed_client_assertion(self, client: Client) -> None:
        """The client proves itself anew for each exchange."""
        form = client.exchange_form(await client.live_token())
        assert (await client.ask(form)).status == 200
        assert await client.error(form) == (401, "invalid_client")
