"""A Workbench's page in a real browser, beside a real relay: what people see of their ratings."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from aiohttp import web
from playwright.async_api import Browser, BrowserContext, Locator, Page, Request

from tests.support.gateway import Gateway, small_world
from tests.support.specialist import Specialist

CHROMIUM_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

HTML = """<!doctype html>
<html lang="{lang}"{direction}>
<head>
<meta charset="utf-8"><title>Workbench</title>
<style nonce="{nonce}">
:root {{ color-scheme: light dark; background: Canvas; color: CanvasText; font-family: "DejaVu Sans", sans-serif; }}
body {{ margin: 1rem; max-inline-size: 40rem; }}
specialist-feedback {{ margin-block: 1rem; }}
</style>
{module}
</head>
<body>
<main><h1>Conversation</h1>{markup}</main>
<script nonce="{nonce}">
window.told = [];
window.addEventListener("feedback-state", (event) => window.told.push(event.detail));
for (const one of document.querySelectorAll("specialist-feedback:not([bare])")) one.getToken = () => window.token();
{script}
</script>
</body>
</html>
"""


class Site:
    """Serves the Workbench's pages under a policy that allows the relay's script and calls, and nothing else."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, dict[str, str]]] = {}
        self.origin = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{name}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.origin = f"http://localhost:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def add(self, html: str, headers: dict[str, str]) -> str:
        name = secrets.token_hex(4)
        self.pages[name] = (html, headers)
        return f"{self.origin}/{name}"

    async def _serve(self, request: web.Request) -> web.Response:
        if request.match_info["name"] not in self.pages:
            return web.Response(status=204)
        html, headers = self.pages[request.match_info["name"]]
        return web.Response(text=html, content_type="text/html", headers=headers)


class Workbench:
    """Opens pages with widgets in them; ``tokens`` is what each person's page gets from ``getToken``."""

    def __init__(self, relay: Gateway, specialists: dict[str, Specialist], site: Site, browser: Browser) -> None:
        self.relay = relay
        self.specialists = specialists
        self.errors: list[str] = []
        """Whatever reached the page as an error or an unhandled rejection."""
        self.warnings: list[str] = []
        """What the console was told in warnings."""
        self.asked: list[str] = []
        """The requests to the relay, as method and path."""
        self._site = site
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._tokens: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.relay.port}"

    @property
    def literature(self) -> Specialist:
        return self.specialists["literature"]

    def token_of(self, sub: str) -> str:
        return self._tokens.setdefault(sub, self.relay.token(sub))

    def sign_in(self, instead_of: str, sub: str, **claims: Any) -> None:
        """From now on the pages of one person get the tokens of another, or their own with other claims."""
        self._tokens[instead_of] = self.relay.token(sub, **claims)

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()

    async def context(self, sub: str = "alice", **options: Any) -> BrowserContext:
        """A browser of its own, with a storage of its own, in which ``sub`` is signed in."""
        context = await self._browser.new_context(viewport={"width": 640, "height": 480}, **options)
        context.set_default_timeout(20_000)
        self._contexts.append(context)
        await context.expose_function("token", lambda: self.token_of(sub))
        return context

    async def open(
        self, markup: str = "", *, context: BrowserContext | None = None, lang: str = "en", script: str = "", **at: str
    ) -> Page:
        """A page with these widgets, or with one of answer a1 that sends without time to undo.

        ``at`` are attributes of that one.
        """
        context = context or await self.context()
        page = await context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: message.type == "warning" and self.warnings.append(message.text))
        page.on("request", self._note)
        await page.goto(self.add(markup or self.widget(**at), lang=lang, script=script))
        return page

    def widget(self, **attributes: str) -> str:
        values = {"relay": self.url, "answer": "a1", "undo-seconds": "0", "poll-seconds": "1"}
        values |= {name.replace("_", "-"): value for name, value in attributes.items()}
        written = " ".join(f'{name}="{value}"' for name, value in values.items() if value is not None)
        return f"<specialist-feedback {written}></specialist-feedback>"

    def add(self, markup: str, *, lang: str = "en", script: str = "") -> str:
        nonce = secrets.token_urlsafe(12)
        html = HTML.format(
            lang=lang,
            direction=' dir="rtl"' if lang == "ar" else "",
            nonce=nonce,
            module=f'<script type="module" src="{self.url}/ui/specialist-feedback.js"></script>',
            markup=markup,
            script=script,
        )
        policy = (
            f"default-src 'none'; script-src {self.url} 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
            f"connect-src {self.url}; require-trusted-types-for 'script'"
        )
        return self._site.add(html, {"Content-Security-Policy": policy})

    def _note(self, request: Request) -> None:
        if request.url.startswith(f"{self.url}/api/"):
            self.asked.append(f"{request.method} {request.url.removeprefix(self.url)}")

    def posts(self) -> int:
        return sum(asked == "POST /api/feedback" for asked in self.asked)

    async def stored(self) -> list[dict[str, Any]]:
        """The submissions, as the database has them."""
        return await self.relay.rows(
            "SELECT s.id, s.agent, s.task, s.rating, s.comment FROM submissions s ORDER BY s.seq"
        )


def state(page: Page, name: str) -> Locator:
    """Where a rating's state is said, while it is this one."""
    return page.locator(f"[part~=state][part~={name}]")


@asynccontextmanager
async def workbench(directory: Path, database_url: str, browser: Browser, **settings: Any) -> AsyncIterator[Workbench]:
    """A relay that knows the Workbench's origin, its specialists, and a browser beside them."""
    async with (
        Site() as site,
        small_world(directory, database_url, origins=f'["{site.origin}"]', **settings) as (relay, specialists),
    ):
        bench = Workbench(relay, specialists, site, browser)
        try:
            yield bench
        finally:
            await bench.close()
    assert bench.errors == [], "the page was disturbed"
