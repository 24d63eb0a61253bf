"""Claims that would make somebody of nobody, under sound signatures. Each is refused with the one 401."""

from collections.abc import Callable
from typing import Any

import pytest

from relay.identity.refusals import Defect
from tests.conftest import TurnableClock
from tests.identity.conftest import Gate
from tests.support.forgery import dumps, human
from tests.support.issuer import LIFETIME, TestIssuer


@pytest.mark.parametrize(
    ("iss", "reason"),
    [
        (lambda url: url + "/", "unknown_issuer"),
        (lambda url: url.upper(), "unknown_issuer"),
        (lambda url: url + "#", "unknown_issuer"),
        (lambda _: "https://evil.example.org", "unknown_issuer"),
        (lambda url: [url], "unknown_issuer"),
        (lambda url: {"url": url}, "unknown_issuer"),
        (lambda _: None, "unknown_issuer"),
        (lambda _: 7, "unknown_issuer"),
    ],
)
async def test_other_issuers(iss: Callable[[str], object], reason: Defect, gate: Gate, issuer: TestIssuer) -> None:
    """The issuer is one that is configured, code point by code point, and nothing is fetched to find out."""
    assert await gate.refuse(issuer.mint(iss=iss(issuer.url))) == reason
    assert issuer.fetches == 0


NOT_A_TIME: list[object] = [
    True,
    "1800000000",
    "１８０００００３００",
    None,
    -1,
    1_800_000_300_000,
    10**400,
    [1_800_000_300],
    {},
]


@pytest.mark.parametrize("claim", ["exp", "iat"])
@pytest.mark.parametrize("value", NOT_A_TIME, ids=repr)
async def test_times_that_are_none(claim: str, value: object, gate: Gate, issuer: TestIssuer) -> None:
    """RFC 7519 section 2: seconds, as a number; a boolean, text, milliseconds or a huge integer is refused."""
    overrides: dict[str, Any] = {claim: value}
    assert await gate.refuse(issuer.mint(**overrides)) == "malformed_time"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_times_that_never_pass(literal: str, gate: Gate, issuer: TestIssuer) -> None:
    """An expiry that compares false with everything would never come: such a payload is not JSON at all."""
    claims = dumps(human(issuer, exp=0)).replace(b'"exp":0', b'"exp":' + literal.encode())
    assert await gate.refuse(issuer.sign(issuer.header(), claims)) == "payload_not_json"


async def test_times_out_of_order(gate: Gate, issuer: TestIssuer, clock: TurnableClock) -> None:
    """Expired, not valid yet, issued in the future, or expiring before it was issued."""
    now = int(clock.unix())
    assert await gate.refuse(issuer.mint(iat=now - 60, exp=now)) == "expired"
    assert await gate.refuse(issuer.mint(nbf=now + 61)) == "not_yet_valid"
    assert await gate.refuse(issuer.mint(iat=now + 61)) == "issued_in_the_future"
    assert await gate.refuse(issuer.mint(iat=now + 30, exp=now + 20)) == "malformed_time"
    assert await gate.refuse(issuer.mint(nbf=True)) == "malformed_time"
    assert await gate.refuse(issuer.sign(issuer.header(), human(issuer) | {"nbf": None})) == "malformed_time"


@pytest.mark.parametrize(
    "audience",
    [
        None,
        "",
        [],
        "https://relay.example.org/",
        "https://RELAY.example.org",
        ["https://other.example.org"],
        ["https://relay.example.org", 7],
        {"https://relay.example.org": True},
        "https://relay.example.org https://other.example.org",
        [["https://relay.example.org"]],
    ],
    ids=repr,
)
async def test_tokens_for_somebody_else(audience: object, gate: Gate, issuer: TestIssuer) -> None:
    """A token that another service was given does not work here."""
    assert await gate.refuse(issuer.mint(aud=audience)) == "wrong_audience"


@pytest.mark.parametrize("value", [None, "", 7, True, ["x"], {}, "x" * 257, "a\tb", "a\x7f", "a\x85b"], ids=repr)
@pytest.mark.parametrize(
    ("claim", "reason"),
    [("sub", "malformed_subject"), ("client_id", "malformed_client"), ("jti", "malformed_token_id")],
)
async def test_names_that_are_none(claim: str, reason: Defect, value: object, gate: Gate, issuer: TestIssuer) -> None:
    """Who somebody is has to be text: not empty, at most 256 characters, no controls."""
    overrides: dict[str, Any] = {claim: value}
    assert await gate.refuse(issuer.mint(**overrides)) == reason


@pytest.mark.parametrize("claim", ["sub", "client_id"])
@pytest.mark.parametrize("escape", [rb"\u0000", rb"\ud800"])
async def test_names_that_no_store_takes(claim: str, escape: bytes, gate: Gate, issuer: TestIssuer) -> None:
    """NUL and half a surrogate pair are refused with the payload they stand in."""
    claims = dumps(human(issuer, **{claim: "HERE"})).replace(b"HERE", b"a" + escape)
    assert await gate.refuse(issuer.sign(issuer.header(), claims)) == "payload_not_json"


@pytest.mark.parametrize("scope", [7, None, ["operator:write"], {"operator:write": True}])
async def test_scopes_that_are_no_text(scope: object, gate: Gate, issuer: TestIssuer) -> None:
    """RFC 9068 section 2.2.3: one string."""
    claims = human(issuer) | {"scope": scope}
    assert await gate.refuse(issuer.sign(issuer.header(), claims)) == "malformed_scope"


async def test_claims_that_stand_twice(gate: Gate, issuer: TestIssuer) -> None:
    """Two readers could take different ones, so neither is taken: in the payload and in the header."""
    claims, header = dumps(human(issuer)), dumps(issuer.header())
    twice = claims[:-1] + b',"sub":"bob"}'
    assert await gate.refuse(issuer.sign(issuer.header(), twice)) == "payload_not_json"
    assert await gate.refuse(issuer.sign(header[:-1] + b',"alg":"none"}', human(issuer))) == "header_not_json"
    assert await gate.refuse(issuer.sign(header[:-1] + b',"\\u0061lg":"ES256"}', human(issuer))) == "header_not_json"


def test_the_lifetime_leaves_room_for_the_clock() -> None:
    """The issuer's tokens outlive the leeway, or the tests of times would show nothing."""
    assert LIFETIME > 60
