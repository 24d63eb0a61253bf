"""The console as one part: made of the gateway's own, and put on its application."""

from dataclasses import dataclass

from aiohttp import web

from registry.egress import Egress
from relay.clock import Clock
from relay.identity.keys import KeySets
from relay.identity.model import IssuerPolicy
from relay.identity.owner_keys import OwnerKeys
from relay.identity.owners import Owners
from relay.identity.tokens import Verifier
from relay.storage.engine import Database
from relay.web.console.gate import Gate
from relay.web.console.routes import set_up
from relay.web.console.sessions.model import Lifetime
from relay.web.console.sessions.sessions import Sessions
from relay.web.console.sessions.store import SessionRows
from relay.web.console.sign_in.identities import Identities
from relay.web.console.sign_in.model import Registration
from relay.web.console.sign_in.provider import Providers
from relay.web.console.sign_in.routes import SESSIONS, SIGNING_IN, routes
from relay.web.console.sign_in.signing_in import SigningIn
from relay.web.console.watches import WATCHES, Watches


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """Who signs in where, and who is signed in. ``public_url`` is the relay's origin."""

    public_url: str
    issuer: str
    signing_in: SigningIn
    sessions: Sessions
    watches: Watches

    @classmethod
    def of(
        cls,
        registration: Registration,
        lifetime: Lifetime,
        *,
        policy: IssuerPolicy,
        public_url: str,
        db: Database,
        egress: Egress,
        keys: KeySets,
        owners: Owners,
        owner_keys: OwnerKeys,
        clock: Clock,
    ) -> "Console":
        """``policy`` is that of the registration's issuer: the console takes what the API takes."""
        providers = Providers(registration, egress, clock)
        identities = Identities(
            issuer=policy.issuer,
            client_id=registration.client_id,
            algorithms=policy.algorithms,
            keys=keys,
            clock=clock,
        )
        verifier = Verifier([policy], keys, clock)
        signing_in = SigningIn(providers, identities, verifier, owner_keys, clock)
        sessions = Sessions(SessionRows(db), lifetime, signing_in, providers, owners, owner_keys, clock)
        return cls(
            public_url=public_url,
            issuer=policy.issuer,
            signing_in=signing_in,
            sessions=sessions,
            watches=Watches(db),
        )

    def set_up(self, app: web.Application) -> None:
        """Serve the console below ``/console``."""
        app[SIGNING_IN] = self.signing_in
        app[SESSIONS] = self.sessions
        app[WATCHES] = self.watches
        gate = Gate(self.sessions, origin=self.public_url)
        set_up(app, gate, public_url=self.public_url, issuer=self.issuer, routes=routes())
