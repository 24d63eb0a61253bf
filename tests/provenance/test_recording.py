"""What ``PUT /api/provenance/tasks/{agent}/{taskId}`` takes, keeps and refuses, on both engines."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect

from registry.model import AgentId, StaticBearer
from registry.registrations import Declaration
from relay.identity.model import OwnerTuple
from relay.operators.agents import Agents
from relay.provenance.wire import TaskBody
from tests.provenance.conftest import Recording
from tests.support.gateway import Answered, unguessable


def refused(answered: Answered, status: int, code: str) -> None:
    """A problem document with this status and code."""
    assert (answered.status, answered.code) == (status, code), answered.body
    assert answered.headers["Content-Type"] == "application/problem+json"


def pointers(answered: Answered) -> list[str]:
    return [error["pointer"] for error in answered.json["errors"]]


# What is kept.


async def test_the_first_word_is_201_and_a_repeat_200(recording: Recording):
    """Everything that was said comes back, with the pinned version and both times; a repeat changes nothing."""
    evidence = [{"kind": "page", "id": "p 1"}, {"kind": "tool_call", "id": "search-1"}]
    said: dict[str, Any] = {"parentTaskId": "plan-3", "runId": "run-9", "evidence": evidence}
    first = await recording.put("t1", **said)
    assert first.status == 201
    assert first.json["createdAt"] == first.json["finishedAt"]
    assert first.json == {
        "agent": "literature",
        "taskId": "t1",
        "conversationId": "c1",
        "answerId": "a1",
        "role": "specialist",
        "status": "completed",
        "ranAs": "owner",
        **said,
        "registrationVersion": 1,
        "createdAt": first.json["createdAt"],
        "finishedAt": first.json["finishedAt"],
    }
    repeat = await recording.put("t1", **{**said, "evidence": evidence[::-1]})
    assert (repeat.status, repeat.json) == (200, first.json)
    assert await recording.count() == 1


async def test_tenant_and_writer_are_those_of_the_token(recording: Recording):
    """A row says who wrote it first, by the token alone; the same owner's token of another tenant leaves that alone."""
    await recording.put("t1", token=recording.human(tenant="acme"))
    assert (await recording.put("t1", token=recording.human(tenant="other"))).status == 200
    rows = await recording.rows("SELECT tenant, recorded_by FROM provenance")
    assert rows == [{"tenant": "acme", "recorded_by": "workbench"}]


async def test_a_task_runs_and_then_ends_once(recording: Recording):
    """From running to a terminal value, with the time of the end; no later word moves that time."""
    running = await recording.put("t1", status="running")
    assert (running.status, running.json["finishedAt"]) == (201, None)
    assert (await recording.put("t1", status="running")).status == 200
    ended = await recording.put("t1", status="failed")
    assert (ended.status, ended.json["status"]) == (200, "failed")
    assert ended.json["finishedAt"] >= ended.json["createdAt"] == running.json["createdAt"]
    assert (await recording.put("t1", status="failed")).json == ended.json
    await recording.gateway.change("UPDATE provenance SET created_at = 1000, finished_at = 2000")
    later = await recording.put("t1", status="failed", runId="r1")
    assert (later.json["runId"], later.json["finishedAt"]) == ("r1", "1970-01-01T00:00:02.000Z")


@pytest.mark.parametrize("name", ["parentTaskId", "runId"])
async def test_parent_and_run_may_be_set_once_later(recording: Recording, name: str):
    """Unknown at first, set by a later word, kept by one that leaves it out, and never replaced."""
    assert (await recording.put("t1")).json[name] is None
    assert (await recording.put("t1", **{name: "x"})).json[name] == "x"
    assert (await recording.put("t1")).json[name] == "x"
    answered = await recording.put("t1", **{name: "y"})
    refused(answered, 409, "provenance_conflict")
    assert pointers(answered) == [f"/{name}"]
    assert (await recording.put("t1")).json[name] == "x"


