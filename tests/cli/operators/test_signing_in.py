"""Signing in from a terminal: with a real issuer and a person's click, and with issuers that answer otherwise."""

import asyncio
import json
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from relay.cli.operators.device import Granted, Invitation, Issuer, Wanted
from relay.cli.operators.exits import NOT_SIGNED_IN
from relay.cli.operators.logins import Login, Logins
from relay.cli.operators.tokens import SignedIn
from relay.cli.running import Failure
from relay.config import load
from relay.demo import issuer as issuers
from relay.demo.grants import Resources
from tests.cli.operators.conftest import Station, lines
from tests.conftest import TurnableClock
from tests.support.gateway import gateway, write_config
from tests.support.issuer import AUDIENCE
from tests.support.logs import logging_to_memory
from tests.support.specialist import Specialist

WANTED = Wanted(client_id="relay-cli", scope="operator:read", resource=AUDIENCE)


@pytest.fixture
async def signing(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[Station]:
    """A relay that trusts the demonstration's issuer, where people sign in; nobody has a token yet."""
    with logging_to_memory() as log:
        async with issuers.running(tmp_path / "issuer", Resources(relay=AUDIENCE)) as issuer:
            cli = '[operators.cli]\nclient_id = "relay-cli"\n'
            path = write_config(tmp_path, sqlite_database_url, issuer, {}, more=cli)  # type: ignore[arg-type]
            async with gateway(load(path, {}), issuer) as relay:  # type: ignore[arg-type]  # of both only the URL is used
                yield Station(relay, Specialist(), tmp_path, log)


async def sign_in(signing: Station, person: str, *more: str) -> tuple[int, str]:
    """How the command ends, and what it prints, where this person clicks on the page that it names."""
    config = ("--config", str(signing.directory / "relay.toml"))
    own = ("--relay", signing.url, "--state-dir", str(signing.directory / "state"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "relay", *config, "operators", *own, "login", *more),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    printed = b""
    while not printed.endswith(b"minutes.\n"):
        line = await process.stdout.readline()
        assert line, printed
        printed += line
    [page] = [line.split()[-1] for line in printed.decode().splitlines() if line.startswith("or just open")]
    async with aiohttp.ClientSession() as http, http.post(page, data={"person": person}) as answer:  # noqa: TID251
        assert answer.status == 200
    printed += await process.stdout.read()
    return await process.wait(), printed.decode()


def login_files(signing: Station) -> list[Path]:
    return list((signing.directory / "state" / "feedback-relay" / "logins").glob("*.json"))


async def test_a_person_signs_in_operates_and_signs_out(signing: Station):
    """The token is kept for nobody else to read, used, never shown, and gone afterwards."""
    code, printed = await sign_in(signing, "operator")
    assert (code, f"signed in at {signing.url} until" in printed) == (0, True)
    [file] = login_files(signing)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    kept = json.loads(file.read_text())
    assert kept["scope"] == "operator:read operator:write"
    listed = await signing.plainly("operators", "--relay", signing.url, "agents", "list")
    assert (listed.exit_code, listed.stderr) == (0, "0 of 0\n")
    assert kept["access_token"] not in printed + listed.stdout + listed.stderr + signing.log.text
    out = await signing.plainly("operators", "--relay", signing.url, "logout")
    assert (out.exit_code, login_files(signing)) == (0, [])
    assert (await signing.plainly("operators", "--relay", signing.url, "agents", "list")).exit_code == 7


async def test_a_refused_token_is_renewed_without_asking_anybody(signing: Station):
    """With a refresh token (offline_access) the sign-in outlives its access token; when both are over, it says so."""
    assert (await sign_in(signing, "operator", "--scope", "operator:read offline_access"))[0] == 0
    [file] = login_files(signing)
    before = json.loads(file.read_text())
    file.write_text(json.dumps({**before, "access_token": "no.longer.good"}))
    listed = await signing.plainly("operators", "--relay", signing.url, "audit", "list", "--json")
    assert (listed.exit_code, [entry["action"] for entry in lines(listed)]) == (0, [])
    after = json.loads(file.read_text())
    assert after["refresh_token"] != before["refresh_token"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert after["access_token"] not in listed.stdout + listed.stderr
    file.write_text(json.dumps(before))
    again = await signing.plainly("operators", "--relay", signing.url, "agents", "list")
    assert again.exit_code == 0  # its access token is good still
    file.write_text(json.dumps({**before, "expires_at": 1}))
    over = await signing.plainly("operators", "--relay", signing.url, "agents", "list")
    assert (over.exit_code, over.stderr) == (7, f"relay: the sign-in at {signing.url} is over: relay operators login\n")


async def test_a_person_who_does_not_want_to_is_not_signed_in(signing: Station):
    """Exit code 7, and nothing is kept."""
    code, printed = await sign_in(signing, "")
    assert (code, printed.splitlines()[-1]) == (7, "relay: the sign-in was refused")
    assert login_files(signing) == []


async def test_a_file_that_others_can_read_is_not_used(signing: Station):
    """Whoever could read it may have used it."""
    Logins(signing.directory / "state").keep(login(signing.url, "http://127.0.0.1:9"))
    [file] = login_files(signing)
    file.chmod(0o644)
    refused = await signing.plainly("operators", "--relay", signing.url, "agents", "list")
    assert (refused.exit_code, "can be read by others" in refused.stderr) == (3, True)


def login(relay: str, issuer: str, **members: Any) -> Login:
    return Login(
        **{
            "relay": relay,
            "issuer": issuer,
            "client_id": "relay-cli",
            "token_endpoint": f"{issuer}/token",
            "access_token": "first",
            **members,
        }
    )


@dataclass
class Scripted:
    """An issuer that answers the token endpoint with these, one after another; the last one stays."""

    answers: list[tuple[int, object]]
    metadata: dict[str, object] = field(default_factory=dict)
    refusal: str | None = None
    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Issuer]:
        app = web.Application()
        app.router.add_get("/.well-known/oauth-authorization-server", self._metadata)
        app.router.add_post("/token", self._token)
        app.router.add_post("/device", self._device)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            async with aiohttp.ClientSession() as http:  # noqa: TID251 - the program's own
                yield Issuer(http, pause=self._pause)
        finally:
            await runner.cleanup()

    async def _metadata(self, _request: web.Request) -> web.Response:
        endpoints = {"token_endpoint": f"{self.url}/token", "device_authorization_endpoint": f"{self.url}/device"}
        return web.json_response({"issuer": self.url, **endpoints, **self.metadata})

    async def _token(self, request: web.Request) -> web.Response:
        self.asked.append({name: str(value) for name, value in (await request.post()).items()})
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.json_response(body, status=status)

    async def _device(self, request: web.Request) -> web.Response:
        self.asked.append({name: str(value) for name, value in (await request.post()).items()})
        if self.refusal is not None:
            return web.json_response({"error": self.refusal}, status=400)
        told = {"device_code": "dc", "user_code": "AB\x1b[2J", "verification_uri": "https://login.example.org/device"}
        return web.json_response({**told, "expires_in": 600, "interval": 0})

    async def _pause(self, seconds: float) -> None:
        self.waited.append(seconds)

    async def finish(self, **invitation: Any) -> Granted:
        async with self.running() as issuer:
            members: dict[str, Any] = {"device_code": "dc", "user_code": "AB", "verification_uri": "u"}
            invited = Invitation(**{**members, "expires_in": 60.0, **invitation})
            return await issuer.finish(await issuer.discover(self.url), WANTED, invited)


PENDING = (400, {"error": "authorization_pending"})
SLOWER = (400, {"error": "slow_down"})
TOKEN = (200, {"access_token": "t", "token_type": "Bearer", "expires_in": 60})


async def test_the_issuer_says_how_often_it_is_asked():
    """RFC 8628 section 3.5: every interval, five seconds more after each slow_down, or where it does not answer."""
    issuer = Scripted([PENDING, SLOWER, PENDING, (502, "a proxy's words"), TOKEN])
    assert (await issuer.finish(interval=2.0)).access_token == "t"
    assert issuer.waited == [2, 2, 7, 7, 12]
    assert issuer.asked[-1] == {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "client_id": "relay-cli",
        "resource": AUDIENCE,
        "device_code": "dc",
    }


async def test_without_a_word_it_is_every_five_seconds_until_the_code_expires():
    """RFC 8628 section 3.2: the default interval; and nobody is asked after the end."""
    issuer = Scripted([PENDING])
    with pytest.raises(Failure) as over:
        await issuer.finish(expires_in=16.0)
    assert (over.value.message, over.value.exit_code) == ("nobody signed in in time: begin again", NOT_SIGNED_IN)
    assert issuer.waited == [5, 5, 5]


@pytest.mark.parametrize(
    ("error", "said"),
    [("access_denied", "was refused"), ("expired_token", "in time"), ("invalid_grant", "invalid_grant")],
)
async def test_every_other_answer_ends_the_waiting(error: str, said: str):
    """Exit code 7, after one question."""
    issuer = Scripted([(400, {"error": error})])
    with pytest.raises(Failure, match=said) as over:
        await issuer.finish()
    assert (over.value.exit_code, len(issuer.asked)) == (NOT_SIGNED_IN, 1)


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"issuer": "https://other.example.org"}, "is another issuer's"),
        ({"device_authorization_endpoint": None}, "does not offer the device authorization grant"),
        ({"token_endpoint": "http://login.example.org/token"}, "has to be https"),
    ],
)
async def test_metadata_that_cannot_be_trusted_is_not_used(metadata: dict[str, object], said: str):
    """Another issuer's, one without the grant, or an address at which a token could be read on the way."""
    issuer = Scripted([TOKEN], metadata=metadata)
    with pytest.raises(Failure, match=said):
        await issuer.finish()
    assert issuer.asked == []


