"""Which addresses are dialled: judged by policy, before and at the dial, and again on a kept connection."""

import asyncio
import socket
from ipaddress import ip_network
from typing import Any

import aiohttp
import pytest
from aiohttp import ClientConnectionError
from yarl import URL

from registry.dialling import (
    PROGRESS,
    AddressRefused,
    EgressPolicy,
    KeptConnectionUnfit,
    Names,
    Progress,
    Request,
    TrustStore,
    socket_opener,
    why_refused,
)
from registry.egress import Egress, EgressFailure
from tests.support.peers import Authority, Book, answer_all, serve


def policy(allow: str = "", deny: str = "", *, development: bool = False, ca_file: str | None = None) -> EgressPolicy:
    return EgressPolicy(
        allow_networks=tuple(ip_network(network) for network in allow.split()),
        deny_networks=tuple(ip_network(network) for network in deny.split()),
        development=development,
        ca_file=ca_file,
    )


async def refusal(egress: Egress, url: str) -> EgressFailure:
    with pytest.raises(EgressFailure) as raised:
        await egress.exchange("GET", url, headers={}, deadline=5)
    return raised.value


@pytest.mark.parametrize(
    ("address", "rules", "reason"),
    [
        ("8.8.8.8", policy(), None),
        ("2606:4700::1111", policy(), None),
        ("10.0.0.1", policy(), "private"),
        ("127.0.0.1", policy(), "loopback"),
        ("::1", policy(), "loopback"),
        ("fd00::1", policy(), "unique_local"),
        ("nonsense", policy(), "not_an_address"),
        ("127.1", policy(), "not_an_address"),
        # an allow-list opens what it names, and nothing beside it
        ("10.0.0.1", policy("10.0.0.0/24"), None),
        ("10.0.1.1", policy("10.0.0.0/24"), "private"),
        ("::ffff:10.0.0.1", policy("10.0.0.0/24"), None),
        ("10.0.0.1", policy("::ffff:10.0.0.0/120"), None),
        ("fd00::1", policy("fd00::/64"), None),
        ("127.0.0.1", policy("127.0.0.1/32"), None),
        ("127.0.0.2", policy("127.0.0.1/32"), "loopback"),
        ("64:ff9b:1::a00:1", policy("64:ff9b:1::/48"), None),
        ("64:ff9b::a00:1", policy("10.0.0.0/8"), "embedded:private"),
        ("2002:a00:1::", policy("10.0.0.0/8"), "embedded:private"),
        ("10.0.0.1", policy("::/0"), "private"),
        # deny wins, over an allow-list and over the public internet, in every disguise
        ("192.168.1.5", policy("192.168.0.0/16", "192.168.1.5/32"), "denied"),
        ("192.168.1.6", policy("192.168.0.0/16", "192.168.1.5/32"), None),
        ("192.168.1.5", policy("192.168.1.5/32", "192.168.0.0/16"), "denied"),
        ("192.168.1.5", policy("192.168.0.0/16", "::ffff:192.168.1.5/128"), "denied"),
        ("::ffff:192.168.1.5", policy("192.168.0.0/16", "192.168.1.5/32"), "denied"),
        ("64:ff9b::192.168.1.5", policy("64:ff9b::/96", "192.168.1.5/32"), "denied"),
        ("64:ff9b:1:c0a8:1:500::", policy("64:ff9b:1::/48", "192.168.1.5/32"), "denied"),
        ("2002:c0a8:105::", policy("2002::/16", "192.168.1.5/32"), "denied"),
        ("8.8.8.8", policy("", "8.8.8.0/24"), "denied"),
        ("64:ff9b::808:808", policy("", "8.8.8.0/24"), "denied"),
        ("127.0.0.1", policy("", "127.0.0.0/8", development=True), "denied"),
        # nothing opens what is no single host
        ("224.0.0.1", policy("0.0.0.0/0"), "multicast"),
        ("255.255.255.255", policy("0.0.0.0/0"), "broadcast"),
        ("0.0.0.0", policy("0.0.0.0/0", development=True), "unspecified"),  # noqa: S104 - nothing is bound
        ("0.1.2.3", policy("0.0.0.0/0"), "this_network"),
        ("::", policy("::/0", development=True), "unspecified"),
        ("ff02::1", policy("::/0"), "multicast"),
        ("::ffff:0.0.0.0", policy("0.0.0.0/0"), "embedded:unspecified"),
        ("::ffff:224.0.0.1", policy("::ffff:0:0/96"), "embedded:multicast"),
        ("64:ff9b::e000:1", policy("64:ff9b::/96"), "embedded:multicast"),
        # development opens loopback alone
        ("127.0.0.1", policy(development=True), None),
        ("::1", policy(development=True), None),
        ("::ffff:127.0.0.1", policy(development=True), None),
        ("64:ff9b::7f00:1", policy(development=True), "embedded:loopback"),
        ("10.0.0.1", policy(development=True), "private"),
        ("169.254.169.254", policy(development=True), "link_local"),
    ],
)
def test_policy_decides_on_each_address(address: str, rules: EgressPolicy, reason: str | None):
    """Deny beats allow, allow opens only what it names, and the built-in blocks stand for everything else."""
    assert why_refused(address, rules) == reason