async def test_evidence_is_a_union_that_only_grows(recording: Recording):
    """Each word adds what is new; the same item twice, in one body or two, is one."""
    a, b, c = ({"kind": "tool_call", "id": name} for name in "abc")
    assert (await recording.put("t1", evidence=[b, b])).json["evidence"] == [b]
    assert (await recording.put("t1", evidence=[a])).json["evidence"] == [a, b]
    assert (await recording.put("t1")).json["evidence"] == [a, b]
    assert (await recording.put("t1", evidence=[c, {"kind": "page", "id": "a"}])).json["evidence"] == [
        {"kind": "page", "id": "a"},
        *(a, b, c),
    ]


async def test_a_record_holds_a_hundred_items_of_evidence(recording: Recording):
    """In one body or in several: the hundred and first is refused, and nothing of its body is kept."""
    items = [{"kind": "tool_call", "id": f"{n:03}"} for n in range(101)]
    too_many = await recording.put("t1", evidence=items)
    refused(too_many, 422, "invalid_field")
    assert pointers(too_many) == ["/evidence"]
    assert await recording.count() == 0
    assert len((await recording.put("t1", evidence=items[:99])).json["evidence"]) == 99
    over = await recording.put("t1", evidence=items[98:], runId="r1")
    refused(over, 422, "invalid_field")
    assert pointers(over) == ["/evidence"]
    full = await recording.put("t1", evidence=items[90:100])
    assert (full.status, len(full.json["evidence"]), full.json["runId"]) == (200, 100, None)


async def test_the_version_of_the_registration_is_pinned_the_first_time(recording: Recording):
    """A later version of the registration does not touch what is recorded; a new task pins what is in force then."""
    await recording.put("t1", status="running")
    relay = recording.gateway.relay
    approved = relay.registry.snapshot[AgentId("literature")].approved
    assert approved is not None
    changed = Declaration(
        agent=approved.agent,
        name="Literature, renamed",
        origin=approved.origin,
        protocol=approved.protocol,
        credentials=approved.credentials,
    )
    await Agents(relay.db).seed([changed])
    await relay.registry.reload()
    assert (await recording.put("t1", status="completed")).json["registrationVersion"] == 1
    assert (await recording.put("t2")).json["registrationVersion"] == 2
    await Agents(relay.db).approve(approved.agent, approved.version, "ops", "as it was")
    await relay.registry.reload()
    assert (await recording.put("t3")).json["registrationVersion"] == 1


async def test_a_task_of_a_revoked_agent_is_recorded_all_the_same(recording: Recording):
    """What ran, ran: the newest version is pinned, and whether anything may be sent is another question."""
    relay = recording.gateway.relay
    await Agents(relay.db).revoke(AgentId("literature"), "ops", "gone")
    await relay.registry.reload()
    answered = await recording.put("t1")
    assert (answered.status, answered.json["registrationVersion"]) == (201, 1)


async def test_an_agent_that_was_registered_a_moment_ago_is_known(recording: Recording):
    """A process that has not read the registry since looks again before it says that there is no such agent."""
    bearer = StaticBearer(issuer=recording.login.url, client_id="workbench", token_file="bearer")
    newcomer = Declaration(
        agent=AgentId("newcomer"),
        name="N",
        origin="https://newcomer.example.org",
        protocol="roblox-v1",
        credentials=(bearer,),
    )
    await Agents(recording.gateway.relay.db).seed([newcomer])
    assert (await recording.put("t1", agent="newcomer")).status == 201


# Under which identity it ran.


