"""Why exchanges fail: every phase, whether the request may have arrived, and that no exception slips through."""

import asyncio
import socket
from collections.abc import Iterator
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp.http_exceptions import HttpProcessingError

from registry.dialling import Progress
from registry.egress import Egress, EgressFailure, EgressPolicy
from registry.egress_failures import failure_of, kind_of
from tests.support.peers import OK, Authority, Book, Line, Script, answers, serve

SHORT = 0.4
"""Seconds until a test's exchange gives up on a peer that never goes on."""


@pytest.fixture
def rules(authority: Authority) -> EgressPolicy:
    return EgressPolicy(ca_file=authority.file, development=True)


async def failing(egress: Egress, url: str, *, body: bytes = b"{}", deadline: float = 10) -> EgressFailure:
    with pytest.raises(EgressFailure) as raised:
        await egress.exchange("POST", url, headers={"Authorization": "Bearer t0ken"}, body=body, deadline=deadline)
    return raised.value


def seen(failure: EgressFailure) -> tuple[str, str, bool]:
    return failure.kind, failure.phase, failure.ambiguous


class Silent(Book):
    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[aiohttp.abc.ResolveResult]:
        await asyncio.Event().wait()
        return await super().resolve(host, port, family)


async def test_a_silent_resolver_ends_at_the_deadline(rules: EgressPolicy):
    """The deadline covers the lookup, and nothing has been sent."""
    async with Egress(rules, resolver=Silent({})) as egress:
        failure = await failing(egress, "https://specialist.example/", deadline=SHORT)
    assert seen(failure) == ("deadline_exceeded", "resolve", False)


async def test_a_silent_network_ends_at_the_deadline(rules: EgressPolicy):
    """The deadline covers the dial: a listener whose queue is full leaves it without an answer."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        clients = [socket.socket() for _ in range(3)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        async with Egress(rules) as egress:
            failure = await failing(egress, f"https://localhost:{port}/", deadline=SHORT)
        for client in clients:
            client.close()
    assert seen(failure) == ("deadline_exceeded", "connect", False)


async def test_a_silent_handshake_ends_at_the_deadline(rules: EgressPolicy):
    """The deadline covers TLS: the connection stands, but nothing of the request has left."""
    async with serve(Line.hold, None) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url(), deadline=SHORT)
    assert seen(failure) == ("deadline_exceeded", "tls", False)


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_a_peer_that_does_not_read_ends_at_the_deadline(rules: EgressPolicy):
    """The deadline covers sending, and what was sent may have been received."""
    async with serve(Line.stall, None) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url(scheme="http"), body=bytes(16_000_000), deadline=SHORT)
    assert seen(failure) == ("deadline_exceeded", "send", True)


async def test_a_peer_that_does_not_answer_ends_at_the_deadline(authority: Authority, rules: EgressPolicy):
    """The deadline covers the wait for the answer: the request was received, which the relay cannot know."""

    async def script(line: Line) -> None:
        await line.receive()
        await line.hold()

    async with serve(script, authority.server()) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url(), deadline=SHORT)
    assert seen(failure) == ("deadline_exceeded", "headers", True)
    assert len(peer.received) == 1


async def drip(line: Line) -> None:
    await line.receive()
    await line.send(b"HTTP/1.1 201 Created\r\nContent-Length: 100000\r\n\r\n")
    while True:
        await line.send(b"x")
        await asyncio.sleep(0.02)  # the drip itself


async def drip_headers(line: Line) -> None:
    await line.receive()
    await line.send(b"HTTP/1.1 201 Created\r\nX: ")
    while True:
        await line.send(b"x")
        await asyncio.sleep(0.02)


async def send_interim_answers_only(line: Line) -> None:
    await line.receive()
    while True:
        await line.send(b"HTTP/1.1 102 Processing\r\n\r\n")
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("script", "phase", "status"),
    [(drip, "body", 201), (drip_headers, "headers", None), (send_interim_answers_only, "headers", None)],
)
async def test_a_dripping_answer_ends_at_the_deadline(
    authority: Authority, rules: EgressPolicy, script: Script, phase: str, status: int | None
):
    """The deadline is a total: a byte now and then does not extend it."""
    async with serve(script, authority.server()) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url(), deadline=SHORT)
    assert seen(failure) == ("deadline_exceeded", phase, True)
    assert failure.status == status


async def answer_early_and_stop(line: Line) -> None:
    await line.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 10\r\n\r\nx")
    for _ in range(100):  # turns of the loop, in which the client reads that
        await asyncio.sleep(0)
    await line.hold()


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_an_answer_that_comes_before_the_whole_request(rules: EgressPolicy):
    """Once an answer has begun the exchange is in its body, although the request is still being sent."""
    async with serve(answer_early_and_stop, None) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url(scheme="http"), body=bytes(16_000_000), deadline=1)
    assert seen(failure) == ("deadline_exceeded", "body", True)
    assert failure.status == 413


@pytest.mark.parametrize("deadline", [0.0, -1.0])
async def test_a_deadline_in_the_past_sends_nothing(authority: Authority, rules: EgressPolicy, deadline: float):
    """Without any time left nothing is dialled."""
    async with serve(answers(OK), authority.server()) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url(), deadline=deadline)
    assert (failure.kind, failure.ambiguous, len(peer.received)) == ("deadline_exceeded", False, 0)


@pytest.mark.parametrize(
    "page", [socket.gaierror(socket.EAI_NONAME, "no such name"), OSError("unreachable server"), TimeoutError(), []]
)
async def test_a_failed_lookup_is_no_refusal(rules: EgressPolicy, page: list[str] | OSError):
    """A name that cannot be looked up, or has no address, is a failure to be retried, and nothing was sent."""
    async with Egress(rules, resolver=Book({"specialist.example": [page, ["127.0.0.1"]]})) as egress:
        failure = await failing(egress, "https://specialist.example:1/")
        assert seen(failure) == ("dns_failed", "resolve", False)
        assert (await failing(egress, "https://specialist.example:1/")).kind == "connect_failed"


async def test_nobody_listens(rules: EgressPolicy):
    """A refused connection is told as such, in the system's words."""
    async with serve(answers(), None) as peer:
        pass
    async with Egress(rules) as egress:
        failure = await failing(egress, peer.url())
    assert seen(failure) == ("connect_failed", "connect", False)
    assert "Connect call failed" in failure.detail