@pytest.mark.parametrize(
    ("address", "rules", "reason"),
    [
        ("127.0.0.1", policy(development=True), None),
        ("8.8.8.8", policy(development=True), "not_loopback"),
        ("10.0.0.1", policy("10.0.0.0/8", development=True), "not_loopback"),
        ("127.0.0.1", policy("127.0.0.0/8"), "not_loopback"),
    ],
)
def test_plain_http_stays_on_loopback(address: str, rules: EgressPolicy, reason: str | None):
    """Without TLS nothing but loopback is dialled, and that in development only, whatever the allow-list says."""
    assert why_refused(address, rules, plain=True) == reason


@pytest.mark.parametrize(
    "addresses",
    [
        ["93.184.216.34", "10.0.0.1"],
        ["10.0.0.1", "93.184.216.34"],
        ["127.0.0.1", "169.254.169.254"],
        ["127.0.0.1", "::ffff:10.0.0.1"],
        ["127.0.0.1", "nonsense"],
    ],
)
async def test_a_mixed_answer_is_refused_whole(authority: Authority, addresses: list[str]):
    """One address that must not be dialled refuses the whole answer: nothing is dialled, not even the good one."""
    book = Book({"specialist.example": [addresses]})
    async with (
        serve(answer_all, authority.server("specialist.example")) as peer,
        Egress(policy("127.0.0.1/32", ca_file=authority.file), resolver=book) as egress,
    ):
        failure = await refusal(egress, peer.url("specialist.example"))
    assert (failure.kind, failure.phase, failure.ambiguous) == ("address_refused", "resolve", False)
    assert peer.connections == 0


async def test_a_rebound_name_is_refused_at_once(authority: Authority):
    """A name that gave a permitted address and now gives another is refused, although a connection is still open."""
    book = Book({"specialist.example": [["127.0.0.1"], ["127.0.0.2"]]})
    async with (
        serve(answer_all, authority.server("specialist.example")) as peer,
        Egress(policy("127.0.0.1/32", ca_file=authority.file), resolver=book) as egress,
    ):
        url = peer.url("specialist.example")
        assert (await egress.exchange("POST", url, headers={}, body=b"{}", deadline=5)).status == 201
        failure = await refusal(egress, url)
    assert (failure.kind, failure.ambiguous) == ("address_refused", False)
    assert "127.0.0.2 is loopback" in failure.detail
    assert len(peer.received) == 1
    assert book.asked == ["specialist.example"] * 2


async def test_a_name_that_moved_takes_its_traffic_along(authority: Authority):
    """When the lookup names another permitted address, the kept connection to the old one carries nothing more."""
    book = Book({"specialist.example": [["127.0.0.1"], ["127.0.0.1"], ["::1"]]})
    tls = authority.server("specialist.example")
    async with (
        serve(answer_all, tls) as old,
        serve(answer_all, tls, host="::1", port=old.port) as new,
        Egress(policy("127.0.0.1/32 ::1/128", ca_file=authority.file), resolver=book) as egress,
    ):
        for _ in range(3):
            await egress.exchange("POST", old.url("specialist.example"), headers={}, body=b"{}", deadline=5)
    assert (old.connections, len(old.received)) == (1, 2)
    assert (new.connections, len(new.received)) == (1, 1)


class Shifting(dict[str, Any]):
    """A lookup's row that shows a public address when it is judged, and loopback when it is dialled."""

    reads = 0

    def __getitem__(self, key: str) -> object:
        if key != "host":
            return super().__getitem__(key)
        self.reads += 1
        return "93.184.216.34" if self.reads == 1 else "127.0.0.1"


class Conjurer(Book):
    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[Any]:
        return [Shifting(row) for row in await super().resolve(host, port, family)]


async def test_the_address_checked_is_the_one_dialled(authority: Authority):
    """An address that changes between the check and the dial is judged again, and nothing reaches it."""
    async with (
        serve(answer_all, authority.server("specialist.example")) as peer,
        Egress(policy(ca_file=authority.file), resolver=Conjurer({"specialist.example": [["1.1.1.1"]]})) as egress,
    ):
        failure = await refusal(egress, peer.url("specialist.example"))
    assert failure.kind == "address_refused"
    assert "127.0.0.1 is loopback" in failure.detail
    assert peer.connections == 0


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "10.0.0.1",
        "169.254.169.254",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "017700000001",
    ],
)
async def test_loopback_in_disguise_is_not_dialled(authority: Authority, host: str):
    """An address in the URL itself, which no resolver is asked about, is judged like any other."""
    async with (
        serve(answer_all, authority.server()) as peer,
        Egress(policy(ca_file=authority.file)) as egress,
    ):
        failure = await refusal(egress, peer.url(host))
    assert (failure.kind, failure.phase, failure.ambiguous) == ("address_refused", "resolve", False)
    assert peer.connections == 0


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "localhost.1"])
async def test_disguise_is_refused_even_where_loopback_is_open(host: str):
    """An address that is not written as one is refused before any resolver could read it as one."""
    book = Book({host: [["127.0.0.1"]]})
    async with Egress(policy(development=True), resolver=book) as egress:
        failure = await refusal(egress, f"https://{host}/")
    assert failure.kind == "address_refused"
    assert "disguise" in failure.detail
    assert book.asked == []


