"""Signing in to the console with a real browser: its cookies, its rules for forms, its script."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, ViewportSize, expect

from relay.clock import SystemClock
from tests.support.console import World, world

SMALL: ViewportSize = {"width": 360, "height": 640}

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def console(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[World]:
    async with world(tmp_path, sqlite_database_url, SystemClock()) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session", params=[True, False], ids=["scripts", "no-scripts"])
async def page(console: World, browser: Browser, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    context = await browser.new_context(
        base_url=console.url,
        java_script_enabled=request.param,
        timezone_id="Asia/Tokyo",
        viewport=SMALL,
    )
    page = await context.new_page()
    refused: list[str] = []
    page.on("console", lambda line: refused.append(line.text) if "Content Security Policy" in line.text else None)
    yield page
    assert refused == []
    await context.close()


async def sign_in(page: Page, person: str = "Operator") -> None:
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_role("button", name=person).click()


async def test_in_and_out(page: Page) -> None:
    """In with three clicks and out with one; Chromium takes the cookies from loopback, and the forms of the page."""
    await page.goto("/console/account")
    await sign_in(page)
    await expect(page.get_by_role("heading", name="Operator")).to_be_visible()
    kept = {cookie["name"]: cookie for cookie in await page.context.cookies()}
    session = kept["__Host-relay-console"]
    assert (session["secure"], session["httpOnly"], session["sameSite"]) == (True, True, "Lax")
    assert "__Host-relay-console-sign-in" not in kept
    await page.get_by_role("button", name="Sign out everywhere").click()
    await expect(page.get_by_role("status")).to_have_text("You are signed out everywhere: 1 session ended.")
    await page.goto("/console/account")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_no_operator(page: Page) -> None:
    """Who is no operator is told so, and can sign in as somebody else."""
    await page.goto("/console")
    await sign_in(page, "Alice")
    await expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    await page.get_by_role("link", name="Sign in again").click()
    await page.get_by_role("button", name="Operator").click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()


async def test_accessible_and_in_the_readers_zone(console: World, browser: Browser) -> None:
    """Axe finds nothing in light or dark; the times are Tokyo's, with UTC in the title; ? tells the keys."""
    for scheme in ("light", "dark"):
        context = await browser.new_context(
            base_url=console.url, timezone_id="Asia/Tokyo", color_scheme=scheme, viewport=SMALL
        )
        page = await context.new_page()
        await page.goto("/console/account")
        assert (await Axe().run(page)).response["violations"] == []
        await sign_in(page)
        shown = page.locator("time").first
        await expect(shown).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
        hours = [int(text[11:13]) for text in (await shown.inner_text(), await shown.get_attribute("title") or "")]
        assert (hours[0] - hours[1]) % 24 == 9
        assert (await Axe().run(page)).response["violations"] == []
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_contain_text("next, previous row")
        assert (await Axe().run(page)).response["violations"] == []
        await page.keyboard.press("Escape")
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        await context.close()
