"""Limits as callers meet them: a whole gateway over HTTP."""

import re
from pathlib import Path

import pytest

from tests.support.gateway import Answered, Gateway, small_world

FIELD = re.compile(r'"(\w+)";r=(\d+);t=(\d+)')


def left(answer: Answered) -> dict[str, int]:
    """What remains of each limit."""
    return {policy: int(remaining) for policy, remaining, _ in FIELD.findall(answer.headers.get("RateLimit", ""))}


async def listed(gateway: Gateway, token: str | None = None, **headers: str) -> Answered:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await gateway.call("GET", "/api/feedback", token=token, headers=sent)


async def test_an_owner_has_a_quota(tmp_path: Path, database_url: str):
    """Every answer says what is left, refusals of other kinds too; then 429 says when to come back. Others go on."""
    async with small_world(tmp_path, database_url, per_owner=3) as (gateway, _):
        alice = gateway.token("alice")
        first = await listed(gateway, alice)
        assert first.headers["RateLimit-Policy"] == '"owner";q=3;w=60'
        assert (first.status, left(first)) == (200, {"owner": 2})
        absent = await gateway.show("7c9e6679-7425-40de-944b-e07fc1f90ae7")
        assert (absent.status, left(absent)) == (404, {"owner": 1})
        assert left(await listed(gateway, gateway.token("alice"))) == {"owner": 0}

        refused = await listed(gateway, alice)
        assert (refused.status, refused.code, left(refused)) == (429, "rate_limited", {"owner": 0})
        assert refused.json["violated-policies"] == ["owner"]
        [(_, _, reset)] = FIELD.findall(refused.headers["RateLimit"])
        assert 1 <= int(refused.headers["Retry-After"]) == int(reset) <= 60
        assert (await listed(gateway, gateway.token("bob"))).status == 200


async def test_owners_are_told_apart_as_everywhere(tmp_path: Path, sqlite_database_url: str):
    """The same person through another client is another owner; all people of one client share the client's quota."""
    async with small_world(tmp_path, sqlite_database_url, per_owner=1, per_client=2) as (gateway, _):
        assert left(await listed(gateway, gateway.token("alice"))) == {"client": 1, "owner": 0}
        assert (await listed(gateway, gateway.token("alice"))).json["violated-policies"] == ["owner"]
        other = gateway.token("alice", client_id="notebook")
        assert left(await listed(gateway, other)) == {"client": 1, "owner": 0}
        assert (await listed(gateway, gateway.token("bob"))).status == 200
        assert (await listed(gateway, gateway.token("carol"))).json["violated-policies"] == ["client"]


async def test_an_address_is_counted_before_its_token(tmp_path: Path, sqlite_database_url: str):
    """Guessing tokens, and looking for paths, is what this limit is for."""
    async with small_world(tmp_path, sqlite_database_url, per_address=3, per_owner=9) as (gateway, _):
        assert left(await listed(gateway)) == {"address": 2}
        nowhere = await gateway.call("GET", "/admin.php")
        assert (nowhere.status, left(nowhere)) == (404, {"address": 1})
        assert left(await listed(gateway, gateway.token("alice"))) == {"address": 0, "owner": 8}
        for token in (None, "nonsense", gateway.token("alice")):
            refused = await listed(gateway, token)
            assert (refused.status, refused.json["violated-policies"]) == (429, ["address"])
            assert "WWW-Authenticate" not in refused.headers


async def test_addresses_come_from_trusted_proxies_only(tmp_path: Path, sqlite_database_url: str):
    """From anyone else the header is what a caller would like to be counted under."""
    async with small_world(tmp_path, sqlite_database_url, per_address=1) as (gateway, _):
        assert (await listed(gateway, X_Forwarded_For="203.0.113.1")).status == 401
        assert (await listed(gateway, X_Forwarded_For="203.0.113.2")).status == 429


async def test_behind_a_proxy_each_address_has_its_own_quota(tmp_path: Path, sqlite_database_url: str):
    """By either header; an IPv6 network of 64 bits is one caller."""
    proxies = '["127.0.0.1"]'
    async with small_world(tmp_path, sqlite_database_url, per_address=1, proxies=proxies) as (gateway, _):
        assert (await listed(gateway, X_Forwarded_For="203.0.113.1")).status == 401
        assert (await listed(gateway, X_Forwarded_For="198.51.100.9, 203.0.113.1")).status == 429
        assert (await listed(gateway, Forwarded="for=203.0.113.1")).status == 429
        assert (await listed(gateway, Forwarded='for="[2001:db8:1:2::1]"')).status == 401
        assert (await listed(gateway, Forwarded='for="[2001:db8:1:2:ffff::2]"')).status == 429
        assert (await listed(gateway, Forwarded='for="[2001:db8:1:3::1]"')).status == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json"])
async def test_those_who_watch_are_not_counted(tmp_path: Path, sqlite_database_url: str, path: str):
    """A relay that is under load must not look dead to its balancer."""
    async with small_world(tmp_path, sqlite_database_url, per_address=1, per_owner=1) as (gateway, _):
        for _ in range(3):
            answer = await gateway.call("GET", path)
            assert (answer.status, left(answer)) == (200, {})
        assert (await listed(gateway)).status == 401


async def test_without_limits_nothing_is_said_or_stored(tmp_path: Path, sqlite_database_url: str):
    """0 means off: no header fields, no rows."""
    async with small_world(tmp_path, sqlite_database_url) as (gateway, _):
        answer = await listed(gateway, gateway.token("alice"))
        assert "RateLimit" not in answer.headers
        assert "RateLimit-Policy" not in answer.headers
        await gateway.relay.counts.flush()
        assert await gateway.rows("SELECT * FROM rate_limits") == []


async def test_the_table_tells_nothing_of_anyone(tmp_path: Path, database_url: str):
    """One row for each limit, under a name that only the deployment's own key makes."""
    async with small_world(tmp_path, database_url, per_owner=9, per_client=9, per_address=9) as (gateway, _):
        await listed(gateway, gateway.token("alice"))
        await gateway.relay.counts.flush()
        rows = await gateway.rows("SELECT * FROM rate_limits")
    assert len(rows) == 3
    for row in rows:
        assert re.fullmatch("[0-9a-f]{32}", row["bucket"])
        assert row["count"] == 1


async def test_gateways_share_a_quota(tmp_path: Path, postgres_database_url: str):
    """What one has let in counts at the other, which learns of it in the background."""
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    async with small_world(first, postgres_database_url, per_address=4) as (here, _):
        for name in ("pepper", "sealing-key"):
            (second / name).write_bytes((first / name).read_bytes())
            (second / name).chmod(0o600)
        async with small_world(second, postgres_database_url, per_address=4) as (there, _):
            for _ in range(2):
                assert (await listed(here)).status == 401
            await here.relay.counts.flush()
            assert (await listed(there)).status == 401
            await there.relay.counts.flush()
            assert left(await listed(there)) == {"address": 0}
            assert (await listed(there)).status == 429
