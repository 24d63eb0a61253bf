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
    "client_certificate_unusable",
    "owner_absent",
    "subject_token_refused",
    "subject_token_unfit",
]

_NEEDS_OWNER: frozenset[Code] = frozenset({"owner_absent", "subject_token_refused"})


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
        self.cause = cause
        self._hint = hint
        super().__init__(f"{self.reason} ({hint})" if hint else self.reason)

    @property
    def needs_owner(self) -> bool:
        """Whether the owner can end it, and only the owner: by coming (back) with a live token."""
        return self.code in _NEEDS_OWNER

    def again(self) -> Self:
        """The same failure for another waiter: one exception object must not travel through two tasks."""
        return type(self)(self.code, temporary=self.temporary, cause=self.cause, hint=self._hint)
