"""Who decides, as the audit log names them."""

from typing import Final

from aiohttp import web

from relay.identity.model import Principal
from relay.identity.owners import Owners

OPERATOR_OWNERS: Final = web.AppKey("operator_owners", Owners)
LOCAL_ACTOR: Final = web.AppKey("local_actor", str)
"""Only in an application that one account of this machine has to itself: that account's name. It has no token."""


async def actor(request: web.Request, principal: Principal) -> str:
    """The public name of whoever makes the request: the same for each of their requests, and never their subject."""
    local = request.app.get(LOCAL_ACTOR)
    if local is not None:
        return local
    owner = await request.app[OPERATOR_OWNERS].ensure(principal.owner, seal_subject=False)
    return owner.key