async def test_ran_as_is_the_owner_unless_a_machine_says_otherwise(recording: Recording):
    """Left out: "owner" the first time, unchanged on a repeat; the other word is then a conflict."""
    machine = recording.machine()
    assert (await recording.put("t1")).json["ranAs"] == "owner"
    said = await recording.put("t2", token=machine, subject="alice", ranAs="client")
    assert (said.status, said.json["ranAs"]) == (201, "client")
    for again in ({}, {"ranAs": "client"}):
        repeat = await recording.put("t2", token=machine, subject="alice", **again)
        assert (repeat.status, repeat.json) == (200, said.json)
    other = await recording.put("t2", token=machine, subject="alice", ranAs="owner")
    refused(other, 409, "provenance_conflict")
    assert pointers(other) == ["/ranAs"]


async def test_a_person_says_more_about_what_a_machine_recorded_for_them(recording: Recording):
    """The same owner, whoever writes: a person's own word that leaves ranAs out leaves "client" as it is."""
    await recording.put("t1", token=recording.machine(), subject="alice", ranAs="client", status="running")
    ended = await recording.put("t1", token=recording.human("alice"))
    assert (ended.status, ended.json["ranAs"], ended.json["status"]) == (200, "client", "completed")
    assert await recording.count() == 1


async def test_a_person_may_not_say_that_the_client_ran_it(recording: Recording):
    """Only a machine token may record "client": else a person could borrow the client's own credentials."""
    refused(await recording.put("t1", ranAs="client"), 403, "ran_as_not_allowed")
    assert await recording.count() == 0
    await recording.put("t1", token=recording.machine(), subject="alice", ranAs="client")
    refused(await recording.put("t1", ranAs="client"), 403, "ran_as_not_allowed")


async def test_for_a_machine_owner_both_words_are_the_same(recording: Recording):
    """A machine that names nobody owns the task itself: owner or client, said in any order, is one and the same."""
    machine = recording.machine()
    first = await recording.put("t1", token=machine, ranAs="owner")
    assert (first.status, first.json["ranAs"]) == (201, "client")
    for again in ({}, {"ranAs": "client"}, {"ranAs": "owner"}):
        assert (await recording.put("t1", token=machine, **again)).json == first.json
    [owner] = await recording.rows("SELECT kind, client FROM owners")
    assert owner == {"kind": "machine", "client": "workbench"}


# Who may record what.


async def test_a_client_that_is_not_configured_records_nothing(recording: Recording):
    """Neither a client without an entry, nor one of the same id at another issuer."""
    for token in (
        recording.machine("stranger"),
        recording.human(client_id="stranger"),
        recording.machine("workbench", issuer=recording.partner),
        recording.human(issuer=recording.partner),
    ):
        refused(await recording.put("t1", token=token), 403, "client_not_allowed")
    assert await recording.count("owners") == 0


async def test_an_agent_outside_the_clients_list_is_403_and_an_unknown_one_404(recording: Recording):
    """The list is asked first: a client learns nothing of agents that it may not record."""
    narrow = recording.machine("narrow")
    assert (await recording.put("t1", token=narrow)).status == 201
    for agent in ("chemistry", "nowhere"):
        refused(await recording.put("t1", token=narrow, agent=agent), 403, "agent_not_allowed")
    refused(await recording.put("t1", token=narrow, agent="no-such-agent"), 404, "agent_not_found")
    for unknown in ("nowhere", "Literature", "literature ", "*"):
        refused(await recording.put("t1", agent=unknown), 404, "agent_not_found")
    assert await recording.count() == 1


async def test_a_person_may_not_name_a_subject(recording: Recording):
    """Not another's, and not even their own."""
    for subject in ("bob", "alice"):
        answered = await recording.put("t1", token=recording.human("alice"), subject=subject)
        refused(answered, 403, "subject_not_allowed")
    assert await recording.count("owners") == 0


