"""A client of the relay for a Workbench's backend, an agent runtime and scripts. docs/clients.md shows how to use it.

It imports nothing of the relay's server parts. Tokens and comments are never logged, nor shown by a ``repr``.
"""

from relay.client.calling import GetToken
from relay.client.errors import AnswerError, ClientError, NotSavedError, RelayError, TokenError, UnreachableError
from relay.client.model import (
    AnswerTargets,
    Attempt,
    Change,
    Evidence,
    FieldError,
    Provenance,
    RecordedTask,
    Resync,
    Submission,
    Target,
)
from relay.client.relay import RelayClient

__all__ = [
    "AnswerError",
    "AnswerTargets",
    "Attempt",
    "Change",
    "ClientError",
    "Evidence",
    "FieldError",
    "GetToken",
    "NotSavedError",
    "Provenance",
    "RecordedTask",
    "RelayClient",
    "RelayError",
    "Resync",
    "Submission",
    "Target",
    "TokenError",
    "UnreachableError",
]
