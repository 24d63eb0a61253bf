"""``/console/sign-in`` and ``/console/callback``: the pages that need nobody signed in."""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from aiohttp import hdrs, web

from relay.errors import Refusal
from relay.http.problems import PROBLEM, refusal_of
from relay.web.console.sessions.model import COOKIE
from relay.web.console.sessions.sessions import Sessions
from relay.web.console.shell import ROOT, SIGN_IN, render, render_refusal, see_other
from relay.web.console.sign_in.model import SignInFailed, inside
from relay.web.console.sign_in.signing_in import PATIENCE_SECONDS, SigningIn

SIGNING_IN: Final = web.AppKey("console_signing_in", SigningIn)
SESSIONS: Final = web.AppKey("console_sessions", Sessions)
BEGUN: Final = "__Host-relay-console-sign-in"

_log = structlog.get_logger("relay.console")


def routes() -> list[web.RouteDef]:
    return [
        web.get(SIGN_IN, _open(_offer), name="console_sign_in"),
        web.get(f"{SIGN_IN}/start", _open(_start), name="console_sign_in_start"),
        web.get(f"{ROOT}/callback", _open(_callback), name="console_callback"),
    ]


def _open(
    handler: Callable[[web.Request], Awaitable[web.Response]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A page for anybody, which says what went wrong in words for people."""

    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except SignInFailed as failed:
            _log.info("console_sign_in_failed", reason=failed.reason)
            request[PROBLEM] = "unauthenticated"
            response = render(request, None, "not_signed_in.html", {"why": failed.advice}, status=failed.status)
        except Exception as error:  # noqa: BLE001 - whatever it is, a person reads the answer
            refusal = refusal_of(error)
            if refusal.code != "insufficient_scope":
                return render_refusal(request, refusal)
            request[PROBLEM] = refusal.code
            response = render(request, None, "not_signed_in.html", {"why": refusal.detail}, status=refusal.status)
        if request.path == f"{ROOT}/callback":
            _forget(response, BEGUN)
        return response

    return answer


async def _offer(request: web.Request) -> web.Response:
    """A page with one link: nobody is sent away without having asked for it, and no two pages send them to and fro."""
    values = {"why": "", "following": inside(request.query.get("next")), "again": request.query.get("again") == "1"}
    return render(request, None, "sign_in.html", values)


async def _start(request: web.Request) -> web.Response:
    again = request.query.get("again") == "1"
    address, kept = await request.app[SIGNING_IN].begin(request.query.get("next"), again=again)
    response = see_other(request, address)
    response.set_cookie(
        BEGUN, kept, path="/", secure=True, httponly=True, samesite="Lax", max_age=int(PATIENCE_SECONDS)
    )
    return response


async def _callback(request: web.Request) -> web.Response:
    if len(request.query) != len(set(request.query)):  # RFC 6749 section 3.1
        raise Refusal("malformed_request", "A parameter of the issuer's answer stands there twice.")
    signed_in = await request.app[SIGNING_IN].complete(request.query, request.cookies.get(BEGUN))
    secret = await request.app[SESSIONS].open(signed_in, former=request.cookies.get(COOKIE))
    response = see_other(request, signed_in.following)
    # A session cookie: it goes when the browser closes; how long it is good for is kept here.
    response.set_cookie(COOKIE, secret, path="/", secure=True, httponly=True, samesite="Lax")
    _forget(response, BEGUN)
    response.headers[hdrs.CACHE_CONTROL] = "no-store"
    return response


def _forget(response: web.Response, cookie: str) -> None:
    response.del_cookie(cookie, path="/", secure=True, httponly=True, samesite="Lax")
