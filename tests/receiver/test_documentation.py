"""What docs/receiver.md shows works as printed."""

import argparse
import json
import re
import shlex
import types
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from relay.http.server import Runner
from relay.receiver import PREFIX, Hooks, Ratings, receiver_app
from relay.storage.engine import Database

DOCUMENT = (Path(__file__).parents[2] / "docs" / "receiver.md").read_text()
ORIGIN = "http://127.0.0.1:8090"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


def session() -> list[tuple[argparse.Namespace, Any]]:
    """Every curl command of the page with the JSON printed below it."""
    curl = argparse.ArgumentParser()
    curl.add_argument("-s", action="store_true")
    curl.add_argument("-X", dest="method")
    curl.add_argument("-H", dest="headers", action="append")
    curl.add_argument("-d", dest="data")
    curl.add_argument("url")
    lines = "".join(blocks("console")).splitlines()
    return [
        (curl.parse_args(shlex.split(command.removeprefix("$ curl "))), json.loads(printed))
        for command, printed in zip(lines[::2], lines[1::2], strict=True)
    ]


def without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return {name: member for name, member in value.items() if name != "createdAt"}


@pytest.fixture
def example() -> types.ModuleType:
    """The page's program as a module."""
    [source] = blocks("python")
    module = types.ModuleType("specialist")
    exec(compile(source, "docs/receiver.md", "exec"), module.__dict__)  # noqa: S102 - our own page
    return module


async def test_the_example_answers_as_printed(example: types.ModuleType, tmp_path: Path):
    """The program on the page, asked what the page asks, prints what the page prints."""
    app: web.Application = example.build_app(f"sqlite:///{tmp_path}/specialist.db")
    async with TestClient(TestServer(app)) as client:
        exchanges = session()
        assert len(exchanges) == 5
        for asked, printed in exchanges:
            response = await client.request(
                asked.method or ("POST" if asked.data else "GET"),
                asked.url.removeprefix(ORIGIN),
                headers=dict(header.split(": ", 1) for header in asked.headers),
                data=asked.data,
            )
            assert without_times(json.loads(await response.read())) == without_times(printed)


async def test_the_example_runs_under_the_runner(example: types.ModuleType, tmp_path: Path):
    """Start and stop as the page's `main` does them: the table is made and the database closed."""
    runner = Runner(example.build_app(f"sqlite:///{tmp_path}/specialist.db"))
    await runner.setup()
    await runner.cleanup()
    assert (tmp_path / "specialist.db").exists()


@pytest.mark.parametrize("first", ["receiver", "host"])
async def test_a_hosts_own_routes_below_the_prefix(example: types.ModuleType, tmp_path: Path, first: str):
    """A route of the host with a longer fixed part is found, whichever was added first."""

    async def show(request: web.Request) -> web.Response:
        return web.Response(text=request.match_info["id"])

    app = web.Application()
    database = Database.open(f"sqlite:///{tmp_path}/specialist.db")
    receiver = receiver_app(Ratings(database), Hooks(identify=example.identify, task=example.task))
    if first == "host":
        app.router.add_get("/api/runs/{id}", show)
    app.add_subapp(PREFIX, receiver)
    if first == "receiver":
        app.router.add_get("/api/runs/{id}", show)
    async with TestClient(TestServer(app)) as client:
        assert await (await client.get("/api/runs/7")).text() == "7"
        assert (await client.get("/api/feedback")).status == 401
    await database.close()
