"""40,000 addresses, judged by us and by a package that keeps its own tables (netaddr, from the IANA registries).

What the oracle sets apart may never be global here. Where it calls an address global and we do not, the reason stands
in a table; a reason that the table does not allow fails the test.
"""

import random
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

import netaddr
from netaddr.ip import IPV4_NOT_GLOBALLY_REACHABLE, IPV6_NOT_GLOBALLY_REACHABLE

from registry.addresses import SPECIAL, IPAddress, IPNetwork, classify

WANTED = 40_000
SEED = 20_260

STRICTER_V4 = {
    "as112": "RFC 7534, 7535: answers made-up names; globally reachable, but no specialist runs there",
    "amt": "RFC 7450: relays of multicast",
    "ietf_protocol": "RFC 6890: two anycast addresses in 192.0.0.0/24 are reachable; they are protocols', not hosts'",
}
STRICTER_V6 = {
    "as112": "RFC 7534",
    "ietf_protocol": "RFC 2928: the reachable exceptions in 2001::/23 are protocols' and experiments'",
    "documentation": "RFC 9637: 3fff::/20 is younger than the oracle's table",
    "site_local": "RFC 3879: withdrawn, and still routed inside some networks",
}
EMBEDDING = ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")
"""Prefixes that the oracle does not look into: here an embedded address that is none makes the whole one none."""

DIALLED_AS_IPV4 = IPv6Network("::ffff:0:0/96")
"""The oracle calls every mapped address unreachable. The kernel dials the IPv4 address, so that one is judged."""


def oracle_sets_apart(address: IPAddress) -> bool:
    """Whether netaddr says that this is no address of a host on the public internet."""
    if isinstance(address, IPv6Address) and address in DIALLED_AS_IPV4:
        return oracle_sets_apart(IPv4Address(int(address) & 0xFFFFFFFF))
    judged = netaddr.IPAddress(str(address))
    return not judged.is_global() or judged.is_multicast() or judged.is_loopback() or judged.is_link_local()


def oracle_names_reserved(address: IPAddress) -> bool:
    """Whether netaddr calls it reserved. Its IPv6 table has ::/8 whole, also where NAT64 (RFC 6052) is global."""
    if isinstance(address, IPv6Address) and (address in DIALLED_AS_IPV4 or address in IPv6Network("64:ff9b::/96")):
        return oracle_names_reserved(IPv4Address(int(address) & 0xFFFFFFFF))
    return bool(netaddr.IPAddress(str(address)).is_reserved())


def neighbours(network: IPNetwork) -> Iterator[IPAddress]:
    """The ends of a network, and what stands on either side of each."""
    kind = IPv4Address if network.version == 4 else IPv6Address
    for end in (int(network.network_address), int(network.broadcast_address)):
        for number in range(end - 2, end + 3):
            if 0 <= number < 2**network.max_prefixlen:
                yield kind(number)


def anywhere_in(network: IPNetwork, chance: random.Random) -> IPAddress:
    number = int(network.network_address) + chance.randrange(network.num_addresses)
    return IPv4Address(number) if network.version == 4 else IPv6Address(number)


def embedded(inner: IPv4Address, chance: random.Random) -> Iterator[IPv6Address]:
    """The IPv4 address as each translator and tunnel would write it."""
    bits, rest = int(inner), chance.getrandbits(32)
    for prefix in ("::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::"):
        yield IPv6Address(int(IPv6Address(prefix)) | bits)
    yield IPv6Address(0x2002 << 112 | bits << 80 | rest)
    yield IPv6Address(0x20010000 << 96 | bits << 64 | rest)
    yield IPv6Address(0x20010000 << 96 | rest << 64 | (bits ^ 0xFFFFFFFF))


def addresses() -> list[IPAddress]:
    """All boundaries, many from inside each special block, and many from everywhere; the same in every run."""
    chance = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    blocks = [network for network, _ in SPECIAL]
    blocks += [
        ip_network(n) for n in ("64:ff9b::/96", "::ffff:0:0/96", "2000::/3", "::/8", "192.0.0.8/29", "2001:20::/28")
    ]
    # The oracle's own tables too, so that a row which is missing here is still tried.
    blocks += [ip_network(str(n)) for n in (*IPV4_NOT_GLOBALLY_REACHABLE, *IPV6_NOT_GLOBALLY_REACHABLE)]
    found: dict[IPAddress, None] = {}
    for block in blocks:
        found |= dict.fromkeys(neighbours(block))
        found |= dict.fromkeys(anywhere_in(block, chance) for _ in range(150))
    for address in [a for a in found if isinstance(a, IPv4Address)]:
        found |= dict.fromkeys(embedded(address, chance))
    everywhere = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"), IPv6Network("2000::/3"))
    while len(found) < WANTED:
        found[anywhere_in(chance.choice(everywhere), chance)] = None
    return list(found)


ADDRESSES = addresses()


def test_there_are_as_many_as_promised() -> None:
    """40,000 different addresses, of both versions, on both sides of the border."""
    assert len(ADDRESSES) >= WANTED
    verdicts = {(address.version, classify(address) == "global") for address in ADDRESSES}
    assert verdicts == {(4, True), (4, False), (6, True), (6, False)}


def test_nothing_that_the_oracle_sets_apart_is_global() -> None:
    """Private, reserved, multicast, loopback, link-local or unreachable there: never a destination here."""
    wrong = [a for a in ADDRESSES if classify(a) == "global" and (oracle_sets_apart(a) or oracle_names_reserved(a))]
    assert wrong == []


def test_where_we_are_stricter_the_table_says_why() -> None:
    """Each address that only the oracle would dial is refused for a reason that stands above."""
    unexplained, used = {}, set()
    for address in ADDRESSES:
        reason = classify(address)
        if reason == "global" or oracle_sets_apart(address) or oracle_names_reserved(address):
            continue
        table = STRICTER_V4 if isinstance(address, IPv4Address) else STRICTER_V6
        looked_into = reason.startswith("embedded:") and any(
            address in IPv6Network(p) for p in (*EMBEDDING, str(DIALLED_AS_IPV4))
        )
        if reason.removeprefix("embedded:") not in table and not looked_into:
            unexplained[address] = reason
        used.add((address.version, reason))
    assert unexplained == {}
    assert used >= {(4, reason) for reason in STRICTER_V4} | {(6, reason) for reason in STRICTER_V6}
