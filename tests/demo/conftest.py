"""The demonstration's servers, running in the test's own loop on its clock."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from registry.credentials import Authorizations
from registry.egress import Egress, EgressPolicy
from relay.clock import Clock
from relay.demo import issuer as issuers
from relay.demo.authority import Authority
from relay.demo.grants import Resources
from relay.demo.issuer import Issuer
from tests.support.demo import RELAY, Client


@pytest.fixture
def issuer_state(tmp_path: Path) -> Path:
    return tmp_path / "issuer"


@pytest.fixture
async def issuer(issuer_state: Path, clock: Clock) -> AsyncIterator[Issuer]:
    async with issuers.running(issuer_state, Resources(relay=RELAY), clock=clock) as issuer:
        yield issuer


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.open(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def egress(authority: Authority) -> AsyncIterator[Egress]:
    async with Egress(EgressPolicy(development=True, ca_file=str(authority.ca_file))) as egress:
        yield egress


@pytest.fixture
def authorizations(egress: Egress, clock: Clock) -> Authorizations:
    return Authorizations(egress, relay_issuer=RELAY, now=clock.unix)


@pytest.fixture
def client(issuer: Issuer, issuer_state: Path, egress: Egress) -> Client:
    return Client(issuer, issuer_state, egress)
