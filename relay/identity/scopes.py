"""Which scopes a caller may use."""

from typing import Final, TypeGuard, get_args

from relay.identity.model import OperatorScope, Principal, Scope
from relay.identity.refusals import insufficient_scope

OPERATOR_SCOPES: Final[frozenset[Scope]] = frozenset(get_args(OperatorScope))
"""What only a person may do: a machine's token with one of these is as good as one without."""


def is_operators(scope: Scope) -> TypeGuard[OperatorScope]:
    return scope in OPERATOR_SCOPES


def holds(principal: Principal, scope: Scope) -> bool:
    """Whether the token grants this scope to this kind of caller."""
    return scope in principal.scopes and not (scope in OPERATOR_SCOPES and principal.kind == "machine")


def require(principal: Principal, scope: Scope) -> None:
    """Refuse (403 ``insufficient_scope``, with the challenge that names the scope) a caller who lacks it."""
    if holds(principal, scope):
        return
    if scope in principal.scopes:
        raise insufficient_scope(scope, f"The scope {scope} counts only in a person's token.")
    raise insufficient_scope(scope, f"Ask the issuer for a token with the scope {scope}.")
