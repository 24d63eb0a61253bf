"""Agents at the edge."""

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import RowMapping

from registry.model import RegistrationState, Source
from relay.clock import rfc3339
from relay.http.identifiers import Moment
from relay.http.parameters import Page
from relay.operators.agents.deciding import Outcome
from relay.operators.agents.health import Backlog, Breaker, BreakerState
from relay.operators.agents.views import Standing, View

Said = Annotated[str, Meta(min_length=1, max_length=1000, description="The reason, for the audit log.")]
Written = Annotated[str, Meta(min_length=1, max_length=2048)]
FileName = Annotated[
    Written,
    Meta(description="A file that the configuration, or an earlier registration, names for this already."),
]
PathVersion = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,8}$", description="The number of a version.")]


class AgentsQuery(Page, frozen=True, forbid_unknown_fields=True):
    """Which agents, and how many of them."""

    state: Standing | None = None
    breaker: BreakerState | None = None
    protocol: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


class ReasonBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision."""

    why: Said


class LimitsBody(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """``inFlight``: the most attempts under way at a time, in one process; null: as for every agent."""

    in_flight: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class CertifiedBody(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """The members of every credential."""

    issuer: Written
    client_id: Written
    client_certificate_file: FileName | None = None
    client_certificate_key_file: FileName | None = None


class GrantedBody(CertifiedBody, frozen=True, kw_only=True):
    """Those of one that asks a token endpoint."""

    token_endpoint: Written
    key_file: FileName
    resource: Written
    scope: Annotated[str, Meta(max_length=2048)] = ""
    dpop: bool = False
    dpop_key_file: FileName | None = None


class ClientCredentialsBody(GrantedBody, frozen=True, kw_only=True, tag_field="mode", tag="client_credentials"):
    """RFC 6749 section 4.4."""


class OwnerAssertionBody(GrantedBody, frozen=True, kw_only=True, tag_field="mode", tag="owner_assertion"):
    """RFC 7523."""


class TokenExchangeBody(GrantedBody, frozen=True, kw_only=True, tag_field="mode", tag="token_exchange"):
    """RFC 8693."""


class StaticBearerBody(CertifiedBody, frozen=True, kw_only=True, tag_field="mode", tag="static_bearer"):
    """For pilots."""

    token_file: FileName


CredentialBody = ClientCredentialsBody | OwnerAssertionBody | TokenExchangeBody | StaticBearerBody


class ProposalBody(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A new version. What is left out is as in the version that was decided for, else as in the newest."""

    why: Said
    name: Annotated[str, Meta(min_length=1, max_length=2048)] | UnsetType = UNSET
    origin: Written | UnsetType = UNSET
    protocol: Written | UnsetType | None = UNSET
    credentials: Annotated[list[CredentialBody], Meta(max_length=20)] | UnsetType = UNSET
    limits: LimitsBody | UnsetType = UNSET
    owner_contact: Written | UnsetType | None = UNSET

    def changes(self) -> dict[str, Any]:
        """What it changes, by the keys of the configuration file."""
        said = {name: getattr(self, name) for name in self.__struct_fields__ if name != "why"}
        return {name: _plain(value) for name, value in said.items() if value is not UNSET}


def _plain(value: Any) -> Any:  # noqa: ANN401 - a member of a body
    if isinstance(value, list):
        return [{"mode": type(each).__struct_config__.tag, **msgspec.structs.asdict(each)} for each in value]
    return msgspec.structs.asdict(value) if isinstance(value, Struct) else value


class DecisionShown(Struct, frozen=True):
    """Who decided, when and why: an operator's public name, an account of the command line, or the configuration."""

    by: str
    at: Moment
    why: str | None


