"""Node.js, the pinned packages beside it, and a client that a public generator made of the OpenAPI document."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from relay.web.module import load
from tests.support.contract import described

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
REQUIRED = "RELAY_TEST_REQUIRE_NODE"
SECONDS = 150

INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error")
STRICT = (
    *("--strict", "--noUncheckedIndexedAccess"),
    *("--target", "es2022"),
    *("--module", "esnext"),
    *("--moduleResolution", "bundler"),
    *("--lib", "es2022,dom,dom.iterable"),
    *("--jsx", "react-jsx"),
    *("--types", "react"),
)

Compile = Callable[..., str]
"""Compile these programs of the project with further options; what the compiler has to say, "" being nothing."""


def missing(what: str) -> None:
    """Skip what needs it, or fail where it is required."""
    if os.environ.get(REQUIRED) == "1":  # noqa: TID251 - a switch of the tests
        pytest.fail(f"{REQUIRED} is set, but {what}")
    pytest.skip(what)


def run(where: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS
    )


def example(page: str, language: str) -> str:
    """The one program in this language on a page."""
    text = (REPOSITORY / "docs" / page).read_text()
    (program,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return str(program)


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the packages that package.json pins, installed once for all tests."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("there is no Node.js with npm (Debian: apt-get install nodejs npm) to try what TypeScript programs get")
    directory = tmp_path_factory.mktemp("npm")
    shutil.copy(HERE / "package.json", directory)
    installed = run(directory, *INSTALL)
    if installed.returncode:
        missing(f"npm cannot install what tests/typescript/package.json asks for:\n{installed.stdout}")
    return directory / "node_modules"


@pytest.fixture(scope="session")
def project(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs and the examples of our pages, a client generated from the document, the widget's declarations."""
    directory = tmp_path_factory.mktemp("project")
    (directory / "node_modules").symlink_to(packages)
    for program in (HERE / "package.json", *HERE.glob("*.ts"), *HERE.glob("*.tsx")):
        shutil.copy(program, directory)
    (directory / "openapi.json").write_bytes(msgspec.json.encode(described()))
    generated = run(directory, "node_modules/.bin/openapi-typescript", "openapi.json", "-o", "relay-api.ts")
    assert generated.returncode == 0, generated.stdout
    (directory / "specialist-feedback.d.ts").write_bytes(load().declarations.body)
    (directory / "rating.tsx").write_text(example("widget.md", "tsx"))
    (directory / "api.ts").write_text(example("api.md", "ts"))
    return directory


@pytest.fixture(scope="session")
def compiled(project: Path) -> Compile:
    def compiling(*programs: str, options: tuple[str, ...] = ("--noEmit",)) -> str:
        done = run(project, "node_modules/.bin/tsc", *STRICT, *options, *programs)
        assert bool(done.stdout) == bool(done.returncode)
        return done.stdout

    return compiling
