"""The Big List of Naughty Strings where a token has text: never anyone but who the issuer named, never a crash."""

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from relay.errors import Refusal
from relay.identity.compact import is_name
from relay.identity.model import Principal
from tests.attacks.naughty import STRINGS
from tests.identity.conftest import Gate
from tests.support.forgery import human
from tests.support.issuer import AUDIENCE, TestIssuer


def test_there_are_enough_of_them() -> None:
    """The list is the whole one."""
    assert len(STRINGS) > 500
    assert {"", "nil", "⁰⁴⁵", "<script>alert(123)</script>"} <= set(STRINGS)


async def judged(gate: Gate, token: str) -> Principal | None:
    """The caller, or None for the one refusal; anything else that is raised fails the test."""
    with contextlib.suppress(Refusal):
        return await gate.admit(token)
    await gate.refuse(token)
    return None


def signed(issuer: TestIssuer, *, header: Mapping[str, Any] | None = None, **claims: object) -> str:
    return issuer.sign(issuer.header(**(header or {})), human(issuer, **{"tenant": "acme", **claims}))


def unreadable(text: str) -> bool:
    """What no JSON of ours may hold anywhere."""
    return "\x00" in text


@pytest.mark.parametrize("member", ["alg", "typ", "kid"])
async def test_in_the_header_where_one_value_is_right(member: str, gate: Gate, issuer: TestIssuer) -> None:
    """Algorithm, type and key id have one right value each, and it is none of these."""
    for text in STRINGS:
        assert await judged(gate, signed(issuer, header={member: text})) is None


@pytest.mark.parametrize("member", ["cty", "enc", "http://example.org/x"])
async def test_in_the_header_where_it_means_nothing(member: str, gate: Gate, issuer: TestIssuer) -> None:
    """RFC 7515 section 4: members that are not understood are ignored, if the text could be read at all."""
    for text in STRINGS:
        caller = await judged(gate, signed(issuer, header={member: text}))
        assert (caller is None) is unreadable(text), ascii(text)


async def test_as_the_name_of_a_member(gate: Gate, issuer: TestIssuer) -> None:
    """An unknown name in the header or the claims changes nothing of who the caller is."""
    for text in STRINGS:
        for token in (signed(issuer, header={text: "x"}), signed(issuer, **{text: "x"})):
            caller = await judged(gate, token)
            assert (caller is None) is unreadable(text), ascii(text)
            assert caller is None or (caller.subject, caller.client) == ("alice", "workbench")


@pytest.mark.parametrize("claim", ["iss", "aud", "exp", "iat", "nbf"])
async def test_in_claims_where_it_is_never_right(claim: str, gate: Gate, issuer: TestIssuer) -> None:
    """No issuer, no audience and no time looks like any of these."""
    for text in STRINGS:
        assert await judged(gate, signed(issuer, **{claim: text})) is None


async def test_in_a_list_of_audiences(gate: Gate, issuer: TestIssuer) -> None:
    """An audience beside ours is nobody's business; alone in a list it is not ours."""
    for text in STRINGS:
        assert await judged(gate, signed(issuer, aud=[text])) is None
        caller = await judged(gate, signed(issuer, aud=[text, AUDIENCE]))
        assert (caller is None) is unreadable(text), ascii(text)


@pytest.mark.parametrize(("claim", "attribute"), [("sub", "subject"), ("client_id", "client"), ("tenant", "tenant")])
async def test_in_names(claim: str, attribute: str, gate: Gate, issuer: TestIssuer) -> None:
    """A name is taken code point by code point, neither trimmed nor normalised, or it is refused."""
    for text in STRINGS:
        caller = await judged(gate, signed(issuer, **{claim: text}))
        assert (caller is not None) is is_name(text), ascii(text)
        assert caller is None or getattr(caller, attribute) == text


async def test_in_the_id_of_the_token(gate: Gate, issuer: TestIssuer) -> None:
    """A token id is asked for, and used for nothing."""
    for text in STRINGS:
        assert (await judged(gate, signed(issuer, jti=text)) is not None) is is_name(text), ascii(text)


async def test_in_the_scope(gate: Gate, issuer: TestIssuer) -> None:
    """RFC 6749 section 3.3: only a space parts scopes; no other blank makes a known scope out of a text."""
    for text in STRINGS:
        caller = await judged(gate, signed(issuer, scope=f"{text}feedback:write{text}"))
        if caller is not None:
            alone = text == "" or (text[0] == " " and text[-1] == " ")
            assert ("feedback:write" in caller.scopes) is alone, ascii(text)


@pytest.mark.parametrize("place", ["the token", "a segment", "the scheme", "behind the token"])
async def test_in_the_authorization_header(place: str, gate: Gate, issuer: TestIssuer) -> None:
    """Wherever it stands in the header, a token that is no token is nobody's."""
    header, payload, signature = issuer.mint(tenant="acme").split(".")
    for text in STRINGS:
        values = {
            "the token": [f"Bearer {text}"],
            "a segment": [f"Bearer {text}.{payload}.{signature}", f"Bearer {header}.{payload}.{text}"],
            "the scheme": [f"{text} {header}.{payload}.{signature}"],
            "behind the token": [f"Bearer {header}.{payload}.{signature}{text or ','}"],
        }[place]
        for value in values:
            with pytest.raises(Refusal, match="unauthenticated"):
                await gate.verifier.verify([value])
