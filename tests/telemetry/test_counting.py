"""What becomes of ratings is counted, on real parts."""

from pathlib import Path

from tests.support.gateway import small_world
from tests.support.specialist import answering


async def test_what_is_not_saved_is_counted_by_what_became_of_it(tmp_path: Path, database_url: str):
    """A specialist that answers 200 to its only attempt leaves an exhausted rating: an unmatched acknowledgement with
    its reason, a final state, and no time to saved. Another that saves has a time and nothing of that.
    """
    world = small_world(tmp_path, database_url, schedule='["0s"]')
    async with world as (relay, specialists):
        specialists["literature"].behave = answering(200, {"saved": True})
        for task, agent, state in (("t1", "literature", "exhausted"), ("t2", "chemistry", "saved")):
            await relay.record(task, agent=agent)
            assert (await relay.rate(task)).json["state"] == state
        value = relay.relay.metrics.registry.get_sample_value
        settled = "feedback_relay_deliveries_settled_total"
        assert value(settled, {"agent": "literature", "state": "exhausted"}) == 1
        assert value(settled, {"agent": "chemistry", "state": "saved"}) == 1
        failures = "feedback_relay_attempt_failures_total"
        assert value(failures, {"agent": "literature", "reason": "not_created"}) == 1
        unmatched = "feedback_relay_unmatched_acknowledgements_total"
        assert value(unmatched, {"agent": "literature"}) == 1
        assert not value(unmatched, {"agent": "chemistry"})
        saved = "feedback_relay_time_to_saved_seconds_count"
        assert value(saved, {"agent": "chemistry"}) == 1
        assert not value(saved, {"agent": "literature"})
