"""The protocol ``roblox-v1``: one path, one JSON object up, ``201 {"id": …, "saved": true}`` back.

An acknowledgement is believed only when nothing about it is doubtful, because saved is never taken back.
"""

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from registry.protocols.contract import (
    Acknowledged,
    Answer,
    Collision,
    Found,
    NotFound,
    OutboundRequest,
    Rated,
    ReadBack,
    Refused,
    Resolution,
    TryLater,
    Unauthorized,
    Verdict,
)
from registry.strict_json import NotStrictJson, loads

PATH = "/api/feedback"
WINDOW = 100
"""How many of its owner's newest rows a specialist lists."""

ID_PATTERN = r"\A[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z"
COMMENT_MAX_UNITS = 4000
"""In UTF-16 code units, which is what ``maxlength`` in a browser and ``length`` in JavaScript count."""

RESOLUTION_MAX_UNITS = 1000
"""Likewise. With 100 comments and resolutions at their limits a list still fits what a relay reads back."""

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")

READ_BACK_MAX_BYTES = 2 * 1024 * 1024

FINAL: Mapping[int, str] = {
    400: "bad_request",
    403: "forbidden",
    405: "method_not_allowed",
    410: "gone",
    413: "body_too_large",
    414: "uri_too_long",
    415: "unsupported_media_type",
    422: "unprocessable",
}
"""The refusals that the same bytes would meet again."""

_LATER: Mapping[int, str] = {408: "request_timeout", 425: "too_early", 429: "rate_limited"}
_LATER_BY_CLASS: Mapping[int, str] = {2: "not_created", 3: "redirect", 5: "server_error"}

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_TASK_NOT_FINISHED = "task_not_finished"


def code_units(text: str) -> int:
    """The length of a text in UTF-16 code units; it must hold no half surrogate pair."""
    return len(text.encode("utf-16-le")) // 2


class RobloxV1:
    """The adapter. It keeps nothing."""

    name = "roblox-v1"

    def encode(self, rated: Rated) -> OutboundRequest:
        """The members in the protocol's order, compact; an empty comment is no comment."""
        members = {"id": rated.id, "taskId": rated.task, "rating": rated.rating}
        if rated.comment:
            members["comment"] = rated.comment
        return self.request_for(rated.id, _COMPACT.encode(members).encode())

    def request_for(self, rated_id: str, body: bytes) -> OutboundRequest:
        headers = {"Content-Type": "application/json", "Idempotency-Key": rated_id}
        return OutboundRequest("POST", PATH, headers, body)

    def interpret(self, answer: Answer, rated_id: str) -> Verdict:
        match answer.status:
            case HTTPStatus.CREATED:
                doubt = _doubt(answer, rated_id)
                return TryLater(doubt) if doubt else Acknowledged()
            case HTTPStatus.UNAUTHORIZED:
                return Unauthorized()
            case HTTPStatus.NOT_FOUND:
                return NotFound()
            case HTTPStatus.CONFLICT:
                return TryLater(_TASK_NOT_FINISHED) if _says_task_not_finished(answer) else Collision()
            case status if status in FINAL:
                return Refused(FINAL[status])
            case status:
                by_class = _LATER_BY_CLASS.get(status // 100, "unexpected_status")
                return TryLater(_LATER.get(status, by_class))

    def read_back(self) -> OutboundRequest:
        return OutboundRequest("GET", PATH, {}, max_answer_bytes=READ_BACK_MAX_BYTES)

    def find(self, answer: Answer, sent: Rated) -> ReadBack:
        return self.find_all(answer, [sent])[0].content

    def find_all(self, answer: Answer, sent: Sequence[Rated]) -> Sequence[Found]:
        """Nothing is concluded from a list that is cut off, or from a row that cannot be read."""
        rows = _rows(answer) if answer.status == HTTPStatus.OK and answer.complete else None
        if rows is None:
            return [Found("unreadable") for _ in sent]
        by_id: dict[str, list[Mapping[str, Any]]] = {}
        nameless = False
        for row in rows:
            named = row.get("id") if isinstance(row, dict) else None
            if isinstance(named, str):
                by_id.setdefault(named.lower(), []).append(row)
            else:
                nameless = True
        not_there: ReadBack = "unreadable" if nameless else "absent" if len(rows) < WINDOW else "out_of_window"
        return [_found(by_id.get(rated.id, ()), rated) or Found(not_there) for rated in sent]


def _doubt(answer: Answer, rated_id: str) -> str | None:
    """Why a 201 is not the acknowledgement of this submission; None: it is.

    A UUID is the same in either case of its letters (RFC 9562 section 4).
    """
    if not answer.complete:
        return "truncated_acknowledgement"
    if not answer.body:
        return "empty_acknowledgement"
    try:
        value = loads(answer.body)
    except NotStrictJson as doubt:
        return {"syntax": "not_json", "duplicate_key": "duplicate_keys"}.get(doubt.reason, doubt.reason)
    if isinstance(value, dict) and _is_id(value, rated_id) and value.get("saved") is True:
        return None
    return "unmatched_acknowledgement"


def _is_id(value: Any, rated_id: str) -> bool:  # noqa: ANN401 - any JSON value
    named = value.get("id") if isinstance(value, dict) else None
    return isinstance(named, str) and named.lower() == rated_id


def _says_task_not_finished(answer: Answer) -> bool:
    try:
        value = loads(answer.body)
    except NotStrictJson:
        return False
    return isinstance(value, dict) and _TASK_NOT_FINISHED in (value.get("code"), value.get("error"))


def _rows(answer: Answer) -> list[Any] | None:
    try:
        value = loads(answer.body)
    except NotStrictJson:
        return None
    if isinstance(value, dict):
        arrays = [member for member in value.values() if isinstance(member, list)]
        return arrays[0] if len(arrays) == 1 else None
    return value if isinstance(value, list) else None


def _found(rows: Sequence[Mapping[str, Any]], sent: Rated) -> Found | None:
    """What the rows under a submission's id show; None: there are none.

    An id stands once per owner. Should it stand twice, only all of the rows together prove a conflict.
    """
    compared = [(_compare(row, sent), row) for row in rows]
    if not compared:
        return None
    content, row = min(compared, key=lambda one: ("same", "unreadable", "different").index(one[0]))
    return Found(content, _resolution(row) if content == "same" else None)


def _resolution(row: Mapping[str, Any]) -> Resolution | None:
    """A short text or null; whatever else stands there is nobody's word."""
    text = row.get("resolution", ...)
    if text is None or text == "":
        return Resolution(None)
    if isinstance(text, str) and code_units(text) <= RESOLUTION_MAX_UNITS and not _CONTROLS.search(text):
        return Resolution(text)
    return None


def _compare(row: Mapping[str, Any], sent: Rated) -> ReadBack:
    """Absent, null and empty all mean no comment."""
    task, rating, comment = row.get("taskId"), row.get("rating"), row.get("comment")
    if not (isinstance(task, str) and isinstance(rating, str) and isinstance(comment, str | None)):
        return "unreadable"
    same = (task, rating, comment or None) == (sent.task, sent.rating, sent.comment or None)
    return "same" if same else "different"
