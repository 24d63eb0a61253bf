"""The verdict of the fault suite: each finding is found where the facts are doctored, and nowhere else."""

from dataclasses import fields, replace

import pytest

from tests.faults.facts import Facts, Findings, Refused, Stored, findings

A, B = "id-a", "id-b"
BODY = b'{"id":"id-a"}'

SOUND = Facts(
    accepted=frozenset({A, B}),
    stored=(
        Stored(id=A, task="t1", state="saved", payload=BODY, attempts=2),
        Stored(id=B, task="t2", state="pending", payload=b"b", attempts=1),
    ),
    held={A: "t1"},
    received={A: [BODY, BODY], B: [b"b"]},
    acknowledged=frozenset({A}),
)
"""One saved at the second attempt, one that waits."""

SAVED, WAITING = SOUND.stored

DOCTORED = {
    "accepted, and not on record": (replace(SOUND, stored=(SAVED,), received={A: [BODY, BODY]}), {"lost": 1}),
    "given up without the specialist having it": (
        replace(SOUND, stored=(SAVED, replace(WAITING, state="exhausted"))),
        {"lost": 1},
    ),
    "saved, and the specialist has not got it": (replace(SOUND, held={}), {"lost": 1}),
    "two rows with the specialist for one task": (replace(SOUND, held={A: "t1", B: "t1"}), {"doubled": 1}),
    "two rows with the relay for one task": (
        replace(SOUND, stored=(SAVED, replace(WAITING, task="t1"))),
        {"doubled": 1},
    ),
    "other bytes in the second attempt": (replace(SOUND, received={A: [BODY, b"x"], B: [b"b"]}), {"doubled": 1}),
    "other bytes than those on record": (replace(SOUND, received={A: [BODY], B: [b"x"]}), {"doubled": 1}),
    "sent, and not on record": (replace(SOUND, received={**SOUND.received, "id-c": [b"c"]}), {"doubled": 1}),
    "saved by what was no acknowledgement": (replace(SOUND, acknowledged=frozenset()), {"unacknowledged": 1}),
    "sending, with its lease over": (
        replace(SOUND, stored=(SAVED, replace(WAITING, state="sending", overdue=True))),
        {"stuck": 1},
    ),
    "pending, long after it was due": (replace(SOUND, stored=(SAVED, replace(WAITING, overdue=True))), {"stuck": 1}),
    "received more often than attempted": (
        replace(SOUND, stored=(replace(SAVED, attempts=1), WAITING)),
        {"unlogged": 1},
    ),
    "a 5xx that nothing excuses": (
        replace(SOUND, refused=[Refused(status=500, code="internal_error")], excused=frozenset({"x"})),
        {"unexpected_5xx": 1},
    ),
    "what the case itself found": (replace(SOUND, breaches=["127.0.0.1 was dialled"]), {"breaches": 1}),
}

CLEAN = dict.fromkeys((field.name for field in fields(Findings)), 0)


@pytest.mark.parametrize(("facts", "found"), DOCTORED.values(), ids=DOCTORED)
def test_what_is_wrong_is_found(facts: Facts, found: dict[str, int]):
    """One thing is wrong, and that and nothing else is counted."""
    assert findings(facts) == Findings(**{**CLEAN, **found})
    assert not findings(facts).clean


def test_every_finding_can_be_found():
    """No column of the table is one that is 0 whatever happens."""
    assert {name for _, found in DOCTORED.values() for name in found} == set(CLEAN)


def test_what_is_right_is_left_alone():
    """Neither waiting, nor a retry with the same bytes, nor an excused 503 is anything to report."""
    excused = replace(
        SOUND,
        refused=[Refused(status=503, code="database_unavailable")],
        excused=frozenset({"database_unavailable"}),
    )
    assert findings(excused) == Findings(**CLEAN)
    assert findings(excused).clean
