"""When the issuers' keys are fetched, how long they are good, and what happens while an issuer is away."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from registry.egress import Egress
from relay.errors import Refusal
from relay.identity.keys import Fetched, Freshness, KeySets, KeyStatus
from relay.identity.model import IssuerPolicy
from tests.conftest import TurnableClock
from tests.identity.conftest import Fetches, Gate
from tests.support.issuer import AUDIENCE, TestIssuer


async def find(keys: KeySets, issuer: TestIssuer, kid: str | None = None) -> bool:
    return await keys.find(issuer.url, kid or issuer.kid(), "ES256") is not None


async def test_fifty_at_once_make_one_fetch(gate: Gate, issuer: TestIssuer) -> None:
    """Requests that need the same keys wait for the same fetch."""
    issuer.hang()
    async with asyncio.TaskGroup() as group:
        callers = [group.create_task(gate.admit(issuer.mint(sub=f"user-{n}"))) for n in range(50)]
        await issuer.asked()
        issuer.recover()
    assert {caller.result().subject for caller in callers} == {f"user-{n}" for n in range(50)}
    assert issuer.fetches == 1


async def test_a_caller_who_leaves_does_not_cancel_the_fetch_for_the_others(keys: KeySets, issuer: TestIssuer) -> None:
    """The fetch belongs to nobody, so that one closed connection costs the rest nothing."""
    issuer.hang()
    first = asyncio.ensure_future(find(keys, issuer))
    await issuer.asked()
    second = asyncio.ensure_future(find(keys, issuer))
    first.cancel()
    await asyncio.wait({first})
    issuer.recover()
    assert await second
    assert issuer.fetches == 1


async def test_a_new_key_is_found_when_a_token_names_it(
    keys: KeySets, issuer: TestIssuer, clock: TurnableClock
) -> None:
    """A rotation is noticed at once, once the cooldown is over; within it the issuer is left alone."""
    assert await find(keys, issuer)
    issuer.rotate()
    clock.turn(29)
    assert not await find(keys, issuer)
    assert issuer.fetches == 1
    clock.turn(1)
    assert await find(keys, issuer)
    assert issuer.fetches == 2


async def test_old_keys_are_fetched_anew(keys: KeySets, issuer: TestIssuer, clock: TurnableClock) -> None:
    """Past their age keys are fetched again, so that one that was taken out stops working without anybody asking."""
    retired = issuer.kid()
    assert await find(keys, issuer)
    issuer.rotate()
    clock.turn(599)
    assert keys.at_hand(issuer.url, retired, "ES256") is not None
    clock.turn(1)
    assert keys.at_hand(issuer.url, retired, "ES256") is None
    assert await find(keys, issuer)
    assert not await find(keys, issuer, retired)


async def test_fresher_keys_are_worth_a_moment(
    policy: IssuerPolicy, egress: Egress, clock: TurnableClock, issuer: TestIssuer
) -> None:
    """Where the issuer answers in time, a key that it took out is not served even once more."""
    keys = KeySets([policy], egress, clock, Freshness(patience=30))
    retired = issuer.kid()
    assert await find(keys, issuer)
    issuer.rotate()
    clock.turn(600)
    assert not await find(keys, issuer, retired)


async def test_stale_keys_serve_while_the_issuer_is_away(
    keys: KeySets, issuer: TestIssuer, clock: TurnableClock, fetches: Fetches
) -> None:
    """For an hour an issuer may be gone without anybody noticing; then nothing can be told any more."""
    assert await find(keys, issuer)
    issuer.fail(500)
    clock.turn(3599)
    assert await find(keys, issuer)
    assert (await settled(keys)).problem == "status_500"
    clock.turn(1)
    with pytest.raises(Refusal) as caught:
        await find(keys, issuer)
    assert (caught.value.code, caught.value.status) == ("keys_unavailable", 503)
    assert caught.value.headers == {"Retry-After": "4"}
    issuer.recover()
    clock.turn(5)
    assert await find(keys, issuer)
    assert fetches.problems == [None, "status_500", None]


async def settled(keys: KeySets) -> KeyStatus:
    """The status once no fetch is in flight: `load` joins it."""
    await keys.load()
    return keys.status()[0]


async def test_a_hanging_issuer_does_not_hold_up_those_whose_keys_are_known(
    keys: KeySets, issuer: TestIssuer, clock: TurnableClock
) -> None:
    """Stale keys are served while fresher ones are awaited, and those land when they come."""
    retired = issuer.kid()
    assert await find(keys, issuer)
    issuer.hang()
    issuer.rotate()
    clock.turn(600)
    assert await find(keys, issuer, retired)
    await issuer.asked()
    issuer.recover()
    await settled(keys)
    assert not await find(keys, issuer, retired)
    assert issuer.fetches == 2


async def test_without_any_keys_nobody_is_judged(gate: Gate, issuer: TestIssuer, clock: TurnableClock) -> None:
    """While the first fetch fails a good token is not called bad; soon after the issuer is back it is taken."""
    issuer.fail(503)
    token = issuer.mint()
    with pytest.raises(Refusal, match="keys_unavailable") as caught:
        await gate.admit(token)
    assert caught.value.headers == {"Retry-After": "5"}
    issuer.recover()
    with pytest.raises(Refusal, match="keys_unavailable"):
        await gate.admit(token)
    clock.turn(5)
    assert (await gate.admit(token)).subject == "alice"


async def test_an_unknown_key_is_no_defect_while_the_issuer_cannot_be_asked(
    gate: Gate, issuer: TestIssuer, clock: TurnableClock
) -> None:
    """A token signed by a new key during an outage may be good: 503, not 401."""
    await gate.admit(issuer.mint())
    issuer.rotate()
    issuer.fail(500)
    clock.turn(30)
    with pytest.raises(Refusal, match="keys_unavailable"):
        await gate.admit(issuer.mint())


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


async def test_an_empty_set_takes_every_key_back(keys: KeySets, issuer: TestIssuer, clock: TurnableClock) -> None:
    """An issuer that publishes no key has revoked them all."""
    assert await find(keys, issuer)
    issuer.key_set_body = b'{"keys":[]}'
    clock.turn(30)
    assert not await find(keys, issuer, "unknown")
    assert not await find(keys, issuer)
    assert not keys.status()[0].usable


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


async def test_status_and_load(keys: KeySets, issuer: TestIssuer, clock: TurnableClock, fetches: Fetches) -> None:
    """Readiness asks once for what is missing, says what is held, and asks no more while that is fresh."""
    assert keys.status() == (KeyStatus(issuer.url, usable=False, keys=0, age_seconds=None, problem=None),)
    issuer.extra_keys.append({"kty": "oct", "k": "c2VjcmV0", "kid": "shared"})
    await keys.load()
    clock.turn(7)
    await keys.load()
    assert keys.status() == (KeyStatus(issuer.url, usable=True, keys=1, age_seconds=7, problem=None),)
    assert fetches.seen == [Fetched(issuer.url, None, keys=1, ignored=1)]


async def test_closing_gives_up_a_fetch(
    policy: IssuerPolicy, egress: Egress, clock: TurnableClock, issuer: TestIssuer
) -> None:
    """A shutdown does not wait for a hanging issuer, and leaves no task behind."""
    keys = KeySets([policy], egress, clock)
    issuer.hang()
    waiting = asyncio.ensure_future(keys.load())
    await issuer.asked()
    await keys.close()
    await waiting
    assert not any("IssuerKeys._fetch" in repr(task) for task in asyncio.all_tasks())
    await keys.close()


async def test_one_issuers_keys_are_not_anothers(egress: Egress, clock: TurnableClock) -> None:
    """A key speaks for the issuer that published it only, even under the same key id."""
    async with TestIssuer(now=clock.unix) as one, TestIssuer(now=clock.unix) as other:
        policies = [
            IssuerPolicy(issuer=issuer.url, audience=AUDIENCE, algorithms=("ES256",), jwks_uri=issuer.jwks_uri)
            for issuer in (one, other)
        ]
        keys = KeySets(policies, egress, clock)
        assert await keys.find(one.url, one.kid(), "ES256") is not None
        assert await keys.find(other.url, one.kid(), "ES256") is None


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
