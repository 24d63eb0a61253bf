"""The console's pages in a real browser: what operators do there, with a mouse, with keys alone, without scripts."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.support.consoled import Consoled, consoled
from tests.support.specialist import Held, acknowledge, answering

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCS = Path(__file__).parents[2] / "docs" / "console"
DESKTOP: ViewportSize = {"width": 1100, "height": 700}
KEPT = ("overview", "overview-dark", "submissions", "submission", "agent")
NARROW: ViewportSize = {"width": 360, "height": 640}
WIDE: ViewportSize = {"width": 1440, "height": 900}
SCRIPT = "<script>document.title = 'taken over'</script>"
EVERY_RULE = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "rules": {"target-size": {"enabled": True}},
}


@pytest_asyncio.fixture(loop_scope="session")
async def relay(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[Consoled]:
    async with consoled(tmp_path, sqlite_database_url) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def page(relay: Consoled, browser: Browser) -> AsyncIterator[Page]:
    async with signed_in(relay, browser) as page:
        yield page


@asynccontextmanager
async def signed_in(relay: Consoled, browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """An operator's page; whatever its policy had to refuse is a failure."""
    context: BrowserContext = await browser.new_context(base_url=relay.url, **{"viewport": DESKTOP, **options})
    page = await context.new_page()
    wrong: list[str] = []
    page.on("console", lambda line: wrong.append(line.text) if "Content Security Policy" in line.text else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    await page.goto("/console")
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_role("button", name="Operator").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    try:
        yield page
        assert wrong == []
    finally:
        await context.close()


async def stuck(relay: Consoled) -> dict[str, Any]:
    """Some ratings that are saved, and one that its specialist did not take while it was away."""
    for n in range(3):
        await relay.rate(f"fine-{n}", comment=f"Number {n} was right", rating="down" if n else "up")
    relay.specialists["literature"].behave = answering(503, {"error": f"away {SCRIPT}"})
    rated = await relay.rate("stuck", comment=f"The dose is wrong {SCRIPT}", rating="down")
    assert rated["state"] == "exhausted"
    return rated


def now(page: Page) -> Any:
    """Where a submission's page says its state."""
    return page.locator("#submission-state .state")


async def up_to_date(page: Page, fragments: int) -> None:
    """Return once the page has got what happened while it was on its way: what comes later it is told of."""
    fetched = "performance.getEntriesByType('resource').filter((each) => each.initiatorType === 'fetch').length"
    # Playwright's own waiting evaluates text within the page, which the policy does not allow.
    while await page.evaluate(fetched) < fragments:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def test_a_stuck_submission_is_found_retried_and_seen_saved_without_a_reload(relay: Consoled, page: Page):
    """By words of its comment, a script among them shows as text; the state changes on the page that stays open."""
    rated = await stuck(relay)
    held = relay.specialists["literature"].behave = Held()
    await page.get_by_role("link", name="Submissions").click()
    await page.get_by_label("Search in comments").fill("dose is wrong <script>")
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_text("1 submission", exact=False).first).to_be_visible()
    await expect(page.locator("td.comment")).to_have_text(f"The dose is wrong {SCRIPT}")
    await page.get_by_role("link", name=rated["id"][:8]).click()
    await expect(page.get_by_text(SCRIPT, exact=False)).to_have_count(3)
    await page.get_by_label("Reason").fill("the specialist is back")
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("status")).to_contain_text("It starts a new schedule")
    await page.evaluate("window.stayed = true")
    await up_to_date(page, 3)
    await expect(now(page)).to_have_text("sending")
    held.let_go()
    await expect(now(page)).to_have_text("saved")
    await expect(page.locator("#submission-timeline")).to_contain_text("attempt 2: saved, HTTP 201")
    await expect(page.locator("#submission-actions")).to_contain_text("There is nothing to do.")
    assert await page.evaluate("window.stayed")
    assert await page.title() == f"Submission {rated['id'][:8]} · Feedback relay"


async def test_without_scripts(relay: Consoled, browser: Browser):
    """The same with forms and links alone: what has changed shows when the page is opened again."""
    rated = await stuck(relay)
    relay.specialists["literature"].behave = acknowledge
    async with signed_in(relay, browser, java_script_enabled=False) as page:
        await page.get_by_role("link", name="Submissions").click()
        await page.get_by_label("State").select_option("exhausted")
        await page.get_by_role("button", name="Show").click()
        await page.get_by_role("link", name=rated["id"][:8]).click()
        await page.get_by_label("Reason").fill("the specialist is back")
        await page.get_by_role("button", name="Retry").click()
        await expect(page.get_by_role("status")).to_contain_text("now it is pending")
        await relay.reached(rated["id"], "saved")
        await page.goto(page.url)
        await expect(now(page)).to_have_text("saved")
        await expect(page.locator("time").first).to_contain_text("UTC")


