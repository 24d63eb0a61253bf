"""What the widget shows of an answer before anything is rated, and when something is wrong with it."""

import pytest
from playwright.async_api import expect

from tests.support.workbench import Workbench, state

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_several_contributors_are_rated_one_by_one(bench: Workbench):
    """Each is named and has thumbs of its own, a sentence says why, and only the one that was rated hears of it."""
    await bench.relay.record("t1")
    await bench.relay.record("t2", agent="chemistry")
    page = await bench.open()
    await expect(page.locator("[part=several]")).to_contain_text("Rate each by itself")
    assert await page.locator("[part=name]").all_inner_texts() == ["Literature", "Chemistry"]
    await expect(page.get_by_role("button", name="Helpful", exact=True)).to_have_count(2)
    chemistry = page.get_by_role("group", name="Chemistry")
    await chemistry.get_by_role("button", name="Not helpful").click()
    await chemistry.get_by_role("button", name="Send").click()
    await expect(chemistry.locator("[part~=saved]")).to_contain_text("Saved by Chemistry.")
    await expect(page.get_by_role("group", name="Literature").locator("[part~=saved]")).to_have_count(0)
    assert [(s["agent"], s["rating"]) for s in await bench.stored()] == [("chemistry", "down")]
    assert bench.literature.posts == []


async def test_one_contributor_has_two_thumbs_and_no_explanations(bench: Workbench):
    """The agent is named for those who listen, and nothing else is said."""
    await bench.relay.record("t1")
    page = await bench.open()
    await expect(page.get_by_role("group", name="Literature")).to_be_visible()
    assert await page.locator("[part=body]").inner_text() == ""


async def test_two_tasks_of_one_specialist_can_be_told_apart(bench: Workbench):
    """By the ids of their tasks."""
    await bench.relay.record("t1")
    await bench.relay.record("t2")
    page = await bench.open()
    await expect(page.get_by_role("group", name="Literature · t1")).to_be_visible()
    assert await page.locator("[part=name]").all_inner_texts() == ["Literature · t1", "Literature · t2"]


async def test_a_task_that_still_runs_then_finishes(bench: Workbench):
    """Until then it says so and has nothing to press; then it can be rated, without a reload."""
    await bench.relay.record("t1", status="running")
    page = await bench.open()
    await expect(state(page, "unavailable")).to_contain_text("Literature is still working.")
    up = page.get_by_role("button", name="Helpful", exact=True)
    await expect(up).to_have_attribute("aria-disabled", "true")
    await bench.relay.record("t1")
    await expect(up).to_have_attribute("aria-disabled", "false")
    await up.click()
    await up.click()
    await expect(state(page, "saved")).to_be_visible()


async def test_a_page_that_knows_better_need_not_wait(bench: Workbench):
    """`refresh()` asks at once; with polling every hour nothing else would."""
    await bench.relay.record("t1", status="running")
    page = await bench.open(poll_seconds="3600")
    await expect(state(page, "unavailable")).to_be_visible()
    await bench.relay.record("t1")
    await page.evaluate("document.querySelector('specialist-feedback').refresh()")
    await expect(state(page, "unavailable")).to_be_hidden()


async def test_who_takes_no_feedback(bench: Workbench):
    """A task that no credential can act for has no thumbs to press, and says why in words."""
    await bench.relay.record("t1", ranAs="owner")
    page = await bench.open()
    await expect(state(page, "unavailable")).to_contain_text("Literature does not take feedback.")


async def test_another_persons_answer(bench: Workbench):
    """It is as if it did not exist: a message in place of the thumbs, and a hint for whoever builds the page."""
    await bench.relay.record("t1", sub="bob")
    page = await bench.open()
    await expect(page.locator("[part=message]")).to_contain_text("Nothing of yours to rate here.")
    await expect(page.get_by_role("button", name="Helpful", exact=True)).to_have_count(0)
    assert any("no task of this sign-in is recorded" in warning for warning in bench.warnings)


