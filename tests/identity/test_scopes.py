"""Which scopes count, and for whom."""

import pytest

from relay.errors import Refusal
from relay.identity.model import OwnerKind, Principal, Scope
from relay.identity.scopes import OPERATOR_SCOPES, holds, require


def caller(*scopes: str, kind: OwnerKind = "human") -> Principal:
    return Principal(
        kind=kind,
        issuer="https://login.example.org",
        client="workbench",
        subject="alice" if kind == "human" else "workbench",
        tenant="acme",
        scopes=frozenset(scopes),
        expires_at=0.0,
        token="",
    )


def test_a_scope_that_the_token_has() -> None:
    """The very scope, and no other, opens the door."""
    require(caller("feedback:write"), "feedback:write")
    require(caller("feedback:write", kind="machine"), "feedback:write")
    assert not holds(caller("feedback:write"), "feedback:read")
    assert not holds(caller("feedback:*", "feedback"), "feedback:write")


def test_a_scope_that_the_token_lacks() -> None:
    """RFC 6750 section 3.1: 403, and a challenge that names the scope to ask for."""
    with pytest.raises(Refusal) as caught:
        require(caller("feedback:read"), "feedback:write")
    assert (caught.value.code, caught.value.status) == ("insufficient_scope", 403)
    assert "feedback:write" in caught.value.detail
    assert caught.value.headers == {
        "WWW-Authenticate": 'Bearer realm="feedback-relay", error="insufficient_scope", scope="feedback:write"'
    }


@pytest.mark.parametrize("scope", sorted(OPERATOR_SCOPES))
def test_operator_scopes_are_for_people(scope: Scope) -> None:
    """A machine's token with an operator's scope does not operate, and is told why."""
    require(caller(scope), scope)
    with pytest.raises(Refusal, match="only in a person's token") as caught:
        require(caller(scope, kind="machine"), scope)
    assert caught.value.code == "insufficient_scope"
