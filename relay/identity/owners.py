"""Owners as stored: found by a keyed hash, named by a random key, their subjects sealed."""

import base64
import secrets
from typing import Any, Final

from sqlalchemy import Row, select, text

from relay.identity.model import Owner, OwnerId, OwnerTuple
from relay.identity.owner_keys import OwnerKeys
from relay.identity.recents import Recents
from relay.storage.engine import Database
from relay.storage.tables import owners

REMEMBERED: Final = 10_000

_OWNER: Final = select(
    owners.c.id,
    owners.c.owner_key,
    owners.c.kind,
    owners.c.issuer,
    owners.c.client,
    owners.c.sealed_subject.is_not(None).label("subject_sealed"),
)
_SUBJECT: Final = text("SELECT owner_key, issuer, client, sealed_subject, seal_kid FROM owners WHERE id = :id")
_INSERT: Final = (
    "INSERT INTO owners (owner_key, kind, issuer, client, lookup_hmac, pepper_kid, sealed_subject, seal_kid, "
    "created_at) VALUES (:owner_key, :kind, :issuer, :client, :lookup_hmac, :pepper_kid, :sealed_subject, :seal_kid, "
    "{now}) ON CONFLICT (lookup_hmac, pepper_kid) DO NOTHING"
)
_SEAL: Final = text(
    "UPDATE owners SET sealed_subject = :sealed_subject, seal_kid = :seal_kid "
    "WHERE id = :id AND sealed_subject IS NULL AND erased_at IS NULL"
)


def new_owner_key() -> str:
    """A public name that says nothing of its owner: ``ok_`` and 128 random bits in base32."""
    return "ok_" + base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


class Owners:
    """The owners of a deployment.

    Owners are remembered. A remembered one is right in everything that never changes; that its subject is not sealed
    may have been overtaken by another process: `by_id` always looks.
    """

    def __init__(self, db: Database, keys: OwnerKeys) -> None:
        self._db = db
        self._keys = keys
        self._remembered: Recents[OwnerTuple, Owner] = Recents(REMEMBERED)

    async def find(self, owner: OwnerTuple) -> Owner | None:
        """The owner of this tuple; None if nothing was ever stored for it."""
        known = self._remembered.get(owner)
        if known is not None:
            return known
        async with self._db.read() as connection:
            lookups = self._keys.lookups(owner).values()
            row = (await connection.execute(_OWNER.where(owners.c.lookup_hmac.in_(lookups)))).first()
        if row is None:
            return None
        found = _owner(row)
        self._remembered.put(owner, found)
        return found

    async def ensure(self, owner: OwnerTuple, *, seal_subject: bool) -> Owner:
        """The owner of this tuple, stored now if they are new, from however many processes at once.

        ``seal_subject`` keeps the subject of a human, sealed, so that the relay can act for them while they are
        away. A machine has no subject beside its client id.
        """
        seal_subject = seal_subject and owner.kind == "human"
        found = await self.find(owner)
        if found is None:
            await self._insert(owner, seal_subject=seal_subject)
            found = await self.find(owner)
            if found is None:
                raise LookupError("an owner that was just stored is not there")
        if seal_subject and not found.subject_sealed:
            found = await self._seal(found, owner)
        return found

    async def by_id(self, owner_id: OwnerId) -> Owner:
        """The owner of this number. Raises LookupError: numbers come from rows that refer to one."""
        async with self._db.read() as connection:
            row = (await connection.execute(_OWNER.where(owners.c.id == owner_id))).first()
        if row is None:
            raise LookupError(f"there is no owner {owner_id}")
        return _owner(row)

    async def subject_of(self, owner_id: OwnerId) -> str | None:
        """The subject of a human, unsealed; None where it was never sealed. Raises `SubjectUnreadable`."""
        async with self._db.read() as connection:
            row = (await connection.execute(_SUBJECT, {"id": owner_id})).first()
        if row is None or row.sealed_subject is None:
            return None
        return self._keys.unseal(
            bytes(row.sealed_subject), row.seal_kid, owner_key=row.owner_key, issuer=row.issuer, client=row.client
        )

    async def _insert(self, owner: OwnerTuple, *, seal_subject: bool) -> None:
        owner_key = new_owner_key()
        pepper_kid, lookup = next(iter(self._keys.lookups(owner).items()))
        seal_kid, sealed = self._keys.seal(owner.subject, owner_key, owner) if seal_subject else (None, None)
        async with self._db.statement() as connection:
            await connection.execute(
                self._db.sql(_INSERT),
                {
                    "owner_key": owner_key,
                    "kind": owner.kind,
                    "issuer": owner.issuer,
                    "client": owner.client,
                    "lookup_hmac": lookup,
                    "pepper_kid": pepper_kid,
                    "sealed_subject": sealed,
                    "seal_kid": seal_kid,
                },
            )

    async def _seal(self, stored: Owner, owner: OwnerTuple) -> Owner:
        seal_kid, sealed = self._keys.seal(owner.subject, stored.key, owner)
        async with self._db.statement() as connection:
            await connection.execute(_SEAL, {"id": stored.id, "sealed_subject": sealed, "seal_kid": seal_kid})
        # Read again: another process may have sealed it first, or the owner is erased.
        found = await self.by_id(stored.id)
        self._remembered.put(owner, found)
        return found


def _owner(row: Row[Any]) -> Owner:
    return Owner(
        OwnerId(row.id),
        row.owner_key,
        row.kind,
        row.issuer,
        row.client,
        subject_sealed=bool(row.subject_sealed),
    )
