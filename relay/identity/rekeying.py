"""Moving a stored owner from one pepper or sealing key to another. Their id and public name stay."""

from typing import Final

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.identity.model import OwnerId

# Only from the key it was found under: whoever was faster knew as much. Where the same owner stands under the new
# pepper already, this row stays where it is.
_REKEY: Final = text(
    "UPDATE owners SET lookup_hmac = :lookup, pepper_kid = :kid WHERE id = :id AND pepper_kid = :former "
    "AND NOT EXISTS (SELECT 1 FROM owners WHERE lookup_hmac = :lookup AND pepper_kid = :kid)"
)
_RESEAL: Final = text(
    "UPDATE owners SET sealed_subject = :sealed, seal_kid = :kid "
    "WHERE id = :id AND seal_kid = :former AND sealed_subject IS NOT NULL"
)


async def rekey(connection: AsyncConnection, owner: OwnerId, *, former: str, kid: str, lookup: bytes) -> bool:
    """Store an owner under another pepper. False: they are no longer under ``former``, or stand under ``kid`` twice."""
    try:
        async with connection.begin_nested():
            done = await connection.execute(_REKEY, {"id": owner, "former": former, "kid": kid, "lookup": lookup})
    except IntegrityError:  # a second row of the same owner came first
        return False
    return done.rowcount == 1


async def reseal(connection: AsyncConnection, owner: OwnerId, *, former: str, kid: str, sealed: bytes) -> bool:
    """Replace a sealed subject by the same one under another key. False: it is gone, or replaced already."""
    done = await connection.execute(_RESEAL, {"id": owner, "former": former, "kid": kid, "sealed": sealed})
    return done.rowcount == 1
