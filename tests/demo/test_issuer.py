"""The demonstration's authorization server gives out what the standards say, and only to who proves a right to it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey

from registry.credentials import Authorizations, CredentialFailure, Purpose
from registry.egress import Egress
from registry.model import ClientCredentials, OwnerAssertion
from relay.demo import issuer as issuers
from relay.demo.grants import Resources
from relay.demo.issuer import Issuer
from relay.identity.keys import KeySets
from relay.identity.model import IssuerPolicy, Principal
from relay.identity.tokens import Verifier
from tests.conftest import TurnableClock
from tests.support.demo import (
    DETAILS,
    JWT_BEARER,
    LEFT_OUT,
    NOW,
    RELAY,
    SPECIALIST,
    SUBMISSION,
    Assertions,
    Client,
    get,
    post_json,
    process,
    read,
    verified,
)


class TestMetadata:
    @pytest.mark.parametrize("document", ["oauth-authorization-server", "openid-configuration"])
    async def test_documents(self, issuer: Issuer, egress: Egress, document: str) -> None:
        """Both discovery documents name the issuer exactly, and where its token endpoint and keys are."""
        metadata = read(await get(egress, f"{issuer.url}/.well-known/{document}"))
        assert metadata["issuer"] == issuer.url
        assert metadata["token_endpoint"] == f"{issuer.url}/token"
        assert metadata["jwks_uri"] == f"{issuer.url}/jwks.json"
        assert metadata["token_endpoint_auth_methods_supported"] == ["private_key_jwt", "none"]
        assert JWT_BEARER in metadata["grant_types_supported"]

    async def test_keys_are_public(self, issuer: Issuer, egress: Egress) -> None:
        """The key set holds the public half of the key, for signatures, and nothing else."""
        (key,) = read(await get(egress, f"{issuer.url}/jwks.json"))["keys"]
        assert set(key) == {"kty", "crv", "x", "y", "use", "alg", "kid"}
        assert key["kid"] == ECKey.import_key(key).thumbprint()


class TestClientCredentials:
    async def test_token(self, issuer: Issuer, client: Client, egress: Egress) -> None:
        """The machine client gets a token as RFC 9068 has it: for itself, at the resource it named."""
        answer = read(await client.ask(client.form()))

        token = await verified(issuer, egress, answer.pop("access_token"))
        assert answer == {"token_type": "Bearer", "expires_in": 300, "scope": "feedback:write"}
        assert token.header["typ"] == "at+jwt"
        assert token.claims.pop("jti")
        assert token.claims == {
            "iss": issuer.url,
            "aud": SPECIALIST,
            "sub": "workbench",
            "client_id": "workbench",
            "scope": "feedback:write",
            "tenant": "demo",
            "iat": NOW,
            "exp": NOW + 300,
        }

    async def test_relays_own_credentials(
        self, issuer: Issuer, issuer_state: Path, authorizations: Authorizations, egress: Egress
    ) -> None:
        """What the relay's own code sends is accepted."""
        credential = ClientCredentials(
            issuer=issuer.url,
            client_id="workbench",
            token_endpoint=f"{issuer.url}/token",
            key_file=str(issuer_state / "workbench.pem"),
            resource=SPECIALIST,
            scope="feedback:write",
        )
        purpose = Purpose(SUBMISSION, "task-1", "ab" * 32)
        access = await authorizations.access_for(credential, subject=None, purpose=purpose, deadline=10)
        token = await verified(issuer, egress, access.token.value)
        assert token.claims["sub"] == "workbench"

    async def test_assertion_that_does_not_hold(self, client: Client) -> None:
        """A client that does not prove itself is not authenticated."""
        assertion = client.assertions.of_client(exp=NOW + 61)
        assert await client.error(client.form(client_assertion=assertion)) == (401, "invalid_client")

    @pytest.mark.parametrize(
        "change",
        [
            {"client_assertion": LEFT_OUT},
            {"client_assertion": "a.b.c"},
            {"client_assertion_type": LEFT_OUT},
            {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"},
            {"client_id": "somebody"},
        ],
        ids=str,
    )
    async def test_no_client_authentication(self, client: Client, change: dict[str, Any]) -> None:
        """Without private_key_jwt there are no tokens."""
        assert await client.error(client.form(**change)) == (401, "invalid_client")

    async def test_replay(self, client: Client) -> None:
        """A client assertion is good once."""
        form = client.form()
        assert (await client.ask(form)).status == 200
        assert await client.error(form) == (401, "invalid_client")

    async def test_replay_is_remembered_until_it_expires(self, client: Client, clock: TurnableClock) -> None:
        """An assertion that was used stays used for as long as its times hold, whatever else is asked meanwhile."""
        form = client.form()
        await client.ask(form)
        clock.turn(61)
        later = client.assertions.of_client(iat=NOW + 61, exp=NOW + 121)
        assert (await client.ask(client.form(client_assertion=later))).status == 200
        assert await client.error(form) == (401, "invalid_client")


class TestOwnerAssertion:
    async def test_token(self, issuer: Issuer, client: Client, egress: Egress) -> None:
        """The owner's token names the owner, the client, who acts, and the one submission it is for."""
        answer = read(await client.ask(client.owner_form()))

        token = await verified(issuer, egress, answer["access_token"])
        assert answer["authorization_details"] == [DETAILS]
        assert {name: token.claims[name] for name in ("sub", "client_id", "aud", "act", "authorization_details")} == {
            "sub": "alice",
            "client_id": "workbench",
            "aud": SPECIALIST,
            "act": {"sub": RELAY},
            "authorization_details": [DETAILS],
        }

    async def test_relays_own_credentials(
        self, issuer: Issuer, issuer_state: Path, authorizations: Authorizations, egress: Egress
    ) -> None:
        """What the relay's own code asserts is accepted, and says what it was made for."""
        credential = OwnerAssertion(
            issuer=issuer.url,
            client_id="workbench",
            token_endpoint=f"{issuer.url}/token",
            key_file=str(issuer_state / "workbench.pem"),
            resource=SPECIALIST,
            scope="feedback:write",
        )
        purpose = Purpose(SUBMISSION, "task-1", "ab" * 32)
        access = await authorizations.access_for(credential, subject="bob", purpose=purpose, deadline=10)
        token = await verified(issuer, egress, access.token.value)
        assert token.claims["sub"] == "bob"
        assert token.claims["authorization_details"] == [DETAILS]
        with pytest.raises(CredentialFailure, match="token_refused:invalid_grant"):
            await authorizations.access_for(credential, subject="mallory", purpose=purpose, deadline=10)

    @pytest.mark.parametrize(
        "change",
        [
            {"sub": "mallory"},
            {"sub": "workbench"},
            {"client_id": "somebody"},
            {"iss": "https://relay.example.org"},
            {"iss": "workbench"},
            {"act": {"sub": "https://relay.example.org"}},
            {"act": LEFT_OUT},
            {"aud": "https://login.example.org"},
            {"aud": SPECIALIST},
            {"iat": NOW - 70, "exp": NOW - 10},
            {"exp": NOW + 61},
            {"exp": NOW + 3600},
            {"iat": NOW + 60, "exp": NOW + 120},
            {"jti": LEFT_OUT},
            {"authorization_details": LEFT_OUT},
            {"authorization_details": [DETAILS, DETAILS]},
            {"authorization_details": [{**DETAILS, "payload_sha256": ""}]},
            {"header": {"typ": "JWT"}},
            {"header": {"alg": "none"}},
        ],
        ids=str,
    )
    async def test_assertion_that_does_not_hold(self, client: Client, change: dict[str, Any]) -> None:
        """Nobody, another client, relay or audience, expired, long-lived, for no submission or for two: no token."""
        assertion = client.assertions.of_owner(**change)
        assert await client.error(client.owner_form(assertion=assertion)) == (400, "invalid_grant")

    async def test_assertion_to_the_token_endpoint(self, issuer: Issuer, client: Client) -> None:
        """The audience is the issuer; the address of its token endpoint might be another server's too."""
        assertion = client.assertions.of_owner(aud=f"{issuer.url}/token")
        assert await client.error(client.owner_form(assertion=assertion)) == (400, "invalid_grant")

    async def test_changed_body(self, client: Client) -> None:
        """An assertion whose claims were changed after it was signed asserts nothing."""
        header, _, signature = client.assertions.of_owner().split(".")
        _, payload, _ = client.assertions.of_owner(sub="bob").split(".")
        form = client.owner_form(assertion=f"{header}.{payload}.{signature}")
        assert await client.error(form) == (400, "invalid_grant")

    async def test_somebody_elses_key(self, issuer: Issuer, client: Client) -> None:
        """An assertion of the right relay by a key that is not the client's asserts nothing."""
        key = ECKey.generate_key("P-256")
        for header in ({}, {"kid": client.assertions.key.thumbprint()}):
            assertion = Assertions(key, issuer=issuer.url, now=NOW).of_owner(header=header)
            assert await client.error(client.owner_form(assertion=assertion)) == (400, "invalid_grant")

    async def test_expired_by_the_time(self, client: Client, clock: TurnableClock) -> None:
        """An assertion that was good is not any more after its minute, clocks that differ allowed for."""
        assertion = client.assertions.of_owner()
        clock.turn(65)
        proof = client.assertions.of_client(iat=NOW + 65, exp=NOW + 125)
        form = client.owner_form(assertion=assertion, client_assertion=proof)
        assert await client.error(form) == (400, "invalid_grant")

    async def test_replay(self, client: Client) -> None:
        """An owner assertion is good once, even with a new proof of the client beside it."""
        form = client.owner_form()
        assert (await client.ask(form)).status == 200
        form["client_assertion"] = client.assertions.of_client()
        assert await client.error(form) == (400, "invalid_grant")

    async def test_replay_after_a_restart(self, issuer_state: Path, egress: Egress, clock: TurnableClock) -> None:
        """A restart does not make a used assertion good again."""
        async with issuers.running(issuer_state, Resources(relay=RELAY), clock=clock) as issuer:
            client = Client(issuer, issuer_state, egress)
            form = client.owner_form()
            assert (await client.ask(form)).status == 200
            port = int(issuer.url.rpartition(":")[2])
        async with issuers.running(issuer_state, Resources(relay=RELAY), port=port, clock=clock):
            form["client_assertion"] = client.assertions.of_client()
            assert await client.error(form) == (400, "invalid_grant")

    async def test_refused_for_another_reason(self, client: Client) -> None:
        """An assertion whose request was wrong otherwise is still unused."""
        form = client.owner_form(scope="operator:write")
        assert await client.error(form) == (400, "invalid_scope")
        form |= {"scope": "feedback:write", "client_assertion": client.assertions.of_client()}
        assert (await client.ask(form)).status == 200

    async def test_revoked_person(self, issuer: Issuer, client: Client, egress: Egress) -> None:
        """Nobody acts for a person whose access was revoked, until it is restored."""
        await post_json(egress, f"{issuer.url}/demo/revoke", {"user": "alice"})
        assert await client.error(client.owner_form()) == (400, "invalid_grant")
        assert (await client.ask(client.owner_form(assertion=client.assertions.of_owner(sub="bob")))).status == 200
        await post_json(egress, f"{issuer.url}/demo/restore", {"user": "alice"})
        assert (await client.ask(client.owner_form())).status == 200


class TestRequests:
    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"grant_type": "password"}, "unsupported_grant_type"),
            ({"grant_type": LEFT_OUT}, "unsupported_grant_type"),
            ({"scope": "operator:write"}, "invalid_scope"),
            ({"scope": "feedback:write  feedback:read"}, "invalid_scope"),
            ({"resource": LEFT_OUT}, "invalid_target"),
            ({"resource": "https://evil.example"}, "invalid_target"),
            ({"resource": "https://localhost:9443/path"}, "invalid_target"),
            ({"resource": "http://localhost:9443"}, "invalid_target"),
        ],
        ids=str,
    )
    async def test_refused(self, client: Client, change: dict[str, Any], error: str) -> None:
        """What is not offered is refused with the code that says so."""
        assert await client.error(client.form(**change)) == (400, error)

    @pytest.mark.parametrize(
        "body", [b"grant_type", b"a=1&a=2", b"\xff=1", b"a=%ff", b"&".join(b"p%d=1" % n for n in range(17))]
    )
    async def test_no_form(self, client: Client, body: bytes) -> None:
        """A body that is no form with each parameter once is refused before anything else."""
        assert await client.error(body) == (400, "invalid_request")

    async def test_other_content_type(self, issuer: Issuer, egress: Egress) -> None:
        """A token request in JSON is refused."""
        answer = await post_json(egress, f"{issuer.url}/token", {"grant_type": "client_credentials"})
        assert (answer.status, read(answer)["error"]) == (400, "invalid_request")

    async def test_not_cached(self, client: Client) -> None:
        """No answer with a token may be kept (RFC 6749 section 5.1)."""
        assert (await client.ask(client.form())).headers["cache-control"] == "no-store"

    async def test_all_scopes(self, client: Client) -> None:
        """A request without a scope gets every scope that the client may have."""
        scope = read(await client.ask(client.form(scope=LEFT_OUT)))["scope"]
        assert scope == "feedback:read feedback:write provenance:write runs:read runs:write"

    async def test_listed_resources(self, issuer_state: Path, egress: Egress, clock: TurnableClock) -> None:
        """Where resources are listed, tokens are given out for those and for the relay only."""
        resources = Resources(relay=RELAY, origins=frozenset({SPECIALIST}))
        async with issuers.running(issuer_state, resources, clock=clock) as issuer:
            client = Client(issuer, issuer_state, egress)
            assert (await client.ask(client.form())).status == 200
            assert (await client.ask(client.form(resource=RELAY))).status == 200
            other = client.form(resource="https://localhost:9444")
            assert await client.error(other) == (400, "invalid_target")


