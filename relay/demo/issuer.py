"""The demonstration's authorization server: real keys, real grants, people without passwords.

    python -m relay.demo.issuer --state DIR --port N --relay http://127.0.0.1:8080

What it gives out it gives out by the book (RFC 6749, 7523, 7636, 8414, 8628, 8693, 8707, 9068, 9207, 9396, 9449,
and OpenID Connect). Only ``/demo/…`` is not, and that nobody has a password: anybody on this machine may have a token
for anybody, which is what makes it a demonstration.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

import click
import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from relay.clock import Clock, SystemClock
from relay.demo.accounts import CLIENT_ID, MACHINE, PEOPLE, Accounts
from relay.demo.assertions import DETAILS_TYPE, RegisteredClient
from relay.demo.clients import CONSOLE_KEY_FILE, OPENID, browser_clients
from relay.demo.codes import CodeGrants
from relay.demo.device import DEVICE_CODE, DeviceGrants
from relay.demo.files import signing_key
from relay.demo.grants import (
    GRANTS,
    Grants,
    OAuthError,
    Resources,
    granted_scopes,
    read_form,
)
from relay.demo.minting import Grant, Mint
from relay.demo.process import listen, serving, stay, url_of
from relay.demo.proofs import ALGORITHM, ProofRefused, Proofs
from relay.demo.sign_in import SignIn
from relay.http import problems
from relay.http.bodies import read_bytes, read_json
from relay.storage.engine import Database

CLIENT_KEY_FILE = f"{CLIENT_ID}.pem"
ISSUER_KEY_FILE = "issuer.pem"
DAY_SECONDS = 86_400

_MAX_BODY_BYTES = 65_536
_SYSTEM_CLOCK = SystemClock()
_FORM = "application/x-www-form-urlencoded"


class TokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /demo/token``. Without a resource the token is for the relay."""

    user: str
    resource: str | None = None
    scope: str | None = None
    expires_in: Annotated[int, msgspec.Meta(ge=1, le=DAY_SECONDS)] = DAY_SECONDS // 3


class PersonRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /demo/revoke`` and ``POST /demo/restore``."""

    user: str


class Issuer:
    """An authorization server with the people alice, bob and operator, and the machine client workbench."""

    def __init__(
        self,
        *,
        url: str,
        mint: Mint,
        grants: Grants,
        codes: CodeGrants,
        sign_in: SignIn,
        devices: DeviceGrants,
        resources: Resources,
        accounts: Accounts,
        proofs: Proofs,
    ) -> None:
        self.url = url
        self._proofs = proofs
        self._mint = mint
        self._codes = codes
        self._sign_in = sign_in
        self._devices = devices
        # By grant type; whatever else is asked for, the grants that a client has for itself decide.
        self._decisions: Mapping[str, Callable[[Mapping[str, str]], Coroutine[Any, Any, Grant]]] = {
            "authorization_code": codes.redeem,
            "refresh_token": codes.refresh,
            DEVICE_CODE: devices.decide,
        }
        self._decide = grants.decide
        self._resources = resources
        self._accounts = accounts

    @classmethod
    async def open(
        cls,
        state: Path,
        db: Database,
        *,
        url: str,
        resources: Resources,
        pages: Collection[str] = (),
        clock: Clock = _SYSTEM_CLOCK,
    ) -> Self:
        """The issuer whose keys stand in ``state``; made there where missing, the clients' too.

        Those are workbench.pem and console.pem. ``pages`` are the redirect URIs of the Workbench's own page.
        """
        accounts = Accounts(db)
        await accounts.prepare()
        own = await asyncio.to_thread(signing_key, state / ISSUER_KEY_FILE)
        clients = await asyncio.to_thread(signing_key, state / CLIENT_KEY_FILE)
        client = RegisteredClient(client_id=CLIENT_ID, key=clients, relays=frozenset({resources.relay}))
        grants = Grants(issuer=url, key=own, client=client, resources=resources, accounts=accounts, clock=clock)
        mint = Mint(own, issuer=url, clock=clock)
        consoles = await asyncio.to_thread(signing_key, state / CONSOLE_KEY_FILE)
        browsers = browser_clients(relay=resources.relay, console_key=consoles, pages=pages)
        codes = CodeGrants(browsers, issuer=url, resources=resources, accounts=accounts, clock=clock)
        return cls(
            url=url,
            mint=mint,
            grants=grants,
            codes=codes,
            sign_in=SignIn(codes, accounts, resources, issuer=url, clock=clock),
            devices=DeviceGrants(codes, accounts, resources, issuer=url, clock=clock),
            resources=resources,
            accounts=accounts,
            proofs=Proofs(clock),
        )

    def application(self) -> web.Application:
        app = web.Application(middlewares=[problems.middleware, _oauth_errors])
        app.on_response_prepare.append(self._share)
        app.add_routes(
            [
                *self._sign_in.routes(),
                *self._devices.routes(),
                web.get("/.well-known/oauth-authorization-server", self._metadata),
                web.get("/.well-known/openid-configuration", self._metadata),
                web.get("/jwks.json", self._key_set),
                web.post("/token", self._token),
                web.post("/demo/token", self._demo_token),
                web.post("/demo/revoke", self._revoke),
                web.post("/demo/restore", self._restore),
            ]
        )
        return app

    async def answer_for(self, wanted: TokenRequest) -> dict[str, Any]:
        """A token for a person or for the machine client, as ``POST /demo/token`` answers it."""
        if wanted.user == MACHINE.subject:
            account = MACHINE
        elif await self._accounts.is_active(wanted.user):
            account = PEOPLE[wanted.user]
        else:
            raise OAuthError("access_denied", "there is no such person, or their access was revoked")
        resource = self._resources.check(wanted.resource or self._resources.relay)
        # RFC 8693 section 4.4: where a person signs in at the relay, the relay may go on for them.
        lets_act = account is not MACHINE and resource == self._resources.relay
        grant = Grant(
            subject=account.subject,
            client_id=CLIENT_ID,
            resource=resource,
            scopes=granted_scopes(wanted.scope, account.scopes),
            seconds=wanted.expires_in,
            about={"may_act": {"sub": resource}} if lets_act else {},
        )
        return self._mint.answer(grant)

    async def _metadata(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "device_authorization_endpoint": f"{self.url}/device_authorization",
                "jwks_uri": f"{self.url}/jwks.json",
                "grant_types_supported": [*GRANTS, *self._decisions],
                "response_types_supported": ["code"],
                "response_modes_supported": ["query"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
                "scopes_supported": sorted(OPENID.union(MACHINE.scopes, *(one.scopes for one in PEOPLE.values()))),
                # Without one: public clients.
                "token_endpoint_auth_methods_supported": ["private_key_jwt", "none"],
                "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256"],
                "authorization_details_types_supported": [DETAILS_TYPE],
                "dpop_signing_alg_values_supported": [ALGORITHM],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            }
        )

    async def _key_set(self, _request: web.Request) -> web.Response:
        return web.json_response(self._mint.key_set)

    async def _token(self, request: web.Request) -> web.Response:
        if request.content_type != _FORM:
            raise OAuthError("invalid_request", f"send {_FORM}")
        form = read_form(await read_bytes(request, max_bytes=_MAX_BODY_BYTES))
        # First, so that a request that only misses its nonce uses up no assertion.
        key = self._proven_key(request)
        grant = await self._decisions.get(form.get("grant_type", ""), self._decide)(form)
        return web.json_response(self._mint.answer(replace(grant, bound_to=key)))

    async def _share(self, request: web.Request, response: web.StreamResponse) -> None:
        """Let pages of public clients read what they ask for (Fetch, CORS). Nothing here depends on cookies."""
        origin = request.headers.get("Origin")
        shared = {one for client in self._codes.clients.values() if client.key is None for one in client.origins}
        if origin in shared and not request.path.startswith("/authorize"):
            response.headers.update({"Access-Control-Allow-Origin": origin, "Vary": "Origin"})

    def _proven_key(self, request: web.Request) -> str | None:
        """The key that the token is to be bound to; None: the request proves none."""
        proofs = request.headers.getall("DPoP", [])
        if not proofs:
            return None
        try:
            return self._proofs.check(proofs, method="POST", url=f"{self.url}/token")
        except ProofRefused as error:
            raise OAuthError(error.code, str(error), headers={"DPoP-Nonce": self._proofs.nonce}) from None

    async def _demo_token(self, request: web.Request) -> web.Response:
        return web.json_response(
            await self.answer_for(await read_json(request, TokenRequest, max_bytes=_MAX_BODY_BYTES))
        )

    async def _revoke(self, request: web.Request) -> web.Response:
        person = await self._person(request)
        await self._accounts.revoke(person)
        return web.json_response({"user": person, "revoked": True})

    async def _restore(self, request: web.Request) -> web.Response:
        person = await self._person(request)
        await self._accounts.restore(person)
        return web.json_response({"user": person, "revoked": False})

    async def _person(self, request: web.Request) -> str:
        wanted = await read_json(request, PersonRequest, max_bytes=_MAX_BODY_BYTES)
        if wanted.user not in PEOPLE:
            raise OAuthError("invalid_request", f"there are {', '.join(PEOPLE)}")
        return wanted.user


@web.middleware
async def _oauth_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except OAuthError as error:
        told = {"error": error.code, "error_description": error.description}
        return web.json_response(told, status=error.status, headers=error.headers)


@asynccontextmanager
async def running(
    state: Path,
    resources: Resources,
    *,
    port: int = 0,
    pages: Collection[str] = (),
    clock: Clock = _SYSTEM_CLOCK,
) -> AsyncIterator[Issuer]:
    """The issuer of ``state``, answering on loopback within the block."""
    db = Database.open(f"sqlite:///{state / 'issuer.db'}")
    try:
        with listen(port) as listener:
            url = url_of(listener, secure=False)
            issuer = await Issuer.open(state, db, url=url, resources=resources, pages=pages, clock=clock)
            async with serving(issuer.application(), listener):
                yield issuer
    finally:
        await db.close()


async def _run(state: Path, port: int, resources: Resources, pages: Collection[str]) -> None:
    async with running(state, resources, port=port, pages=pages) as issuer:
        await stay("issuer", issuer.url)


@click.command()
@click.option("--state", required=True, type=click.Path(file_okay=False, path_type=Path), help="Where keys are kept.")
@click.option("--port", default=0, show_default="a free one", help="Port on 127.0.0.1.")
@click.option("--relay", required=True, help="The relay's public URL: audience of callers, issuer of assertions.")
@click.option("--resource", "origins", multiple=True, help="A specialist's origin; none: any https://localhost:…")
@click.option("--page", "pages", multiple=True, help="A redirect URI of the Workbench's own page (workbench-page).")
def main(state: Path, port: int, relay: str, origins: tuple[str, ...], pages: tuple[str, ...]) -> None:
    """Run the demonstration's authorization server."""
    asyncio.run(_run(state, port, Resources(relay=relay, origins=frozenset(origins)), pages))


if __name__ == "__main__":
    main()
