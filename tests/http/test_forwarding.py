"""Which address a request comes from: believed hop by hop, from the connection backwards."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relay.http.forwarding import TrustedProxies

PROXIES = TrustedProxies((ip_network("10.0.0.0/8"), ip_network("2001:db8:ff::/48")))
PEER = "10.0.0.1"
CLIENT = "203.0.113.5"


def for_list(*values: str, peer: str = PEER) -> str:
    return str(PROXIES.client(peer, forwarded_for=values))


def forwarded(*values: str, peer: str = PEER) -> str:
    return str(PROXIES.client(peer, forwarded=values))


def test_who_is_no_proxy_speaks_only_for_itself():
    """The headers of a peer that is not trusted say nothing, whatever they say."""
    assert for_list(CLIENT, peer="198.51.100.7") == "198.51.100.7"
    assert forwarded(f"for={CLIENT}", peer="198.51.100.7") == "198.51.100.7"
    assert str(TrustedProxies().client(PEER, forwarded_for=[CLIENT])) == PEER


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ([], PEER),
        ([CLIENT], CLIENT),
        ([f"192.0.2.66, {CLIENT}"], CLIENT),
        ([f"192.0.2.66, {CLIENT}, 10.1.1.1,10.1.1.2"], CLIENT),
        ([f"192.0.2.66, {CLIENT}", "10.1.1.1"], CLIENT),
        (["10.2.2.2, 10.1.1.1"], "10.2.2.2"),
        ([f"{CLIENT}:49152"], CLIENT),
        (["2001:db8::7"], "2001:db8::7"),
        (["[2001:db8::7]"], "2001:db8::7"),
        (["[2001:db8::7]:443"], "2001:db8::7"),
        (["2001:DB8::7, 2001:db8:ff::1"], "2001:db8::7"),
        (["::ffff:203.0.113.5, ::ffff:10.1.1.1"], CLIENT),
        ([f"\t{CLIENT}\t"], CLIENT),
        # Beyond the decision lies only what the caller made up.
        ([f"<script>, {CLIENT}"], CLIENT),
        ([f'for="x, {CLIENT}'], CLIENT),
    ],
)
def test_a_list_is_read_from_the_right(values: list[str], client: str):
    """The rightmost entry that is no proxy's; ports and brackets are left out, several lines are one list."""
    assert for_list(*values) == client


@pytest.mark.parametrize(
    "value",
    [
        "",
        ",",
        f"{CLIENT},",
        f"{CLIENT},,10.1.1.1",
        "unknown",
        "_hidden",
        "203.0.113.256",
        "203.0.113",
        "0x7f000001",
        "203.0.113.05",
        "3405803781",
        f"{CLIENT}:",
        f"{CLIENT}:123456",
        f"{CLIENT} {CLIENT}",
        f"{CLIENT}/32",
        f'"{CLIENT}"',
        f"[{CLIENT}]x",
        "[2001:db8::7",
        "2001:db8::7]:443",
        "2001:db8::7%eth0",
        "[fe80::1%25eth0]",
        "２０３.0.113.5",
        f"{CLIENT}\x0b",
        f"{CLIENT}, 10.1.1.1, unknown",
    ],
)
def test_a_malformed_list_says_nothing(value: str):
    """Where an entry has to be believed and cannot be read, the peer is as far as anyone knows."""
    assert for_list(value) == PEER


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ([f"for={CLIENT}"], CLIENT),
        ([f"FOR={CLIENT}"], CLIENT),
        ([f'for="{CLIENT}:4711"'], CLIENT),
        (['For="[2001:db8:cafe::17]:4711"'], "2001:db8:cafe::17"),
        ([f"for={CLIENT};proto=http;by=203.0.113.43"], CLIENT),
        ([f"proto=https;for={CLIENT};host=relay.example.org"], CLIENT),
        ([f"for=192.0.2.43, for={CLIENT}"], CLIENT),
        ([f"for=192.0.2.43,for={CLIENT} ; by=10.0.0.9,\tfor=10.1.1.1"], CLIENT),
        (["for=192.0.2.43", f"for={CLIENT}"], CLIENT),
        ([f'host="a, for=192.0.2.1";for={CLIENT}'], CLIENT),
        ([f'host="a\\", for=192.0.2.1";for={CLIENT}'], CLIENT),
        (['for="\\2\\03.0.113.5"'], CLIENT),
        ([f"for=unknown, for={CLIENT}"], CLIENT),
        (["for=10.2.2.2, for=10.1.1.1"], "10.2.2.2"),
    ],
)
def test_forwarded_is_read_as_its_rfc_says(values: list[str], client: str):
    """RFC 7239 section 4: pairs, quoted strings with commas in them, names in any case, elements from several lines."""
    assert forwarded(*values) == client


