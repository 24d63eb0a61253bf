"""What the program gets to see of a configuration."""

from collections.abc import Callable
from pathlib import Path

import pytest

from registry import model
from registry.egress import EgressPolicy
from relay.config import Config
from relay.errors import StartupError
from tests.support.configuration import AGENT, CLIENT, CLIENT_CREDENTIALS, MINIMAL

Load = Callable[..., Config]


def test_a_minimal_file_gets_the_documented_defaults(loaded: Load):
    """Only what cannot be guessed must be written; the rest has the values that the example shows."""
    config = loaded(MINIMAL)
    assert (config.server.host, config.server.port, config.server.max_body_bytes) == ("127.0.0.1", 8080, 65_536)
    assert config.server.shutdown_grace_seconds == 30
    assert (config.delivery.deadline_seconds, config.delivery.lease_seconds) == (10, 45)
    assert config.delivery.schedule == (0, 5, 30, 120, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 86_400)
    assert config.delivery.breaker.failure_ratio == 0.5
    assert config.identity.issuers[0].token_types == ("at+jwt",)
    assert (config.logging.level, config.logging.format) == ("info", "json")
    assert config.agents == ()


def test_paths_are_relative_to_the_file(loaded: Load, tmp_path: Path):
    """A relative path starts at the file's directory wherever the program was started; an absolute one stands."""
    config = loaded(MINIMAL + '[egress]\nca_file = "ca.pem"\n')
    assert config.owners.pepper_file == tmp_path / "secrets/pepper"
    assert config.owners.sealing_key_file == Path("/etc/relay/sealing-key")
    assert config.egress.ca_file == tmp_path / "ca.pem"
    assert config.database_url().database == str(tmp_path / "relay.db")


def test_an_absolute_sqlite_file_stays_where_it_is(loaded: Load):
    """Four slashes name a file from the root, as operators of SQLAlchemy know it."""
    config = loaded(MINIMAL.replace("sqlite:///relay.db", "sqlite:////var/lib/relay/relay.db"))
    assert config.database_url().database == "/var/lib/relay/relay.db"


def test_empty_optional_paths_mean_none(loaded: Load):
    """The example shows an empty ca_file, which is no file at all."""
    text = MINIMAL.replace("[owners]", 'password_file = ""\n[owners]') + '[egress]\nca_file = ""\n'
    config = loaded(text)
    assert config.egress.ca_file is None
    assert config.database.password_file is None


@pytest.mark.parametrize(
    ("url", "migrates"), [("sqlite:///relay.db", True), ("postgresql://relay@db.example.org/relay", False)]
)
def test_auto_migrate_depends_on_the_engine(loaded: Load, url: str, *, migrates: bool):
    """A machine's own file is migrated on the way, a shared server only when asked."""
    config = loaded(MINIMAL.replace("sqlite:///relay.db", url))
    assert config.database.auto_migrate is migrates


def test_auto_migrate_can_be_chosen(loaded: Load):
    """What is written goes before what the engine suggests."""
    text = MINIMAL.replace("[owners]", "auto_migrate = false\n[owners]")
    assert loaded(text).database.auto_migrate is False


def test_a_clients_issuer_goes_without_saying_while_there_is_one(loaded: Load):
    """With one issuer the client ids are that issuer's."""
    client = loaded(MINIMAL + CLIENT).identity.clients["workbench"]
    assert client.issuer == "https://login.example.org"
    assert client.on_behalf_of == ()


def test_agents_carry_the_registrys_credentials(loaded: Load, tmp_path: Path):
    """Credentials come out as the registry's own types, in the order of the file, with absolute paths."""
    agent = loaded(MINIMAL + AGENT + CLIENT_CREDENTIALS).agents[0]
    assert agent.credentials == (
        model.StaticBearer(
            issuer="https://login.example.org", client_id="workbench", token_file=str(tmp_path / "secrets/token")
        ),
        model.ClientCredentials(
            issuer="https://login.example.org",
            client_id="workbench",
            token_endpoint="https://login.example.org/token",
            key_file=str(tmp_path / "secrets/workbench.pem"),
            resource="https://literature.example.org",
        ),
    )


