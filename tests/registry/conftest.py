"""Real TLS on loopback, and token endpoints."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from registry.credentials import Authorizations
from registry.egress import Egress, EgressPolicy
from tests.conftest import TurnableClock
from tests.support.credentials import KEY, RELAY, private_file
from tests.support.peers import Authority
from tests.support.token_endpoint import TokenEndpoint


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the egress of a test is told to trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def endpoint() -> AsyncIterator[TokenEndpoint]:
    async with TokenEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def authorizations(clock: TurnableClock) -> AsyncIterator[Authorizations]:
    async with Egress(EgressPolicy(development=True)) as egress:
        yield Authorizations(egress, relay_issuer=RELAY, now=clock.unix)


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    """The registered client's key."""
    return private_file(tmp_path / "client.pem", KEY.as_pem(private=True))
