"""What operators must show beside their scope: a trusted issuer, and a sign-in that is recent and strong enough."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from relay.clock import Clock
from relay.identity.model import OperatorScope, Principal
from relay.identity.refusals import insufficient_scope, insufficient_user_authentication


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """The rules for whoever operates the relay.

    Agents belong to the whole deployment, not to a tenant: ``registry:admin`` counts only in tokens of
    ``admin_issuers``. ``max_age_seconds`` bounds the age of the sign-in, ``acr_values`` lists its accepted kinds, the
    preferred first (RFC 9470); None and an empty list ask for nothing.
    """

    clock: Clock
    admin_issuers: Collection[str] = ()
    max_age_seconds: int | None = None
    acr_values: Sequence[str] = ()

    def require(self, principal: Principal, scope: OperatorScope) -> None:
        """Raise `Refusal` unless the rules are met. That the token holds the scope is for `scopes.require` to say."""
        if scope == "registry:admin" and principal.issuer not in self.admin_issuers:
            raise insufficient_scope(scope, f"The scope {scope} does not count in tokens of this issuer.")
        if not (self._is_recent(principal) and self._is_strong(principal)):
            raise insufficient_user_authentication(max_age=self.max_age_seconds, acr_values=self.acr_values)

    def _is_recent(self, principal: Principal) -> bool:
        if self.max_age_seconds is None:
            return True
        signed_in = principal.auth_time
        return signed_in is not None and self.clock.unix() - signed_in <= self.max_age_seconds

    def _is_strong(self, principal: Principal) -> bool:
        return not self.acr_values or principal.acr in self.acr_values
