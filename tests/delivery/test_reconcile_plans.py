"""How PostgreSQL goes about reading back: by index, however many deliveries lie around."""

from sqlalchemy import text

from tests.delivery.test_plans import LARGE, crowded, explained, noting
from tests.support.gateway import Gateway
from tests.support.reconciling import reconciler
from tests.support.specialist import Specialist

__all__ = ["crowded"]  # the fixture


async def test_reading_back_scans_no_large_table(crowded: tuple[Gateway, Specialist]):
    """Half of twenty thousand checks are due of an agent that may not be asked, half are due tomorrow: of the one that
    is due, the claim and the settle look at little else."""  # noqa: D209
    relay, literature = crowded
    db = relay.relay.db
    later = "CASE agent WHEN 'backlog' THEN 1 ELSE {now} + 86400000 END"
    async with db.statement() as connection:
        await connection.execute(db.sql(f"UPDATE deliveries SET check_due_at = {later}"))
        await connection.execute(text("ANALYZE deliveries"))
    await relay.record("t1")
    submission = (await relay.rate("t1")).json["id"]
    literature.listing = [{"id": submission, "taskId": "t1", "rating": "up", "resolution": "fixed"}]
    await relay.change("UPDATE deliveries SET check_due_at = 1 WHERE agent = 'literature'")
    with noting(db) as noted:
        [checks] = await reconciler(relay.relay).claim()
        await reconciler(relay.relay).check(checks)
    assert (await relay.show(submission)).json["evidence"] == "confirmed"
    statements = noted.naming("check_due_at")
    assert len(statements) >= 5
    async with db.read() as connection:
        for statement in statements:
            plan = await explained(connection, "COSTS", statement, noted.statements[statement])
            assert [scan for scan in plan if scan.whole and scan.table in LARGE] == [], statement
        [candidates] = noted.naming("ORDER BY d.check_due_at, d.id")
        plan = await explained(connection, "ANALYZE", candidates, noted.statements[candidates])
    assert {scan.index for scan in plan if scan.table == "deliveries"} == {"ix_deliveries_checks"}
    assert sum(scan.rows for scan in plan if scan.table == "deliveries") <= 3