async def test_a_machine_names_people_of_the_issuers_it_is_configured_for(recording: Recording):
    """By default of its own token's issuer; of another only where on_behalf_of says so; itself is no person."""
    login, partner = recording.login.url, recording.partner.url
    refusals: list[tuple[str, dict[str, str]]] = [
        ("narrow", {"subject": "alice"}),
        ("narrow", {"subject": "alice", "subjectIssuer": login}),
        ("workbench", {"subject": "alice", "subjectIssuer": partner}),
        ("broker", {"subject": "alice", "subjectIssuer": "https://elsewhere.example.org"}),
        ("broker", {"subject": "alice", "subjectIssuer": login + "/"}),
        ("workbench", {"subject": "workbench"}),
    ]
    for client, named in refusals:
        answered = await recording.put("t1", token=recording.machine(client), **named)
        refused(answered, 403, "subject_not_allowed")
    assert await recording.count("owners") == 0
    for named in ({"subject": "carol"}, {"subject": "carol", "subjectIssuer": partner}):
        assert (await recording.put("t1", token=recording.machine("broker"), **named)).status == 201
    assert (
        await recording.put("t1", token=recording.machine("broker"), subject="carol", subjectIssuer=login)
    ).status == 200
    owners = await recording.rows("SELECT kind, issuer, client FROM owners ORDER BY id")
    assert owners == [
        {"kind": "human", "issuer": login, "client": "broker"},
        {"kind": "human", "issuer": partner, "client": "broker"},
    ]


async def test_an_issuer_without_a_subject_means_nothing(recording: Recording):
    """Refused as a mistake, by its own name."""
    answered = await recording.put("t1", token=recording.machine("broker"), subjectIssuer=recording.partner.url)
    refused(answered, 422, "invalid_field")
    assert pointers(answered) == ["/subjectIssuer"]
    assert await recording.count("owners") == 0


async def test_what_a_machine_records_for_a_person_is_that_persons(recording: Recording):
    """The person, by way of the same client, sees it and the machine does not."""
    await recording.put("t1", token=recording.machine(), subject="alice")
    call = recording.gateway.call
    assert (await call("GET", "/api/answers/a1/targets", token=recording.human("alice"))).status == 200
    for token in (recording.machine(), recording.human("bob"), recording.human("alice", client_id="broker")):
        refused(await call("GET", "/api/answers/a1/targets", token=token), 404, "answer_not_found")


async def test_two_owners_record_the_same_task_and_neither_notices(recording: Recording):
    """Nobody can block or detect another's record: the second owner gets the 201 of a first."""
    alice = await recording.put("t1", runId="r1")
    bob = await recording.put("t1", token=recording.human("bob"), conversationId="c9", answerId="a9", status="running")
    assert (alice.status, bob.status) == (201, 201)
    assert (bob.json["conversationId"], bob.json["runId"], bob.json["evidence"]) == ("c9", None, [])
    assert (await recording.put("t1", runId="r1")).json == alice.json
    assert (await recording.put("t1", token=recording.human("bob"), conversationId="c9", answerId="a9")).status == 200
    assert await recording.count() == 2


# What never changes.

CONFLICTS = {
    "conversationId": "c2",
    "answerId": "a2",
    "role": "coordinator",
    "ranAs": "owner",
    "parentTaskId": "p2",
    "runId": "r2",
    "status": "failed",
}


@pytest.mark.parametrize("change", [*([name] for name in CONFLICTS), list(CONFLICTS)], ids="+".join)
async def test_a_conflict_names_each_member_that_differs(recording: Recording, change: list[str]):
    """409 with a pointer to every member at fault, and the record stays as it was, evidence included."""
    token = recording.machine()
    said = {"subject": "alice", "ranAs": "client", "parentTaskId": "p1", "runId": "r1"}
    first = await recording.put("t1", token=token, **said)
    other = {**said, **{name: CONFLICTS[name] for name in change}, "evidence": [{"kind": "page", "id": "new"}]}
    answered = await recording.put("t1", token=token, **other)
    refused(answered, 409, "provenance_conflict")
    assert sorted(pointers(answered)) == sorted(f"/{name}" for name in change)
    assert (await recording.put("t1", token=token, **said)).json == first.json


