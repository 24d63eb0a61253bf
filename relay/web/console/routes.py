"""Putting the console on the gateway's application."""

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from relay.errors import Refusal
from relay.web.console import account, files, headers, pages, templating
from relay.web.console.shell import ROOT, Page, render_refusal
from relay.web.console.templating import NavigationItem
from relay.web.console.visits import VISITS, Visits

STATIC: Final = f"{ROOT}/static/{{version:[0-9a-f]+}}/{{name}}"


def set_up(
    app: web.Application,
    visits: Visits,
    *,
    public_url: str,
    issuer: str,
    routes: Sequence[web.RouteDef] = (),
) -> None:
    """Serve the console. ``routes`` are those that need nobody signed in: the sign-in itself."""
    every = (*pages.every(), *account.pages)
    app[VISITS] = visits
    templating.set_up(app, public_url=public_url, issuer=issuer, navigation=_navigation(every))
    app.on_response_prepare.append(headers.protect)
    app.add_routes(
        [
            *routes,
            *(page.route() for page in every),
            web.get(STATIC, files.answer, name="console_static"),
            web.get(f"{ROOT}/", _home, name="console_home"),
            web.route("*", f"{ROOT}/{{rest:.*}}", _absent, name="console_absent"),
        ]
    )


def _navigation(every: Sequence[Page]) -> list[NavigationItem]:
    return [NavigationItem(page.nav, ROOT + page.path) for page in every if page.nav is not None]


async def _home(_request: web.Request) -> web.Response:
    raise web.HTTPPermanentRedirect(ROOT)


async def _absent(request: web.Request) -> web.Response:
    return render_refusal(request, Refusal("not_found", "The console has no such page."))
