"""The demonstration's certificate authority outlives its processes, and vouches for localhost."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiohttp import web

from registry.egress import Egress, EgressFailure, EgressPolicy
from relay.demo.authority import Authority
from relay.demo.process import listen, serving, url_of
from tests.support.demo import get


def _certificate(directory: str) -> bytes:
    return Authority.open(Path(directory)).ca_file.read_bytes()


def test_kept(tmp_path: Path) -> None:
    """Opened again it is the same authority, and its key can be read by nobody else."""
    first = _certificate(str(tmp_path))
    assert _certificate(str(tmp_path)) == first
    assert (tmp_path / "ca-key.pem").stat().st_mode & 0o777 == 0o600


def test_made_once(tmp_path: Path) -> None:
    """Whoever open it at the same time, each with a file of their own, make one authority between them."""
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(_certificate, [str(tmp_path)] * 8))) == 1


async def test_vouches_for_localhost(authority: Authority, egress: Egress) -> None:
    """A client that trusts the authority reaches its server; one that does not gets no further than TLS."""
    with listen(0) as listener:
        url = url_of(listener, secure=True)
        async with serving(web.Application(), listener, tls=authority.server_context()):
            assert (await get(egress, url)).status == 404
            async with Egress(EgressPolicy(development=True)) as stranger:
                with pytest.raises(EgressFailure, match="tls_failed"):
                    await get(stranger, url)