@pytest.mark.parametrize(
    "value",
    [
        "",
        CLIENT,
        "for=",
        "for=unknown",
        "for=_SEVKISEK",
        f"for={CLIENT};for=192.0.2.1",
        "by=203.0.113.43",
        f"for={CLIENT}, by=10.1.1.1",
        f"for={CLIENT},",
        f"for={CLIENT};",
        f",for={CLIENT}",
        f"for = {CLIENT}",
        f"for={CLIENT} proto=http",
        "for=[2001:db8::7]",
        'for="[2001:db8::7]',
        'for="2001:db8::7" x',
        f'for="x, for={CLIENT}',
        f'for="{CLIENT}\x00"',
        f'for="{CLIENT}\\',
    ],
)
def test_a_malformed_forwarded_says_nothing(value: str):
    """It is a grammar, and what does not fit it was not written by a proxy that can be believed."""
    assert forwarded(value) == PEER


def test_two_headers_must_agree():
    """A proxy that writes the one passes the other on as the caller sent it."""
    agreed = PROXIES.client(PEER, forwarded_for=[f"192.0.2.1, {CLIENT}"], forwarded=[f"for={CLIENT}"])
    assert str(agreed) == CLIENT
    assert str(PROXIES.client(PEER, forwarded_for=[CLIENT], forwarded=["for=192.0.2.1"])) == PEER
    assert str(PROXIES.client(PEER, forwarded_for=[CLIENT], forwarded=["nonsense"])) == PEER


@pytest.mark.parametrize(
    ("peer", "client"),
    [
        ("::ffff:10.0.0.1", CLIENT),
        ("2001:db8:ff::1", CLIENT),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("fe80::1%eth0", "fe80::1"),
        ("", "None"),
        ("/run/relay.sock", "None"),
    ],
)
def test_the_peer_is_recognised_in_every_form(peer: str, client: str):
    """A socket for both families shows IPv4 within IPv6; a Unix socket has no address."""
    assert for_list(CLIENT, peer=peer) == client


addresses = st.ip_addresses().map(str)
trusted = st.integers(1, 254).map(lambda last: f"10.9.9.{last}")
junk = st.text(st.characters(codec="latin-1"), max_size=40)


@given(st.lists(junk, max_size=3), st.lists(junk, max_size=3))
@example(["\xb2"], [])
def test_whatever_is_sent_gives_an_address(list_values: list[str], forwarded_values: list[str]):
    """No text of a header raises anything, and the answer is an address."""
    client = PROXIES.client(PEER, forwarded_for=list_values, forwarded=forwarded_values)
    assert isinstance(client, IPv4Address | IPv6Address)


@given(junk, addresses, st.lists(trusted, max_size=4))
def test_a_caller_cannot_choose_its_address(said: str, real: str, hops: list[str]):
    """Whatever the caller wrote, what the trusted proxies appended decides: an outside caller counts as itself."""
    address = ip_address(real)
    if any(address in network for network in PROXIES.networks):
        return
    plain = address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
    assert PROXIES.client(PEER, forwarded_for=[", ".join([said, real, *hops])]) == plain


@given(junk.filter(lambda text: '"' not in text), addresses)
def test_a_caller_cannot_choose_its_address_in_forwarded(said: str, real: str):
    """There, nonsense before the proxy's element makes the peer the answer; it never makes another caller's address."""
    address = ip_address(real)
    if any(address in network for network in PROXIES.networks):
        return
    plain = address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
    node = f'"[{real}]"' if address.version == 6 else real
    assert PROXIES.client(PEER, forwarded=[said, f"for={node}"]) in {plain, ip_address(PEER)}
