"""What the console's pages are written with.

    from relay.web.console.shell import Pages, render, see_other
    from relay.web.console.visits import Visit

    pages = Pages()

    @pages.get("/submissions", name="console_submissions", nav="Submissions")
    async def submissions(request: web.Request, visit: Visit) -> web.StreamResponse:
        return render(request, visit, "submissions.html", {"items": …})

    @pages.post("/submissions/{owner}/{id}/retry", name="console_retry", scope="operator:write")
    async def retry(request: web.Request, visit: Visit) -> web.StreamResponse:
        … visit.form.get("why") …
        return see_other(request, "/console/submissions/…", "The submission is due again.")

Paths are below ``/console``. A handler runs only for somebody who is signed in and holds the scope; that of a POST only
where the form came with the session's CSRF token, from a page of this relay. What it raises (a `Refusal` of the use
case, a fault) becomes a page with the same status. `relay.identity.authentication.authorize_operator` works inside, for
a second scope.

Templates extend ``base.html`` and fill its blocks ``title`` and ``main``. Every form that posts holds ``{{ csrf_field()
}}``. An instant (milliseconds) is shown by ``{{ at | instant }}``.

A fragment that keeps itself up to date is an element with an id and ``data-live="/console/…"``, the address of an event
stream: at any event, the script gets the page again with ``X-Fragment: ID`` and puts the element of that id in place.
Where the template has a block named like the id (hyphens as underscores) that holds exactly the element, `render`
answers with it alone.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

import aiohttp_jinja2
from aiohttp import hdrs, web

from relay.errors import Refusal
from relay.http.problems import PROBLEM, refusal_of
from relay.identity.model import OperatorScope
from relay.web.console.visits import VISITS, SignInNeeded, Visit

ROOT: Final = "/console"
SIGN_IN: Final = f"{ROOT}/sign-in"
FRAGMENT: Final = "X-Fragment"
READING: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
"""Methods that change nothing (RFC 9110 section 9.2.1): all others come with a form."""
MESSAGE: Final = "__Host-relay-console-message"
_LONGEST_MESSAGE: Final = 500

PageHandler = Callable[[web.Request, Visit], Awaitable[web.StreamResponse]]
Method = Literal["GET", "POST"]

VISIT: Final = web.RequestKey("console_visit", Visit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One method of one path. ``nav`` is its name in the console's navigation; None: it does not stand there."""

    method: Method
    path: str
    name: str
    scope: OperatorScope
    handler: PageHandler
    nav: str | None = None

    def route(self) -> web.RouteDef:
        return web.RouteDef(self.method, ROOT + self.path, self.answer, {"name": self.name})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The page, for whoever may see it; a page that says why not for everybody else."""
        try:
            visit = request[VISIT] = await request.app[VISITS].of(request, self.scope)
            return await self.handler(request, visit)
        except SignInNeeded as needed:
            return _ask_to_sign_in(request, needed)
        except web.HTTPRedirection:
            raise
        except Exception as error:  # whatever it is, a person reads the answer
            if request.transport is None or request.writer.output_size > 0:
                raise  # the answer had begun: nothing can be shown any more
            return render_refusal(request, refusal_of(error))


class Pages:
    """The pages of one part of the console, in the order in which they were written."""

    def __init__(self) -> None:
        self._pages: list[Page] = []

    def __iter__(self) -> Iterator[Page]:
        return iter(self._pages)

    def get(
        self, path: str, *, name: str, scope: OperatorScope = "operator:read", nav: str | None = None
    ) -> Callable[[PageHandler], PageHandler]:
        return self._adding("GET", path, name, scope, nav)

    def post(
        self, path: str, *, name: str, scope: OperatorScope = "operator:write"
    ) -> Callable[[PageHandler], PageHandler]:
        return self._adding("POST", path, name, scope, None)

    def _adding(
        self, method: Method, path: str, name: str, scope: OperatorScope, nav: str | None
    ) -> Callable[[PageHandler], PageHandler]:
        def add(handler: PageHandler) -> PageHandler:
            self._pages.append(Page(method=method, path=path, name=name, scope=scope, handler=handler, nav=nav))
            return handler

        return add


def render(
    request: web.Request, visit: Visit | None, template: str, values: Mapping[str, Any], *, status: int = 200
) -> web.Response:
    """The page; for a request for one fragment, that alone where the template has a block of its name."""
    context = {**values, "visit": visit, "request": request, "message": _message(request)}
    found = aiohttp_jinja2.get_env(request.app).get_template(template)
    block = found.blocks.get(request.headers.get(FRAGMENT, "").replace("-", "_"))
    text = found.render(context) if block is None else "".join(block(found.new_context(context)))
    response = web.Response(text=text, content_type="text/html", charset="utf-8", status=status)
    if block is None and context["message"] is not None:
        response.del_cookie(MESSAGE, path="/", secure=True, httponly=True, samesite="Lax")
    return response


def render_refusal(request: web.Request, refusal: Refusal) -> web.Response:
    """The page that says what was refused and what to change, with the status that the API would give."""
    request[PROBLEM] = refusal.code
    response = render(request, request.get(VISIT), "refused.html", {"refusal": refusal}, status=refusal.status)
    for name in (hdrs.RETRY_AFTER, hdrs.ALLOW, hdrs.WWW_AUTHENTICATE):
        if name in refusal.headers:
            response.headers[name] = refusal.headers[name]
    return response


def see_other(_request: web.Request, address: str, message: str | None = None) -> web.Response:
    """Go on to a page of the console after a form was taken; ``message`` is shown there, once."""
    response = web.Response(status=303, headers={hdrs.LOCATION: address})
    if message is not None:
        text = quote(message[:_LONGEST_MESSAGE], safe="")
        response.set_cookie(MESSAGE, text, path="/", secure=True, httponly=True, samesite="Lax", max_age=60)
    return response


def _message(request: web.Request) -> str | None:
    written = request.cookies.get(MESSAGE)
    return None if written is None else unquote(written)[:_LONGEST_MESSAGE]


def _ask_to_sign_in(request: web.Request, needed: SignInNeeded) -> web.Response:
    """A page that was asked for leads to the sign-in and back; a form or a fragment cannot be repeated, and says so."""
    if request.method in READING and FRAGMENT not in request.headers:
        return see_other(request, f"{SIGN_IN}?next={quote(request.raw_path, safe='')}", needed.why or None)
    request[PROBLEM] = "unauthenticated"
    following = request.raw_path if request.method in READING else ROOT
    values = {"why": needed.why, "following": following, "again": False}
    return render(request, None, "sign_in.html", values, status=401)
