"""What is agreed with an issuer, and what a sign-in passes through. Pure."""

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from relay.errors import RelayError

Step = Literal["issuer", "answer", "token", "identity"]

_INSIDE: Final = re.compile(r"/console(?:[/?][\x21-\x7e]*)?", re.ASCII)
_NOT_AGAIN: Final = ("/console/sign-in", "/console/sign-out", "/console/callback")
_LONGEST: Final = 2048


class SignInFailed(RelayError):  # noqa: N818 - reads as what it says
    """A sign-in came to nothing. ``reason`` is for the log, ``advice`` is shown; neither quotes what was sent."""

    def __init__(self, reason: str, advice: str, *, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The console as a client that is registered at an issuer.

    A client without ``secret_file`` and ``key_file`` is a public one. The endpoints are the issuer's metadata's where
    they are None. ``max_age_seconds`` and ``acr_values`` are what operators have to show (RFC 9470).
    """

    issuer: str
    client_id: str
    redirect_uri: str
    scope: str
    resource: str | None = None
    secret_file: str | None = None
    key_file: str | None = None
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    max_age_seconds: int | None = None
    acr_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The issuer as a place to sign in."""

    authorization_endpoint: str
    token_endpoint: str
    names_itself: bool
    """Whether it says in each answer whose it is (RFC 9207)."""
    takes_basic: bool
    """Whether a secret goes into the Authorization header, and not into the form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A sign-in under way, kept by the browser that began it, sealed. ``at`` is in seconds since the epoch."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    following: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What the token endpoint gave."""

    access: str = field(repr=False)
    refresh: str | None = field(repr=False, default=None)
    identity: str | None = field(repr=False, default=None)


def inside(address: str | None) -> str:
    """Where to go on after the sign-in: a page of the console, whatever was asked for.

    A browser reads a backslash as a slash, and leaves tabs and line ends out: only what it reads as it stands is taken.
    """
    if address is None or len(address) > _LONGEST or "\\" in address or _INSIDE.fullmatch(address) is None:
        return "/console"
    return "/console" if address.startswith(_NOT_AGAIN) else address
