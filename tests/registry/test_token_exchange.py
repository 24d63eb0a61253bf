"""An owner's live token is exchanged, kept for that owner alone, and never outlived by what it brought (RFC 8693)."""

import asyncio
import dataclasses
from typing import Any

import pytest

from registry.credentials import Authorizations
from registry.credentials.token_exchange import ACCESS_TOKEN_TYPE
from registry.model import ClientCredentials, TokenExchange
from tests.conftest import TurnableClock
from tests.support.credentials import ISSUER, KEY, RESOURCE, access, failure
from tests.support.issuer import TestIssuer
from tests.support.token_endpoint import TokenEndpoint, authorization_of

ALICE, BOB = 1, 2
NOW = 1_800_000_000


class Issuer(TestIssuer):
    """Mints live tokens under a name of its own, without being reachable under it."""

    __test__ = False

    def live(self, seconds: int = 900, **claims: object) -> str:
        return self.mint(**{"iss": ISSUER, "exp": NOW + seconds, **claims})


@pytest.fixture
def issuer(clock: TurnableClock) -> Issuer:
    return Issuer(now=clock.unix)


@pytest.fixture
def exchange(endpoint: TokenEndpoint, key_file: str) -> TokenExchange:
    endpoint.members = {"issued_token_type": ACCESS_TOKEN_TYPE}
    return TokenExchange(
        issuer=ISSUER,
        client_id="workbench",
        token_endpoint=endpoint.url,
        key_file=key_file,
        resource=RESOURCE,
        scope="feedback:write",
    )


async def value(
    authorizations: Authorizations, credential: TokenExchange, token: str, owner: int | None = ALICE, **options: Any
) -> str:
    given = await access(authorizations, credential, subject=None, subject_token=token, owner=owner, **options)
    return given.token.value


class TestRequest:
    async def test_form(
        self, authorizations: Authorizations, exchange: TokenExchange, endpoint: TokenEndpoint, issuer: Issuer
    ) -> None:
        """The live token is the subject, resource and scope are the registration's, and the client proves itself."""
        live = issuer.live()
        given = await access(authorizations, exchange, subject=None, subject_token=live, owner=ALICE)

        form = dict(endpoint.forms[0])
        assert form.pop("client_assertion")
        assert form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": live,
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "resource": RESOURCE,
            "scope": "feedback:write",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }
        shown = await authorization_of(given)
        assert shown.startswith("Bearer ")
        assert live not in shown

    async def test_client_assertions(
        self, authorizations: Authorizations, exchange: TokenExchange, endpoint: TokenEndpoint, issuer: Issuer
    ) -> None:
        """The client proves itself to the issuer alone, with a fresh jti each time."""
        for _ in range(2):
            await value(authorizations, exchange, issuer.live(), fresh=True)
        proofs = [endpoint.assertion("client_assertion", KEY, n).claims for n in (0, 1)]
        assert {proof["aud"] for proof in proofs} == {ISSUER}
        assert {proof["iss"] for proof in proofs} == {"workbench"}
        assert proofs[0]["jti"] != proofs[1]["jti"]

    @pytest.mark.parametrize(
        ("claims", "why"),
        [
            ({"iss": "https://other.example.org"}, "subject_token_unfit"),
            ({"iss": None}, "subject_token_unfit"),
            ({"iss": [ISSUER]}, "subject_token_unfit"),
            ({"exp": None}, "subject_token_unfit"),
            ({"exp": "9999999999"}, "subject_token_unfit"),
            ({"exp": NOW}, "owner_absent:token_expired"),
            ({"exp": True}, "owner_absent:token_expired"),
        ],
        ids=str,
    )
    async def test_unfit_subject_tokens(
        self,
        authorizations: Authorizations,
        exchange: TokenExchange,
        endpoint: TokenEndpoint,
        issuer: Issuer,
        claims: dict[str, object],
        why: str,
    ) -> None:
        """A token of another issuer is shown to nobody, and one that has expired is no presence."""
        refused = await failure(authorizations, exchange, subject_token=issuer.live(**claims), owner=ALICE)
        assert refused.reason == why
        assert endpoint.forms == []

    @pytest.mark.parametrize("token", ["", "opaque", "a.b.c", "a.e30.c", "a.W10.c", "..", "é.é.é", "a.e30.c.d"])
    async def test_no_jwt(
        self, authorizations: Authorizations, exchange: TokenExchange, endpoint: TokenEndpoint, token: str
    ) -> None:
        """What is no token of the issuer's is shown to nobody."""
        refused = await failure(authorizations, exchange, subject_token=token, owner=ALICE)
        assert (refused.reason, refused.temporary) == ("subject_token_unfit", False)
        assert endpoint.forms == []

    async def test_owner_absent(
        self, authorizations: Authorizations, exchange: TokenExchange, endpoint: TokenEndpoint, issuer: Issuer
    ) -> None:
        """Without a live token nothing is asked and nothing kept is used: the owner is waited for."""
        await value(authorizations, exchange, issuer.live())
        refused = await failure(authorizations, exchange, owner=ALICE)
        assert (refused.reason, refused.temporary, refused.needs_owner) == ("owner_absent", True, True)
        assert len(endpoint.forms) == 1


