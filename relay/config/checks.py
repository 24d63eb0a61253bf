"""What must hold between keys, and within the text of one. Each check is a function of the decoded file."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from registry.addresses import canonical_origin, canonical_url
from registry.protocols.catalog import ADAPTERS
from relay.config.problems import Place, Problem
from relay.config.sections import CertifiedCredential, File, GrantedCredential
from relay.config.telemetry import defects

LEASE_MARGIN_SECONDS = 5
"""What a lease must leave after the deadline for writing down how the attempt ended."""

_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s#]+", re.ASCII)
_PASSWORD_OPTIONS = frozenset({"password", "sslpassword", "passfile"})
_ELSEWHERE = (
    "must not hold a password: put it into the file named by [database] password_file, "
    "or into the environment as RELAY_DATABASE_PASSWORD"
)

Check = Callable[[File], Iterator[Problem]]


def lease_outlasts_deadline(file: File) -> Iterator[Problem]:
    """A lease that ends during an attempt lets a second worker send at the same time."""
    lease, deadline = file.delivery.lease_seconds, file.delivery.deadline_seconds
    if lease < deadline + LEASE_MARGIN_SECONDS:
        text = f"must exceed [delivery] deadline_seconds ({deadline:g}) by at least {LEASE_MARGIN_SECONDS}"
        yield Problem(("delivery", "lease_seconds"), text, lease)


def development_stays_on_loopback(file: File) -> Iterator[Problem]:
    """Development relaxes the rules of transport, which only a machine's own traffic can afford."""
    if file.server.development and not _is_loopback(file.server.host):
        text = "must be 127.0.0.1, ::1 or localhost while [server] development = true"
        yield Problem(("server", "host"), text, file.server.host)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def own_addresses_are_canonical(file: File) -> Iterator[Problem]:
    development = file.server.development
    yield from _url(("server", "public_url"), file.server.public_url, development=development)
    for number, origin in enumerate(file.server.cors_origins):
        yield from _origin(("server", "cors_origins", number), origin, development=development)


def issuers_are_usable(file: File) -> Iterator[Problem]:
    """Issuers are told apart by their exact text, and their keys are fetched from nowhere but over https."""
    seen = Counter(issuer.issuer for issuer in file.identity.issuers)
    for number, issuer in enumerate(file.identity.issuers):
        place = ("identity", "issuers", number)
        yield from _url((*place, "issuer"), issuer.issuer, development=file.server.development)
        if issuer.jwks_uri is not None:
            yield from _url((*place, "jwks_uri"), issuer.jwks_uri, development=file.server.development)
        if seen[issuer.issuer] > 1:
            yield Problem((*place, "issuer"), "stands here more than once; an issuer has one entry")


def clients_name_known_issuers(file: File) -> Iterator[Problem]:
    known = {issuer.issuer for issuer in file.identity.issuers}
    for name, client in file.identity.clients.items():
        place = ("identity", "clients", name)
        if client.issuer not in known:
            yield Problem((*place, "issuer"), "is not the issuer of any [[identity.issuers]]")
        for number, issuer in enumerate(client.on_behalf_of):
            if issuer not in known:
                yield Problem((*place, "on_behalf_of", number), "is not the issuer of any [[identity.issuers]]")


def agent_ids_are_unique(file: File) -> Iterator[Problem]:
    seen = Counter(agent.id for agent in file.agents)
    for number, agent in enumerate(file.agents):
        if _AGENT_ID.fullmatch(agent.id) is None:
            text = "must be 1 to 128 letters, digits, dots, hyphens and underscores, beginning with a letter or digit"
            yield Problem(("agents", number, "id"), text)
        if seen[agent.id] > 1:
            yield Problem(("agents", number, "id"), "stands here more than once; an agent has one entry", agent.id)


def origins_are_canonical(file: File) -> Iterator[Problem]:
    for number, agent in enumerate(file.agents):
        yield from _origin(("agents", number, "origin"), agent.origin, development=file.server.development)


