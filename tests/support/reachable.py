"""A configuration whose issuer, token endpoint and agent really run, on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.configuration import AGENT, CLIENT_CREDENTIALS, MINIMAL
from tests.support.issuer import TestIssuer
from tests.support.peers import Authority, Peer, Script, answers, serve
from tests.support.token_endpoint import TokenEndpoint

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@dataclass
class Surroundings:
    """What the file at ``config`` points at; all of it is in order until a test says otherwise."""

    config: Path
    issuer: TestIssuer
    endpoint: TokenEndpoint
    agent: Peer

    def change(self, old: str, new: str) -> None:
        text = self.config.read_text()
        assert old in text
        self.config.write_text(text.replace(old, new))


@asynccontextmanager
async def surroundings(directory: Path, script: Script | None = None) -> AsyncIterator[Surroundings]:
    """``script`` is how the agent behaves, behind TLS."""
    authority = Authority(directory)
    async with (
        TestIssuer() as issuer,
        TokenEndpoint() as endpoint,
        serve(script or answers(NOT_FOUND), authority.server()) as agent,
    ):
        endpoint.refuse("unsupported_grant_type")
        _write_secrets(directory)
        text = (MINIMAL + AGENT + CLIENT_CREDENTIALS).replace("[server]\n", "[server]\ndevelopment = true\n")
        for old, new in (
            ("https://login.example.org/token", endpoint.url),
            ("https://login.example.org", issuer.url),
            ("https://literature.example.org", agent.url(path="")),
            ("secrets/", ""),
        ):
            text = text.replace(old, new)
        config = directory / "relay.toml"
        config.write_text(f'{text}\n[egress]\nca_file = "{authority.file}"\n')
        yield Surroundings(config, issuer, endpoint, agent)


def _write_secrets(directory: Path) -> None:
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for name, content in (("token", b"pilot-secret-0123456789abcdef"), ("workbench.pem", pem)):
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o600)
