"""Whom a credential can act for, and what stands in a destination's way: the whole tables."""

from collections.abc import Collection
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from registry.model import (
    Acting,
    Agent,
    AgentId,
    ClientCredentials,
    Credential,
    OwnerAssertion,
    Registration,
    StaticBearer,
    TokenExchange,
    Version,
    can_act,
    choose,
    obstacle,
)

ISSUER, CLIENT = "https://login.example.org", "workbench"
GRANT: dict[str, Any] = {
    "issuer": ISSUER,
    "client_id": CLIENT,
    "token_endpoint": "https://login.example.org/token",
    "key_file": "workbench.pem",
    "resource": "https://literature.example.org",
}
CREDENTIALS: dict[str, Credential] = {
    "client_credentials": ClientCredentials(**GRANT),
    "owner_assertion": OwnerAssertion(**GRANT),
    "token_exchange": TokenExchange(**GRANT),
    "static_bearer": StaticBearer(issuer=ISSUER, client_id=CLIENT, token_file="bearer"),
}
KINDS, RAN_AS = ("human", "machine"), ("owner", "client")

CAN_ACT = {
    # As the client itself: for a machine, which is its client, and for a human's task that ran as the client.
    *product(("client_credentials", "static_bearer"), ("machine",), RAN_AS, (True, False), (True, False)),
    *product(("client_credentials", "static_bearer"), ("human",), ("client",), (True, False), (True, False)),
    # As a human, for a task that ran as that human: whose subject is at hand, or who is here.
    *product(("owner_assertion",), ("human",), ("owner",), (True,), (True, False)),
    *product(("token_exchange",), ("human",), ("owner",), (True, False), (True,)),
}
"""(mode, kind, ranAs, subject known, present) that can act, for an owner of the credential's own issuer and client."""


@pytest.mark.parametrize("mode", CREDENTIALS)
def test_whom_a_credential_can_act_for(mode: str):
    """Every mode and owner, way of running, subject and presence: what the table says, never another issuer's."""
    credential = CREDENTIALS[mode]
    issuers, clients = (ISSUER, "https://login.example.net"), (CLIENT, "other")
    either = (True, False)
    for kind, ran_as, known, here, issuer, client in product(KINDS, RAN_AS, either, either, issuers, clients):
        acting = Acting(kind, issuer, client, ran_as, known, here)  # type: ignore[arg-type]
        expected = (mode, kind, ran_as, known, here) in CAN_ACT and (issuer, client) == (ISSUER, CLIENT)
        assert can_act(credential, acting) is expected, acting


@pytest.mark.parametrize("almost", [ISSUER + "/", ISSUER.upper(), "http://login.example.org", ""])
def test_an_issuer_is_compared_as_it_is_written(almost: str):
    """Nothing is normalised: issuers are told apart by their exact text."""
    assert not can_act(CREDENTIALS["static_bearer"], Acting("machine", almost, CLIENT, "client", subject_known=False))


def test_the_first_that_can_act_is_chosen():
    """In the order of the registration; none where none can."""
    other = StaticBearer(issuer=ISSUER, client_id="other", token_file="bearer")
    first, second = CREDENTIALS["client_credentials"], CREDENTIALS["static_bearer"]
    machine = Acting("machine", ISSUER, CLIENT, "client", subject_known=False)
    assert choose([other, CREDENTIALS["owner_assertion"], first, second], machine) is first
    assert choose([second, first], machine) is second
    assert choose([other, CREDENTIALS["owner_assertion"]], machine) is None
    assert choose([], machine) is None


def agent(*, lineage: int = 1, held_by: Collection[str] = (), **registration: Any) -> Agent:
    """An agent whose second version is approved; its first is of another specialist unless ``lineage`` is 1."""
    approved = Registration(
        **{
            "agent": AgentId("literature"),
            "version": Version(2),
            "name": "Literature",
            "state": "approved",
            "source": "configuration",
            "origin": "https://literature.example.org",
            "protocol": "roblox-v1",
            "credentials": (CREDENTIALS["static_bearer"],),
            "lineage": lineage,
            **registration,
        }
    )
    return Agent(
        id=approved.agent,
        name=approved.name,
        revision=7,
        approved=approved,
        newest=Version(3),
        lineages={Version(1): 1, Version(2): lineage, Version(3): 3},
        held_by=frozenset(held_by),
    )


def test_a_delivery_is_held_for_its_tenants_hold_or_another_specialist():
    """Held: nothing approved, the tenant's own hold, a version of another lineage, a version that nobody knows."""
    same, moved = agent(), agent(lineage=2)
    assert not same.is_held("acme", Version(1))
    assert not same.is_held("acme", Version(2))
    assert same.is_held("acme", Version(3))
    assert same.is_held("acme", Version(4))
    assert moved.is_held("acme", Version(1))
    assert not moved.is_held("acme", Version(2))
    held = agent(held_by=["acme"])
    assert held.is_held("acme", Version(2))
    assert not held.is_held("other", Version(2))
    assert replace(same, approved=None).is_held("acme", Version(2))


def test_a_task_pins_what_is_approved_or_else_the_newest():
    """While nothing is approved a task is bound to the version that may be approved next."""
    assert agent().pinned == 2
    assert replace(agent(), approved=None).pinned == 3


MACHINE = Acting("machine", ISSUER, CLIENT, "client", subject_known=False)
PERSON = Acting("human", ISSUER, CLIENT, "owner", subject_known=False)


@pytest.mark.parametrize(
    ("acting", "registration", "expected"),
    [
        (MACHINE, {}, None),
        (MACHINE, {"protocol": None}, "feedback_not_supported"),
        (MACHINE, {"protocol": "roblox-v2"}, "feedback_not_supported"),
        (MACHINE, {"protocol": None, "credentials": ()}, "feedback_not_supported"),
        (MACHINE, {"credentials": ()}, "destination_cannot_act_for_owner"),
        (PERSON, {}, "destination_cannot_act_for_owner"),
        (PERSON, {"credentials": (CREDENTIALS["owner_assertion"],)}, "destination_cannot_act_for_owner"),
        (replace(PERSON, subject_known=True), {"credentials": (CREDENTIALS["owner_assertion"],)}, None),
    ],
    ids=str,
)
def test_what_stands_in_the_way(acting: Acting, registration: dict[str, Any], expected: str | None):
    """Approval first, then the protocol, then whom the credentials can act for; a hold is no obstacle to storing."""
    assert obstacle(agent(**registration), acting, {"roblox-v1"}) == expected
    assert obstacle(agent(held_by=["acme"], **registration), acting, {"roblox-v1"}) == expected
    unapproved = replace(agent(**registration), approved=None)
    assert obstacle(unapproved, acting, {"roblox-v1"}) == "destination_not_approved"
