"""The way into a page: the cookie, the session behind it, the form's token, and the scope."""

from typing import Final
from zoneinfo import ZoneInfo

from aiohttp import hdrs, web
from typing_extensions import override

from relay.errors import Refusal
from relay.identity.authentication import ADMIT, PRINCIPAL, authorize_operator
from relay.identity.model import OperatorScope
from relay.operators.analytics.zones import zone_named
from relay.web.console.sessions.forms import form_of
from relay.web.console.sessions.model import COOKIE, Session, csrf_token
from relay.web.console.sessions.sessions import Sessions
from relay.web.console.shell import FRAGMENT, READING, VISIT
from relay.web.console.visits import NO_FORM, UTC_ZONE, SignInNeeded, Visit, Visits

SESSION: Final = web.RequestKey("console_session", Session)
ZONE_COOKIE: Final = "relay-console-zone"
_STREAM: Final = "text/event-stream"


class Gate(Visits):
    """Lets those in who are signed in. ``origin`` is the relay's own."""

    def __init__(self, sessions: Sessions, *, origin: str) -> None:
        self._sessions = sessions
        self._origin = origin

    @override
    async def of(self, request: web.Request, scope: OperatorScope) -> Visit:
        secret = request.cookies.get(COOKIE)
        if secret is None:
            raise SignInNeeded
        session, contents, principal = await self._sessions.find(secret, present=_is_present(request))
        # From here on the request is like one to the API with this token.
        request[SESSION], request[PRINCIPAL] = session, principal
        admit = request.app.get(ADMIT)
        if admit is not None:
            admit(request, principal)
        form = NO_FORM if request.method in READING else await form_of(request, secret, origin=self._origin)
        visit = Visit(
            principal=principal, name=contents.name, csrf=csrf_token(secret), zone=await _zone(request), form=form
        )
        # Who may not see this page is told so on a page of theirs.
        request[VISIT] = visit
        await authorize_operator(request, scope)
        return visit


def _is_present(request: web.Request) -> bool:
    """A page that keeps itself up to date keeps nobody signed in."""
    return FRAGMENT not in request.headers and _STREAM not in request.headers.get(hdrs.ACCEPT, "")


async def _zone(request: web.Request) -> ZoneInfo:
    """The reader's zone, as the script has noted it; UTC where there is no script, or no such zone."""
    name = request.cookies.get(ZONE_COOKIE, "UTC").replace("%2F", "/")
    try:
        zone = await zone_named(name)
    except Refusal:
        return UTC_ZONE
    return zone if isinstance(zone, ZoneInfo) else UTC_ZONE
