"""Who sends this request: the handlers' way to the verified caller."""

from collections.abc import Callable
from typing import Final

from aiohttp import web

from relay.identity import scopes
from relay.identity.model import Principal, Scope
from relay.identity.refusals import ambiguous_authentication
from relay.identity.tokens import Verifier

VERIFIER: Final = web.AppKey("verifier", Verifier)
PRINCIPAL: Final = web.RequestKey("principal", Principal)
"""The caller, once `authenticate` has verified them."""
ON_ARRIVAL: Final[web.AppKey[Callable[[Principal], None]]] = web.AppKey("on_arrival")
"""Told of every verified caller, at once and in passing: it must not wait."""


async def authenticate(request: web.Request) -> Principal:
    """The verified caller of a request, kept on it. Raises `Refusal` as `Verifier.verify` does.

    A token in the query is refused (400): addresses end up in logs and histories (RFC 9700 section 4.3.2).
    """
    known: Principal | None = request.get(PRINCIPAL)
    if known is not None:
        return known
    if "access_token" in request.query:
        raise ambiguous_authentication("Send the token in the Authorization header, never in the query.")
    # config_dict: the handler may belong to a sub-application.
    verifier: Verifier = request.config_dict[VERIFIER]
    principal = await verifier.verify(request.headers.getall("Authorization", []))
    request[PRINCIPAL] = principal
    told = request.config_dict.get(ON_ARRIVAL)
    if told is not None:
        told(principal)
    return principal


async def authorize(request: web.Request, scope: Scope) -> Principal:
    """The verified caller, who holds ``scope``. Raises `Refusal` (401, 403 ``insufficient_scope``)."""
    principal = await authenticate(request)
    scopes.require(principal, scope)
    return principal


async def authorize_any(request: web.Request, *any_of: Scope) -> Principal:
    """The verified caller, who holds at least one of the scopes; the refusal names the first."""
    principal = await authenticate(request)
    if not any(scopes.holds(principal, scope) for scope in any_of):
        scopes.require(principal, any_of[0])
    return principal
