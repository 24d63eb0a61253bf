"""One request of somebody who is signed in at the console, as a page gets it."""

from dataclasses import dataclass, field
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from aiohttp import web
from multidict import MultiDict, MultiDictProxy

from relay.identity.model import OperatorScope, Principal

NO_FORM: Final[MultiDictProxy[str]] = MultiDictProxy(MultiDict())
UTC_ZONE: Final = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Who is there, and what they sent.

    ``principal`` is what the API would have made of the same access token. ``name`` is how the issuer calls the person,
    shown to nobody else. ``csrf`` stands in every form as the hidden field ``csrf``. ``zone`` is the reader's. ``form``
    holds the fields of a POST, already known to come from a page of this session; of a GET it is empty.
    """

    principal: Principal
    name: str = field(repr=False)
    csrf: str = field(repr=False)
    zone: ZoneInfo = UTC_ZONE
    form: MultiDictProxy[str] = field(default_factory=lambda: NO_FORM, repr=False)


class SignInNeeded(Exception):  # noqa: N818 - reads as what it says
    """Nobody is signed in, or not any more. ``why`` is shown on the page that offers to sign in."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class Visits(Protocol):
    """Knows who is there. The one in the gateway keeps sessions; tests of a single page may bring a simpler one."""

    async def of(self, request: web.Request, scope: OperatorScope) -> Visit:
        """The visit of somebody who holds the scope; of a POST only with the session's CSRF token.

        Raises `SignInNeeded`, or `Refusal`.
        """


VISITS: Final = web.AppKey("console_visits", Visits)
