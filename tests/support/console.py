"""A relay with a console, the demonstration's issuer, and somebody with a browser that knows cookies and no scripts."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from socket import socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy
from sqlalchemy import text
from yarl import URL

from relay.app import Relay, assembled, build_app
from relay.clock import Clock
from relay.config import load
from relay.demo import issuer as issuers
from relay.demo.grants import Resources
from relay.demo.issuer import Issuer
from relay.demo.process import listen, url_of
from relay.http.server import Runner

CONFIG = """
[server]
public_url = "{relay}"
development = true
[database]
url = "{database}"
auto_migrate = false
[owners]
pepper_file = "pepper"
sealing_key_file = "sealing-key"
[[identity.issuers]]
issuer = "{issuer}"
audience = "{relay}"
tenant_claim = "tenant"
[registry]
admin_issuers = ["{issuer}"]
{registry}
[logging]
level = "error"
[console]
issuer = "{issuer}"
client_id = "console"
key_file = "{state}/console.pem"
scopes = [{scopes}]
idle_minutes = 30
absolute_hours = 12
{more}
"""
SCOPES = ("openid", "profile", "operator:read", "operator:write", "registry:admin")


@dataclass(frozen=True)
class Page:
    """What a browser shows."""

    status: int
    url: URL
    headers: CIMultiDictProxy[str]
    text: str

    @property
    def heading(self) -> str:
        return unescape(re.findall(r"<h1>(.*?)</h1>", self.text)[0])

    def link(self, label: str) -> str:
        return unescape(re.findall(rf'<a [^>]*href="([^"]*)"[^>]*>{label}</a>', self.text)[0])

    @property
    def csrf(self) -> str:
        return re.findall(r'name="csrf" value="([^"]*)"', self.text)[0]

    @property
    def parameters(self) -> dict[str, list[str]]:
        """Of the address that an answer leads to."""
        return parse_qs(urlsplit(self.headers["Location"]).query)


class Browser:
    """Opens pages, follows redirects, keeps cookies; like Chromium it takes secure ones from loopback."""

    def __init__(self, http: aiohttp.ClientSession, relay: str, issuer: str) -> None:  # noqa: TID251
        self.http = http
        self.relay = relay
        self.issuer = issuer

    async def get(self, address: str, *, follow: bool = True, **headers: str) -> Page:
        return await self._send("GET", address, follow=follow, headers=headers)

    async def head(self, address: str) -> Page:
        return await self._send("HEAD", address, follow=False, headers={})

    async def post(self, address: str, fields: Mapping[str, str], *, follow: bool = True, **headers: str) -> Page:
        sent = {"Origin": self.relay, "Sec-Fetch-Site": "same-origin", **headers}
        return await self._send("POST", address, follow=follow, headers=sent, data=fields)

    async def sign_in(self, person: str = "operator", *, following: str = "/console") -> Page:
        """Sign in, from the page that was wanted to that page."""
        return await self.get(await self.callback(person, following=following))

    async def callback(self, person: str = "operator", *, following: str = "/console") -> str:
        """As far as the issuer's answer, which is not opened."""
        offered = await self.get(following)
        return await self.chosen(await self.get(offered.link("Sign in")), person)

    async def chosen(self, chooser: Page, person: str = "operator") -> str:
        """The issuer's answer to a click."""
        answer = await self._send("POST", str(chooser.url), follow=False, data={"person": person}, headers={})
        return answer.headers["Location"]

    async def at_the_issuer(self, *, following: str = "/console") -> Page:
        offered = await self.get(following)
        return await self.get(offered.link("Sign in"))

    def cookie(self, name: str = "__Host-relay-console") -> str | None:
        return next((each.value for each in self.http.cookie_jar if each.key == name), None)

    def set_cookie(self, value: str, name: str = "__Host-relay-console") -> None:
        self.http.cookie_jar.update_cookies({name: value}, URL(self.relay))

    async def _send(self, method: str, address: str, *, follow: bool, **sent: Any) -> Page:
        url = URL(address, encoded=True) if "://" in address else URL(self.relay + address, encoded=True)
        async with self.http.request(method, url, allow_redirects=follow, **sent) as answer:
            return Page(answer.status, answer.url, answer.headers, await answer.text())


@dataclass
class World:
    """Everything that runs."""

    relay: Relay
    url: str
    issuer: Issuer
    config: Path

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[Browser]:
        jar = aiohttp.CookieJar(unsafe=True, treat_as_secure_origin=[URL(self.url)])
        async with aiohttp.ClientSession(cookie_jar=jar) as http:  # noqa: TID251 - a browser, not the relay
            yield Browser(http, self.url, self.issuer.url)

    async def rows(self, statement: str) -> list[dict[str, Any]]:
        async with self.relay.db.read() as connection:
            return [dict(row) for row in (await connection.execute(text(statement))).mappings()]


@asynccontextmanager
async def world(
    directory: Path,
    database_url: str,
    clock: Clock,
    *,
    scopes: tuple[str, ...] = SCOPES,
    registry: str = "",
    more: str = "",
) -> AsyncIterator[World]:
    """The issuer and a relay with a console, on one clock."""
    state = directory / "issuer"
    with listen(0) as listener:
        url = url_of(listener, secure=False)
        async with issuers.running(state, Resources(relay=url), clock=clock) as issuer:
            path = directory / "relay.toml"
            quoted = ", ".join(f'"{scope}"' for scope in scopes)
            written = {"relay": url, "database": database_url, "issuer": issuer.url, "state": state}
            more = more.replace("{issuer}", issuer.url)
            path.write_text(CONFIG.format(**written, scopes=quoted, registry=registry, more=more))
            async with assembled(load(path, {}), clock=clock) as relay, _served(relay, listener):
                yield World(relay, url, issuer, path)


@asynccontextmanager
async def another_gateway(first: World, clock: Clock) -> AsyncIterator[str]:
    """The address of a second gateway on the same database, with the same keys."""
    with listen(0) as listener:
        async with assembled(load(first.config, {}), clock=clock) as relay, _served(relay, listener):
            yield url_of(listener, secure=False)


@asynccontextmanager
async def _served(relay: Relay, listener: socket) -> AsyncIterator[None]:
    runner = Runner(build_app(relay), shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    try:
        yield
    finally:
        await runner.cleanup()
