"""Whatever a token looks like, it is a caller's or it gets the one 401: searched at random."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.errors import Refusal
from relay.identity.claims import LATEST_INSTANT
from relay.identity.compact import is_name
from tests.identity.conftest import Gate
from tests.support.forgery import dumps, encode, human
from tests.support.issuer import TestIssuer

any_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)

ALPHABET = st.sampled_from("ABCZabcz0189-_.=+/ é١")


@st.composite
def mutations(draw: st.DrawFn) -> Callable[[str], str]:
    """One edit of a text: cut, insert, replace, double or swap segments."""
    start = draw(st.integers(0, 700))
    length = draw(st.integers(0, 40))
    text = draw(st.text(ALPHABET, max_size=6))
    kind = draw(st.sampled_from(["splice", "double", "swap"]))

    def edit(token: str) -> str:
        at = start % len(token)
        if kind == "splice":
            return token[:at] + text + token[at + length :]
        if kind == "double":
            return token[:at] + token[at : at + length] + token[at:]
        segments = token.split(".")
        return ".".join(segments[start % 3 :] + segments[: start % 3])

    return edit


@any_fixture
@given(edits=st.lists(mutations(), min_size=1, max_size=3))
async def test_no_mutation_of_a_good_token_is_good(
    edits: list[Callable[[str], str]], gate: Gate, issuer: TestIssuer
) -> None:
    """Whatever is cut, inserted, doubled or swapped in a token: it is refused, and never with another error."""
    token = issuer.mint(jti="fixed")
    spoilt = token
    for edit in edits:
        spoilt = edit(spoilt) or "x"
    if spoilt.lstrip(" ") != token:
        await gate.refuse(spoilt)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
CLAIMS = ["iss", "aud", "exp", "iat", "nbf", "sub", "jti", "client_id", "scope"]
MEMBERS = ["alg", "typ", "kid", "cty", "x5t", "x5t#S256", "enc", "zip", "p2c", "epk"]


@any_fixture
@given(claims=st.dictionaries(st.sampled_from(CLAIMS), JSON, min_size=1), data=st.data())
async def test_whatever_an_issuer_signs_only_the_one_refusal_comes_out(
    claims: dict[str, Any], data: st.DataObject, gate: Gate, issuer: TestIssuer
) -> None:
    """Claims of any shape under a good signature make a principal of sound members, or the one 401."""
    header = issuer.header(**data.draw(st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=2)))
    with contextlib.suppress(Refusal):
        caller = await gate.admit(issuer.sign(dumps(header), dumps(human(issuer) | claims)))
        assert is_name(caller.subject)
        assert is_name(caller.client)
        assert caller.issuer == issuer.url
        assert issuer.now() < caller.expires_at < LATEST_INSTANT


@any_fixture
@given(value=st.text(st.characters(), max_size=200) | st.binary(max_size=200).map(lambda b: "Bearer " + encode(b)))
async def test_whatever_the_header_says_only_the_one_refusal_comes_out(value: str, gate: Gate) -> None:
    """Any text, half surrogates too, as the value of the Authorization header."""
    with pytest.raises(Refusal, match="unauthenticated"):
        await gate.verifier.verify([value])
