"""What a session is. Pure."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

COOKIE: Final = "__Host-relay-console"
"""The prefix has browsers take it over https only (or from loopback), for this host alone, and for every path."""

_CSRF: Final = b"feedback-relay console csrf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """How long a session lasts without a request, and at most. In milliseconds."""

    idle: int
    absolute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as stored. ``operator`` is a public name; times are in milliseconds since the epoch."""

    id_hash: str
    operator: str
    tenant: str
    sealed: bytes = field(repr=False)
    seal_kid: str
    token_expires_at: int
    created_at: int
    seen_at: int
    ends_at: int

    def is_over(self, lifetime: Lifetime, now: int) -> bool:
        """Whether it has lasted, or been left alone, for long enough."""
        return now >= self.ends_at or now >= self.seen_at + lifetime.idle


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What is sealed in a session."""

    name: str = field(repr=False)
    access: str = field(repr=False)
    refresh: str | None = field(repr=False, default=None)


def new_secret() -> str:
    """What the cookie holds: 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_of(secret: str) -> str:
    """What a session is found by. Whoever reads the database cannot make a cookie of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def csrf_token(secret: str) -> str:
    """What the forms of a session hold. It tells nothing of the cookie, and follows from nothing else."""
    return hmac.digest(secret.encode("utf-8", "surrogatepass"), _CSRF, "sha256").hex()
