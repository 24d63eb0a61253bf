"""What every protocol adapter offers. An adapter is pure: it turns a submission into a request and an answer into a
verdict; who sends it, and under which identity, is decided elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

Rating = Literal["up", "down"]


@dataclass(frozen=True, slots=True)
class Rated:
    """The part of a submission that a specialist receives. ``id`` is a lower-case canonical UUID."""

    id: str
    task: str
    rating: Rating
    comment: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """A request relative to an approved origin. ``path`` begins with a slash and is the protocol's own constant.

    ``headers`` holds the protocol's headers only: credentials, ``Host``, ``traceparent`` and framing are added by
    those who own them.
    """

    method: Literal["GET", "POST"]
    path: str
    headers: Mapping[str, str]
    body: bytes | None = field(default=None, repr=False)
    max_answer_bytes: int = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``complete`` is false where the body was cut off at the size cap.

    Header names are lower-case; a repeated header keeps its first value.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The specialist has saved exactly this submission."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A final refusal: sending the same bytes again cannot help."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unauthorized:
    """401: worth one fresh token, then the schedule."""


@dataclass(frozen=True, slots=True)
class NotFound:
    """404: retried while the specialist may not have ingested its own run yet, then a refusal."""


@dataclass(frozen=True, slots=True)
class Collision:
    """A 409 that may be a proven conflict: to be read back where the protocol can."""


@dataclass(frozen=True, slots=True)
class TryLater:
    """Anything else: back to the schedule. ``reason`` is a short code, such as ``unmatched_acknowledgement``."""

    reason: str


Verdict: TypeAlias = Acknowledged | Refused | Unauthorized | NotFound | Collision | TryLater

ReadBack = Literal["same", "different", "absent", "out_of_window", "unreadable"]
"""What reading back found: the id with the same content, with other content, not there although everything was
listed, not there in a window that may not reach back far enough, or an answer that cannot be read."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the specialist's operators say has become of a rating, such as ``fixed``; None: nothing, or not any more."""

    text: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Found:
    """What a list shows of one submission. ``resolution`` None: nothing that could be taken for one."""

    content: ReadBack
    resolution: Resolution | None = None


class ProtocolAdapter(Protocol):
    """One feedback protocol, spoken towards a specialist."""

    name: str
    """As in configuration, with hyphens."""

    def encode(self, rated: Rated) -> OutboundRequest:
        """The request that submits the rating. Its body is stored at acceptance and is what every attempt sends."""

    def request_for(self, rated_id: str, body: bytes) -> OutboundRequest:
        """The same request made again from the stored id and body, byte for byte."""

    def interpret(self, answer: Answer, rated_id: str) -> Verdict:
        """What an answer to the submission means for its delivery."""

    def read_back(self) -> OutboundRequest | None:
        """The request that lists what the specialist holds of this owner; None where the protocol has none."""

    def find(self, answer: Answer, sent: Rated) -> ReadBack:
        """Whether the submission stands in the answer to `read_back`."""

    def find_all(self, answer: Answer, sent: Sequence[Rated]) -> Sequence[Found]:
        """The same of many submissions of one owner, in their order, each with its resolution."""
