"""The main path, on real parts: a rating reaches the specialist whose run earned it, and is saved when it says so."""

from tests.support.gateway import SECRET, Gateway, new_id
from tests.support.specialist import Specialist, answering


async def test_a_rating_is_forwarded_and_saved(relay: Gateway, literature: Specialist, chemistry: Specialist):
    """One rating of one of two contributors: 201 to the caller, one request to that specialist, none to the other."""
    assert (await relay.record("t1")).status == 201
    assert (await relay.record("t2", agent="chemistry")).status == 201
    submission = new_id()
    answered = await relay.rate("t1", id=submission, comment="Well found.")
    assert answered.status == 201
    assert answered.json["saved"] is True
    assert answered.json["state"] == "saved"
    assert answered.json["agent"] == "literature"
    assert [r.body for r in literature.posts] == [
        f'{{"id":"{submission}","taskId":"t1","rating":"up","comment":"Well found."}}'.encode()
    ]
    sent = literature.posts[0].headers
    assert sent["Authorization"] == f"Bearer {SECRET}"
    assert sent["Idempotency-Key"] == submission
    assert chemistry.received == []
    assert (await relay.show(submission)).json["state"] == "saved"


async def test_the_worker_finishes_what_the_first_attempt_could_not(relay: Gateway, literature: Specialist):
    """A specialist that is down: 202 and a visible wait; when it is back, the same UUID and bytes are saved."""
    await relay.record("t1")
    await literature.stop()
    submission = new_id()
    answered = await relay.rate("t1", id=submission, wait="respond-async")
    assert answered.status == 202
    assert answered.json["saved"] is False
    assert answered.headers["Location"] == f"/api/feedback/{submission}"
    waiting = await relay.until(submission, "pending")
    assert waiting["nextAttemptAt"] is not None
    await literature.start()
    saved = await relay.until(submission, "saved")
    assert saved["id"] == submission
    assert {r.json["id"] for r in literature.posts} == {submission}


async def test_an_answer_that_is_no_acknowledgement_saves_nothing(relay: Gateway, literature: Specialist):
    """A 200 is not a 201: the submission stays unsaved, with the reason in its last attempt."""
    await relay.record("t1")
    literature.behave = answering(200, {"saved": True})
    answered = await relay.rate("t1")
    assert answered.status == 202
    assert answered.json["state"] == "pending"
    assert answered.json["lastAttempt"]["status"] == 200
