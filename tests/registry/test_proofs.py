"""Bound tokens: every request, to the token endpoint and to the specialist, proves possession of a key (RFC 9449)."""

import base64
import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, RSAKey

from registry.credentials import Authorizations
from registry.credentials.proofs import asks_for_nonce
from registry.egress import Exchange
from registry.model import ClientCredentials, OwnerAssertion
from tests.conftest import TurnableClock
from tests.support.credentials import ISSUER, KEY, RESOURCE, access, failure, private_file
from tests.support.token_endpoint import PRESENTED_AT, Presented, TokenEndpoint

NOW = 1_800_000_000
DPOP_KEY = ECKey.generate_key("P-256")


@pytest.fixture
def bound(endpoint: TokenEndpoint, key_file: str) -> ClientCredentials:
    endpoint.members = {"token_type": "DPoP"}
    return ClientCredentials(
        issuer=ISSUER,
        client_id="workbench",
        token_endpoint=endpoint.url,
        key_file=key_file,
        resource=RESOURCE,
        dpop=True,
    )


@pytest.fixture
def dpop_key_file(tmp_path: Path) -> Path:
    return Path(private_file(tmp_path / "dpop.pem", DPOP_KEY.as_pem(private=True)))


def nonce_wanted(nonce: str, challenge: str = 'DPoP error="use_dpop_nonce"', status: int = 401) -> Exchange:
    headers = {"dpop-nonce": nonce, **({"www-authenticate": challenge} if challenge else {})}
    return Exchange(status, headers, b"", complete=True)