async def test_forty_answers_make_one_call(bench: Workbench):
    """Of one conversation, however many widgets: one call for the targets and one stream."""
    for number in range(40):
        await bench.relay.record(f"t{number}", answerId=f"a{number}")
    markup = "".join(bench.widget(answer=f"a{n}", conversation="c1", poll_seconds="3600") for n in range(40))
    page = await bench.open(markup)
    await expect(page.get_by_role("button", name="Helpful", exact=True)).to_have_count(40)
    assert [asked for asked in bench.asked if "targets" in asked] == ["GET /api/conversations/c1/targets?limit=100"]
    assert bench.asked.count("GET /api/feedback/events") <= 1


async def test_a_long_conversation_is_read_to_its_end(bench: Workbench):
    """An answer on the second page is found, and one that came later costs one more call."""
    for number in range(101):
        await bench.relay.record(f"t{number}", answerId=f"a{number}")
    page = await bench.open(answer="a100", conversation="c1", poll_seconds="3600")
    await expect(page.get_by_role("group", name="Literature")).to_be_visible()
    assert sum("/targets?" in asked for asked in bench.asked) == 2


@pytest.mark.parametrize(
    ("attributes", "advice"),
    [
        ({"relay": "not an address"}, "set the attribute relay"),
        ({"relay": "http://relay.example.org"}, "set the attribute relay"),
        ({"answer": ""}, "set the attribute answer"),
        ({"bare": ""}, "set the property getToken"),
    ],
    ids=["no address", "plain http", "no answer", "no getToken"],
)
async def test_a_wrong_set_up_is_said_on_the_page_and_mended_from_the_console(
    bench: Workbench, attributes: dict[str, str], advice: str
):
    """A short message for people, what to change for whoever builds the page, and the relay is not asked."""
    await bench.relay.record("t1")
    page = await bench.open(**attributes)
    await expect(page.locator("[part=message]")).to_have_text("Ratings are not set up here.")
    assert [advice in warning for warning in bench.warnings] == [True]
    assert bench.asked == []
    await page.evaluate(
        """([url]) => { const one = document.querySelector("specialist-feedback");
            one.setAttribute("relay", url); one.setAttribute("answer", "a1"); one.getToken = () => window.token(); }""",
        [bench.url],
    )
    await expect(page.get_by_role("button", name="Helpful", exact=True)).to_be_visible()


async def test_an_unreachable_relay(bench: Workbench):
    """A message and a hint that names the address and this origin; when it is back, so are the thumbs."""
    await bench.relay.record("t1")
    context = await bench.context()
    await context.route("**/api/**", lambda route: route.abort())
    page = await bench.open(context=context)
    await expect(page.locator("[part=message]")).to_contain_text("Ratings cannot be reached now.")
    assert bench.url in bench.warnings[0]
    assert "server.cors_origins" in bench.warnings[0]
    await context.unroute("**/api/**")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("button", name="Helpful", exact=True)).to_be_visible()


async def test_an_origin_that_is_not_configured_sees_nothing(bench: Workbench):
    """The script loads anywhere, since it carries nothing; the API answers only configured pages."""
    await bench.relay.record("t1")
    context = await bench.context()
    page = await context.new_page()
    page.on("console", lambda message: bench.warnings.append(message.text))
    address = bench.add(bench.widget()).replace("localhost", "127.0.0.1")
    await page.goto(address)
    await expect(page.locator("[part=message]")).to_contain_text("Ratings cannot be reached now.")


async def test_a_page_whose_get_token_throws(bench: Workbench):
    """Nothing reaches the page but the message; the console has the page's own error."""
    await bench.relay.record("t1")
    script = 'document.querySelector("specialist-feedback").getToken = () => { throw new Error("boom"); };'
    page = await bench.open(script=script)
    await expect(page.locator("[part=message]")).to_contain_text("Sign in again to rate.")
    assert any("getToken failed" in warning and "boom" in warning for warning in bench.warnings)


async def test_taken_out_and_put_back(bench: Workbench):
    """A framework may move an element: it goes on where it was, and its stream is left when the last one has gone."""
    await bench.relay.record("t1")
    page = await bench.open()
    await page.get_by_role("button", name="Not helpful").click()
    await page.get_by_label("Comment").fill("Moving")
    await page.evaluate("window.one = document.querySelector('specialist-feedback'); window.one.remove()")
    await page.evaluate("document.querySelector('main').append(window.one)")
    await page.get_by_role("button", name="Not helpful").click()
    await expect(page.get_by_label("Comment")).to_have_value("Moving")
