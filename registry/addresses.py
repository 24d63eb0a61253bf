"""Which addresses and origins are fit to be destinations. Pure.

The table names what the IANA special-purpose registries (RFC 6890) set apart. It is our own because
``ipaddress.is_global`` alone calls some of it global, and because a refusal must say what kind of address it met.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import quote

import idna

IPAddress: TypeAlias = IPv4Address | IPv6Address
IPNetwork: TypeAlias = IPv4Network | IPv6Network
AddressClass: TypeAlias = str
"""``global``, or the reason why an address is none: a name of `SPECIAL`, or ``embedded:`` and such a name where an
IPv6 address carries an IPv4 address that is none."""

UNROUTABLE: frozenset[AddressClass] = frozenset({"unspecified", "this_network", "multicast", "broadcast"})
"""What is no single host, so that no allow-list opens it."""


def _networks(*rows: tuple[str, AddressClass]) -> tuple[tuple[IPNetwork, AddressClass], ...]:
    return tuple((ip_network(network), reason) for network, reason in rows)


SPECIAL = _networks(
    ("0.0.0.0/32", "unspecified"),
    ("0.0.0.0/8", "this_network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier_grade_nat"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link_local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "ietf_protocol"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "as112"),
    ("192.52.193.0/24", "amt"),
    ("192.88.99.0/24", "6to4_relay"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "as112"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "ipv4_compatible"),
    ("::ffff:0:0:0/96", "ipv4_translated"),
    ("64:ff9b:1::/48", "nat64_local"),
    ("100::/64", "discard"),
    ("100:0:0:1::/64", "dummy"),
    ("2001::/32", "teredo"),
    ("2001:2::/48", "benchmarking"),
    ("2001:db8::/32", "documentation"),
    ("2001::/23", "ietf_protocol"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "as112"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "srv6"),
    ("fc00::/7", "unique_local"),
    ("fe80::/10", "link_local"),
    ("fec0::/10", "site_local"),
    ("ff00::/8", "multicast"),
)
"""The first match counts, so that the narrower stands before the wider."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_LAST_32_BITS = (_MAPPED, _NAT64, IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"))
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_TEREDO = IPv6Network("2001::/32")
_6TO4 = IPv6Network("2002::/16")


