"""Looking at submissions and acting on them from a terminal, against a relay that runs."""

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.operators.conftest import Station, lines, seated
from tests.support.specialist import acknowledge

SUBMISSIONS = ("submissions", "list")


async def test_a_stuck_submission_is_found_read_and_sent_again(station: Station):
    """Filters find it, its story says what came back, a retry has it saved, and the audit log says why."""
    await station.rated("t1")
    owner, submission = await station.rated("t2", 503, comment="The unit is WRONG", rating="down")
    found = await station.run(*SUBMISSIONS, "--state", "pending", "--search", "wrong", "--rating", "down", "--json")
    [one] = lines(found)
    assert (one["owner"], one["id"], one["taskId"]) == (owner, submission, "t2")
    story = await station.run("submissions", "show", owner, submission)
    assert re.search(r"^comment +The unit is WRONG$", story.stdout, re.MULTILINE)
    assert re.search(r"^1 .* retry \(may have been received\) +server_error +503 ", story.stdout, re.MULTILINE)
    station.specialist.behave = acknowledge
    retried = await station.run("submissions", "retry", owner, submission, "--why", "it is back")
    assert (retried.exit_code, retried.stdout) == (0, "made due: pending\n")
    await station.relay.until(submission, "saved")
    told = await station.run("audit", "list", "--target", f"{owner}/{submission}", "--json")
    assert [(entry["action"], entry["why"]) for entry in lines(told)] == [("submission.retry", "it is back")]
    again = await station.run("submissions", "retry", owner, submission, "--why", "once more")
    assert (again.exit_code, again.stdout) == (5, "")
    assert again.stderr == "relay: The submission is in state saved, which no retry can change.\n"


async def test_giving_up_and_taking_it_back(station: Station):
    """Each says what it did; what does not apply is exit code 5 and says how things stand."""
    owner, submission = await station.rated("t1", 503)
    waits = await station.run("submissions", "reopen", owner, submission, "--why", "early")
    assert (waits.exit_code, waits.stderr) == (5, "relay: it is pending: nothing was done\n")
    given_up = await station.run("submissions", "abandon", owner, submission, "--why", "no use", "--json")
    assert json.loads(given_up.stdout)["story"]["submission"]["abandonedWhy"] == "no use"
    assert (await station.run("submissions", "abandon", owner, submission, "--why", "no use")).exit_code == 5
    reopened = await station.run("submissions", "reopen", owner, submission, "--why", "of use after all")
    assert reopened.stdout == "reopened: abandoned → pending\n"


async def test_lists_are_paged_and_tables_are_not_cut(station: Station):
    """--limit and --all go from page to page; in a pipe a row is one line, with every id in full."""
    for number in range(3):
        await station.rated(f"t{number}")
    some = await station.run(*SUBMISSIONS, "--limit", "2")
    assert some.stderr == "2 of 3; --all shows all of them\n"
    header, *rows = some.stdout.splitlines()
    assert header.split() == ["created", "agent", "task", "rating", "state", "attempts", "last", "next", "owner", "id"]
    assert [len(row.split()[-1]) for row in rows] == [36, 36]
    everything = await station.run(*SUBMISSIONS, "--all", "--json")
    assert [one["taskId"] for one in lines(everything)] == ["t2", "t1", "t0"]


async def test_a_list_of_many_pages_comes_whole(station: Station):
    """More than the API gives at once, by its cursors: none is left out, and none comes twice."""
    await station.rated("t-0")
    await station.relay.change(
        "INSERT INTO audit_log (at, tenant, actor, action, target) SELECT 1, 'acme', 'somebody', 'made.up', 'x' FROM "
        "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250) SELECT i FROM n) AS many"
    )
    everything = await station.run("audit", "list", "--action", "made.up", "--all", "--json")
    assert len(lines(everything)) == 250
    assert (await station.run("audit", "list", "--action", "made.up", "--limit", "120")).stderr.startswith("120 of 250")


async def test_times_are_shown_in_the_readers_zone(lite: Station):
    """Tables in --zone, JSON as the API has it."""
    await lite.rated("t1")
    [one] = lines(await lite.run(*SUBMISSIONS, "--json"))
    shown = await lite.run(*SUBMISSIONS, before=("--zone", "Asia/Tokyo"))
    assert one["createdAt"].endswith("Z")
    assert "+09:00" in shown.stdout
    assert one["createdAt"][:13].replace("T", " ") not in shown.stdout


