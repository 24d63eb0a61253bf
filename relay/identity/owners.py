"""Owners as stored: found by a keyed hash, named by a random key, their subjects sealed."""

import base64
import secrets
from collections.abc import Mapping
from typing import Any, Final

import structlog
from sqlalchemy import Row, bindparam, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.errors import Refusal
from relay.identity import key_checks
from relay.identity.keyfiles import KeyName
from relay.identity.model import Owner, OwnerId, OwnerTuple
from relay.identity.owner_keys import OwnerKeys
from relay.identity.recents import Recents
from relay.identity.refusals import owner_keys_unavailable
from relay.identity.rekeying import rekey
from relay.storage.engine import Database
from relay.storage.tables import owners

log = structlog.get_logger(__name__)

REMEMBERED: Final = 10_000

_OWNER: Final = select(
    owners.c.id,
    owners.c.owner_key,
    owners.c.kind,
    owners.c.issuer,
    owners.c.client,
    owners.c.sealed_subject.is_not(None).label("subject_sealed"),
)
# One statement: a row that moves to another pepper meanwhile is seen under one of them.
_FIND: Final = text(
    "SELECT (SELECT kid FROM key_checks WHERE name = 'pepper' ORDER BY created_at DESC, kid LIMIT 1) AS in_force, "
    "o.id, o.owner_key, o.kind, o.issuer, o.client, o.pepper_kid, "
    "CASE WHEN o.sealed_subject IS NULL THEN 0 ELSE 1 END AS subject_sealed "
    "FROM (SELECT 1 AS one) AS asked LEFT JOIN owners o ON o.lookup_hmac IN :lookups"
).bindparams(bindparam("lookups", expanding=True))
_SUBJECT: Final = text("SELECT owner_key, issuer, client, sealed_subject, seal_kid FROM owners WHERE id = :id")
_INSERT: Final = (
    "INSERT INTO owners (owner_key, kind, issuer, client, lookup_hmac, pepper_kid, sealed_subject, seal_kid, "
    "created_at) SELECT :owner_key, :kind, :issuer, :client, :lookup_hmac, :pepper_kid, :sealed_subject, :seal_kid, "
    "{now} WHERE NOT EXISTS (SELECT 1 FROM owners WHERE lookup_hmac IN :lookups) "
    "ON CONFLICT (lookup_hmac, pepper_kid) DO NOTHING"
)
_SEAL: Final = text(
    "UPDATE owners SET sealed_subject = :sealed_subject, seal_kid = :seal_kid "
    "WHERE id = :id AND sealed_subject IS NULL AND (erased_at IS NULL OR :present)"
)


def new_owner_key() -> str:
    """A public name that says nothing of its owner: ``ok_`` and 128 random bits in base32."""
    return "ok_" + base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


