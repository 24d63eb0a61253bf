"""Pictures of every state, in light and in dark. ``RELAY_TEST_KEEP_SCREENSHOTS=1`` puts them into docs/widget."""

import os
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from tests.support.specialist import Held, answering
from tests.support.workbench import Workbench, state

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCS = Path(__file__).parents[2] / "docs" / "widget"
STATES = (
    "ready", "several", "draft", "undo", "sending", "unsent", "waiting", "saved", "refused", "unavailable", "failed",
)  # fmt: skip


async def stage(bench: Workbench) -> str:
    """An answer for each state, and the widgets that show them."""
    relay = bench.relay
    for name in STATES:
        running = {"status": "running"} if name == "unavailable" else {}
        if name != "failed":
            await relay.record(f"task-{name}", answerId=name, **running)
    await relay.record("task-chemistry", answerId="several", agent="chemistry")
    await relay.rate("task-saved", rating="down", comment="The dose is in mg, not in g")
    await relay.change("UPDATE deliveries SET resolution = 'fixed in the next release'")
    for name, status in (("refused", 422), ("waiting", 503)):
        bench.literature.behave = answering(status)
        await relay.rate(f"task-{name}", wait="respond-async" if status == 503 else "wait=10")
    later = {"undo": "60", "unsent": "0", "sending": "0"}
    return "".join(bench.widget(answer=name, undo_seconds=later.get(name, "5")) for name in STATES)


async def picture(page: Page, name: str, scheme: str, into: Path) -> None:
    widget = page.locator(f"specialist-feedback[answer={name}]")
    await widget.screenshot(path=into / f"{name}-{scheme}.png", animations="disabled", scale="css")


async def test_pictures_of_every_state(bench: Workbench, tmp_path: Path):
    """Each is brought about for real, and looked at in both schemes."""
    page = await bench.open(await stage(bench))

    def of(name: str):
        return page.locator(f"specialist-feedback[answer={name}]")

    async def fail(route: Route) -> None:
        body = route.request.post_data_json
        await (route.abort() if body["taskId"] == "task-unsent" else route.continue_())

    await page.route("**/api/feedback", fail)
    held = bench.literature.behave = Held()
    await of("draft").get_by_role("button", name="Not helpful").click()
    await of("draft").get_by_label("Comment").fill("The unit is wrong")
    for name in ("undo", "sending", "unsent"):
        await of(name).get_by_role("button", name="Helpful", exact=True).click()
        await of(name).get_by_role("button", name="Send").click()
    for name in ("undo", "sending", "saved", "refused", "unavailable"):
        await expect(of(name).locator(f"[part~=state][part~={name}]")).to_be_visible()
    await expect(state(page, "waiting")).to_have_count(2)
    await expect(of("failed").locator("[part=message]")).to_be_visible()
    kept = DOCS if os.environ.get("RELAY_TEST_KEEP_SCREENSHOTS") else tmp_path  # noqa: TID251 - a switch of the tests
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        for name in STATES:
            await picture(page, name, scheme, kept)
    held.let_go()
    pictures = {path.name for path in kept.glob("*.png")}
    assert {f"{name}-{scheme}.png" for name in STATES for scheme in ("light", "dark")} <= pictures
