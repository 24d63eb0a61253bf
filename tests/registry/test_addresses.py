"""Which addresses and origins are fit to be destinations."""

import ipaddress
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.addresses import (
    SPECIAL,
    IPAddress,
    OriginRefused,
    canonical_origin,
    canonical_url,
    classify,
    covers,
    is_address,
    parse,
    readings,
)

NAMED = {
    # IPv4: the first and last of a block, or its famous member
    "0.0.0.0": "unspecified",  # noqa: S104 - nothing is bound
    "0.0.0.1": "this_network",
    "0.255.255.255": "this_network",
    "10.0.0.0": "private",
    "10.255.255.255": "private",
    "100.64.0.1": "carrier_grade_nat",
    "100.127.255.255": "carrier_grade_nat",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "169.254.169.254": "link_local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.1": "ietf_protocol",
    "192.0.0.9": "ietf_protocol",
    "192.0.0.170": "ietf_protocol",
    "192.0.2.1": "documentation",
    "192.31.196.1": "as112",
    "192.52.193.1": "amt",
    "192.88.99.1": "6to4_relay",
    "192.168.1.5": "private",
    "192.175.48.1": "as112",
    "198.18.0.1": "benchmarking",
    "198.19.255.255": "benchmarking",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "224.0.0.1": "multicast",
    "233.252.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.254": "reserved",
    "255.255.255.255": "broadcast",
    # IPv6
    "::": "unspecified",
    "::1": "loopback",
    "::1%1": "loopback",
    "100::1": "discard",
    "100:0:0:1::1": "dummy",
    "2001:2::1": "benchmarking",
    "2001:20::1": "ietf_protocol",
    "2001:1ff::1": "ietf_protocol",
    "2001:db8::1": "documentation",
    "2620:4f:8000::1": "as112",
    "3fff::1": "documentation",
    "5f00::1": "srv6",
    "fc00::1": "unique_local",
    "fd12:3456::1": "unique_local",
    "fe80::1": "link_local",
    "fe80::1%eth0": "link_local",
    "febf::1": "link_local",
    "fec0::1": "site_local",
    "feff::1": "site_local",
    "ff01::1": "multicast",
    "ff02::1": "multicast",
    "ff05::1": "multicast",
    "ff08::1": "multicast",
    "ff0e::1": "multicast",
    "200::1": "reserved",
    "4000::1": "reserved",
    "fe00::1": "reserved",
}

