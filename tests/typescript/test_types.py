"""The types that TypeScript programs get: of a client generated from the OpenAPI document, and of the widget."""

import re
from pathlib import Path

import pytest

from tests.typescript.conftest import Compile

EMPTY = {"export type webhooks = Record<string, never>;", "export type $defs = Record<string, never>;"}
"""The document has no such parts."""

WIDE = re.compile(r"\b(any|unknown|Record)\b")


@pytest.mark.timeout(400)
def test_a_client_generated_from_the_document(compiled: Compile):
    """A public generator takes the document; its types fit the programs of a Workbench, of an operator and in
    docs/api.md, and find mistakes.
    """
    assert compiled("workbench.ts", "operator.ts", "api.ts") == ""


@pytest.mark.timeout(400)
def test_the_widget_in_a_page_and_in_react(compiled: Compile):
    """The declarations that the relay serves fit a page's program, and the example of React in docs/widget.md."""
    assert compiled("widget.ts", "rating.tsx", "page.tsx") == ""


@pytest.mark.timeout(400)
def test_nothing_is_left_untyped(project: Path):
    """But for what may have any members, and for headers that are not described. Nothing is an object without any."""
    generated = (project / "relay-api.ts").read_text()
    assert "{unknown}" not in generated
    typed = re.sub(r"/\*.*?\*/", "", generated, flags=re.DOTALL)
    wide = {line.strip() for line in typed.splitlines() if WIDE.search(line)}
    assert wide == {"[name: string]: unknown;", "[key: string]: unknown;", *EMPTY}
