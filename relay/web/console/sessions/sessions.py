"""Sessions from the sign-in to the sign-out, with tokens that are renewed on the way."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.clock import Clock
from relay.errors import Refusal
from relay.identity.model import Principal
from relay.identity.owner_keys import OwnerKeys
from relay.identity.owners import Owners
from relay.operators import audit
from relay.operators.actors import operator
from relay.web.console.sessions.model import Contents, Lifetime, Session, hash_of, new_secret
from relay.web.console.sessions.store import SessionRows
from relay.web.console.sign_in.model import SignInFailed
from relay.web.console.sign_in.provider import Providers
from relay.web.console.sign_in.signing_in import SignedIn, SigningIn
from relay.web.console.visits import SignInNeeded

EARLY_MS: Final = 30_000
"""How long before its end a token is renewed, where it can be."""
CLAIM_MS: Final = 20_000
TOUCH_MS: Final = 60_000
"""How exactly it is known when somebody was last there: a page need not write each time."""

_POLL_SECONDS: Final = 0.2
_PURPOSE: Final = "console session"
_OVER: Final = "Your session has ended. Sign in to go on."

_log = structlog.get_logger("relay.console")


class Sessions:
    """Who is signed in, and as whom."""

    def __init__(
        self,
        rows: SessionRows,
        lifetime: Lifetime,
        signing_in: SigningIn,
        providers: Providers,
        owners: Owners,
        keys: OwnerKeys,
        clock: Clock,
    ) -> None:
        self._rows = rows
        self._lifetime = lifetime
        self._signing_in = signing_in
        self._providers = providers
        self._owners = owners
        self._keys = keys
        self._clock = clock

    async def open(self, who: SignedIn, *, former: str | None) -> str:
        """Begin a session; what its cookie holds, always something new. The browser's former one ends."""
        secret = new_secret()
        id_hash, now = hash_of(secret), self._now()
        name = await self._operator(who.principal)
        sealed, kid = self._seal(
            id_hash, Contents(name=who.identity.name, access=who.tokens.access, refresh=who.tokens.refresh)
        )
        session = Session(
            id_hash=id_hash,
            operator=name,
            tenant=who.principal.tenant,
            sealed=sealed,
            seal_kid=kid,
            token_expires_at=int(who.principal.expires_at * 1000),
            created_at=now,
            seen_at=now,
            ends_at=now + self._lifetime.absolute,
        )
        async with self._rows.db.write() as connection:
            if former is not None:
                await self._rows.remove(connection, hash_of(former))
            await self._rows.add(connection, session)
            await audit.record(
                connection, at=now, actor=name, action="console.sign_in", target="console", tenant=session.tenant
            )
        return secret

    async def find(self, secret: str, *, present: bool) -> tuple[Session, Contents, Principal]:
        """The session of a cookie, and whom its token names now. ``present``: somebody did something.

        Raises `SignInNeeded` where there is none any more, `Refusal` where its person may not operate the relay.
        """
        session = await self._rows.find(hash_of(secret))
        now = self._now()
        contents = None if session is None or session.is_over(self._lifetime, now) else self._open(session)
        if session is None or contents is None:
            raise SignInNeeded(_OVER)
        if session.token_expires_at - now <= EARLY_MS:
            session, contents = await self._renewed(session, contents)
        if present and now - session.seen_at >= TOUCH_MS:
            await self._rows.touch(session.id_hash, now)
        return session, contents, await self._principal(session, contents)

    async def all_of(self, session: Session) -> Sequence[Session]:
        """The sessions of the same operator, this one among them, the newest first."""
        now = self._now()
        return [
            each for each in await self._rows.of_operator(session.operator) if not each.is_over(self._lifetime, now)
        ]

    async def end(self, session: Session) -> None:
        """Sign out here."""
        async with self._rows.db.write() as connection:
            if await self._rows.remove(connection, session.id_hash):
                await self._record(connection, session, "console.sign_out", 1)

    async def end_all(self, session: Session) -> int:
        """Sign out everywhere; how many sessions that ended."""
        async with self._rows.db.write() as connection:
            ended = await self._rows.remove_all(connection, session.operator)
            await self._record(connection, session, "console.sign_out_everywhere", ended)
        return ended

    async def prune(self) -> int:
        """Throw away what is over; how many that were."""
        return await self._rows.prune(self._lifetime, self._now())

    async def _principal(self, session: Session, contents: Contents) -> Principal:
        try:
            principal = await self._signing_in.operator(contents.access)
        except SignInFailed:  # the token is not taken any more: its key is gone, the configuration is another
            await self._drop(session)
            raise SignInNeeded(_OVER) from None
        if await self._operator(principal) != session.operator:
            await self._drop(session)
            raise SignInNeeded(_OVER)
        return principal

    async def _renewed(self, session: Session, contents: Contents) -> tuple[Session, Contents]:
        """The session with a token that lives for a while, or as it is while it still lives."""
        if contents.refresh is not None:
            now = self._now()
            if await self._rows.claim_refresh(session, now=now, until=now + CLAIM_MS):
                return await self._renew(session, contents, contents.refresh)
        if session.token_expires_at > self._now():
            return session, contents
        if contents.refresh is None:
            await self._drop(session)
            raise SignInNeeded(_OVER)
        return await self._renewed_by_another(session)

    async def _renew(self, session: Session, contents: Contents, token: str) -> tuple[Session, Contents]:
        fresh = contents
        try:
            tokens = await self._providers.refresh(token)
            fresh = Contents(name=contents.name, access=tokens.access, refresh=tokens.refresh)
            principal = await self._signing_in.operator(fresh.access)
        except SignInFailed as failed:
            return await self._not_renewed(session, contents, failed)
        except Refusal as refusal:
            if refusal.code == "insufficient_scope":  # no operator any more
                await self._drop(session)
            else:  # Its keys cannot be had. The old refresh token may be used up: the new one is for next time.
                await self._keep(session, fresh, session.token_expires_at)
            raise
        expires_at = int(principal.expires_at * 1000)
        await self._keep(session, fresh, expires_at)
        return replace(session, token_expires_at=expires_at), fresh

    async def _keep(self, session: Session, fresh: Contents, expires_at: int) -> None:
        sealed, kid = self._seal(session.id_hash, fresh)
        await self._rows.put_tokens(session.id_hash, sealed=sealed, seal_kid=kid, token_expires_at=expires_at)

    async def _not_renewed(
        self, session: Session, contents: Contents, failed: SignInFailed
    ) -> tuple[Session, Contents]:
        """An issuer that is away is no reason to end what still lives; one that says no is."""
        _log.info("console_token_not_renewed", reason=failed.reason)
        if failed.reason in {"invalid_grant", "token_not_for_relay"}:
            await self._drop(session)
            raise SignInNeeded(_OVER) from None
        await self._rows.release(session.id_hash)
        if session.token_expires_at > self._now():
            return session, contents
        raise _not_now()

    async def _renewed_by_another(self, session: Session) -> tuple[Session, Contents]:
        """Another request is at it, perhaps of another process: wait for what it brings."""
        for _ in range(round(CLAIM_MS / 1000 / _POLL_SECONDS)):
            found = await self._rows.find(session.id_hash)
            contents = None if found is None else self._open(found)
            if found is None or contents is None:
                raise SignInNeeded(_OVER)
            if found.token_expires_at != session.token_expires_at:
                return found, contents
            await asyncio.sleep(_POLL_SECONDS)
        raise _not_now()

    async def _operator(self, principal: Principal) -> str:
        return (await self._owners.ensure(operator(principal), seal_subject=False)).key

    async def _drop(self, session: Session) -> None:
        async with self._rows.db.write() as connection:
            await self._rows.remove(connection, session.id_hash)

    async def _record(self, connection: AsyncConnection, session: Session, action: str, ended: int) -> None:
        await audit.record(
            connection,
            at=self._now(),
            actor=session.operator,
            action=action,
            target="console",
            tenant=session.tenant,
            after={"sessionsEnded": ended},
        )

    def _seal(self, id_hash: str, contents: Contents) -> tuple[bytes, str]:
        kid, sealed = self._keys.enclose(msgspec.json.encode(contents), _PURPOSE, id_hash)
        return sealed, kid

    def _open(self, session: Session) -> Contents | None:
        told = self._keys.disclose(session.sealed, session.seal_kid, _PURPOSE, session.id_hash)
        return None if told is None else msgspec.json.decode(told, type=Contents)

    def _now(self) -> int:
        return int(self._clock.unix() * 1000)


def _not_now() -> Refusal:
    return Refusal(
        "keys_unavailable",
        "The issuer cannot be reached right now to renew your session. Try again in a moment.",
        headers={"Retry-After": "5"},
    )