GLOBAL = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0"]
GLOBAL += ["198.17.255.255", "198.20.0.0", "223.255.255.255", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111"]

DISGUISED = {
    "::ffff:127.0.0.1": "embedded:loopback",
    "::ffff:7f00:1": "embedded:loopback",
    "::ffff:0.0.0.0": "embedded:unspecified",
    "::ffff:10.0.0.1": "embedded:private",
    "::ffff:169.254.169.254": "embedded:link_local",
    "::ffff:224.0.0.1": "embedded:multicast",
    "::127.0.0.1": "embedded:loopback",
    "::10.1.2.3": "embedded:private",
    "::ffff:0:127.0.0.1": "embedded:loopback",
    "64:ff9b::7f00:1": "embedded:loopback",
    "64:ff9b::10.0.0.1": "embedded:private",
    "64:ff9b::169.254.169.254": "embedded:link_local",
    "2002:7f00:1::": "embedded:loopback",
    "2002:a00:1::1": "embedded:private",
    "2002:c0a8:105::": "embedded:private",
    # Teredo: the server's address plain, the client's with its bits flipped (RFC 4380 section 4)
    "2001:0:7f00:1::f7f7:f7f7": "embedded:loopback",
    "2001:0:4136:e378:8000:63bf:80ff:fffe": "embedded:loopback",
    "2001:0:4136:e378:8000:63bf:f5ff:fffe": "embedded:private",
}

LOCAL_OR_WITHDRAWN = {
    "::8.8.8.8": "ipv4_compatible",
    "::ffff:0:8.8.8.8": "ipv4_translated",
    "64:ff9b:1::8.8.8.8": "nat64_local",
    "64:ff9b:1:a00:1::": "nat64_local",
    "2002:808:808::1": "6to4",
    "2001:0:808:808:8000:63bf:f7f7:f7f7": "teredo",
}


@pytest.mark.parametrize(("address", "reason"), NAMED.items())
def test_special_addresses_have_a_name(address: str, reason: str):
    """Every block that is set apart is refused by its name."""
    assert classify(address) == reason


@pytest.mark.parametrize("address", GLOBAL)
def test_public_addresses_are_global(address: str):
    """Public addresses pass, those next to a special block included."""
    assert classify(address) == "global"


@pytest.mark.parametrize(("address", "reason"), DISGUISED.items())
def test_embedded_addresses_are_unwrapped(address: str, reason: str):
    """IPv4 inside IPv6 is judged by what it embeds, whichever way it is embedded."""
    assert classify(address) == reason


@pytest.mark.parametrize(("address", "reason"), LOCAL_OR_WITHDRAWN.items())
def test_withdrawn_mechanisms_do_not_lead_anywhere(address: str, reason: str):
    """A public IPv4 address does not make a local or withdrawn mechanism a destination."""
    assert classify(address) == reason


@pytest.mark.parametrize("address", ["::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_mapping_and_dns64_may_be_global(address: str):
    """What the kernel maps, and what DNS64 answers on a network without IPv4, leads to the public host it names."""
    assert classify(address) == "global"


@pytest.mark.parametrize("text", ["", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "10.0.0.1/8", "example.org"])
def test_what_is_no_address_is_an_error(text: str):
    """A text that is no canonical address has no class, so that nobody can read `global` out of it."""
    assert not is_address(text)
    with pytest.raises(ValueError):
        classify(text)


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_global_is_never_wider_than_the_standard_library(address: IPAddress):
    """Whatever is called global here is global to Python as well, or the NAT64 form of such an address."""
    if classify(address) == "global":
        assert all(reading.is_global for reading in readings(address)[-1:])
        assert not any(reading.is_multicast or reading.is_reserved for reading in readings(address)[-1:])


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_as_its_ipv4(address: ipaddress.IPv4Address):
    """Mapping changes the name of a refusal, never the verdict."""
    mapped = ipaddress.IPv6Address(f"::ffff:{address}")
    assert classify(mapped).removeprefix("embedded:") == classify(address)


def test_narrow_blocks_stand_before_wide_ones():
    """No row of the table is hidden by an earlier one that contains it."""
    for number, (network, _) in enumerate(SPECIAL):
        for earlier, _ in SPECIAL[:number]:
            assert not (network.version == earlier.version and network.subnet_of(earlier)), f"{network} in {earlier}"


def test_readings_follow_every_prefix_length_of_local_nat64():
    """Behind 64:ff9b:1::/48 the IPv4 address is found wherever RFC 6052 section 2.2 may put it."""
    wanted = ipaddress.IPv4Address("192.168.1.5")
    for address in (
        "64:ff9b:1:c0a8:1:500::",  # /48, around the octet that must be zero
        "64:ff9b:1:c0:a8:105::",  # /56
        "64:ff9b:1:0:c0:a801:500::",  # /64
        "64:ff9b:1::c0a8:105",  # /96
    ):
        assert wanted in readings(address), address


def test_parse_drops_zone_and_mapping():
    """The zone says through which interface, not to whom; a mapped address is dialled as IPv4."""
    assert parse("fe80::1%eth0") == ipaddress.ip_address("fe80::1")
    assert parse("::ffff:10.0.0.1") == ipaddress.ip_address("10.0.0.1")


def test_networks_may_be_written_mapped():
    """A network in IPv4-mapped form covers the IPv4 addresses it means; other IPv6 networks cover no IPv4."""
    address = ipaddress.ip_address("10.0.0.1")
    assert covers(ipaddress.ip_network("::ffff:10.0.0.0/104"), address)
    assert not covers(ipaddress.ip_network("::ffff:11.0.0.0/104"), address)
    assert not covers(ipaddress.ip_network("::/0"), address)


@pytest.mark.parametrize(
    "origin",
    [
        "https://literature.example.org",
        "https://literature.example.org:8443",
        "https://literature",
        "https://xn--bcher-kva.example",
        "https://a-b.1x.example",
        "https://r3---sn-abc.example",
        "https://example.org:80",
    ],
)
def test_canonical_origins_pass_unchanged(origin: str):
    """What is in the one canonical form is returned as it is."""
    assert canonical_origin(origin) == origin


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("https://Good.Example", "https://good.example"),
        ("HTTPS://good.example", "https://good.example"),
        ("https://good.example.", "https://good.example"),
        ("https://good.example:443", "https://good.example"),
        ("https://good.example:0443", "https://good.example"),
        ("https://good.example:08443", "https://good.example:8443"),
        ("https://good.example:", "https://good.example"),
        ("https://good.example/", "https://good.example"),
        ("https://good.example/api/feedback", "https://good.example"),
        ("https://good.example?a=b", "https://good.example"),
        ("https://good.example#a", "https://good.example"),
        ("http://good.example", "https://good.example"),
        ("ftp://good.example:21", "https://good.example:21"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
        ("https://BÜCHER.example", "https://xn--bcher-kva.example"),
        ("https://XN--BCHER-KVA.example", "https://xn--bcher-kva.example"),
        ("https://faß.example", "https://xn--fa-hia.example"),
        ("https://good。example", "https://good.example"),
        ("https://ｇｏｏｄ.example", "https://good.example"),
        ("https://аpple.example", "https://xn--pple-43d.example"),  # the first letter is Cyrillic
    ],
)
def test_other_spellings_are_refused_with_the_canonical_form(text: str, canonical: str):
    """Look-alikes and loose spellings are refused, and the message says what to write instead."""
    with pytest.raises(OriginRefused, match=rf"write {canonical.replace('.', '[.]')}(?![.:/\w])"):
        canonical_origin(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "good.example",
        "//good.example",
        "https:good.example",
        "https:/good.example",
        "https:///good.example",
        "https://",
        "https://.",
        "https://..",
        "https://.good.example",
        "https://good..example",
        "https://good.example..",
        "https://-good.example",
        "https://good-.example",
        "https://a_b.example",
        "https://*.example",
        "https://%67ood.example",
        "https://good.example@evil.example",
        "https://good.example:443@evil.example",
        "https://@good.example",
        "https://user:password@good.example",
        "https://good.example\\@evil.example",
        "https:\\\\good.example",
        "https://good.example\t",
        " https://good.example",
        "https://good.example\n",
        "https://good\x00.example",
        "https://good .example",
        "https://good.example:0",
        "https://good.example:65536",
        "https://good.example:1e3",
        "https://good.example:-1",
        "https://good.example:٤٤٣",
        "https://good.example:443:443",
        "https://xn--a.example",
        "https://xn--.example",
        "https://xn--good-.example",
        "https://" + "a" * 64 + ".example",
        "https://" + ".".join(["a" * 60] * 5),
        "https://" + "a" * 5000,
        "https://\u200dgood.example",
        "https://\u00ad.example",
    ],
)
def test_what_has_no_canonical_form_is_refused(text: str):
    """Anything that could be read in two ways is refused."""
    with pytest.raises(OriginRefused):
        canonical_origin(text)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0177.0.0.1",
        "0x",
        "8.8.8.8",
        "good.1",
        "１２７.０.０.１",
        "127。0。0。1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[2606:4700::1111]",
        "[fe80::1%25eth0]",
    ],
)
@pytest.mark.parametrize("development", [False, True])
def test_addresses_are_no_origins(host: str, development: bool):  # noqa: FBT001 - a parameter of the table
    """An IP address, however it is written, is refused where destinations are registered."""
    with pytest.raises(OriginRefused, match="IP address"):
        canonical_origin(f"https://{host}", development=development)


