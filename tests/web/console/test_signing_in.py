"""People sign in to the console at their issuer, and nobody comes in any other way."""

from tests.support.console import Browser, World


async def test_sign_in(browser: Browser, console: World) -> None:
    """From the page that was wanted to the issuer and back to that page; the audit log knows of it, by no subject."""
    offered = await browser.get("/console/account?x=1")
    assert (offered.heading, offered.url.path) == ("Sign in", "/console/sign-in")
    page = await browser.sign_in(following="/console/account?x=1")
    assert (page.status, page.heading, page.url.path_qs) == (200, "Operator", "/console/account?x=1")
    [entry] = await console.rows("SELECT tenant, actor, action, target FROM audit_log WHERE action LIKE 'console%'")
    assert entry["actor"].startswith("ok_")
    assert (entry["tenant"], entry["action"], entry["target"]) == ("demo", "console.sign_in", "console")
