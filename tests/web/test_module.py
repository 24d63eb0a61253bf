"""The widget as it is served: one small module of many parts, under names that follow from its bytes."""

import base64
import gzip
import hashlib
import re
from importlib.resources import files

import pytest

from relay.web.module import PARTS, File, join, load

WIDGET = files("relay.web") / "widget"


def test_it_has_at_most_12_kib_under_gzip():
    """What a page pays for it."""
    assert len(load().script.compressed) <= 12 * 1024
    assert gzip.decompress(load().script.compressed) == load().script.body


def test_it_is_one_module_without_dependencies():
    """Nothing is imported, from us or from elsewhere, and one class is exported."""
    text = load().script.body.decode()
    assert not re.search(r"\bimport\b", text)
    assert text.count("export ") == 1
    assert "export class SpecialistFeedback extends HTMLElement" in text


def test_every_part_is_in_it():
    """A file that nobody lists would be written in vain."""
    assert sorted(PARTS) == sorted(path.name[:-3] for path in WIDGET.iterdir() if path.name.endswith(".js"))


def test_nothing_in_it_needs_what_strict_policies_forbid():
    """No code from text, no markup from text, no style attributes."""
    text = load().script.body.decode()
    for forbidden in ("eval(", "new Function", "innerHTML", "insertAdjacentHTML", "document.write", ".style."):
        assert forbidden not in text


@pytest.mark.parametrize("part", PARTS)
def test_no_template_stands_within_another(part: str):
    """The minifier takes the inner one for code, and its spaces for nobody's."""
    text = (WIDGET / f"{part}.js").read_text("utf-8")
    assert not re.search(r"`[^`\n]*\$\{[^}`\n]*`", text)


def test_joining_keeps_code_and_drops_the_rest():
    """Imports of each other, exports of inner parts and comments go; the last part's exports stay."""
    parts = [
        "/** Says a number. */\nexport const a = 1;\n",
        'import { a } from "./a.js";\n// Doubled.\nexport const b = `${a}  // no comment`;\n',
    ]
    assert join(parts) == "const a=1;export const b=`${a}  // no comment`;"


def test_names_follow_from_the_bytes():
    """The integrity is the SHA-384 that browsers compare, the version is its beginning."""
    file = File.of("x")
    digest = hashlib.sha384(b"x").digest()
    assert file.integrity == f"sha384-{base64.b64encode(digest).decode()}"
    assert file.version == digest.hex()[:16]
    assert load().path == f"/ui/{load().script.version}/specialist-feedback.js"


def test_every_text_is_in_every_language_and_declared():
    """Four translations each, with the same blanks, and the names that TypeScript knows."""
    texts = (WIDGET / "texts.js").read_text("utf-8").partition("const TEXTS = {")[2].partition("\n};")[0]
    declared = (
        (WIDGET / "specialist-feedback.d.ts").read_text("utf-8").partition("type TextName =")[2].partition(";")[0]
    )
    names = []
    for name, written in re.findall(r"^  (\w+): \[(.*?)\],$", texts, re.MULTILINE | re.DOTALL):
        names.append(name)
        translations = re.findall(r'"([^"]*)"', written)
        assert len(translations) == 4, name
        assert len({tuple(sorted(re.findall(r"\{\w+\}", text))) for text in translations}) == 1, name
    assert names == re.findall(r'"(\w+)"', declared)
