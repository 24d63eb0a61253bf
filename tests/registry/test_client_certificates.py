"""Client certificates (RFC 8705): presented where a credential names them, and never by another's connection."""

import dataclasses
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from registry.credentials import Authorization, Authorizations
from registry.credentials.client_certificates import ClientCertificates
from registry.credentials.secret_files import SecretUnusable
from registry.egress import Egress, EgressFailure, EgressPolicy, Exchange
from registry.model import ClientCredentials, StaticBearer
from tests.conftest import TurnableClock
from tests.support.credentials import ISSUER, RELAY, RESOURCE, access, failure, private_file
from tests.support.peers import Authority, Line, Peer, Script, answer_all, serve

Pair = tuple[str, str]


@pytest.fixture
async def egress(authority: Authority) -> AsyncIterator[Egress]:
    async with Egress(EgressPolicy(ca_file=authority.file, development=True)) as egress:
        yield egress


@pytest.fixture
def one(authority: Authority, tmp_path: Path) -> Pair:
    return authority.client("one.example", tmp_path)


@pytest.fixture
def two(authority: Authority, tmp_path: Path) -> Pair:
    return authority.client("two.example", tmp_path)


def bearer(tmp_path: Path, pair: Pair) -> StaticBearer:
    return StaticBearer(
        issuer=ISSUER,
        client_id="workbench",
        token_file=private_file(tmp_path / "token", b"pilot-token"),
        client_certificate_file=pair[0],
        client_certificate_key_file=pair[1],
    )


class TestConnections:
    async def test_presented(self, authority: Authority, egress: Egress, one: Pair) -> None:
        """A server that asks for a certificate gets the one that the exchange was given."""
        identity = egress.client_identity(*one)
        async with serve(answer_all, authority.server_for_clients()) as peer:
            answer = await egress.exchange("GET", peer.url(), headers={}, deadline=10, client_identity=identity)
        assert answer.status == 201
        assert [received.client for received in peer.received] == ["one.example"]

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    async def test_none(self, authority: Authority, egress: Egress, version: ssl.TLSVersion) -> None:
        """Without one nothing is presented: such a server ends the connection and has seen no request."""
        async with serve(answer_all, authority.server_for_clients(version=version)) as peer:
            with pytest.raises(EgressFailure) as raised:
                await egress.exchange("GET", peer.url(), headers={}, deadline=10)
        assert raised.value.kind in {"tls_failed", "connection_reset"}
        assert peer.received == []

    async def test_servers_are_still_verified(self, authority: Authority, one: Pair) -> None:
        """Proving who we are takes nothing from the proof that the server owes."""
        async with (
            serve(answer_all, authority.server("other.example")) as peer,
            Egress(EgressPolicy(ca_file=authority.file, development=True)) as egress,
            Egress(EgressPolicy(development=True)) as strangers,
        ):
            for door in (egress, strangers):
                identity = door.client_identity(*one)
                with pytest.raises(EgressFailure, match="tls_failed"):
                    await door.exchange("GET", peer.url(), headers={}, deadline=10, client_identity=identity)
        assert peer.received == []

    async def test_never_by_anothers_connection(
        self, authority: Authority, egress: Egress, one: Pair, two: Pair
    ) -> None:
        """Kept connections carry requests of their own certificate only, and of none where there was none."""
        tls = authority.server_for_clients()
        tls.verify_mode = ssl.CERT_OPTIONAL
        identities = {"one.example": egress.client_identity(*one), "two.example": egress.client_identity(*two)}
        order = ["one.example", None, "two.example", "one.example", None, "two.example"]
        async with serve(answer_all, tls) as peer:
            for name in order:
                identity = identities[name] if name else None
                await egress.exchange("GET", peer.url(), headers={}, deadline=10, client_identity=identity)
        assert [received.client for received in peer.received] == order
        assert peer.connections == 3


