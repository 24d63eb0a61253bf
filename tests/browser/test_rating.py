"""Rating one specialist in a real browser: from the press to the specialist's acknowledgement."""

import json

import pytest
from playwright.async_api import expect

from tests.support.specialist import Held, answering
from tests.support.workbench import Workbench, state

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_up_and_a_comment(bench: Workbench):
    """A press opens the optional comment, one more sends both; saved once the specialist has acknowledged it."""
    await bench.relay.record("t1")
    held = bench.literature.behave = Held()
    page = await bench.open()
    await page.get_by_role("button", name="Helpful", exact=True).click()
    await page.get_by_label("Comment").fill("Just what I needed")
    await page.get_by_role("button", name="Send").click()
    await bench.literature.wait_for_posts(1)
    await expect(state(page, "sending")).to_be_visible()
    await expect(state(page, "saved")).to_have_count(0)
    held.let_go()
    await expect(state(page, "saved")).to_contain_text("Saved by Literature. Ratings are not edited.")
    await expect(page.get_by_text("Just what I needed")).to_be_visible()
    [stored] = await bench.stored()
    assert (stored["rating"], stored["comment"]) == ("up", "Just what I needed")
    assert [post.json["id"] for post in bench.literature.posts] == [stored["id"]]


async def test_up_alone_is_two_presses_on_the_thumb(bench: Workbench):
    """Who has nothing to say presses the thumb once more."""
    await bench.relay.record("t1")
    page = await bench.open()
    up = page.get_by_role("button", name="Helpful", exact=True)
    await up.click()
    await expect(page.get_by_label("Comment")).to_be_visible()
    await up.click()
    await expect(state(page, "saved")).to_be_visible()
    assert [(s["rating"], s["comment"]) for s in await bench.stored()] == [("up", None)]


async def test_down_waits_for_the_press_on_send(bench: Workbench):
    """Another press on down sends nothing; what is saved is locked, after a reload as well."""
    await bench.relay.record("t1")
    page = await bench.open()
    down = page.get_by_role("button", name="Not helpful")
    await down.click()
    await down.click()
    await expect(down).to_have_attribute("aria-pressed", "true")
    await page.get_by_role("button", name="Send").click()
    await expect(state(page, "saved")).to_be_visible()
    await page.reload()
    await expect(state(page, "saved")).to_be_visible()
    await expect(down).to_have_attribute("aria-disabled", "true")
    await page.get_by_role("button", name="Helpful", exact=True).click(force=True)
    await expect(page.get_by_label("Comment")).to_be_hidden()
    assert [s["rating"] for s in await bench.stored()] == ["down"]


async def test_two_thousand_emoji_are_exactly_enough(bench: Workbench):
    """Counted in UTF-16 code units, as the relay does: 4000 go through, one more is neither sent nor cut off."""
    await bench.relay.record("t1")
    page = await bench.open()
    await page.get_by_role("button", name="Not helpful").click()
    comment = page.get_by_label("Comment")
    await comment.fill("😀" * 2000 + "!")
    await expect(page.get_by_text("4001 / 4000")).to_be_visible()
    send = page.get_by_role("button", name="Send")
    await expect(send).to_have_attribute("aria-disabled", "true")
    await expect(comment).to_have_attribute("aria-invalid", "true")
    await comment.press("Control+Enter")
    await send.click(force=True)
    assert bench.posts() == 0
    await comment.fill("😀" * 2000)
    await expect(page.get_by_text("4000 / 4000")).to_be_visible()
    await send.click()
    await expect(state(page, "saved")).to_be_visible()
    assert [s["comment"] for s in await bench.stored()] == ["😀" * 2000]
    assert bench.literature.posts[0].json["comment"] == "😀" * 2000


async def test_what_no_relay_takes_is_not_sent(bench: Workbench):
    """Half of a pair and NUL are made harmless, blank comments are none: nothing a person typed is refused for that."""
    await bench.relay.record("t1")
    page = await bench.open()
    await page.get_by_role("button", name="Not helpful").click()
    comment = page.get_by_label("Comment")
    await comment.evaluate("(box) => { box.value = ' a\\0b\\ud83d '; box.dispatchEvent(new Event('input')); }")
    await page.get_by_role("button", name="Send").click()
    await expect(state(page, "saved")).to_be_visible()
    assert [s["comment"] for s in await bench.stored()] == ["ab\ufffd"]


async def test_a_double_click_is_one_press(bench: Workbench):
    """On a thumb it opens the form, on Send it sends once, and its second half does not undo what the first did."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds="2")
    await page.get_by_role("button", name="Helpful", exact=True).dblclick()
    await expect(page.get_by_label("Comment")).to_be_visible()
    await page.get_by_role("button", name="Send").dblclick()
    await expect(state(page, "undo")).to_be_visible()
    await expect(state(page, "saved")).to_be_visible()
    assert bench.posts() == 1
    assert len(await bench.stored()) == len(bench.literature.posts) == 1


async def test_undone_in_time_nothing_is_sent(bench: Workbench):
    """Undo brings the draft back as it was, and the relay hears of nothing."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds="60")
    await page.get_by_role("button", name="Not helpful").click()
    await page.get_by_label("Comment").fill("Too long")
    await page.get_by_role("button", name="Send").click()
    await expect(state(page, "undo")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_label("Comment")).to_have_value("Too long")
    assert bench.posts() == 0
    await page.get_by_role("button", name="Helpful", exact=True).click()
    await expect(page.get_by_label("Comment")).to_have_value("Too long")


