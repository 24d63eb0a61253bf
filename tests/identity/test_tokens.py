"""Good tokens, how long they stay good, and what a request without one is told. See test_token_attacks.py."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from relay.errors import ConfigError, Refusal
from relay.identity.keys import KeySets
from relay.identity.model import IssuerPolicy
from relay.identity.tokens import Verifier
from tests.conftest import TurnableClock
from tests.identity.conftest import Gate
from tests.support.issuer import AUDIENCE, LIFETIME, TestIssuer


async def test_the_principal_comes_from_the_token(gate: Gate, issuer: TestIssuer, clock: TurnableClock) -> None:
    """Kind, issuer, client, subject, tenant, scopes and expiry are those of the claims."""
    token = issuer.mint(sub="alice", client_id="workbench", scope="feedback:read feedback:write")
    caller = await gate.admit(token)
    assert (caller.kind, caller.issuer, caller.client, caller.subject) == ("human", issuer.url, "workbench", "alice")
    assert caller.scopes == {"feedback:read", "feedback:write"}
    assert (caller.tenant, caller.token, caller.expires_at) == (issuer.url, token, clock.unix() + LIFETIME)


async def test_a_token_whose_subject_is_its_client_is_a_machine(gate: Gate, issuer: TestIssuer) -> None:
    """RFC 9068 section 2.2: without a human the subject is the client id, and nothing else makes a machine."""
    assert (await gate.admit(issuer.mint_machine(client_id="runtime"))).kind == "machine"
    for subject in ("runtime", "workbench-2", "Workbench", "work"):
        assert (await gate.admit(issuer.mint(sub=subject, client_id="workbench"))).kind == "human"


async def test_neither_subject_nor_token_is_in_the_repr(gate: Gate, issuer: TestIssuer) -> None:
    """A principal that ends up in a log tells nothing of who it is and opens nothing."""
    token = issuer.mint(sub="alice-the-secret")
    caller = await gate.admit(token)
    assert "alice-the-secret" not in repr((caller, caller.owner))
    assert token[-20:] not in repr(caller)


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512", "RS256", "PS256", "Ed25519", "EdDSA"])
async def test_every_algorithm_on_the_list_verifies(
    algorithm: str, policy: IssuerPolicy, keys: KeySets, clock: TurnableClock, issuer: TestIssuer
) -> None:
    """Each kind of signature that may be configured is verified with a key from the published set."""
    verifier = Verifier([replace(policy, algorithms=(algorithm,))], keys, clock)
    assert (await verifier.verify([f"Bearer {issuer.mint(algorithm=algorithm)}"])).subject == "alice"


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "Application/AT+jwt"])
async def test_the_type_is_compared_as_a_media_type(typ: str, gate: Gate, issuer: TestIssuer) -> None:
    """RFC 7515 section 4.1.9: case does not matter, and the prefix may be there or not."""
    assert (await gate.admit(issuer.mint(header={"typ": typ}))).subject == "alice"


async def test_another_type_can_be_configured(
    policy: IssuerPolicy, keys: KeySets, clock: TurnableClock, issuer: TestIssuer
) -> None:
    """An issuer that marks its access tokens JWT is taken where an operator says so, and then only that."""
    verifier = Verifier([replace(policy, token_types=("JWT",))], keys, clock)
    await verifier.verify([f"Bearer {issuer.mint(header={'typ': 'JWT'})}"])
    with pytest.raises(Refusal, match="unauthenticated"):
        await verifier.verify([f"Bearer {issuer.mint()}"])


async def test_a_longest_lifetime_can_be_configured(
    policy: IssuerPolicy, keys: KeySets, clock: TurnableClock, issuer: TestIssuer
) -> None:
    """A token that an issuer made for longer than the operator allows is refused from the start."""
    verifier = Verifier([replace(policy, max_lifetime=600)], keys, clock)
    now = int(clock.unix())
    assert (await verifier.verify([f"Bearer {issuer.mint(exp=now + 600)}"])).subject == "alice"
    with pytest.raises(Refusal, match="unauthenticated"):
        await verifier.verify([f"Bearer {issuer.mint(exp=now + 601)}"])


async def test_header_members_of_no_meaning_are_ignored(gate: Gate, issuer: TestIssuer) -> None:
    """RFC 7515 section 4: what is not understood is ignored, unless it is critical; x5t is common and harmless."""
    assert (await gate.admit(issuer.mint(header={"x5t": "3q2-7w", "ver": 1, "note": ["a" * 600]}))).subject == "alice"


@pytest.mark.parametrize("audience", [AUDIENCE, [AUDIENCE], ["https://other.example.org", AUDIENCE]])
async def test_the_audience_may_be_one_of_several(audience: object, gate: Gate, issuer: TestIssuer) -> None:
    """RFC 7519 section 4.1.3: a string, or an array that names us among others."""
    assert (await gate.admit(issuer.mint(aud=audience))).subject == "alice"


async def test_the_client_and_tenant_claims_are_configured(
    policy: IssuerPolicy, keys: KeySets, clock: TurnableClock, issuer: TestIssuer
) -> None:
    """The claims named in the configuration count, and no others do."""
    verifier = Verifier([replace(policy, client_claim="azp", tenant_claim="org")], keys, clock)
    token = issuer.mint(client_id="not-this-one", azp="workbench", org="acme", tenant="not-this-one")
    caller = await verifier.verify([f"Bearer {token}"])
    assert (caller.client, caller.tenant) == ("workbench", "acme")


async def test_only_scope_grants_scopes(gate: Gate, issuer: TestIssuer) -> None:
    """Without the claim there are none; ``scp`` and ``scopes`` are other people's words."""
    token = issuer.mint(scope=None, scp=["operator:write"], scopes="operator:write", permissions=["operator:write"])
    assert (await gate.admit(token)).scopes == frozenset()


