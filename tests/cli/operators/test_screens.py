"""What somebody sees who looks: tables that fit, bars that move, and a live view that outlasts the relay."""

from datetime import UTC
from io import StringIO
from pathlib import Path

from aiohttp import web
from rich.console import Console

from relay.cli.operators.looks import Look
from relay.cli.operators.screen import screen
from relay.demo.authority import Authority
from tests.cli.operators.conftest import Station, lines


async def test_a_narrow_screen_shows_row_after_row(lite: Station):
    """On a wide one it is a table; on a narrow one each id is in one piece, to be copied."""
    owner, submission = await lite.rated("t1")
    wide = await lite.on_a_screen("submissions", "list", columns=240)
    assert any(owner in line and submission in line for line in wide.stdout.splitlines())
    narrow = await lite.on_a_screen("submissions", "list", columns=70)
    assert [line.split() for line in narrow.stdout.splitlines()][-2:] == [["owner", owner], ["id", submission]]
    assert max(map(len, narrow.stdout.splitlines())) <= 70


async def test_long_work_has_a_bar(station: Station, tmp_path: Path):
    """A job's goes to the end of what it examined, an export's counts bytes; both are on stderr."""
    for number in range(2):
        await station.rated(f"t{number}", 503)
    said = ("--state", "pending", "--yes", "--why", "enough")
    done = await station.on_a_screen("submissions", "bulk-abandon", *said, columns=100)
    assert done.exit_code == 0
    assert "abandon: finished" in done.stderr
    assert "2/2" in done.stderr
    assert "2/2" not in done.stdout
    file = tmp_path / "all.csv"
    taken = await station.on_a_screen("export", "--format", "csv", "-o", str(file), columns=100)
    assert (taken.exit_code, taken.stdout) == (0, "")
    assert f"{file.stat().st_size:,} bytes" in taken.stderr


class Flickering:
    """Something in the relay's place that is not always there."""

    def __init__(self) -> None:
        self.looks = 0

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/api/operator/agents":
            self.looks += 1
            if self.looks == 2:
                return web.json_response({"code": "database_unavailable", "status": 503, "detail": "later"}, status=503)
        if request.path == "/api/analytics":
            return web.json_response({"total": {"states": {"saved": self.looks}, "upShare": None}})
        return web.json_response({"items": [], "next": None, "total": 0})


async def test_a_relay_that_is_away_for_a_while_is_waited_for(lite: Station):
    """It is told once, on stderr, and the next look is shown; only the first look has to succeed."""
    flickering = Flickering()
    app = web.Application()
    app.router.add_get("/{path:.*}", flickering.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        said = ("operators", "--relay", url, "--token-file", str(lite.token_file()), "watch", "--interval", "0.2")
        seen = await lite.plainly(*said, "--count", "3")
        flickering.looks = 1
        refused = await lite.plainly(*said, "--count", "3")
    finally:
        await runner.cleanup()
    assert (seen.exit_code, seen.stderr) == (0, "later\n")
    assert [line.rpartition(" ")[2] for line in seen.stdout.splitlines()] == ["1", "3"]
    assert (refused.exit_code, refused.stderr) == (3, "relay: later\n")


async def test_a_limit_that_is_used_up_is_waited_for(lite: Station):
    """The relay says for how long; nothing was done meanwhile, so that the very same request is sent again."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {await request.text()}")
        if len(asked) == 1:
            limited = {"code": "rate_limited", "status": 429, "detail": "wait"}
            return web.json_response(limited, status=429, headers={"Retry-After": "0"})
        return web.json_response({"total": 0, "byState": {}, "would": {}})

    app = web.Application()
    app.router.add_post("/api/operator/jobs", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        said = ("operators", "--relay", url, "--token-file", str(lite.token_file()))
        counted = await lite.plainly(*said, "submissions", "bulk-retry")
    finally:
        await runner.cleanup()
    assert (counted.exit_code, counted.stdout) == (0, "0 submissions fit. Nothing was done.\n")
    assert asked == ['POST {"kind":"retry","filter":{},"dryRun":true}'] * 2


async def test_a_place_for_sign_ins_that_cannot_be_used_is_told(lite: Station, tmp_path: Path):
    """A file where a directory should be: exit code 3, and no traceback."""
    (tmp_path / "occupied").write_text("")
    said = ("operators", "--relay", lite.url, "--state-dir", str(tmp_path / "occupied" / "state"))
    told = await lite.plainly(*said, "jobs", "list")
    assert (told.exit_code, "cannot be used: Not a directory" in told.stderr) == (3, True)


async def test_the_live_screen_shows_what_matters_and_nothing_that_moves_the_cursor(station: Station):
    """Backlog, hold, jobs, the newest, and why it is not up to date; a task's name cannot take over the terminal."""
    await station.rated("task\u202e2J", 503)
    await station.run("agents", "hold", "literature", "--why", "they are moving")
    [seen] = lines(await station.run("watch", "--count", "1", "--json"))
    job = {"id": "job-1", "kind": "retry", "examined": 3, "total": 9}
    look = Look(at=seen["at"], agents=seen["agents"], day=seen["lastDay"], newest=seen["newest"], jobs=[job])
    console = Console(file=StringIO(), width=140, force_terminal=True)
    console.print(screen(look, "the relay is away", UTC))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for expected in ("held 1 (oldest since", "approved, you hold it", "job-1", "task�2J", "the relay is away"):
        assert expected in shown
    assert "\u202e" not in shown


async def test_a_private_authority_is_trusted_where_it_is_named(lite: Station, tmp_path: Path):
    """Over TLS a certificate that nobody knows is refused, with what to do; --ca-file has it trusted."""
    authority = Authority.open(tmp_path / "authority")
    app = web.Application()
    app.router.add_get("/{path:.*}", Flickering().answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.server_context()).start()
        said = ("operators", "--relay", f"https://localhost:{runner.addresses[0][1]}")
        token = ("--token-file", str(lite.token_file()))
        refused = await lite.plainly(*said, *token, "jobs", "list")
        trusted = await lite.plainly(*said, *token, "--ca-file", str(authority.ca_file), "jobs", "list")
        unusable = await lite.plainly(*said, *token, "--ca-file", str(tmp_path / "token"), "jobs", "list")
    finally:
        await runner.cleanup()
    assert (refused.exit_code, "its certificate is not trusted here; --ca-file FILE" in refused.stderr) == (3, True)
    assert (trusted.exit_code, trusted.stderr) == (0, "0 of 0\n")
    assert (unusable.exit_code, "cannot be used" in unusable.stderr) == (3, True)
