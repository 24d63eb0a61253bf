"""W3C Trace Context (Recommendation of 2021): accepted from callers, passed on to specialists."""

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

_TRACEPARENT = re.compile(
    "(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<rest>-.*)?"
)
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True)
class TraceContext:
    """One span of a trace. ``sampled`` is passed on as it came. ``parent_id`` is that of the span above it, if it is
    known here.
    """

    trace_id: str
    span_id: str
    sampled: bool = False
    parent_id: str | None = None

    @property
    def traceparent(self) -> str:
        """The header that makes what we call a child of this span."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def child(self) -> Self:
        """A new span of the same trace."""
        return type(self)(self.trace_id, _identifier(8), self.sampled, self.span_id)

    @classmethod
    def begin(cls) -> Self:
        """The first span of a new trace."""
        return cls(_identifier(16), _identifier(8))

    @classmethod
    def read(cls, headers: Sequence[str]) -> Self | None:
        """The caller's span from the traceparent headers of a request; None unless there is exactly one, and valid.

        Section 3.2.2: lower-case hexadecimal, ids that are not all zero. A version after 00 may carry more behind a
        dash; ff is no version.
        """
        if len(headers) != 1 or (match := _TRACEPARENT.fullmatch(headers[0].strip())) is None:
            return None
        if match["version"] == "ff" or (match["version"] == "00" and match["rest"]):
            return None
        if not match["trace"].strip("0") or not match["span"].strip("0"):
            return None
        return cls(match["trace"], match["span"], bool(int(match["flags"], 16) & _SAMPLED))

    @classmethod
    def continued(cls, headers: Sequence[str], begin: "Callable[[], TraceContext] | None" = None) -> "TraceContext":
        """Our span: a child of the caller's, or the first of a new trace, which ``begin`` makes, where the caller has
        none.
        """
        caller = cls.read(headers) if headers else None
        return (begin or cls.begin)() if caller is None else caller.child()


def _identifier(size: int) -> str:
    """Random hexadecimal of ``size`` bytes that are not all zero, which the specification reserves."""
    while not (identifier := secrets.token_hex(size)).strip("0"):
        pass  # pragma: no cover - once in 2**64
    return identifier
