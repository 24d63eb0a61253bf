"""A token issuer on a loopback port: real keys, real signatures, real JWKS over HTTP, and faults on request."""

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self

from aiohttp import web
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.util import urlsafe_b64encode

from relay.clock import SystemClock

SigningKey = ECKey | RSAKey | OKPKey
Discovery = Literal["oauth", "oidc"]

_system_time = SystemClock().unix

AUDIENCE: Final = "https://relay.example.org"
LIFETIME: Final = 300


def compact(header: bytes, payload: bytes, key: SigningKey, algorithm: str) -> str:
    """A compact JWS over exactly these bytes, whatever they say."""
    signing_input = urlsafe_b64encode(header) + b"." + urlsafe_b64encode(payload)
    signature = JWSRegistry.algorithms[algorithm].sign(signing_input, key)
    return (signing_input + b"." + urlsafe_b64encode(signature)).decode()


class TestIssuer:
    """An OAuth issuer as far as a resource server sees it: metadata, a key set, and tokens.

    ``path`` makes an issuer identifier with a path. ``now`` is the clock that tokens are issued by. ``algorithms``
    says whose keys are in the key set from the start; others join it when they first sign.
    """

    __test__ = False

    def __init__(
        self,
        *,
        path: str = "",
        audience: str = AUDIENCE,
        now: Callable[[], float] = _system_time,
        algorithms: Sequence[str] = ("ES256",),
    ) -> None:
        self.path = path
        self.audience = audience
        self.now = now
        self.url = ""
        self.fetches = 0
        """How often the key set was asked for."""
        self.discovery: set[Discovery] = {"oauth", "oidc"}
        """Which metadata documents exist."""
        self.metadata: dict[str, object] = {}
        """Members that replace those of the metadata documents."""
        self.extra_keys: list[object] = []
        """What else stands in the key set, after the real keys."""
        self.key_set_body: bytes | None = None
        """What the key set's address answers instead of the key set."""
        self._keys: dict[str, SigningKey] = {algorithm: _generate(algorithm) for algorithm in algorithms}
        self._retired: list[SigningKey] = []
        self._status = 200
        self._asked = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()
        self._runner = web.AppRunner(self._build(), access_log=None, shutdown_timeout=1)

    @property
    def jwks_uri(self) -> str:
        return f"{self.url}/jwks"

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}{self.path}"

    async def close(self) -> None:
        self.recover()
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Faults.

    def fail(self, status: int = 503) -> None:
        """Answer everything with this status."""
        self._status = status

    def hang(self) -> None:
        """Take requests and answer none of them until `recover`."""
        self._asked.clear()
        self._open.clear()

    async def asked(self) -> None:
        """Wait until a request has come in since `hang`."""
        await self._asked.wait()

    def recover(self) -> None:
        self._status = 200
        self._open.set()

    # Keys.

    def key(self, algorithm: str = "ES256") -> SigningKey:
        """The key that signs with ``algorithm``, made when it is first asked for."""
        if algorithm not in self._keys:
            self._keys[algorithm] = _generate(algorithm)
        return self._keys[algorithm]

    def kid(self, algorithm: str = "ES256") -> str:
        return str(self.key(algorithm).kid)

    def rotate(self, *, keep_old: bool = False) -> None:
        """Sign with new keys from now on; the old ones leave the key set unless they are kept."""
        self._retired = [*self._retired, *self._keys.values()] if keep_old else []
        self._keys = {algorithm: _generate(algorithm) for algorithm in self._keys}

    def jwks(self) -> dict[str, Any]:
        return {"keys": [*(k.as_dict() for k in (*self._keys.values(), *self._retired)), *self.extra_keys]}

    # Tokens.

    def claims(self, **overrides: object) -> dict[str, object]:
        """The claims of RFC 9068 section 2.2 for a token issued now; an override of None leaves the claim out."""
        now = int(self.now())
        claims: dict[str, object] = {
            "iss": self.url,
            "aud": self.audience,
            "exp": now + LIFETIME,
            "iat": now,
            "jti": secrets.token_urlsafe(9),
            **overrides,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def header(self, algorithm: str = "ES256", **overrides: object) -> dict[str, object]:
        header = {"alg": algorithm, "typ": "at+jwt", "kid": self.kid(algorithm), **overrides}
        return {name: value for name, value in header.items() if value is not None}

    def mint(
        self,
        *,
        sub: object = "alice",
        client_id: object = "workbench",
        scope: object = "feedback:read feedback:write",
        algorithm: str = "ES256",
        header: Mapping[str, object] | None = None,
        **overrides: object,
    ) -> str:
        """A signed token. ``header`` and further arguments replace or (with None) leave out members and claims."""
        claims = self.claims(sub=sub, client_id=client_id, scope=scope, **overrides)
        return self.sign(self.header(algorithm, **(header or {})), claims, algorithm)

    def mint_machine(self, *, client_id: str = "runtime", **overrides: Any) -> str:
        """A token of a client that speaks for itself."""
        return self.mint(sub=client_id, client_id=client_id, **overrides)

    def sign(self, header: Mapping[str, object] | bytes, claims: object, algorithm: str = "ES256") -> str:
        """A token with a valid signature over whatever is given."""
        return compact(_serialize(header), _serialize(claims), self.key(algorithm), algorithm)

    # HTTP.

    def _build(self) -> web.Application:
        app = web.Application()
        app.router.add_get(f"{self.path}/jwks", self._serve_keys)
        app.router.add_get(f"/.well-known/oauth-authorization-server{self.path}", self._serve_oauth_metadata)
        app.router.add_get(f"{self.path}/.well-known/openid-configuration", self._serve_oidc_metadata)
        return app

    async def _serve_keys(self, _request: web.Request) -> web.Response:
        self.fetches += 1
        if self.key_set_body is not None:
            return await self._answer(self.key_set_body)
        return await self._answer(_serialize(self.jwks()))

    async def _serve_oauth_metadata(self, _request: web.Request) -> web.Response:
        return await self._serve_metadata("oauth")

    async def _serve_oidc_metadata(self, _request: web.Request) -> web.Response:
        return await self._serve_metadata("oidc")

    async def _serve_metadata(self, document: Discovery) -> web.Response:
        if document not in self.discovery:
            return web.Response(status=404)
        return await self._answer(_serialize({"issuer": self.url, "jwks_uri": self.jwks_uri, **self.metadata}))

    async def _answer(self, body: bytes) -> web.Response:
        self._asked.set()
        await self._open.wait()
        if self._status != 200:
            return web.Response(status=self._status)
        return web.Response(body=body, content_type="application/json")


def _serialize(value: object) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()


def _generate(algorithm: str) -> SigningKey:
    parameters: dict[str, Any] = {"kid": secrets.token_urlsafe(6), "use": "sig", "alg": algorithm}
    if algorithm.startswith("ES"):
        curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm]
        return ECKey.generate_key(curve, parameters)  # type: ignore[arg-type]
    if algorithm.startswith("Ed"):
        return OKPKey.generate_key("Ed25519", parameters)  # type: ignore[arg-type]
    return RSAKey.generate_key(2048, parameters)  # type: ignore[arg-type]