async def test_nothing_that_somebody_wrote_moves_the_cursor(lite: Station):
    """What a terminal would obey is shown as a mark, and escaped in JSON, which still says the same."""
    nasty = "nice\x1b[2J\x9b31m \u202eevil"
    owner, submission = await lite.rated("t1", comment=nasty)
    table = await lite.run("submissions", "show", owner, submission)
    document = await lite.run("submissions", "show", owner, submission, "--json")
    for printed in (table.stdout, document.stdout):
        assert not {"\x1b", "\x9b", "\u202e"} & set(printed)
    assert json.loads(document.stdout)["submission"]["comment"] == nasty


async def test_many_are_counted_first_then_done_and_followed(station: Station):
    """Without --yes nothing happens; with it a job is followed to its end, and is found among the jobs."""
    for number in range(3):
        await station.rated(f"t{number}", 503)
    station.specialist.behave = acknowledge
    wanted = ("submissions", "bulk-retry", "--state", "pending", "--agent", "literature")
    counted = await station.run(*wanted)
    assert counted.stdout.startswith("3 submissions fit. Nothing was done.\n")
    assert re.search(r"^made due +3 *$", counted.stdout, re.MULTILINE)
    assert lines(await station.run("jobs", "list", "--json")) == []
    assert (await station.run(*wanted, "--yes")).exit_code == 2
    done = await station.run(*wanted, "--yes", "--why", "it is back", "--json")
    job = json.loads(done.stdout)
    assert (done.exit_code, job["state"], job["examined"], job["results"]) == (0, "finished", 3, {"made_due": 3})
    assert done.stderr.splitlines()[-1] == "finished: 3 of 3"
    [listed] = lines(await station.run("jobs", "list", "--state", "finished", "--json"))
    assert (listed["id"], listed["why"]) == (job["id"], "it is back")
    ended = await station.run("jobs", "cancel", job["id"])
    assert (ended.exit_code, "finished" in ended.stderr) == (5, True)
    assert (await station.run("jobs", "follow", job["id"])).exit_code == 0


async def test_an_interrupted_follower_leaves_the_job_running(tmp_path: Path, sqlite_database_url: str):
    """Ctrl-C ends what follows with 130 and how to go on; a canceled job ends its follower with 1."""
    async with seated(tmp_path, sqlite_database_url, worker=False) as station:
        await station.rated("t1", 503)
        wanted = ("submissions", "bulk-abandon", "--yes", "--why", "enough")
        unmeant = await station.run(*wanted)
        assert (unmeant.exit_code, "say --everything" in unmeant.stderr) == (2, True)
        wanted = (*wanted, "--everything")
        job = json.loads((await station.run(*wanted, "--no-follow", "--json")).stdout)
        follow = ("operators", "--relay", station.url, "--token-file", str(station.token_file()), "jobs", "follow")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "relay", *follow, job["id"]), stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        assert await process.stderr.readline() == b"waiting: 0 of 1\n"
        process.send_signal(signal.SIGINT)
        rest = await process.stderr.read()
        assert await process.wait() == 130
        assert f"relay operators jobs follow {job['id']}".encode() in rest
        assert (await station.run("jobs", "show", job["id"])).exit_code == 0
        following = asyncio.ensure_future(station.run("jobs", "follow", job["id"], "--json"))
        canceled = await station.relay.call(
            "POST", f"/api/operator/jobs/{job['id']}/cancel", token=station.relay.token("olga", "operator:write")
        )
        assert canceled.status == 200
        followed = await following
        assert (followed.exit_code, json.loads(followed.stdout)["state"]) == (1, "canceled")