class TestFiles:
    async def test_kept(self, egress: Egress, one: Pair, tmp_path: Path) -> None:
        """The same files are one identity, so that its connections may be kept."""
        certificates = ClientCertificates(egress.client_identity)
        credential = bearer(tmp_path, one)
        assert await certificates.of(credential) is await certificates.of(credential)

    @pytest.mark.parametrize("only", ["client_certificate_file", "client_certificate_key_file"])
    async def test_none(self, egress: Egress, one: Pair, tmp_path: Path, only: str) -> None:
        """A credential without both files has no certificate."""
        certificates = ClientCertificates(egress.client_identity)
        assert await certificates.of(dataclasses.replace(bearer(tmp_path, one), **{only: None})) is None

    async def test_renewed(self, authority: Authority, egress: Egress, one: Pair, two: Pair, tmp_path: Path) -> None:
        """A certificate that is renewed in its files is presented from then on, by new connections."""
        certificates, credential = ClientCertificates(egress.client_identity), bearer(tmp_path, one)
        async with serve(answer_all, authority.server_for_clients()) as peer:
            for pair in (one, two):
                for old, new in zip(one, pair, strict=True):
                    if old != new:
                        Path(new).replace(old)  # noqa: ASYNC240 - a test's own files
                identity = await certificates.of(credential)
                await egress.exchange("GET", peer.url(), headers={}, deadline=10, client_identity=identity)
        assert [received.client for received in peer.received] == ["one.example", "two.example"]

    async def test_key_of_another(self, egress: Egress, one: Pair, two: Pair, tmp_path: Path) -> None:
        """A certificate and a key that do not belong together are said not to."""
        with pytest.raises(SecretUnusable, match="the key is another certificate's"):
            await ClientCertificates(egress.client_identity).of(bearer(tmp_path, (one[0], two[1])))

    async def test_missing(self, egress: Egress, one: Pair, tmp_path: Path) -> None:
        """A file that is not there is named."""
        for pair in ((one[0], str(tmp_path / "gone")), (str(tmp_path / "gone"), one[1])):
            with pytest.raises(SecretUnusable, match="gone cannot be read: No such file"):
                await ClientCertificates(egress.client_identity).of(bearer(tmp_path, pair))

    async def test_swapped(self, egress: Egress, one: Pair, tmp_path: Path) -> None:
        """The files in each other's place are refused, and nothing of the key is quoted."""
        private_file(Path(one[0]), Path(one[0]).read_bytes())  # noqa: ASYNC240 - a test's own files
        with pytest.raises(SecretUnusable, match="holds no private key in PEM"):
            await ClientCertificates(egress.client_identity).of(bearer(tmp_path, (one[1], one[0])))

    async def test_no_certificate(self, egress: Egress, one: Pair, tmp_path: Path) -> None:
        """A file that holds something else is refused."""
        with pytest.raises(SecretUnusable, match="no PEM"):
            await ClientCertificates(egress.client_identity).of(bearer(tmp_path, (one[1], one[1])))

    async def test_open_to_others(self, egress: Egress, one: Pair, tmp_path: Path) -> None:
        """The certificate may be read by everybody, its key by nobody else."""
        certificates = ClientCertificates(egress.client_identity)
        Path(one[0]).chmod(0o644)  # noqa: ASYNC240 - a test's own files
        assert await certificates.of(bearer(tmp_path, one))
        Path(one[1]).chmod(0o644)  # noqa: ASYNC240 - likewise
        with pytest.raises(SecretUnusable, match="chmod 600"):
            await certificates.of(bearer(tmp_path, one))

    async def test_encrypted(self, egress: Egress, one: Pair, tmp_path: Path) -> None:
        """A key with a passphrase is refused, and nobody is asked for one: not even where the check is passed by."""
        key = load_pem_private_key(Path(one[1]).read_bytes(), None)  # noqa: ASYNC240 - a test's own files
        sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
        private_file(Path(one[1]), sealed)
        with pytest.raises(SecretUnusable, match="without a passphrase"):
            await ClientCertificates(egress.client_identity).of(bearer(tmp_path, one))
        with pytest.raises(ssl.SSLError):
            egress.client_identity(*one)


class TestCredentials:
    async def test_token_endpoint_and_specialist(
        self, authority: Authority, egress: Egress, one: Pair, key_file: str, clock: TurnableClock
    ) -> None:
        """The certificate goes to the token endpoint, which may bind the token to it, and with each request."""
        token = {"access_token": "bound", "token_type": "Bearer", "expires_in": 300}
        async with serve(answering(json.dumps(token).encode()), authority.server_for_clients()) as peer:
            credential = granted(peer, one, key_file)
            given = await access(Authorizations(egress, relay_issuer=RELAY, now=clock.unix), credential)

            async def send(authorization: Authorization) -> Exchange:
                return await egress.exchange(
                    "GET",
                    peer.url(),
                    headers=authorization.headers,
                    deadline=10,
                    client_identity=authorization.client_identity,
                )

            assert (await given.exchange("GET", peer.url(), send)).status == 200
        assert [received.client for received in peer.received] == ["one.example", "one.example"]
        assert peer.connections == 1

    async def test_static_bearer(self, egress: Egress, one: Pair, tmp_path: Path, clock: TurnableClock) -> None:
        """A pilot's secret may go over a certificate's connection too."""
        given = await access(Authorizations(egress, relay_issuer=RELAY, now=clock.unix), bearer(tmp_path, one))
        assert given.client_identity is not None
        assert given.token.value == "pilot-token"

    async def test_unusable(
        self, authority: Authority, egress: Egress, one: Pair, two: Pair, key_file: str, clock: TurnableClock
    ) -> None:
        """Without its certificate a credential asks for no token: it would be unbound."""
        async with serve(answer_all, authority.server()) as peer:
            credential = granted(peer, (one[0], two[1]), key_file)
            authorizations = Authorizations(egress, relay_issuer=RELAY, now=clock.unix)
            refused = await failure(authorizations, credential)
        assert (refused.reason, refused.temporary) == ("client_certificate_unusable", False)
        assert "another certificate's" in str(refused)
        assert peer.connections == 0


def granted(peer: Peer, pair: Pair, key_file: str) -> ClientCredentials:
    return ClientCredentials(
        issuer=ISSUER,
        client_id="workbench",
        token_endpoint=peer.url(path="/token"),
        key_file=key_file,
        resource=RESOURCE,
        client_certificate_file=pair[0],
        client_certificate_key_file=pair[1],
    )


def answering(body: bytes) -> Script:
    """A script: every request gets 200 with this body."""

    async def script(line: Line) -> None:
        while True:
            await line.receive()
            await line.send(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            await line.send(body)

    return script
