"""The key cache under load, under attack and without its issuer, as callers see it over HTTP."""

import asyncio
import secrets

import pytest

from relay.errors import Refusal
from tests.attacks.conftest import Border
from tests.conftest import TurnableClock
from tests.support.issuer import TestIssuer


async def asked_at_once(border: Border, tokens: list[str]) -> list[int]:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(border.ask(token)) for token in tokens]
    return [task.result().status for task in asked]


async def test_fifty_at_once_cost_the_issuer_one_fetch(border: Border, issuer: TestIssuer) -> None:
    """Fifty callers arrive at a relay that holds no keys: all get in, and the issuer is asked once."""
    tokens = [issuer.mint(sub=f"user-{n}", tenant="acme") for n in range(50)]
    assert set(await asked_at_once(border, tokens)) == {200}
    assert issuer.fetches == 1


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one after the other"])
async def test_two_hundred_random_key_ids_cost_one_fetch_at_most(
    at_once: bool,  # noqa: FBT001 - a parameter of the test
    border: Border,
    issuer: TestIssuer,
    clock: TurnableClock,
) -> None:
    """Within a cooldown made-up key ids reach the issuer once, and nobody else is kept waiting or out."""
    good = issuer.mint(tenant="acme")
    assert (await border.ask(good)).status == 200
    clock.turn(30)
    tokens = [issuer.mint(tenant="acme", header={"kid": secrets.token_hex(8)}) for _ in range(200)]
    if at_once:
        assert set(await asked_at_once(border, tokens)) == {401}
    else:
        assert {(await border.ask(token)).status for token in tokens} == {401}
    assert issuer.fetches == 2
    assert (await border.ask(good)).status == 200


BROKEN: dict[str, object] = {
    "null": None,
    "text": "key",
    "a list": [],
    "no members": {},
    "a point that is not on the curve": {"kty": "EC", "crv": "P-256", "kid": "x", "x": "AQ" * 21 + "A", "y": "A" * 43},
    "the point at infinity": {"kty": "EC", "crv": "P-256", "kid": "x", "x": "A" * 43, "y": "A" * 43},
    "a coordinate cut short": {"kty": "EC", "crv": "P-256", "kid": "x", "x": "AA", "y": "AA"},
    "an exponent of one": {"kty": "RSA", "kid": "x", "e": "AQ", "n": "_" * 342},
    "an even exponent": {"kty": "RSA", "kid": "x", "e": "Ag", "n": "_" * 342},
    "an exponent of zero": {"kty": "RSA", "kid": "x", "e": "AA", "n": "_" * 342},
    "a short modulus": {"kty": "RSA", "kid": "x", "e": "AQAB", "n": "_" * 170},
    "a long modulus": {"kty": "RSA", "kid": "x", "e": "AQAB", "n": "_" * 3000},
    "a shared secret": {"kty": "oct", "kid": "x", "k": "AAAA"},
    "a certificate alone": {"kty": "RSA", "kid": "x", "x5c": ["MIIB"]},
    "numbers for text": {"kty": 1, "crv": 2, "kid": 3, "x": 4, "y": 5},
    "very deep": {"kty": "EC", "kid": "x", "x": [[[[[[[[]]]]]]]]},
    "an Edwards key of another length": {"kty": "OKP", "crv": "Ed25519", "kid": "x", "x": "AAAA"},
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_malformed_key_costs_no_other(kind: str, border: Border, issuer: TestIssuer) -> None:
    """Before and behind it in the set, the good keys verify as ever; it verifies nothing itself."""
    sound = issuer.jwks()["keys"]
    issuer.key_set_body = None
    issuer.extra_keys = [BROKEN[kind], *sound, BROKEN[kind]]
    assert (await border.ask(issuer.mint(tenant="acme"))).status == 200
    assert (await border.ask(issuer.mint(tenant="acme", header={"kid": "x"}))).status == 401


async def test_an_outage_is_never_the_callers_fault(border: Border, issuer: TestIssuer, clock: TurnableClock) -> None:
    """Stale keys serve for an hour; from then on 503 with Retry-After and never 401, until the issuer is back."""
    assert (await border.ask(issuer.mint(tenant="acme"))).status == 200
    issuer.fail()
    for _ in range(11):
        clock.turn(300)
        assert (await border.ask(issuer.mint(tenant="acme"))).status == 200
    for _ in range(3):
        clock.turn(300)
        seen = await border.ask(issuer.mint(tenant="acme"))
        assert seen.status == 503
        assert int(dict(seen.headers)["Retry-After"]) >= 1
        assert b'"keys_unavailable"' in seen.body
    issuer.recover()
    clock.turn(5)
    assert (await border.ask(issuer.mint(tenant="acme"))).status == 200


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"keys":{}}', b'{"keys":[{}]}', b"[" * 50_000, b"\xff\xfe"])
async def test_nonsense_for_a_key_set_loses_no_key(
    body: bytes, border: Border, issuer: TestIssuer, clock: TurnableClock
) -> None:
    """An answer that is no key set is an outage: what is held goes on serving, and is no reason for a 401."""
    good = issuer.mint(tenant="acme")
    assert (await border.ask(good)).status == 200
    issuer.key_set_body = body
    clock.turn(60)
    assert (await border.ask(good)).status == 200
    with pytest.raises(Refusal, match="keys_unavailable"):
        await border.gate.admit(issuer.mint(tenant="acme", header={"kid": "new"}))
    assert (await border.ask(good)).status == 200
