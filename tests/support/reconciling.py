"""Reading back when a test says so, instead of minutes later."""

from relay.app import Relay
from relay.delivery.reconcile.reconciler import Reconciler


def reconciler(relay: Relay) -> Reconciler:
    assert relay.reconciler is not None
    return relay.reconciler


async def make_due(relay: Relay) -> None:
    """Let time pass until every check that is planned is due."""
    async with relay.db.write() as connection:
        due = "UPDATE deliveries SET check_due_at = {now} - 1 WHERE check_due_at IS NOT NULL"
        await connection.execute(relay.db.sql(due))


async def check(relay: Relay) -> int:
    """Let time pass, and check what is due; how many owners' lists were to be asked for."""
    await make_due(relay)
    await relay.registry.refresh()
    claimed = await reconciler(relay).claim()
    for checks in claimed:
        await reconciler(relay).check(checks)
    return len(claimed)
