"""What goes out, and what is made of the answers."""

import asyncio
import zlib
from importlib.metadata import version

import pytest

from registry.egress import Egress, EgressFailure, EgressPolicy, Exchange
from tests.support.peers import OK, Authority, Book, Line, Peer, answer_all, answers, serve

CAP = 65_536


@pytest.fixture
def rules(authority: Authority) -> EgressPolicy:
    return EgressPolicy(ca_file=authority.file, development=True)


async def post(egress: Egress, peer: Peer, *, deadline: float = 10, **options: int) -> Exchange:
    return await egress.exchange("POST", peer.url(), headers={}, body=b"{}", deadline=deadline, **options)


async def test_outbound_headers_are_built_from_nothing(authority: Authority, rules: EgressPolicy):
    """A request carries the headers it was given and five of the egress's own, and not one more."""
    given = {"Authorization": "Bearer abc", "Content-Type": "application/json", "Idempotency-Key": "1"}
    async with serve(answer_all, authority.server()) as peer, Egress(rules) as egress:
        await egress.exchange("POST", peer.url(), headers=given, body=b'{"id":1}', deadline=10)
    [received] = peer.received
    assert received.body == b'{"id":1}'
    assert received.lines[0] == b"POST /api/feedback HTTP/1.1"
    assert sorted(received.lines[1:]) == sorted(
        [
            b"Host: localhost:%d" % peer.port,
            b"User-Agent: feedback-relay/%s" % version("feedback-relay").encode(),
            b"Accept: application/json",
            b"Accept-Encoding: identity",
            b"Content-Length: 8",
            b"Authorization: Bearer abc",
            b"Content-Type: application/json",
            b"Idempotency-Key: 1",
        ]
    )


async def test_a_request_without_a_body_has_no_content_type(authority: Authority, rules: EgressPolicy):
    """A GET carries nothing of a body, and the caller's Accept replaces the usual one."""
    async with serve(answer_all, authority.server()) as peer, Egress(rules) as egress:
        await egress.exchange(
            "GET", peer.url(path="/keys?a=%20b"), headers={"accept": "application/jwk-set+json"}, deadline=10
        )
    [received] = peer.received
    assert received.lines[0] == b"GET /keys?a=%20b HTTP/1.1"
    names = sorted(line.partition(b":")[0].lower() for line in received.lines[1:])
    assert names == [b"accept", b"accept-encoding", b"host", b"user-agent"]
    assert b"accept: application/jwk-set+json" in [line.lower() for line in received.lines]


async def test_a_body_has_no_type_but_the_callers(authority: Authority, rules: EgressPolicy):
    """No Content-Type is made up for a body."""
    async with serve(answer_all, authority.server()) as peer, Egress(rules) as egress:
        await post(egress, peer)
    assert b"content-type" not in peer.received[0].head.lower()


@pytest.mark.parametrize(
    "url", ["http://localhost:{}/a%20b;c=d,e/@:~!$&'()*+", "http://127.0.0.1:{}//a/?x=y&z", "http://localhost:{}"]
)
async def test_urls_go_out_as_they_are_written(rules: EgressPolicy, url: str):
    """No part of a path is encoded, decoded or normalised on the way."""
    async with serve(answer_all, None) as peer, Egress(rules) as egress:
        await egress.exchange("GET", url.format(peer.port), headers={}, deadline=10)
    path = url.partition("{}")[2] or "/"
    assert peer.received[0].lines[0] == f"GET {path} HTTP/1.1".encode()


