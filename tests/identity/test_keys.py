"""When the issuers' keys are fetched, how long they are good, and what happens while an issuer is away."""

import asyncio

import pytest

from registry.egress import Egress
from relay.errors import Refusal
from relay.identity.keys import Fetched, Freshness, KeySets, KeyStatus
from relay.identity.model import IssuerPolicy
from tests.conftest import TurnableClock
from tests.identity.conftest import Fetches, Gate, find, settled
from tests.support.issuer import AUDIENCE, TestIssuer


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


async def test_an_empty_set_takes_every_key_back(keys: KeySets, issuer: TestIssuer, clock: TurnableClock) -> None:
    """An issuer that publishes no key has revoked them all."""
    assert await find(keys, issuer)
    issuer.key_set_body = b'{"keys":[]}'
    clock.turn(30)
    assert not await find(keys, issuer, "unknown")
    assert not await find(keys, issuer)
    assert not keys.status()[0].usable


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
    keys = KeySets([policy], egress, clock, Freshness(deadline=3600))
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