def test_an_owner_assertion_keeps_all_its_fields(loaded: Load, tmp_path: Path):
    """The third mode is decoded like the others."""
    text = MINIMAL + AGENT + CLIENT_CREDENTIALS.replace("client_credentials", "owner_assertion") + 'scope = "a b"\n'
    assert loaded(text).agents[0].credentials[1] == model.OwnerAssertion(
        issuer="https://login.example.org",
        client_id="workbench",
        token_endpoint="https://login.example.org/token",
        key_file=str(tmp_path / "secrets/workbench.pem"),
        resource="https://literature.example.org",
        scope="a b",
    )


def test_an_agent_without_a_protocol_needs_no_credentials(loaded: Load):
    """Not opted in is a proper state: the agent is known, and gets nothing."""
    text = MINIMAL + '[[agents]]\nid = "a"\nname = "A"\norigin = "https://a.example.org"\n'
    assert loaded(text).agents[0].protocol is None


def test_egress_rules_become_a_policy(loaded: Load, tmp_path: Path):
    """Networks are parsed once, here; the policy knows whether loopback may be dialled."""
    text = '[egress]\nallow_networks = ["10.20.0.0/16"]\ndeny_networks = ["fd00::/8"]\nca_file = "ca.pem"\n'
    policy = loaded(MINIMAL + text).egress_policy()
    assert isinstance(policy, EgressPolicy)
    assert [str(network) for network in (*policy.allow_networks, *policy.deny_networks)] == ["10.20.0.0/16", "fd00::/8"]
    assert policy.ca_file == str(tmp_path / "ca.pem")
    assert policy.development is False


def test_development_accepts_plain_http_on_loopback(loaded: Load):
    """A demo on one machine needs no certificates for its issuer and its Workbench."""
    text = MINIMAL.replace("https://login.example.org", "http://127.0.0.1:9000").replace(
        'public_url = "https://relay.example.org"',
        'public_url = "http://localhost:8080"\ndevelopment = true\ncors_origins = ["http://localhost:3000"]',
    )
    config = loaded(text)
    assert config.server.development
    assert config.egress_policy().development


POSTGRESQL = MINIMAL.replace("sqlite:///relay.db", "postgresql://relay@db.example.org/relay")
WITH_PASSWORD_FILE = POSTGRESQL.replace("[owners]", 'password_file = "password"\n[owners]')


def test_the_password_comes_from_its_file(loaded: Load, tmp_path: Path):
    """An editor's final line break is not part of the password; a blank is."""
    (tmp_path / "password").write_text(" hunter2 \n", encoding="utf-8")
    assert loaded(WITH_PASSWORD_FILE).database_url().password == " hunter2 "


def test_the_environment_goes_before_the_file(loaded: Load):
    """With the variable set the file is not even needed."""
    config = loaded(WITH_PASSWORD_FILE, RELAY_DATABASE_PASSWORD="hunter2")
    assert config.database_url().password == "hunter2"


def test_without_a_password_the_url_has_none(loaded: Load):
    """Peer authentication on a socket needs none, and an empty variable is no password."""
    assert loaded(POSTGRESQL, RELAY_DATABASE_PASSWORD="").database_url().password is None


@pytest.mark.parametrize(("content", "why"), [(None, "No such file"), (b"\n", "is empty"), (b"\xff", "not UTF-8")])
def test_an_unusable_password_file_is_named(loaded: Load, tmp_path: Path, content: bytes | None, why: str):
    """Connecting without the password would only fail later, and less clearly."""
    if content is not None:
        (tmp_path / "password").write_bytes(content)
    with pytest.raises(StartupError, match=rf"\[database\] password_file: .*{why}"):
        loaded(WITH_PASSWORD_FILE).database_url()


def test_nothing_shows_the_password(loaded: Load):
    """Neither the configuration's repr nor the URL's text carries it into a log."""
    config = loaded(POSTGRESQL, RELAY_DATABASE_PASSWORD="hunter2")
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(config.database_url())
