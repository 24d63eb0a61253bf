"""The demonstration's Workbench: a page with a conversation, in which the relay's widget takes ratings.

    python -m relay.demo.workbench --relay URL --issuer URL --specialist ID NAME ORIGIN --ca-file FILE --port N

It does what any page would: it has an origin of its own, loads the widget by the script element that ``relay widget``
prints, signs people in at the issuer, and hands their access tokens to the widget. The conversation is given to whoever
shows such a token: the page and this server are one client.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

import click
from aiohttp import hdrs, web

from registry.egress import Egress, EgressPolicy
from relay.clock import SystemClock
from relay.demo.accounts import CLIENT_ID, PEOPLE
from relay.demo.clients import PAGE
from relay.demo.conversations import AskingError, Conversation, Conversations
from relay.demo.process import listen, serving, stay, url_of_page
from relay.errors import Refusal
from relay.http import problems
from relay.identity.keys import KeySets
from relay.identity.model import IssuerPolicy
from relay.identity.scopes import require
from relay.identity.tokens import Verifier
from relay.web import load

TYPES: Final[Mapping[str, str]] = {
    "workbench.css": "text/css",
    "workbench.js": "text/javascript",
    "sign_in.js": "text/javascript",
    "conversation.js": "text/javascript",
}
_RETRY_SECONDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The servers that the Workbench works with. ``specialists`` are origins by agent."""

    relay: str
    issuer: str
    specialists: Mapping[str, str]

    @property
    def policy(self) -> str:
        """What the page may load and call: its own, the relay's widget and API, and the issuer's token endpoint."""
        return (
            f"default-src 'none'; script-src 'self' {self.relay}; style-src 'self'; img-src data:; "
            f"connect-src 'self' {self.relay} {self.issuer}; form-action 'none'; frame-ancestors 'none'; "
            "base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        )


class Workbench:
    """The page, its files, and the conversation of whoever has signed in."""

    def __init__(
        self,
        url: str,
        surroundings: Surroundings,
        *,
        names: Mapping[str, str],
        conversations: Conversations,
        verifier: Verifier,
    ) -> None:
        self._url = url
        self._surroundings = surroundings
        self._names = names
        self._conversations = conversations
        self._verifier = verifier

    def application(self) -> web.Application:
        app = web.Application(middlewares=[problems.middleware])
        app.on_response_prepare.append(self._protect)
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/conversation", self._conversation),
                *(web.get(f"/{name}", _file) for name in TYPES),
            ]
        )
        return app

    async def _protect(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(
            {
                "Content-Security-Policy": self._surroundings.policy,
                "X-Content-Type-Options": "nosniff",
                # A code stands in the address for a moment.
                "Referrer-Policy": "no-referrer",
                "Cross-Origin-Opener-Policy": "same-origin",
                "Cross-Origin-Resource-Policy": "same-origin",
            }
        )

    async def _page(self, request: web.Request) -> web.Response:
        if request.host != self._url.removeprefix("http://"):
            # By another name of this machine the issuer and the relay would not know the page.
            raise web.HTTPTemporaryRedirect(f"{self._url}/")
        text = Template(_read("index.html")).substitute(
            widget=load().element(self._surroundings.relay),
            relay=escape(self._surroundings.relay),
            issuer=escape(self._surroundings.issuer),
            client=escape(PAGE),
        )
        return web.Response(text=text, content_type="text/html", charset="utf-8")

    async def _conversation(self, request: web.Request) -> web.Response:
        person = await self._person(request)
        try:
            conversation = await self._conversations.of(person)
        except AskingError:
            return web.json_response(
                {"detail": "A specialist is away."}, status=503, headers={hdrs.RETRY_AFTER: str(_RETRY_SECONDS)}
            )
        return web.json_response({"person": PEOPLE[person].name, **self._shown(conversation)})

    async def _person(self, request: web.Request) -> str:
        """Who has signed in; raises Refusal."""
        principal = await self._verifier.verify(request.headers.getall(hdrs.AUTHORIZATION, []))
        require(principal, "feedback:write")
        if principal.client != CLIENT_ID or principal.subject not in PEOPLE:
            raise Refusal("client_not_allowed", "This is for people who have signed in to the Workbench.")
        return principal.subject

    def _shown(self, conversation: Conversation) -> dict[str, object]:
        return {
            "id": conversation.id,
            "turns": [
                {
                    "question": turn.question,
                    "answer": turn.answer,
                    "parts": [
                        {"specialist": self._names[part.agent], "text": part.text, "toolCalls": part.tool_calls}
                        for part in turn.parts
                    ],
                }
                for turn in conversation.turns
            ],
        }


async def _file(request: web.Request) -> web.Response:
    name = request.path.removeprefix("/")
    return web.Response(text=_read(name), content_type=TYPES[name], charset="utf-8")


@cache
def _read(name: str) -> str:
    return (files("relay.demo") / "page" / name).read_text("utf-8")


async def _run(surroundings: Surroundings, names: Mapping[str, str], ca_file: str, port: int) -> None:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        egress = await stack.enter_async_context(Egress(EgressPolicy(development=True, ca_file=ca_file)))
        listener = stack.enter_context(listen(port))
        url = url_of_page(listener.getsockname()[1])
        issuers = [IssuerPolicy(issuer=surroundings.issuer, audience=surroundings.relay, algorithms=("ES256",))]
        keys = KeySets(issuers, egress, clock)
        stack.push_async_callback(keys.close)
        workbench = Workbench(
            url,
            surroundings,
            names=names,
            conversations=Conversations(
                egress,
                issuer=surroundings.issuer,
                relay=surroundings.relay,
                specialists=surroundings.specialists,
            ),
            verifier=Verifier(issuers, keys, clock),
        )
        await stack.enter_async_context(serving(workbench.application(), listener))
        await stay("workbench", url)


@click.command()
@click.option("--relay", required=True, help="The relay's public URL.")
@click.option("--issuer", required=True, help="URL of the authorization server that people sign in at.")
@click.option(
    "--specialist", "specialists", multiple=True, required=True, type=(str, str, str), help="Agent, name and origin."
)
@click.option("--ca-file", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Who certifies them.")
@click.option("--port", default=0, show_default="a free one", help="Port on 127.0.0.1.")
def main(relay: str, issuer: str, specialists: tuple[tuple[str, str, str], ...], ca_file: Path, port: int) -> None:
    """Run the demonstration's Workbench."""
    origins = {agent: origin for agent, _, origin in specialists}
    names = {agent: name for agent, name, _ in specialists}
    surroundings = Surroundings(relay=relay, issuer=issuer, specialists=origins)
    asyncio.run(_run(surroundings, names, str(ca_file), port))


if __name__ == "__main__":
    main()
