"""What a caller is told at each operation of a whole relay: one 401, one 400, and a 403 that names its scope."""

import pytest

from tests.attacks.answers import Seen, without_chance
from tests.support.contract import OPERATIONS
from tests.support.forgery import human, unsigned
from tests.support.gateway import Gateway, new_id
from tests.support.wire import send

PROTECTED = [
    (method, path)
    for method, path, operation in OPERATIONS
    if operation.get("security") and not path.startswith("/api/operator")
]


def concrete(path: str) -> str:
    """A path of the operation whose ids nobody has."""
    for name in ("agent", "taskId", "answerId", "conversationId"):
        path = path.replace(f"{{{name}}}", "literature")
    return path.replace("{id}", new_id())


def defects(gateway: Gateway) -> dict[str, str]:
    """A token for each reason that the verifier knows, as an Authorization header."""
    issuer, claims = gateway.issuer, {"tenant": "acme"}
    now = int(issuer.now())
    good = gateway.token()
    header = issuer.header()
    tokens = {
        "nonsense": "nonsense",
        "too long": "x." * 3 + "y" * 8200,
        "no signature": good.rpartition(".")[0] + ".",
        "bad signature": good[:-8] + "AAAAAAAA",
        "unsigned": unsigned(issuer.header(alg="none"), human(issuer), b"x"),
        "refused member": issuer.mint(header={"jku": "https://evil.example"}, **claims),
        "critical": issuer.mint(header={"crit": ["exp"]}, **claims),
        "another type": issuer.mint(header={"typ": "JWT"}, **claims),
        "an algorithm not listed": issuer.mint(algorithm="ES384", **claims),
        "no key id": issuer.mint(header={"kid": None}, **claims),
        "an unknown key": issuer.mint(header={"kid": "unknown"}, **claims),
        "header no JSON": issuer.sign(b"{", human(issuer)),
        "claims no JSON": issuer.sign(header, b"{"),
        "another issuer": issuer.mint(iss="https://evil.example", **claims),
        "another audience": issuer.mint(aud="https://other.example", **claims),
        "expired": issuer.mint(iat=now - 600, exp=now - 1, **claims),
        "not yet valid": issuer.mint(nbf=now + 600, **claims),
        "from the future": issuer.mint(iat=now + 200, **claims),
        "times that are none": issuer.mint(exp="soon", **claims),
        "no subject": issuer.mint(sub=None, **claims),
        "no client": issuer.mint(client_id=None, **claims),
        "no tenant": issuer.mint(),
        "no token id": issuer.mint(jti=None, **claims),
        "scope no text": issuer.mint(scope=["feedback:read"], **claims),
    }
    return {name: f"Bearer {token}" for name, token in tokens.items()}


async def ask(gateway: Gateway, method: str, path: str, headers: dict[str, str], body: object = None) -> Seen:
    answered = await gateway.call(method, path, body, headers=headers)
    return Seen(answered.status, without_chance(answered.headers), answered.body)


@pytest.mark.parametrize(("method", "path"), PROTECTED, ids=lambda value: value)
async def test_each_defect_is_the_same_401_at_each_operation(method: str, path: str, gateway: Gateway) -> None:
    """Two dozen defects, one answer: status, headers in their order, and body, byte for byte."""
    target = concrete(path)
    seen = {
        name: await ask(gateway, method, target, {"Authorization": value}) for name, value in defects(gateway).items()
    }
    assert {one.status for one in seen.values()} == {401}
    assert len(set(seen.values())) == 1
    assert b'"unauthenticated"' in seen["expired"].body


@pytest.mark.parametrize(("method", "path"), PROTECTED, ids=lambda value: value)
async def test_no_token_is_told_apart_from_a_bad_one_by_its_challenge_alone(
    method: str, path: str, gateway: Gateway
) -> None:
    """RFC 6750 section 3.1: without a token there is no error code in the challenge; the body is the same."""
    target = concrete(path)
    none = await ask(gateway, method, target, {})
    bad = await ask(gateway, method, target, {"Authorization": "Bearer x"})
    assert (none.status, none.body) == (bad.status, bad.body)
    assert dict(none.headers)["WWW-Authenticate"] == 'Bearer realm="feedback-relay"'
    assert dict(bad.headers)["WWW-Authenticate"] == 'Bearer realm="feedback-relay", error="invalid_token"'


