"""A token endpoint on a loopback port that records what it is asked and answers whatever a test wants."""

import asyncio
import json
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from registry.credentials import Access, Authorization
from registry.egress import Exchange


async def authorization_of(access: Access, method: str = "POST", url: str = "https://literature.example.org") -> str:
    """The value of the Authorization header that access gives a request."""
    shown: list[str] = []

    async def send(authorization: Authorization) -> Exchange:
        shown.append(authorization.headers["Authorization"])
        return Exchange(201, {}, b"", complete=True)

    await access.exchange(method, url, send)
    return shown[0]


class TokenEndpoint:
    """Answers each request with a new token, or with ``answer`` if that is set."""

    def __init__(self) -> None:
        self.url = ""
        self.forms: list[dict[str, str]] = []
        """The parameters of each request, in the order they came."""
        self.headers: list[Mapping[str, str]] = []
        self.answer: tuple[int, bytes] | None = None
        self.extra_headers: dict[str, str] = {}
        self.expires_in: int | None = 300
        self.arrived = asyncio.Semaphore(0)
        """Released once per request."""
        self._open = asyncio.Event()
        self._open.set()
        app = web.Application()
        app.router.add_post("/token", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)

    def hang(self) -> None:
        """Take requests and answer none until `recover`."""
        self._open.clear()

    def recover(self) -> None:
        self._open.set()

    def refuse(self, error: object, status: int = 400) -> None:
        self.answer = (status, json.dumps({"error": error, "error_description": "quoted-secret"}).encode())

    def assertion(self, name: str, key: ECKey | RSAKey, request: int = -1) -> jwt.Token:
        """The assertion in a parameter of a request, its signature verified with ``key``."""
        return jwt.decode(self.forms[request][name], key, algorithms=["ES256", "RS256"])

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/token"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.recover()
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        pairs = parse_qsl((await request.read()).decode("ascii"), strict_parsing=True)
        assert len(dict(pairs)) == len(pairs)
        self.forms.append(dict(pairs))
        self.headers.append(dict(request.headers))
        self.arrived.release()
        await self._open.wait()
        status, body = self.answer or (200, self._token())
        return web.Response(status=status, body=body, content_type="application/json", headers=self.extra_headers)

    def _token(self) -> bytes:
        members: dict[str, Any] = {"access_token": secrets.token_urlsafe(24), "token_type": "Bearer"}
        if self.expires_in is not None:
            members["expires_in"] = self.expires_in
        return json.dumps(members).encode()
