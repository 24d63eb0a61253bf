"""Who sends this request: the handlers' way to the verified caller."""

from collections.abc import Callable
from typing import Final

from aiohttp import web

from relay.identity import scopes
from relay.identity.model import OperatorScope, Principal, Scope
from relay.identity.operators import Operators
from relay.identity.refusals import ambiguous_authentication
from relay.identity.tokens import Verifier

VERIFIER: Final = web.AppKey("verifier", Verifier)
PRINCIPAL: Final = web.RequestKey("principal", Principal)
"""The caller, once `authenticate` has verified them."""
OPERATORS: Final = web.AppKey("operators", Operators)
ADMIT: Final[web.AppKey[Callable[[web.Request, Principal], None]]] = web.AppKey("admit")
"""Asked once for every request with a verified caller: raises `Refusal` where it goes no further. It must not wait."""
ON_ARRIVAL: Final[web.AppKey[Callable[[Principal], None]]] = web.AppKey("on_arrival")
"""Told of every verified caller, at once and in passing: it must not wait."""


async def authenticate(request: web.Request) -> Principal:
    """The verified caller of a request, kept on it. Raises `Refusal` as `Verifier.verify` does.

    A token in the query is refused (400): addresses end up in logs and histories (RFC 9700 section 4.3.2).
    """
    known: Principal | None = request.get(PRINCIPAL)
    if known is not None:
        return known
    if request.query_string and "access_token" in request.query:
        raise ambiguous_authentication("Send the token in the Authorization header, never in the query.")
    # The handler may belong to a sub-application; looking through all of them takes long.
    app = request.app if VERIFIER in request.app else request.config_dict
    verifier: Verifier = app[VERIFIER]
    principal = await verifier.verify(request.headers.getall("Authorization", []))
    request[PRINCIPAL] = principal
    admit = app.get(ADMIT)
    if admit is not None:
        admit(request, principal)
    told = app.get(ON_ARRIVAL)
    if told is not None:
        told(principal)
    return principal


async def authorize(request: web.Request, scope: Scope) -> Principal:
    """The verified caller, who holds ``scope``. Raises `Refusal` (401, 403 ``insufficient_scope``).

    An operator's scope is judged as `authorize_operator` judges it.
    """
    principal = await authenticate(request)
    _require(request, principal, scope)
    return principal


async def authorize_operator(request: web.Request, scope: OperatorScope) -> Principal:
    """The verified person, who may operate the relay. Raises `Refusal`.

    Beyond the scope: ``registry:admin`` counts only from configured issuers (403), and the sign-in must be as recent
    and as strong as configured (401 ``insufficient_user_authentication``, RFC 9470).
    """
    return await authorize(request, scope)


async def authorize_any(request: web.Request, *any_of: Scope) -> Principal:
    """The verified caller, who holds at least one of the scopes; the refusal names the first.

    A scope of an operator is looked at only where none of the others is held.
    """
    principal = await authenticate(request)
    held = [scope for scope in any_of if scopes.holds(principal, scope)] or any_of[:1]
    _require(request, principal, min(held, key=scopes.is_operators))
    return principal


def _require(request: web.Request, principal: Principal, scope: Scope) -> None:
    scopes.require(principal, scope)
    if scopes.is_operators(scope):
        # A missing key is an error: without the operators' rules nobody operates.
        operators: Operators = request.config_dict[OPERATORS]
        operators.require(principal, scope)
