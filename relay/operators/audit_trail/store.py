"""Reading the audit log: the entries of a tenant, and for who administers the deployment those of no tenant too."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from sqlalchemy import RowMapping, text

from relay.storage.engine import Database

_CLAUSES: Final[Mapping[str, str]] = {
    "actor": "actor = :actor",
    "action": "action = :action",
    "target": "target = :target",
    "since": "at >= :since",
    "until": "at < :until",
}
# The parts are read by their own index each, so that neither is read to its end.
_PART: Final = """
SELECT * FROM (
    SELECT seq, at, tenant, actor, action, target, before, after, why FROM audit_log
    WHERE {whose} AND seq < :before_seq {and_wanted} ORDER BY seq DESC LIMIT :most) AS part
"""

_COUNT: Final = """
SELECT count(*) FROM (SELECT 1 FROM audit_log WHERE ({whose}) {and_wanted} LIMIT :most) AS counted
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """What all of the members say that are not None. Times in milliseconds; ``until`` itself is outside."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry. ``tenant`` None: it concerns the whole deployment."""

    seq: int
    at: int
    tenant: str | None
    actor: str
    action: str
    target: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    why: str | None


class AuditTrail:
    """The audit log, as one tenant may read it. ``deployment``: with what concerns all tenants."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def page(
        self, tenant: str, wanted: AuditFilter, *, deployment: bool, before: int | None, most: int
    ) -> list[Entry]:
        """Newest first, those with a number below ``before``."""
        clauses, parameters = _said(wanted)
        parts = " UNION ALL ".join(_PART.format(whose=whose, and_wanted=clauses) for whose in _whose(deployment))
        parameters |= {"tenant": tenant, "before_seq": before if before is not None else 2**62, "most": most}
        async with self._db.read() as connection:
            found = await connection.execute(
                text(f"SELECT * FROM ({parts}) AS entries ORDER BY seq DESC LIMIT :most"), parameters
            )
            return [_entry(row) for row in found.mappings()]

    async def count(self, tenant: str, wanted: AuditFilter, *, deployment: bool, most: int = 2**62) -> int:
        """How many there are under a filter, counted up to ``most``."""
        clauses, parameters = _said(wanted)
        whose = " OR ".join(_whose(deployment))
        async with self._db.read() as connection:
            found = await connection.execute(
                text(_COUNT.format(whose=whose, and_wanted=clauses)), {**parameters, "tenant": tenant, "most": most}
            )
            return int(found.scalar_one())


def _whose(deployment: bool) -> tuple[str, ...]:  # noqa: FBT001 - private
    return ("tenant = :tenant", "tenant IS NULL") if deployment else ("tenant = :tenant",)


def _said(wanted: AuditFilter) -> tuple[str, dict[str, Any]]:
    parameters = {f.name: value for f in fields(wanted) if (value := getattr(wanted, f.name)) is not None}
    return "".join(f" AND {_CLAUSES[name]}" for name in parameters), parameters


def _entry(row: RowMapping) -> Entry:
    told = {name: None if row[name] is None else json.loads(row[name]) for name in ("before", "after")}
    return Entry(**{**row, **told})
