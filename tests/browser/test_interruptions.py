"""What comes between a press and its acknowledgement: lost answers, reloads, other tabs, other people."""

import asyncio
import json

import pytest
from playwright.async_api import BrowserContext, Page, Route, expect

from tests.support.specialist import acknowledge, answering
from tests.support.workbench import Workbench, state

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def press(page: Page, rating: str = "Helpful", comment: str = "") -> None:
    """Rate, with everything that belongs to it."""
    await page.get_by_role("button", name=rating, exact=True).click()
    await page.get_by_label("Comment").fill(comment)
    await page.get_by_role("button", name="Send").click()


async def kept(page: Page) -> dict[str, object]:
    """What the browser keeps."""
    return dict(json.loads(await page.evaluate("Object.values(localStorage)[0] ?? '{}'")))


async def test_offline_then_online(bench: Workbench):
    """Waiting, with since when, while there is no network; sent by itself when there is one."""
    await bench.relay.record("t1")
    context = await bench.context()
    page = await bench.open(context=context)
    await page.get_by_role("button", name="Helpful", exact=True).click()
    await context.set_offline(True)
    await page.get_by_role("button", name="Send").click()
    await expect(state(page, "waiting")).to_contain_text("Not sent yet, waiting since")
    await expect(state(page, "waiting")).to_contain_text("Next try:")
    before = await kept(page)
    await context.set_offline(False)
    await expect(state(page, "saved")).to_be_visible()
    assert [s["id"] for s in await bench.stored()] == [before["id"]]
    assert await kept(page) == {}


async def test_a_reload_between_the_press_and_the_answer(bench: Workbench):
    """The UUID and the payload were kept before the request: the reloaded page sends the very same."""
    await bench.relay.record("t1")
    page = await bench.open()
    asked = asyncio.Event()

    async def never(_route: Route) -> None:
        asked.set()

    await page.route("**/api/feedback", never)
    await press(page, comment="Before the reload")
    await asked.wait()
    before = await kept(page)
    assert before["comment"] == "Before the reload"
    await page.unroute_all(behavior="ignoreErrors")
    await page.reload()
    await expect(state(page, "saved")).to_be_visible()
    assert [(s["id"], s["comment"]) for s in await bench.stored()] == [(before["id"], "Before the reload")]


async def test_a_reload_while_it_can_be_undone(bench: Workbench):
    """The time to undo goes on in the reloaded page; undone there, nothing is sent."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds="60")
    await press(page, comment="Perhaps")
    await expect(state(page, "undo")).to_be_visible()
    await page.reload()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_label("Comment")).to_have_value("Perhaps")
    assert bench.posts() == 0


async def test_the_answer_is_lost_after_the_commit(bench: Workbench):
    """The same UUID is sent again, and there is one submission and one delivery."""
    await bench.relay.record("t1")
    page = await bench.open()
    lost = asyncio.Event()

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()
        lost.set()

    await page.route("**/api/feedback", lose, times=1)
    await press(page)
    await lost.wait()
    await expect(state(page, "saved")).to_be_visible()
    assert len(await bench.stored()) == len(bench.literature.posts) == 1


async def test_the_specialist_is_down_then_up(bench: Workbench):
    """Stored and waiting, never saved, until the specialist is back; then saved without a reload."""
    await bench.relay.record("t1")
    await bench.literature.stop()
    page = await bench.open()
    await press(page)
    await expect(state(page, "waiting")).to_contain_text("Stored, not delivered to Literature yet, waiting since")
    await expect(state(page, "saved")).to_have_count(0)
    await bench.literature.start()
    await expect(state(page, "saved")).to_be_visible()
    assert bench.posts() == 1


async def test_without_a_stream_changes_are_polled(bench: Workbench):
    """A proxy that breaks the stream costs a few seconds, and nothing else."""
    await bench.relay.record("t1")
    bench.literature.behave = answering(503)
    page = await bench.open()
    await page.route("**/api/feedback/events", lambda route: route.abort())
    await page.reload()
    await press(page)
    await expect(state(page, "waiting")).to_be_visible()
    bench.literature.behave = acknowledge
    await expect(state(page, "saved")).to_be_visible()


async def test_a_relay_that_is_busy_is_asked_again(bench: Workbench):
    """429 and 503 are waited out, as long as the relay says."""
    await bench.relay.record("t1")
    page = await bench.open()
    problem = json.dumps({"code": "accept_queue_full"})
    headers = {"Retry-After": "1", "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}

    async def busy(route: Route) -> None:
        await route.fulfill(status=503, body=problem, content_type="application/problem+json", headers=headers)

    await page.route("**/api/feedback", busy, times=1)
    await press(page)
    await expect(state(page, "waiting")).to_be_visible()
    await expect(state(page, "saved")).to_be_visible()
    assert len(await bench.stored()) == 1


async def test_two_tabs_send_one_and_the_same(bench: Workbench):
    """What one tab is about to send, the other shows; both end at the same submission."""
    await bench.relay.record("t1")
    context = await bench.context()
    first = await bench.open(context=context, undo_seconds="2")
    second = await bench.open(context=context, undo_seconds="2")
    await expect(second.get_by_role("button", name="Helpful", exact=True)).to_be_visible()
    await press(first, comment="From the first tab")
    await expect(state(second, "undo")).to_be_visible()
    for page in (first, second):
        await expect(state(page, "saved")).to_be_visible()
        await expect(page.get_by_text("From the first tab")).to_be_visible()
    assert len(await bench.stored()) == len(bench.literature.posts) == 1


async def test_two_tabs_that_disagree(bench: Workbench):
    """The one that comes second shows what stands, and why its own was not sent."""
    await bench.relay.record("t1")
    context = await bench.context()
    first = await bench.open(context=context, undo_seconds="60")
    second = await bench.open(context=context, undo_seconds="60")
    await second.get_by_role("button", name="Not helpful").click()
    await press(first)
    await expect(second.locator("[part=note]")).to_be_visible()
    up = second.get_by_role("button", name="Helpful", exact=True)
    await expect(up).to_have_attribute("aria-pressed", "true")
    await expect(state(second, "undo")).to_be_visible()


async def test_two_devices_that_disagree(bench: Workbench):
    """409: the loser shows the rating that stands, says why, and keeps the comment that went nowhere for its writer."""
    await bench.relay.record("t1")
    first = await bench.open()
    second = await bench.open()
    await expect(second.get_by_role("button", name="Helpful", exact=True)).to_be_visible()
    await second.route("**/api/feedback/events", lambda route: route.abort())
    await second.reload()
    await second.get_by_role("button", name="Not helpful").click()
    await second.get_by_label("Comment").fill("I disagree")
    await press(first)
    await expect(state(first, "saved")).to_be_visible()
    await second.get_by_role("button", name="Send").click()
    await expect(state(second, "saved")).to_be_visible()
    await expect(second.locator("[part=note]")).to_be_visible()
    await expect(second.get_by_text("Your comment that was not sent: I disagree")).to_be_visible()
    up = second.get_by_role("button", name="Helpful", exact=True)
    await expect(up).to_have_attribute("aria-pressed", "true")
    assert [s["rating"] for s in await bench.stored()] == ["up"]
    await second.get_by_role("button", name="Close").click()
    await expect(second.get_by_text("I disagree")).to_be_hidden()
    assert await kept(second) == {}


async def test_the_token_expires_in_between(bench: Workbench):
    """A 401 is answered with a fresh token, once; the person sees nothing of it."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds="2")
    await press(page)
    bench.sign_in("alice", "alice", exp=1)
    calls: list[object] = []

    def asked(fresh: object) -> None:
        calls.append(fresh)

    await page.expose_function("asked", asked)
    valid = bench.relay.token("alice")
    await page.evaluate(
        """(valid) => { document.querySelector("specialist-feedback").getToken = async ({fresh}) => {
            window.asked(fresh); return fresh ? valid : window.token(); } }""",
        valid,
    )
    await expect(state(page, "saved")).to_be_visible()
    assert True in calls


