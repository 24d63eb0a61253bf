"""``/console/account``: who you are here, where you are signed in, and the way out."""

from aiohttp import web

from relay.web.console.gate import SESSION
from relay.web.console.sessions.model import COOKIE
from relay.web.console.shell import SIGN_IN, Pages, render, see_other
from relay.web.console.sign_in.routes import SESSIONS
from relay.web.console.visits import Visit

pages = Pages()


@pages.get("/account", name="console_account")
async def account(request: web.Request, visit: Visit) -> web.StreamResponse:
    """What the session may do, and the operator's sessions."""
    here = request[SESSION]
    sessions = await request.app[SESSIONS].all_of(here)
    return render(request, visit, "account.html", {"here": here, "sessions": sessions})


@pages.post("/sign-out", name="console_sign_out", scope="operator:read")
async def sign_out(request: web.Request, _visit: Visit) -> web.StreamResponse:
    """End this session."""
    await request.app[SESSIONS].end(request[SESSION])
    return _gone(request, "You are signed out.")


@pages.post("/sign-out/everywhere", name="console_sign_out_everywhere", scope="operator:read")
async def sign_out_everywhere(request: web.Request, _visit: Visit) -> web.StreamResponse:
    """End all sessions of this operator."""
    ended = await request.app[SESSIONS].end_all(request[SESSION])
    return _gone(request, f"You are signed out everywhere: {ended} session{'s' if ended != 1 else ''} ended.")


def _gone(request: web.Request, message: str) -> web.Response:
    response = see_other(request, SIGN_IN, message)
    response.del_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Lax")
    return response
