"""The demonstration's issuer believes an assertion only if every demand of RFC 7523 section 3 is met."""

import json
from typing import Any

import pytest
from joserfc.jwk import ECKey

from relay.demo.assertions import (
    Asserted,
    AssertionRefused,
    RegisteredClient,
    check_client_assertion,
    check_owner_assertion,
    unverified_client_id,
)
from tests.support.demo import DETAILS, LEFT_OUT, RELAY, SUBMISSION, Assertions
from tests.support.issuer import compact

ISSUER = "https://login.example.org"
NOW = 1_800_000_000
KEY = ECKey.generate_key("P-256")
CLIENT = RegisteredClient(client_id="workbench", key=KEY, relays=frozenset({RELAY}))


@pytest.fixture
def assertions() -> Assertions:
    return Assertions(KEY, issuer=ISSUER, now=NOW)


def check_client(assertion: str, now: float = NOW) -> Asserted:
    return check_client_assertion(assertion, CLIENT, audience=ISSUER, now=now)


def check_owner(assertion: str, now: float = NOW) -> Asserted:
    return check_owner_assertion(assertion, CLIENT, audience=ISSUER, now=now)


class TestOfClient:
    def test_holds(self, assertions: Assertions) -> None:
        """The client's own proof holds, and says until when it has to be remembered."""
        asserted = check_client(assertions.of_client(jti="one"))
        assert asserted == Asserted("workbench", "workbench", "one", NOW + 60)

    @pytest.mark.parametrize("change", [{"header": {"typ": LEFT_OUT}}, {"aud": [ISSUER]}], ids=str)
    def test_holds_in_other_forms(self, assertions: Assertions, change: dict[str, Any]) -> None:
        """A type is not demanded of it, and its one audience may stand in a list."""
        assert check_client(assertions.of_client(**change)).subject == "workbench"

    def test_leeway(self, assertions: Assertions) -> None:
        """Clocks may differ by five seconds."""
        early, late = assertions.of_client(iat=NOW + 5, exp=NOW + 65), assertions.of_client()
        assert check_client(early)
        assert check_client(late, NOW + 64)
        with pytest.raises(AssertionRefused, match="exp has passed"):
            check_client(late, NOW + 65)

    @pytest.mark.parametrize(
        "change",
        [
            {"iss": "alice"},
            {"sub": "alice"},
            {"aud": "http://127.0.0.1:1"},
            {"aud": LEFT_OUT},
            {"aud": [ISSUER, "https://elsewhere.example"]},
            {"jti": LEFT_OUT},
            {"jti": ""},
            {"iat": LEFT_OUT},
            {"exp": LEFT_OUT},
            {"exp": NOW + 61},
            {"exp": NOW + 0.5},
            {"exp": True},
            {"iat": NOW + 10},
            {"iat": NOW - 70, "exp": NOW - 10},
            {"header": {"typ": "owner-assertion+jwt"}},
            {"header": {"kid": "another"}},
            {"header": {"kid": LEFT_OUT}},
            {"header": {"jku": "https://evil.example/jwks"}},
            {"header": {"crit": ["exp"]}},
            {"header": {"alg": "none"}},
            {"header": {"alg": ["ES256"]}},
        ],
        ids=str,
    )
    def test_does_not_hold(self, assertions: Assertions, change: dict[str, Any]) -> None:
        """A proof that fails one demand proves nothing; one that would hold at another server too could be replayed."""
        with pytest.raises(AssertionRefused):
            check_client(assertions.of_client(**change))

    def test_other_key(self) -> None:
        """Another key under the registered key's name proves nothing."""
        other = Assertions(ECKey.generate_key("P-256"), issuer=ISSUER, now=NOW)
        with pytest.raises(AssertionRefused):
            check_client(other.of_client(header={"kid": KEY.thumbprint()}))

    @pytest.mark.parametrize("claims", [b"[]", b'"text"', b'{"iss":"workbench","iss":"workbench"}', b"no json"])
    def test_claims_are_no_object(self, claims: bytes) -> None:
        """A signature over something else than claims, or over claims that two readers could differ on, is refused."""
        header = json.dumps({"alg": "ES256", "typ": "JWT", "kid": KEY.thumbprint()}).encode()
        with pytest.raises(AssertionRefused):
            check_client(compact(header, claims, KEY, "ES256"))


