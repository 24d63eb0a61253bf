"""Tokens of the demonstration that are bound to a key are of no use to whoever else has them (RFC 9449)."""

import base64
import dataclasses
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey

from registry.credentials import Access, Authorization, Authorizations, Purpose
from registry.egress import Egress, Exchange
from registry.model import ClientCredentials, Credential, OwnerAssertion, TokenExchange
from registry.protocols.contract import Rated
from registry.protocols.roblox_v1 import RobloxV1
from relay.demo import specialist as specialists
from relay.demo.authority import Authority
from relay.demo.issuer import Issuer
from relay.demo.specialist import Trust
from tests.conftest import TurnableClock
from tests.support.demo import LEFT_OUT, NOW, SUBMISSION, Client, get, post_json, read, verified, without
from tests.support.issuer import compact

KEY = ECKey.generate_key("P-256")
PATH = "/api/feedback"


@pytest.fixture
async def origin(tmp_path: Path, authority: Authority, issuer: Issuer, clock: TurnableClock) -> AsyncIterator[str]:
    trust = Trust(issuer=issuer.url)
    async with specialists.running(tmp_path / "literature", authority, "literature", trust, clock=clock) as origin:
        yield origin


def proof(url: str, *, key: ECKey = KEY, token: str | None = None, **claims: Any) -> str:
    """A proof for a request, changed as a test wants it."""
    jwk = {name: key.as_dict()[name] for name in ("kty", "crv", "x", "y")}
    own = {"jti": secrets.token_urlsafe(8), "htm": "POST", "htu": url, "iat": NOW}
    if token is not None:
        own["ath"] = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
    head = json.dumps({"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk}).encode()
    return compact(head, json.dumps(without({**own, **claims})).encode(), key, "ES256")


class TestAtTheIssuer:
    async def test_bound(self, issuer: Issuer, client: Client, egress: Egress) -> None:
        """A request with a proof gets a token that names the proof's key, once the proof has the issuer's nonce."""
        url, form = f"{issuer.url}/token", client.form()

        asked = await client.ask(form, DPoP=proof(url))
        assert (asked.status, read(asked)["error"]) == (400, "use_dpop_nonce")

        nonce = asked.headers["dpop-nonce"]
        answer = read(await client.ask(form, DPoP=proof(url, nonce=nonce)))
        assert answer["token_type"] == "DPoP"
        claims = (await verified(issuer, egress, answer["access_token"])).claims
        assert claims["cnf"] == {"jkt": KEY.thumbprint()}

    @pytest.mark.parametrize(
        "change",
        [{"htm": "GET"}, {"htu": "http://127.0.0.1:1/token"}, {"iat": NOW - 100}, {"jti": LEFT_OUT}],
        ids=str,
    )
    async def test_bad_proof(self, issuer: Issuer, client: Client, change: dict[str, Any]) -> None:
        """A proof that does not hold gets no token, not even an unbound one."""
        refused = await client.error(client.form(), DPoP=proof(f"{issuer.url}/token", **change))
        assert refused == (400, "invalid_dpop_proof")

    async def test_replay(self, issuer: Issuer, client: Client) -> None:
        """A proof is good for one request."""
        url = f"{issuer.url}/token"
        asked = await client.ask(client.form(), DPoP=proof(url))
        used = proof(url, nonce=asked.headers["dpop-nonce"])
        assert (await client.ask(client.form(), DPoP=used)).status == 200
        assert await client.error(client.form(), DPoP=used) == (400, "invalid_dpop_proof")

    async def test_metadata(self, issuer: Issuer, egress: Egress) -> None:
        """The metadata says that proofs are taken, and which grants there are."""
        metadata = read(await get(egress, f"{issuer.url}/.well-known/oauth-authorization-server"))
        assert metadata["dpop_signing_alg_values_supported"] == ["ES256"]
        assert "urn:ietf:params:oauth:grant-type:token-exchange" in metadata["grant_types_supported"]


class Relaying:
    """The relay's own code towards the specialist, by credentials whose tokens are bound."""

    def __init__(
        self, issuer: Issuer, state: Path, origin: str, client: Client, egress: Egress, authorizations: Authorizations
    ) -> None:
        self.origin = origin
        self.egress = egress
        self.client = client
        self._authorizations = authorizations
        self._grant: dict[str, Any] = {
            "issuer": issuer.url,
            "client_id": "workbench",
            "token_endpoint": f"{issuer.url}/token",
            "key_file": str(state / "workbench.pem"),
            "resource": origin,
            "scope": "feedback:write",
            "dpop": True,
        }

    def credential(self, mode: type[ClientCredentials | OwnerAssertion | TokenExchange]) -> Credential:
        return mode(**self._grant)

    async def run(self, user: str) -> str:
        token = await self.client.live_token(user, resource=self.origin)
        answer = await post_json(self.egress, f"{self.origin}/runs", {"question": "Why?"}, token=token)
        return str(read(answer)["taskId"])

    async def access(self, credential: Credential, body: bytes, user: str = "alice") -> Access:
        members = json.loads(body)
        return await self._authorizations.access_for(
            credential,
            subject=user,
            purpose=Purpose(members["id"], members["taskId"], hashlib.sha256(body).hexdigest()),
            deadline=10,
            subject_token=await self.client.live_token(user) if isinstance(credential, TokenExchange) else None,
            owner=1,
        )

    async def send(self, access: Access, method: str, body: bytes | None = None) -> Exchange:
        async def send(authorization: Authorization) -> Exchange:
            return await self.raw(method, authorization.headers, body)

        return await access.exchange(method, self.origin + PATH, send)

    async def raw(self, method: str, headers: Any, body: bytes | None = None) -> Exchange:
        sent = {**headers, "Content-Type": "application/json"}
        return await self.egress.exchange(method, self.origin + PATH, headers=sent, body=body, deadline=10)


@pytest.fixture
def relaying(
    issuer: Issuer, issuer_state: Path, origin: str, client: Client, egress: Egress, authorizations: Authorizations
) -> Relaying:
    return Relaying(issuer, issuer_state, origin, client, egress, authorizations)


def rating(task: str) -> bytes:
    return RobloxV1().encode(Rated(SUBMISSION, task, "up", None)).body or b""


class TestAtTheSpecialist:
    @pytest.mark.parametrize(
        ("mode", "user"), [(ClientCredentials, "workbench"), (OwnerAssertion, "alice"), (TokenExchange, "alice")]
    )
    async def test_rating(self, relaying: Relaying, mode: Any, user: str) -> None:
        """By each grant the relay gets a bound token, proves that it is its own, and the rating is saved and read."""
        body = rating(await relaying.run(user))
        access = await relaying.access(relaying.credential(mode), body, user)
        assert access.token.prover is not None
        saved = await relaying.send(access, "POST", body)
        assert (saved.status, read(saved)) == (201, {"id": SUBMISSION, "saved": True})
        [row] = read(await relaying.send(access, "GET"))
        assert row["id"] == SUBMISSION

    async def test_exchanged_without_proof(self, relaying: Relaying) -> None:
        """An unbound token that was exchanged rates its owner's run, and nobody else's."""
        credential = dataclasses.replace(relaying.credential(TokenExchange), dpop=False)  # type: ignore[call-arg]
        body = rating(await relaying.run("alice"))
        bob = await relaying._authorizations.access_for(
            credential,
            subject=None,
            purpose=Purpose(SUBMISSION, "t", ""),
            deadline=10,
            subject_token=await relaying.client.live_token("bob"),
            owner=2,
        )
        assert (await relaying.send(bob, "POST", body)).status == 404
        alice = await relaying.access(credential, body)
        assert (await relaying.send(alice, "POST", body)).status == 201


class TestStolenTokens:
    @pytest.fixture
    async def nonce(self, relaying: Relaying, token: str) -> str:
        asked = await relaying.raw("GET", {"Authorization": f"DPoP {token}", "DPoP": self.proof(relaying, token)})
        assert asked.status == 401
        assert 'error="use_dpop_nonce"' in asked.headers["www-authenticate"]
        return asked.headers["dpop-nonce"]

    @pytest.fixture
    async def token(self, issuer: Issuer, client: Client, origin: str) -> str:
        """A token for the specialist, bound to `KEY`."""
        url = f"{issuer.url}/token"
        asked = await client.ask(client.form(), DPoP=proof(url))
        form = client.form(resource=origin, scope="feedback:read feedback:write")
        answer = await client.ask(form, DPoP=proof(url, nonce=asked.headers["dpop-nonce"]))
        return str(read(answer)["access_token"])

    def proof(self, relaying: Relaying, of: str, /, **change: Any) -> str:
        url = relaying.origin + PATH
        return proof(url, **{"htm": "GET", "token": of, **change})

    async def test_with_its_key(self, relaying: Relaying, token: str, nonce: str) -> None:
        """With its own key the token is good; the scheme's case does not matter."""
        for scheme in ("DPoP", "dpop"):
            headers = {"Authorization": f"{scheme} {token}", "DPoP": self.proof(relaying, token, nonce=nonce)}
            assert (await relaying.raw("GET", headers)).status == 200

    async def test_as_bearer(self, relaying: Relaying, token: str, nonce: str) -> None:
        """A bound token is no bearer token, with a proof or without."""
        for more in ({}, {"DPoP": self.proof(relaying, token, nonce=nonce)}):
            refused = await relaying.raw("GET", {"Authorization": f"Bearer {token}", **more})
            assert refused.status == 401
            assert refused.headers["www-authenticate"].startswith("DPoP ")

    async def test_without_proof(self, relaying: Relaying, token: str) -> None:
        """The token alone is good for nothing."""
        refused = await relaying.raw("GET", {"Authorization": f"DPoP {token}"})
        assert refused.status == 401
        assert 'error="invalid_dpop_proof"' in refused.headers["www-authenticate"]

    @pytest.mark.parametrize(
        "change",
        [
            {"key": ECKey.generate_key("P-256")},
            {"token": "another"},
            {"token": None},
            {"htm": "POST"},
            {"htu": "https://localhost:1/api/feedback"},
            {"iat": NOW - 61},
        ],
        ids=lambda change: str(change)[:40],
    )
    async def test_other_proofs(self, relaying: Relaying, token: str, nonce: str, change: dict[str, Any]) -> None:
        """A proof by another key, or for another token, method, address or time, proves nothing."""
        headers = {"Authorization": f"DPoP {token}", "DPoP": self.proof(relaying, token, nonce=nonce, **change)}
        assert (await relaying.raw("GET", headers)).status == 401

    async def test_replay(self, relaying: Relaying, token: str, nonce: str) -> None:
        """A request that was overheard, proof and all, is refused."""
        headers = {"Authorization": f"DPoP {token}", "DPoP": self.proof(relaying, token, nonce=nonce)}
        assert (await relaying.raw("GET", headers)).status == 200
        assert (await relaying.raw("GET", headers)).status == 401

    async def test_unbound(self, relaying: Relaying, nonce: str) -> None:
        """A token that is bound to nothing is not made good by a proof."""
        bare = await relaying.client.live_token(resource=relaying.origin)
        headers = {"Authorization": f"DPoP {bare}", "DPoP": self.proof(relaying, bare, nonce=nonce)}
        assert (await relaying.raw("GET", headers)).status == 401

    async def test_runs(self, relaying: Relaying, token: str, egress: Egress) -> None:
        """What holds for ratings holds for runs."""
        refused = await get(egress, f"{relaying.origin}/runs/task-1", token=token)
        assert refused.status == 401
        assert refused.headers["www-authenticate"].startswith("DPoP ")