class Owners:
    """The owners of a deployment.

    Owners are remembered. A remembered one is right in everything that never changes. Whether its subject is sealed may
    have been overtaken by another process: that it is, is looked up each time, since an erasure takes it away; that it
    is not, is found out where it matters, since `by_id` always looks.
    """

    def __init__(self, db: Database, keys: OwnerKeys) -> None:
        self._db = db
        self._keys = keys
        self._remembered: Recents[OwnerTuple, Owner] = Recents(REMEMBERED)
        self._known: Recents[OwnerId, Owner] = Recents(REMEMBERED)

    async def find(self, owner: OwnerTuple) -> Owner | None:
        """The owner of this tuple; None if nothing was ever stored for it.

        Found under a former pepper, they are moved to the one in force. Raises `Refusal` (``keys_unavailable``) where
        they may be stored under a pepper that is not here.
        """
        known = self._remembered.get(owner)
        if known is not None:
            return await self.by_id(known.id) if known.subject_sealed else known
        lookups = self._keys.lookups(owner)
        async with self._db.read() as connection:
            rows = (await connection.execute(_FIND, {"lookups": list(lookups.values())})).all()
        in_force = rows[0].in_force or self._keys.current["pepper"].kid
        order = [in_force, *lookups]
        row = min(
            (row for row in rows if row.id is not None), key=lambda row: order.index(row.pepper_kid), default=None
        )
        if row is None:
            if in_force not in lookups:
                raise _outdated([in_force])
            return None
        await self._found(owner, row, in_force, lookups)
        return _owner(row)

    async def _found(self, owner: OwnerTuple, row: Row[Any], in_force: str, lookups: Mapping[str, bytes]) -> None:
        """Remember the owner once nothing is left to be done about them, however often they come until then."""
        kid = row.pepper_kid
        if kid != in_force and in_force in lookups:
            async with self._db.write() as connection:
                moved = await rekey(connection, OwnerId(row.id), former=kid, kid=in_force, lookup=lookups[in_force])
            kid = in_force if moved else kid
        if kid == self._keys.current["pepper"].kid:
            self._remembered.put(owner, _owner(row))

    async def ensure(self, owner: OwnerTuple, *, seal_subject: bool, present: bool = False) -> Owner:
        """The owner of this tuple, stored now if they are new, from however many processes at once.

        ``seal_subject`` keeps the subject of a human, sealed, so that the relay can act for them while they are
        away. A machine has no subject beside its client id. Of an owner who was erased it is kept again only where they
        are ``present``, with a token of their own: nobody else brings it back.
        """
        seal_subject = seal_subject and owner.kind == "human"
        found = await self.find(owner)
        if found is None:
            await self._insert(owner, seal_subject=seal_subject)
            found = await self.find(owner)
            if found is None:
                raise LookupError("an owner that was just stored is not there")
        if seal_subject and not found.subject_sealed:
            found = await self._seal(found, owner, present=present)
        return found

    async def by_id(self, owner_id: OwnerId) -> Owner:
        """The owner of this number. Raises LookupError: numbers come from rows that refer to one."""
        async with self._db.read() as connection:
            row = (await connection.execute(_OWNER.where(owners.c.id == owner_id))).first()
        if row is None:
            raise LookupError(f"there is no owner {owner_id}")
        return _owner(row)

    async def known(self, owner_id: OwnerId) -> Owner:
        """As `by_id`, remembered: right in all that never changes, and not in whether the subject is sealed."""
        owner = self._known.get(owner_id)
        if owner is None:
            owner = await self.by_id(owner_id)
            self._known.put(owner_id, owner)
        return owner

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
        lookups = self._keys.lookups(owner)
        async with self._db.write() as connection:
            kids = await self._in_force(connection)
            seal_kid, sealed = (
                self._keys.seal(owner.subject, owner_key, owner, kids["sealing_key"]) if seal_subject else (None, None)
            )
            await connection.execute(
                self._db.sql(_INSERT).bindparams(bindparam("lookups", expanding=True)),
                {
                    "owner_key": owner_key,
                    "kind": owner.kind,
                    "issuer": owner.issuer,
                    "client": owner.client,
                    "lookup_hmac": lookups[kids["pepper"]],
                    "pepper_kid": kids["pepper"],
                    "sealed_subject": sealed,
                    "seal_kid": seal_kid,
                    "lookups": list(lookups.values()),
                },
            )

    async def _seal(self, stored: Owner, owner: OwnerTuple, *, present: bool) -> Owner:
        async with self._db.write() as connection:
            kids = await self._in_force(connection)
            seal_kid, sealed = self._keys.seal(owner.subject, stored.key, owner, kids["sealing_key"])
            values = {"id": stored.id, "sealed_subject": sealed, "seal_kid": seal_kid, "present": present}
            await connection.execute(_SEAL, values)
        # Read again: another process may have sealed it first, or the owner is erased.
        found = await self.by_id(stored.id)
        if self._remembered.get(owner) is not None:
            self._remembered.put(owner, found)
        return found

    async def _in_force(self, connection: AsyncConnection) -> Mapping[KeyName, str]:
        """The ids of the keys to write with. Raises `Refusal` where one of them is not here."""
        checks = await key_checks.read_for_writing(self._db, connection)
        names: tuple[KeyName, ...] = ("pepper", "sealing_key")
        kids = {name: checks.in_force.get(name, self._keys.current[name].kid) for name in names}
        missing = [kid for name, kid in kids.items() if not self._keys.has(name, kid)]
        if missing:
            raise _outdated(missing)
        return kids


def _outdated(missing: list[str]) -> Refusal:
    """A rotation has put a key in force that this process does not know: it needs the new configuration."""
    log.error("owner_keys_outdated", missing=missing)
    return owner_keys_unavailable()


def _owner(row: Row[Any]) -> Owner:
    return Owner(
        OwnerId(row.id),
        row.owner_key,
        row.kind,
        row.issuer,
        row.client,
        subject_sealed=bool(row.subject_sealed),
    )
