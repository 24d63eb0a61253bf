"""Trace contexts, as the W3C has them."""

import pytest

from relay.telemetry import TraceContext

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01"


def test_a_valid_parent_is_read_and_written() -> None:
    """The ids and the sampled flag come through; other flags do not."""
    assert TraceContext.read([VALID]) == TraceContext(TRACE, SPAN, sampled=True)
    assert TraceContext.read([f"00-{TRACE}-{SPAN}-02"]) == TraceContext(TRACE, SPAN, sampled=False)
    assert TraceContext(TRACE, SPAN, sampled=True).traceparent == VALID
    assert TraceContext(TRACE, SPAN).traceparent == f"00-{TRACE}-{SPAN}-00"


def test_a_later_version_may_say_more() -> None:
    """Section 4.3: what a later version adds behind a dash is ignored."""
    assert TraceContext.read([f"cc-{TRACE}-{SPAN}-01-what-the-future-brings"]) is not None
    assert TraceContext.read([f"cc-{TRACE}-{SPAN}-01"]) is not None


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [VALID, VALID],
        [""],
        [VALID.upper()],
        [VALID + "-more"],
        [VALID + "0"],
        [f"cc-{TRACE}-{SPAN}-01more"],
        [f"ff-{TRACE}-{SPAN}-01"],
        [f"00-{'0' * 32}-{SPAN}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE[1:]}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-0"],
        [f"00-{TRACE}-{SPAN}"],
        [f"00-{TRACE[:-1]}g-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-01\n"[:-1] + "\u0661"],
        ["0" * 100_000],
    ],
)
def test_an_invalid_parent_begins_a_new_trace(headers: list[str]) -> None:
    """Sections 3.2.2 and 4.3: what is not valid is ignored as a whole, and nothing of it is passed on."""
    assert TraceContext.read(headers) is None
    fresh = TraceContext.continued(headers)
    assert TraceContext.read([fresh.traceparent]) == fresh
    assert fresh.trace_id != TRACE


def test_a_child_is_another_span_of_the_same_trace() -> None:
    """What continues a trace keeps its id and its flag, and has a span of its own."""
    child = TraceContext.continued([VALID])
    assert (child.trace_id, child.sampled) == (TRACE, True)
    assert child.span_id != SPAN
    assert child.child().span_id != child.span_id