async def test_a_sign_in_that_has_ended_keeps_the_rating(bench: Workbench):
    """It waits, says what to do, and goes out after the next sign-in of the same person."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds="1")
    await press(page, comment="Kept")
    bench.sign_in("alice", "alice", exp=1)
    await expect(state(page, "waiting")).to_contain_text("Sign in again to rate.")
    bench.sign_in("alice", "alice")
    await page.get_by_role("button", name="Try again").click()
    await expect(state(page, "saved")).to_be_visible()
    assert [s["comment"] for s in await bench.stored()] == ["Kept"]


async def test_nothing_goes_out_under_another_sign_in(bench: Workbench):
    """On a shared computer: bob neither sees nor sends what alice pressed, and it goes out when she is back."""
    await bench.relay.record("t1")
    await bench.relay.record("t1", sub="bob")
    page = await bench.open(undo_seconds="2")
    await press(page, comment="Alice's own words")
    bench.sign_in("alice", "bob")
    await expect(page.get_by_role("button", name="Helpful", exact=True)).to_have_attribute("aria-pressed", "false")
    await expect(state(page, "undo")).to_be_hidden()
    await page.reload()
    await page.get_by_role("button", name="Not helpful").click()
    await expect(page.get_by_label("Comment")).to_have_value("")
    assert bench.posts() == 0
    assert await bench.stored() == []
    bench.sign_in("alice", "alice")
    await page.reload()
    await expect(state(page, "saved")).to_be_visible()
    owners = await bench.relay.rows("SELECT o.owner_key, s.comment FROM submissions s JOIN owners o ON o.id = s.owner")
    keys = await page.evaluate("Object.keys(localStorage)")
    assert [row["comment"] for row in owners] == ["Alice's own words"]
    assert all(owners[0]["owner_key"] not in key for key in keys)


async def test_a_draft_survives_a_reload(bench: Workbench):
    """What was typed is there again when the thumb is pressed again."""
    await bench.relay.record("t1")
    page = await bench.open()
    await page.get_by_role("button", name="Not helpful").click()
    await page.get_by_label("Comment").fill("Half a thought")
    await page.reload()
    await page.get_by_role("button", name="Not helpful").click()
    await expect(page.get_by_label("Comment")).to_have_value("Half a thought")


async def test_blocked_storage_costs_only_the_memory(bench: Workbench):
    """A browser that denies storage can rate; nothing reaches the page as an error."""
    await bench.relay.record("t1")
    context: BrowserContext = await bench.context()
    await context.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no') }})"
    )
    page = await bench.open(context=context)
    await press(page)
    await expect(state(page, "saved")).to_be_visible()


async def test_what_the_relay_refused_can_be_changed(bench: Workbench):
    """A refusal by the relay stores nothing: it is said, and the draft is there to be sent again."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds="2")
    await press(page, comment="Still here")
    await bench.relay.change("UPDATE provenance SET status = 'running'")
    await expect(state(page, "refused")).to_contain_text("Not accepted: Literature is still working.")
    await bench.relay.change("UPDATE provenance SET status = 'completed'")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_label("Comment")).to_have_value("Still here")
    await page.get_by_role("button", name="Send").click()
    await expect(state(page, "saved")).to_be_visible()