class TestDemoTokens:
    @pytest.fixture
    async def principals(self, issuer: Issuer, egress: Egress, clock: TurnableClock) -> Mapping[str, Principal]:
        """Who the relay takes each of the demonstration's tokens for."""
        policy = IssuerPolicy(issuer=issuer.url, audience=RELAY, algorithms=("ES256",), tenant_claim="tenant")
        verifier = Verifier([policy], KeySets([policy], egress, clock), clock)
        principals = {}
        for user in ("alice", "bob", "operator", "workbench"):
            answer = read(await post_json(egress, f"{issuer.url}/demo/token", {"user": user}))
            principals[user] = await verifier.verify([f"Bearer {answer['access_token']}"])
        return principals

    async def test_principals(self, principals: Mapping[str, Principal]) -> None:
        """The relay takes them for three people and a machine, of one client and one tenant."""
        assert {user: principal.kind for user, principal in principals.items()} == {
            "alice": "human",
            "bob": "human",
            "operator": "human",
            "workbench": "machine",
        }
        assert {(p.client, p.tenant) for p in principals.values()} == {("workbench", "demo")}
        assert [p.subject for p in principals.values()] == ["alice", "bob", "operator", "workbench"]

    async def test_scopes(self, principals: Mapping[str, Principal]) -> None:
        """People may rate, the operator may operate, the machine may record provenance."""
        assert principals["alice"].scopes >= {"feedback:write", "feedback:read"}
        assert principals["operator"].scopes >= {"operator:read", "operator:write", "registry:admin"}
        assert principals["workbench"].scopes >= {"provenance:write", "feedback:write", "feedback:read"}
        assert not principals["alice"].scopes & {"operator:read", "operator:write", "registry:admin"}

    async def test_asked_for(self, issuer: Issuer, egress: Egress) -> None:
        """Resource, scope and lifetime are as asked for."""
        wanted = {"user": "alice", "resource": SPECIALIST, "scope": "runs:read", "expires_in": 7}
        answer = read(await post_json(egress, f"{issuer.url}/demo/token", wanted))
        claims = (await verified(issuer, egress, answer["access_token"])).claims
        assert (claims["aud"], claims["scope"], claims["exp"] - claims["iat"]) == (SPECIALIST, "runs:read", 7)

    @pytest.mark.parametrize(
        ("wanted", "status", "error"),
        [
            ({"user": "mallory"}, 403, "access_denied"),
            ({"user": "alice", "resource": "https://evil.example"}, 400, "invalid_target"),
            ({"user": "alice", "scope": "operator:read"}, 400, "invalid_scope"),
        ],
        ids=str,
    )
    async def test_refused(self, issuer: Issuer, egress: Egress, wanted: object, status: int, error: str) -> None:
        """The demonstration's people have no more than their scopes, where tokens are good."""
        answer = await post_json(egress, f"{issuer.url}/demo/token", wanted)
        assert (answer.status, read(answer)["error"]) == (status, error)

    @pytest.mark.parametrize(
        "wanted", [{}, {"user": 1}, {"user": "alice", "expires_in": 0}, {"user": "alice", "more": 1}], ids=str
    )
    async def test_malformed(self, issuer: Issuer, egress: Egress, wanted: object) -> None:
        """A malformed request gets a problem document that names the field."""
        answer = await post_json(egress, f"{issuer.url}/demo/token", wanted)
        assert (answer.status, read(answer)["code"]) == (422, "invalid_field")

    async def test_revoked_person(self, issuer: Issuer, egress: Egress) -> None:
        """A person whose access was revoked gets no token either; revoking twice changes nothing."""
        for _ in range(2):
            answer = await post_json(egress, f"{issuer.url}/demo/revoke", {"user": "bob"})
            assert read(answer) == {"user": "bob", "revoked": True}
        assert (await post_json(egress, f"{issuer.url}/demo/token", {"user": "bob"})).status == 403
        assert (await post_json(egress, f"{issuer.url}/demo/token", {"user": "alice"})).status == 200

    async def test_revoking_nobody(self, issuer: Issuer, egress: Egress) -> None:
        """Only people can be revoked."""
        assert (await post_json(egress, f"{issuer.url}/demo/revoke", {"user": "workbench"})).status == 400


class TestProcess:
    async def test_lifetime(self, tmp_path: Path, egress: Egress) -> None:
        """As a process it says when it is ready, ends with 0 when told to, and has the same keys the next time."""
        key_sets = []
        for _ in range(2):
            async with process("issuer", "--state", str(tmp_path / "state"), "--relay", RELAY) as (running, url):
                key_sets.append(read(await get(egress, f"{url}/jwks.json")))
                running.terminate()
                assert await running.wait() == 0
        assert key_sets[0] == key_sets[1]

    @pytest.mark.usefixtures("issuer")
    def test_keys_are_private(self, issuer_state: Path) -> None:
        """The key files can be read by nobody else."""
        assert {path.name: path.stat().st_mode & 0o777 for path in issuer_state.glob("*.pem")} == {
            "console.pem": 0o600,
            "issuer.pem": 0o600,
            "workbench.pem": 0o600,
        }
