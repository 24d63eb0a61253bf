"""What the console's script adds: fragments that keep themselves up to date, and keys."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp_jinja2
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from jinja2 import DictLoader
from playwright.async_api import Browser, Page, expect

from relay.http import problems
from relay.identity.model import OperatorScope, Principal
from relay.web.console import files, headers, templating
from relay.web.console.shell import Pages, render
from relay.web.console.visits import VISITS, SignInNeeded, Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")

OLGA = Principal(
    kind="human",
    issuer="https://login.example.org",
    client="console",
    subject="olga",
    tenant="acme",
    scopes=frozenset({"operator:read"}),
    expires_at=2e9,
    token="",
)
LIST = """{% extends "base.html" %}{% block title %}List{% endblock %}{% block main %}<h1>List</h1>
<label>Search <input data-search></label>
{% block rows %}<ul id="rows" data-live="/console/stream">{% for row in rows %}
<li data-row id="row-{{ row }}"><a href="/console/list?row={{ row }}">Row {{ row }}</a></li>{% endfor %}</ul>
{%- endblock %}
{% block filling_in %}<p id="filling-in" data-live="/console/stream"><input id="why"> {{ rows | length }}</p>
{%- endblock %}
{% endblock %}"""


@dataclass
class Desk:
    """The rows that a page shows, whoever follows them, and whether they are still signed in."""

    rows: list[str]
    signed_in: bool = True
    asked: list[str] = field(default_factory=list)
    changes: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def of(self, request: web.Request, _scope: OperatorScope) -> Visit:
        self.asked.append(request.headers.get("X-Fragment", "page"))
        if not self.signed_in:
            raise SignInNeeded
        return Visit(principal=OLGA, name="Olga", csrf="c-1")


def pages_of(desk: Desk) -> Pages:
    pages = Pages()

    @pages.get("/list", name="list")
    async def show(request: web.Request, visit: Visit) -> web.StreamResponse:
        return render(request, visit, "list.html", {"rows": desk.rows})

    @pages.get("/stream", name="stream")
    async def stream(request: web.Request, _visit: Visit) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": here\n\n")
        while True:
            await response.write(f"event: {await desk.changes.get()}\ndata: x\n\n".encode())

    return pages


@pytest_asyncio.fixture(loop_scope="session")
async def desk() -> Desk:
    return Desk(rows=["one", "two"])


@pytest_asyncio.fixture(loop_scope="session")
async def page(desk: Desk, browser: Browser) -> AsyncIterator[Page]:
    app = web.Application(middlewares=[problems.middleware])
    app[VISITS] = desk
    templating.set_up(app, public_url="", issuer="https://login.example.org", navigation=[])
    env = aiohttp_jinja2.get_env(app)
    assert isinstance(env.loader, DictLoader)
    env.loader = DictLoader({**env.loader.mapping, "list.html": LIST})
    app.on_response_prepare.append(headers.protect)
    app.add_routes([page.route() for page in pages_of(desk)])
    app.add_routes([web.get("/console/static/{version}/{name}", files.answer)])
    async with TestServer(app) as server:
        context = await browser.new_context(base_url=str(server.make_url("/")))
        page = await context.new_page()
        await page.goto("/console/list")
        yield page
        await context.close()


async def test_live(desk: Desk, page: Page) -> None:
    """A change shows without a reload, the focus stays where it was, and what is being filled in is left alone."""
    await page.get_by_role("link", name="Row two").focus()
    desk.rows.insert(0, "zero")
    await desk.changes.put("change")
    await expect(page.get_by_role("link", name="Row zero")).to_be_visible()
    await expect(page.get_by_role("link", name="Row two")).to_be_focused()
    await expect(page.locator("#filling-in")).to_contain_text("3")

    await page.locator("#why").fill("because")
    desk.rows.insert(0, "first")
    await desk.changes.put("message")
    await expect(page.get_by_role("link", name="Row first")).to_be_visible()
    await expect(page.locator("#why")).to_have_value("because")
    await expect(page.locator("#filling-in")).to_contain_text("3")
    assert desk.asked.count("page") == 2  # the page itself, and its one stream


async def test_the_session_ends(desk: Desk, page: Page) -> None:
    """A page that may not be kept up to date any more says so, and offers the way back to where one was."""
    desk.signed_in = False
    await desk.changes.put("change")
    note = page.get_by_role("alert")
    await expect(note).to_contain_text("Your session has ended")
    link = note.get_by_role("link", name="Sign in again")
    await expect(link).to_have_attribute("href", "/console/sign-in?next=%2Fconsole%2Flist")
    await expect(note).to_have_count(1)


async def test_keys(page: Page) -> None:
    """Keys j and k go through the rows, Enter opens one, / searches, and letters in a field are letters."""
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name="Row one")).to_be_focused()
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name="Row two")).to_be_focused()
    await page.keyboard.press("k")
    await expect(page.get_by_role("link", name="Row one")).to_be_focused()
    await page.keyboard.press("/")
    await page.keyboard.type("jk?/")
    await expect(page.get_by_label("Search")).to_have_value("jk?/")
    await page.keyboard.press("Tab")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/console/list?row=*")
