"""Who decides, as the audit log names them."""

from typing import Final

from aiohttp import web

from relay.identity.model import Principal
from relay.identity.owners import Owners

OPERATOR_OWNERS: Final = web.AppKey("operator_owners", Owners)


async def actor(request: web.Request, principal: Principal) -> str:
    """The public name of whoever makes the request: the same for each of their requests, and never their subject."""
    owner = await request.app[OPERATOR_OWNERS].ensure(principal.owner, seal_subject=False)
    return owner.key
