"""Finding submissions, and doing something about one or many of them, with a browser that knows no scripts."""

import re
from html import unescape

from tests.support.console import Browser
from tests.support.consoled import Consoled
from tests.support.specialist import answering

SCRIPT = "<script>alert('hello')</script>"


async def test_a_script_in_a_comment_is_text(relay: Consoled, operator: Browser):
    """In the list and on its own page, with the bytes that were sent and what came back."""
    relay.specialists["literature"].behave = answering(422, f'"{SCRIPT}"'.encode())
    rated = await relay.rate("t1", comment=SCRIPT)
    page = await operator.get("/console/submissions?q=%3Cscript%3E")
    assert "<script>alert" not in page.text
    assert page.text.count("&lt;script&gt;alert") == 1
    story = await operator.get(await relay.address(rated["id"]))
    assert "<script>alert" not in story.text
    assert story.text.count("&lt;script&gt;alert(&#39;hello") == 3


async def test_filters_chips_and_pages(relay: Consoled, operator: Browser):
    """Filters narrow the list, each has a chip that takes it out, and the pages together hold everything once."""
    for n in range(5):
        relay.specialists["chemistry"].behave = answering(503)
        await relay.rate(f"t{n}", rating="down" if n % 2 else "up", agent="chemistry" if n < 3 else "literature")
    page = await operator.get("/console/submissions?q=&state=exhausted&agent=chemistry&rating=&since=2020-01-01T09:30")
    assert "<strong>3</strong> submissions" in page.text
    chips = dict(re.findall(r'<a class="chip" href="([^"]*)" id="chip-(\w+)"', page.text))
    assert set(chips.values()) == {"state", "agent", "since"}
    without = next(address for address, name in chips.items() if name == "state")
    fewer = await operator.get(unescape(without))
    assert ("chip-state" in fewer.text, "chip-agent" in fewer.text) == (False, True)
    seen: list[str] = []
    address = "/console/submissions?limit=2"
    while address:
        page = await operator.get(address)
        assert "<strong>5</strong> submissions" in page.text
        seen += re.findall(r'<th scope="row"><a [^>]*title="([^"]*)"', page.text)
        address = page.link("Next page") if "Next page" in page.text else ""
    assert (len(seen), len(set(seen))) == (5, 5)
