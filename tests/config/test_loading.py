"""The shape of the file: every problem at once, each with its key, its line and what would be right."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.config import load
from relay.errors import ConfigError
from tests.support.configuration import AGENT, CLIENT, MINIMAL, SECOND_ISSUER

Refused = Callable[[str], str]


def test_a_syntax_error_keeps_line_and_column(refused: Refused):
    """The parser knows exactly where it stumbled."""
    assert "is not TOML" in (report := refused("[server]\nport = \n"))
    assert "line 2, column 8" in report


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    """A wrong --config is the first mistake that anyone makes."""
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read \(No such file"):
        load(tmp_path / "absent.toml", {})


def test_a_file_in_another_encoding_is_refused(tmp_path: Path):
    """TOML is UTF-8."""
    (tmp_path / "relay.toml").write_bytes(b'name = "caf\xe9"')
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(tmp_path / "relay.toml", {})


def test_all_problems_are_reported_at_once(refused: Refused):
    """An operator mends a file once, not once for each key."""
    text = MINIMAL.replace("[server]\n", '[server]\nport = "80"\nhots = "::1"\n').replace('audience = "', 'audienc = "')
    assert refused(text).splitlines() == [
        "relay.toml:2: [server] port: must be a whole number, not a string",
        "relay.toml:3: [server] hots: is not a key of this table; did you mean host?",
        "relay.toml:15: [[identity.issuers]] no. 1, audienc: is not a key of this table; did you mean audience?",
        "relay.toml:13: [[identity.issuers]] no. 1, audience: is missing",
    ]


def test_an_unknown_section_is_named(refused: Refused):
    """A section misspelled would otherwise leave all its keys at their defaults."""
    assert "[delivry]: is not a section of this file; did you mean delivery?" in refused(MINIMAL + "[delivry]\n")


def test_a_key_like_no_other_gets_the_list(refused: Refused):
    """Where nothing is near, the known keys are shown."""
    assert "known: level, format" in refused(MINIMAL + "[logging]\nzzz = 1\n")


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("[delivery]\nlease_seconds = -1\n", "[delivery] lease_seconds = -1: must be a number > 0"),
        ("[delivery]\nlease_seconds = inf\n", "[delivery] lease_seconds = inf: must be a number <= 86400"),
        ("[delivery]\nlease_seconds = true\n", "[delivery] lease_seconds = true: must be a number, not true or false"),
        ("[delivery]\nin_flight_per_agent = 1.5\n", "in_flight_per_agent = 1.5: must be a whole number, not a number"),
        ("[delivery]\nschedule = []\n", "[delivery] schedule: must be a list of length >= 1"),
        ('[delivery]\nschedule = ["0s", "5"]\n', "[delivery] schedule no. 2: must be a whole number and a unit"),
        ("[delivery]\nschedule = [5]\n", "[delivery] schedule no. 1 = 5: must be a whole number and a unit"),
        ('[delivery]\nschedule = "5s"\n', "[delivery] schedule: must be a list, not a string"),
        ('[logging]\nlevel = "loud"\n', "[logging] level: must be one of debug, info, warning, error"),
        ("[logging]\nlevel = 1\n", "[logging] level = 1: must be a string, not a whole number"),
        ('[egress]\nca_file = "a\\u0000b"\n', "[egress] ca_file: must be the path of a file"),
        ("[egress]\nca_file = 7\n", "[egress] ca_file = 7: must be the path of a file"),
        ("[identity.clients]\nworkbench = 1\n", "[identity.clients] workbench: must be a table, not a whole number"),
    ],
)
def test_an_unfit_value_is_explained_in_words(refused: Refused, section: str, told: str):
    """The key by its table, the value where it is a number, and what would be right."""
    assert told in refused(MINIMAL + section)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[server]", "[server]\nport = 65536", "[server] port = 65536: must be a whole number <= 65535"),
        ("[server]", '[server]\ncors_origins = [""]', "[server] cors_origins no. 1: must be a string of length >= 1"),
        ('"secrets/pepper"', '""', "[owners] pepper_file: must be the path of a file"),
        ("[server]", "egress = 1\n[server]", "[egress]: must be a table, not a whole number"),
        ("[server]", "agents = [1]\n[server]", "[[agents]] no. 1: must be a table, not a whole number"),
        ('"https://relay.example.org"', "2026-01-01", "[server] public_url: must be a string, not a date"),
    ],
)
def test_an_unfit_value_is_explained_wherever_it_stands(refused: Refused, old: str, new: str, told: str):
    """The same for what stands before and between the tables of a minimal file."""
    assert told in refused(MINIMAL.replace(old, new, 1))


def test_bounds_are_told_as_they_would_be_written(refused: Refused):
    """The decoder's 0.0 is no number that an operator would write."""
    assert refused(MINIMAL + "[delivery]\nlease_seconds = 0\n").endswith("must be a number > 0")


def test_strings_are_never_repeated(refused: Refused):
    """What was pasted into the wrong place may be a secret."""
    assert "hunter2" not in refused(MINIMAL + '[delivery]\nlease_seconds = "hunter2"\npassword = "hunter2"\n')


def test_an_unknown_mode_lists_the_known_ones(refused: Refused):
    """The mode decides which other keys there are."""
    report = refused(MINIMAL + AGENT.replace("static_bearer", "bearer"))
    assert "[[agents]] no. 1, credentials no. 1, mode" in report
    assert "must be one of client_credentials, owner_assertion, token_exchange, static_bearer" in report


def test_a_missing_mode_lists_the_known_ones(refused: Refused):
    """Leaving it out is the same mistake."""
    report = refused(MINIMAL + AGENT.replace('mode = "static_bearer"', ""))
    assert "credentials no. 1, mode: must be one of client_credentials" in report


def test_keys_of_another_mode_are_unknown(refused: Refused):
    """A static bearer has no key file, and must have its token file."""
    report = refused(MINIMAL + AGENT.replace("token_file", "key_file"))
    assert "credentials no. 1, key_file: is not a key of this table" in report
    assert "credentials no. 1, token_file: is missing" in report


@pytest.mark.parametrize("algorithm", ["HS256", "none"])
def test_algorithms_with_a_shared_secret_are_refused(refused: Refused, algorithm: str):
    """Only asymmetric signatures prove who issued a token."""
    report = refused(MINIMAL + f'algorithms = ["{algorithm}"]\n')
    assert "[[identity.issuers]] no. 1, algorithms no. 1: must be one of ES256" in report


def test_a_clients_issuer_must_be_said_with_two(refused: Refused):
    """With two issuers the same client id may be two clients."""
    report = refused(MINIMAL + SECOND_ISSUER + CLIENT)
    assert re.search(r"relay\.toml:\d+: \[identity\.clients\.workbench\] issuer: is missing", report)
