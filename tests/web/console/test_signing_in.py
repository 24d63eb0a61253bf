"""People sign in to the console at their issuer, and nobody comes in any other way."""

from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

from tests.conftest import TurnableClock
from tests.support.console import Browser, Page, World

BEGUN = "__Host-relay-console-sign-in"


def changed(address: str, **parameters: str | None) -> str:
    """The address with other parameters; None takes one away."""
    parts = urlsplit(address)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()} | parameters
    kept = {name: value for name, value in query.items() if value is not None}
    return parts._replace(query=urlencode(kept)).geturl()


def is_outside(page: Page) -> bool:
    return page.heading == "You are not signed in" and page.status >= 400


async def sessions(console: World) -> int:
    return int((await console.rows("SELECT count(*) AS n FROM console_sessions"))[0]["n"])


async def test_sign_in(browser: Browser, console: World) -> None:
    """From the page that was wanted to the issuer and back to that page; the audit log knows of it, by no subject."""
    offered = await browser.get("/console/account?x=1")
    assert (offered.heading, offered.url.path) == ("Sign in", "/console/sign-in")
    page = await browser.sign_in(following="/console/account?x=1")
    assert (page.status, page.heading, page.url.path_qs) == (200, "Operator", "/console/account?x=1")
    [entry] = await console.rows("SELECT tenant, actor, action, target FROM audit_log WHERE action LIKE 'console%'")
    assert entry["actor"].startswith("ok_")
    assert (entry["tenant"], entry["action"], entry["target"]) == ("demo", "console.sign_in", "console")


async def test_what_the_issuer_is_asked(browser: Browser) -> None:
    """A code for this console, with PKCE, a state and a nonce that are new each time."""
    asked = [(await browser.at_the_issuer()).url.query for _ in range(2)]
    first, second = asked
    assert first["client_id"] == "console"
    assert first["redirect_uri"] == f"{browser.relay}/console/callback"
    assert (first["response_type"], first["code_challenge_method"]) == ("code", "S256")
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) >= 43
        assert first[name] != second[name]


async def test_cookies(browser: Browser) -> None:
    """The session's cookie is the browser's alone: no script, no other host, no other site's form has it."""
    callback = await browser.callback()
    answer = await browser.get(callback, follow=False)
    written = {line.partition("=")[0]: line for line in answer.headers.getall("Set-Cookie")}
    attributes = set(written["__Host-relay-console"].split("; ")[1:])
    assert attributes == {"HttpOnly", "Path=/", "SameSite=Lax", "Secure"}
    assert "Max-Age=0" in written[BEGUN]


async def test_what_is_kept(browser: Browser, console: World) -> None:
    """Neither the cookie nor a token can be read out of the database."""
    await browser.sign_in()
    cookie = browser.cookie()
    assert cookie is not None
    [row] = await console.rows("SELECT * FROM console_sessions")
    assert cookie not in str(row)
    assert b"eyJ" not in row["sealed"]
    assert "Operator" not in str(row)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "somebody-elses"},
        {"state": None},
        {"code": "made-up"},
        {"code": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"error": "access_denied", "code": None},
    ],
    ids=str,
)
async def test_an_answer_that_is_not_the_issuers(
    browser: Browser, console: World, change: dict[str, str | None]
) -> None:
    """Another state, code or issuer, or an error: a page that says so, no session, and the sign-in is over."""
    page = await browser.get(changed(await browser.callback(), **change))
    assert is_outside(page)
    assert browser.cookie() is None
    assert browser.cookie(BEGUN) is None
    assert await sessions(console) == 0


async def test_what_the_issuer_says_is_not_repeated(browser: Browser) -> None:
    """An error's code and text are the page's own words, whatever stands in the address."""
    script = "<script>alert(1)</script>"
    told = {"code": None, "error": script, "error_description": script, "error_uri": "https://evil.example"}
    page = await browser.get(changed(await browser.callback(), **told))
    assert is_outside(page)
    assert "alert(1)" not in page.text
    assert "evil.example" not in page.text


async def test_a_code_is_good_once(browser: Browser, console: World) -> None:
    """Who got hold of a used answer, and even of what the browser kept for it, is not let in."""
    callback = await browser.callback()
    begun = browser.cookie(BEGUN)
    assert begun is not None
    await browser.get(callback)
    async with console.browser() as thief:
        thief.set_cookie(begun, BEGUN)
        assert is_outside(await thief.get(callback))
        assert thief.cookie() is None


async def test_another_browsers_answer(browser: Browser, console: World) -> None:
    """An answer to one browser is nothing to another, which has begun nothing, or a sign-in of its own."""
    callback = await browser.callback()
    async with console.browser() as victim:
        assert is_outside(await victim.get(callback))
        await victim.at_the_issuer()
        assert is_outside(await victim.get(callback))
        # Not even with its own state: the code was given out for another challenge.
        own = (await victim.at_the_issuer()).url.query["state"]
        assert is_outside(await victim.get(changed(callback, state=own)))


async def test_another_nonce(browser: Browser, console: World) -> None:
    """An ID token that was made for another sign-in is refused, though its code and challenge are right."""
    chooser = await browser.at_the_issuer()
    address = changed(str(chooser.url), nonce="another")
    answer = await browser.post(address, {"person": "operator"}, follow=False)
    assert is_outside(await browser.get(answer.headers["Location"]))
    assert await sessions(console) == 0


async def test_too_late(browser: Browser, clock: TurnableClock) -> None:
    """Ten minutes are enough to sign in at the issuer."""
    chooser = await browser.at_the_issuer()
    clock.turn(601)
    answer = await browser.post(str(chooser.url), {"person": "operator"}, follow=False)
    assert is_outside(await browser.get(answer.headers["Location"]))


async def test_who_is_no_operator(browser: Browser, console: World) -> None:
    """A person without the scope of operators gets a page that says so, and no session."""
    page = await browser.sign_in("alice")
    assert (page.status, is_outside(page)) == (403, True)
    assert await sessions(console) == 0


async def test_fixation(browser: Browser, console: World) -> None:
    """A session's id is new with each sign-in, whatever the browser had before, and the former session is over."""
    browser.set_cookie("chosen-by-somebody-else")
    await browser.sign_in()
    first = browser.cookie()
    assert first not in (None, "chosen-by-somebody-else")
    chooser = await browser.get((await browser.get("/console/sign-in")).link("Sign in"))
    await browser.get(await browser.chosen(chooser))
    assert browser.cookie() not in (None, first)
    assert await sessions(console) == 1
    async with console.browser() as former:
        former.set_cookie(str(first))
        assert (await former.get("/console/account")).heading == "Sign in"


@pytest.mark.parametrize(
    "following",
    [
        "https://evil.example/console",
        "//evil.example",
        "/\\evil.example",
        "/console/../\\evil.example",
        "/console\t//evil.example",
        "javascript:alert(1)",
        "/consoles",
        "/api/feedback",
        "/console/sign-in",
        "/console/sign-out",
        "",
    ],
)
async def test_nowhere_else(browser: Browser, following: str) -> None:
    """After the sign-in one goes on within the console, wherever a link wanted to lead."""
    offered = await browser.get(f"/console/sign-in?next={quote(following, safe='')}")
    assert "evil" not in offered.text
    started = f"/console/sign-in/start?next={quote(following, safe='')}"
    chooser = await browser.get(started)
    answer = await browser.post(str(chooser.url), {"person": "operator"}, follow=False)
    landed = await browser.get(answer.headers["Location"], follow=False)
    assert landed.headers["Location"] == "/console"
