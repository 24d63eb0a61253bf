"""The outbox of the delivery tests: decisions about agents park and free what waits in it."""

from tests.delivery.conftest import outbox

__all__ = ["outbox"]
