"""What is recorded for a collector of traces: spans when they have ended, and events. Pure; `collector` sends them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from relay.telemetry.traces import TraceContext

Attributes: TypeAlias = Mapping[str, str | int | float | bool]

_HALF: Final = 16
"""Hexadecimal digits of a trace's id that its sampling goes by: the last, which every version has at random."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span that has ended. ``context`` is its own, with its parent's id; ``started`` is in seconds since 1970."""

    name: str
    kind: Literal["server", "client"]
    context: TraceContext
    started: float
    seconds: float
    attributes: Attributes
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened within a span."""

    name: str
    context: TraceContext
    at: float
    attributes: Attributes


class Tracing:
    """Decides what is recorded, and hands it on. ``record`` and ``tell`` return at once and never raise.

    A caller who has decided whether a trace is recorded has decided for the relay too; of traces that begin here the
    share ``ratio`` is recorded, the same in every process.
    """

    def __init__(self, record: Callable[[Span], None], tell: Callable[[Event], None], *, ratio: float) -> None:
        self._record = record
        self._tell = tell
        self._below = round(ratio * 2 ** (4 * _HALF))

    def begin(self) -> TraceContext:
        """The first span of a new trace."""
        trace = TraceContext.begin()
        return TraceContext(trace.trace_id, trace.span_id, sampled=int(trace.trace_id[-_HALF:], 16) < self._below)

    def record(self, span: Span) -> None:
        """Record the span, if its trace is."""
        if span.context.sampled:
            self._record(span)

    def tell(self, event: Event) -> None:
        """Tell of an event, whether or not its trace is recorded."""
        self._tell(event)