async def test_five_seconds_to_undo_unless_the_page_says_otherwise(bench: Workbench):
    """The default: what is kept is to be sent five seconds after the press."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds=None)  # type: ignore[arg-type]
    await page.get_by_role("button", name="Helpful", exact=True).click()
    await page.get_by_role("button", name="Send").click()
    await expect(state(page, "undo")).to_be_visible()
    entry = json.loads(await page.evaluate("Object.values(localStorage)[0]"))
    assert 4_000 <= entry["sendAt"] - entry["at"] <= 5_000


async def test_reasons_stand_in_front_of_the_comment(bench: Workbench):
    """Ids in brackets before the text, labels on the page; an id that could not stand there is not offered."""
    await bench.relay.record("t1")
    script = """document.querySelector("specialist-feedback").reasons =
        [{id: "wrong-unit", label: "Wrong unit"}, "late", {id: "Not an id"}]"""
    page = await bench.open(script=script)
    await page.get_by_role("button", name="Not helpful").click()
    assert await page.locator("[part=reason]").all_inner_texts() == ["Wrong unit", "late"]
    chip = page.get_by_role("button", name="Wrong unit")
    await chip.click()
    await page.get_by_role("button", name="late").click()
    await expect(chip).to_have_attribute("aria-pressed", "true")
    await page.get_by_label("Comment").fill("mg, not g")
    await expect(page.get_by_text(f"{len('[wrong-unit,late] mg, not g')} / 4000")).to_be_visible()
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_text("Wrong unit · late · mg, not g")).to_be_visible()
    assert [s["comment"] for s in await bench.stored()] == ["[wrong-unit,late] mg, not g"]


async def test_a_text_that_looks_like_reasons_can_be_told_apart(bench: Workbench):
    """Without reasons it gets empty brackets in front, and is shown without them."""
    await bench.relay.record("t1")
    page = await bench.open()
    await page.get_by_role("button", name="Not helpful").click()
    await page.get_by_label("Comment").fill("[late] is what I am")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator("[part=sent]")).to_have_text("[late] is what I am")
    assert [s["comment"] for s in await bench.stored()] == ["[] [late] is what I am"]


async def test_a_refusal_is_said_and_can_be_sent_again(bench: Workbench):
    """What the specialist refused is not saved; another try goes out under the same UUID."""
    await bench.relay.record("t1")
    bench.literature.behave = answering(422)
    page = await bench.open()
    up = page.get_by_role("button", name="Helpful", exact=True)
    await up.click()
    await up.click()
    await expect(state(page, "refused")).to_contain_text("Not accepted by Literature.")
    del bench.literature.behave
    bench.literature.behave = type(bench.literature).behave
    await page.get_by_role("button", name="Try again").click()
    await expect(state(page, "saved")).to_be_visible()
    assert len({post.json["id"] for post in bench.literature.posts}) == 1


async def test_the_specialists_resolution_appears(bench: Workbench):
    """Under the rating, when there is one, as text and nothing else."""
    await bench.relay.record("t1")
    await bench.relay.rate("t1")
    await bench.relay.change("UPDATE deliveries SET resolution = :text", text="<b>Fixed</b> in release 7")
    page = await bench.open()
    await expect(page.locator("[part=resolution]")).to_have_text("Reply of Literature: <b>Fixed</b> in release 7")


async def test_the_box_says_who_reads_it_and_for_how_long(bench: Workbench):
    """From the registration's name and the tenant's policy."""
    await bench.relay.record("t1")
    page = await bench.open()
    await page.get_by_role("button", name="Not helpful").click()
    readers = page.locator("[part=readers]")
    await expect(readers).to_have_text("Read by the team of Literature and the operators here. Kept without limit.")
    described = await page.get_by_label("Comment").evaluate(
        "(box) => box.ariaDescribedByElements.map((by) => by.part[0])"
    )
    assert described == ["counter", "readers"]


async def test_the_page_is_told_of_each_state(bench: Workbench):
    """`feedback-state` crosses the shadow root with the answer, the agent, the rating and its UUID."""
    await bench.relay.record("t1")
    page = await bench.open()
    up = page.get_by_role("button", name="Helpful", exact=True)
    await up.click()
    await up.click()
    await expect(state(page, "saved")).to_be_visible()
    told = await page.evaluate("window.told")
    [stored] = await bench.stored()
    assert told[-1] == {
        "answer": "a1", "agent": "literature", "taskId": "t1", "state": "saved", "rating": "up", "id": stored["id"],
    }  # fmt: skip
    assert [one["state"] for one in told if one["state"] in {"ready", "draft", "sending"}] == [
        "ready",
        "draft",
        "sending",
    ]
