"""What must hold between keys, and within the text of one."""

import types
from collections.abc import Callable

import pytest

from relay.config import Config, checks
from tests.support.configuration import AGENT, CLIENT, CLIENT_CREDENTIALS, MINIMAL, SECOND_ISSUER, line_of

Load = Callable[..., Config]
Refused = Callable[[str], str]


def test_the_lease_must_outlast_the_deadline(refused: Refused):
    """A lease that ends during an attempt lets two workers send at once: both keys and the line are told."""
    text = MINIMAL + "[delivery]\nlease_seconds = 8\n"
    line = line_of(text, "lease_seconds")
    assert refused(text) == (
        f"relay.toml:{line}: [delivery] lease_seconds = 8: must exceed [delivery] deadline_seconds (10) by at least 5"
    )


def test_a_lease_of_exactly_the_margin_will_do(loaded: Load):
    """The bound itself is inside."""
    assert loaded(MINIMAL + "[delivery]\nlease_seconds = 15\n").delivery.lease_seconds == 15


def test_a_long_deadline_against_the_default_lease_is_refused(refused: Refused):
    """The lease counts even where it is not written; the report then points at its table."""
    text = MINIMAL + "[delivery]\ndeadline_seconds = 60\n"
    assert f"relay.toml:{line_of(text, '[delivery]')}: [delivery] lease_seconds = 45: must exceed" in refused(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "relay.example.org"])  # noqa: S104 - what is refused
def test_development_listens_on_loopback_only(refused: Refused, host: str):
    """Relaxed transport is for a machine's own traffic."""
    report = refused(MINIMAL.replace("[server]\n", f'[server]\ndevelopment = true\nhost = "{host}"\n'))
    assert f'[server] host = "{host}": must be 127.0.0.1, ::1 or localhost' in report


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.1"])
def test_development_is_fine_on_loopback(loaded: Load, host: str):
    """Every loopback address will do."""
    assert loaded(MINIMAL.replace("[server]\n", f'[server]\ndevelopment = true\nhost = "{host}"\n'))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('public_url = "https://relay.', 'public_url = "http://relay.', "[server] public_url"),
        ("[database]", 'cors_origins = ["*"]\n[database]', "[server] cors_origins no. 1"),
        ("[database]", 'cors_origins = ["https://Workbench.example.org"]\n[database]', "[server] cors_origins no. 1"),
        ('issuer = "https://login.', 'issuer = "http://login.', "[[identity.issuers]] no. 1, issuer"),
        ('issuer = "https://login.example.org', 'issuer = "http://localhost', "[[identity.issuers]] no. 1, issuer"),
        ("audience =", 'jwks_uri = "http://127.0.0.1/keys"\naudience =', "[[identity.issuers]] no. 1, jwks_uri"),
    ],
)
def test_addresses_must_be_canonical_and_https(refused: Refused, old: str, new: str, place: str):
    """Plain http, loopback and look-alikes are refused outside of development."""
    assert place in refused(MINIMAL.replace(old, new))


def test_a_canonical_form_is_offered(refused: Refused):
    """The refusal of an origin shows what to write instead."""
    report = refused(MINIMAL + AGENT.replace("https://literature.example.org", "https://Literature.example.org:443/"))
    assert "[[agents]] no. 1, origin" in report
    assert "https://literature.example.org" in report


def test_an_origin_over_plain_http_is_refused(refused: Refused):
    """Ratings and tokens travel encrypted."""
    assert "[[agents]] no. 1, origin" in refused(MINIMAL + AGENT.replace("https://literature", "http://literature"))


def test_an_issuer_has_one_entry(refused: Refused):
    """Two entries of one issuer could disagree about what a token must look like."""
    report = refused(MINIMAL + SECOND_ISSUER.replace("example.net", "example.org"))
    assert "[[identity.issuers]] no. 1, issuer: stands here more than once" in report
    assert "[[identity.issuers]] no. 2, issuer: stands here more than once" in report


def test_clients_refer_to_configured_issuers(refused: Refused):
    """A client of an unknown issuer could never call, nor name people of one."""
    other = (
        'issuer = "https://other.example.org"\non_behalf_of = ["https://login.example.org", "https://x.example.org"]\n'
    )
    report = refused(MINIMAL + CLIENT + other)
    assert "[identity.clients.workbench] issuer: is not the issuer of any" in report
    assert "[identity.clients.workbench] on_behalf_of no. 2: is not the issuer of any" in report


def test_agent_ids_are_unique(refused: Refused):
    """Two entries of one id would be two origins for one name."""
    report = refused(MINIMAL + AGENT + AGENT)
    assert '[[agents]] no. 2, id = "literature": stands here more than once' in report


