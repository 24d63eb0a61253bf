"""A private certificate authority for real TLS on loopback."""

import pytest

from tests.support.peers import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the egress of a test is told to trust."""
    return Authority(tmp_path_factory.mktemp("authority"))
