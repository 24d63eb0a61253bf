"""What keeps the relay from presenting a credential."""

from typing import Literal, Self

Code = Literal[
    "key_unreadable",
    "token_file_unreadable",
    "subject_unknown",
    "token_endpoint_unreachable",
    "token_endpoint_failed",
    "token_refused",
    "malformed_token_answer",
]


class CredentialFailure(Exception):  # noqa: N818 - reads as what it is
    """No Authorization can be had for an attempt, so that the attempt is not made.

    ``code`` is one of a fixed set. ``reason`` is the code, followed after a colon by what is known of the cause where
    something is: ``token_refused:invalid_grant`` carries the authorization server's own error code (RFC 6749
    section 5.2), ``token_endpoint_failed:503`` its status. ``temporary`` says that the cause may pass by itself.
    The message adds a hint for operators. None of them holds a token, a key, a subject or text from an answer.
    """

    def __init__(self, code: Code, *, temporary: bool, cause: str = "", hint: str = "") -> None:
        self.code: Code = code
        self.reason = f"{code}:{cause}" if cause else code
        self.temporary = temporary
        self._cause = cause
        self._hint = hint
        super().__init__(f"{self.reason} ({hint})" if hint else self.reason)

    def again(self) -> Self:
        """The same failure for another waiter: one exception object must not travel through two tasks."""
        return type(self)(self.code, temporary=self.temporary, cause=self._cause, hint=self._hint)
