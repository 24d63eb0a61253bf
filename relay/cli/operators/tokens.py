"""The token of whoever sits at the terminal: from a file, or from their sign-in, renewed when it is over."""

from pathlib import Path
from typing import Final

import aiohttp

from relay.cli.operators.device import Granted, Issuer, RefusedError
from relay.cli.operators.exits import NOT_SIGNED_IN
from relay.cli.operators.logins import Login, Logins
from relay.cli.running import WRONG_SURROUNDINGS, Failure
from relay.clock import Clock

SPARE_SECONDS: Final = 30.0
"""A token that is good for less than this is renewed first."""

MOST_BYTES: Final = 65_536


def from_file(path: Path) -> str:
    """The token that stands in a file. Raises `Failure`."""
    try:
        token = path.read_bytes()[: MOST_BYTES + 1].decode("ascii").strip()
    except OSError as error:
        raise Failure(f"--token-file {path} cannot be read: {error.strerror}", WRONG_SURROUNDINGS) from None
    except UnicodeDecodeError:
        token = ""
    if not token or len(token) > MOST_BYTES or len(token.split()) != 1:
        raise Failure(f"--token-file {path} has to hold one access token and nothing else", NOT_SIGNED_IN)
    return token


def login_of(granted: Granted, before: Login, now: float) -> Login:
    """A sign-in with the tokens just granted. A refresh token stays where no other came (RFC 6749 section 6)."""
    return Login(
        relay=before.relay,
        issuer=before.issuer,
        client_id=before.client_id,
        token_endpoint=before.token_endpoint,
        access_token=granted.access_token,
        expires_at=None if granted.expires_in is None else now + granted.expires_in,
        refresh_token=granted.refresh_token or before.refresh_token,
        scope=granted.scope or before.scope,
    )


class SignedIn:
    """The token of the sign-in that is kept for a relay."""

    def __init__(
        self,
        logins: Logins,
        relay: str,
        http: aiohttp.ClientSession,  # noqa: TID251 - see `Issuer`
        clock: Clock,
    ) -> None:
        self._logins = logins
        self._relay = relay
        self._issuer = Issuer(http)
        self._clock = clock
        self._given: str | None = None

    async def token(self) -> str:
        """A token that should be good now. Asked again, the one given before was refused: it is renewed if it can be.

        Raises `Failure` where nobody is signed in.
        """
        with self._logins.alone():
            login = self._logins.find(self._relay)
            if login is None:
                raise Failure(f"nobody is signed in at {self._relay}: relay operators login", NOT_SIGNED_IN)
            if login.refresh_token is not None and self._is_over(login):
                login = await self._renewed(login, login.refresh_token)
        self._given = login.access_token
        return login.access_token

    def _is_over(self, login: Login) -> bool:
        expired = login.expires_at is not None and login.expires_at - SPARE_SECONDS <= self._clock.unix()
        return expired or login.access_token == self._given

    async def _renewed(self, login: Login, refresh_token: str) -> Login:
        try:
            granted = await self._issuer.refresh(login.token_endpoint, login.client_id, refresh_token)
        except RefusedError:
            raise Failure(f"the sign-in at {self._relay} is over: relay operators login", NOT_SIGNED_IN) from None
        renewed = login_of(granted, login, self._clock.unix())
        self._logins.keep(renewed)
        return renewed
