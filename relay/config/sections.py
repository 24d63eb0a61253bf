"""The configuration file as types: one Struct for each table, one field for each key, by the names operators write.

Every key stands in ``config.example.toml`` with a comment. A default that depends on another key (see
`relay.config.defaults`) is filled in before decoding, which is why such a field has none here.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from registry import model
from registry.registrations import Declaration
from relay.config.durations import Duration

Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=1024, le=16 * 1024 * 1024)]
Span = Annotated[float, Meta(gt=0, le=86_400)]
"""Seconds, of keys whose name says so."""
Text = Annotated[str, Meta(min_length=1, max_length=2048)]

Rate = Annotated[int, Meta(ge=0, le=1_000_000)]
"""Requests a minute; 0: any number."""
AcrValue = Annotated[str, Meta(pattern=r"^[!#-\[\]-~]{1,256}$")]
"""Without spaces, quotes and backslashes: it stands in a list, in a quoted string (RFC 9470 section 3)."""
ScopeName = Annotated[str, Meta(pattern=r"^[!#-\[\]-~]{1,256}$")]
"""RFC 6749 section 3.3."""

Algorithm = Literal["ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "Ed25519", "EdDSA"]
"""Asymmetric ones only: with a shared secret every verifier could sign."""


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class Server(Section, frozen=True, kw_only=True):
    host: Text = "127.0.0.1"
    port: Port = 8080
    public_url: Text
    cors_origins: tuple[Text, ...] = ()
    trusted_proxies: tuple[Text, ...] = ()
    development: bool = False
    max_body_bytes: Bytes = 65_536
    shutdown_grace_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30


class DatabaseAccess(Section, frozen=True, kw_only=True):
    url: Text
    password_file: Path | None = None
    auto_migrate: bool
    pool_size: Annotated[int, Meta(ge=1, le=500)] = 10


class Owners(Section, frozen=True, kw_only=True):
    pepper_file: Path
    sealing_key_file: Path
    previous_pepper_files: tuple[Path, ...] = ()
    previous_sealing_key_files: tuple[Path, ...] = ()


class Issuer(Section, frozen=True, kw_only=True):
    issuer: Text
    audience: Text
    algorithms: Annotated[tuple[Algorithm, ...], Meta(min_length=1)] = ("ES256", "RS256")
    client_claim: Text = "client_id"
    tenant_claim: Text | None = None
    jwks_uri: Text | None = None
    token_types: Annotated[tuple[Text, ...], Meta(min_length=1)] = ("at+jwt",)


class Client(Section, frozen=True, kw_only=True):
    agents: tuple[Text, ...]
    on_behalf_of: tuple[Text, ...] = ()
    issuer: Text


class Identity(Section, frozen=True, kw_only=True):
    issuers: Annotated[tuple[Issuer, ...], Meta(min_length=1)]
    clients: dict[str, Client] = {}


class CertifiedCredential(Section, frozen=True, kw_only=True):
    """The keys of every credential."""

    issuer: Text
    client_id: Text
    client_certificate_file: Path | None = None
    client_certificate_key_file: Path | None = None


class GrantedCredential(CertifiedCredential, frozen=True, kw_only=True):
    """The keys of those that ask a token endpoint."""

    token_endpoint: Text
    key_file: Path
    resource: Text
    scope: str = ""
    dpop: bool = False
    dpop_key_file: Path | None = None


class ClientCredentials(GrantedCredential, frozen=True, kw_only=True, tag_field="mode", tag="client_credentials"):
    def credential(self) -> model.ClientCredentials:
        return model.ClientCredentials(**_members(self))


class OwnerAssertion(GrantedCredential, frozen=True, kw_only=True, tag_field="mode", tag="owner_assertion"):
    def credential(self) -> model.OwnerAssertion:
        return model.OwnerAssertion(**_members(self))


class TokenExchange(GrantedCredential, frozen=True, kw_only=True, tag_field="mode", tag="token_exchange"):
    def credential(self) -> model.TokenExchange:
        return model.TokenExchange(**_members(self))


class StaticBearer(CertifiedCredential, frozen=True, kw_only=True, tag_field="mode", tag="static_bearer"):
    token_file: Path

    def credential(self) -> model.StaticBearer:
        return model.StaticBearer(**_members(self))


def _members(written: CertifiedCredential) -> dict[str, Any]:
    """The registry's members have the names of the keys; it keeps paths as text."""
    members = {name: getattr(written, name) for name in written.__struct_fields__}
    return {name: str(value) if isinstance(value, Path) else value for name, value in members.items()}


WrittenCredential: TypeAlias = ClientCredentials | OwnerAssertion | TokenExchange | StaticBearer


class AgentLimits(Section, frozen=True, kw_only=True):
    in_flight: Count | None = None


