"""The caller, and the owner that a caller's tasks and ratings belong to. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NewType

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
OperatorScope = Literal["operator:read", "operator:write", "registry:admin"]
"""Scopes of people who run the relay."""

ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "Ed25519": ("OKP", "Ed25519"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""The signatures that can be verified, with the key type and curve each needs (RFC 7518 section 3.1, RFC 9864).

Asymmetric ones only: with a shared secret every verifier could sign.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerPolicy:
    """One issuer whose tokens are taken, and what they must look like.

    ``jwks_uri`` None: found through the issuer's metadata. ``max_lifetime`` bounds ``exp - iat``, in seconds.
    """

    issuer: str
    audience: str
    algorithms: Collection[str]
    client_claim: str = "client_id"
    tenant_claim: str | None = None
    jwks_uri: str | None = None
    token_types: Collection[str] = ("at+jwt",)
    max_lifetime: float | None = None


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
    this human while they are away.
    """

    id: OwnerId
    key: str
    kind: OwnerKind
    issuer: str
    client: str
    subject_sealed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A verified caller. Everything in it comes from the token; ``token`` itself lives in memory only.

    ``auth_time`` (seconds since the epoch) and ``acr`` say when and how the person signed in, where the token tells.
    """

    kind: OwnerKind
    issuer: str
    client: str
    subject: str = field(repr=False)
    tenant: str
    scopes: frozenset[str]
    expires_at: float
    token: str = field(repr=False)
    auth_time: float | None = None
    acr: str | None = None

    @property
    def owner(self) -> OwnerTuple:
        return OwnerTuple(self.kind, self.issuer, self.client, self.subject)