async def test_nothing_of_the_surroundings_goes_out(
    authority: Authority, rules: EgressPolicy, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
):
    """Proxies and .netrc in the environment are ignored, and a cookie that was set is not sent back."""
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine localhost login someone password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    setting = OK.replace(b"Content-Length", b"Set-Cookie: session=1; Path=/\r\nContent-Length")

    async def script(line: Line) -> None:
        for _ in range(2):
            await line.receive()
            await line.send(setting)

    async with serve(script, authority.server()) as peer, Egress(rules) as egress:
        for _ in range(2):
            await post(egress, peer)
    for received in peer.received:
        assert b"cookie" not in received.head.lower()
        assert b"authorization" not in received.head.lower()


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": "session=1"},
        {"cookie": "session=1"},
        {"Host": "evil.example"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "upgrade"},
        {"Proxy-Authorization": "Basic x"},
        {"X-Forwarded-For": "10.0.0.1"},
        {"Accept-Encoding": "gzip"},
        {"Expect": "100-continue"},
        {"Authorization": "Bearer a\r\nX-Evil: 1"},
        {"Authorization": "Bearer a\nX-Evil: 1"},
        {"Authorization": "Bearer a\x00"},
        {"Authorization": "Bearer ä"},
        {"Authorization": "Bearer a", "authorization": "Bearer b"},
        {"Bad Name": "1"},
        {"Bad:Name": "1"},
        {"": "1"},
    ],
)
async def test_headers_that_must_not_go_out_stop_the_request(
    authority: Authority, rules: EgressPolicy, headers: dict[str, str]
):
    """Framing, inbound credentials and values that could start another line are refused before anything is dialled."""
    async with serve(answer_all, authority.server()) as peer, Egress(rules) as egress:
        with pytest.raises(EgressFailure) as raised:
            await egress.exchange("POST", peer.url(), headers=headers, body=b"{}", deadline=10)
    assert (raised.value.kind, raised.value.ambiguous, peer.connections) == ("request_refused", False, 0)
    assert not any(value in str(raised.value) for value in headers.values())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "//localhost/",
        "ftp://localhost/",
        "https://",
        "https:///path",
        "https://user@localhost/",
        "https://user:password@localhost/",
        "https://localhost/#fragment",
        "https://localhost/a b",
        "https://localhost/\r\nX-Evil: 1",
        "https://localhost\\@evil.example/",
        "https://localhost/ä",
        "https://localhost:99999/",
        "https://localhost:x/",
        "https://[::1/",
        "http://specialist.example/",
        "http://10.0.0.1/",
    ],
)
async def test_urls_that_could_be_misread_are_refused(rules: EgressPolicy, url: str):
    """What is no plain absolute URL, or is plain http to anywhere but loopback, is never looked up."""
    book = Book({"localhost": [["127.0.0.1"]], "": [["127.0.0.1"]]})
    async with Egress(rules, resolver=book) as egress:
        with pytest.raises(EgressFailure) as raised:
            await egress.exchange("GET", url, headers={}, deadline=10)
    assert (raised.value.kind, raised.value.phase, raised.value.ambiguous) == ("url_refused", "resolve", False)
    assert book.asked == []


@pytest.mark.parametrize("method", ["get", "GET /", "", "G\r\nET"])
async def test_methods_are_plain_words(rules: EgressPolicy, method: str):
    """A method that is no upper-case word is refused."""
    async with Egress(rules) as egress:
        with pytest.raises(EgressFailure, match="request_refused"):
            await egress.exchange(method, "https://localhost/", headers={}, deadline=10)


async def test_plain_http_is_for_development(rules: EgressPolicy):
    """Plain http reaches localhost in development; without it, nothing is dialled."""
    async with serve(answer_all, None) as peer:
        url = peer.url(scheme="http")
        async with Egress(rules) as egress:
            assert (await egress.exchange("GET", url, headers={}, deadline=10)).status == 201
        async with Egress(EgressPolicy()) as egress:
            with pytest.raises(EgressFailure, match="url_refused"):
                await egress.exchange("GET", url, headers={}, deadline=10)
    assert peer.connections == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_redirects_are_answers(authority: Authority, rules: EgressPolicy, status: int, method: str):
    """A redirect is handed back as it is: nothing reaches the second place, not even the body."""
    tls = authority.server()
    async with serve(answer_all, tls) as second:
        redirect = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {second.url()}\r\nContent-Length: 0\r\n\r\n"
        async with serve(answers(redirect.encode()), tls) as first, Egress(rules) as egress:
            answer = await egress.exchange(method, first.url(), headers={}, deadline=10)
    assert (answer.status, answer.headers["location"], answer.complete) == (status, second.url(), True)
    assert second.connections == 0


