"""The demonstration's sign-in: who are you today? People have no passwords here, one click chooses.

``/authorize`` is that of RFC 6749 section 4.1 with PKCE, and of OpenID Connect. `choose_person` is the page itself.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import urlencode

from aiohttp import hdrs, web

from relay.clock import Clock
from relay.demo.accounts import PEOPLE, Accounts
from relay.demo.clients import OPENID, BrowserClient, origin_of
from relay.demo.codes import CODE_SECONDS, CodeGrants, Consent
from relay.demo.grants import OAuthError, Resources, read_form
from relay.http.bodies import read_bytes

NOBODY: Final = ""
"""The choice of who does not want to."""

_MAX_BODY_BYTES: Final = 4096
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)

_STYLE: Final = """\
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: 10vh auto; padding: 0 1rem }
form { display: grid; gap: .5rem }
button { font: inherit; padding: .6rem 1rem; text-align: start; border: 1px solid; border-radius: .3rem }
button:focus-visible { outline: 3px solid #b35900; outline-offset: 2px }
.no { background: transparent; border-color: transparent; text-decoration: underline }
"""

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/sign-in.css">
</head>
<body>
<main>
<h1>{heading}</h1>
{body}
</main>
</body>
</html>
"""


class NotAsRegistered(Exception):  # noqa: N818 - reads as what it says
    """The client or its address is not known: whoever asks is told here, and sent nowhere (RFC 9700 section 4.11)."""


class Refused(Exception):  # noqa: N818
    """The request is refused, and its client is told by a redirect (RFC 6749 section 4.1.2.1)."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a code that may be answered."""

    client: BrowserClient
    redirect_uri: str
    challenge: str
    resource: str
    scopes: frozenset[str]
    nonce: str | None


class SignIn:
    """The authorization endpoint."""

    def __init__(
        self, codes: CodeGrants, accounts: Accounts, resources: Resources, *, issuer: str, clock: Clock
    ) -> None:
        self._codes = codes
        self._accounts = accounts
        self._resources = resources
        self._issuer = issuer
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/authorize", self._authorize),
            web.post("/authorize", self._authorize),
            web.get("/sign-in.css", style),
        ]

    async def _authorize(self, request: web.Request) -> web.Response:
        """GET asks who it is; POST, from that page, is the answer. Both carry the request in their query."""
        try:
            client, redirect_uri = self._redirection(request)
        except NotAsRegistered as error:
            return page("This sign-in cannot go on", f"<p>{escape(str(error))}</p>", status=400)
        try:
            asked = self._asked(request, client, redirect_uri)
            if request.method == hdrs.METH_GET:
                return await self._ask(request, asked)
            answer = {"code": await self._consent(asked, await chosen_person(request))}
        except Refused as refused:
            answer = {"error": refused.code}
        return self._back(request, redirect_uri, answer)

    def _redirection(self, request: web.Request) -> tuple[BrowserClient, str]:
        client = self._codes.clients.get(request.query.get("client_id", ""))
        if client is None:
            raise NotAsRegistered("No client is registered here under this client_id.")
        redirect_uri = request.query.get("redirect_uri", "")
        if redirect_uri not in client.redirect_uris:
            raise NotAsRegistered("The client has not registered this redirect_uri, character by character.")
        return client, redirect_uri

    def _asked(self, request: web.Request, client: BrowserClient, redirect_uri: str) -> Asked:
        query = request.query
        if len(query) != len(set(query)):
            raise Refused("invalid_request")
        if query.get("response_type") != "code":
            raise Refused("unsupported_response_type")
        if query.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(query.get("code_challenge", "")):
            raise Refused("invalid_request")
        if query.get("prompt") == "none":
            raise Refused("login_required")
        try:
            resource = self._resources.check(query.get("resource", self._resources.relay))
        except OAuthError as error:
            raise Refused(error.code) from None
        scopes = frozenset(query["scope"].split(" ")) if "scope" in query else client.scopes
        if not scopes <= client.scopes:
            raise Refused("invalid_scope")
        return Asked(
            client=client,
            redirect_uri=redirect_uri,
            challenge=query["code_challenge"],
            resource=resource,
            scopes=scopes,
            nonce=query.get("nonce"),
        )

    async def _ask(self, request: web.Request, asked: Asked) -> web.Response:
        active = [person for person in PEOPLE if await self._accounts.is_active(person)]
        return choose_person(
            heading=f"Sign in to {asked.client.client_id}",
            text="This is a demonstration: whoever you choose, you are.",
            action=request.path_qs,
            people=active,
            form_targets=(origin_of(asked.redirect_uri),),
        )

    async def _consent(self, asked: Asked, person: str) -> str:
        if not await self._accounts.is_active(person):
            raise Refused("access_denied")
        now = self._clock.unix()
        return self._codes.issue(
            Consent(
                client=asked.client.client_id,
                redirect_uri=asked.redirect_uri,
                challenge=asked.challenge,
                resource=asked.resource,
                subject=person,
                # RFC 6749 section 3.3: a person gets no more than they have, and the client is told what it is.
                scopes=asked.scopes & (PEOPLE[person].scopes | OPENID),
                signed_in_at=int(now),
                expires_at=now + CODE_SECONDS,
                nonce=asked.nonce,
            )
        )

    def _back(self, request: web.Request, redirect_uri: str, answer: Mapping[str, str]) -> web.Response:
        # RFC 9207: the answer says whose it is.
        answer = {**answer, "iss": self._issuer}
        if "state" in request.query:
            answer["state"] = request.query["state"]
        joint = "&" if "?" in redirect_uri else "?"
        headers = {hdrs.LOCATION: f"{redirect_uri}{joint}{urlencode(answer)}", hdrs.CACHE_CONTROL: "no-store"}
        return web.Response(status=303, headers=headers)