async def hang_up(line: Line) -> None:
    line.reset()


async def speak_another_protocol(line: Line) -> None:
    await line.send(b"220 mail.example ESMTP\r\n")
    await line.hold()


async def answer_in_the_clear(line: Line) -> None:
    await line.send(OK)
    await line.hold()


@pytest.mark.parametrize("script", [hang_up, speak_another_protocol, answer_in_the_clear])
async def test_a_peer_without_tls_gets_nothing(rules: EgressPolicy, script: Script):
    """Whatever is no TLS server receives no byte of the request."""
    async with serve(script, None) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url())
    assert seen(failure) == ("tls_failed", "tls", False)
    assert peer.received == []


@pytest.mark.parametrize("defect", ["another name", "another authority", "expired", "too old a TLS"])
async def test_a_server_that_cannot_prove_its_name_gets_nothing(
    authority: Authority,
    rules: EgressPolicy,
    tmp_path_factory: pytest.TempPathFactory,
    defect: str,
):
    """A certificate for another name, by another authority or out of date, and TLS 1.1, end before the request."""
    tls = {
        "another name": lambda: authority.server("evil.example"),
        "another authority": lambda: Authority(tmp_path_factory.mktemp("other")).server(),
        "expired": lambda: authority.server(not_after=datetime(2024, 1, 31, tzinfo=UTC)),
        "too old a TLS": authority.old_server,
    }[defect]()
    async with serve(answers(OK), tls) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url())
    assert seen(failure) == ("tls_failed", "tls", False)
    assert failure.detail
    assert peer.received == []


async def receive_and_reset(line: Line) -> None:
    await line.receive()
    line.reset()


async def test_a_connection_that_ends_before_the_answer(authority: Authority, rules: EgressPolicy):
    """A peer that takes the request and hangs up may have acted on it."""
    for script in (
        answers(),
        receive_and_reset,
        answers(b"HTTP/1.1 201 Cre"),
        answers(b"HTTP/1.1 201 Created\r\nX: 1\r\n"),
    ):
        async with serve(script, authority.server()) as peer, Egress(rules) as egress:
            failure = await failing(egress, peer.url())
        assert seen(failure) == ("connection_reset", "headers", True)
        assert failure.status is None


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 201 Created\r\nContent-Length: 50\r\n\r\n{"saved":true}',
        b'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\ne\r\n{"saved":true}\r\n',
    ],
)
async def test_a_connection_that_ends_inside_the_answer(authority: Authority, rules: EgressPolicy, answer: bytes):
    """An answer that its framing shows to be cut off is no answer, even if what came would read well."""
    async with serve(answers(answer), authority.server()) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url())
    assert seen(failure) == ("answer_cut_off", "body", True)
    assert failure.status == 201