class TestAtTheTokenEndpoint:
    async def test_proof(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """The request for a token carries a proof made for it, by a key that is not the client's own."""
        await access(authorizations, bound)

        proof = endpoint.proof()
        assert set(proof.header) == {"typ", "alg", "jwk"}
        assert (proof.header["typ"], proof.header["alg"]) == ("dpop+jwt", "ES256")
        assert set(proof.header["jwk"]) == {"kty", "crv", "x", "y"}
        assert ECKey.import_key(proof.header["jwk"]).thumbprint() != KEY.thumbprint()
        assert proof.claims.pop("jti")
        assert proof.claims == {"htm": "POST", "htu": endpoint.url, "iat": NOW}

    @pytest.mark.parametrize("kind", ["Bearer", "N_A", None], ids=str)
    async def test_not_bound(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint, kind: object
    ) -> None:
        """A server that gives out unbound tokens all the same is not taken at its word (section 5)."""
        endpoint.members = {"token_type": kind}
        refused = await failure(authorizations, bound)
        assert (refused.reason, refused.temporary) == ("malformed_token_answer:token_type", False)

    async def test_nonce(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """A server that wants a nonce is asked again with it, by a new assertion, and from then on at once."""
        endpoint.nonce = "first-nonce"
        await access(authorizations, bound)
        assert [endpoint.proof(n).claims.get("nonce") for n in (0, 1)] == [None, "first-nonce"]
        assert len({endpoint.assertion("client_assertion", KEY, n).claims["jti"] for n in (0, 1)}) == 2
        assert len({endpoint.proof(n).claims["jti"] for n in (0, 1)}) == 2

        await access(authorizations, bound, fresh=True)
        assert len(endpoint.forms) == 3
        assert endpoint.proof().claims["nonce"] == "first-nonce"

        endpoint.nonce = "second-nonce"
        await access(authorizations, bound, fresh=True)
        assert [endpoint.proof(n).claims["nonce"] for n in (3, 4)] == ["first-nonce", "second-nonce"]

    async def test_nonce_and_owner_assertion(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """An owner is asserted anew for the second request: the first assertion may be used up."""
        members = {f.name: getattr(bound, f.name) for f in dataclasses.fields(bound) if f.name != "mode"}
        endpoint.nonce = "nonce"
        await access(authorizations, OwnerAssertion(**members))
        assert len({endpoint.assertion("assertion", KEY, n).claims["jti"] for n in (0, 1)}) == 2

    async def test_nonce_that_changes_for_ever(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """A server that is never content is asked twice and no more."""
        endpoint.answer = (400, b'{"error":"use_dpop_nonce"}')
        endpoint.extra_headers = {"DPoP-Nonce": "another"}
        refused = await failure(authorizations, bound)
        assert refused.reason == "token_refused:use_dpop_nonce"
        assert len(endpoint.forms) == 2

    @pytest.mark.parametrize("nonce", ["", "two words", 'quo"te', "back\\slash", "a" * 513, "é"])
    async def test_odd_nonce(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint, nonce: str
    ) -> None:
        """What is no nonce (section 8.1) goes into no proof."""
        endpoint.answer = (400, b'{"error":"use_dpop_nonce"}')
        endpoint.extra_headers = {"DPoP-Nonce": nonce}
        assert (await failure(authorizations, bound)).reason == "token_refused:use_dpop_nonce"
        assert len(endpoint.forms) == 1

    async def test_other_refusal(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """A refusal for another reason is not repeated, whatever nonce comes with it; the nonce counts from then on."""
        endpoint.refuse("invalid_target")
        endpoint.extra_headers = {"DPoP-Nonce": "next"}
        assert (await failure(authorizations, bound)).reason == "token_refused:invalid_target"
        assert len(endpoint.forms) == 1
        endpoint.answer = None
        await access(authorizations, bound)
        assert endpoint.proof().claims["nonce"] == "next"


class TestAtTheSpecialist:
    async def test_proof(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """A request carries the token as bound, and a proof for this token, method and address by the same key."""
        given = await access(authorizations, bound)
        presented = Presented()
        await presented.by(given, "GET", f"{PRESENTED_AT}?limit=100")

        [authorization] = presented.authorizations
        proof = presented.proof()
        assert authorization.headers["Authorization"] == f"DPoP {given.token.value}"
        assert proof.header["jwk"] == endpoint.proof().header["jwk"]
        assert proof.claims.pop("jti")
        ath = base64.urlsafe_b64encode(hashlib.sha256(given.token.value.encode()).digest()).rstrip(b"=").decode()
        assert proof.claims == {"htm": "GET", "htu": PRESENTED_AT, "iat": NOW, "ath": ath}

    async def test_each_request(self, authorizations: Authorizations, bound: ClientCredentials) -> None:
        """No two requests share a proof."""
        given, presented = await access(authorizations, bound), Presented(Exchange(409, {}, b"", complete=True))
        await presented.by(given)
        await presented.by(given, "GET")
        assert presented.proof(0).claims["jti"] != presented.proof(1).claims["jti"]
        assert [presented.proof(n).claims["htm"] for n in (0, 1)] == ["POST", "GET"]

    @pytest.mark.parametrize(
        "challenge", ['DPoP error="use_dpop_nonce", error_description="n"', "", 'Bearer realm="specialist"', "DPoP"]
    )
    async def test_nonce(self, authorizations: Authorizations, bound: ClientCredentials, challenge: str) -> None:
        """A specialist that wants a nonce gets the request again with it; the next request has it at once."""
        given, presented = await access(authorizations, bound), Presented(nonce_wanted("n1", challenge))
        answer = await presented.by(given)
        assert answer.status == 201
        assert [presented.proof(n).claims.get("nonce") for n in (0, 1)] == [None, "n1"]
        again = Presented()
        await again.by(await access(authorizations, bound), "GET")
        assert again.proof().claims["nonce"] == "n1"

    async def test_nonce_with_success(self, authorizations: Authorizations, bound: ClientCredentials) -> None:
        """A nonce that comes with another answer is used for the next request (section 8.2)."""
        given = await access(authorizations, bound)
        presented = Presented(Exchange(201, {"dpop-nonce": "n2"}, b"", complete=True))
        assert (await presented.by(given)).status == 201
        await presented.by(given)
        assert [presented.proof(n).claims.get("nonce") for n in (0, 1)] == [None, "n2"]

    async def test_nonces_are_each_servers_own(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """The token endpoint's nonce says nothing to a specialist, nor one specialist's to another."""
        endpoint.nonce = "of-the-server"
        given, presented = await access(authorizations, bound), Presented(nonce_wanted("n1"))
        await presented.by(given)
        await presented.by(given, url="https://literature.example.org:8443/api/feedback")
        assert [presented.proof(n).claims.get("nonce") for n in (0, 1, 2)] == [None, "n1", None]

    @pytest.mark.parametrize(
        "answers",
        [
            [nonce_wanted("n1", 'DPoP error="invalid_token"')],
            [nonce_wanted("n1", status=403)],
            [Exchange(401, {"www-authenticate": 'DPoP error="use_dpop_nonce"'}, b"", complete=True)],
        ],
    )
    async def test_other_refusals(
        self, authorizations: Authorizations, bound: ClientCredentials, answers: list[Exchange]
    ) -> None:
        """A refusal for another reason, or without a nonce, is an answer like any other."""
        presented = Presented(*answers)
        assert (await presented.by(await access(authorizations, bound))).status == answers[0].status
        assert len(presented.authorizations) == 1

    async def test_never_content(self, authorizations: Authorizations, bound: ClientCredentials) -> None:
        """A specialist that asks for one nonce after the other gets two requests, and its answer is the last."""
        presented, given = Presented(nonce_wanted("n1"), nonce_wanted("n2")), await access(authorizations, bound)
        assert (await presented.by(given)).status == 401
        assert len(presented.authorizations) == 2
        await presented.by(given)
        assert [presented.proof(n).claims.get("nonce") for n in range(3)] == [None, "n1", "n2"]

    async def test_same_nonce_again(self, authorizations: Authorizations, bound: ClientCredentials) -> None:
        """A nonce that was in the proof is not the trouble."""
        presented = Presented(nonce_wanted("n1"), nonce_wanted("n1"), nonce_wanted("n1"))
        given = await access(authorizations, bound)
        await presented.by(given)
        assert len(presented.authorizations) == 2
        await presented.by(given)
        assert len(presented.authorizations) == 3

    async def test_unbound_tokens_have_no_proof(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """Without ``dpop`` there is a bearer token and nothing else, and no nonce makes a request go out twice."""
        endpoint.members = {}
        presented = Presented(nonce_wanted("n1"))
        given = await access(authorizations, dataclasses.replace(bound, dpop=False))
        assert (await presented.by(given)).status == 401
        [authorization] = presented.authorizations
        assert set(authorization.headers) == {"Authorization"}
        assert "DPoP" not in endpoint.headers[0]


class TestKeys:
    async def test_one_of_the_process(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """Without a file each credential has a key of its own, which stays the same while the process runs."""
        other = dataclasses.replace(bound, resource="https://chemistry.example.org")
        for credential in (bound, other, bound):
            await access(authorizations, credential, fresh=True)
        first, second, third = (json.dumps(endpoint.proof(n).header["jwk"]) for n in range(3))
        assert first == third != second

    async def test_from_a_file(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint, dpop_key_file: Path
    ) -> None:
        """The key in the file proves; a token stays with the key that it was bound to when the file changes."""
        credential = dataclasses.replace(bound, dpop_key_file=str(dpop_key_file))
        old = await access(authorizations, credential)
        assert ECKey.import_key(endpoint.proof().header["jwk"]).thumbprint() == DPOP_KEY.thumbprint()

        second = ECKey.generate_key("P-256")
        private_file(dpop_key_file.with_suffix(".new"), second.as_pem(private=True))
        dpop_key_file.with_suffix(".new").replace(dpop_key_file)

        kept, new = Presented(), Presented()
        await kept.by(await access(authorizations, credential))
        assert kept.authorizations[0].headers["Authorization"] == f"DPoP {old.token.value}"
        assert ECKey.import_key(kept.proof().header["jwk"]).thumbprint() == DPOP_KEY.thumbprint()
        await new.by(await access(authorizations, credential, fresh=True))
        assert ECKey.import_key(new.proof().header["jwk"]).thumbprint() == second.thumbprint()

    async def test_nonces_outlive_requests(
        self, authorizations: Authorizations, bound: ClientCredentials, endpoint: TokenEndpoint, dpop_key_file: Path
    ) -> None:
        """While the file stays the same the server's nonce is remembered."""
        endpoint.nonce = "nonce"
        credential = dataclasses.replace(bound, dpop_key_file=str(dpop_key_file))
        for _ in range(2):
            await access(authorizations, credential, fresh=True)
        assert len(endpoint.forms) == 3

    @pytest.mark.parametrize(
        ("content", "hint"),
        [
            (RSAKey.generate_key(2048).as_pem(private=True), "holds no EC P-256 key"),
            (ECKey.generate_key("P-384").as_pem(private=True), "holds neither"),
            (b"nonsense", "holds no private key"),
        ],
        ids=["rsa", "curve", "garbage"],
    )
    async def test_unusable(
        self,
        authorizations: Authorizations,
        bound: ClientCredentials,
        endpoint: TokenEndpoint,
        dpop_key_file: Path,
        content: bytes,
        hint: str,
    ) -> None:
        """A key that cannot prove is said to be so, and no token is asked for without."""
        private_file(dpop_key_file, content)
        refused = await failure(authorizations, dataclasses.replace(bound, dpop_key_file=str(dpop_key_file)))
        assert (refused.reason, refused.temporary) == ("key_unreadable", False)
        assert hint in str(refused)
        assert endpoint.forms == []

    async def test_time(self, authorizations: Authorizations, bound: ClientCredentials, clock: TurnableClock) -> None:
        """A proof is made when it is used, not when the token was fetched."""
        given, presented = await access(authorizations, bound), Presented()
        clock.turn(100)
        await presented.by(given)
        assert presented.proof().claims["iat"] == NOW + 100


@pytest.mark.parametrize(
    ("answer", "asks"),
    [
        (Exchange(400, {}, b'{"error":"use_dpop_nonce"}', complete=True), True),
        (Exchange(401, {}, b'{"error":"use_dpop_nonce"}', complete=True), True),
        (Exchange(401, {}, b'{"error":"invalid_client"}', complete=True), False),
        (Exchange(400, {}, b"", complete=True), False),
        (Exchange(400, {"www-authenticate": 'DPoP error="use_dpop_nonce"'}, b"", complete=True), False),
        (Exchange(401, {}, b"[]", complete=True), True),
        (Exchange(401, {}, b'{"error":', complete=False), True),
        (Exchange(201, {}, b'{"error":"use_dpop_nonce"}', complete=True), False),
        (Exchange(500, {}, b'{"error":"use_dpop_nonce"}', complete=True), False),
    ],
    ids=str,
)
def test_which_answers_ask_for_a_nonce(answer: Exchange, *, asks: bool) -> None:
    """An error code in the body decides; a challenge decides where there is none; success never asks."""
    assert asks_for_nonce(answer) is asks