class TestAnswers:
    @pytest.mark.parametrize(
        "issued",
        [None, "urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:refresh_token", 7, ["x"]],
        ids=str,
    )
    async def test_other_kinds(
        self,
        authorizations: Authorizations,
        exchange: TokenExchange,
        endpoint: TokenEndpoint,
        issuer: Issuer,
        issued: object,
    ) -> None:
        """Only an access token is taken (section 2.2.1): another kind is good for something else."""
        endpoint.members = {"issued_token_type": issued}
        refused = await failure(authorizations, exchange, subject_token=issuer.live(), owner=ALICE)
        assert (refused.reason, refused.temporary) == ("malformed_token_answer:issued_token_type", False)

    @pytest.mark.parametrize("kind", ["N_A", "DPoP", "mac", None], ids=str)
    async def test_other_token_types(
        self,
        authorizations: Authorizations,
        exchange: TokenExchange,
        endpoint: TokenEndpoint,
        issuer: Issuer,
        kind: object,
    ) -> None:
        """A token that cannot be presented as asked for is not presented at all."""
        endpoint.members |= {"token_type": kind}
        refused = await failure(authorizations, exchange, subject_token=issuer.live(), owner=ALICE)
        assert refused.reason == "malformed_token_answer:token_type"

    @pytest.mark.parametrize("error", ["invalid_request", "invalid_grant"])
    async def test_subject_refused(
        self,
        authorizations: Authorizations,
        exchange: TokenExchange,
        endpoint: TokenEndpoint,
        issuer: Issuer,
        error: str,
    ) -> None:
        """A live token that the server does not take any more means waiting for the owner, not giving up."""
        endpoint.refuse(error)
        live = issuer.live()
        refused = await failure(authorizations, exchange, subject_token=live, owner=ALICE)
        assert (refused.reason, refused.temporary) == (f"subject_token_refused:{error}", True)
        assert refused.needs_owner
        assert live not in str(refused)

    @pytest.mark.parametrize(
        ("error", "status", "temporary"),
        [("invalid_client", 401, False), ("invalid_target", 400, False), ("temporarily_unavailable", 503, True)],
    )
    async def test_other_refusals(
        self,
        authorizations: Authorizations,
        exchange: TokenExchange,
        endpoint: TokenEndpoint,
        issuer: Issuer,
        error: str,
        status: int,
        *,
        temporary: bool,
    ) -> None:
        """What is not about the owner's token is not laid at the owner's door."""
        endpoint.refuse(error, status)
        refused = await failure(authorizations, exchange, subject_token=issuer.live(), owner=ALICE)
        assert (refused.reason, refused.temporary) == (f"token_refused:{error}", temporary)
        assert not refused.needs_owner


