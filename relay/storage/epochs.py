"""Which database the numbers of transactions are of, so that one is not taken for another."""

from collections.abc import Mapping
from typing import Final

from relay.storage.engine import Dialect

EPOCH: Final[Mapping[Dialect, str]] = {
    # A file is copied with all that is in it: nothing tells two of them apart, nor are transactions numbered.
    "sqlite": "''",
    # A dump that is restored goes into another cluster, or at least another database. A timeline begins where a standby
    # takes over, or where a cluster is brought back to an earlier moment.
    "postgresql": """(SELECT concat_ws(':', (SELECT system_identifier FROM pg_control_system()),
        (SELECT timeline_id FROM pg_control_checkpoint()),
        (SELECT oid FROM pg_database WHERE datname = current_database())))""",
}
"""SQL for a text that stays the same as long as transaction numbers go on in the order that they began in."""
