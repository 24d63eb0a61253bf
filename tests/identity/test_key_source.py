"""Where the keys of an issuer are fetched from, and which answers count."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from registry.egress import Egress
from relay.errors import Refusal
from relay.identity.keys import Freshness, KeySets
from relay.identity.model import IssuerPolicy
from tests.conftest import TurnableClock
from tests.identity.conftest import Fetches, find, settled
from tests.support.issuer import AUDIENCE, TestIssuer


@pytest.fixture
async def realm(clock: TurnableClock) -> AsyncIterator[TestIssuer]:
    async with TestIssuer(path="/realms/staff", now=clock.unix) as running:
        yield running


@pytest.mark.parametrize("document", ["oauth", "oidc"])
@pytest.mark.parametrize("path", ["", "/realms/staff"])
async def test_the_key_set_is_found_through_metadata(
    document: str, path: str, egress: Egress, clock: TurnableClock
) -> None:
    """Either document leads to the keys: RFC 8414 with its path in the middle, OpenID Connect with it in front."""
    async with TestIssuer(path=path, now=clock.unix) as issuer:
        issuer.discovery = {document}  # type: ignore[arg-type]
        keys = KeySets([discovered(issuer)], egress, clock)
        assert await find(keys, issuer)


def discovered(issuer: TestIssuer) -> IssuerPolicy:
    return IssuerPolicy(issuer=issuer.url, audience=AUDIENCE, algorithms=("ES256",))


@pytest.mark.parametrize(
    ("member", "value", "problem"),
    [
        ("issuer", "https://evil.example.org", "metadata_of_another_issuer"),
        ("issuer", None, "metadata_of_another_issuer"),
        ("jwks_uri", None, "metadata_without_jwks_uri"),
        ("jwks_uri", "https://evil.example.org/jwks", "jwks_uri_at_another_origin"),
    ],
)
async def test_metadata_that_leads_elsewhere(
    member: str, value: object, problem: str, realm: TestIssuer, egress: Egress, clock: TurnableClock
) -> None:
    """A document of another issuer, or one that points to another origin, brings no keys."""
    realm.metadata[member] = value
    keys = KeySets([discovered(realm)], egress, clock)
    await keys.load()
    assert keys.status()[0].problem == problem
    assert realm.fetches == 0


async def test_an_issuer_without_metadata(realm: TestIssuer, egress: Egress, clock: TurnableClock) -> None:
    """The status tells an operator that there is no document, so that they can configure the address."""
    realm.discovery = set()
    keys = KeySets([discovered(realm)], egress, clock)
    await keys.load()
    assert keys.status()[0].problem == "status_404"


async def test_a_configured_address_needs_no_metadata(realm: TestIssuer, egress: Egress, clock: TurnableClock) -> None:
    """What a person wrote down wins: metadata is not even looked at."""
    realm.discovery = set()
    keys = KeySets([replace(discovered(realm), jwks_uri=realm.jwks_uri)], egress, clock)
    assert await find(keys, realm)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<html>", "key_set_not_json"),
        (b"\xff", "key_set_not_json"),
        (b"[]", "key_set_no_keys_array"),
        (b'{"keys":{}}', "key_set_no_keys_array"),
        (b'{"keys":[{}]}', "key_set_no_usable_key"),
        (b" " * 300_000, "answer_too_long"),
    ],
)
async def test_answers_that_are_no_key_set(
    body: bytes, problem: str, keys: KeySets, issuer: TestIssuer, clock: TurnableClock, fetches: Fetches
) -> None:
    """A proxy's error page does not replace keys that work."""
    assert await find(keys, issuer)
    issuer.key_set_body = body
    clock.turn(600)
    assert await find(keys, issuer)
    await settled(keys)
    assert await find(keys, issuer)
    assert fetches.problems == [None, problem]


async def test_a_redirect_is_not_followed(keys: KeySets, issuer: TestIssuer, fetches: Fetches) -> None:
    """Keys come from the address that was approved, not from where it points."""
    issuer.fail(302)
    with pytest.raises(Refusal, match="keys_unavailable"):
        await find(keys, issuer)
    assert fetches.problems == ["status_302"]


async def test_the_issuer_has_a_deadline(
    policy: IssuerPolicy, egress: Egress, clock: TurnableClock, issuer: TestIssuer, fetches: Fetches
) -> None:
    """An issuer that takes the request and never answers costs the deadline, not for ever."""
    keys = KeySets([policy], egress, clock, Freshness(deadline=0.05), fetches.seen.append)
    issuer.hang()
    with pytest.raises(Refusal, match="keys_unavailable"):
        await find(keys, issuer)
    assert fetches.problems == ["deadline_exceeded"]


async def test_an_issuer_that_is_not_there(egress: Egress, clock: TurnableClock, fetches: Fetches) -> None:
    """A refused connection and a destination that egress does not allow are told apart in the status."""
    gone, forbidden = (
        IssuerPolicy(issuer=url, audience=AUDIENCE, algorithms=("ES256",), jwks_uri=f"{url}/jwks")
        for url in ("http://127.0.0.1:1", "https://10.0.0.1")
    )
    keys = KeySets([gone, forbidden], egress, clock, observe=fetches.seen.append)
    await keys.load()
    assert {status.issuer: status.problem for status in keys.status()} == {
        gone.issuer: "connect_failed",
        forbidden.issuer: "address_refused",
    }
