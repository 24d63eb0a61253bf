"""Who decides, as the audit log names them."""

from typing import Final

from aiohttp import web

from relay.identity.model import OwnerTuple, Principal
from relay.identity.owners import Owners

OPERATOR_OWNERS: Final = web.AppKey("operator_owners", Owners)
LOCAL_ACTOR: Final = web.AppKey("local_actor", str)
"""Only in an application that one account of this machine has to itself: that account's name. It has no token."""


def operator(principal: Principal) -> OwnerTuple:
    """The person as somebody who operates: the same through every client, at a terminal as in the console.

    With four eyes two people have to decide, not one with two programs. No token has an empty client, so that nobody's
    submissions stand under this owner.
    """
    return OwnerTuple("human", principal.issuer, "", principal.subject)


async def actor(request: web.Request, principal: Principal) -> str:
    """The public name of whoever makes the request: the same for each of their requests, and never their subject."""
    local = request.app.get(LOCAL_ACTOR)
    if local is not None:
        return local
    owner = await request.app[OPERATOR_OWNERS].ensure(operator(principal), seal_subject=False)
    return owner.key
