"""Talking to the demonstration's servers."""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from registry.egress import Egress, Exchange
from relay.demo.issuer import Issuer
from tests.support.issuer import compact

RELAY = "http://127.0.0.1:8080"
"""The relay's public URL, as the issuer of the tests knows it. Nothing has to listen there."""

SPECIALIST = "https://localhost:9443"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"
NOW = 1_800_000_000
"""When the tests' clock begins."""

SUBMISSION = "0b5a1f6e-0f5c-4a53-9a3e-0d8f3f2b7c11"
DETAILS = {
    "type": "feedback_submission",
    "submission_id": SUBMISSION,
    "task_id": "task-1",
    "payload_sha256": "ab" * 32,
}
LEFT_OUT: Any = ...
"""In the place of a value: there is none."""


def without(values: Mapping[str, object]) -> dict[str, Any]:
    """The values but for those that are LEFT_OUT."""
    return {name: value for name, value in values.items() if value is not LEFT_OUT}


class Assertions:
    """The registered client's assertions as they should be, and as a test wants them instead."""

    def __init__(self, key: ECKey, *, issuer: str, now: int) -> None:
        self.key = key
        self.issuer = issuer
        self._now = now

    def of_client(self, *, header: Mapping[str, object] | None = None, **claims: object) -> str:
        own = {"iss": "workbench", "sub": "workbench", **self._common(), **claims}
        return self._sign({"typ": "JWT", **(header or {})}, own)

    def of_owner(self, *, header: Mapping[str, object] | None = None, **claims: object) -> str:
        own = {
            "iss": RELAY,
            "sub": "alice",
            "client_id": "workbench",
            "act": {"sub": RELAY},
            "authorization_details": [DETAILS],
            **self._common(),
            **claims,
        }
        return self._sign({"typ": "owner-assertion+jwt", **(header or {})}, own)

    def _common(self) -> dict[str, object]:
        return {"aud": self.issuer, "jti": uuid.uuid4().hex, "iat": self._now, "exp": self._now + 60}

    def _sign(self, header: Mapping[str, object], claims: Mapping[str, object]) -> str:
        header = without({"alg": "ES256", "kid": self.key.thumbprint(), **header})
        return compact(json.dumps(header).encode(), json.dumps(without(claims)).encode(), self.key, "ES256")


class Client:
    """The registered client at the token endpoint of the demonstration's issuer."""

    def __init__(self, issuer: Issuer, state: Path, egress: Egress) -> None:
        key = ECKey.import_key((state / "workbench.pem").read_bytes())
        self.assertions = Assertions(key, issuer=issuer.url, now=NOW)
        self._egress = egress

    def form(self, **parameters: object) -> dict[str, str]:
        """A request for the machine client's token, changed by the parameters."""
        form = {
            "grant_type": "client_credentials",
            "resource": SPECIALIST,
            "scope": "feedback:write",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": self.assertions.of_client(),
        }
        return without({**form, **parameters})

    def owner_form(self, **parameters: object) -> dict[str, str]:
        """A request for a token of alice's, changed by the parameters."""
        return self.form(**{"grant_type": JWT_BEARER, "assertion": self.assertions.of_owner(), **parameters})

    def exchange_form(self, subject_token: object, **parameters: object) -> dict[str, str]:
        """A request to exchange a token, changed by the parameters."""
        own = {"subject_token": subject_token, "subject_token_type": ACCESS_TOKEN_TYPE}
        return self.form(**{"grant_type": TOKEN_EXCHANGE, **own, **parameters})

    async def ask(self, form: dict[str, str] | bytes, **headers: str) -> Exchange:
        return await post_form(self._egress, f"{self.assertions.issuer}/token", form, **headers)

    async def error(self, form: dict[str, str] | bytes, **headers: str) -> tuple[int, str]:
        answer = await self.ask(form, **headers)
        return answer.status, read(answer)["error"]

    async def live_token(self, user: str = "alice", **wanted: object) -> str:
        """The token of somebody who has signed in at the relay."""
        answer = await post_json(self._egress, f"{self.assertions.issuer}/demo/token", {"user": user, **wanted})
        return str(read(answer)["access_token"])


async def verified(issuer: Issuer, egress: Egress, token: str) -> jwt.Token:
    """A token whose signature is of a published key."""
    keys = KeySet.import_key_set(read(await get(egress, f"{issuer.url}/jwks.json")))
    return jwt.decode(token, keys, algorithms=["ES256"])


async def post_json(egress: Egress, url: str, value: object, *, token: str | None = None) -> Exchange:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    headers = {"content-type": "application/json", **_bearer(token)}
    return await egress.exchange("POST", url, headers=headers, body=body, deadline=10)


async def post_form(egress: Egress, url: str, form: dict[str, str] | bytes, **more: str) -> Exchange:
    body = form if isinstance(form, bytes) else urlencode(form).encode()
    headers = {"content-type": "application/x-www-form-urlencoded", **more}
    return await egress.exchange("POST", url, headers=headers, body=body, deadline=10)


async def get(egress: Egress, url: str, *, token: str | None = None) -> Exchange:
    return await egress.exchange("GET", url, headers=_bearer(token), deadline=10)


def read(exchange: Exchange) -> Any:
    return json.loads(exchange.body)


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


@asynccontextmanager
async def process(module: str, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A server of the demonstration as a process of its own, once it says that it is ready, and its URL."""
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"relay.demo.{module}", *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert running.stdout is not None
    try:
        yield running, json.loads(await running.stdout.readline())["url"]
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()