async def test_odd_tasks_figures_and_what_was_done_are_shown(station: Station):
    """The lists that nobody acts on from here, and the figures in the reader's days."""
    await station.rated("shared")
    await station.relay.record("shared", sub="bob")
    await station.relay.record("endless", status="running")
    await station.relay.change("UPDATE provenance SET created_at = 1 WHERE task = 'endless'")
    [contested] = lines(await station.run("tasks", "contested", "--json"))
    assert (contested["taskId"], len(contested["claimants"])) == ("shared", 2)
    assert "shared" in (await station.run("tasks", "contested")).stdout
    [endless] = lines(await station.run("tasks", "long-running", "--agent", "literature", "--json"))
    assert endless["taskId"] == "endless"
    assert "endless" in (await station.run("tasks", "long-running")).stdout
    figures = await station.run("analytics", "--by", "day", "--json", before=("--zone", "Asia/Tokyo"))
    answer = json.loads(figures.stdout)
    assert (answer["scope"], answer["zone"], answer["total"]["up"]) == ("all", "Asia/Tokyo", 1)
    assert "100.0% (20.7% to 100.0%)" in (await station.run("analytics")).stdout


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("submissions", "show", "ok_nobody", "0b5a1f6e-0f5c-4a53-9a3e-0d8f3f2b7c11"), 4, "no submission"),
        (("submissions", "retry", "ok_nobody", "x", "--why", "y"), 4, "no submission"),
        (("submissions", "retry", "ok_nobody", "x"), 2, "say --why"),
        (("submissions", "list", "--state", "lost"), 2, "--state"),
        (("submissions", "list", "--since", "2026-03-01T09:30:00"), 2, "since: give a time with its zone"),
        (("jobs", "show", "none"), 4, "no job"),
        (("agents", "show", "nobody"), 4, "No agent"),
        (("agents", "approve", "literature", "9", "--why", "y"), 4, "no version"),
        (("analytics", "--agent", ""), 2, "agent"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
async def test_a_refusal_says_what_is_wrong_and_ends_with_its_code(
    lite: Station, command: tuple[str, ...], code: int, said: str
):
    """On stderr, nothing on stdout, and an exit code for a script to branch on."""
    refused = await lite.run(*command)
    assert (refused.exit_code, refused.stdout) == (code, "")
    assert said in refused.stderr


async def test_who_may_not_who_is_nobody_and_who_is_not_there(lite: Station):
    """A token without the scope is 6, no sign-in or a bad token 7, a relay that is away 3."""
    owner, submission = await lite.rated("t1", 503)
    reader = await lite.run("submissions", "retry", owner, submission, "--why", "y", scope="operator:read")
    assert (reader.exit_code, "operator:write" in reader.stderr) == (6, True)
    nobody = await lite.plainly("operators", "--relay", lite.url, *SUBMISSIONS)
    assert (nobody.exit_code, nobody.stderr) == (
        7,
        f"relay: nobody is signed in at {lite.url}: relay operators login\n",
    )
    bad = lite.token_file()
    bad.write_text("not.a.token")
    refused = await lite.plainly("operators", *SUBMISSIONS, RELAY_URL=lite.url, RELAY_TOKEN_FILE=str(bad))
    assert (refused.exit_code, "relay operators login" in refused.stderr) == (7, True)
    away = await lite.plainly("operators", "--relay", "http://127.0.0.1:9", "--token-file", str(bad), *SUBMISSIONS)
    assert (away.exit_code, away.stderr) == (3, "relay: http://127.0.0.1:9 cannot be reached: Connection refused\n")
    plain = await lite.plainly(
        "operators", "--relay", "http://relay.example.org", "--token-file", str(bad), *SUBMISSIONS
    )
    assert (plain.exit_code, "has to be https" in plain.stderr) == (2, True)
    secret = await lite.plainly("operators", "--relay", "https://olga:secret@relay.example.org", *SUBMISSIONS)
    assert (secret.exit_code, "without a user" in secret.stderr, "secret" in secret.stderr) == (2, True, False)
    absent = await lite.plainly("operators", "--relay", lite.url, "--token-file", f"{bad}.absent", *SUBMISSIONS)
    assert (absent.exit_code, "cannot be read: No such file" in absent.stderr) == (3, True)
    unsaid = await lite.plainly("operators", *SUBMISSIONS)
    assert (unsaid.exit_code, "which relay?" in unsaid.stderr) == (2, True)


async def test_no_token_is_ever_shown(lite: Station):
    """Not in what is printed, nor in a log, whatever goes wrong."""
    token = lite.token_file("operator:read").read_text().strip()
    signature = token.rpartition(".")[2]
    printed = ""
    for command in (
        SUBMISSIONS,
        ("agents", "hold", "literature", "--why", "y"),
        ("jobs", "show", "x"),
        ("watch", "--count", "1"),
    ):
        arguments = ("operators", "--relay", lite.url, "--token-file", str(lite.directory / "token"), *command)
        result = await lite.plainly(*arguments)
        printed += result.stdout + result.stderr
    assert "Traceback" not in printed
    assert signature not in printed + lite.log.text
