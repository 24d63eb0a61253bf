"""``/api/operator/agents``: who may do what, what is shown, and what each decision does, on both engines."""

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from registry.model import AgentId
from relay.clock import rfc3339
from tests.support.gateway import Answered, Gateway, small_world
from tests.support.specialist import Specialist, acknowledge, answering

ALL = "operator:read operator:write registry:admin"
AGENTS = "/api/operator/agents"
LITERATURE = f"{AGENTS}/literature"
MOVED = {"why": "moved", "origin": "http://localhost:9"}


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncIterator[tuple[Gateway, dict[str, Specialist]]]:
    async with small_world(tmp_path, database_url, schedule='["0s", "1h"]', breaker_minimum=2) as world:
        yield world


@pytest.fixture
def gateway(world: tuple[Gateway, dict[str, Specialist]]) -> Gateway:
    return world[0]


@pytest.fixture
async def lite(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[Gateway]:
    """A relay on SQLite, for what is refused before any database is asked."""
    async with small_world(tmp_path, sqlite_database_url) as (gateway, _):
        yield gateway


async def operate(
    gateway: Gateway, method: str, path: str, body: object = None, *, sub: str = "olga", scope: str = ALL, **claims: Any
) -> Answered:
    return await gateway.call(method, path, body, token=gateway.token(sub, scope, **claims))


async def decide(gateway: Gateway, action: str, why: str = "because", **options: Any) -> Answered:
    return await operate(gateway, "POST", f"{LITERATURE}/{action}", {"why": why}, **options)


async def waiting(gateway: Gateway, count: int, **options: Any) -> list[str]:
    """Ratings of literature that were refused for now, and wait for an hour."""
    submissions = []
    for _ in range(count):
        task = uuid.uuid4().hex
        await gateway.record(task, sub="alice")
        submissions.append((await gateway.rate(task, **options)).json["id"])
    return submissions


async def test_an_agent_is_shown_with_its_registration_and_health(
    gateway: Gateway, world: tuple[Gateway, dict[str, Specialist]]
):
    """What is in force and since when, the breaker as it stands, what waits of the operator's tenant, and no file."""
    specialist = world[1]["literature"]
    [saved] = await waiting(gateway, 1)
    specialist.behave = answering(503)
    await waiting(gateway, 2)
    shown = (await operate(gateway, "GET", LITERATURE)).json
    assert (shown["state"], shown["newest"], shown["hold"], shown["disagreement"]) == ("approved", 1, None, None)
    assert shown["inForce"] == shown["versions"][0]
    assert shown["inForce"]["proposed"]["by"] == "configuration"
    assert shown["inForce"]["credentials"] == [
        {"mode": "static_bearer", "issuer": gateway.issuer.url, "clientId": "workbench"}
    ]
    backlog = {"pending": 2, "sending": 0, "held": 0, "needsOwner": 0}
    assert {key: shown["backlog"][key] for key in backlog} == backlog
    [oldest] = await gateway.rows("SELECT min(window_started_at) AS at FROM deliveries WHERE state = 'pending'")
    assert shown["backlog"]["oldestSince"] == rfc3339(oldest["at"])
    breaker = shown["breaker"]
    assert breaker["state"] == "open"
    assert 1 <= breaker["failures"] < breaker["attempts"]
    assert breaker["lastSuccessAt"] <= breaker["lastFailureAt"] < breaker["openUntil"]
    await gateway.change("UPDATE agent_breakers SET open_until = 1")
    assert (await operate(gateway, "GET", LITERATURE)).json["breaker"]["state"] == "half_open"
    assert (await gateway.show(saved)).json["state"] == "saved"


async def test_the_backlog_is_the_tenants_own(gateway: Gateway, world: tuple[Gateway, dict[str, Specialist]]):
    """An operator of another tenant sees the agent and its breaker, and nothing of what waits here or of our hold."""
    world[1]["literature"].behave = answering(503)
    await waiting(gateway, 1)
    assert (await decide(gateway, "hold", "they are moving")).status == 200
    ours = (await operate(gateway, "GET", LITERATURE)).json
    theirs = (await operate(gateway, "GET", LITERATURE, tenant="other")).json
    assert (ours["backlog"]["held"], theirs["backlog"]["held"]) == (1, 0)
    assert (ours["hold"]["why"], theirs["hold"]) == ("they are moving", None)
    assert ours["breaker"] == theirs["breaker"]
    assert (await operate(gateway, "GET", AGENTS, tenant="other")).json["items"][1]["hold"] is None


async def test_the_list_has_filters_a_cursor_and_a_total(gateway: Gateway):
    """Page by page what fits, by id; the total counts all of it; a cursor belongs to its filter and tenant."""
    await decide(gateway, "versions/1/hold")
    listed = (await operate(gateway, "GET", AGENTS)).json
    assert ([each["agent"] for each in listed["items"]], listed["total"]) == (["chemistry", "literature"], 2)
    for query, found in (
        ("state=held", ["literature"]),
        ("state=approved&protocol=roblox-v1", ["chemistry"]),
        ("state=revoked", []),
        ("breaker=closed", ["chemistry", "literature"]),
        ("breaker=open", []),
        ("protocol=other", []),
    ):
        page = (await operate(gateway, "GET", f"{AGENTS}?{query}")).json
        assert ([each["agent"] for each in page["items"]], page["total"]) == (found, len(found)), query
    first = (await operate(gateway, "GET", f"{AGENTS}?limit=1")).json
    assert ([each["agent"] for each in first["items"]], first["total"]) == (["chemistry"], 2)
    rest = f"limit=1&cursor={first['next']}"
    second = (await operate(gateway, "GET", f"{AGENTS}?{rest}")).json
    assert ([each["agent"] for each in second["items"]], second["next"]) == (["literature"], None)
    for query, claims in ((f"{rest}&state=held", {}), (rest, {"tenant": "other"}), ("cursor=x", {})):
        refused = await operate(gateway, "GET", f"{AGENTS}?{query}", **claims)
        assert (refused.status, refused.json["parameter"]) == (400, "cursor")
    unknown = await operate(gateway, "GET", f"{AGENTS}?state=odd")
    assert (unknown.status, unknown.json["parameter"]) == (400, "state")


async def test_a_tenants_hold_parks_and_frees_what_waits(
    gateway: Gateway, world: tuple[Gateway, dict[str, Specialist]]
):
    """The answers say how many; a new rating is taken and held; once resumed it goes out."""
    world[1]["literature"].behave = answering(503)
    await waiting(gateway, 2)
    world[1]["literature"].behave = acknowledge
    await gateway.change("DELETE FROM agent_breakers")
    held = (await decide(gateway, "hold")).json
    assert (held["parked"], held["freed"], held["complete"]) == (2, 0, True)
    [new] = await waiting(gateway, 1, wait=None)
    assert (await gateway.until(new, "held"))["state"] == "held"
    again = await decide(gateway, "hold")
    assert (again.status, again.code, again.json["state"]) == (409, "decision_not_applicable", "held")
    resumed = (await decide(gateway, "resume")).json
    assert (resumed["parked"], resumed["freed"], resumed["agent"]["hold"]) == (0, 3, None)
    await gateway.until(new, "saved")
    again = await decide(gateway, "resume")
    assert (again.status, again.json["state"]) == (409, "not_held")


async def test_a_held_version_stops_everybody(gateway: Gateway):
    """Ratings of every tenant are taken and held; resumed, they go out, and the hold stays on record."""
    held = (await decide(gateway, "versions/1/hold", "it leaks")).json["agent"]
    assert (held["state"], held["inForce"]["state"], held["inForce"]["held"]["why"]) == ("held", "held", "it leaks")
    [new] = await waiting(gateway, 1, wait=None)
    await gateway.until(new, "held")
    resumed = (await decide(gateway, "versions/1/resume")).json
    assert (resumed["freed"], resumed["agent"]["state"]) == (1, "approved")
    assert resumed["agent"]["inForce"]["held"]["why"] == "it leaks"
    await gateway.until(new, "saved")


async def test_a_move_is_proposed_approved_and_vouched_for(
    gateway: Gateway, world: tuple[Gateway, dict[str, Specialist]]
):
    """A proposed origin holds what waits; approved, what was earned before waits for the word that it is the same."""
    world[1]["literature"].behave = answering(503)
    [old] = await waiting(gateway, 1)
    origin = world[1]["chemistry"].origin
    await gateway.change("DELETE FROM agent_breakers")
    proposed = await operate(gateway, "POST", f"{LITERATURE}/proposals", {"why": "moved", "origin": origin})
    assert (proposed.status, proposed.json["parked"]) == (201, 1)
    agent = proposed.json["agent"]
    assert (agent["state"], agent["inForce"], agent["versions"][1]["origin"]) == ("proposed", None, origin)
    assert agent["disagreement"] is None
    approved = (await decide(gateway, "versions/2/approve")).json
    assert approved["agent"]["inForce"]["version"] == 2
    assert approved["agent"]["disagreement"] == {"version": 2, "state": "approved", "differs": ["origin"]}
    assert (await gateway.show(old)).json["state"] == "held"
    same = (await decide(gateway, "versions/1/same-specialist", "the same team")).json
    assert same["freed"] == 1
    await gateway.change("UPDATE deliveries SET due_at = 0, not_before = 0")
    await gateway.until(old, "saved")
    assert [received.path for received in world[1]["chemistry"].posts] == ["/api/feedback"]


async def test_any_other_change_leaves_what_is_in_force(gateway: Gateway):
    """Name, limits, contact and credentials: nothing is interrupted, and the rest is as it was."""
    body = {"why": "they asked", "name": "Books", "limits": {"inFlight": 2}, "ownerContact": "books@example.org"}
    agent = (await operate(gateway, "POST", f"{LITERATURE}/proposals", body)).json["agent"]
    assert (agent["state"], agent["inForce"]["version"], agent["name"]) == ("approved", 1, "Literature")
    new = agent["versions"][1]
    assert (new["name"], new["limits"], new["ownerContact"]) == ("Books", {"inFlight": 2}, "books@example.org")
    kept = ("origin", "protocol", "credentials", "lineage")
    assert [new[key] for key in kept] == [agent["versions"][0][key] for key in kept]
    agent = (await decide(gateway, "versions/2/approve")).json["agent"]
    assert (agent["name"], agent["inForce"]["version"]) == ("Books", 2)
    await gateway.relay.registry.refresh()
    assert gateway.relay.courier.free([AgentId("literature"), AgentId("chemistry")]) == {
        "literature": 2,
        "chemistry": 16,
    }
    cleared = {"why": "nobody knows", "ownerContact": None, "limits": {}}
    agent = (await operate(gateway, "POST", f"{LITERATURE}/proposals", cleared)).json["agent"]
    assert (agent["versions"][2]["ownerContact"], agent["versions"][2]["limits"]) == (None, {"inFlight": None})


async def test_a_withdrawn_move_sets_what_waited_free(gateway: Gateway, world: tuple[Gateway, dict[str, Specialist]]):
    """What was in force before is so again; the proposal can neither be approved nor withdrawn again."""
    world[1]["literature"].behave = answering(503)
    await waiting(gateway, 1)
    await operate(gateway, "POST", f"{LITERATURE}/proposals", MOVED)
    withdrawn = (await decide(gateway, "versions/2/withdraw")).json
    assert (withdrawn["freed"], withdrawn["agent"]["inForce"]["version"]) == (1, 1)
    for action in ("withdraw", "approve"):
        again = await decide(gateway, f"versions/2/{action}")
        assert (again.status, again.code, again.json["state"]) == (409, "decision_not_applicable", "withdrawn")


async def test_a_revoked_agent_loses_nothing(gateway: Gateway, world: tuple[Gateway, dict[str, Specialist]]):
    """What waits is held, new ratings are refused; approved again, what waited goes out."""
    world[1]["literature"].behave = answering(503)
    [old] = await waiting(gateway, 1)
    world[1]["literature"].behave = acknowledge
    revoked = (await decide(gateway, "versions/1/revoke", "compromised")).json
    assert (revoked["parked"], revoked["agent"]["state"], revoked["agent"]["inForce"]) == (1, "revoked", None)
    assert revoked["agent"]["versions"][0]["ended"]["why"] == "compromised"
    await gateway.record("later", sub="alice")
    refused = await gateway.rate("later")
    assert (refused.status, refused.code) == (409, "destination_not_approved")
    assert (await decide(gateway, "versions/1/approve")).json["freed"] == 1
    await gateway.change("UPDATE deliveries SET due_at = 0, not_before = 0")
    await gateway.change("DELETE FROM agent_breakers")
    await gateway.until(old, "saved")


async def test_a_new_agent_is_proposed_and_approved(gateway: Gateway, world: tuple[Gateway, dict[str, Specialist]]):
    """With a credential whose file the configuration names; a rating then reaches it."""
    origin = world[1]["chemistry"].origin
    bearer = {"mode": "static_bearer", "issuer": gateway.issuer.url, "clientId": "workbench", "tokenFile": "bearer"}
    body = {
        "why": "a new one",
        "name": "Geology",
        "origin": origin,
        "protocol": "roblox-v1",
        "credentials": [bearer],
    }
    proposed = await operate(gateway, "POST", f"{AGENTS}/geology/proposals", body)
    assert (proposed.status, proposed.json["agent"]["state"]) == (201, "proposed")
    approved = await operate(gateway, "POST", f"{AGENTS}/geology/versions/1/approve", {"why": "checked"})
    assert (approved.json["agent"]["state"], approved.json["agent"]["disagreement"]) == ("approved", None)
    await gateway.record("t1", agent="geology")
    assert (await gateway.rate("t1")).status == 201


BEARER = {"mode": "static_bearer", "issuer": "ISSUER", "clientId": "workbench", "tokenFile": "bearer"}


@pytest.mark.parametrize(
    ("agent", "body", "pointers"),
    [
        ("literature", {"origin": "http://example.org"}, ["/origin"]),
        ("literature", {"origin": "https://Example.org/path"}, ["/origin"]),
        ("literature", {"protocol": "carrier-pigeon"}, ["/protocol"]),
        ("literature", {"credentials": []}, ["/credentials"]),
        ("literature", {"credentials": [{**BEARER, "tokenFile": "pepper"}]}, ["/credentials/0/tokenFile"]),
        ("literature", {"credentials": [{**BEARER, "tokenFile": "/etc/passwd"}]}, ["/credentials/0/tokenFile"]),
        ("literature", {"credentials": [{**BEARER, "tokenFile": "../bearer"}]}, ["/credentials/0/tokenFile"]),
        (
            "literature",
            {"credentials": [{**BEARER, "clientCertificateFile": "bearer", "clientCertificateKeyFile": "bearer"}]},
            ["/credentials/0/clientCertificateFile", "/credentials/0/clientCertificateKeyFile"],
        ),
        ("literature", {"credentials": [{**BEARER, "issuer": "https://other.example"}]}, ["/credentials/0/issuer"]),
        ("literature", {"credentials": [{"mode": "password"}]}, ["/credentials/0/mode"]),
        ("literature", {"limits": {"inFlight": 0}}, ["/limits/inFlight"]),
        ("literature", {"name": ""}, ["/name"]),
        ("newcomer", {"protocol": None}, ["/name", "/origin"]),
        ("new%20comer", {"name": "New", "origin": "https://new.example.org"}, [""]),
    ],
    ids=str,
)
async def test_a_proposal_that_could_not_stand_in_the_file_is_refused(
    lite: Gateway, agent: str, body: dict[str, Any], pointers: list[str]
):
    """422 with the place of each defect, by the file's own rules; no file is named that was not named before."""
    said = json.loads(json.dumps({"why": "x", **body}).replace("ISSUER", lite.issuer.url))
    refused = await operate(lite, "POST", f"{AGENTS}/{agent}/proposals", said)
    assert (refused.status, [error["pointer"] for error in refused.json["errors"]]) == (422, pointers)
    assert [row["version"] for row in await lite.rows("SELECT version FROM registrations")] == [1, 1]
    assert b"passwd" not in refused.body


@pytest.mark.parametrize("four_eyes", [True, False])
async def test_with_four_eyes_another_person_approves(tmp_path: Path, database_url: str, *, four_eyes: bool):
    """The proposer gets a 409 of its own; anybody else who may approve can. Both are told by their public names."""
    async with small_world(tmp_path, database_url, four_eyes=str(four_eyes).lower()) as (gateway, _):
        await operate(gateway, "POST", f"{LITERATURE}/proposals", MOVED, sub="peter")
        # Whichever program they use: at a terminal, in the console.
        own = await decide(gateway, "versions/2/approve", sub="peter", client_id="another")
        if not four_eyes:
            assert own.status == 200
            return
        assert (own.status, own.code, own.json["state"]) == (409, "own_proposal", "proposed")
        agent = (await decide(gateway, "versions/2/approve", sub="olga")).json["agent"]
        proposed, approved = (agent["inForce"][key]["by"] for key in ("proposed", "approved"))
        assert proposed.startswith("ok_")
        assert proposed != approved


async def test_what_was_decided_is_written_down_by_the_public_name(gateway: Gateway):
    """Who, what, of which agent and tenant, why; never the subject."""
    await decide(gateway, "hold", "they are moving")
    await decide(gateway, "versions/1/hold", "it leaks")
    entries = await gateway.rows("SELECT * FROM audit_log WHERE actor <> 'configuration' ORDER BY seq")
    assert [(e["action"], e["target"], e["tenant"], e["why"]) for e in entries] == [
        ("agent.hold", "literature", "acme", "they are moving"),
        ("agent.hold_version", "literature", None, "it leaks"),
    ]
    [owner] = await gateway.rows("SELECT owner_key FROM owners")
    assert {e["actor"] for e in entries} == {owner["owner_key"]}
    assert json.loads(entries[0]["after"])["held"] is True


READ, WRITE, ADMIN = "operator:read", "operator:write", "registry:admin"
DECISIONS = [
    ("hold", WRITE),
    ("resume", WRITE),
    *[(f"versions/1/{name}", ADMIN) for name in ("approve", "withdraw", "revoke", "hold", "resume", "same-specialist")],
]


@pytest.mark.parametrize(("action", "scope"), DECISIONS)
async def test_each_decision_needs_its_scope_a_person_and_a_reason(lite: Gateway, action: str, scope: str):
    """All other scopes together are not enough, nor is a machine; what does not exist is a 404 that says which."""
    others = " ".join({READ, WRITE, ADMIN} - {scope})
    assert (await decide(lite, action, scope=others)).status == 403
    machine = await decide(lite, action, sub="workbench", scope=ALL)
    assert (machine.status, machine.code) == (403, "insufficient_scope")
    no_reason = await operate(lite, "POST", f"{LITERATURE}/{action}", {}, scope=scope)
    assert (no_reason.status, no_reason.json["errors"][0]["pointer"]) == (422, "/why")
    absent = await operate(lite, "POST", f"{AGENTS}/absent/{action}", {"why": "x"}, scope=scope)
    assert (absent.status, absent.code) == (404, "agent_not_found")
    if action.startswith("versions"):
        for number in ("7", "0", "-1", "x", "99999999999999", "²"):
            path = f"{LITERATURE}/{action.replace('/1/', f'/{number}/')}"
            missing = await operate(lite, "POST", path.replace("²", "%C2%B2"), {"why": "x"}, scope=scope)
            assert (missing.status, missing.code) == (404, "version_not_found"), number
    assert await lite.rows("SELECT * FROM audit_log WHERE actor <> 'configuration'") == []


async def test_an_administrator_of_another_issuer_changes_nothing(tmp_path: Path, sqlite_database_url: str):
    """``registry:admin`` counts only in tokens of the configured issuers; a proposal would stop deliveries."""
    async with small_world(tmp_path, sqlite_database_url, admins="[]") as (gateway, _):
        refused = await operate(gateway, "POST", f"{LITERATURE}/proposals", MOVED)
        assert (refused.status, refused.code) == (403, "insufficient_scope")
        assert (await operate(gateway, "GET", LITERATURE)).json["state"] == "approved"


async def test_what_does_not_exist_is_not_shown(gateway: Gateway):
    """404 for an agent that nobody has registered, and 403 without the scope."""
    absent = await operate(gateway, "GET", f"{AGENTS}/absent")
    assert (absent.status, absent.code) == (404, "agent_not_found")
    for path in (AGENTS, LITERATURE):
        assert (await operate(gateway, "GET", path, scope=f"{WRITE} {ADMIN}")).status == 403
