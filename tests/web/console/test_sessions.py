"""A session lasts as long as it should, and nobody acts in it but from its own pages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from relay.identity.model import Principal
from relay.identity.refusals import keys_unavailable
from relay.web.console.sessions.model import hash_of
from relay.web.console.sign_in.signing_in import SigningIn
from tests.conftest import TurnableClock
from tests.support.console import SCOPES, Browser, Page, World, another_gateway, world
from tests.support.demo import post_json


@pytest.fixture
async def console(tmp_path: Path, database_url: str, clock: TurnableClock) -> AsyncIterator[World]:
    """Once on each engine; its tokens can be renewed."""
    async with world(tmp_path, database_url, clock, scopes=(*SCOPES, "offline_access")) as running:
        yield running


@pytest.fixture
async def inside(browser: Browser) -> Browser:
    await browser.sign_in()
    return browser


async def is_in(browser: Browser) -> bool:
    return (await browser.get("/console/account")).heading == "Operator"


async def actions(console: World) -> list[str]:
    rows = await console.rows("SELECT action FROM audit_log WHERE action LIKE 'console%' ORDER BY seq")
    return [row["action"] for row in rows]


class TestEnds:
    async def test_left_alone(self, inside: Browser, clock: TurnableClock) -> None:
        """After half an hour without a request the session is over; a request within it goes on with it."""
        clock.turn(29 * 60)
        assert await is_in(inside)
        clock.turn(29 * 60)
        assert await is_in(inside)
        clock.turn(30 * 60)
        page = await inside.get("/console/account")
        assert (page.heading, "Your session has ended" in page.text) == ("Sign in", True)

    async def test_a_page_that_updates_itself_is_nobody(self, inside: Browser, clock: TurnableClock) -> None:
        """Fragments and streams are not somebody who is there."""
        for _ in range(2):
            clock.turn(15 * 60)
            answer = await inside.get("/console/account", **{"X-Fragment": "sessions"})
        assert answer.status == 401
        assert not await is_in(inside)

    async def test_after_a_day_of_work(self, inside: Browser, clock: TurnableClock) -> None:
        """Twelve hours after the sign-in it is over, however busy it was."""
        for _ in range(12 * 3 - 1):
            clock.turn(20 * 60)
            assert await is_in(inside)
        clock.turn(20 * 60)
        assert not await is_in(inside)

    async def test_what_is_over_is_thrown_away(self, inside: Browser, console: World, clock: TurnableClock) -> None:
        """Housekeeping leaves nothing of a session that is over, and a session that is not."""
        clock.turn(20 * 60)
        async with console.browser() as other:
            await other.sign_in()
            clock.turn(20 * 60)
            assert console.relay.console is not None
            assert await console.relay.console.sessions.prune() == 1
            assert await is_in(other)
        assert not await is_in(inside)

    async def test_sign_out(self, inside: Browser, console: World) -> None:
        """The session is over, and not merely forgotten by the browser."""
        cookie = inside.cookie()
        page = await inside.get("/console/account")
        assert (await inside.post("/console/sign-out", {"csrf": page.csrf})).heading == "Sign in"
        assert inside.cookie() is None
        inside.set_cookie(str(cookie))
        assert not await is_in(inside)
        assert await actions(console) == ["console.sign_in", "console.sign_out"]

    async def test_sign_out_everywhere(self, inside: Browser, console: World) -> None:
        """One click ends every session of this operator."""
        async with console.browser() as elsewhere:
            await elsewhere.sign_in()
            page = await inside.get("/console/account")
            assert page.text.count("another</td>") == 1
            page = await inside.post("/console/sign-out/everywhere", {"csrf": page.csrf})
            assert "2 sessions ended" in page.text
            assert not await is_in(elsewhere)
            assert not await is_in(inside)
        assert (await actions(console))[-1] == "console.sign_out_everywhere"

    async def test_another_gateway(self, inside: Browser, console: World, clock: TurnableClock) -> None:
        """A session is good at every gateway, and so is its end."""
        async with another_gateway(console, clock) as second:
            cookie = {"Cookie": f"__Host-relay-console={inside.cookie()}"}
            page = await inside.get(f"{second}/console/account", **cookie)
            assert page.heading == "Operator"
            await inside.post("/console/sign-out", {"csrf": page.csrf})
            assert (await inside.get(f"{second}/console/account", **cookie)).heading == "Sign in"


class TestTokens:
    async def test_renewed(self, inside: Browser, console: World, clock: TurnableClock) -> None:
        """A session outlives its token where the issuer renews it, each time with what came last."""
        for _ in range(2 * 3 + 1):
            clock.turn(20 * 60)
            assert await is_in(inside)
        [row] = await console.rows("SELECT token_expires_at, refreshing_until FROM console_sessions")
        assert row["token_expires_at"] > clock.unix() * 1000
        assert row["refreshing_until"] is None

    async def test_several_requests_at_once(self, inside: Browser, console: World, clock: TurnableClock) -> None:
        """The refresh token is used once, whoever comes at the same time: the issuer would end the chain otherwise."""
        for _ in range(2):
            clock.turn(29 * 60)
            assert await is_in(inside)
        clock.turn(3 * 60)  # the token's hour is over
        assert all(await asyncio.gather(*(is_in(inside) for _ in range(8))))
        clock.turn(29 * 60)
        assert await is_in(inside)
        clock.turn(29 * 60)
        assert await is_in(inside)
        clock.turn(3 * 60)
        assert await is_in(inside)
        assert len(await console.rows("SELECT 1 FROM console_sessions")) == 1

    async def test_renewed_while_keys_cannot_be_had(
        self, inside: Browser, clock: TurnableClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The issuer gives new tokens, and its keys cannot be had to verify them: the page says so, and the session
        goes on with the new refresh token, since the old one is used up."""  # noqa: D209
        for _ in range(2):
            clock.turn(29 * 60)
            assert await is_in(inside)
        clock.turn(3 * 60)

        async def away(_self: SigningIn, _access_token: str) -> Principal:
            raise keys_unavailable(5)

        with monkeypatch.context() as patched:
            patched.setattr(SigningIn, "operator", away)
            assert (await inside.get("/console/account")).status == 503
        assert await is_in(inside)

    async def test_revoked(self, inside: Browser, console: World, clock: TurnableClock) -> None:
        """Whose access was revoked at the issuer is out when their token ends."""
        await post_json(console.relay.egress, f"{console.issuer.url}/demo/revoke", {"user": "operator"})
        for _ in range(2):
            clock.turn(29 * 60)
            assert await is_in(inside)
        clock.turn(3 * 60)
        assert not await is_in(inside)
        assert await console.rows("SELECT 1 FROM console_sessions") == []

    async def test_without_renewal(self, tmp_path: Path, sqlite_database_url: str, clock: TurnableClock) -> None:
        """Without a refresh token a session ends with its token."""
        async with world(tmp_path, sqlite_database_url, clock) as console, console.browser() as browser:
            await browser.sign_in()
            for _ in range(2):
                clock.turn(29 * 60)
                assert await is_in(browser)
            clock.turn(3 * 60)
            assert not await is_in(browser)

    async def test_a_fresh_sign_in_is_wanted(
        self, tmp_path: Path, sqlite_database_url: str, clock: TurnableClock
    ) -> None:
        """Where operators have to have signed in lately, a page sends them to the issuer, which asks them again."""
        more = "[operators]\nmax_age_seconds = 600\n"
        async with world(tmp_path, sqlite_database_url, clock, more=more) as console, console.browser() as browser:
            await browser.sign_in()
            assert await is_in(browser)
            clock.turn(601)
            page = await browser.get("/console/account")
            assert (page.status, page.heading) == (401, "The sign-in is too long ago or too weak")
            offered = await browser.get(page.link("Sign in again"))
            chooser = await browser.get(offered.link("Sign in"))
            assert (chooser.url.query["prompt"], chooser.url.query["max_age"]) == ("login", "600")
            back = await browser.get(await browser.chosen(chooser))
            assert (back.url.path, back.heading) == ("/console/account", "Operator")

    async def test_of_another_row(self, inside: Browser, console: World) -> None:
        """What is sealed in one session opens in no other: whoever writes to the database becomes nobody else."""
        async with console.relay.db.write() as connection:
            await connection.execute(text("UPDATE console_sessions SET id_hash = :moved"), {"moved": hash_of("moved")})
        inside.set_cookie("moved")
        assert not await is_in(inside)