async def test_a_tab_does_not_separate_scopes(gate: Gate, issuer: TestIssuer) -> None:
    """RFC 6749 section 3.3 knows the space only: anything else would let a client smuggle a second scope."""
    scopes = (await gate.admit(issuer.mint(scope="a\toperator:write  feedback:read\u00a0registry:admin"))).scopes
    assert scopes.isdisjoint({"operator:write", "registry:admin", "feedback:read"})


async def test_a_verified_token_is_remembered(gate: Gate, issuer: TestIssuer) -> None:
    """The second use costs no verification: it gives the very same principal."""
    token = issuer.mint()
    assert await gate.admit(token) is await gate.admit(token)


async def test_a_remembered_token_expires(gate: Gate, issuer: TestIssuer, clock: TurnableClock) -> None:
    """An expiry is looked at on every use, to the second, and never stretched."""
    token = issuer.mint()
    await gate.admit(token)
    clock.turn(LIFETIME - 1)
    await gate.admit(token)
    clock.turn(1)
    assert await gate.refuse(token) == "expired"


async def test_a_remembered_token_falls_with_its_key(gate: Gate, issuer: TestIssuer, clock: TurnableClock) -> None:
    """When the issuer takes a key out of its set, no token that it signed is good any longer."""
    token = issuer.mint(exp=int(clock.unix()) + 7200)
    await gate.admit(token)
    issuer.rotate()
    clock.turn(60)
    await gate.admit(issuer.mint())  # an unknown key id: the set is fetched again
    assert await gate.refuse(token) == "unknown_key"


async def test_a_remembered_token_survives_a_rotation_that_keeps_its_key(
    gate: Gate, issuer: TestIssuer, clock: TurnableClock
) -> None:
    """A new key beside the old one changes nothing for those who hold tokens."""
    token = issuer.mint(exp=int(clock.unix()) + 7200)
    caller = await gate.admit(token)
    issuer.rotate(keep_old=True)
    clock.turn(60)
    await gate.admit(issuer.mint())
    assert await gate.admit(token) is caller


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_not_case_sensitive(scheme: str, gate: Gate, issuer: TestIssuer) -> None:
    """RFC 9110 section 11.1."""
    assert (await gate.verifier.verify([f"{scheme} {issuer.mint()}"])).subject == "alice"


@pytest.mark.parametrize(
    "values", [[], ["Basic YWxpY2U6c2VjcmV0"], ["Bearer"], ["Bearer  "], [""], ["DPoP abc"], ["Bearer\tabc"]]
)
async def test_without_a_token_the_challenge_is_bare(values: Sequence[str], gate: Gate) -> None:
    """RFC 6750 section 3.1: no error code where no token was sent; the text is the same as for a bad one."""
    with pytest.raises(Refusal) as caught:
        await gate.verifier.verify(values)
    assert (caught.value.status, caught.value.headers) == (401, {"WWW-Authenticate": 'Bearer realm="feedback-relay"'})
    assert gate.defects == ["no_token"]


async def test_a_bad_token_and_no_token_are_told_the_same(gate: Gate) -> None:
    """Only the challenge differs, by what the caller themselves sent."""
    with pytest.raises(Refusal) as without:
        await gate.verifier.verify([])
    with pytest.raises(Refusal) as bad:
        await gate.verifier.verify(["Bearer nonsense"])
    assert (without.value.code, without.value.detail) == (bad.value.code, bad.value.detail)
    assert bad.value.headers == {"WWW-Authenticate": 'Bearer realm="feedback-relay", error="invalid_token"'}


async def test_two_headers_are_ambiguous(gate: Gate, issuer: TestIssuer) -> None:
    """RFC 6750 section 2: even the same good token twice is a malformed request."""
    header = f"Bearer {issuer.mint()}"
    with pytest.raises(Refusal) as caught:
        await gate.verifier.verify([header, header])
    assert (caught.value.code, caught.value.status) == ("malformed_request", 400)
    assert 'error="invalid_request"' in caught.value.headers["WWW-Authenticate"]


@pytest.mark.parametrize("algorithm", ["none", "HS256", "dir", "es256", ""])
def test_only_asymmetric_algorithms_can_be_configured(
    algorithm: str, policy: IssuerPolicy, keys: KeySets, clock: TurnableClock
) -> None:
    """A policy that names anything else stops the start and says which ones there are."""
    with pytest.raises(ConfigError, match=r"algorithms names .*ES256"):
        Verifier([replace(policy, algorithms=("ES256", algorithm))], keys, clock)