@pytest.mark.parametrize(
    "answer",
    [
        b"t0ken is not HTTP\r\n\r\n",
        b"HTTP/1.1 t0ken Created\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nContent-Length: t0ken\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nContent-Length: 3\r\nX: t0ken\r\n\r\n{}",
        b"HTTP/1.1 201 Created\r\nt0ken\x00: 1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nt0ken\r\n{}\r\n0\r\n\r\n",
        b"\x16\x03\x01t0ken",
    ],
)
async def test_what_is_no_http_is_malformed(authority: Authority, rules: EgressPolicy, answer: bytes):
    """Broken framing is a failure, and neither it nor the request shows in the message or in a chained exception."""
    async with serve(answers(answer), authority.server()) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url())
    assert failure.kind == "malformed_answer"
    assert failure.ambiguous
    assert "t0ken" not in f"{failure} {failure!r} {failure.detail}"
    assert failure.__cause__ is None
    assert failure.__suppress_context__


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 201 Created\r\nX: " + b"x" * 9000 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 Created\r\n" + b"x" * 9000 + b": 1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 " + b"x" * 9000 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 201 Created\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(100)) + b"Content-Length: 0\r\n\r\n",
    ],
)
async def test_headers_have_limits(authority: Authority, rules: EgressPolicy, answer: bytes):
    """A header, a name or a reason that is too long, and too many of them, are refused."""
    async with serve(answers(answer), authority.server()) as peer, Egress(rules) as egress:
        failure = await failing(egress, peer.url())
    assert seen(failure) == ("headers_too_large", "headers", True)


async def test_a_fault_in_the_callback_is_told_as_unexpected(authority: Authority, rules: EgressPolicy):
    """An error that this module does not know still says how far the exchange had come."""

    def fail() -> None:
        raise LookupError("t0ken")

    async with serve(answers(OK), authority.server()) as peer, Egress(rules) as egress:
        with pytest.raises(EgressFailure) as raised:
            await egress.exchange("GET", peer.url(), headers={}, deadline=5, on_sent=fail)
    assert seen(raised.value) == ("unexpected", "headers", True)
    assert "t0ken" not in str(raised.value)


def below(class_: type[BaseException]) -> Iterator[type[BaseException]]:
    for child in class_.__subclasses__():
        yield child
        yield from below(child)


KNOWN = sorted(
    {*below(aiohttp.ClientError), *below(HttpProcessingError), *below(OSError)}, key=lambda c: c.__qualname__
)


@pytest.mark.parametrize("class_", [HttpProcessingError, OSError, TimeoutError, asyncio.TimeoutError, *KNOWN])
def test_every_exception_below_has_a_kind(class_: type[BaseException]):
    """Every class of aiohttp's errors, of its parser's and of the system's, TLS included, is mapped by name."""
    if class_.__module__.startswith(("aiohttp", "builtins", "socket", "ssl", "asyncio", "registry")):
        assert kind_of(class_.__new__(class_)) != "unexpected"


def test_the_root_of_aiohttps_errors_is_in_no_row():
    """A class that aiohttp adds must fail the test above, not fall into a row by way of its root."""
    assert kind_of(aiohttp.ClientError()) == "unexpected"
    assert kind_of(RuntimeError()) == "unexpected"


def test_an_unknown_error_keeps_what_is_known():
    """Whatever happens after sending began is ambiguous."""
    progress = Progress(plain=False, on_sent=None)
    assert seen(failure_of(RuntimeError("x"), progress)) == ("unexpected", "resolve", False)
    progress.begin_to_send()
    assert seen(failure_of(RuntimeError("x"), progress)) == ("unexpected", "send", True)


def test_the_message_names_kind_phase_and_detail():
    """The message is what an operator reads in the attempt log."""
    assert (
        str(EgressFailure("dns_failed", "resolve", detail="no such name"))
        == "dns_failed in phase resolve: no such name"
    )
    assert str(EgressFailure("dns_failed", "resolve")) == "dns_failed in phase resolve"
