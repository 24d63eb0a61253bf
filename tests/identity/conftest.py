"""An issuer, the relay's way out to it, and a verifier of its tokens."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from registry.egress import Egress, EgressPolicy
from relay.errors import Refusal
from relay.identity.keys import Fetched, Freshness, KeySets, KeyStatus
from relay.identity.model import IssuerPolicy, Principal
from relay.identity.refusals import Defect, unauthenticated
from relay.identity.tokens import Verifier
from tests.conftest import TurnableClock
from tests.support.issuer import AUDIENCE, TestIssuer


@pytest.fixture
async def issuer(clock: TurnableClock) -> AsyncIterator[TestIssuer]:
    async with TestIssuer(now=clock.unix) as running:
        yield running


@pytest.fixture(scope="session")
def door() -> Egress:
    """Made once, since reading the system's certificates takes longer than most tests."""
    return Egress(EgressPolicy(development=True))


@pytest.fixture
async def egress(door: Egress) -> AsyncIterator[Egress]:
    async with door as opened:
        yield opened


@pytest.fixture
def policy(issuer: TestIssuer) -> IssuerPolicy:
    return IssuerPolicy(issuer=issuer.url, audience=AUDIENCE, algorithms=("ES256", "RS256"), jwks_uri=issuer.jwks_uri)


@dataclass
class Fetches:
    """What was observed of fetches."""

    seen: list[Fetched] = field(default_factory=list)

    @property
    def problems(self) -> list[str | None]:
        return [fetched.problem for fetched in self.seen]


@pytest.fixture
def fetches() -> Fetches:
    return Fetches()


@pytest.fixture
async def keys(policy: IssuerPolicy, egress: Egress, clock: TurnableClock, fetches: Fetches) -> AsyncIterator[KeySets]:
    made = KeySets([policy], egress, clock, Freshness(patience=0), fetches.seen.append)
    yield made
    await made.close()


@dataclass
class Gate:
    """A verifier, and the defects that it reported."""

    verifier: Verifier
    defects: list[Defect]

    async def admit(self, token: str) -> Principal:
        return await self.verifier.verify([f"Bearer {token}"])

    async def refuse(self, token: str) -> Defect:
        """Why the token is refused. That the caller is not told is checked on the way."""
        self.defects.clear()
        with pytest.raises(Refusal) as caught:
            await self.admit(token)
        told = caught.value
        (reason,) = self.defects
        the_one = unauthenticated(token_sent=True)
        assert (told.code, told.detail, told.headers) == (the_one.code, the_one.detail, the_one.headers)
        assert (told.errors, told.extra, told.__cause__, told.__context__) == ((), {}, None, None)
        return reason


@pytest.fixture
def gate(policy: IssuerPolicy, keys: KeySets, clock: TurnableClock) -> Gate:
    defects: list[Defect] = []
    return Gate(Verifier([policy], keys, clock, defects.append), defects)


async def find(keys: KeySets, issuer: TestIssuer, kid: str | None = None) -> bool:
    return await keys.find(issuer.url, kid or issuer.kid(), "ES256") is not None


async def settled(keys: KeySets) -> KeyStatus:
    """The status once no fetch is in flight: `load` joins it."""
    await keys.load()
    return keys.status()[0]
