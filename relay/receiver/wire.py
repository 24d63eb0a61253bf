"""The types at the receiver's edge."""

from typing import Annotated

import msgspec

from registry.protocols.contract import Rated, Rating
from registry.protocols.roblox_v1 import COMMENT_MAX_UNITS, ID_PATTERN, RESOLUTION_MAX_UNITS, code_units
from relay.clock import rfc3339
from relay.errors import FieldProblem
from relay.http.fields import invalid
from relay.receiver.store import Row

Uuid = Annotated[str, msgspec.Meta(pattern=ID_PATTERN)]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z")]


Words = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*\Z")]
"""Text that people read: lines and tabs, and no other controls."""


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The body of a POST."""

    id: Uuid
    task_id: Key
    rating: Rating
    comment: str | None = None


class Resolution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a PATCH; null or an empty text takes the resolution away."""

    id: Uuid
    owner: Key
    resolution: Words | None


class Acknowledgement(msgspec.Struct, frozen=True):
    id: str
    saved: bool = True


class ListedRating(msgspec.Struct, frozen=True, rename="camel"):
    """One row of a list. ``comment`` is absent where there is none, ``resolution`` is null until there is one."""

    id: str
    task_id: str
    rating: Rating
    owner: str
    resolution: str | None
    created_at: str
    comment: str | msgspec.UnsetType = msgspec.UNSET


def rated(submission: Submission) -> Rated:
    """The submission with its UUID in lower case and no empty comment; 422 for a comment that is too long."""
    comment = _bounded("comment", submission.comment, COMMENT_MAX_UNITS)
    return Rated(submission.id.lower(), submission.task_id, submission.rating, comment)


def resolution_text(resolution: Resolution) -> str | None:
    """The text to store, None for none; 422 where it is too long."""
    return _bounded("resolution", resolution.resolution, RESOLUTION_MAX_UNITS)


def listed(row: Row) -> ListedRating:
    return ListedRating(
        id=row.rated.id,
        task_id=row.rated.task,
        rating=row.rated.rating,
        owner=row.owner,
        resolution=row.resolution,
        created_at=rfc3339(row.created_at),
        comment=msgspec.UNSET if row.rated.comment is None else row.rated.comment,
    )


def _bounded(field: str, text: str | None, max_units: int) -> str | None:
    if text is not None and code_units(text) > max_units:
        raise invalid(FieldProblem(f"/{field}", f"Expected at most {max_units} UTF-16 code units."))
    return text or None
