"""How a gateway serves the widget: to any page, cached as its address allows."""

import gzip
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest

from relay.web.module import load
from tests.support.gateway import Gateway, small_world

NEWEST = "/ui/specialist-feedback.js"
VERSIONED = load().path
TYPES = "/ui/specialist-feedback.d.ts"
WORKBENCH = "https://workbench.example.org"


@pytest.fixture
async def relay(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[Gateway]:
    async with small_world(tmp_path, sqlite_database_url, origins=f'["{WORKBENCH}"]', per_address=1) as (running, _):
        yield running


async def raw(relay: Gateway, path: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
    """The answer as it came over the wire."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as http,  # noqa: TID251 - a browser, not the relay
        http.get(f"http://127.0.0.1:{relay.port}{path}", headers={"Accept-Encoding": "identity", **sent}) as answer,
    ):
        return answer.status, answer.headers, await answer.read()


@pytest.mark.parametrize(
    ("path", "kind", "cached"),
    [
        (NEWEST, "text/javascript", "no-cache"),
        (VERSIONED, "text/javascript", "public, max-age=31536000, immutable"),
        (TYPES, "text/plain", "no-cache"),
    ],
    ids=["newest", "versioned", "types"],
)
async def test_files_for_any_page(relay: Gateway, path: str, kind: str, cached: str):
    """The right type, not to be read as another, cached by its address, and open to every origin alike."""
    wanted = load().declarations if path == TYPES else load().script
    for origin in ({}, {"Origin": WORKBENCH}, {"Origin": "https://elsewhere.example"}):
        status, headers, body = await raw(relay, path, **origin)
        assert (status, body) == (200, wanted.body)
        assert headers["Content-Type"] == f"{kind}; charset=utf-8"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == cached
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert headers["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert headers["Vary"] == "Accept-Encoding"
        assert "Access-Control-Allow-Credentials" not in headers


async def test_compressed_for_who_can_read_it(relay: Gateway):
    """Under gzip it is the same module."""
    _, headers, body = await raw(relay, NEWEST, Accept_Encoding="gzip, br")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == load().script.body


async def test_what_is_there_already_is_not_sent_again(relay: Gateway):
    """304 for its own tag, compressed or not, and the file for another."""
    _, headers, _ = await raw(relay, NEWEST)
    for tag in (headers["ETag"], "*"):
        status, again, body = await raw(relay, NEWEST, If_None_Match=tag, Accept_Encoding="gzip")
        assert (status, body, again["ETag"]) == (304, b"", headers["ETag"])
        assert "Content-Encoding" not in again
    assert (await raw(relay, NEWEST, If_None_Match='W/"another"'))[0] == 200


async def test_another_version_is_not_there(relay: Gateway):
    """A page that names a version gets that one or nothing."""
    answered = await relay.call("GET", f"/ui/{'0' * 16}/specialist-feedback.js")
    assert (answered.status, answered.code) == (404, "not_found")


async def test_files_are_not_counted(relay: Gateway):
    """One request a minute is allowed of an address, and the widget is none of them."""
    assert [(await relay.call("GET", path)).status for path in (NEWEST, VERSIONED, TYPES, NEWEST)] == [200] * 4


async def test_the_api_stays_closed_to_other_origins(relay: Gateway):
    """What any origin may load is the file alone."""
    _, headers, _ = await raw(relay, "/api/feedback", Origin="https://elsewhere.example")
    assert "Access-Control-Allow-Origin" not in headers