async def test_compressed_answers_are_not_inflated(authority: Authority, rules: EgressPolicy):
    """Of 200 KB that would expand to 200 MB, at most 64 KiB are read, as they came, and they count for nothing."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1_000_000)
    bomb = b"".join([squeeze.compress(block) for _ in range(200)] + [squeeze.flush()])
    assert len(bomb) > 190_000
    head = b"HTTP/1.1 201 Created\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with serve(answers(head, bomb), authority.server()) as peer, Egress(rules) as egress:
        answer = await post(egress, peer)
    assert answer == Exchange(201, answer.headers, bomb[:CAP], complete=False)


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Encoding: gzip",
        b"content-encoding: br",
        b"Content-Encoding: identity, gzip",
        b"Content-Encoding: identity\r\nContent-Encoding: deflate",
        b"Content-Encoding: x-unknown",
    ],
)
async def test_a_coding_makes_an_answer_incomplete(authority: Authority, rules: EgressPolicy, header: bytes):
    """A body in a coding that was not asked for is handed over raw, and is no evidence even if it looks right."""
    body = b'{"saved":true}'
    head = b"HTTP/1.1 201 Created\r\n%s\r\nContent-Length: %d\r\n\r\n" % (header, len(body))
    async with serve(answers(head + body), authority.server()) as peer, Egress(rules) as egress:
        answer = await post(egress, peer)
    assert (answer.status, answer.body, answer.complete) == (201, body, False)


async def test_identity_is_no_coding(authority: Authority, rules: EgressPolicy):
    """An answer that says identity is complete."""
    head = b"HTTP/1.1 201 Created\r\nContent-Encoding: Identity\r\nContent-Length: 2\r\n\r\n{}"
    async with serve(answers(head), authority.server()) as peer, Egress(rules) as egress:
        assert (await post(egress, peer)).complete


@pytest.mark.parametrize(("size", "complete"), [(CAP - 1, True), (CAP, True), (CAP + 1, False), (200_000, False)])
@pytest.mark.parametrize("framing", ["length", "chunked", "until closed"])
async def test_answers_are_cut_at_the_cap(
    authority: Authority,
    rules: EgressPolicy,
    size: int,
    complete: bool,  # noqa: FBT001 - parametrized
    framing: str,
):
    """A body up to the cap is whole; of a longer one the first 64 KiB come back, marked incomplete."""
    body = bytes(index % 251 for index in range(size))
    parts = {
        "length": [b"Content-Length: %d\r\n\r\n" % size, body],
        "chunked": [b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n" % size, body, b"\r\n0\r\n\r\n"],
        "until closed": [b"Connection: close\r\n\r\n", body],
    }[framing]
    async with (
        serve(answers(b"HTTP/1.1 200 OK\r\n", *parts), authority.server()) as peer,
        Egress(rules) as egress,
    ):
        answer = await post(egress, peer)
    assert (answer.body, answer.complete) == (body[:CAP], complete)


async def test_an_endless_answer_is_left_at_the_cap(authority: Authority, rules: EgressPolicy):
    """A peer that never stops sending is hung up on, and the next exchange gets a connection of its own."""

    async def script(line: Line) -> None:
        await line.receive()
        await line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await line.send(b"400\r\n" + b"x" * 1024 + b"\r\n")

    async with serve(script, authority.server()) as peer, Egress(rules) as egress:
        for _ in range(2):
            answer = await post(egress, peer)
            assert (len(answer.body), answer.complete) == (CAP, False)
    assert peer.connections == 2


async def test_the_cap_can_be_raised(authority: Authority, rules: EgressPolicy):
    """A caller that expects a list may ask for more."""
    body = b"x" * 200_000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with serve(answers(head, body), authority.server()) as peer, Egress(rules) as egress:
        answer = await post(egress, peer, max_answer_bytes=2_097_152)
    assert (answer.body, answer.complete) == (body, True)


async def test_headers_come_back_plain(authority: Authority, rules: EgressPolicy):
    """Header names are lower-case, the first of several wins, and bytes that are no text are replaced."""
    head = b"HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nRETRY-AFTER: 2\r\nX-Odd: \xff\xc3\xa4\r\nContent-Length: 0\r\n\r\n"
    async with serve(answers(head), authority.server()) as peer, Egress(rules) as egress:
        answer = await post(egress, peer)
    assert answer.headers == {"retry-after": "1", "x-odd": "\ufffdä", "content-length": "0"}


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified", b"101 Switching Protocols"])
async def test_answers_without_a_body_end_at_their_headers(authority: Authority, rules: EgressPolicy, status: bytes):
    """A status that has no body is an answer at once, an unasked switch of protocols included."""

    async def script(line: Line) -> None:
        await line.receive()
        await line.send(b"HTTP/1.1 %s\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" % status)
        await line.hold()

    async with serve(script, authority.server()) as peer, Egress(rules) as egress:
        answer = await post(egress, peer)
    assert (answer.status, answer.body) == (int(status[:3]), b"")


async def test_interim_answers_are_passed_over(authority: Authority, rules: EgressPolicy):
    """A 1xx before the answer is not the answer."""
    async with (
        serve(
            answers(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + OK), authority.server()
        ) as peer,
        Egress(rules) as egress,
    ):
        assert (await post(egress, peer)).status == 201


async def test_connections_are_kept(authority: Authority, rules: EgressPolicy):
    """Exchanges with one origin share a connection, and each looks the name up."""
    book = Book({"localhost": [["127.0.0.1"]]})
    async with serve(answer_all, authority.server()) as peer, Egress(rules, resolver=book) as egress:
        for _ in range(3):
            await post(egress, peer)
    assert (peer.connections, len(peer.received), len(book.asked)) == (1, 3, 3)


async def test_an_unasked_answer_answers_nothing(authority: Authority, rules: EgressPolicy):
    """A second answer that arrives on a kept connection is not taken for the answer to the next request."""
    answered, unasked_is_out = asyncio.Event(), asyncio.Event()

    async def script(line: Line) -> None:
        await line.receive()
        await line.send(OK)
        await answered.wait()
        await line.send(OK.replace(b"201 Created", b"299 Unasked"))
        unasked_is_out.set()
        await line.receive()
        await line.send(OK)

    tls = authority.server()
    async with serve(script, tls) as peer, serve(answer_all, tls) as other, Egress(rules) as egress:
        await post(egress, peer)
        answered.set()
        await unasked_is_out.wait()
        await post(egress, other)  # takes so many turns of the loop that the unasked answer has been read by then
        assert (await post(egress, peer)).status == 201
    assert (peer.connections, len(peer.received)) == (2, 2)


async def test_a_post_is_sent_once_even_if_its_connection_dies(authority: Authority, rules: EgressPolicy):
    """A kept connection that ends after the request came is an ambiguous failure, not a silent second request."""

    async def script(line: Line) -> None:
        await line.receive()
        await line.send(OK)
        await line.receive()

    async with serve(script, authority.server()) as peer, Egress(rules) as egress:
        await post(egress, peer)
        with pytest.raises(EgressFailure) as raised:
            await post(egress, peer)
    assert (raised.value.kind, raised.value.ambiguous) == ("connection_reset", True)
    assert (peer.connections, len(peer.received)) == (1, 2)


async def test_the_sender_is_told_when_all_is_sent(authority: Authority, rules: EgressPolicy):
    """The callback comes once, before the answer, with and without a body, on new and kept connections."""
    order: list[str] = []

    async def script(line: Line) -> None:
        while True:
            await line.receive()
            order.append("received")
            await line.send(OK)

    async with serve(script, authority.server()) as peer, Egress(rules) as egress:
        for method, body in (("POST", b"{}"), ("GET", None), ("POST", b""), ("POST", b"x" * 1_000_000)):
            await egress.exchange(
                method, peer.url(), headers={}, body=body, deadline=10, on_sent=lambda: order.append("sent")
            )
            order.append("answered")
    assert [step for step in order if step != "received"] == ["sent", "answered"] * 4
    assert order.count("received") == 4


async def test_the_sender_is_told_once_of_a_repeated_get(authority: Authority, rules: EgressPolicy):
    """A GET whose kept connection ends unanswered goes out again, as it may; the callback still comes once."""
    told: list[bool] = []

    async def script(line: Line) -> None:
        await line.receive()
        await line.send(OK)
        await line.receive()

    async with serve(script, authority.server()) as peer, Egress(rules) as egress:
        await post(egress, peer)
        answer = await egress.exchange("GET", peer.url(), headers={}, deadline=10, on_sent=lambda: told.append(True))
    assert answer.status == 201
    assert (len(peer.received), told) == (3, [True])


async def test_the_sender_is_not_told_of_what_was_not_sent():
    """No callback when nothing was dialled."""
    told: list[bool] = []
    async with Egress(EgressPolicy(), resolver=Book({"a.example": [["10.0.0.1"]]})) as egress:
        with pytest.raises(EgressFailure):
            await egress.exchange(
                "POST", "https://a.example/", headers={}, body=b"{}", deadline=10, on_sent=lambda: told.append(True)
            )
    assert told == []


async def test_stalled_destinations_do_not_hold_up_others(authority: Authority, rules: EgressPolicy):
    """While more exchanges than a usual pool holds hang at one destination, another answers."""

    async def stall(line: Line) -> None:
        await line.receive()
        await line.hold()

    many = 130
    async with serve(stall, None) as stalled, serve(answer_all, authority.server()) as live, Egress(rules) as egress:

        async def wait_for_nothing() -> None:
            with pytest.raises(EgressFailure):
                await egress.exchange("POST", stalled.url(scheme="http"), headers={}, body=b"{}", deadline=60)

        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(wait_for_nothing()) for _ in range(many)]
            for _ in range(many):
                await stalled.arrived.acquire()
            assert (await post(egress, live)).status == 201
            for task in waiting:
                task.cancel()


async def test_cancelling_ends_an_exchange_and_nothing_else(authority: Authority, rules: EgressPolicy):
    """A cancelled exchange raises CancelledError and closes its connection; the next one works."""

    async def script(line: Line) -> None:
        request = await line.receive()
        if request.body == b"hang":
            await line.hold()
        await line.send(OK)

    async with serve(script, authority.server()) as peer, Egress(rules) as egress:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(egress.exchange("POST", peer.url(), headers={}, body=b"hang", deadline=60))
            await peer.held.wait()
            task.cancel()
        assert task.cancelled()
        assert (await post(egress, peer)).status == 201
    assert peer.connections == 2


async def test_an_egress_that_is_not_open_says_so():
    """Before opening and after closing nothing can be sent; opening again works."""
    egress = Egress(EgressPolicy())
    with pytest.raises(RuntimeError, match="not open"):
        await egress.exchange("GET", "https://a.example/", headers={}, deadline=1)
    await egress.open()
    await egress.close()
    with pytest.raises(RuntimeError, match="not open"):
        await egress.exchange("GET", "https://a.example/", headers={}, deadline=1)
    await egress.close()


def test_an_unusable_authority_is_noticed_at_once(tmp_path_factory: pytest.TempPathFactory):
    """A CA file that is missing, or holds no certificate, fails when the egress is built and not at the first dial."""
    empty = tmp_path_factory.mktemp("ca") / "empty.pem"
    empty.write_text("nothing\n")
    for file in (str(empty), str(empty) + ".missing"):
        with pytest.raises(OSError):
            Egress(EgressPolicy(ca_file=file))