class CredentialShown(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A credential without the files that hold its secrets."""

    mode: str
    issuer: str
    client_id: str
    token_endpoint: str | None = None
    resource: str | None = None
    scope: str | None = None
    dpop: bool | None = None


class LimitsShown(Struct, frozen=True, rename="camel"):
    in_flight: int | None


class VersionShown(Struct, frozen=True, rename="camel"):
    """One version of a registration. ``lineage`` numbers the specialist behind it; ``ended`` tells of a revocation, or
    of a proposal's withdrawal; ``held`` of the last hold.
    """

    version: int
    state: RegistrationState
    source: Source
    name: str
    origin: str
    protocol: str | None
    credentials: list[CredentialShown]
    limits: LimitsShown
    owner_contact: str | None
    lineage: int
    proposed: DecisionShown
    approved: DecisionShown | None
    held: DecisionShown | None
    ended: DecisionShown | None


class BreakerShown(Struct, frozen=True, rename="camel"):
    """The agent's breaker, which all tenants share. ``pausedUntil``: the specialist asked for a pause."""

    state: BreakerState
    open_until: Moment | None
    paused_until: Moment | None
    window_started_at: Moment | None
    attempts: int
    failures: int
    last_success_at: Moment | None
    last_failure_at: Moment | None


class BacklogShown(Struct, frozen=True, rename="camel"):
    """What of the tenant's waits; ``sending`` is in flight. ``oldestSince``: since when the oldest has waited."""

    pending: int
    sending: int
    held: int
    needs_owner: int
    oldest_since: Moment | None


class DisagreementShown(Struct, frozen=True):
    """The configuration file says otherwise than the version that was decided for (else, the newest)."""

    version: int
    state: RegistrationState
    differs: list[Literal["name", "origin", "protocol", "credentials", "limits", "ownerContact"]]


class AgentShown(Struct, frozen=True, rename="camel"):
    """An agent. ``inForce`` is what everything goes by now; ``hold`` is the tenant's own."""

    agent: str
    name: str
    state: Standing
    in_force: VersionShown | None
    newest: int
    hold: DecisionShown | None
    breaker: BreakerShown
    backlog: BacklogShown
    disagreement: DisagreementShown | None


class AgentDetail(AgentShown, frozen=True, rename="camel"):
    """An agent with every version of its registration, oldest first."""

    versions: list[VersionShown]


class AgentsPage(Struct, frozen=True):
    """``total`` counts all that fit the filter."""

    items: list[AgentShown]
    next: str | None
    total: int


class Decided(Struct, frozen=True):
    """What a decision did: the agent after it, and how many of everybody's deliveries were parked, and set free.

    ``complete`` false: more are being moved; none of them is sent by what was decided before.
    """

    agent: AgentDetail
    parked: int
    freed: int
    complete: bool


def shown(view: View) -> AgentShown:
    return AgentShown(**_members(view))


def detail(view: View) -> AgentDetail:
    return AgentDetail(**_members(view), versions=[version_shown(row) for row in view.versions])


def decided(view: View, outcome: Outcome) -> Decided:
    return Decided(detail(view), outcome.parked, outcome.freed, outcome.complete)


def _members(view: View) -> dict[str, Any]:
    approved = view.agent.approved
    in_force = next((row for row in view.versions if approved and row["version"] == approved.version), None)
    hold = next(iter(view.holds), None)
    differs = view.disagreement
    return {
        "agent": view.agent.id,
        "name": view.agent.name,
        "state": view.standing,
        "in_force": in_force and version_shown(in_force),
        "newest": view.agent.newest,
        "hold": hold and DecisionShown(hold["held_by"], rfc3339(hold["held_at"]), hold["why"]),
        "breaker": breaker_shown(view.health.breaker),
        "backlog": backlog_shown(view.health.backlog),
        "disagreement": differs
        and DisagreementShown(differs.version, differs.state, [camel(name) for name in differs.differs]),
    }


def camel(name: str) -> Any:  # noqa: ANN401 - one of the literals
    """A key as answers spell it."""
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def breaker_shown(breaker: Breaker) -> BreakerShown:
    return BreakerShown(
        state=breaker.state,
        open_until=_moment(breaker.open_until),
        paused_until=_moment(breaker.paused_until),
        window_started_at=_moment(breaker.window_started_at),
        attempts=breaker.attempts,
        failures=breaker.failures,
        last_success_at=_moment(breaker.last_success_at),
        last_failure_at=_moment(breaker.last_failure_at),
    )


def backlog_shown(backlog: Backlog) -> BacklogShown:
    totals = {state: backlog.totals.get(state, 0) for state in ("pending", "sending", "held", "needs_owner")}
    return BacklogShown(**totals, oldest_since=_moment(backlog.oldest))


def version_shown(row: RowMapping) -> VersionShown:
    kept = CredentialShown.__struct_fields__
    return VersionShown(
        version=row["version"],
        state=row["state"],
        source=row["source"],
        name=row["name"],
        origin=row["origin"],
        protocol=row["protocol"],
        credentials=[
            CredentialShown(**{key: value for key, value in each.items() if key in kept})
            for each in json.loads(row["credentials"])
        ],
        limits=LimitsShown(json.loads(row["limits"] or "{}").get("in_flight")),
        owner_contact=row["owner_contact"],
        lineage=row["lineage"],
        proposed=DecisionShown(row["proposed_by"], rfc3339(row["proposed_at"]), row["proposed_why"]),
        approved=_decision(row, "approved"),
        held=_decision(row, "held"),
        ended=_decision(row, "revoked"),
    )


def _decision(row: RowMapping, name: str) -> DecisionShown | None:
    at = row[f"{name}_at"]
    return None if at is None else DecisionShown(row[f"{name}_by"], rfc3339(at), row[f"{name}_why"])


def _moment(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)
