"""What the database knows of the owners' keys: a check value of each, and which of each kind is in force.

The key that came last is in force: all processes write with it, whatever stands first in their configuration, so that
gateways of an older and of a newer configuration never store one owner under two peppers.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.errors import StartupError
from relay.identity.keyfiles import KeyName, SecretKey, setting
from relay.storage.engine import Database

_RECORDING: Final = 7_236_014_286
"""The advisory lock of whoever records a key. Whoever stores an owner shares it. SQLite has one writer anyway."""

_KNOWN: Final = text("SELECT name, kid, check_value, created_at FROM key_checks ORDER BY created_at, name, kid DESC")
_RECORD_FIRST: Final = (
    "INSERT INTO key_checks (name, kid, check_value, created_at) SELECT :name, :kid, :check, {now} "
    "WHERE NOT EXISTS (SELECT 1 FROM key_checks WHERE name = :name)"
)
_PUT_IN_FORCE: Final = text(
    "INSERT INTO key_checks (name, kid, check_value, created_at) VALUES (:name, :kid, :check, :at) "
    "ON CONFLICT (name, kid) DO UPDATE SET created_at = excluded.created_at"
)
_HOLDERS: Final[Mapping[KeyName, str]] = {
    "pepper": "SELECT id FROM owners WHERE pepper_kid = :kid LIMIT 1",
    "sealing_key": "SELECT id FROM owners WHERE seal_kid = :kid AND sealed_subject IS NOT NULL LIMIT 1",
}


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key, and the file that it was read from."""

    key: SecretKey
    path: Path
    previous: bool = False

    @property
    def setting(self) -> str:
        return setting(self.key.name, self.path, previous=self.previous)


@dataclass(frozen=True, slots=True)
class KeyChecks:
    """``values`` by name and id; ``in_force`` has the id of the key that is written with, by name."""

    values: Mapping[tuple[KeyName, str], str]
    in_force: Mapping[KeyName, str]
    since: Mapping[tuple[KeyName, str], int]

    def kids(self, name: KeyName) -> list[str]:
        return [kid for each, kid in self.values if each == name]

    def know(self, key: SecretKey) -> bool:
        recorded = self.values.get((key.name, key.kid))
        return recorded is not None and hmac.compare_digest(recorded, key.check_value)


async def read(connection: AsyncConnection) -> KeyChecks:
    """In the order in which the keys came into force."""
    rows = (await connection.execute(_KNOWN)).all()
    return KeyChecks(
        {(row.name, row.kid): row.check_value for row in rows},
        {row.name: row.kid for row in rows},
        {(row.name, row.kid): row.created_at for row in rows},
    )


async def read_for_writing(db: Database, connection: AsyncConnection) -> KeyChecks:
    """As `read`, and no other key comes into force before this transaction ends."""
    if db.dialect == "postgresql":
        await connection.execute(text("SELECT pg_advisory_xact_lock_shared(:lock)"), {"lock": _RECORDING})
    return await read(connection)


async def require_no_owners(db: Database) -> None:
    async with db.read() as connection:
        owner = await connection.scalar(text("SELECT id FROM owners LIMIT 1"))
    if owner is not None:
        raise StartupError(
            "the database has owners but its table key_checks is empty: restore the whole database from a backup, "
            "since new keys could not find the owners again"
        )


async def record_first(db: Database, keys: Iterable[SecretKey]) -> KeyChecks:
    """Both at once. Of two processes that start together the first is recorded; the comparison tells the other.

    A key of the same name that is there already, whatever its id, keeps a second one out.
    """
    async with db.write() as connection:
        await db.serialize(connection, _RECORDING)
        for key in keys:
            await connection.execute(db.sql(_RECORD_FIRST), _row(key))
    async with db.read() as connection:
        return await read(connection)


async def put_in_force(db: Database, connection: AsyncConnection, keys: Iterable[SecretKey]) -> KeyChecks:
    """Have all processes write with these keys from the end of this transaction on; how it was before.

    It waits for those that are storing an owner under the former ones.
    """
    await db.serialize(connection, _RECORDING)
    before = await read(connection)
    # Later than any before, even if the clock was set back.
    at = max([await db.now_ms(connection), *(since + 1 for since in before.since.values())])
    for key in keys:
        if before.in_force.get(key.name) != key.kid:
            await connection.execute(_PUT_IN_FORCE, {**_row(key), "at": at})
    return before


def _row(key: SecretKey) -> dict[str, object]:
    return {"name": key.name, "kid": key.kid, "check": key.check_value}


async def require_match(db: Database, checks: KeyChecks, held: Sequence[HeldKey]) -> None:
    """Hold the keys of one kind, the configured current one first, against what is recorded. Raises `StartupError`.

    A current key that is not recorded yet is taken only beside the one in force: it is to be rotated to.
    """
    current, *previous = held
    name = current.key.name
    for each in previous:
        if not checks.know(each.key):
            raise StartupError(
                f"{each.setting} holds a key (id {each.key.kid}) that this database was never set up with "
                f"(known: {_listed(checks, name)}): restore the file that belongs to it, or take the entry out"
            )
    recorded = (name, current.key.kid) in checks.values
    if not checks.know(current.key) and (recorded or not previous):
        raise StartupError(
            f"{current.setting} holds another key (id {current.key.kid}) than this database was set up with "
            f"(id {_listed(checks, name)}): restore the file that belongs to it; "
            f"to rotate, name the former file in previous_{name}_files"
        )
    await _require_nothing_missing(db, checks, held)


async def _require_nothing_missing(db: Database, checks: KeyChecks, held: Sequence[HeldKey]) -> None:
    name = held[0].key.name
    at_hand = {each.key.kid for each in held}
    for kid in checks.kids(name):
        if kid in at_hand:
            continue
        async with db.read() as connection:
            needed = await connection.scalar(text(_HOLDERS[name]), {"kid": kid}) is not None
        if needed or checks.in_force[name] == kid:
            why = "owners are still stored under it" if needed else "it is in force"
            raise StartupError(
                f"[owners] previous_{name}_files: the key with id {kid} is in no file that is named, but {why}: "
                "restore its file and name it there; `relay keys show` tells which keys are needed"
            )


def _listed(checks: KeyChecks, name: KeyName) -> str:
    return ", ".join(sorted(checks.kids(name))) or "none"
