"""The credentials of agents, as they are written and as the registry gets them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, RSAKey

from registry import model
from relay.config import Config, require_files
from relay.errors import StartupError
from tests.support.configuration import AGENT, CLIENT_CREDENTIALS, MINIMAL
from tests.support.credentials import private_file
from tests.support.peers import Authority

Load = Callable[..., Config]
Refused = Callable[[str], str]

GRANTING = ("client_credentials", "owner_assertion", "token_exchange")
MODELS = {"owner_assertion": model.OwnerAssertion, "token_exchange": model.TokenExchange}
CERTIFICATE = 'client_certificate_file = "secrets/c.pem"\nclient_certificate_key_file = "secrets/k.pem"\n'
BOUND = 'dpop = true\ndpop_key_file = "secrets/dpop.pem"\n'


def credential_of(mode: str, more: str = "") -> str:
    """A file whose one credential has this mode, with more keys."""
    agent = AGENT.partition("  [[agents.credentials]]")[0]
    return MINIMAL + agent + CLIENT_CREDENTIALS.replace("client_credentials", mode) + more


@pytest.mark.parametrize("mode", GRANTING)
def test_every_key_of_a_granting_mode(loaded: Load, tmp_path: Path, mode: str):
    """What a mode is told about its token endpoint, its keys and its certificate reaches the registry."""
    [credential] = loaded(credential_of(mode, f'scope = "a b"\n{BOUND}{CERTIFICATE}')).agents[0].credentials
    assert credential == MODELS.get(mode, model.ClientCredentials)(
        issuer="https://login.example.org",
        client_id="workbench",
        token_endpoint="https://login.example.org/token",
        key_file=str(tmp_path / "secrets/workbench.pem"),
        resource="https://literature.example.org",
        scope="a b",
        dpop=True,
        dpop_key_file=str(tmp_path / "secrets/dpop.pem"),
        client_certificate_file=str(tmp_path / "secrets/c.pem"),
        client_certificate_key_file=str(tmp_path / "secrets/k.pem"),
    )


def test_a_static_bearer_may_have_a_certificate(loaded: Load, tmp_path: Path):
    """The certificate is the connection's, whatever goes over it."""
    [credential] = loaded(MINIMAL + AGENT + CERTIFICATE).agents[0].credentials
    assert isinstance(credential, model.StaticBearer)
    assert credential.client_certificate_file == str(tmp_path / "secrets/c.pem")


@pytest.mark.parametrize("key", ["token_endpoint", "key_file", "resource"])
def test_an_exchange_needs_what_a_grant_needs(refused: Refused, key: str):
    """The token endpoint is pinned here: a credential without one is refused, and none is looked up."""
    text = credential_of("token_exchange")
    without = "".join(line for line in text.splitlines(keepends=True) if not line.strip().startswith(f"{key} ="))
    assert f"credentials no. 1, {key}: is missing" in refused(without)


@pytest.mark.parametrize("mode", GRANTING)
def test_token_endpoints_are_https(refused: Refused, mode: str):
    """The owner's own token and our assertions go there."""
    text = credential_of(mode).replace("https://login.example.org/token", "http://login.example.org/token")
    assert "credentials no. 1, token_endpoint" in refused(text)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ('client_certificate_file = "c.pem"\n', "client_certificate_key_file"),
        ('client_certificate_key_file = "k.pem"\n', "client_certificate_file"),
    ],
)
@pytest.mark.parametrize("mode", [*GRANTING, "static_bearer"])
def test_a_certificate_and_its_key_go_together(refused: Refused, mode: str, more: str, key: str):
    """One without the other would quietly present nothing."""
    text = MINIMAL + AGENT + more if mode == "static_bearer" else credential_of(mode, more)
    assert f"credentials no. 1, {key}: is missing: a certificate and its key go together" in refused(text)


def test_a_key_for_proofs_needs_proofs(refused: Refused):
    """A key that nothing uses is a slip of the pen."""
    report = refused(credential_of("token_exchange", 'dpop_key_file = "dpop.pem"\n'))
    assert "credentials no. 1, dpop_key_file: does nothing without dpop = true" in report


def test_a_static_bearer_cannot_be_bound(refused: Refused):
    """A secret from a file is bound to nothing."""
    assert "credentials no. 1, dpop: is not a key of this table" in refused(MINIMAL + AGENT + "dpop = true\n")


class TestFiles:
    @pytest.fixture
    def secrets(self, tmp_path: Path) -> Path:
        """Everything that a bound credential with a certificate names, in order."""
        secrets = tmp_path / "secrets"
        secrets.mkdir()
        private_file(secrets / "workbench.pem", ECKey.generate_key("P-256").as_pem(private=True))
        private_file(secrets / "dpop.pem", ECKey.generate_key("P-256").as_pem(private=True))
        certificate, key = Authority(secrets).client("relay.example", secrets)
        Path(certificate).rename(secrets / "c.pem")
        Path(key).rename(secrets / "k.pem")
        return secrets

    @pytest.fixture
    def config(self, loaded: Load) -> Config:
        return loaded(credential_of("token_exchange", BOUND + CERTIFICATE))

    async def told(self, config: Config) -> list[str]:
        with pytest.raises(StartupError) as refusal:
            await require_files(config)
        return str(refusal.value).splitlines()

    @pytest.mark.usefixtures("secrets")
    async def test_in_order(self, config: Config):
        """Files that an attempt could use let the relay start."""
        await require_files(config)

    async def test_missing(self, config: Config):
        """Each file that is not there has its line."""
        lines = await self.told(config)
        assert all(line.startswith("[[agents]] literature, credentials no. 1: ") for line in lines)
        assert [line.partition(" cannot be read")[0].rpartition("/")[2] for line in lines] == [
            "workbench.pem",
            "dpop.pem",
            "c.pem",
        ]

    @pytest.mark.parametrize(
        ("file", "content", "why"),
        [
            ("dpop.pem", RSAKey.generate_key(2048).as_pem(private=True), "holds no EC P-256 key"),
            ("k.pem", ECKey.generate_key("P-256").as_pem(private=True), "the key is another certificate's"),
            ("k.pem", b"nonsense", "holds no private key in PEM"),
            ("c.pem", b"nonsense", "are no certificate and its key"),
        ],
        ids=["proofs-by-rsa", "another-pair", "no-key", "no-certificate"],
    )
    async def test_something_else(self, config: Config, secrets: Path, file: str, content: bytes, why: str):
        """A wrong file would otherwise only show in failed attempts."""
        private_file(secrets / file, content)
        [line] = await self.told(config)
        assert why in line