async def test_by_keyboard_alone(relay: Consoled, page: Page):
    """From the overview to a retry: the skip link, / for the search, j to the row, Enter, Tab to the form."""
    rated = await stuck(relay)
    relay.specialists["literature"].behave = acknowledge
    await page.goto("/console/submissions")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("/")
    await page.keyboard.type("dose")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**q=dose*")
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name=rated["id"][:8])).to_be_focused()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/{rated['id']}")
    reason = page.get_by_label("Reason")
    for _ in range(20):
        if await reason.evaluate("(field) => field === document.activeElement"):
            break
        await page.keyboard.press("Tab")
    await page.keyboard.type("it is back")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("It starts a new schedule")
    await expect(now(page)).to_have_text("saved")


async def test_many_at_once(relay: Consoled, page: Page):
    """Counted, confirmed, and followed to the end on a page that nobody reloads."""
    await stuck(relay)
    await relay.rate("stuck-2", rating="down")
    relay.specialists["literature"].behave = acknowledge
    await page.goto("/console/submissions?state=exhausted")
    await page.get_by_role("link", name="Retry all").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Retry 2 submissions?")
    await page.get_by_label("Reason").fill("the specialist is back")
    await page.get_by_role("button", name="Retry them").click()
    await expect(page.locator("#job-progress .state")).to_have_text("finished")
    await expect(page.locator("#job-progress")).to_contain_text("2 of 2")
    await page.goto("/console/submissions?state=saved")
    await expect(page.locator(".total")).to_have_text("5 submissions, newest first")


async def test_what_somebody_looks_at_stays(relay: Consoled, browser: Browser):
    """A table that was opened and scrolled is so after the page has brought itself up to date, and keeps the focus."""
    await relay.call("POST", "/api/operator/agents/literature/hold", {"why": "they are moving"}, user="operator")
    await relay.rate("held")
    async with signed_in(relay, browser, viewport=NARROW) as page:
        opener = page.get_by_text("Backlog as a table")
        await opener.focus()
        await page.keyboard.press("Enter")
        table = page.get_by_role("region", name="Backlog by agent")
        await table.evaluate("(region) => { region.scrollLeft = 40 }")
        await up_to_date(page, 1)
        await relay.rate("fine", agent="chemistry")
        await expect(page.locator(".numbers > div", has_text="Saved in the last hour")).to_contain_text("1")
        await expect(table).to_be_visible()
        assert await table.evaluate("(region) => region.scrollLeft") == 40
        await expect(opener).to_be_focused()


async def test_accessible_and_narrow_on_every_page(relay: Consoled, browser: Browser, tmp_path: Path):
    """Axe finds nothing in light and in dark, and nothing is wider than the window. Pictures are taken on the way."""
    keep = os.environ.get("RELAY_TEST_KEEP_SCREENSHOTS")  # noqa: TID251 - a switch of the tests
    pages = await stage(relay)
    for scheme in ("light", "dark"):
        async with signed_in(relay, browser, color_scheme=scheme) as page:
            for name, address in pages.items():
                await page.goto(address)
                for details in await page.locator("main details:not([open]) > summary").all():
                    if name != "overview":
                        await details.click()
                results = await Axe().run(page, options=EVERY_RULE)
                found = [
                    (rule["id"], [node["html"] for node in rule["nodes"]]) for rule in results.response["violations"]
                ]
                assert found == [], name
                for size in (NARROW, WIDE, DESKTOP):
                    await page.set_viewport_size(size)
                    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
                shot = name if scheme == "light" else f"{name}-dark"
                if shot in KEPT:
                    await page.goto(address)
                    into = DOCS if keep else tmp_path
                    full = name == "overview"
                    await page.screenshot(path=into / f"{shot}.png", animations="disabled", scale="css", full_page=full)


async def stage(relay: Consoled) -> dict[str, str]:
    """Something on every page, by its name."""
    rated = await stuck(relay)
    relay.specialists["chemistry"].behave = answering(422, {"error": "no"})
    await relay.rate("refused", agent="chemistry")
    await relay.call("POST", "/api/operator/agents/chemistry/hold", {"why": "they are moving"}, user="operator")
    await relay.rate("held", agent="chemistry")
    await relay.call("PUT", "/api/provenance/tasks/literature/fine-0", CONTESTED, user="bob")
    proposal = {"why": "they asked for it", "limits": {"inFlight": 4}}
    await relay.call("POST", "/api/operator/agents/chemistry/proposals", proposal, user="operator")
    retry = {"kind": "retry", "filter": {"agent": "chemistry"}, "why": "once more"}
    job = await relay.call("POST", "/api/operator/jobs", retry, user="operator")
    return {
        "overview": "/console",
        "submissions": "/console/submissions",
        "submission": await relay.address(rated["id"]),
        "bulk": "/console/submissions/bulk/retry?state=exhausted",
        "agents": "/console/agents",
        "agent": "/console/agents/chemistry",
        "jobs": "/console/jobs",
        "job": f"/console/jobs/{job['id']}",
        "tasks": "/console/tasks",
        "long-running": "/console/tasks/long-running",
        "audit": "/console/audit",
        "refused": "/console/submissions?state=lost",
    }


CONTESTED = {"conversationId": "c2", "answerId": "a2", "role": "specialist", "status": "running"}
