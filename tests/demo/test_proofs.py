"""The demonstration's servers take a proof of possession only if every demand of RFC 9449 section 4.3 is met."""

import base64
import hashlib
import json
import secrets
from collections.abc import Sequence
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from relay.demo.proofs import ProofRefused, Proofs
from tests.conftest import TurnableClock
from tests.support.demo import LEFT_OUT, without
from tests.support.issuer import compact

NOW = 1_800_000_000
URL = "https://localhost:9443/api/feedback"
TOKEN = "access-token"
ATH = base64.urlsafe_b64encode(hashlib.sha256(TOKEN.encode()).digest()).rstrip(b"=").decode()
KEY = ECKey.generate_key("P-256")
PUBLIC = {name: KEY.as_dict()[name] for name in ("kty", "crv", "x", "y")}


@pytest.fixture
def proofs(clock: TurnableClock) -> Proofs:
    return Proofs(clock)


def proof(proofs: Proofs, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """A proof as it should be, changed as a test wants it."""
    own = {"jti": secrets.token_urlsafe(8), "htm": "POST", "htu": URL, "iat": NOW, "nonce": proofs.nonce, "ath": ATH}
    head = without({"typ": "dpop+jwt", "alg": "ES256", "jwk": PUBLIC, **(header or {})})
    return compact(json.dumps(head).encode(), json.dumps(without({**own, **claims})).encode(), KEY, "ES256")


def check(proofs: Proofs, *given: str, token: str | None = TOKEN) -> str:
    return proofs.check(given, method="POST", url=URL, access_token=token)


def test_holds(proofs: Proofs) -> None:
    """A proof that holds says whose key it is; without a token it needs no digest of one."""
    assert check(proofs, proof(proofs)) == KEY.thumbprint()
    assert check(proofs, proof(proofs, ath=LEFT_OUT), token=None) == KEY.thumbprint()


@pytest.mark.parametrize(
    "change",
    [
        {"htm": "GET"},
        {"htm": LEFT_OUT},
        {"htu": "https://localhost:9443/runs"},
        {"htu": "https://localhost:9444/api/feedback"},
        {"htu": f"{URL}?a=b"},
        {"htu": LEFT_OUT},
        {"ath": LEFT_OUT},
        {"ath": base64.urlsafe_b64encode(hashlib.sha256(b"another").digest()).rstrip(b"=").decode()},
        {"ath": TOKEN},
        {"jti": LEFT_OUT},
        {"jti": ""},
        {"jti": 7},
        {"jti": "x" * 257},
        {"iat": LEFT_OUT},
        {"iat": NOW - 61},
        {"iat": NOW + 61},
        {"iat": float(NOW)},
        {"iat": True},
        {"header": {"typ": "JWT"}},
        {"header": {"typ": LEFT_OUT}},
        {"header": {"alg": "none"}},
        {"header": {"alg": "HS256"}},
        {"header": {"alg": ["ES256"]}},
        {"header": {"jwk": LEFT_OUT}},
        {"header": {"jwk": ECKey.generate_key("P-256").as_dict(private=False)}},
        {"header": {"jwk": KEY.as_dict(private=True)}},
        {"header": {"jwk": {**PUBLIC, "crv": "P-384"}}},
        {"header": {"jwk": {**PUBLIC, "x": "AA"}}},
        {"header": {"jwk": RSAKey.generate_key(2048).as_dict(private=False)}},
        {"header": {"jwk": OctKey.generate_key().as_dict()}},
        {"header": {"jwk": [PUBLIC]}},
        {"header": {"kid": "one"}},
        {"header": {"crit": ["exp"]}},
    ],
)
def test_does_not_hold(proofs: Proofs, change: dict[str, Any]) -> None:
    """A proof that fails one demand proves nothing."""
    with pytest.raises(ProofRefused) as refused:
        check(proofs, proof(proofs, **change))
    assert refused.value.code == "invalid_dpop_proof"


@pytest.mark.parametrize("text", ["", "a.b.c", "e30.e30.e30", "é"])
def test_no_proof(proofs: Proofs, text: str) -> None:
    """What is no proof breaks nothing."""
    with pytest.raises(ProofRefused):
        check(proofs, text)


@pytest.mark.parametrize("claims", [b"[]", b"no json", b'{"htm":"POST","htm":"POST"}'])
def test_claims_are_no_object(proofs: Proofs, claims: bytes) -> None:
    """A signature over something else than claims proves nothing."""
    header = json.dumps({"typ": "dpop+jwt", "alg": "ES256", "jwk": PUBLIC}).encode()
    with pytest.raises(ProofRefused):
        check(proofs, compact(header, claims, KEY, "ES256"))


@pytest.mark.parametrize("number", [0, 2])
def test_one(proofs: Proofs, number: int) -> None:
    """None is none, and of two nobody could say which counts."""
    given: Sequence[str] = [proof(proofs) for _ in range(number)]
    with pytest.raises(ProofRefused, match="one proof"):
        check(proofs, *given)


def test_replay(proofs: Proofs, clock: TurnableClock) -> None:
    """A proof is good once, for as long as its times hold and whatever else is asked meanwhile."""
    early, late = proof(proofs), proof(proofs, iat=NOW + 60)
    for used in (early, late):
        check(proofs, used)
    clock.turn(60)
    check(proofs, proof(proofs, iat=NOW + 60))
    for used in (early, late):
        with pytest.raises(ProofRefused, match="used before"):
            check(proofs, used)


def test_memory_is_bounded(proofs: Proofs, clock: TurnableClock) -> None:
    """Proofs are forgotten when their nonces are not taken any more."""
    for _ in range(3):
        check(proofs, proof(proofs, iat=int(clock.now)))
        clock.turn(121)
    check(proofs, proof(proofs, iat=int(clock.now)))
    assert len(proofs._used) == 1


@pytest.mark.parametrize("nonce", [LEFT_OUT, "", "made-up", 7, None])
def test_nonce(proofs: Proofs, nonce: object) -> None:
    """Without a nonce of this server's the answer is which to use."""
    with pytest.raises(ProofRefused) as refused:
        check(proofs, proof(proofs, nonce=nonce))
    assert refused.value.code == "use_dpop_nonce"


def test_nonce_of_before(proofs: Proofs, clock: TurnableClock) -> None:
    """A nonce is taken for a while after it was given out, then no more; another process's never is."""
    nonce = proofs.nonce
    clock.turn(60)
    assert proofs.nonce != nonce
    check(proofs, proof(proofs, nonce=nonce, iat=int(clock.now)))
    clock.turn(60)
    for old in (nonce, Proofs(clock).nonce):
        with pytest.raises(ProofRefused) as refused:
            check(proofs, proof(proofs, nonce=old, iat=int(clock.now)))
        assert refused.value.code == "use_dpop_nonce"
