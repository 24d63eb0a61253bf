"""The append-only record of what operators, and the configuration, decided."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.redaction import redact

_INSERT: Final = (
    "INSERT INTO audit_log (at, tenant, actor, action, target, before, after, why)"
    " VALUES (:at, :tenant, :actor, :action, :target, :before, :after, :why)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Who did what to what, and why. ``at`` in milliseconds; ``tenant`` None: it concerns the whole deployment."""

    at: int
    actor: str
    action: str
    target: str
    tenant: str | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    why: str | None = None


async def record(
    connection: AsyncConnection,
    *,
    at: int,
    actor: str,
    action: str,
    target: str,
    tenant: str | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    why: str | None = None,
) -> None:
    """Write one entry; it commits with the change that it tells of."""
    entry = Entry(at=at, actor=actor, action=action, target=target, tenant=tenant, before=before, after=after, why=why)
    await record_all(connection, [entry])


async def record_all(connection: AsyncConnection, entries: Sequence[Entry]) -> None:
    """Write several entries, in their order."""
    if entries:
        await connection.execute(text(_INSERT), [_row(entry) for entry in entries])


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "at": entry.at,
        "tenant": entry.tenant,
        "actor": entry.actor,
        "action": entry.action,
        "target": entry.target,
        "before": None if entry.before is None else json.dumps(entry.before, sort_keys=True),
        "after": None if entry.after is None else json.dumps(entry.after, sort_keys=True),
        "why": None if entry.why is None else redact(entry.why),
    }
