"""The configuration as the program uses it: decoded, complete and checked."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from sqlalchemy import URL, make_url

from registry.egress import EgressPolicy
from registry.registrations import Declaration
from relay.config.sections import (
    Console,
    DatabaseAccess,
    Delivery,
    EgressRules,
    File,
    Identity,
    Limits,
    Logging,
    Operators,
    Owners,
    Registry,
    Retention,
    Server,
    Telemetry,
)
from relay.errors import StartupError


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One configuration file, as loaded. Paths in it are absolute, spans are seconds."""

    path: Path
    server: Server
    database: DatabaseAccess
    owners: Owners
    identity: Identity
    agents: tuple[Declaration, ...]
    delivery: Delivery
    egress: EgressRules
    limits: Limits
    retention: Retention
    registry: Registry
    operators: Operators
    console: Console | None
    telemetry: Telemetry
    logging: Logging
    _database_password: str | None = field(repr=False)

    @classmethod
    def of(cls, file: File, *, path: Path, database_password: str | None) -> "Config":
        """``path`` is the file's own, absolute; ``database_password`` is the environment's, if it has one."""
        return cls(
            path=path,
            server=file.server,
            database=file.database,
            owners=file.owners,
            identity=file.identity,
            agents=tuple(agent.declaration() for agent in file.agents),
            delivery=file.delivery,
            egress=file.egress,
            limits=file.limits,
            retention=file.retention,
            registry=file.registry,
            operators=file.operators,
            console=file.console,
            telemetry=file.telemetry,
            logging=file.logging,
            _database_password=database_password,
        )

    def database_url(self) -> URL:
        """Where the database is, with its password. A relative SQLite file lies beside the configuration.

        Raises StartupError where the password file cannot be read. Do not log what ``render_as_string`` gives.
        """
        url = make_url(self.database.url)
        if url.drivername == "sqlite":
            return url.set(database=str(self.path.parent / (url.database or "")))
        password = self._database_password or self._password_from_file()
        return url if password is None else url.set(password=password)

    def _password_from_file(self) -> str | None:
        file = self.database.password_file
        if file is None:
            return None
        try:
            password = file.read_text(encoding="utf-8").strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise StartupError(f"[database] password_file: {file} cannot be read ({_why(error)})") from None
        if not password:
            raise StartupError(f"[database] password_file: {file} is empty")
        return password

    def trusted_proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        return tuple(map(ip_network, self.server.trusted_proxies))

    def egress_policy(self) -> EgressPolicy:
        return EgressPolicy(
            allow_networks=tuple(map(ip_network, self.egress.allow_networks)),
            deny_networks=tuple(map(ip_network, self.egress.deny_networks)),
            ca_file=None if self.egress.ca_file is None else str(self.egress.ca_file),
            development=self.server.development,
        )


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "unreadable") if isinstance(error, OSError) else "not UTF-8"