async def test_a_status_never_goes_back(recording: Recording):
    """Not to running, and not to another end."""
    await recording.put("t1", status="canceled")
    for status in ("running", "completed", "failed"):
        answered = await recording.put("t1", status=status)
        refused(answered, 409, "provenance_conflict")
        assert pointers(answered) == ["/status"]
    assert (await recording.put("t1", status="canceled")).status == 200


# Ids.


NO_IDS = [
    *("%2E", "%2e%2E", ".", ".."),  # another path to whoever normalises it
    *("%0A", "a%0D", "%01", "%7F", "%C2%85"),  # controls
    *("x" * 257, "%F0%9F%98%80" * 257),
]


@pytest.mark.parametrize("where", ["agent", "taskId"])
async def test_what_is_no_id_in_the_path_is_422(recording: Recording, where: str):
    """Lone dots, control characters, more than 256 characters: named by the part of the path, nothing stored."""
    for segment in NO_IDS:
        answered = await recording.put(path=f"{segment}/t1" if where == "agent" else f"literature/{segment}")
        refused(answered, 422, "invalid_field")
        assert pointers(answered) == [f"/{where}"]
    assert await recording.count("owners") == 0


async def test_broken_percent_encoding_is_400(recording: Recording):
    """It is never taken as the literal text, which another encoding spells."""
    assert (await recording.put(path="literature/%25FF")).json["taskId"] == "%FF"
    for path in ("literature/%FF", "literature/%", "literature/%2", "literature/%zz", "%C3/t1", "literature/%00"):
        refused(await recording.put(path=path), 400, "malformed_request")
    assert await recording.count() == 1


async def test_a_path_of_another_shape_is_no_task(recording: Recording):
    """An empty segment is no id, and a raw slash parts two."""
    for path in ("literature/", "/t1", "literature", "literature/a/b"):
        answered = await recording.gateway.call("PUT", f"/api/provenance/tasks/{path}", {}, token=recording.human())
        refused(answered, 404, "not_found")


async def test_ids_are_kept_as_they_came(recording: Recording):
    """Each is percent-decoded once and never normalised: what looks alike stays apart, and comes back as it was."""
    ids = [
        *("a/b", "a%2Fb", "%FF", "a b", "a+b", "a%20b", " a", "a ", "../t", "...", "t;v=1", "t?x#y", "{t}", "T", "t"),
        *("\u00e9", "e\u0301", "\u202e", "\u4efb\u52a1 \U0001f600", "x" * 256, "\U0001f600" * 256),
    ]
    for task in ids:
        answered = await recording.put(task)
        assert (answered.status, answered.json["taskId"]) == (201, task)
    for task in ids:
        assert (await recording.put(task)).status == 200
    assert {row["task"] for row in await recording.rows("SELECT task FROM provenance")} == set(ids)


async def test_one_id_however_it_is_encoded(recording: Recording):
    """Escapes of characters that need none name the same task (RFC 3986 section 6.2.2)."""
    assert (await recording.put(path="literature/t%2D1")).status == 201
    for same in ("literature/t-1", "%6Citerature/t%2d1"):
        assert (await recording.put(path=same)).status == 200


BAD: list[tuple[dict[str, Any], str]] = [
    ({"conversationId": ""}, "/conversationId"),
    ({"conversationId": "x" * 257}, "/conversationId"),
    ({"answerId": "a\n"}, "/answerId"),
    ({"answerId": 7}, "/answerId"),
    ({"parentTaskId": ""}, "/parentTaskId"),
    ({"runId": "\x7f"}, "/runId"),
    ({"subject": ""}, "/subject"),
    ({"role": "parent"}, "/role"),
    ({"status": "done"}, "/status"),
    ({"status": "Completed"}, "/status"),
    ({"ranAs": "alice"}, "/ranAs"),
    ({"owner": "bob"}, "/owner"),
    ({"tenant": "other"}, "/tenant"),
    ({"registrationVersion": 2}, "/registrationVersion"),
    ({"evidence": {}}, "/evidence"),
    ({"evidence": [{"kind": "page", "id": ""}]}, "/evidence/0/id"),
    ({"evidence": [{"kind": "page", "id": "1"}, {"kind": "a\tb", "id": "2"}]}, "/evidence/1/kind"),
    ({"evidence": [{"kind": "page"}]}, "/evidence/0/id"),
    ({"evidence": [{"kind": "page", "id": "1", "url": "https://x"}]}, "/evidence/0/url"),
    ({"conversationId": None, "answerId": None}, "/answerId"),
]


