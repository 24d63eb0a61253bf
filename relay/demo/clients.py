"""The programs that people sign in to, with a browser, at the demonstration's issuer."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from joserfc.jwk import ECKey

from relay.demo.accounts import CLIENT_ID, RATING_SCOPES
from relay.demo.assertions import RegisteredClient

CONSOLE: Final = "console"
PAGE: Final = "workbench-page"
TERMINAL: Final = "relay-cli"
CONSOLE_KEY_FILE: Final = f"{CONSOLE}.pem"

OPENID: Final = frozenset({"openid", "profile", "offline_access"})
"""Scopes that anybody may have who signs in; of the others each person has their own."""

_OPERATING: Final = frozenset({"operator:read", "operator:write", "registry:admin"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserClient:
    """A client of the authorization code grant, or, where ``device`` says so, of the device grant. A public one has
    no ``key``.

    ``named`` is the client that access tokens name: a page and the server behind it are one client to whoever is told
    of a rating, as with issuers that register both in one entry.
    """

    client_id: str
    redirect_uris: frozenset[str]
    scopes: frozenset[str]
    named: str
    key: RegisteredClient | None = None
    device: bool = False

    @property
    def origins(self) -> frozenset[str]:
        """Of its pages; a public one asks for tokens from there."""
        return frozenset(origin_of(uri) for uri in self.redirect_uris)


def browser_clients(*, relay: str, console_key: ECKey, pages: Collection[str] = ()) -> Mapping[str, BrowserClient]:
    """The relay's console and command line, and where ``pages`` (redirect URIs) are given, the Workbench's own page."""
    key = RegisteredClient(client_id=CONSOLE, key=console_key, relays=frozenset())
    console = BrowserClient(
        client_id=CONSOLE,
        redirect_uris=frozenset({f"{relay}/console/callback"}),
        scopes=OPENID | _OPERATING,
        named=CONSOLE,
        key=key,
    )
    terminal = BrowserClient(
        client_id=TERMINAL, redirect_uris=frozenset(), scopes=OPENID | _OPERATING, named=TERMINAL, device=True
    )
    page = BrowserClient(client_id=PAGE, redirect_uris=frozenset(pages), scopes=OPENID | RATING_SCOPES, named=CLIENT_ID)
    return {client.client_id: client for client in (console, terminal, page)}


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