@lru_cache(maxsize=1024)
def parse(address: str | IPAddress) -> IPAddress:
    """The address without its zone; IPv4-mapped IPv6 becomes the IPv4 that the kernel would dial. ValueError: none."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv4Address):
        return parsed
    return parsed.ipv4_mapped or IPv6Address(int(parsed))


@lru_cache(maxsize=1024)
def is_address(text: str) -> bool:
    try:
        return ip_address(text) is not None
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def classify(address: str | IPAddress) -> AddressClass:
    """``global`` if a host on the public internet can be reached there, else the reason why not.

    IPv4 embedded in IPv6 is judged by what it embeds. Of the ways to embed, only mapping and the well-known NAT64
    prefix (RFC 6052, what DNS64 answers with) may lead to a global host; the others are withdrawn or local.
    Raises ValueError for what is no address.
    """
    parsed = parse(address)
    reason = _special(parsed)
    if isinstance(parsed, IPv4Address):
        disguised = reason != "global" and isinstance(ip_address(address), IPv6Address)
        return f"embedded:{reason}" if disguised else reason
    if parsed in _NAT64_LOCAL:  # what it embeds cannot be known for certain
        return reason
    inner = (_special(embedded) for embedded in _embedded(parsed))
    return next((f"embedded:{inside}" for inside in inner if inside != "global"), reason)


def _special(address: IPAddress) -> AddressClass:
    for network, reason in SPECIAL:
        if address in network:
            return reason
    if address in _NAT64:
        return "global"
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return "reserved"
    return "global" if address.is_global else "not_global"


def _embedded(address: IPAddress) -> Iterator[IPv4Address]:
    """Every IPv4 address that a translator or tunnel might read out of this one."""
    if isinstance(address, IPv4Address) or address.is_loopback or address.is_unspecified:
        return
    bits = int(address)
    if any(address in network for network in _LAST_32_BITS):
        yield _slice(bits, 96)
    elif address in _NAT64_LOCAL:
        # RFC 6052 section 2.2: where the IPv4 stands depends on a prefix length that only the operator knows;
        # bits 64 to 71 are skipped.
        without_u = bits >> 64 << 56 | bits & (1 << 56) - 1
        yield from (IPv4Address(without_u >> (120 - start - 32) & 0xFFFFFFFF) for start in (48, 56, 64))
        yield _slice(bits, 96)
    elif address in _6TO4:
        yield _slice(bits, 16)
    elif address in _TEREDO:
        yield _slice(bits, 32)
        yield IPv4Address(int(_slice(bits, 96)) ^ 0xFFFFFFFF)


def _slice(bits: int, start: int) -> IPv4Address:
    return IPv4Address(bits >> (96 - start) & 0xFFFFFFFF)


def readings(address: str | IPAddress) -> tuple[IPAddress, ...]:
    """The address and every IPv4 address embedded in it: a denied network must match none of them."""
    parsed = parse(address)
    return (parsed, *_embedded(parsed))


def covers(network: IPNetwork, address: IPAddress) -> bool:
    """Whether ``address``, as `parse` gives it, is in ``network``, which may be written as IPv4-mapped IPv6."""
    if isinstance(address, IPv4Address) and isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return IPv6Address(int(_MAPPED.network_address) | int(address)) in network
    return address in network


class OriginRefused(ValueError):  # noqa: N818 - a refusal, not a fault of the program
    """An origin or URL is not canonical, or never fit to be a destination. The message names the canonical form."""


_FORM = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*")
_PATH_SAFE = "/~!$&'()*+,;=:@"
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]+)(?::(?P<port>[0-9]{0,5}))?")
_PORTS = {"https": 443, "http": 80}
_HIGHEST_PORT = 65_535
_LONGEST = 2_048
_LONGEST_NAME = 253


def canonical_origin(text: str, *, development: bool = False) -> str:
    """The origin of a specialist, which is refused unless it is written in its one canonical form.

    That is ``https://`` and a lower-case DNS name in A-labels (RFC 5891), with a port only if it is not 443. In
    development ``http://`` and ``https://`` with the name ``localhost`` are origins too. Raises OriginRefused.
    """
    origin, rest = _canonical(text, development=development, literals=False)
    if rest.strip("/"):
        raise OriginRefused(f"an origin has no path, query or fragment: write {origin}")
    return _unaltered(text, origin)


def canonical_url(text: str, *, development: bool = False) -> str:
    """An issuer, token endpoint or key set: an origin with a path, which is kept as it is. Raises OriginRefused.

    In development the addresses 127.0.0.1 and [::1] will do as well as the name ``localhost``.
    """
    origin, rest = _canonical(text, development=development, literals=development)
    path = re.split("[?#]", rest)[0]
    if path != rest or not _PATH.fullmatch(path):
        written = path if _PATH.fullmatch(path) else quote(path, safe=_PATH_SAFE, errors="replace")
        raise OriginRefused(f"more than a percent-encoded path follows the host: write {origin}{written}")
    if {".", ".."} & set(re.sub("%2e", ".", path, flags=re.IGNORECASE).split("/")):
        raise OriginRefused("the path has dot segments, which every hop may read in its own way")
    return _unaltered(text, origin + path)


def _unaltered(text: str, canonical: str) -> str:
    if text != canonical:
        raise OriginRefused(f"not in canonical form: write {canonical}")
    return text


def _canonical(text: str, *, development: bool, literals: bool) -> tuple[str, str]:
    """The canonical origin, and the rest of the text as it stands."""
    form = _split(text)
    scheme = form["scheme"].lower()
    authority = _AUTHORITY.fullmatch(form["authority"])
    if authority is None:
        raise OriginRefused("host and port cannot be told apart: write a DNS name, and a port only if it is not 443")
    literal = literals and authority["host"] in {"127.0.0.1", "[::1]"}
    host = authority["host"] if literal else _canonical_name(authority["host"])
    port = _canonical_port(authority["port"], scheme)
    if f".{host}".endswith(".localhost") and not development:
        raise OriginRefused("localhost is a destination in development only")
    plain = scheme == "http" and development and (literal or host == "localhost")
    if scheme != "https" and not plain:
        raise OriginRefused(f"the scheme is not https: write https://{host}{port}")
    return f"{scheme}://{host}{port}", form["rest"]


def _split(text: str) -> re.Match[str]:
    if len(text) > _LONGEST:
        raise OriginRefused(f"longer than {_LONGEST} characters")
    if any(character <= " " or character in "\\\x7f" for character in text):
        raise OriginRefused("a blank, a control character or a backslash stands in it")
    form = _FORM.fullmatch(text)
    if form is None:
        raise OriginRefused("not an absolute URL: write https:// and a DNS name")
    if "@" in form["authority"]:
        raise OriginRefused("user information stands before the host; what follows the @ would be the destination")
    return form


def _canonical_port(text: str | None, scheme: str) -> str:
    port = int(text) if text else _PORTS.get(scheme, 0)
    if text and not 0 < port <= _HIGHEST_PORT:
        raise OriginRefused(f"the port is not between 1 and {_HIGHEST_PORT}")
    return "" if port == _PORTS.get(scheme, 0) else f":{port}"


def _canonical_name(host: str) -> str:
    if is_numeric(host):
        raise OriginRefused("an IP address is no origin, however it is written: write the DNS name")
    name = (host if host.isascii() else _to_a_labels(host)).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise OriginRefused("the host is not a DNS name: letters, digits and hyphens, in labels of at most 63")
    if is_numeric(name):
        raise OriginRefused("an IP address is no origin, however it is written: write the DNS name")
    if not all(_is_a_label(label) for label in labels if label.startswith("xn--")):
        raise OriginRefused("the host has a label that begins with xn-- and is no A-label (RFC 5890)")
    return name


def is_numeric(host: str) -> bool:
    """Whether resolvers may take a host for an address: brackets, or a last label that is a number (``127.1``)."""
    return host.startswith("[") or _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]) is not None


def _to_a_labels(host: str) -> str:
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except UnicodeError:
        raise OriginRefused("the host is not an international name that IDNA (RFC 5891) allows") from None


def _is_a_label(label: str) -> bool:
    try:
        return idna.encode(idna.decode(label), uts46=True).decode("ascii") == label
    except UnicodeError:
        return False
