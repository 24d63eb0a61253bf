"""What must hold of ``[telemetry]``."""

from collections.abc import Iterator
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Final

from yarl import URL

from relay.config.problems import Place, Problem
from relay.config.sections import Telemetry

_EXTRA: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")

COLLECTOR: Final[Place] = ("telemetry", "collector")


def defects(telemetry: Telemetry) -> Iterator[Problem]:
    """The collector needs an address to which OTLP's own paths can be added, and the extra that speaks it."""
    if telemetry.collector is None:
        for key in ("token_file", "ca_file"):
            if getattr(telemetry, key) is not None:
                yield Problem(("telemetry", key), "does nothing without a collector")
        return
    if (defect := _defect(telemetry.collector)) is not None:
        yield Problem(COLLECTOR, defect)
    elif _shows_to_others(telemetry):
        text = "must begin with https:// where it is sent a token or comments, unless it is on this machine"
        yield Problem(COLLECTOR, text)
    if not all(map(_is_installed, _EXTRA)):
        yield Problem(COLLECTOR, "needs the extra otel: pip install 'feedback-relay[otel]'")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # what it is part of is missing
        return False


def _defect(text: str) -> str | None:
    try:
        url = URL(text)
    except ValueError:
        return "must be a URL, such as https://collector.example.org:4318"
    if url.scheme not in {"http", "https"} or not url.host:
        return "must begin with https:// or http:// and name a host, such as https://collector.example.org:4318"
    if url.user is not None or url.password is not None:
        return "must not hold a password: put a token into the file named by [telemetry] token_file"
    if url.query_string or url.fragment or text.endswith("/"):
        return (
            "must end with the host, its port, or a path without a slash at its end; /v1/traces and /v1/logs follow it"
        )
    return None


def _shows_to_others(telemetry: Telemetry) -> bool:
    url = URL(telemetry.collector or "")
    if url.scheme == "https" or not (telemetry.comments or telemetry.token_file):
        return False
    try:
        return not ip_address(url.host or "").is_loopback
    except ValueError:
        return url.host != "localhost"
