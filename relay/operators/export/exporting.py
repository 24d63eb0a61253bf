"""Reading all that a filter means, a batch at a time, and telling the audit log of it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from relay.operators import audit
from relay.operators.export.formats import Format, FormatName
from relay.operators.submissions.filter import SubmissionFilter, said_without_words
from relay.operators.submissions.model import Submission
from relay.operators.submissions.store import Submissions
from relay.storage.engine import Database

BATCH_ROWS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Which submissions of whose tenant go into which file, and the key of whoever asks. ``id`` is the audit log's."""

    id: str
    tenant: str
    wanted: SubmissionFilter
    format: FormatName
    by: str


class Exports:
    """Exports of submissions. A connection is held while a batch is read, and never while its bytes are on the way."""

    def __init__(self, db: Database, submissions: Submissions) -> None:
        self._db = db
        self._submissions = submissions

    async def parts(self, export: Export, file: Format) -> AsyncGenerator[bytes, None]:
        """The bytes of the file, newest submission first, each row as it is when its batch is read.

        The audit log says beforehand that it is made and of how many, and afterwards how many went out, also where
        whoever asks for it leaves in the middle. What is submitted after the beginning is not in it.
        """
        total = await self._submissions.count(export.tenant, export.wanted)
        told = {"format": export.format, "filter": said_without_words(export.wanted), "total": total}
        await self._record(export, "export.begin", told)
        out, complete = 0, False
        try:
            yield await asyncio.to_thread(file.begin)
            async with aclosing(self._batches(export)) as batches:
                async for batch in batches:
                    # Counted first: part of a batch may have gone out where the rest of it did not.
                    out += len(batch)
                    yield await asyncio.to_thread(file.rows, batch)
            yield await asyncio.to_thread(file.end)
            complete = True
        finally:
            await self._record(export, "export.end", {"rows": out, "complete": complete})

    async def _batches(self, export: Export) -> AsyncGenerator[list[Submission], None]:
        """By number, so that a page costs the same however far it is from the beginning."""
        before: int | None = None
        while found := await self._submissions.page(export.tenant, export.wanted, before=before, most=BATCH_ROWS):
            yield found
            before = found[-1].seq

    async def _record(self, export: Export, action: str, told: dict[str, Any]) -> None:
        async with self._db.write() as connection:
            await audit.record(
                connection,
                at=await self._db.now_ms(connection),
                actor=export.by,
                action=action,
                target=f"export/{export.id}",
                tenant=export.tenant,
                after=told,
            )