async def test_an_answer_that_comes_in_pieces_is_read_whole():
    """The issuer sends the second half of its metadata only once the head of the answer was taken in; and one that
    sends without end is no issuer."""  # noqa: D209
    begun = asyncio.Event()

    async def seen(*_: object) -> None:
        begun.set()

    async def halves(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        told = {"issuer": url, "token_endpoint": f"{url}/token", "device_authorization_endpoint": f"{url}/device"}
        body = json.dumps(told).encode()
        await response.write(body[:50])
        await begun.wait()
        await response.write(body[50:] + b" " * padding[-1])
        return response

    app = web.Application()
    padding = [0]
    app.router.add_get("/.well-known/oauth-authorization-server", halves)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(seen)
    try:
        async with aiohttp.ClientSession(trace_configs=[trace]) as http:  # noqa: TID251
            assert (await Issuer(http).discover(url)).token_endpoint == f"{url}/token"
            padding.append(70_000)
            with pytest.raises(Failure, match="more than an issuer has to say"):
                await Issuer(http).discover(url)
    finally:
        await runner.cleanup()


async def test_a_token_that_is_about_to_expire_is_renewed_first(tmp_path: Path, clock: TurnableClock):
    """Nobody is asked while it is good for a while; a renewal keeps the refresh token where no other came."""
    logins, issuer = Logins(tmp_path), Scripted([TOKEN])
    async with issuer.running(), aiohttp.ClientSession() as http:  # noqa: TID251
        logins.keep(login("https://r", issuer.url, expires_at=clock.unix() + 60, refresh_token="again"))
        signed_in = SignedIn(logins, "https://r", http, clock)
        assert (await signed_in.token(), issuer.asked) == ("first", [])
        clock.turn(45)
        assert await SignedIn(logins, "https://r", http, clock).token() == "t"
    assert issuer.asked == [{"grant_type": "refresh_token", "client_id": "relay-cli", "refresh_token": "again"}]
    kept = logins.find("https://r")
    assert kept is not None
    assert (kept.access_token, kept.refresh_token, kept.expires_at) == ("t", "again", clock.unix() + 60)
    assert "again" not in repr(kept)


async def test_what_options_do_not_say_is_configured_or_as_last_time(lite: Station):
    """The first time by options and the configuration, the second by what was kept; nothing moves the cursor."""
    issuer = Scripted([(200, {"access_token": "t-1", "token_type": "Bearer", "refresh_token": "r-1"})])
    signing_in = ("operators", "--relay", lite.url, "login")
    async with issuer.running():
        first = await lite.plainly(
            *signing_in, "--issuer", issuer.url, "--client-id", "mine", "--scope", "operator:read"
        )
        again = await lite.plainly(*signing_in)
        config = lite.directory / "relay.toml"
        configured = f'[operators.cli]\nissuer = "{issuer.url}"\nclient_id = "theirs"\n'
        config.write_text(config.read_text().replace(lite.relay.issuer.url, issuer.url) + configured)
        third = await lite.plainly("--config", str(config), *signing_in)
    assert [one.exit_code for one in (first, again, third)] == [0, 0, 0]
    assert first.stderr.splitlines()[1] == "Enter  AB�[2J"
    assert [line for one in (first, again, third) for line in one.stderr.splitlines() if "t-1" in line] == []
    begun = [form for form in issuer.asked if "grant_type" not in form]
    assert [form["client_id"] for form in begun] == ["mine", "mine", "theirs"]
    assert [form["scope"] for form in begun] == ["operator:read", "operator:read", "operator:read"]
    assert [form["resource"] for form in begun] == [lite.url, lite.url, AUDIENCE]


@pytest.mark.parametrize(
    ("issuer", "said"),
    [
        (Scripted([TOKEN], refusal="unauthorized_client"), "the issuer refuses to begin: unauthorized_client"),
        (Scripted([TOKEN], metadata={"issuer": "https://other.example.org"}), "another issuer's"),
        (Scripted([(400, {"error": "access_denied"})]), "the sign-in was refused"),
    ],
)
async def test_a_sign_in_that_fails_leaves_nothing(lite: Station, issuer: Scripted, said: str):
    """Said on stderr with an exit code, and no file is kept."""
    async with issuer.running():
        done = await lite.plainly(
            *("operators", "--relay", lite.url, "login", "--issuer", issuer.url, "--client-id", "mine")
        )
    assert (done.exit_code in {1, 7}, said in done.stderr) == (True, True)
    assert login_files(lite) == []


async def test_what_is_missing_is_told_before_anything_is_asked(lite: Station):
    """Without a configuration the options say it; an issuer that is away is exit code 3."""
    login = ("operators", "--relay", lite.url, "login")
    unsaid = await lite.plainly(*login)
    assert (unsaid.exit_code, "say --issuer" in unsaid.stderr) == (2, True)
    away = await lite.plainly(*login, "--issuer", "http://127.0.0.1:9", "--client-id", "x")
    assert (away.exit_code, away.stderr) == (3, "relay: the issuer cannot be reached: Connection refused\n")
    plain = await lite.plainly(*login, "--issuer", "http://login.example.org", "--client-id", "x")
    assert (plain.exit_code, "has to be https" in plain.stderr) == (2, True)