@pytest.mark.parametrize("agent", ["..", "a/b", "-a", "a b", "ä", "a" * 129, "a\\n"])
def test_agent_ids_need_no_encoding(refused: Refused, agent: str):
    """An id is part of paths and of commands."""
    assert "[[agents]] no. 1, id: must be 1 to 128 letters" in refused(MINIMAL + AGENT.replace("literature", agent, 1))


def test_an_unknown_protocol_lists_the_known_ones(refused: Refused):
    """Underscores instead of hyphens are the likely mistake."""
    report = refused(MINIMAL + AGENT.replace("roblox-v1", "roblox_v1"))
    assert "[[agents]] no. 1, protocol: is not a protocol of this relay; known: " in report
    assert "roblox-v1" in report


def test_an_opted_in_agent_needs_credentials(refused: Refused):
    """Without them every rating for it would be refused one by one."""
    report = refused(MINIMAL + AGENT.partition("  [[agents.credentials]]")[0])
    assert "[[agents]] no. 1, credentials: is missing: literature takes feedback" in report


def test_credentials_belong_to_a_configured_issuer(refused: Refused):
    """A credential acts for owners of its own issuer only."""
    text = MINIMAL + AGENT.replace("https://login.example.org", "https://login.example.net")
    assert "[[agents]] no. 1, credentials no. 1, issuer: is not the issuer of any" in refused(text)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("https://login.example.org/token", "http://login.example.org/token", "token_endpoint"),
        ("https://literature.example.org", "literature", "resource"),
        ("https://literature.example.org", "https://literature.example.org#a", "resource"),
    ],
)
def test_grants_name_real_addresses(refused: Refused, old: str, new: str, key: str):
    """The token endpoint gets our assertion, so it is https; a resource is an absolute URI (RFC 8707)."""
    report = refused(MINIMAL + AGENT + CLIENT_CREDENTIALS.replace(old, new))
    assert f"[[agents]] no. 1, credentials no. 2, {key}" in report


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://relay@db/relay",
        "postgres://relay@db/relay",
        "postgresql://relay@db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///relay.db?mode=ro",
        "sqlite://relay.db/relay",
        "sqlite+pysqlite:///relay.db",
        "postgresql://relay@db:port/relay",
    ],
)
def test_other_databases_are_refused(refused: Refused, url: str):
    """Two engines are supported, and what is kept must outlive the process."""
    assert "[database] url: must" in refused(MINIMAL.replace("sqlite:///relay.db", url))


@pytest.mark.parametrize(
    ("network", "told"),
    [("10.20.0.1/16", 'write "10.20.0.0/16"'), ("intranet", 'such as "10.20.0.0/16"'), ("10.0.0.0/33", "such as")],
)
@pytest.mark.parametrize("key", ["allow_networks", "deny_networks"])
def test_networks_must_be_networks(refused: Refused, key: str, network: str, told: str):
    """A network with bits beyond its prefix may be meant as one address or as all of them."""
    report = refused(MINIMAL + f'[egress]\n{key} = ["::/128", "{network}"]\n')
    assert f"[egress] {key} no. 2" in report
    assert told in report


@pytest.mark.parametrize(
    ("network", "told"), [("10.20.0.1/16", 'write "10.20.0.0/16"'), ("proxy", "must be a network")]
)
def test_trusted_proxies_are_networks(refused: Refused, network: str, told: str):
    """Who is believed about addresses is told by address, as exactly as where the relay may connect to."""
    report = refused(MINIMAL.replace("[server]\n", f'[server]\ntrusted_proxies = ["::1/128", "{network}"]\n'))
    assert "[server] trusted_proxies no. 2" in report
    assert told in report


@pytest.mark.parametrize("network", ["0.0.0.0/0", "::/0"])
def test_not_everyone_is_a_proxy(refused: Refused, network: str):
    """If everyone is believed, everyone chooses the address that they are counted under."""
    report = refused(MINIMAL.replace("[server]\n", f'[server]\ntrusted_proxies = ["{network}"]\n'))
    assert f'[server] trusted_proxies no. 1 = "{network}": takes every caller for a proxy' in report


def test_proxies_are_networks_once_loaded(loaded: Load):
    """A single address is a network too."""
    config = loaded(MINIMAL.replace("[server]\n", '[server]\ntrusted_proxies = ["127.0.0.1", "10.0.3.0/24"]\n'))
    assert [str(network) for network in config.trusted_proxies()] == ["127.0.0.1/32", "10.0.3.0/24"]


def test_administrators_come_from_configured_issuers(refused: Refused):
    """An issuer whose tokens are not taken cannot make anyone an administrator: it is a slip of the pen."""
    text = MINIMAL + '[registry]\nadmin_issuers = ["https://login.example.org", "https://login.example.net"]\n'
    assert "[registry] admin_issuers no. 2: is not the issuer of any [[identity.issuers]]" in refused(text)


