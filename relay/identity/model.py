"""The caller, and the owner that a caller's tasks and ratings belong to. Pure."""

from dataclasses import dataclass, field
from typing import Literal, NewType

OwnerId = NewType("OwnerId", int)
OwnerKind = Literal["human", "machine"]

Scope = Literal[
    "provenance:write",
    "feedback:write",
    "feedback:read",
    "operator:read",
    "operator:write",
    "registry:admin",
]


@dataclass(frozen=True, slots=True)
class OwnerTuple:
    """What makes an owner the same: kind, issuer, client and subject (a machine's subject is its client id)."""

    kind: OwnerKind
    issuer: str
    client: str
    subject: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner as stored. ``key`` is the opaque public name; ``subject_sealed`` says whether the relay can act as
    this human while they are away."""

    id: OwnerId
    key: str
    kind: OwnerKind
    issuer: str
    client: str
    subject_sealed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A verified caller. Everything in it comes from the token; ``token`` itself lives in memory only."""

    kind: OwnerKind
    issuer: str
    client: str
    subject: str = field(repr=False)
    tenant: str
    scopes: frozenset[str]
    expires_at: float
    token: str = field(repr=False)

    @property
    def owner(self) -> OwnerTuple:
        return OwnerTuple(self.kind, self.issuer, self.client, self.subject)
