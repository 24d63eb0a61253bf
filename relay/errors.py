"""Every way in which the relay says no.

    RelayError
    ├── ConfigError          the program does not start: names the key, the value's problem and the line if known
    ├── StartupError         the database is not what the configuration says (migrations behind, another key file)
    └── Refusal              a request is refused: becomes a problem document (RFC 9457)

A Refusal carries one of the codes in `CODES`, which fixes its status and title, so that a code never means two things.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Code = Literal[
    "malformed_request",
    "malformed_json",
    "invalid_parameter",
    "invalid_field",
    "unauthenticated",
    "insufficient_user_authentication",
    "insufficient_scope",
    "cross_site_request",
    "client_not_allowed",
    "agent_not_allowed",
    "subject_not_allowed",
    "ran_as_not_allowed",
    "not_found",
    "agent_not_found",
    "version_not_found",
    "answer_not_found",
    "conversation_not_found",
    "task_not_found",
    "submission_not_found",
    "job_not_found",
    "method_not_allowed",
    "provenance_conflict",
    "uuid_reused",
    "already_submitted",
    "task_not_finished",
    "destination_not_approved",
    "feedback_not_supported",
    "destination_cannot_act_for_owner",
    "not_retryable",
    "not_abandonable",
    "decision_not_applicable",
    "own_proposal",
    "job_ended",
    "submission_erased",
    "request_timeout",
    "body_too_large",
    "uri_too_long",
    "unsupported_media_type",
    "unsupported_content_encoding",
    "explicit_target_required",
    "coordinator_task",
    "expectation_failed",
    "rate_limited",
    "header_too_large",
    "internal_error",
    "export_format_unavailable",
    "accept_queue_full",
    "keys_unavailable",
    "database_unavailable",
]

CODES: Mapping[Code, tuple[int, str]] = {
    "malformed_request": (400, "The request is malformed"),
    "malformed_json": (400, "The body is not acceptable JSON"),
    "invalid_parameter": (400, "A parameter is out of range or unknown"),
    "unauthenticated": (401, "A valid bearer token is required"),
    "insufficient_user_authentication": (401, "The sign-in is too long ago or too weak"),
    "insufficient_scope": (403, "The token lacks a scope"),
    "cross_site_request": (403, "The form is not from a page of this session"),
    "client_not_allowed": (403, "This client may not record provenance"),
    "agent_not_allowed": (403, "This client may not record tasks of this agent"),
    "subject_not_allowed": (403, "This caller may not name that subject"),
    "ran_as_not_allowed": (403, "Only a machine token may record this"),
    "not_found": (404, "There is nothing at this path"),
    "agent_not_found": (404, "No such agent"),
    "version_not_found": (404, "No such version of the registration"),
    "answer_not_found": (404, "No such answer"),
    "conversation_not_found": (404, "No such conversation"),
    "task_not_found": (404, "No such task"),
    "submission_not_found": (404, "No such submission"),
    "job_not_found": (404, "No such job"),
    "method_not_allowed": (405, "The method is not allowed here"),
    "provenance_conflict": (409, "The record says otherwise already"),
    "uuid_reused": (409, "This UUID was used for another submission"),
    "already_submitted": (409, "This task has been rated already"),
    "task_not_finished": (409, "The task still runs"),
    "destination_not_approved": (409, "The agent is not approved to receive feedback"),
    "feedback_not_supported": (409, "The agent does not take feedback"),
    "destination_cannot_act_for_owner": (409, "The relay cannot act as the identity that ran the task"),
    "not_retryable": (409, "This submission cannot be retried in its state"),
    "not_abandonable": (409, "This submission cannot be abandoned in its state"),
    "decision_not_applicable": (409, "The agent stands otherwise by now"),
    "own_proposal": (409, "A proposal has to be approved by another than its proposer"),
    "job_ended": (409, "The job has come to its end"),
    "submission_erased": (410, "The submission was erased"),
    "request_timeout": (408, "The request took too long to arrive"),
    "body_too_large": (413, "The body is too large"),
    "uri_too_long": (414, "The request line is too long"),
    "unsupported_media_type": (415, "The body must be application/json"),
    "unsupported_content_encoding": (415, "The body must not be compressed"),
    "expectation_failed": (417, "The expectation is not supported"),
    "invalid_field": (422, "A field is not acceptable"),
    "explicit_target_required": (422, "Several specialists stand under this task id"),
    "coordinator_task": (422, "A coordinator's task cannot be rated"),
    "rate_limited": (429, "Too many requests"),
    "header_too_large": (431, "A header is too long"),
    "internal_error": (500, "The relay failed"),
    "export_format_unavailable": (501, "This deployment cannot write that format"),
    "accept_queue_full": (503, "Too many submissions are waiting to be stored"),
    "keys_unavailable": (503, "The keys that this needs cannot be had right now"),
    "database_unavailable": (503, "The database cannot be reached"),
}


class RelayError(Exception):
    """Everything that the relay raises on purpose."""


class ConfigError(RelayError):
    """The configuration cannot be used. The message names the key and says what to change."""


class StartupError(RelayError):
    """The surroundings are not what the configuration promises. The message says what to run or to restore."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One member of ``errors``: a JSON Pointer (RFC 6901) into the body, and what to change there."""

    pointer: str
    detail: str


class Refusal(RelayError):  # noqa: N818 - reads as what it is
    """A request is refused. ``detail`` says what to change; ``extra`` joins the problem document as it is."""

    def __init__(
        self,
        code: Code,
        detail: str,
        *,
        errors: tuple[FieldProblem, ...] = (),
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code: Code = code
        self.status, self.title = CODES[code]
        self.detail = detail
        self.errors = errors
        self.extra: Mapping[str, Any] = extra or {}
        self.headers: Mapping[str, str] = headers or {}
