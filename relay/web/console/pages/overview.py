"""``/console``: how the relay fares."""

from aiohttp import web

from relay.web.console.shell import Pages, render
from relay.web.console.visits import Visit

pages = Pages()


@pages.get("", name="console_overview", nav="Overview")
async def overview(request: web.Request, visit: Visit) -> web.StreamResponse:
    """The first page after the sign-in."""
    return render(request, visit, "overview.html", {})