def protocols_are_known(file: File) -> Iterator[Problem]:
    for number, agent in enumerate(file.agents):
        if agent.protocol is not None and agent.protocol not in ADAPTERS:
            text = f"is not a protocol of this relay; known: {', '.join(sorted(ADAPTERS))}"
            yield Problem(("agents", number, "protocol"), text)


def opted_in_agents_have_credentials(file: File) -> Iterator[Problem]:
    """Without credentials nothing could ever be sent, and every rating would be refused one by one."""
    for number, agent in enumerate(file.agents):
        if agent.protocol is not None and not agent.credentials:
            text = f"is missing: {agent.id} takes feedback (protocol is set), so it needs an [[agents.credentials]]"
            yield Problem(("agents", number, "credentials"), text)


def credentials_are_usable(file: File) -> Iterator[Problem]:
    """A credential acts for owners of its own issuer only, so one of an issuer unknown here could never act."""
    known = {issuer.issuer for issuer in file.identity.issuers}
    for number, agent in enumerate(file.agents):
        for index, credential in enumerate(agent.credentials):
            place = ("agents", number, "credentials", index)
            if credential.issuer not in known:
                yield Problem((*place, "issuer"), "is not the issuer of any [[identity.issuers]]")
            yield from _certificate(place, credential)
            if isinstance(credential, GrantedCredential):
                yield from _grant(place, credential, development=file.server.development)


def _certificate(place: Place, credential: CertifiedCredential) -> Iterator[Problem]:
    keys = ("client_certificate_file", "client_certificate_key_file")
    missing = [key for key in keys if getattr(credential, key) is None]
    if len(missing) == 1:
        yield Problem((*place, missing[0]), "is missing: a certificate and its key go together")


def _grant(place: Place, credential: GrantedCredential, *, development: bool) -> Iterator[Problem]:
    yield from _url((*place, "token_endpoint"), credential.token_endpoint, development=development)
    if _ABSOLUTE_URI.fullmatch(credential.resource) is None:
        # RFC 8707 section 2
        yield Problem((*place, "resource"), "must be an absolute URI without a fragment")
    if credential.dpop_key_file is not None and not credential.dpop:
        yield Problem((*place, "dpop_key_file"), "does nothing without dpop = true")


def database_is_supported(file: File) -> Iterator[Problem]:
    place = ("database", "url")
    try:
        url = make_url(file.database.url)
    except (ArgumentError, ValueError):
        yield Problem(place, "must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")
        return
    if url.password is not None or _PASSWORD_OPTIONS & set(url.query):
        yield Problem(place, _ELSEWHERE)
    if (defect := _database_defect(url)) is not None:
        yield Problem(place, defect)


def _database_defect(url: URL) -> str | None:
    match url.drivername:
        case "sqlite":
            if url.database in {None, "", ":memory:"} or url.host or url.query:
                return "must name a file, as sqlite:///relay.db (beside this file) or sqlite:////var/lib/relay.db"
        case "postgresql":
            if not url.database:
                return "must name a database, as postgresql://USER@HOST/DATABASE"
        case _:
            return "must begin with sqlite:/// or postgresql://"
    return None


def owners_keys_are_two_files(file: File) -> Iterator[Problem]:
    """One key for two purposes would tell through the one what the other keeps."""
    owners = file.owners
    if owners.pepper_file == owners.sealing_key_file:
        yield Problem(("owners", "sealing_key_file"), "must not be the pepper_file")
    previous = {
        "previous_pepper_files": owners.previous_pepper_files,
        "previous_sealing_key_files": owners.previous_sealing_key_files,
    }
    taken = {owners.pepper_file, owners.sealing_key_file}
    for key, paths in previous.items():
        for number, path in enumerate(paths):
            if path in taken:
                yield Problem(("owners", key, number), "is named by [owners] already; each key has a file of its own")
            taken.add(path)


def networks_are_networks(file: File) -> Iterator[Problem]:
    lists: dict[Place, tuple[str, ...]] = {
        ("egress", "allow_networks"): file.egress.allow_networks,
        ("egress", "deny_networks"): file.egress.deny_networks,
        ("server", "trusted_proxies"): file.server.trusted_proxies,
    }
    for place, networks in lists.items():
        for number, network in enumerate(networks):
            if not _is_network(network):
                yield Problem((*place, number), _network_advice(network))


