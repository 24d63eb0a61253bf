"""For everybody: by keyboard, by ear, in four languages, in light and dark."""

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.support.specialist import answering
from tests.support.workbench import Workbench, state

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def assert_accessible(page: Page) -> None:
    """The audit of axe finds nothing, in any of the states that are shown."""
    results = await Axe().run(page)
    found = [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in results.response["violations"]]
    assert found == []


async def focused(page: Page) -> str:
    """The part that has the focus, within the widget."""
    return str(
        await page.evaluate(
            "document.querySelector('specialist-feedback').shadowRoot.activeElement?.getAttribute('part') ?? ''"
        )
    )


async def test_by_keyboard_alone(bench: Workbench):
    """Tab, Space, Enter and Escape do everything, and the focus is never lost."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds="60")
    await expect(page.get_by_role("button", name="Helpful", exact=True)).to_be_visible()
    await page.keyboard.press("Tab")
    assert await focused(page) == "up"
    await page.keyboard.press("Tab")
    await page.keyboard.press("Space")
    assert await focused(page) == "down"
    await page.keyboard.press("Tab")
    assert await focused(page) == "comment"
    await page.keyboard.type("By hand")
    await page.keyboard.press("Escape")
    assert await focused(page) == "down"
    await expect(page.get_by_label("Comment")).to_be_hidden()
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Comment")).to_have_value("By hand")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(state(page, "undo")).to_be_visible()
    assert await focused(page) == "undo"
    await page.keyboard.press("Enter")
    assert await focused(page) == "down"
    assert bench.posts() == 0


async def test_the_focus_stays_when_the_undo_has_gone(bench: Workbench):
    """It goes to the thumb that was pressed, which still says what was rated."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds="1")
    up = page.get_by_role("button", name="Helpful", exact=True)
    await up.focus()
    for key in ("Enter", "Tab", "Tab", "Tab", "Enter"):
        await page.keyboard.press(key)
    await expect(state(page, "undo")).to_be_visible()
    assert await focused(page) == "undo"
    await expect(state(page, "saved")).to_be_visible()
    assert await focused(page) == "up"
    await expect(up).to_have_attribute("aria-pressed", "true")


async def test_changes_are_announced_and_labels_are_not(bench: Workbench):
    """A polite live region says each new state; the thumbs keep their names whatever is pressed."""
    await bench.relay.record("t1")
    page = await bench.open(undo_seconds="1")
    status = page.get_by_role("status")
    await expect(status).to_have_text("")
    up = page.get_by_role("button", name="Helpful", exact=True)
    await up.click()
    await up.click()
    await expect(status).to_have_text("It will be sent in a moment.")
    await expect(status).to_contain_text("Saved by Literature.")
    await expect(up).to_have_attribute("aria-pressed", "true")


async def test_each_of_several_boxes_has_its_own_name(bench: Workbench):
    """A comment box is named, reached and described by what stands at it, though another one has the same words."""
    for agent in ("literature", "chemistry"):
        await bench.relay.record(f"t-{agent}", agent=agent)
    page = await bench.open()
    for agent in ("Literature", "Chemistry"):
        group = page.get_by_role("group", name=agent)
        await group.get_by_role("button", name="Not helpful").click()
        await group.get_by_text("Comment (optional)").click()
        box = group.get_by_role("textbox", name="Comment (optional)")
        await expect(box).to_be_focused()
        described = await box.evaluate("(box) => box.ariaDescribedByElements.map((by) => by.textContent).join()")
        assert f"Read by the team of {agent}" in described
    await assert_accessible(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing(bench: Workbench, scheme: str):
    """In no state, with one contributor and with several, in either colour scheme."""
    await bench.relay.record("t1")
    await bench.relay.record("t2", agent="chemistry")
    await bench.relay.record("t3", answerId="a2", status="running")
    await bench.relay.record("t4", answerId="a3")
    await bench.relay.rate("t4", comment="Thank you")
    await bench.relay.change("UPDATE deliveries SET resolution = 'fixed'")
    await bench.relay.record("t5", answerId="a4")
    bench.literature.behave = answering(422)
    await bench.relay.rate("t5")
    bench.literature.behave = answering(503)
    await bench.relay.record("t6", answerId="a5")
    await bench.relay.rate("t6", wait="respond-async")
    markup = "".join(bench.widget(answer=f"a{n}", reasons="late wrong-unit", undo_seconds="60") for n in range(1, 7))
    page = await bench.open(markup, context=await bench.context(color_scheme=scheme))
    for shown in ("unavailable", "saved", "refused", "waiting"):
        await expect(state(page, shown)).to_have_count(1)
    await expect(page.locator("[part=message]")).to_have_count(1)
    await page.get_by_role("group", name="Literature").first.get_by_role("button", name="Not helpful").click()
    await page.get_by_role("button", name="late").click()
    chemistry = page.get_by_role("group", name="Chemistry")
    await chemistry.get_by_role("button", name="Helpful", exact=True).click()
    await chemistry.get_by_role("button", name="Send").click()
    await expect(state(page, "undo")).to_be_visible()
    await assert_accessible(page)


@pytest.mark.parametrize(
    ("lang", "up", "saved", "direction"),
    [
        ("de-AT", "Hilfreich", "Von Literature gespeichert.", "ltr"),
        ("ja", "役に立った", "Literatureが保存しました。", "ltr"),
        ("ar", "مفيد", "حفظه Literature.", "rtl"),
        ("fr", "Helpful", "Saved by Literature.", "ltr"),
    ],
)
async def test_languages(bench: Workbench, lang: str, up: str, saved: str, direction: str):
    """The page's own where it is one of four, else English; Arabic from right to left."""
    await bench.relay.record("t1")
    page = await bench.open(lang=lang)
    thumb = page.get_by_role("button", name=up, exact=True)
    await thumb.click()
    await thumb.click()
    await expect(state(page, "saved")).to_contain_text(saved)
    await expect(page.locator("[part=body]")).to_have_attribute("dir", direction)
    await assert_accessible(page)


async def test_texts_can_be_replaced(bench: Workbench):
    """One by one, by name, with their blanks; and the language of one element by its own attribute."""
    await bench.relay.record("t1")
    script = """document.querySelector("specialist-feedback").texts = {saved: "{agent} has it!"}"""
    page = await bench.open(lang="en", script=script)
    await page.evaluate("document.querySelector('specialist-feedback').lang = 'de'")
    up = page.get_by_role("button", name="Hilfreich", exact=True)
    await up.click()
    await up.click()
    await expect(state(page, "saved")).to_contain_text("Literature has it! Bewertungen werden nicht geändert.")


async def test_themes_and_motion(bench: Workbench):
    """Custom properties and parts reach into the widget; who wants no motion gets none."""
    await bench.relay.record("t1")
    page = await bench.open(context=await bench.context(reduced_motion="reduce"))
    up = page.get_by_role("button", name="Helpful", exact=True)
    await up.click()
    await page.evaluate(
        """() => { const sheet = new CSSStyleSheet(); document.adoptedStyleSheets.push(sheet);
            sheet.replaceSync(`specialist-feedback { --feedback-accent: rgb(1, 2, 3) }
            specialist-feedback::part(down) { border-top-width: 7px }`); }"""
    )
    await expect(up).to_have_css("background-color", "rgb(1, 2, 3)")
    await expect(page.get_by_role("button", name="Not helpful")).to_have_css("border-top-width", "7px")
    bench.literature.behave = answering(503)
    await up.click()
    await expect(state(page, "waiting")).to_be_visible()
    assert await page.locator(".icon").evaluate("(icon) => getComputedStyle(icon).animationName") == "none"
