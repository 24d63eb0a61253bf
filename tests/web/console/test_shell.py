"""What pages are written with: refusals as pages, messages that are shown once, fragments alone."""

from collections.abc import AsyncIterator

import aiohttp
import aiohttp_jinja2
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from jinja2 import DictLoader

from relay.errors import FieldProblem, Refusal
from relay.http import problems
from relay.identity.model import OperatorScope, Principal
from relay.web.console import headers, templating
from relay.web.console.shell import Pages, render, see_other
from relay.web.console.templating import NavigationItem
from relay.web.console.visits import VISITS, SignInNeeded, Visit

Http = aiohttp.ClientSession  # noqa: TID251 - a browser, not the relay

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
TEMPLATES = {
    "list.html": '{% extends "base.html" %}{% block title %}List{% endblock %}{% block main %}<h1>List</h1>'
    '{% block open_tasks %}<p id="open-tasks">{{ comment }} {{ at | instant }}</p>{% endblock %}{% endblock %}'
}

pages = Pages()


@pages.get("/list", name="list", nav="List")
async def show(request: web.Request, visit: Visit) -> web.StreamResponse:
    return render(request, visit, "list.html", {"comment": "<script>alert(1)</script>", "at": 1_800_000_000_000})


@pages.post("/list", name="change")
async def change(request: web.Request, _visit: Visit) -> web.StreamResponse:
    return see_other(request, "/console/list", 'Done: "1 < 2" ✓')


@pages.get("/gone", name="gone")
async def gone(_request: web.Request, _visit: Visit) -> web.StreamResponse:
    errors = (FieldProblem("/why", "say <b>why</b>"),)
    raise Refusal("not_retryable", "It is <saved>.", errors=errors, headers={"Retry-After": "3"})


@pages.get("/broken", name="broken")
async def broken(_request: web.Request, _visit: Visit) -> web.StreamResponse:
    raise RuntimeError("quoted-secret")


class Everybody:
    """Lets everybody in as Olga, but nobody to pages for writing without a header."""

    async def of(self, request: web.Request, scope: OperatorScope) -> Visit:
        if scope == "operator:write" and "X-Signed-In" not in request.headers:
            raise SignInNeeded("Your session has ended.")
        return Visit(principal=OLGA, name="Olga & co", csrf="c-1")


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    app = web.Application(middlewares=[problems.middleware])
    app[VISITS] = Everybody()
    navigation = [NavigationItem("Overview", "/console"), NavigationItem("List", "/console/list")]
    templating.set_up(app, public_url="", issuer="https://login.example.org", navigation=navigation)
    env = aiohttp_jinja2.get_env(app)
    assert isinstance(env.loader, DictLoader)
    env.loader = DictLoader({**env.loader.mapping, **TEMPLATES})
    app.on_response_prepare.append(headers.protect)
    app.add_routes([page.route() for page in pages])
    async with TestServer(app) as server:
        jar = aiohttp.CookieJar(unsafe=True, treat_as_secure_origin=[server.make_url("/").origin()])
        async with Http(server.make_url("/"), cookie_jar=jar) as session:
            yield session


async def test_a_page(http: Http) -> None:
    """Everything is escaped, the navigation knows where it is, and an instant is one for machines as for eyes."""
    text = await (await http.get("/console/list")).text()
    assert "&lt;script&gt;alert(1)" in text
    assert "Olga &amp; co" in text
    assert text.count("aria-current") == 1
    assert '<a href="/console/list" aria-current="page">List</a>' in text
    shown = '<time datetime="2027-01-15T08:00:00.000Z" title="2027-01-15 08:00:00 UTC">2027-01-15 08:00:00 UTC</time>'
    assert shown in text


async def test_a_fragment(http: Http) -> None:
    """The block of the fragment's name alone; where there is none, the page as a whole."""
    text = await (await http.get("/console/list", headers={"X-Fragment": "open-tasks"})).text()
    assert text.startswith('<p id="open-tasks">')
    assert text.endswith("</p>")
    assert "<h1>" in await (await http.get("/console/list", headers={"X-Fragment": "others"})).text()


async def test_a_message_is_shown_once(http: Http) -> None:
    """On the page that one is led to, as text, and not on the next."""
    done = await http.post("/console/list", headers={"X-Signed-In": "yes"})
    assert done.url.path == "/console/list"
    assert "Done: &#34;1 &lt; 2&#34; ✓" in await done.text()
    assert "Done" not in await (await http.get("/console/list")).text()


async def test_a_refusal_is_a_page(http: Http) -> None:
    """With the API's status, title and advice, all of it text."""
    answer = await http.get("/console/gone")
    text = await answer.text()
    assert (answer.status, answer.content_type, answer.headers["Retry-After"]) == (409, "text/html", "3")
    assert "<h1>This submission cannot be retried in its state</h1>" in text
    assert "It is &lt;saved&gt;." in text
    assert "say &lt;b&gt;why" in text


async def test_a_fault_is_a_page(http: Http) -> None:
    """With a reference, and without what went wrong."""
    answer = await http.get("/console/broken")
    assert (answer.status, answer.content_type) == (500, "text/html")
    assert "quoted-secret" not in await answer.text()


async def test_who_is_not_signed_in(http: Http) -> None:
    """A form says so where it is: it cannot be sent again by itself."""
    answer = await http.post("/console/list", allow_redirects=False)
    assert answer.status == 401
    text = await answer.text()
    assert "Your session has ended." in text
    assert "next=%2Fconsole&#34;" in text or 'next=%2Fconsole"' in text