class TestOfOwner:
    def test_holds(self, assertions: Assertions) -> None:
        """What a registered relay asserts of an owner, for one submission, holds."""
        asserted = check_owner(assertions.of_owner(jti="one"))
        assert asserted == Asserted(RELAY, "alice", "one", NOW + 60, (DETAILS,))

    @pytest.mark.parametrize(
        "change",
        [
            {"iss": "https://relay.example.org"},
            {"iss": "workbench"},
            {"iss": LEFT_OUT},
            {"iss": ["http://127.0.0.1:8080"]},
            {"aud": "http://127.0.0.1:1"},
            {"aud": RELAY},
            {"sub": LEFT_OUT},
            {"sub": ["alice"]},
            {"client_id": "somebody"},
            {"client_id": LEFT_OUT},
            {"act": LEFT_OUT},
            {"act": {"sub": "alice"}},
            {"jti": LEFT_OUT},
            {"jti": "x" * 257},
            {"exp": LEFT_OUT},
            {"exp": NOW + 61},
            {"iat": NOW + 10},
            {"iat": NOW - 70, "exp": NOW - 10},
            {"authorization_details": LEFT_OUT},
            {"authorization_details": []},
            {"authorization_details": DETAILS},
            {"authorization_details": [DETAILS, DETAILS]},
            {"authorization_details": ["feedback_submission"]},
            {"authorization_details": [{**DETAILS, "type": "payment"}]},
            {"authorization_details": [{**DETAILS, "submission_id": "1"}]},
            {"authorization_details": [{**DETAILS, "submission_id": SUBMISSION.upper()}]},
            {"authorization_details": [{**DETAILS, "task_id": ""}]},
            {"authorization_details": [{**DETAILS, "payload_sha256": "AB" * 32}]},
            {"authorization_details": [{**DETAILS, "payload_sha256": 7}]},
            {"authorization_details": [{**DETAILS, "more": "x"}]},
            {"header": {"typ": "JWT"}},
            {"header": {"typ": LEFT_OUT}},
            {"header": {"typ": ["owner-assertion+jwt"]}},
            {"header": {"jwk": {}}},
        ],
        ids=str,
    )
    def test_does_not_hold(self, assertions: Assertions, change: dict[str, Any]) -> None:
        """An assertion that fails one demand speaks for nobody."""
        with pytest.raises(AssertionRefused):
            check_owner(assertions.of_owner(**change))

    def test_other_key(self) -> None:
        """An owner is asserted with the registered key or not at all."""
        other = Assertions(ECKey.generate_key("P-256"), issuer=ISSUER, now=NOW)
        with pytest.raises(AssertionRefused):
            check_owner(other.of_owner(header={"kid": KEY.thumbprint()}))

    def test_client_assertion(self, assertions: Assertions) -> None:
        """The client's proof of itself cannot be passed off as an assertion of an owner, nor the other way round."""
        with pytest.raises(AssertionRefused):
            check_owner(assertions.of_client())
        with pytest.raises(AssertionRefused):
            check_client(assertions.of_owner())


@pytest.mark.parametrize("assertion", ["", "a.b.c", "....", "é", "e30.e30.", "e30.W10.", "e30.eyJzdWIiOjd9."])
def test_nobody(assertion: str) -> None:
    """What is no assertion claims to be from nobody, and breaks nothing."""
    assert unverified_client_id(assertion) is None
    with pytest.raises(AssertionRefused):
        check_client(assertion)