@pytest.mark.parametrize(
    "text", ["http://localhost:8080", "https://localhost:8443", "https://localhost", "http://localhost"]
)
def test_localhost_is_for_development(text: str):
    """The name localhost is an origin in development, with and without TLS, and nowhere else."""
    assert canonical_origin(text, development=True) == text
    with pytest.raises(OriginRefused):
        canonical_origin(text)


@pytest.mark.parametrize(
    "text", ["http://good.example", "http://api.localhost", "http://localhost.example", "ws://localhost"]
)
def test_development_opens_plain_http_for_localhost_alone(text: str):
    """Development does not make plain http acceptable for any other name."""
    with pytest.raises(OriginRefused):
        canonical_origin(text, development=True)


def test_names_below_localhost_are_localhost():
    """RFC 6761 section 6.3 sends every name below localhost to loopback."""
    with pytest.raises(OriginRefused, match="development"):
        canonical_origin("https://api.localhost")
    assert canonical_origin("https://api.localhost", development=True)


@pytest.mark.parametrize(
    "url",
    [
        "https://login.example.org",
        "https://login.example.org/",
        "https://login.example.org/tenant/a~b/%C3%A4/token",
        "https://login.example.org:8443/.well-known/jwks.json",
        "https://login.example.org//double",
        "https://login.example.org/a:b@c",
    ],
)
def test_urls_keep_their_path(url: str):
    """The path of an issuer or endpoint is compared byte for byte elsewhere, so it is never rewritten."""
    assert canonical_url(url) == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("https://login.example.org/token?x=1", "write https://login.example.org/token$"),
        ("https://login.example.org/token#x", "write https://login.example.org/token$"),
        ("https://login.example.org?x", "write https://login.example.org$"),
        ("https://Login.example.org/Token", "write https://login.example.org/Token$"),
        ("https://login.example.org/ä", "write https://login.example.org/%C3%A4$"),
        ("https://login.example.org/%zz", "write https://login.example.org/%25zz$"),
        ("https://login.example.org/a/../b", "dot segments"),
        ("https://login.example.org/a/%2E./b", "dot segments"),
        ("https://login.example.org/.", "dot segments"),
        ("http://login.example.org/token", "write https://login.example.org$"),
        ("https://user@login.example.org/token", "user information"),
        ("https://10.0.0.1/token", "IP address"),
        ("https://127.0.0.1/token", "IP address"),
    ],
)
def test_urls_have_one_form(text: str, message: str):
    """A URL in another form is refused, with the canonical one where there is one."""
    with pytest.raises(OriginRefused, match=message):
        canonical_url(text)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9000/jwks", "http://[::1]:9000", "https://[::1]:9000", "http://localhost/a"]
)
def test_loopback_urls_are_for_development(url: str):
    """In development an issuer may stand on a loopback address or localhost, without TLS; otherwise not."""
    assert canonical_url(url, development=True) == url
    with pytest.raises(OriginRefused):
        canonical_url(url)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.2/", "http://127.1/", "http://[::ffff:127.0.0.1]/", "http://10.0.0.1/"]
)
def test_development_opens_two_literals_only(url: str):
    """Other ways to write loopback stay refused in development."""
    with pytest.raises(OriginRefused, match="IP address"):
        canonical_url(url, development=True)


def verdict(judge: Callable[..., str], text: str, *, development: bool) -> str:
    try:
        return judge(text, development=development)
    except OriginRefused as refusal:
        return f"refused: {refusal}"


@pytest.mark.parametrize("judge", [canonical_origin, canonical_url])
@pytest.mark.parametrize("development", [False, True])
@given(text=st.text(max_size=60) | st.text("https://.:@[]%\\?#127xn-gé", max_size=60))
def test_any_text_gets_a_verdict(judge: Callable[..., str], text: str, development: bool):  # noqa: FBT001 - parametrized
    """Whatever is given, the answer is the text itself or a refusal that any log can show."""
    for candidate in (text, f"https://{text}"):
        answer = verdict(judge, candidate, development=development)
        assert answer == candidate or answer.startswith("refused: ")
        assert answer.isascii()
        assert answer.isprintable()
