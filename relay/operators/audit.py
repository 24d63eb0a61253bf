"""The append-only record of what operators, and the configuration, decided."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


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
    await connection.execute(
        text(
            "INSERT INTO audit_log (at, tenant, actor, action, target, before, after, why)"
            " VALUES (:at, :tenant, :actor, :action, :target, :before, :after, :why)"
        ),
        {
            "at": at,
            "tenant": tenant,
            "actor": actor,
            "action": action,
            "target": target,
            "before": None if before is None else json.dumps(before, sort_keys=True),
            "after": None if after is None else json.dumps(after, sort_keys=True),
            "why": why,
        },
    )
