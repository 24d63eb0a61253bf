"""Every way in which a call fails.

ClientError
├── RelayError         the relay refused it, and says why
├── UnreachableError   no answer within the deadline: it is not known whether the relay has the request
├── AnswerError        something answered that is no relay, or a broken one
├── TokenError         the caller's own function could reach nobody who gives out tokens: nothing was sent
└── NotSavedError      the wait is over and the rating is not saved
"""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from relay.client.model import FieldError, Submission


class ClientError(Exception):
    """Any failure of a call."""


class RelayError(ClientError):
    """A refusal (RFC 9457). Branch on ``code``; show ``detail``, which says what to change.

    ``errors`` names fields; ``extras`` holds what this code has beyond that, such as ``targets``, ``existing`` or
    ``state``; ``retry_after`` is how many seconds the relay asks to wait, if it does.
    """

    def __init__(
        self,
        code: str,
        status: int,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        extras: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code} ({status}): {detail}")
        self.code = code
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.extras: Mapping[str, Any] = dict(extras or {})
        self.retry_after = retry_after

    @override
    def __repr__(self) -> str:
        # What the extras hold may be a person's words.
        return f"RelayError({self.code!r}, {self.status})"


class UnreachableError(ClientError):
    """No answer. Send the very same request again: a submission under the same id is stored once."""


class AnswerError(ClientError):
    """An answer that cannot be understood. ``status`` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (status {status})")
        self.status = status
        self.retry_after: float | None = None


class TokenError(ClientError):
    """No token, so nothing was sent. Its cause is what the caller's own function raised."""


class NotSavedError(ClientError):
    """The rating as it stands: final in another state, or still on its way when the time was over."""

    def __init__(self, submission: Submission) -> None:
        super().__init__(f"submission {submission.id} is {submission.state}")
        self.submission = submission
