"""The Prefer header, as RFC 7240 has it."""

from contextlib import suppress

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from relay.errors import Refusal
from relay.http.preferences import Preference, read_preference, wait_seconds


def asking(*lines: str) -> web.Request:
    return make_mocked_request("POST", "/", headers=CIMultiDict([("Prefer", line) for line in lines]))


@pytest.mark.parametrize(
    ("lines", "preference"),
    [
        ((), Preference(2.0, None)),
        (("wait=0",), Preference(0.0, "wait=0")),
        (("wait=10",), Preference(10.0, "wait=10")),
        (("WAIT = 5",), Preference(5.0, "wait=5")),
        (('wait="5"',), Preference(5.0, "wait=5")),
        (('wait="\\5"',), Preference(5.0, "wait=5")),
        (("wait=5; foo=bar",), Preference(5.0, "wait=5")),
        (("respond-async",), Preference(0.0, "respond-async")),
        (("Respond-Async; x",), Preference(0.0, "respond-async")),
        (("respond-async=",), Preference(0.0, "respond-async")),
        (("respond-async, wait=7",), Preference(7.0, "wait=7")),
        (("respond-async", "wait=7"), Preference(7.0, "wait=7")),
        (("wait=3, wait=9",), Preference(3.0, "wait=3")),
        (("wait=3", "wait=99"), Preference(3.0, "wait=3")),
        (("return=minimal, handling=lenient",), Preference(2.0, None)),
        (('foo="a, wait=9", wait=4',), Preference(4.0, "wait=4")),
        (('foo="a \\" b, wait=9"; q="x;y"; z, wait=4',), Preference(4.0, "wait=4")),
        (("x; wait=9",), Preference(2.0, None)),
        (('foo="never ends, wait=9',), Preference(2.0, None)),
        (("=, ,;, wait=1",), Preference(1.0, "wait=1")),
        (("",), Preference(2.0, None)),
    ],
)
def test_preferences_are_read(lines: tuple[str, ...], preference: Preference) -> None:
    """Known preferences count, the first of each; all lines are one list; the unknown and the broken is ignored."""
    assert read_preference(asking(*lines)) == preference
    assert wait_seconds(asking(*lines)) == preference.wait


@pytest.mark.parametrize(
    "line",
    [
        "wait=11",
        "wait=-1",
        "wait=",
        "wait",
        'wait=""',
        "wait=1.5",
        "wait=2s",
        "wait=²",
        "wait=1e1",
        "wait=1 0",
        "wait=99999999999",
    ],
)
def test_a_wait_out_of_range_is_refused(line: str) -> None:
    """A wait that is not 0 to 10 whole seconds in ASCII digits is a 400."""
    with pytest.raises(Refusal, match="0 to 10") as caught:
        read_preference(asking(line))
    assert caught.value.code == "malformed_request"


def test_what_was_applied_is_said() -> None:
    """Preference-Applied names the preference that was honoured, and is absent when none was."""
    assert read_preference(asking("wait=3")).headers == {"Preference-Applied": "wait=3"}
    assert read_preference(asking("return=minimal")).headers == {}


@given(st.text(st.sampled_from('wait=5,;"\\ r\t'), max_size=60))
def test_any_header_is_answered(line: str) -> None:
    """No header makes reading it fail in another way than by a refusal."""
    try:
        preference = read_preference(asking(line))
    except Refusal:
        return
    assert 0 <= preference.wait <= 10


ENDLESS = ['"\\', '\\"', 'a="', ";", "a;", " ", ",", "a=", '=" ', "wait=\t"]


@pytest.mark.parametrize("part", ENDLESS)
def test_reading_takes_linear_time(part: str) -> None:
    """A header of half a megabyte is read at once; a quadratic pattern would run into the time limit."""
    line = '"' + part * (500_000 // len(part))
    for start in (0, 1):
        with suppress(Refusal):
            read_preference(asking(line[start:]))