@pytest.mark.parametrize("second", ["the same", "another", "nonsense", "another scheme", "empty"])
@pytest.mark.parametrize(("method", "path"), PROTECTED, ids=lambda value: value)
async def test_two_authorization_headers(method: str, path: str, second: str, gateway: Gateway) -> None:
    """Whatever the two say: 400, since a proxy and we could each believe another."""
    good = gateway.machine
    values = {"the same": f"Bearer {good}", "another": f"Bearer {gateway.token('bob')}", "nonsense": "Bearer x"}
    other = {**values, "another scheme": "Basic eDp5", "empty": ""}[second]
    for pair in ((f"Bearer {good}", other), (other, f"Bearer {good}")):
        lines = "".join(f"Authorization: {value}\r\n" for value in pair)
        request = (
            f"{method} {concrete(path)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}Content-Length: 0\r\n\r\n"
        )
        answered = await send(gateway.port, request.encode())
        assert (answered.status, answered.code) == (400, "malformed_request")
        assert good.encode() not in answered.body


@pytest.mark.parametrize("beside", [True, False], ids=["beside a good header", "alone"])
@pytest.mark.parametrize(("method", "path"), PROTECTED, ids=lambda value: value)
async def test_a_token_in_the_query(method: str, path: str, beside: bool, gateway: Gateway) -> None:  # noqa: FBT001
    """RFC 9700 section 4.3.2: 400, however the parameter is written, and the token is not repeated."""
    token = gateway.machine
    headers = {"Authorization": f"Bearer {token}"} if beside else {}
    for name in ("access_token", "ACCESS_TOKEN", "%61ccess_token", "token", "bearer", "authorization"):
        answered = await gateway.call(method, f"{concrete(path)}?{name}={token}", headers=headers)
        assert (answered.status, answered.code) == (400, "malformed_request")
        assert token.encode() not in answered.body


NEEDED: dict[tuple[str, str], set[str]] = {
    ("PUT", "/api/provenance/tasks/{agent}/{taskId}"): {"provenance:write"},
    ("GET", "/api/answers/{answerId}/targets"): {"feedback:read", "provenance:write"},
    ("GET", "/api/conversations/{conversationId}/targets"): {"feedback:read", "provenance:write"},
    ("POST", "/api/feedback"): {"feedback:write"},
    ("GET", "/api/feedback"): {"feedback:read"},
    ("GET", "/api/feedback/events"): {"feedback:read"},
    ("GET", "/api/feedback/{id}"): {"feedback:read"},
    ("POST", "/api/feedback/{id}/retry"): {"feedback:write"},
}
SCOPES = ("feedback:read", "feedback:write", "provenance:write", "operator:read", "operator:write", "registry:admin")


@pytest.mark.parametrize(("method", "path"), NEEDED, ids=lambda value: value)
async def test_a_missing_scope_is_named(method: str, path: str, gateway: Gateway) -> None:
    """403 with the one scope to ask for; look-alikes and every other scope together are not enough."""
    needed = NEEDED[method, path]
    others = " ".join(set(SCOPES) - needed)
    alike = " ".join(f"{s}s {s.upper()} x{s} {s}:all {s}\t{s}" for s in needed)
    for scope in (others, alike, ""):
        token = gateway.token("workbench", scope)
        answered = await gateway.call(method, concrete(path), token=token)
        assert (answered.status, answered.code) == (403, "insufficient_scope")
        challenge = answered.headers["WWW-Authenticate"]
        assert 'error="insufficient_scope"' in challenge
        named = {s for s in SCOPES if f'scope="{s}"' in challenge}
        assert len(named) == 1
        assert named <= needed


def test_every_protected_operation_is_tried() -> None:
    """An operation that is added and protected joins these tests, or is named here with its scopes."""
    assert set(NEEDED) <= set(PROTECTED)
    assert len(PROTECTED) >= 8
