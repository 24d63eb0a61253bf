"""Cursors: what was issued is read back under its own scope, and nothing else is."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import Refusal
from relay.http.cursors import Cursors, scope_of

CURSORS = Cursors(b"k" * 32)
SCOPES = st.builds(scope_of, st.text(max_size=20), st.text(max_size=20), st.none() | st.text(max_size=20))
POSITIONS = st.lists(
    st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=4
)


def refused(scope: str, text: str, cursors: Cursors = CURSORS) -> None:
    with pytest.raises(Refusal) as caught:
        cursors.read(scope, text)
    assert caught.value.code == "invalid_parameter"
    assert caught.value.extra == {"parameter": "cursor"}
    assert caught.value.detail.startswith("cursor: ")


@given(SCOPES, POSITIONS)
def test_a_position_comes_back(scope: str, position: list[int | str]) -> None:
    """Reading gives the position that was issued, and the text needs no encoding in a query."""
    text = CURSORS.issue(scope, position)
    assert CURSORS.read(scope, text) == position
    assert text.replace("-", "").replace("_", "").isalnum()
    assert text == CURSORS.issue(scope, position)


@given(SCOPES, SCOPES, POSITIONS)
def test_another_scope_does_not_take_it(scope: str, other: str, position: list[int | str]) -> None:
    """A cursor of another owner, list or filter is refused."""
    if scope != other:
        refused(other, CURSORS.issue(scope, position))


@given(POSITIONS, st.data())
def test_a_changed_cursor_is_refused(position: list[int | str], data: st.DataObject) -> None:
    """No bit of a cursor can be changed, nor its end cut off."""
    raw = bytearray(_raw(CURSORS.issue("s", position)))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << (bit % 8)
    refused("s", _text(bytes(raw)))
    refused("s", _text(bytes(raw[:-1])))


@given(st.text(max_size=60) | st.binary(max_size=40).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_a_made_up_cursor_is_refused(text: str) -> None:
    """Whatever a caller makes up is a 400."""
    refused("s", text)


def test_one_cursor_has_one_spelling() -> None:
    """Padding, the other alphabet, white space and loose bits in the last character are refused."""
    text = next(text for size in range(1, 9) if len(_raw(text := CURSORS.issue("s", ["x" * size]))) % 3 == 1)
    assert CURSORS.read("s", text)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    loose = text[:-1] + alphabet[alphabet.index(text[-1]) + 1]
    assert _raw(loose) == _raw(text)
    for spelling in (loose, text + "==", text + "\n", " " + text, text + "é", text * 100):
        refused("s", spelling)


def test_another_key_does_not_read_it() -> None:
    """A relay with another key did not issue it."""
    refused("s", CURSORS.issue("s", [1]), Cursors(b"l" * 32))


def test_a_cursor_shows_nothing() -> None:
    """A position is sealed: numbers from a shared sequence would tell how busy others are."""
    text = CURSORS.issue("s", [987654321, "task-of-alice"])
    assert b"987654321" not in _raw(text)
    assert b"alice" not in _raw(text)


def test_a_short_key_is_refused() -> None:
    """A key that could be guessed is a mistake of the caller."""
    with pytest.raises(ValueError, match="16 bytes"):
        Cursors(b"short")


def test_scopes_are_not_confused() -> None:
    """Parts keep their borders, and no filter differs from an empty one."""
    assert len({scope_of("ab", "c"), scope_of("a", "bc"), scope_of("a", "b", "c"), scope_of("abc", "")}) == 4
    assert scope_of("a", "b", None) != scope_of("a", "b", "")
    assert scope_of("a", "b", None, "x") != scope_of("a", "b", "x", None)


def _raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_cursors_of_a_former_key_are_read() -> None:
    """New ones come from the current key; one of a key that is not named any more is refused like any other."""
    scope = scope_of("ok_a", "list")
    both = Cursors(b"n" * 32, b"k" * 32)
    before, after = CURSORS.issue(scope, [7]), both.issue(scope, [7])
    assert both.read(scope, before) == both.read(scope, after) == [7]
    refused(scope, after)
    refused(scope, before, Cursors(b"n" * 32))
    refused(scope_of("ok_b", "list"), before, both)
