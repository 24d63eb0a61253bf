"""A token endpoint on a loopback port that records what it is asked and answers whatever a test wants."""

import asyncio
import json
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

from aiohttp import web
from joserfc import jws, jwt
from joserfc.jwk import ECKey, RSAKey

from registry.credentials import Access, Authorization
from registry.egress import Exchange

PRESENTED_AT = "https://literature.example.org/api/feedback"


class Presented:
    """What access gives each request that is made with it; each is answered with the next of ``answers``, then 201."""

    def __init__(self, *answers: Exchange) -> None:
        self.authorizations: list[Authorization] = []
        self._answers = [*answers, Exchange(201, {}, b"", complete=True)]

    async def by(self, access: Access, method: str = "POST", url: str = PRESENTED_AT) -> Exchange:
        return await access.exchange(method, url, self._send)

    def proof(self, request: int = -1) -> jwt.Token:
        return read_proof(self.authorizations[request].headers["DPoP"])

    async def _send(self, authorization: Authorization) -> Exchange:
        self.authorizations.append(authorization)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def authorization_of(access: Access) -> str:
    """The value of the Authorization header that access gives a request."""
    presented = Presented()
    await presented.by(access)
    return presented.authorizations[0].headers["Authorization"]


def read_proof(proof: str) -> jwt.Token:
    """A proof (RFC 9449), its signature verified with the key that it names."""
    key = ECKey.import_key(jws.extract_compact(proof.encode()).headers()["jwk"])
    return jwt.decode(proof, key, algorithms=["ES256"])


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
        self.members: dict[str, object] = {}
        """Members that replace those of a token's answer."""
        self.nonce: str | None = None
        """What every proof has to carry (RFC 9449 section 8)."""
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

    def proof(self, request: int = -1) -> jwt.Token:
        """The proof that came with a request, its signature verified with the key that it names."""
        return read_proof(self.headers[request]["DPoP"])

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
        headers = dict(self.extra_headers)
        if self.nonce is not None:
            headers["DPoP-Nonce"] = self.nonce
            if self.proof().claims.get("nonce") != self.nonce:
                status, body = 400, b'{"error":"use_dpop_nonce"}'
        return web.Response(status=status, body=body, content_type="application/json", headers=headers)

    def _token(self) -> bytes:
        members: dict[str, Any] = {"access_token": secrets.token_urlsafe(24), "token_type": "Bearer"}
        if self.expires_in is not None:
            members["expires_in"] = self.expires_in
        return json.dumps({**members, **self.members}).encode()