@pytest.mark.parametrize("value", ["a b", 'a\\"b', "a\\\\b", "", "ä", "a" * 257])
def test_acr_values_fit_into_a_challenge(refused: Refused, value: str):
    """They are listed, separated by spaces, in a quoted string (RFC 9470 section 3)."""
    assert "[operators] acr_values no. 1" in refused(MINIMAL + f'[operators]\nacr_values = ["{value}"]\n')


@pytest.mark.parametrize(
    ("section", "line"),
    [("limits", "per_owner = -1"), ("limits", "per_address = 1000001"), ("operators", "max_age_seconds = 0")],
)
def test_limits_have_bounds(refused: Refused, section: str, line: str):
    """A negative rate, one beyond counting, and an age that no sign-in can have are refused."""
    assert f"[{section}] {line}" in refused(MINIMAL + f"[{section}]\n{line}\n")


def test_the_owners_keys_are_two_files(refused: Refused):
    """The same file for both purposes is a slip of the pen."""
    report = refused(MINIMAL.replace("/etc/relay/sealing-key", "secrets/pepper"))
    assert "[owners] sealing_key_file: must not be the pepper_file" in report


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ('previous_pepper_files = ["secrets/pepper"]', "previous_pepper_files no. 1"),
        ('previous_pepper_files = ["a", "a"]', "previous_pepper_files no. 2"),
        ('previous_pepper_files = ["a"]\nprevious_sealing_key_files = ["b", "a"]', "previous_sealing_key_files no. 2"),
    ],
)
def test_each_key_has_a_file_of_its_own(refused: Refused, written: str, place: str):
    """A former key is not the current one, nor the other kind's."""
    report = refused(MINIMAL.replace("[[identity", f"{written}\n\n[[identity", 1))
    assert f"[owners] {place}: is named by [owners] already" in report


def test_every_check_is_run():
    """A check that is not in the list would never refuse anything."""
    functions = {each for each in vars(checks).values() if isinstance(each, types.FunctionType)}
    written = {f for f in functions if f.__module__ == checks.__name__ and not f.__name__.startswith("_")}
    assert written == set(checks.CHECKS)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://relay:hunter2@db.example.org/relay",
        "postgresql://relay@db.example.org/relay?password=hunter2",
        "postgresql://relay@db.example.org/relay?sslpassword=hunter2",
    ],
)
def test_a_password_in_the_url_is_refused_without_repeating_it(refused: Refused, url: str):
    """The file is no place for a secret; the refusal says which places are, and does not print the secret."""
    report = refused(MINIMAL.replace("sqlite:///relay.db", url))
    assert "[database] url: must not hold a password" in report
    assert "password_file" in report
    assert "RELAY_DATABASE_PASSWORD" in report
    assert "hunter2" not in report


@pytest.mark.parametrize(
    ("url", "named"), [("http://127.0.0.1:8080", True), ("http://localhost", True), ("http://relay.example.org", False)]
)
def test_where_development_is_the_way_out_it_is_named(refused: Callable[[str], str], url: str, *, named: bool):
    """A trial on loopback is told which key to turn; elsewhere that key would not help, so it is not spoken of."""
    told = refused(MINIMAL.replace('"https://relay.example.org"', f'"{url}"', 1))
    assert "public_url" in told
    assert ("[server] development = true" in told) is named


CONSOLE = """
[console]
issuer = "https://login.example.org"
client_id = "relay-console"
"""


@pytest.mark.parametrize(
    ("old", "new", "report"),
    [
        (
            'login.example.org"\nclient_id',
            'login.example.net"\nclient_id',
            "[console] issuer: is not the issuer of any",
        ),
        (
            CONSOLE,
            CONSOLE + 'key_file = "k"\nclient_secret_file = "s"\n',
            "[console] client_secret_file: must be left out",
        ),
        (CONSOLE, CONSOLE + 'scopes = ["operator:read"]\n', "[console] scopes: must hold openid"),
        (CONSOLE, CONSOLE + 'scopes = ["openid operator:read"]\n', "[console] scopes no. 1:"),
        (CONSOLE, CONSOLE + 'resource = "relay"\n', "[console] resource: must be an absolute URI"),
        (CONSOLE, CONSOLE + 'token_endpoint = "http://login.example.org/token"\n', "[console] token_endpoint: "),
        (CONSOLE, CONSOLE + "idle_minutes = 0\n", "[console] idle_minutes = 0: "),
        ("https://relay.example.org", "https://example.org/relay", "[server] public_url: must be a bare origin"),
    ],
)
def test_the_console_can_sign_people_in(loaded: Load, refused: Refused, old: str, new: str, report: str):
    """A section that nobody could sign in by is refused, and says what to change."""
    assert loaded(MINIMAL + CONSOLE).console is not None
    assert report in refused((MINIMAL + CONSOLE).replace(old, new))
