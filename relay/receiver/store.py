"""The ratings that a specialist has received. A row is never changed, but for its resolution."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import RowMapping, text

from registry.protocols.contract import Rated
from registry.protocols.roblox_v1 import WINDOW
from relay.receiver.schema import CREATE, LOCK, PRESENT
from relay.storage.engine import Database

PAGE = 500

_BEYOND_THE_LAST = 2**63 - 1

_BY_KEY = "SELECT * FROM receiver_ratings WHERE owner = :owner AND id = :id"

# Nothing is read before: of posts that arrive at the same moment the unique key lets one in.
_ADD = """INSERT INTO receiver_ratings (owner, id, task, rating, comment, created_at)
    VALUES (:owner, :id, :task, :rating, :comment, {now})
    ON CONFLICT (owner, id) DO NOTHING RETURNING *"""

_NEWEST = "SELECT * FROM receiver_ratings WHERE owner = :owner ORDER BY seq DESC LIMIT :limit"
_OF_TASK = "SELECT * FROM receiver_ratings WHERE owner = :owner AND task = :task ORDER BY seq DESC LIMIT :limit"
_PAGE = "SELECT * FROM receiver_ratings WHERE seq < :before ORDER BY seq DESC LIMIT :limit"
_RESOLVE = "UPDATE receiver_ratings SET resolution = :resolution WHERE owner = :owner AND id = :id RETURNING *"


@dataclass(frozen=True, slots=True)
class Row:
    """A rating as stored. ``created_at`` is in milliseconds since the epoch, by the database's clock."""

    seq: int
    owner: str
    rated: Rated
    resolution: str | None = field(repr=False)
    created_at: int


class Ratings:
    """The ratings of every caller, in a database of the specialist's own or in tables of their own beside others."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def prepare(self) -> None:
        """Make the table and its triggers where they are not there yet. Any number of processes may do so at once."""
        dialect = self._db.dialect
        async with self._db.write() as connection:
            if lock := LOCK[dialect]:
                await connection.execute(text(lock))
            if (await connection.execute(text(PRESENT[dialect]))).scalar_one():
                return
            for statement in CREATE[dialect]:
                await connection.execute(text(statement))

    async def find(self, owner: str, rated_id: str) -> Row | None:
        """The owner's row with this lower-case UUID."""
        async with self._db.read() as connection:
            result = await connection.execute(text(_BY_KEY), {"owner": owner, "id": rated_id})
            found = result.mappings().one_or_none()
        return None if found is None else _row(found)

    async def add(self, owner: str, rated: Rated) -> Row:
        """The row that stands under the owner's UUID afterwards: this rating, or the one that was there first."""
        values = {"owner": owner, "id": rated.id, "task": rated.task, "rating": rated.rating, "comment": rated.comment}
        added = await self._write(_ADD, values)
        if added is not None:
            return added
        # A second statement: the row that was faster may lie outside the first one's snapshot.
        async with self._db.read() as connection:
            result = await connection.execute(text(_BY_KEY), {"owner": owner, "id": rated.id})
            return _row(result.mappings().one())

    async def newest(self, owner: str) -> list[Row]:
        """The owner's newest rows, as many as the protocol lists, newest first."""
        return await self._list(_NEWEST, {"owner": owner, "limit": WINDOW})

    async def of_task(self, owner: str, task: str) -> list[Row]:
        """The newest rows of one of the owner's tasks, at most as many as the protocol lists, newest first."""
        return await self._list(_OF_TASK, {"owner": owner, "task": task, "limit": WINDOW})

    async def page(self, before: Row | None) -> list[Row]:
        """Rows of every owner, newest first, that came before the given one; none: the end."""
        last = _BEYOND_THE_LAST if before is None else before.seq
        return await self._list(_PAGE, {"before": last, "limit": PAGE})

    async def resolve(self, owner: str, rated_id: str, resolution: str | None) -> Row | None:
        """Overwrite the resolution; None: there is no such row."""
        return await self._write(_RESOLVE, {"owner": owner, "id": rated_id, "resolution": resolution})

    async def _write(self, statement: str, values: Mapping[str, Any]) -> Row | None:
        async with self._db.statement() as connection:
            result = await connection.execute(self._db.sql(statement), values)
            written = result.mappings().one_or_none()
        return None if written is None else _row(written)

    async def _list(self, statement: str, values: Mapping[str, Any]) -> list[Row]:
        async with self._db.read() as connection:
            result = await connection.execute(text(statement), values)
            return [_row(found) for found in result.mappings()]


def _row(found: RowMapping) -> Row:
    rated = Rated(found["id"], found["task"], found["rating"], found["comment"])
    return Row(found["seq"], found["owner"], rated, found["resolution"], found["created_at"])
