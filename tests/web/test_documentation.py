"""What docs/widget.md says of the widget is so."""

import re
from pathlib import Path

from relay.web.module import load

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "widget.md").read_text("utf-8")
SOURCES = {path.stem: path.read_text("utf-8") for path in (DOCS.parent / "relay/web/widget").glob("*.js")}


def test_the_script_element_has_the_hash_of_this_version():
    """`relay widget` prints what the page shows. After a change of the widget, copy it there."""
    assert f"```html\n{load().element('https://relay.example.org')}\n```" in PAGE


def test_every_picture_is_there_and_shown():
    """Each state in light and in dark; the page around them once."""
    shown = set(re.findall(r"\(widget/([\w-]+\.png)\)", PAGE))
    assert shown == {path.name for path in (DOCS / "widget").iterdir()}
    assert {name.rpartition("-")[0] + "-dark.png" for name in shown - {"workbench.png"}} <= shown


def test_attributes_parts_and_states_are_explained():
    """Everything that a page can set or style, by its name."""
    attributes = re.findall(r'(?:getAttribute|#milliseconds)\("([\w-]+)"', SOURCES["element"])
    parts = re.findall(r'(?:part: |button\(|thumb\()"(\w+)"', SOURCES["view"] + SOURCES["element"])
    states = re.findall(
        r'^  \| "(\w+)"$',
        load().declarations.body.decode().partition("type FeedbackState =")[2].partition(";")[0],
        re.MULTILINE,
    )
    properties = re.findall(r"--feedback-[\w-]+", SOURCES["style"])
    for name in {*attributes, *parts, *states, *properties}:
        assert f"`{name}`" in PAGE, name


def test_the_documented_form_of_reasons_is_the_one_that_is_sent():
    """The same regular expression, character by character."""
    [front] = re.findall(r"const FRONT = /(.+)/;", SOURCES["comment"])
    assert f"`{front}`" in PAGE