def some_peers_are_no_proxies(file: File) -> Iterator[Problem]:
    """Where everyone is a proxy, everyone chooses the address that they are counted under."""
    for number, network in enumerate(file.server.trusted_proxies):
        if _is_network(network) and ip_network(network).prefixlen == 0:
            text = "takes every caller for a proxy; name the addresses of those in front of the relay"
            yield Problem(("server", "trusted_proxies", number), text, network)


def admin_issuers_are_known(file: File) -> Iterator[Problem]:
    known = {issuer.issuer for issuer in file.identity.issuers}
    for number, issuer in enumerate(file.registry.admin_issuers):
        if issuer not in known:
            yield Problem(("registry", "admin_issuers", number), "is not the issuer of any [[identity.issuers]]")


def console_can_sign_in(file: File) -> Iterator[Problem]:
    """The console takes tokens as the API does, so of a configured issuer, and has to be told who signed in."""
    console = file.console
    if console is None:
        return
    if console.issuer not in {issuer.issuer for issuer in file.identity.issuers}:
        yield Problem(("console", "issuer"), "is not the issuer of any [[identity.issuers]]")
    if console.key_file is not None and console.client_secret_file is not None:
        yield Problem(("console", "client_secret_file"), "must be left out or empty beside key_file")
    if "openid" not in console.scopes:
        yield Problem(("console", "scopes"), "must hold openid, so that the issuer says who signed in")
    if console.resource is not None and _ABSOLUTE_URI.fullmatch(console.resource) is None:
        yield Problem(("console", "resource"), "must be an absolute URI without a fragment")


def console_has_addresses(file: File) -> Iterator[Problem]:
    if file.console is None:
        return
    for key in ("authorization_endpoint", "token_endpoint"):
        if (endpoint := getattr(file.console, key)) is not None:
            yield from _url(("console", key), endpoint, development=file.server.development)
    if urlsplit(file.server.public_url).path:
        # Its cookies are good for one host as a whole.
        yield Problem(("server", "public_url"), "must be a bare origin, without a path, where there is a [console]")


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _network_advice(network: str) -> str:
    try:
        return f'has bits set beyond its prefix; write "{ip_network(network, strict=False)}"'
    except ValueError:
        return 'must be a network, such as "10.20.0.0/16" or "fd00:20::/32"'


def _url(place: Place, text: str, *, development: bool) -> Iterator[Problem]:
    try:
        canonical_url(text, development=development)
    except ValueError as refused:
        yield Problem(place, _with_way_out(text, str(refused), canonical_url, development=development))


def _origin(place: Place, text: str, *, development: bool) -> Iterator[Problem]:
    try:
        canonical_origin(text, development=development)
    except ValueError as refused:
        yield Problem(place, _with_way_out(text, str(refused), canonical_origin, development=development))


def _with_way_out(text: str, refusal: str, check: Callable[..., str], *, development: bool) -> str:
    """The refusal, with the key to turn where that is all that stands against the text."""
    if development:
        return refusal
    try:
        check(text, development=True)
    except ValueError:
        return refusal
    return f"{refusal} (for a trial on this machine alone: [server] development = true)"


def collector_is_usable(file: File) -> Iterator[Problem]:
    """Nothing personal leaves in the clear, and nothing is configured that would not work."""
    yield from defects(file.telemetry)


AGENT_CHECKS: tuple[Check, ...] = (
    agent_ids_are_unique,
    origins_are_canonical,
    protocols_are_known,
    opted_in_agents_have_credentials,
    credentials_are_usable,
)
"""Those about ``[[agents]]``, which hold for an entry that comes from elsewhere too."""

CHECKS: tuple[Check, ...] = (
    lease_outlasts_deadline,
    development_stays_on_loopback,
    own_addresses_are_canonical,
    database_is_supported,
    owners_keys_are_two_files,
    issuers_are_usable,
    clients_name_known_issuers,
    *AGENT_CHECKS,
    networks_are_networks,
    some_peers_are_no_proxies,
    admin_issuers_are_known,
    console_can_sign_in,
    console_has_addresses,
    collector_is_usable,
)
