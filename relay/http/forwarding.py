"""Which address a request comes from, where proxies stand in front of the gateway. Pure.

What a header says is what somebody wrote into it, so it is believed only as far as those who wrote it are: from the
connection's own peer backwards, hop by hop, for as long as each hop is a configured proxy.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - of the grammar in RFC 9110
_QUOTED: Final = r'"(?:[\t !#-\[\]-~]|\\[\t -~])*"'
_PAIR: Final = re.compile(rf"(?P<name>{_TOKEN})=(?:(?P<token>{_TOKEN})|(?P<quoted>{_QUOTED}))")
_NEXT: Final = re.compile(r"[ \t]*(?P<mark>[;,])[ \t]*")
_PORT: Final = r"(?::[0-9]{1,5})?"
_NODE_V4: Final = re.compile(rf"(?P<address>[0-9.]{{7,15}}){_PORT}", re.ASCII)
_NODE_V6: Final = re.compile(rf"\[(?P<address>[0-9A-Fa-f:.]{{2,45}})\]{_PORT}", re.ASCII)
_BARE_V6: Final = re.compile(r"(?P<address>[0-9A-Fa-f:.]{2,45})", re.ASCII)


class Malformed(ValueError):  # noqa: N818 - reads as what it is
    """A header that is not what its specification says, or that names no address where one is needed."""


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The networks of the proxies whose word about addresses counts."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def client(self, peer: str, *, forwarded_for: Sequence[str] = (), forwarded: Sequence[str] = ()) -> Address | None:
        """The address that a request comes from; None where the peer has none (a Unix socket).

        ``forwarded_for`` and ``forwarded`` are the values of X-Forwarded-For and Forwarded (RFC 7239), in order. It is
        the peer, unless that is a trusted proxy; then the rightmost entry that is not one, or the first if all are.
        A malformed header says nothing, and neither do two that disagree: a proxy that writes one of them passes the
        other on as the caller sent it. Then it is the peer.
        """
        try:
            direct = _plain(peer.partition("%")[0])
        except ValueError:
            return None
        if not self._covers(direct):
            return direct
        try:
            said = {self._furthest(entries) for entries in _entries(forwarded_for, forwarded)}
        except Malformed:
            return direct
        return said.pop() if len(said) == 1 else direct

    def _furthest(self, entries: Iterable[str]) -> Address:
        """The nearest entry that is no proxy of ours. Entries are read from the nearest on, and none beyond it."""
        address = None
        for entry in entries:
            address = _address(entry)
            if not self._covers(address):
                return address
        if address is None:
            raise Malformed("no entry")
        return address

    def _covers(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def _entries(forwarded_for: Sequence[str], forwarded: Sequence[str]) -> Iterator[Iterable[str]]:
    """For each of the two headers that was sent, who is said to have sent the request on, the nearest first."""
    if forwarded_for:
        # Several lines of a header are one list (RFC 9110 section 5.3). What lies beyond the decision is not looked
        # at, so that a caller cannot spoil what the proxies append to its own words.
        yield (entry.strip(" \t") for entry in reversed(",".join(forwarded_for).split(",")))
    if forwarded:
        yield list(reversed(list(_forwarded_nodes(",".join(forwarded)))))


def _forwarded_nodes(header: str) -> Iterator[str]:
    """The ``for`` of each element, from the first. Raises `Malformed`.

    Unlike a plain list this can only be read from its beginning, since a comma may stand in a quoted string.
    """
    element: dict[str, str] = {}
    position = 0
    header = header.strip(" \t")
    while True:
        pair = _PAIR.match(header, position)
        if pair is None or pair["name"].lower() in element:  # section 4: each parameter once in an element
            raise Malformed("not pairs of names and values")
        element[pair["name"].lower()] = pair["token"] or _unquoted(pair["quoted"])
        following = _NEXT.match(header, pair.end())
        if following is None or following["mark"] == ",":
            yield _for(element)
            element = {}
        if following is None:
            break
        position = following.end()
    if pair.end() != len(header):
        raise Malformed("something follows a value")


def _for(element: dict[str, str]) -> str:
    if "for" not in element:
        raise Malformed("an element without `for`")
    return element["for"]


def _unquoted(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted[1:-1])


def _address(node: str) -> Address:
    """The address of a node (RFC 7239 section 6), its port left out; IPv6 may lack its brackets, as proxies write it.

    Raises `Malformed`, for ``unknown`` and obfuscated identifiers as well.
    """
    for form in (_NODE_V4, _NODE_V6, _BARE_V6):
        match = form.fullmatch(node)
        if match is not None:
            try:
                return _plain(match["address"])
            except ValueError:
                break
    raise Malformed("not an address")


def _plain(text: str) -> Address:
    """The address; IPv4 within IPv6, as a socket for both shows it, is IPv4."""
    address = ip_address(text)
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
