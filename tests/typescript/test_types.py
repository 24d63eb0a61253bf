"""The types that TypeScript programs get: of a client generated from the OpenAPI document, and of the widget."""

import asyncio
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from relay.web.module import load
from tests.support.contract import described

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
REQUIRED = "RELAY_TEST_REQUIRE_NODE"
SECONDS = 150

STRICT = (
    *("--strict", "--noEmit", "--noUncheckedIndexedAccess"),
    *("--target", "es2022"),
    *("--module", "esnext"),
    *("--moduleResolution", "bundler"),
    *("--lib", "es2022,dom,dom.iterable"),
    *("--jsx", "react-jsx"),
    *("--types", "react"),
)


@pytest.fixture
async def project(tmp_path: Path) -> Path:
    """A directory with the programs and the pinned packages. Without Node.js the test is skipped, or fails."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing = "there is no Node.js with npm (Debian: apt-get install nodejs npm) to try the types of TypeScript"
        if os.environ.get(REQUIRED) == "1":  # noqa: TID251 - a switch of the tests
            pytest.fail(missing)
        pytest.skip(missing)
    for name in ("package.json", "workbench.ts", "widget.ts"):
        shutil.copy(HERE / name, tmp_path)
    await ran(tmp_path, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
    return tmp_path


@pytest.mark.timeout(400)
async def test_a_client_generated_from_the_document(project: Path):
    """A public generator takes the document; a Workbench's program has types that fit, and its mistakes are found."""
    (project / "openapi.json").write_text(json.dumps(described()))
    # A field with a default may be left out of a request.
    generator = ("openapi-typescript", "openapi.json", "-o", "relay-api.d.ts", "--default-non-nullable=false")
    await ran(project, "npx", "--no-install", *generator)
    await ran(project, "npx", "--no-install", "tsc", *STRICT, "workbench.ts")


@pytest.mark.timeout(400)
async def test_the_widget_in_a_page_and_in_react(project: Path):
    """The declarations that the relay serves fit a page's program, and the example of React in docs/widget.md."""
    (project / "specialist-feedback.d.ts").write_bytes(load().declarations.body)
    examples = re.findall(r"```tsx\n(.*?)```", (REPOSITORY / "docs" / "widget.md").read_text(), re.DOTALL)
    assert len(examples) == 1
    (project / "rating.tsx").write_text(examples[0])
    await ran(project, "npx", "--no-install", "tsc", *STRICT, "widget.ts", "rating.tsx")


async def ran(where: Path, *command: str) -> None:
    """Run it, and fail with what it printed unless it succeeds."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=where, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"{command[0]} {command[1]}:\n{output.decode()}"
