"""The audit log at the edge."""

from typing import Any, Literal

from msgspec import Struct

from relay.clock import rfc3339
from relay.http.identifiers import Identifier, Moment
from relay.http.parameters import Page
from relay.operators import instants
from relay.operators.audit_trail.store import AuditFilter, Entry
from relay.operators.instants import InstantText


class AuditQuery(Page, frozen=True):
    """Which entries; what all of the parameters say."""

    actor: Identifier | None = None
    action: Identifier | None = None
    target: Identifier | None = None
    since: InstantText | None = None
    until: InstantText | None = None

    def wanted(self) -> AuditFilter:
        """Raises `Refusal` for a time without a zone."""
        return AuditFilter(
            actor=self.actor,
            action=self.action,
            target=self.target,
            since=instants.from_query("since", self.since),
            until=instants.from_query("until", self.until),
        )


class AuditEntry(Struct, frozen=True):
    """Who did what to what, when and why. ``scope`` says whether it concerns the tenant or the whole deployment."""

    at: Moment
    scope: Literal["tenant", "deployment"]
    actor: str
    action: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    why: str | None


class AuditPage(Struct, frozen=True):
    """Newest first. ``total`` counts all entries under the filter that the caller may read."""

    items: list[AuditEntry]
    next: str | None
    total: int


def shown(entry: Entry) -> AuditEntry:
    return AuditEntry(
        at=rfc3339(entry.at),
        scope="deployment" if entry.tenant is None else "tenant",
        actor=entry.actor,
        action=entry.action,
        target=entry.target,
        before=None if entry.before is None else dict(entry.before),
        after=None if entry.after is None else dict(entry.after),
        why=entry.why,
    )
