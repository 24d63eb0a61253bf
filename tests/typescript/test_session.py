"""The client that a public generator makes of the OpenAPI document, at work with a relay."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Gateway, new_id, small_world
from tests.support.specialist import Held
from tests.typescript.conftest import SECONDS, Compile

TASK = "Aufgabe 1/ä"


@pytest.fixture(scope="session")
def session(project: Path, compiled: Compile) -> Path:
    """The program, for Node.js."""
    assert compiled("session.ts", options=("--outDir", "out")) == ""
    return project / "out" / "session.js"


@pytest.mark.timeout(400)
async def test_it_works(session: Path, tmp_path: Path, sqlite_database_url: str):
    """It records, asks what may be rated, rates, is told why not, and lists, with an id that needs encoding."""
    async with small_world(tmp_path, sqlite_database_url) as (relay, specialists):
        specialists["chemistry"].behave = held = Held()
        came = await ran(session, relay)
        held.let_go()
        (received,) = specialists["literature"].posts
    assert received.json["taskId"] == TASK
    assert came == {
        "task": TASK,
        "rateable": ["literature", "chemistry"],
        "asked": ["literature", "chemistry"],
        "saved": {"status": 201, "state": "saved", "tried": "saved at attempt 1", "comment": "The unit is wrong"},
        "again": "rated down before",
        "waiting": {"status": 202, "tried": "not tried yet", "savedAt": None},
        "listed": ["chemistry up", "literature down"],
        "nobodys": "submission_not_found",
        "unsigned": "unauthenticated",
        "invalid": ["/id"],
    }


async def ran(program: Path, relay: Gateway) -> Any:
    """What it printed."""
    environment = {
        "RELAY": f"http://127.0.0.1:{relay.port}",
        "WORKBENCH": relay.machine,
        "ALICE": relay.token(),
        "UUIDS": " ".join(new_id() for _ in range(6)),
    }
    pipe = asyncio.subprocess.PIPE
    node = shutil.which("node") or "node"
    process = await asyncio.create_subprocess_exec(node, program, env=environment, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return json.loads(output)
