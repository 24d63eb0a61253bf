"""Signing in from a terminal at the demonstration's issuer: the device authorization grant (RFC 8628).

Codes are kept in memory. The page is that of `relay.demo.sign_in`: one click chooses who you are.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import hdrs, web

from relay.clock import Clock
from relay.demo.accounts import PEOPLE, Accounts
from relay.demo.clients import OPENID, BrowserClient
from relay.demo.codes import CodeGrants, Consent
from relay.demo.grants import OAuthError, Resources, granted_scopes, read_form
from relay.demo.minting import Grant
from relay.demo.sign_in import choose_person, chosen_person, page
from relay.http.bodies import read_bytes

DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
LASTS_SECONDS: Final = 600
INTERVAL_SECONDS: Final = 1.0
SLOWER_SECONDS: Final = 5.0

_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""RFC 8628 section 6.1: without vowels no words come about, and none of these is taken for another."""
_MAX_BODY_BYTES: Final = 4096

_ASK_CODE: Final = """\
<p>{text}</p>
<form method="get" action="/device">
<label for="user_code">The code that your terminal shows</label>
<input id="user_code" name="user_code" required autocomplete="off" autocapitalize="characters" spellcheck="false">
<button>Go on</button>
</form>
"""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A terminal that waits for its person. Times are seconds since the epoch; ``consent`` is the answer."""

    client: BrowserClient
    scopes: frozenset[str]
    resource: str
    user_code: str
    expires_at: float
    asked_at: float
    interval: float = INTERVAL_SECONDS
    answered: bool = False
    consent: Consent | None = None


class DeviceGrants:
    """The device authorization endpoint, the page, and what the token endpoint says meanwhile."""

    def __init__(
        self, codes: CodeGrants, accounts: Accounts, resources: Resources, *, issuer: str, clock: Clock
    ) -> None:
        self._codes = codes
        self._accounts = accounts
        self._resources = resources
        self._issuer = issuer
        self._clock = clock
        self._waiting: dict[str, Waiting] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/device_authorization", self._authorize),
            web.get("/device", self._page),
            web.post("/device", self._page),
        ]

    async def decide(self, form: Mapping[str, str]) -> Grant:
        """What a terminal that asks whether its person has answered is granted; raises OAuthError."""
        client = self._client(form)
        code = form.get("device_code", "")
        waiting = self._waiting.get(code)
        if waiting is None or waiting.client is not client:
            raise OAuthError("invalid_grant", "the device code was not given out by us, or was used before")
        now = self._clock.unix()
        if waiting.expires_at <= now:
            del self._waiting[code]
            raise OAuthError("expired_token", "nobody has answered in time")
        too_soon, waiting.asked_at = now - waiting.asked_at < waiting.interval / 2, now
        if waiting.answered:
            del self._waiting[code]
            if waiting.consent is None:
                raise OAuthError("access_denied", "the person did not want to")
            return await self._codes.grant(client, waiting.consent, form)
        if too_soon:
            waiting.interval += SLOWER_SECONDS
            raise OAuthError("slow_down", "ask less often")
        raise OAuthError("authorization_pending", "nobody has answered yet")

    async def _authorize(self, request: web.Request) -> web.Response:
        form = read_form(await read_bytes(request, max_bytes=_MAX_BODY_BYTES))
        client = self._client(form)
        now = self._clock.unix()
        self._waiting = {code: one for code, one in self._waiting.items() if one.expires_at > now - LASTS_SECONDS}
        waiting = Waiting(
            client=client,
            scopes=granted_scopes(form.get("scope"), client.scopes),
            resource=self._resources.check(form.get("resource", self._resources.relay)),
            user_code="-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(2)),
            expires_at=now + LASTS_SECONDS,
            asked_at=now,
        )
        code = secrets.token_urlsafe(32)
        self._waiting[code] = waiting
        return web.json_response(self._invitation(code, waiting), headers={hdrs.CACHE_CONTROL: "no-store"})

    def _invitation(self, code: str, waiting: Waiting) -> dict[str, Any]:
        return {
            "device_code": code,
            "user_code": waiting.user_code,
            "verification_uri": f"{self._issuer}/device",
            "verification_uri_complete": f"{self._issuer}/device?{urlencode({'user_code': waiting.user_code})}",
            "expires_in": LASTS_SECONDS,
            "interval": INTERVAL_SECONDS,
        }

    async def _page(self, request: web.Request) -> web.Response:
        """GET asks for the code, then who it is; POST, from that page, is the answer."""
        written = request.query.get("user_code", "")
        waiting = self._find(written)
        if waiting is None:
            text = "No terminal waits under this code." if written else "Sign in on a terminal."
            return page("Sign in on a terminal", _ASK_CODE.format(text=escape(text)), status=404 if written else 200)
        if request.method == hdrs.METH_GET:
            return choose_person(
                heading=f"Sign in to {waiting.client.client_id}",
                # RFC 8628 section 5.4: whoever was sent here by somebody else sees that it is not their own terminal.
                text=f"Only if your own terminal shows {waiting.user_code}: whoever you choose, it may act as.",
                action=request.path_qs,
                people=[person for person in PEOPLE if await self._accounts.is_active(person)],
            )
        waiting.consent = await self._consent(waiting, await chosen_person(request))
        waiting.answered = True
        said = "Go back to your terminal." if waiting.consent else "Your terminal is told that you did not want to."
        return page("That is all", f"<p>{said}</p>")

    def _find(self, written: str) -> Waiting | None:
        """By what a person typed: in any case, with or without the hyphen (RFC 8628 section 6.1)."""
        letters = re.sub(r"[^A-Z]", "", written.upper())
        now = self._clock.unix()
        for waiting in self._waiting.values():
            if waiting.user_code.replace("-", "") == letters and not waiting.answered and waiting.expires_at > now:
                return waiting
        return None

    async def _consent(self, waiting: Waiting, person: str) -> Consent | None:
        if not await self._accounts.is_active(person):
            return None
        now = self._clock.unix()
        return Consent(
            client=waiting.client.client_id,
            redirect_uri="",
            challenge="",
            resource=waiting.resource,
            subject=person,
            # RFC 6749 section 3.3: a person gets no more than they have, and the client is told what it is.
            scopes=waiting.scopes & (PEOPLE[person].scopes | OPENID),
            signed_in_at=int(now),
            expires_at=waiting.expires_at,
        )

    def _client(self, form: Mapping[str, str]) -> BrowserClient:
        client = self._codes.clients.get(form.get("client_id", ""))
        if client is None or not client.device:
            raise OAuthError("invalid_client", "name a client that is registered for the device grant in client_id")
        return client
