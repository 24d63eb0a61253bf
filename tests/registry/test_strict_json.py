"""What `registry.strict_json` lets through, and what it refuses and why."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.strict_json import NotStrictJson, loads

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)

REFUSED = [
    (b"", "syntax", None),
    (b"{", "syntax", None),
    (b"{} x", "syntax", None),
    (b"{'a':1}", "syntax", None),
    (b'{"a":1,}', "syntax", None),
    (b'"a\nb"', "syntax", None),
    (b'"a\x00b"', "syntax", None),
    (b"01", "syntax", None),
    (b"\xef\xbb\xbf{}", "syntax", None),
    (b"\xa0{}", "not_utf8", None),
    ("{}".encode("utf-16"), "not_utf8", None),
    (b'"\xed\xa0\x80"', "not_utf8", None),
    (b'"\xc0\x80"', "not_utf8", None),
    (b"NaN", "not_finite", None),
    (b"[Infinity]", "not_finite", None),
    (b"-Infinity", "not_finite", None),
    (b"1e999", "not_finite", None),
    (b"9" * 4301, "number_too_long", None),
    (b"[" * 65 + b"]" * 65, "too_deep", None),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "too_deep", None),
    (b"[" * 100_000, "too_deep", None),
    (b'{"a":1,"a":1}', "duplicate_key", "/a"),
    (b'{"a":1,"\\u0061":2}', "duplicate_key", "/a"),
    (b'{"x":[{"y~/":{"":0,"":0}}]}', "duplicate_key", "/x/0/y~0~1/"),
    (b'{"a":1,"a":1', "syntax", None),
    (b'[{"a":1,"a":1}, x', "syntax", None),
    (b'[{"a":1,"a":1},' + b"[" * 100_000, "too_deep", None),
    (b'[{"a":1,"a":1},' + b"9" * 4301 + b"]", "number_too_long", None),
    (b'{"a":["x","b\\u0000c"]}', "nul_character", "/a/1"),
    (b'{"a":{"b\\u0000c":1}}', "nul_character", "/a"),
    (b'{"b\\u0000c":1}', "nul_character", ""),
    (b'"\\ud800"', "lone_surrogate", ""),
    (b'{"a":"x\\uDFFFy"}', "lone_surrogate", "/a"),
    (b'{"a":"\\ude00\\ud83d"}', "lone_surrogate", "/a"),
    (b'{"\\udbff":1}', "lone_surrogate", ""),
]


@pytest.mark.parametrize(("raw", "reason", "pointer"), REFUSED)
def test_refuses(raw: bytes, reason: str, pointer: str | None):
    """Each kind of doubtful text is refused with its own code and, where it can be told, its place."""
    with pytest.raises(NotStrictJson) as refusal:
        loads(raw)
    assert (refusal.value.reason, refusal.value.pointer) == (reason, pointer)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b" {} ", {}),
        (b'{"a":[1,2.5,-0.0,1e2,true,false,null,"x"]}', {"a": [1, 2.5, -0.0, 100.0, True, False, None, "x"]}),
        (b'"\\\\u0000"', "\\u0000"),
        (b'"\\\\ud800"', "\\ud800"),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"😀\ufeff"'.encode(), "😀\ufeff"),
        (b'{"a":1,"A":2}', {"a": 1, "A": 2}),
        (b'[{"a":1},{"a":2}]', [{"a": 1}, {"a": 2}]),
        (b"9" * 4300, 10**4300 - 1),
        (b"[" * 64 + b"]" * 64, json.loads("[" * 64 + "]" * 64)),
        (b"[" + b"[]," * 500 + b"[]]", [[]] * 501),
        (b'"' + b"[" * 500 + b'"', "[" * 500),
    ],
)
def test_accepts(raw: bytes, value: object):
    """What RFC 8259 allows, and what only looks doubtful, is read exactly."""
    assert loads(raw) == value


def test_depth_is_the_callers_choice():
    """`max_depth` counts containers, the outermost being the first."""
    assert loads(b'{"a":[]}', max_depth=2) == {"a": []}
    with pytest.raises(NotStrictJson, match="nesting is too deep"):
        loads(b'{"a":[]}', max_depth=1)


@pytest.mark.parametrize("raw", [b'{"hunter2":1,"hunter2":2}', b"hunter2", b"hunter2\xff", b'"hunter2\\u0000"'])
def test_a_message_quotes_nothing(raw: bytes):
    """The exception's text and its chain hold nothing of the refused text, so that it may be logged."""
    with pytest.raises(NotStrictJson) as refusal:
        loads(raw)
    shown: BaseException | None = refusal.value
    while shown is not None:
        assert "hunter2" not in f"{shown} {getattr(shown, 'doc', '')} {getattr(shown, 'object', '')}"
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


@given(VALUES)
def test_reads_what_json_writes(value: object):
    """Whatever the standard encoder writes comes back the same, escaped or not."""
    for ascii_only in (True, False):
        assert loads(json.dumps(value, ensure_ascii=ascii_only).encode(), max_depth=10_000) == value


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ud8a0eE+-.1 nulNIf').map(str.encode))
def test_never_fails_otherwise(raw: bytes):
    """No input raises anything but `NotStrictJson`, and what is accepted is what the standard parser reads."""
    try:
        value = loads(raw)
    except NotStrictJson:
        return
    assert value == json.loads(raw)
