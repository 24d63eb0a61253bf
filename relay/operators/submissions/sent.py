"""What goes out for a submission: the stored bytes, and the request that carries them at every attempt."""

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.protocols.catalog import ADAPTERS
from registry.protocols.contract import OutboundRequest

# Where the newest attempt went; before there is one, where the task's own version of the registration says.
_SENT: Final = """
SELECT s.id, s.payload, s.sha256, s.protocol, r.version, r.origin
FROM submissions s
JOIN deliveries d ON d.submission = s.seq
JOIN owners o ON o.id = s.owner
LEFT JOIN registrations r ON r.agent = s.agent AND r.version = COALESCE(
    (SELECT a.registration_version FROM attempts a WHERE a.id =
        (SELECT max(id) FROM attempts WHERE delivery = d.id AND registration_version IS NOT NULL)),
    s.registration_version)
WHERE s.tenant = :tenant AND o.owner_key = :owner AND s.id = :id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The request without what is added at each attempt: credentials, ``Host`` and ``traceparent``."""

    request: OutboundRequest
    body: bytes = field(repr=False)
    sha256: str
    origin: str | None
    registration_version: int | None


async def sent(connection: AsyncConnection, tenant: str, owner: str, submission: str) -> Sent | None:
    """What is sent for a submission of the tenant. None: there is none, or it was erased."""
    found = await connection.execute(text(_SENT), {"tenant": tenant, "owner": owner, "id": submission})
    row = found.mappings().first()
    if row is None or row["payload"] is None or row["protocol"] not in ADAPTERS:
        return None
    body = bytes(row["payload"])
    return Sent(
        request=ADAPTERS[row["protocol"]].request_for(row["id"], body),
        body=body,
        sha256=row["sha256"],
        origin=row["origin"],
        registration_version=row["version"],
    )