def choose_person(
    *, heading: str, text: str, action: str, people: Iterable[str], form_targets: Iterable[str] = ()
) -> web.Response:
    """A page with a button for each person, and one for nobody. They post ``person`` to ``action``, a path of ours.

    ``form_targets`` are the origins that the answer to the form may lead to: browsers hold redirects against
    ``form-action`` as well.
    """
    buttons = "".join(
        f'<button name="person" value="{escape(person)}">{escape(PEOPLE[person].name)}</button>\n' for person in people
    )
    body = (
        f'<p>{escape(text)}</p>\n<form method="post" action="{escape(action)}">\n{buttons}'
        f'<button class="no" name="person" value="{NOBODY}">Do not sign in</button>\n</form>'
    )
    return page(heading, body, form_targets=form_targets)


async def chosen_person(request: web.Request) -> str:
    """Whom the form of `choose_person` names; `NOBODY` where it names nobody that there is."""
    body = await read_bytes(request, max_bytes=_MAX_BODY_BYTES)
    person = read_form(body).get("person", NOBODY) if body else NOBODY
    return person if person in PEOPLE else NOBODY


def page(heading: str, body: str, *, status: int = 200, form_targets: Iterable[str] = ()) -> web.Response:
    """A page of the issuer; ``body`` is HTML, the heading is not. Nothing in it comes from elsewhere or runs."""
    targets = " ".join(("'self'", *form_targets))
    policy = f"default-src 'none'; img-src data:; style-src 'self'; form-action {targets}; "
    return web.Response(
        text=_PAGE.format(heading=escape(heading), body=body),
        content_type="text/html",
        charset="utf-8",
        status=status,
        headers={
            "Content-Security-Policy": policy + "frame-ancestors 'none'; base-uri 'none'",
            "X-Content-Type-Options": "nosniff",
            # The request stands in the address.
            "Referrer-Policy": "no-referrer",
            hdrs.CACHE_CONTROL: "no-store",
        },
    )


async def style(_request: web.Request) -> web.Response:
    return web.Response(text=_STYLE, content_type="text/css", charset="utf-8")