class TestKeeping:
    async def test_until_shortly_before_its_end(
        self, authorizations: Authorizations, exchange: TokenExchange, issuer: Issuer, clock: TurnableClock
    ) -> None:
        """A token of 300 seconds is used for 270, by whichever live token its owner is present."""
        first = await value(authorizations, exchange, issuer.live())
        clock.turn(269)
        assert await value(authorizations, exchange, issuer.live(800)) == first
        clock.turn(1)
        assert await value(authorizations, exchange, issuer.live()) != first

    async def test_not_beyond_the_subject_token(
        self, authorizations: Authorizations, exchange: TokenExchange, issuer: Issuer, clock: TurnableClock
    ) -> None:
        """What a live token brought is not used after that token's end, although another one is there."""
        first = await value(authorizations, exchange, issuer.live(60))
        clock.turn(59)
        assert await value(authorizations, exchange, issuer.live()) == first
        clock.turn(1)
        assert await value(authorizations, exchange, issuer.live()) != first

    async def test_never_for_another(
        self, authorizations: Authorizations, exchange: TokenExchange, endpoint: TokenEndpoint, issuer: Issuer
    ) -> None:
        """Each owner has tokens of their own, and each specialist."""
        other = dataclasses.replace(exchange, resource="https://chemistry.example.org")
        alice, bob = issuer.live(), issuer.live(sub="bob")
        values = [
            await value(authorizations, exchange, alice),
            await value(authorizations, exchange, bob, BOB),
            await value(authorizations, other, alice),
        ]
        assert len(set(values)) == 3
        assert [form["subject_token"] for form in endpoint.forms] == [alice, bob, alice]
        assert await value(authorizations, exchange, alice) == values[0]

    async def test_unknown_owner(self, authorizations: Authorizations, exchange: TokenExchange, issuer: Issuer) -> None:
        """Without the owner's number nothing is kept."""
        live = issuer.live()
        assert await value(authorizations, exchange, live, None) != await value(authorizations, exchange, live, None)

    async def test_fresh(self, authorizations: Authorizations, exchange: TokenExchange, issuer: Issuer) -> None:
        """A token that a specialist refused is replaced, and the new one kept."""
        live = issuer.live()
        first = await value(authorizations, exchange, live)
        second = await value(authorizations, exchange, live, fresh=True)
        assert first != second == await value(authorizations, exchange, live)

    async def test_bounded(
        self,
        authorizations: Authorizations,
        exchange: TokenExchange,
        endpoint: TokenEndpoint,
        issuer: Issuer,
    ) -> None:
        """The owner who was away for longest makes room; the others' tokens stay, and so does the client's."""
        authorizations._owners._capacity = 2
        machine = ClientCredentials(
            issuer=ISSUER,
            client_id="workbench",
            token_endpoint=endpoint.url,
            key_file=exchange.key_file,
            resource=RESOURCE,
        )
        client = (await access(authorizations, machine)).token
        live = issuer.live()
        values = {owner: await value(authorizations, exchange, live, owner) for owner in (1, 2)}
        await value(authorizations, exchange, live, 1)
        values[3] = await value(authorizations, exchange, live, 3)
        await value(authorizations, exchange, live, 3)

        assert len(authorizations._owners) == 2
        assert await value(authorizations, exchange, live, 1) == values[1]
        assert await value(authorizations, exchange, live, 3) == values[3]
        assert await value(authorizations, exchange, live, 2) != values[2]
        assert (await access(authorizations, machine)).token is client

    async def test_shown_nowhere(self, authorizations: Authorizations, exchange: TokenExchange, issuer: Issuer) -> None:
        """No representation shows the live token or what it brought."""
        live = issuer.live()
        given = await access(authorizations, exchange, subject_token=live, owner=ALICE)
        shown = repr(authorizations) + repr(vars(authorizations)) + repr(given)
        assert live not in shown
        assert given.token.value not in shown


class TestSingleFlight:
    async def test_one_exchange(
        self, authorizations: Authorizations, exchange: TokenExchange, endpoint: TokenEndpoint, issuer: Issuer
    ) -> None:
        """Twenty attempts of one owner at once exchange once; another owner's do not wait for them."""
        endpoint.hang()
        live, bob = issuer.live(), issuer.live(sub="bob")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(value(authorizations, exchange, live)) for _ in range(20)]
            await endpoint.arrived.acquire()
            other = group.create_task(value(authorizations, exchange, bob, BOB))
            await endpoint.arrived.acquire()
            endpoint.recover()
        assert len({task.result() for task in tasks}) == 1
        assert other.result() != tasks[0].result()
        assert len(endpoint.forms) == 2

    async def test_refusal_of_another_live_token(
        self, authorizations: Authorizations, exchange: TokenExchange, endpoint: TokenEndpoint, issuer: Issuer
    ) -> None:
        """Who waits with another live token tries that one; who waits with the refused one is told, without asking."""
        endpoint.hang()
        endpoint.refuse("invalid_grant")
        ended, live = issuer.live(), issuer.live()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(failure(authorizations, exchange, subject_token=ended, owner=ALICE))
            await endpoint.arrived.acquire()
            same = group.create_task(failure(authorizations, exchange, subject_token=ended, owner=ALICE))
            other = group.create_task(failure(authorizations, exchange, subject_token=live, owner=ALICE))
            await asyncio.sleep(0)
            endpoint.recover()
        assert [form["subject_token"] for form in endpoint.forms] == [ended, live]
        assert {task.result().reason for task in (first, same, other)} == {"subject_token_refused:invalid_grant"}

    async def test_busy_ones_stay(
        self, authorizations: Authorizations, exchange: TokenExchange, endpoint: TokenEndpoint, issuer: Issuer
    ) -> None:
        """A fetch under way is not forgotten for others: whoever comes for the same waits for it."""
        authorizations._owners._capacity = 1
        endpoint.hang()
        live = issuer.live()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(value(authorizations, exchange, live, 1))
            await endpoint.arrived.acquire()
            group.create_task(value(authorizations, exchange, live, 2))
            await endpoint.arrived.acquire()
            again = group.create_task(value(authorizations, exchange, live, 1))
            await asyncio.sleep(0)
            endpoint.recover()
        assert first.result() == again.result()
        assert len(endpoint.forms) == 2