async def test_permitted_literals_are_dialled(authority: Authority):
    """An address in the URL that the allow-list opens is dialled, and its certificate is verified for it."""
    async with (
        serve(answer_all, authority.server()) as peer,
        Egress(policy("127.0.0.1/32", ca_file=authority.file)) as egress,
    ):
        assert (await egress.exchange("GET", peer.url("127.0.0.1"), headers={}, deadline=5)).status == 201


async def test_deny_beats_allow_at_the_dial(authority: Authority):
    """A name that leads to a denied address within an allowed network is refused."""
    book = Book({"specialist.example": [["127.0.0.1"]]})
    async with (
        serve(answer_all, authority.server("specialist.example")) as peer,
        Egress(policy("127.0.0.0/8", "127.0.0.1/32", ca_file=authority.file), resolver=book) as egress,
    ):
        failure = await refusal(egress, peer.url("specialist.example"))
    assert (failure.kind, peer.connections) == ("address_refused", 0)
    assert failure.detail == "127.0.0.1 is denied"


async def test_plain_localhost_that_is_not_loopback_is_refused():
    """A resolver that sends localhost elsewhere does not lead plain http there."""
    book = Book({"localhost": [["93.184.216.34"]]})
    async with Egress(policy(development=True), resolver=book) as egress:
        failure = await refusal(egress, "http://localhost/")
    assert failure.detail == "93.184.216.34 is not_loopback"


async def test_a_long_answer_is_judged_whole_and_used_in_part():
    """The last of many addresses can refuse the answer; of a good answer only a few addresses may be dialled."""
    good = [f"127.0.0.{number}" for number in range(1, 40)]
    names = Names(Book({"specialist.example": [[*good, "10.0.0.1"], good]}), policy("127.0.0.0/8"))
    progress = Progress(plain=False, on_sent=None)
    PROGRESS.set(progress)
    with pytest.raises(AddressRefused, match="private"):
        await names.find("specialist.example", 443)
    assert progress.found == []
    await names.find("specialist.example", 443)
    assert [row["host"] for row in progress.found] == good[:8]


@pytest.mark.parametrize(("dialled", "error"), [(True, ClientConnectionError), (False, KeptConnectionUnfit)])
async def test_an_unfit_connection_carries_nothing(dialled: bool, error: type[Exception]):  # noqa: FBT001 - parametrized
    """A kept connection that is not clean is to be replaced; a new one that is not clean is a failure."""
    async with serve(answer_all, None) as peer, aiohttp.TCPConnector() as connector:
        progress = Progress(plain=True, on_sent=None, dialled=dialled)
        progress.found = [{"hostname": "", "host": "127.0.0.1", "port": 0, "family": 0, "proto": 0, "flags": 0}]
        PROGRESS.set(progress)
        request = Request("GET", URL(peer.url("127.0.0.1", scheme="http")), loop=asyncio.get_running_loop())
        connection = await connector.connect(request, [], aiohttp.ClientTimeout())
        assert connection.protocol is not None
        connection.protocol.force_close()
        with pytest.raises(ClientConnectionError) as raised:
            await request.send(connection)
        connection.close()
    assert type(raised.value) is error
    assert not progress.began_to_send
    assert peer.received == []


def test_no_socket_is_made_for_a_refused_address():
    """The socket factory, which is the last to see an address, opens none for an address that the policy refuses."""
    opener = socket_opener(policy("127.0.0.0/8"))
    token = PROGRESS.set(Progress(plain=False, on_sent=None))
    try:
        with pytest.raises(AddressRefused):
            opener((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("10.0.0.1", 443)))
        with opener((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 443))) as opened:
            assert opened.family == socket.AF_INET
    finally:
        PROGRESS.reset(token)


def test_the_trust_store_verifies_names_and_adds_the_private_authority(authority: Authority):
    """TLS 1.2 or newer, with host names checked; a private authority is added and takes none away."""
    alone, added = TrustStore.build(None), TrustStore.build(authority.file)
    assert alone.check_hostname
    assert alone.verify_mode == alone.verify_mode.CERT_REQUIRED
    assert alone.minimum_version == alone.minimum_version.TLSv1_2
    assert added.cert_store_stats()["x509_ca"] == alone.cert_store_stats()["x509_ca"] + 1
