"""What a registration is, and whether its credentials can act for the owner of a task. Pure."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NewType, TypeAlias, assert_never

AgentId = NewType("AgentId", str)
Version = NewType("Version", int)

RanAs = Literal["owner", "client"]
"""Under which identity a specialist ran a task: its owner's own, or the machine client's alone."""

RegistrationState = Literal["proposed", "approved", "held", "superseded", "withdrawn", "revoked"]
"""``approved`` and ``held`` are decided for, one version of an agent at a time; nothing is sent while it is held.
``superseded``: another version was approved instead. ``withdrawn``: a proposal that came to nothing."""
Source = Literal["configuration", "operator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedCredential:
    """Any credential. With ``client_certificate_file`` and its key, connections present that certificate (RFC 8705)."""

    issuer: str
    client_id: str
    client_certificate_file: str | None = None
    client_certificate_key_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedCredential(CertifiedCredential):
    """One that asks a token endpoint, proving the client by ``private_key_jwt`` (RFC 7523).

    ``dpop`` binds the tokens to a key of the relay's (RFC 9449): that in ``dpop_key_file``, else one of the process.
    """

    token_endpoint: str
    key_file: str
    resource: str
    scope: str = ""
    dpop: bool = False
    dpop_key_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials(GrantedCredential):
    """RFC 6749 section 4.4: the machine client speaks for itself."""

    mode: Literal["client_credentials"] = "client_credentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAssertion(GrantedCredential):
    """RFC 7523 JWT bearer grant: the relay asserts the owner, who need not be present."""

    mode: Literal["owner_assertion"] = "owner_assertion"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenExchange(GrantedCredential):
    """RFC 8693: the owner's live token is exchanged for one at the destination, so the owner has to be present."""

    mode: Literal["token_exchange"] = "token_exchange"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticBearer(CertifiedCredential):
    """A secret in a file, for pilots; it stands for the machine client."""

    mode: Literal["static_bearer"] = "static_bearer"
    token_file: str


Credential: TypeAlias = ClientCredentials | OwnerAssertion | TokenExchange | StaticBearer


@dataclass(frozen=True, slots=True)
class Acting:
    """For whom a credential would have to act: the task's owner, and how the task ran.

    ``subject_known`` says that the owner's subject is at hand (sealed, or in a live token). ``present`` says that a
    live token of the owner is at hand.
    """

    kind: Literal["human", "machine"]
    issuer: str
    client: str
    ran_as: RanAs
    subject_known: bool
    present: bool = False


def can_act(credential: Credential, acting: Acting) -> bool:
    """Whether this credential makes the relay the same client and human that ran the task.

    A credential acts only for owners of its own issuer and client. A machine owner is its client, so that
    ``ran_as`` makes no difference to it.
    """
    if (credential.issuer, credential.client_id) != (acting.issuer, acting.client):
        return False
    as_client = acting.kind == "machine" or acting.ran_as == "client"
    match credential:
        case ClientCredentials() | StaticBearer():
            return as_client
        case OwnerAssertion():
            return not as_client and acting.subject_known
        case TokenExchange():
            return not as_client and acting.present
        case _:
            assert_never(credential)


def choose(credentials: Iterable[Credential], acting: Acting) -> Credential | None:
    """The first credential that can act; None: the destination cannot act for this owner."""
    return next((c for c in credentials if can_act(c, acting)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What bounds the traffic to one agent. None: as the configuration says for every agent.

    ``in_flight``: the most attempts under way at a time, in one process.
    """

    in_flight: int | None = None


UNBOUNDED = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One version of what is known of an agent's destination. A change is a new version.

    ``lineage`` numbers the specialist behind the origin: versions with the same origin and protocol share it, and
    an operator may declare, audited, that a new origin is still the same specialist.
    ``origin`` is canonical (see `registry.addresses`); ``protocol`` None means not opted in. ``owner_contact`` is for
    people: whom to ask about this specialist.
    """

    agent: AgentId
    version: Version
    name: str
    state: RegistrationState
    source: Source
    origin: str
    protocol: str | None
    credentials: tuple[Credential, ...]
    lineage: int
    limits: Limits = UNBOUNDED
    owner_contact: str | None = None

    @property
    def destination(self) -> tuple[str, str | None]:
        """What makes it another destination when it changes: origin and protocol."""
        return self.origin, self.protocol


def in_force(versions: Iterable[Registration]) -> Version | None:
    """Which of an agent's versions everything goes by; None: nothing may be sent.

    The one that was decided for, except while another destination is proposed: until that is decided, neither is it.
    """
    versions = tuple(versions)
    standing = next((v for v in versions if v.state in {"approved", "held"}), None)
    if standing is None:
        return None
    moving = any(v.state == "proposed" and v.destination != standing.destination for v in versions)
    return None if moving else standing.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent with the version in force (None: nothing is; see `in_force`), and the tenants that hold it.

    ``revision`` grows with every change to the agent, its registrations or holds: what was decided from a snapshot is
    checked against it inside the writing statement. ``newest`` is the version that provenance pins while nothing is
    approved. ``lineages`` tells the specialist behind each version.
    """

    id: AgentId
    name: str
    revision: int
    approved: Registration | None
    newest: Version
    lineages: Mapping[Version, int]
    held_by: frozenset[str] = frozenset()

    @property
    def pinned(self) -> Version:
        """The version that a task recorded now is bound to."""
        return self.approved.version if self.approved else self.newest

    @property
    def sendable(self) -> bool:
        """Whether anything may be sent to it, for whatever tenant."""
        return self.approved is not None and self.approved.state == "approved"

    def is_held_for(self, tenant: str) -> bool:
        """Whether an operator holds the agent: for everybody, or for this tenant."""
        return tenant in self.held_by or (self.approved is not None and self.approved.state == "held")

    def is_held(self, tenant: str, pinned: Version) -> bool:
        """Whether a delivery of this tenant, for a task pinned to that version, has to wait for an operator."""
        if self.approved is None or self.is_held_for(tenant):
            return True
        return self.lineages.get(pinned) != self.approved.lineage


def needs_presence(credentials: Iterable[Credential], acting: Acting) -> bool:
    """Whether only the owner's own sign-in can act: nothing can while they are away, something could if they came."""
    credentials = tuple(credentials)
    absent = choose(credentials, replace(acting, present=False))
    return absent is None and choose(credentials, replace(acting, present=True)) is not None


Obstacle = Literal["destination_not_approved", "feedback_not_supported", "destination_cannot_act_for_owner"]


def obstacle(agent: Agent, acting: Acting, protocols: Container[str]) -> Obstacle | None:
    """Why nothing may be sent to this agent for this owner; None: it may."""
    if agent.approved is None:
        return "destination_not_approved"
    if agent.approved.protocol not in protocols:
        return "feedback_not_supported"
    if choose(agent.approved.credentials, acting) is None:
        return "destination_cannot_act_for_owner"
    return None


Snapshot: TypeAlias = Mapping[AgentId, Agent]
"""All agents as they stood at one moment."""