async def test_a_bad_member_is_named(recording: Recording):
    """422 with a pointer to each member at fault, unknown and missing ones included; nothing is stored."""
    for change, pointer in BAD:
        answered = await recording.put("t1", **change)
        refused(answered, 422, "invalid_field")
        assert pointer in pointers(answered), change
    assert await recording.count("owners") == 0


async def test_the_route_takes_no_parameters(recording: Recording):
    """A query is a mistake, and said to be one."""
    refused(await recording.put(path="literature/t1?subject=bob"), 400, "invalid_parameter")
    assert await recording.count("owners") == 0


# Races.


async def test_thirty_identical_words_at_once_make_one_record(recording: Recording):
    """One is the first; the others find it. None is an error, and the owner is stored once."""
    said: dict[str, Any] = {"evidence": [{"kind": "page", "id": str(n)} for n in range(5)], "runId": "r1"}
    answers = await asyncio.gather(*(recording.put("t1", **said) for _ in range(30)))
    assert Counter(a.status for a in answers) == {201: 1, 200: 29}
    assert len({a.body for a in answers}) == 1
    assert (await recording.count(), await recording.count("owners")) == (1, 1)
    assert await recording.count("provenance_evidence") == 5


async def test_of_two_ends_at_once_one_wins(recording: Recording):
    """Everybody who says the same as the winner is right; everybody else gets the conflict."""
    await recording.put("t1", status="running")
    statuses = ["completed", "failed"] * 10
    answers = await asyncio.gather(*(recording.put("t1", status=status) for status in statuses))
    won = (await recording.rows("SELECT status FROM provenance"))[0]["status"]
    assert won in {"completed", "failed"}
    for status, answered in zip(statuses, answers, strict=True):
        if status == won:
            assert answered.status == 200
        else:
            refused(answered, 409, "provenance_conflict")


async def test_evidence_of_words_at_once_is_all_kept(recording: Recording):
    """No word overwrites another: the union holds what each of them brought."""
    items = [{"kind": "page", "id": f"{n:02}"} for n in range(20)]
    answers = await asyncio.gather(*(recording.put("t1", evidence=[item]) for item in items))
    assert Counter(a.status for a in answers) == {201: 1, 200: 19}
    assert (await recording.put("t1")).json["evidence"] == items


# The subject.


def whose(recording: Recording, subject: str, *, client: str = "workbench", issuer: str | None = None) -> OwnerTuple:
    return OwnerTuple("human", issuer or recording.login.url, client, subject)


async def sealed_of(recording: Recording, owner: OwnerTuple) -> str | None:
    """What the database keeps of the subject, opened with the deployment's key."""
    relay = recording.gateway.relay
    found = await relay.owners.find(owner)
    assert found is not None
    return await relay.owners.subject_of(found.id)


async def test_the_subject_is_sealed_for_an_agent_that_may_be_faced_in_the_owners_absence(recording: Recording):
    """Chemistry asserts the Workbench's people: theirs is kept, whether they record or the machine does for them."""
    alice, bob = unguessable(), unguessable()
    await recording.put("t1", agent="chemistry", token=recording.human(alice))
    await recording.put("t1", agent="chemistry", token=recording.machine(), subject=bob)
    for subject in (alice, bob):
        assert await sealed_of(recording, whose(recording, subject)) == subject


