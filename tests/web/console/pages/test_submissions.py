"""Finding submissions, and doing something about one or many of them, with a browser that knows no scripts."""

import re
from html import unescape

import pytest

from tests.support.console import Browser
from tests.support.consoled import Consoled
from tests.support.specialist import acknowledge, answering

SCRIPT = "<script>alert('hello')</script>"


async def test_a_script_in_a_comment_is_text(relay: Consoled, operator: Browser):
    """In the list and on its own page, with the bytes that were sent and what came back."""
    relay.specialists["literature"].behave = answering(422, f'"{SCRIPT}"'.encode())
    rated = await relay.rate("t1", comment=SCRIPT)
    page = await operator.get("/console/submissions?q=%3Cscript%3E")
    assert "<script>alert" not in page.text
    assert page.text.count("&lt;script&gt;alert") == 1
    story = await operator.get(await relay.address(rated["id"]))
    assert "<script>alert" not in story.text
    assert story.text.count("&lt;script&gt;alert(&#39;hello") == 3


async def test_filters_chips_and_pages(relay: Consoled, operator: Browser):
    """Filters narrow the list, each has a chip that takes it out, and the pages together hold everything once."""
    for n in range(5):
        relay.specialists["chemistry"].behave = answering(503)
        await relay.rate(f"t{n}", rating="down" if n % 2 else "up", agent="chemistry" if n < 3 else "literature")
    page = await operator.get("/console/submissions?q=&state=exhausted&agent=chemistry&rating=&since=2020-01-01T09:30")
    assert "<strong>3</strong> submissions" in page.text
    chips = dict(re.findall(r'<a class="chip" href="([^"]*)" id="chip-(\w+)"', page.text))
    assert set(chips.values()) == {"state", "agent", "since"}
    without = next(address for address, name in chips.items() if name == "state")
    fewer = await operator.get(unescape(without))
    assert ("chip-state" in fewer.text, "chip-agent" in fewer.text) == (False, True)
    seen: list[str] = []
    address = "/console/submissions?limit=2"
    while address:
        page = await operator.get(address)
        assert "<strong>5</strong> submissions" in page.text
        seen += re.findall(r'<th scope="row"><a [^>]*title="([^"]*)"', page.text)
        address = page.link("Next page") if "Next page" in page.text else ""
    assert (len(seen), len(set(seen))) == (5, 5)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("state=lost", "state: "),
        ("colour=red", "colour: unknown; this resource takes state"),
        ("since=yesterday", "since: give a time with its zone"),
        ("since=0001-01-01T00:00%2B12:00", "since: no calendar of this console goes as far"),
        ("cursor=AAAA", "cursor: it does not belong to this list"),
        ("limit=0", "limit: "),
    ],
)
async def test_what_cannot_be_asked(operator: Browser, asked: str, said: str):
    """A page with status 400 names what is wrong."""
    page = await operator.get(f"/console/submissions?{asked}")
    assert (page.status, page.heading) == (400, "A parameter is out of range or unknown")
    assert said in page.text


async def test_a_cursor_is_good_for_its_own_list_alone(relay: Consoled, operator: Browser):
    """With another filter, or altered, it is refused."""
    for n in range(3):
        await relay.rate(f"t{n}")
    following = (await operator.get("/console/submissions?limit=1")).link("Next page")
    assert (await operator.get(following)).status == 200
    assert (await operator.get(f"{following}&rating=up")).status == 400
    assert (await operator.get(following.replace("cursor=", "cursor=A"))).status == 400


async def test_an_action_that_does_not_apply_any_more(relay: Consoled, operator: Browser):
    """The form of a page that is out of date meets 409 with the state now, and changes nothing; so does one twice."""
    rated = await relay.rate("t1")
    address = await relay.address(rated["id"])
    story = await operator.get(address)
    assert "There is nothing to do." in story.text
    before = await relay.world.rows("SELECT state, version FROM deliveries")
    for action in ("retry", "abandon"):
        page = await operator.post(f"{address}/{action}", {"csrf": story.csrf, "why": "why not"})
        assert (page.status, page.heading) == (409, "Nothing was done")
        assert "It is <strong>saved</strong> now." in page.text
        assert page.link("The submission as it stands now") == address
    page = await operator.post(f"{address}/retry", {"csrf": story.csrf, "why": "  "})
    assert (page.status, "Say why" in page.text) == (422, True)
    assert await relay.world.rows("SELECT state, version FROM deliveries") == before
    assert await relay.world.rows("SELECT 1 FROM audit_log WHERE action LIKE 'submission%'") == []


async def test_given_up_and_opened_again(relay: Consoled, operator: Browser):
    """What waits can be abandoned with a reason, and reopened; both stand in the audit log."""
    await relay.call("POST", "/api/operator/agents/literature/hold", {"why": "they are moving"}, user="operator")
    address = await relay.address((await relay.rate("t1"))["id"])
    story = await operator.get(address)
    assert "An operator holds the agent" in story.text
    page = await operator.post(f"{address}/abandon", {"csrf": story.csrf, "why": "<b>gone</b> for good"})
    assert "It is given up: it was held, now it is abandoned." in page.text
    assert "&lt;b&gt;gone&lt;/b&gt; for good" in page.text
    assert ">Reopen</button>" in page.text
    page = await operator.post(f"{address}/retry", {"csrf": story.csrf, "why": "they are back"})
    assert "It starts a new schedule: it was abandoned, now it is held." in page.text
    log = await operator.get("/console/audit?action=submission.abandon")
    assert "<strong>1</strong> entry" in log.text
    assert log.link(address.removeprefix("/console/submissions/")) == address


async def test_counted_first(relay: Consoled, operator: Browser):
    """The dry run counts by outcome and state and changes nothing; the job does what it said, and is audited."""
    relay.specialists["literature"].behave = answering(503)
    for n in range(3):
        await relay.rate(f"t{n}")
    relay.specialists["literature"].behave = acknowledge
    await relay.rate("t3")
    before = await relay.world.rows("SELECT state, version FROM deliveries ORDER BY id")
    page = await operator.get("/console/submissions/bulk/retry?agent=literature&q=")
    assert page.heading == "Retry 4 submissions?"
    assert "<strong>3</strong> would change" in page.text
    assert await relay.world.rows("SELECT state, version FROM deliveries ORDER BY id") == before
    job = await operator.post(
        "/console/submissions/bulk/retry?agent=literature", {"csrf": page.csrf, "why": "they are back"}
    )
    assert job.url.path.startswith("/console/jobs/")
    while ">finished<" not in job.text:
        job = await operator.get(job.url.path)
    assert "4 of 4" in job.text
    ended = await operator.post(f"{job.url.path}/cancel", {"csrf": page.csrf})
    assert (ended.status, "It is <strong>finished</strong> now." in ended.text) == (409, True)