FOREIGN: list[Callable[[str], tuple[dict[str, str], dict[str, str]]]] = [
    lambda _token: ({}, {}),
    lambda _token: ({"csrf": ""}, {}),
    lambda _token: ({"csrf": "0" * 64}, {}),
    lambda token: ({"csrf": token}, {"Origin": "https://evil.example"}),
    lambda token: ({"csrf": token}, {"Origin": "null"}),
    lambda token: ({"csrf": token}, {"Sec-Fetch-Site": "cross-site"}),
    lambda token: ({"csrf": token}, {"Sec-Fetch-Site": "same-site"}),
]


class TestForms:
    @pytest.mark.parametrize("foreign", FOREIGN)
    async def test_not_from_a_page_of_ours(
        self, inside: Browser, foreign: Callable[[str], tuple[dict[str, str], dict[str, str]]]
    ) -> None:
        """Without the session's token, or from another site's page, a form does nothing."""
        fields, headers = foreign((await inside.get("/console/account")).csrf)
        page = await inside.post("/console/sign-out", fields, **headers)
        assert (page.status, "cross_site_request" in page.text) == (403, True)
        assert await is_in(inside)

    async def test_anothers_token(self, inside: Browser, console: World) -> None:
        """A token is good in its own session only, even of the same person."""
        async with console.browser() as other:
            await other.sign_in()
            token = (await other.get("/console/account")).csrf
        assert (await inside.post("/console/sign-out", {"csrf": token})).status == 403

    async def test_without_a_session(self, browser: Browser) -> None:
        """A form of somebody who is not signed in leads nowhere, and says so."""
        page = await browser.post("/console/sign-out", {"csrf": "0" * 64})
        assert (page.status, page.heading) == (401, "Sign in")

    async def test_a_link_does_nothing(self, inside: Browser) -> None:
        """Nothing is changed by an address that somebody else can have a browser open."""
        assert (await inside.get("/console/sign-out")).status == 404
        assert await is_in(inside)


HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class TestPages:
    @pytest.mark.parametrize(
        "path", ["/console/account", "/console/sign-in", "/console/callback", "/console/nothing", "/console/%"]
    )
    async def test_headers(self, inside: Browser, path: str) -> None:
        """Every answer forbids the browser what no page needs, whatever it is."""
        page = await inside.get(path)
        assert {name: page.headers[name] for name in HEADERS} == HEADERS

    async def test_reading_by_another_method(self, inside: Browser) -> None:
        """HEAD is answered as GET is; a slash at the end leads to the same page."""
        assert (await inside.head("/console/account")).status == 200
        assert (await inside.get("/console/", follow=False)).headers["Location"] == "/console"

    async def test_the_readers_zone(self, inside: Browser) -> None:
        """Times are those of the zone that the script has noted; of a zone that there is not, they are UTC's."""
        shown = []
        for zone in ("UTC", "Asia/Tokyo", "Asia%2FTokyo", "../../etc/passwd", ""):
            inside.set_cookie(zone, "relay-console-zone")
            page = await inside.get("/console/account")
            shown.append(page.text.partition("<time ")[2].partition("</time>")[0].partition(">")[2])
        assert shown == [
            "2027-01-15 08:00:00 UTC",
            "2027-01-15 17:00:00",
            "2027-01-15 17:00:00",
            "2027-01-15 08:00:00 UTC",
            "2027-01-15 08:00:00 UTC",
        ]

    async def test_static_files(self, inside: Browser) -> None:
        """The style and the script may be kept for ever, under an address that changes with them."""
        page: Page = await inside.get("/console/account")
        for address, kind in (
            (page.text.partition('rel="stylesheet" href="')[2].partition('"')[0], "text/css"),
            (page.text.partition('<script src="')[2].partition('"')[0], "text/javascript"),
        ):
            file = await inside.get(address)
            assert (file.status, file.headers["Content-Type"].partition(";")[0]) == (200, kind)
            assert "immutable" in file.headers["Cache-Control"]
            version = address.split("/")[3]
            assert (await inside.get(address.replace(version, "0" * 16))).status == 404

    async def test_a_fault(self, console: World, inside: Browser) -> None:
        """A fault is a page as well, with a reference to the log and nothing of what went wrong."""
        async with console.relay.db.write() as connection:
            await connection.execute(text("DROP TABLE console_sessions"))
        page = await inside.get("/console/account")
        assert (page.status, page.heading) == (500, "The relay failed")
        assert "Reference: <code>" in page.text
        assert "console_sessions" not in page.text