async def test_the_subject_is_not_kept_where_no_credential_needs_it(recording: Recording):
    """Another agent, client or issuer, a revoked agent: nothing is sealed; and a machine has no subject."""
    partner = recording.partner.url
    alice, bob, carol, dora = (unguessable() for _ in range(4))
    await recording.put("t1", agent="literature", token=recording.human(alice))
    await recording.put("t1", agent="chemistry", token=recording.human(bob, client_id="broker"))
    await recording.put(
        "t1", agent="chemistry", token=recording.machine("broker"), subject=carol, subjectIssuer=partner
    )
    await recording.put("t1", agent="chemistry", token=recording.machine())
    relay = recording.gateway.relay
    await Agents(relay.db).revoke(AgentId("chemistry"), "ops", "gone")
    await relay.registry.reload()
    await recording.put("t1", agent="chemistry", token=recording.human(dora))
    for owner in (
        whose(recording, alice),
        whose(recording, bob, client="broker"),
        whose(recording, carol, client="broker", issuer=partner),
        whose(recording, dora),
    ):
        assert await sealed_of(recording, owner) is None
    assert await recording.count("owners") == 5
    assert await recording.rows("SELECT id FROM owners WHERE sealed_subject IS NOT NULL OR seal_kid IS NOT NULL") == []


async def test_the_subject_is_sealed_once_it_is_needed(recording: Recording):
    """An owner known without it so far: the first task at an agent that needs the subject seals it, same owner."""
    alice = unguessable()
    await recording.put("t1", agent="literature", token=recording.human(alice))
    assert await sealed_of(recording, whose(recording, alice)) is None
    await recording.put("t1", agent="chemistry", token=recording.human(alice))
    assert await sealed_of(recording, whose(recording, alice)) == alice
    assert await recording.count("owners") == 1


async def every_value(recording: Recording) -> list[bytes]:
    """Each value of each column of each table, as bytes; on SQLite the raw files too."""
    db = recording.gateway.relay.db
    values: list[bytes] = []
    async with db.read() as connection:
        tables = await connection.run_sync(lambda c: inspect(c).get_table_names())
        for table in tables:
            for row in await connection.exec_driver_sql(f'SELECT * FROM "{table}"'):
                values += [bytes(v) if isinstance(v, bytes | memoryview) else str(v).encode() for v in row]
    return values + (raw_files(str(db.url.database)) if db.dialect == "sqlite" else [])


def raw_files(path: str) -> list[bytes]:
    """What SQLite has written, deleted rows and the log included."""
    return [Path(path + suffix).read_bytes() for suffix in ("", "-wal")]


async def test_the_clear_subject_is_nowhere_in_the_database(recording: Recording):
    """Sealed or not, recorded by its person or by a machine, rated or refused: no table holds a subject or a token."""
    alice, bob, carol = unguessable(), unguessable(), unguessable()
    token = recording.human(alice, scope="provenance:write feedback:write")
    await recording.put("t1", agent="chemistry", token=token, evidence=[{"kind": "page", "id": "found-me"}])
    await recording.put("t1", agent="literature", token=recording.machine(), subject=bob, ranAs="client")
    await recording.put("t1", agent="nowhere", token=recording.human(carol))
    rating = {"id": "0b5a1f6e-0f5c-4a53-9a3e-0d8f3f2b7c11", "taskId": "t1", "rating": "up"}
    rated = await recording.gateway.call(
        "POST", "/api/feedback", rating, token=token, headers={"Prefer": "respond-async"}
    )
    assert rated.status == 202
    values = await every_value(recording)
    assert any(b"found-me" in value for value in values)
    for secret in (alice, bob, carol, token, token.rpartition(".")[2]):
        assert not any(secret.encode() in value for value in values)


def test_the_names_of_the_conflicts_are_those_of_the_body():
    """The table of conflicts covers every member of the body that may not change."""
    assert set(CONFLICTS) == set(TaskBody.__struct_encode_fields__) - {"subject", "subjectIssuer", "evidence"}