class WrittenAgent(Section, frozen=True, kw_only=True):
    id: Text
    name: Text
    origin: Text
    protocol: Text | None = None
    owner_contact: Text | None = None
    limits: AgentLimits = AgentLimits()
    credentials: tuple[WrittenCredential, ...] = ()

    def declaration(self) -> Declaration:
        return Declaration(
            agent=model.AgentId(self.id),
            name=self.name,
            origin=self.origin,
            protocol=self.protocol,
            credentials=tuple(written.credential() for written in self.credentials),
            limits=model.Limits(in_flight=self.limits.in_flight),
            owner_contact=self.owner_contact,
        )


class AgentsFile(Section, frozen=True, kw_only=True):
    """A file with nothing but agents: what is proposed from the command line."""

    agents: tuple[WrittenAgent, ...]


class Breaker(Section, frozen=True, kw_only=True):
    failure_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.5
    minimum: Count = 10
    window_seconds: Span = 60
    open_seconds: Span = 30


class Reconcile(Section, frozen=True, kw_only=True):
    enabled: bool = True
    schedule: Annotated[tuple[Duration, ...], Meta(min_length=1, max_length=100)] = tuple(
        map(Duration.parse, ("1m", "10m", "1h", "6h", "24h", "3d", "7d", "14d", "30d"))
    )


class Delivery(Section, frozen=True, kw_only=True):
    deadline_seconds: Annotated[float, Meta(gt=0, le=300)] = 10
    lease_seconds: Span = 45
    schedule: Annotated[tuple[Duration, ...], Meta(min_length=1, max_length=100)] = tuple(
        map(Duration.parse, ("0s", "5s", "30s", "2m", "10m", "30m", "1h", "3h", "6h", "12h", "24h", "24h"))
    )
    in_flight_per_agent: Count = 16
    poll_seconds: Span = 1
    accept_queue: Count = 1024
    breaker: Breaker = Breaker()
    reconcile: Reconcile = Reconcile()


class EgressRules(Section, frozen=True, kw_only=True):
    allow_networks: tuple[Text, ...] = ()
    deny_networks: tuple[Text, ...] = ()
    ca_file: Path | None = None


class Limits(Section, frozen=True, kw_only=True):
    per_owner: Rate = 600
    per_client: Rate = 0
    per_address: Rate = 0


Days = Annotated[int, Meta(ge=0, le=36_500)]
"""0: for ever."""


class TenantRetention(Section, frozen=True, kw_only=True):
    days: Days


class Retention(Section, frozen=True, kw_only=True):
    days: Days = 0
    sweep_seconds: Span = 3600
    events_days: Annotated[int, Meta(ge=1, le=3650)] = 7
    tenants: dict[Text, TenantRetention] = {}


class Registry(Section, frozen=True, kw_only=True):
    admin_issuers: tuple[Text, ...] = ()
    four_eyes: bool = False


class OperatorsCli(Section, frozen=True, kw_only=True):
    issuer: Text | None = None
    client_id: Text | None = None
    scope: Text | None = None


class Operators(Section, frozen=True, kw_only=True):
    max_age_seconds: Annotated[int, Meta(ge=1, le=31_536_000)] | None = None
    acr_values: tuple[AcrValue, ...] = ()
    long_running_seconds: Annotated[int, Meta(ge=1, le=31_536_000)] = 86_400
    cli: OperatorsCli = OperatorsCli()


class Console(Section, frozen=True, kw_only=True):
    issuer: Text
    client_id: Text
    key_file: Path | None = None
    client_secret_file: Path | None = None
    scopes: Annotated[tuple[ScopeName, ...], Meta(min_length=1)] = (
        "openid",
        "profile",
        "operator:read",
        "operator:write",
        "registry:admin",
    )
    resource: Text | None = None
    authorization_endpoint: Text | None = None
    token_endpoint: Text | None = None
    idle_minutes: Annotated[int, Meta(ge=1, le=1440)] = 30
    absolute_hours: Annotated[int, Meta(ge=1, le=168)] = 12


class Telemetry(Section, frozen=True, kw_only=True):
    worker_host: Text = "127.0.0.1"
    worker_port: Port = 0
    collector: Text | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] = 1
    comments: bool = False


class Logging(Section, frozen=True, kw_only=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "json"


class File(Section, frozen=True, kw_only=True):
    """The whole file."""

    server: Server
    database: DatabaseAccess
    owners: Owners
    identity: Identity
    agents: tuple[WrittenAgent, ...] = ()
    delivery: Delivery = Delivery()
    egress: EgressRules = EgressRules()
    limits: Limits = Limits()
    retention: Retention = Retention()
    registry: Registry = Registry()
    operators: Operators = Operators()
    console: Console | None = None
    telemetry: Telemetry = Telemetry()
    logging: Logging = Logging()
