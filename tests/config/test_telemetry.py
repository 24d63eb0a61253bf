"""``[telemetry]``: what is refused, and what the refusal says to change."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.config import Config, require_files
from relay.errors import ConfigError, StartupError
from tests.support.configuration import MINIMAL

Loaded = Callable[..., Config]

COLLECTOR = '\n[telemetry]\ncollector = "{}"\n{}'


@pytest.mark.parametrize(
    ("address", "more", "advice"),
    [
        ("collector.example.org:4318", "", "must begin with https://"),
        ("grpc://collector.example.org", "", "must begin with https://"),
        ("https://", "", "must"),
        ("https://user:pass@collector.example.org", "", "token_file"),
        ("https://collector.example.org/v1/traces/", "", "without a slash at its end"),
        ("https://collector.example.org?x=1", "", "without a slash at its end"),
        ("http://collector.example.org:4318", "comments = true", "must begin with https:// where"),
        ("http://collector.example.org:4318", 'token_file = "token"', "must begin with https:// where"),
    ],
)
def test_addresses_that_are_refused(loaded: Loaded, address: str, more: str, advice: str):
    """An address has no secrets in it; tokens and comments go over TLS, or stay on the machine."""
    with pytest.raises(ConfigError) as refused:
        loaded(MINIMAL + COLLECTOR.format(address, more))
    assert "[telemetry] collector" in str(refused.value)
    assert advice in str(refused.value)
    assert "pass@" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "more"),
    [
        ("https://collector.example.org/otlp", 'comments = true\ntoken_file = "token"'),
        ("http://collector.example.org:4318", ""),
        ("http://localhost:4318", "comments = true"),
        ("http://[::1]:4318", "comments = true"),
    ],
)
def test_addresses_that_are_taken(loaded: Loaded, address: str, more: str):
    """What is not secret may go over plain http, as it does beside a collector on the same machine or cluster."""
    assert loaded(MINIMAL + COLLECTOR.format(address, more)).telemetry.collector == address


def test_what_does_nothing_is_told(loaded: Loaded):
    """A token without a collector is a mistake."""
    with pytest.raises(ConfigError, match="token_file: does nothing without a collector"):
        loaded(MINIMAL + '\n[telemetry]\ntoken_file = "token"\n')


def test_a_missing_extra_is_told(loaded: Loaded, monkeypatch: pytest.MonkeyPatch):
    """Whoever configures a collector without the extra is told how to install it, before anything starts."""
    for missing in ("opentelemetry", "opentelemetry.sdk"):  # the second: another test may have imported it
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=r"pip install 'feedback-relay\[otel\]'"):
        loaded(MINIMAL + COLLECTOR.format("https://collector.example.org", ""))


async def test_its_files_are_looked_at(loaded: Loaded, tmp_path: Path):
    """A token that is missing, and authorities that are none, are told before anything starts."""
    (tmp_path / "ca.pem").write_text("no certificate")
    more = f'token_file = "{tmp_path}/token"\nca_file = "{tmp_path}/ca.pem"'
    with pytest.raises(StartupError) as unusable:
        await require_files(loaded(MINIMAL + COLLECTOR.format("https://collector.example.org", more)))
    assert "[telemetry] token_file" in str(unusable.value)
    assert "[telemetry] ca_file" in str(unusable.value)
