"""The demonstration's Workbench as a visitor meets it: in a real browser, in front of the real demonstration."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect

from relay.demo.stage import Stage, set_up
from relay.web import load
from tests.support.workbench import state

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),  # its processes start first, on whatever machine this is
]

DOCS = Path(__file__).parents[2] / "docs" / "widget"
NARROW: ViewportSize = {"width": 360, "height": 640}
MEDIUM: ViewportSize = {"width": 900, "height": 700}
WIDE: ViewportSize = {"width": 1440, "height": 900}
EVERY_RULE = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "rules": {"target-size": {"enabled": True}},
}


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with set_up(tmp_path_factory.mktemp("demo")) as stage:
        yield stage


@asynccontextmanager
async def opened(demo: Stage, browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """The Workbench in a browser of its own; whatever its policy had to refuse is a failure."""
    context = await browser.new_context(**{"viewport": MEDIUM, **options})
    page = await context.new_page()
    wrong: list[str] = []
    page.on("console", lambda line: wrong.append(line.text) if "Content Security Policy" in line.text else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    await page.goto(demo.workbench)
    yield page
    assert wrong == []
    await context.close()


async def sign_in(page: Page, person: str) -> None:
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("button", name=person).click()
    await expect(page.locator(".person")).to_have_text(person)
    await expect(thumbs(page)).to_have_count(3)


def thumbs(page: Page) -> Locator:
    return page.get_by_role("button", name="Helpful", exact=True)


def turn(page: Page, question: str) -> Locator:
    return page.locator(".turns > li").filter(has=page.get_by_role("heading", name=question))


async def kept_by(page: Page) -> dict[str, str]:
    """What the page keeps of its sign-in."""
    kept: dict[str, str] = json.loads(await page.evaluate("sessionStorage.getItem('workbench:tokens')"))
    return kept


async def wear_out(page: Page, kept: dict[str, str]) -> None:
    """From now on the page keeps this sign-in, and its access token is good for nothing."""
    worn = json.dumps({**kept, "access": "worn.out"})
    await page.evaluate("(worn) => sessionStorage.setItem('workbench:tokens', worn)", worn)


async def assert_accessible(page: Page) -> None:
    results = await Axe().run(page, options=EVERY_RULE)
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in results.response["violations"]] == []


async def assert_nothing_overflows(page: Page) -> None:
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_what_one_person_rates_is_saved_and_another_sees_nothing_of_it(demo: Stage, browser: Browser):
    """Of one contributor and of two; a reload shows it again; the next person in the same browser starts anew."""
    async with opened(demo, browser) as page:
        await sign_in(page, "Alice")
        alone = turn(page, "consensus despite a crash")
        await thumbs(alone).click()
        await alone.get_by_role("button", name="Send").click()
        together = turn(page, "how heavy is caffeine")
        chemistry = together.get_by_role("group", name="Chemistry specialist")
        await chemistry.get_by_role("button", name="Not helpful").click()
        await chemistry.get_by_label("Comment").fill("Which isotopes?")
        await chemistry.get_by_role("button", name="Send").click()
        await expect(state(page, "saved")).to_have_count(2)
        await expect(state(page, "saved").first).to_contain_text("Saved by Literature specialist.")
        assert await rated(demo, "alice") == [("chemistry", "down", "Which isotopes?"), ("literature", "up", None)]

        await page.reload()
        await expect(state(page, "saved")).to_have_count(2)
        await expect(chemistry.get_by_text("Which isotopes?")).to_be_visible()
        await picture(page)

        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="at one bench")).to_be_visible()
        await expect(page.locator(".turns > li")).to_have_count(0)
        await sign_in(page, "Bob")
        await expect(page.get_by_role("button", name="Helpful", exact=True, pressed=True)).to_have_count(0)
        await expect(state(page, "saved")).to_have_count(0)
        assert "Which isotopes?" not in await page.content()
        assert await rated(demo, "bob") == []


async def rated(demo: Stage, person: str) -> list[tuple[str, str, str | None]]:
    """What the relay has of this person, newest first."""
    answer = await demo.call("GET", f"{demo.relay}/api/feedback", token=demo.tokens[person])
    return sorted((one["agent"], one["rating"], one.get("comment")) for one in json.loads(answer.body)["items"])


async def picture(page: Page) -> None:
    """``RELAY_TEST_KEEP_SCREENSHOTS=1`` puts one into docs/widget."""
    if os.environ.get("RELAY_TEST_KEEP_SCREENSHOTS"):  # noqa: TID251 - a switch of the tests
        await page.screenshot(path=DOCS / "workbench.png", full_page=True, scale="css")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_for_everybody_on_every_screen(demo: Stage, browser: Browser, scheme: str):
    """Axe finds nothing before and after the sign-in, with tools and a comment box open; nothing overflows."""
    async with opened(demo, browser, color_scheme=scheme, viewport=NARROW) as page:
        await expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        await assert_accessible(page)
        await assert_nothing_overflows(page)
        await sign_in(page, "Bob")
        for tools in await page.get_by_text("Used 2 tools").all():
            await tools.click()
        await expect(page.get_by_text('["flp85","lamport82"]')).to_be_visible()
        await page.get_by_role("button", name="Not helpful").first.click()
        for size in (NARROW, WIDE):
            await page.set_viewport_size(size)
            await assert_nothing_overflows(page)
            await assert_accessible(page)


async def test_in_and_out_by_keyboard_alone(demo: Stage, browser: Browser):
    """Tab and Enter sign in, open what tools were used, come to the thumbs, and sign out."""
    async with opened(demo, browser) as page:
        await expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        await press(page, "Tab", "Enter")
        await expect(page.get_by_role("button", name="Alice")).to_be_visible()
        await press(page, "Tab", "Tab", "Enter")
        await expect(page.locator(".person")).to_have_text("Bob")
        await expect(thumbs(page)).to_have_count(3)
        sign_out = page.get_by_role("button", name="Sign out")
        await press(page, "Tab")
        await expect(sign_out).to_be_focused()
        await press(page, "Tab", "Enter")
        await expect(page.get_by_text('["flp85","lamport82"]')).to_be_visible()
        await press(page, "Tab")
        await expect(thumbs(page).first).to_be_focused()
        await press(page, "Shift+Tab", "Shift+Tab", "Enter")
        await expect(page.get_by_role("button", name="Sign in")).to_be_visible()


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def test_a_sign_in_is_renewed_as_long_as_the_issuer_does(demo: Stage, browser: Browser):
    """A refused token is renewed unseen; where it is not, that leads to a new sign-in, which finds the draft again."""
    async with opened(demo, browser) as page:
        await sign_in(page, "Bob")
        await wear_out(page, await kept_by(page))
        await page.reload()
        await expect(thumbs(page)).to_have_count(3)
        kept = await kept_by(page)
        assert kept["access"] != "worn.out"

        await demo.call("POST", f"{demo.issuer}/demo/revoke", body={"user": "bob"})
        try:
            await wear_out(page, kept)
            await page.get_by_role("button", name="Not helpful").first.click()
            await page.get_by_label("Comment").fill("Half a thought")
            await page.evaluate("document.querySelector('specialist-feedback').refresh()")
            await expect(page.get_by_role("status").first).to_contain_text("Your sign-in has ended.")
            await expect(page.locator(".turns > li")).to_have_count(0)
            await expect(page.get_by_role("button", name="Sign in")).to_be_focused()
            await wear_out(page, kept)
            await page.reload()
            await expect(page.get_by_role("status").first).to_contain_text("Your sign-in has ended.")
        finally:
            await demo.call("POST", f"{demo.issuer}/demo/restore", body={"user": "bob"})
        await sign_in(page, "Bob")
        await page.get_by_role("button", name="Not helpful").first.click()
        await expect(page.get_by_label("Comment")).to_have_value("Half a thought")


@pytest.mark.parametrize("wrong", [{"state": "made-up"}, {"iss": "https://login.example.org"}])
async def test_an_answer_that_was_not_asked_for_signs_nobody_in(demo: Stage, browser: Browser, wrong: dict[str, str]):
    """A code under another state, or of another issuer, is dropped, out of the address too, and redeemed nowhere."""
    async with opened(demo, browser) as page:
        redeemed: list[str] = []
        page.on("request", lambda request: redeemed.append(request.url) if "/token" in request.url else None)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("button", name="Alice")).to_be_visible()
        [asked] = parse_qs(urlsplit(page.url).query)["state"]
        await page.goto(f"{demo.workbench}/?{urlencode({'code': 'c-1', 'state': asked, 'iss': demo.issuer, **wrong})}")
        await expect(page.get_by_role("status")).to_have_text("The sign-in did not work. Try again.")
        assert page.url == f"{demo.workbench}/"
        assert redeemed == []


async def test_who_has_no_conversation_is_told_who_has(demo: Stage, browser: Browser):
    """An operator rates nothing; and who does not want to sign in finds the page as it was."""
    async with opened(demo, browser) as page:
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Operator").click()
        await expect(page.get_by_role("status")).to_contain_text("Sign in as Alice or Bob.")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Do not sign in").click()
        await expect(page.get_by_role("status")).to_have_text("You are not signed in.")
        assert await page.evaluate("sessionStorage.length") == 0


async def test_a_specialist_that_is_away_is_waited_for(demo: Stage, browser: Browser):
    """The page says that it waits, and shows the conversation by itself once the specialist is there."""
    for name in ("workbench", "chemistry"):
        await demo.servers[name].stop()
    await demo.servers["workbench"].start()
    await demo.servers["workbench"].ready_line()
    async with opened(demo, browser) as page:
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Bob").click()
        await expect(page.get_by_role("status").first).to_contain_text("not all there yet")
        await demo.servers["chemistry"].start()
        await demo.servers["chemistry"].ready_line()
        await expect(thumbs(page)).to_have_count(3)


@pytest.mark.parametrize(("who", "status"), [(None, 401), ("operator", 403), ("workbench", 403)])
async def test_the_conversation_is_for_people_who_have_signed_in(demo: Stage, who: str | None, status: int):
    """Nobody without a token, and no machine."""
    token = None if who is None else demo.tokens[who]
    answer = await demo.call("GET", f"{demo.workbench}/conversation", token=token)
    assert answer.status == status


async def test_the_page_is_what_any_page_would_be(demo: Stage):
    """It holds the element that `relay widget` prints; its policy allows nothing inline, and two neighbours."""
    answer = await demo.call("GET", f"{demo.workbench}/")
    assert load().element(demo.relay) in answer.body.decode()
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"'self' {demo.relay}"
    assert policy["style-src"] == "'self'"
    assert policy["connect-src"] == f"'self' {demo.relay} {demo.issuer}"
    assert answer.headers["cache-control"] == "no-store"


async def test_another_name_of_the_machine_leads_to_the_registered_one(demo: Stage):
    """The issuer and the relay know the page by one origin."""
    answer = await demo.call("GET", demo.workbench.replace("localhost", "127.0.0.1") + "/")
    assert (answer.status, answer.headers["location"]) == (HTTPStatus.TEMPORARY_REDIRECT, f"{demo.workbench}/")
