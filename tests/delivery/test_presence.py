"""Deliveries that only their owner's own sign-in can send: they wait for the owner, and burn nothing while they do."""

import pytest

from registry.model import Acting, AgentId, ClientCredentials, Credential, OwnerAssertion, TokenExchange, needs_presence
from registry.registrations import Declaration
from tests.delivery.conftest import Outbox, declaration

LITERATURE = AgentId("literature")
COMMON = {
    "issuer": "https://login.example.org",
    "client_id": "workbench",
    "token_endpoint": "https://login.example.org/token",
    "key_file": "workbench.pem",
    "resource": "https://literature.example.org",
}
EXCHANGE = TokenExchange(**COMMON)
ASSERTION = OwnerAssertion(**COMMON)
CLIENT = ClientCredentials(**COMMON)


@pytest.mark.parametrize(
    ("credentials", "ran_as", "known", "expected"),
    [
        ((EXCHANGE,), "owner", False, True),
        ((EXCHANGE,), "client", False, False),
        ((EXCHANGE, ASSERTION), "owner", True, False),
        ((EXCHANGE, ASSERTION), "owner", False, True),
        ((ASSERTION,), "owner", False, False),
        ((CLIENT,), "owner", True, False),
        ((), "owner", True, False),
    ],
)
def test_who_needs_to_be_present(credentials: tuple[Credential, ...], ran_as, known, expected):  # noqa: ANN001
    """Only where nothing can act for the owner while they are away, and their own token could."""
    acting = Acting("human", "https://login.example.org", "workbench", ran_as, subject_known=known)
    assert needs_presence(credentials, acting) is expected


async def waiting(outbox: Outbox) -> int:
    """A delivery that waits for its owner."""
    delivery = await outbox.place(state="needs_owner")
    await outbox.change("UPDATE deliveries SET needs_presence = true")
    return delivery


async def claim(outbox: Outbox, delivery: int, *, present: bool):
    revision = outbox.registry.snapshot[LITERATURE].revision
    return await outbox.deliveries.claim_one(delivery, "sign_in", revision, 0.0, present=present)


async def test_no_worker_claims_what_waits_for_its_owner(outbox: Outbox):
    """Nor does a request without the owner's live token."""
    delivery = await waiting(outbox)
    assert await outbox.claim() == []
    assert await claim(outbox, delivery, present=False) is None
    claimed = await claim(outbox, delivery, present=True)
    assert claimed is not None
    assert claimed.claim.cause == "sign_in"


async def test_a_failed_attempt_waits_for_the_owner_again_and_burns_nothing(outbox: Outbox):
    """Back to needs_owner with a floor, the schedule where it was, however often it fails."""
    delivery = await waiting(outbox)
    for _ in range(5):
        await outbox.change("UPDATE deliveries SET due_at = 0, owner_attempt_at = 0")
        claimed = await claim(outbox, delivery, present=True)
        assert claimed is not None
        assert (await outbox.settle(claimed, "retry", reason="server_error", status=500)).state == "needs_owner"
    row = await outbox.row(delivery)
    assert row["schedule_position"] == 0
    assert row["due_at"] > row["state_since"]
    assert await claim(outbox, delivery, present=True) is None  # the floor stands
    assert len(await outbox.rows("SELECT id FROM attempts WHERE cause = 'sign_in'")) == 5


async def test_an_expired_lease_returns_to_the_owner(outbox: Outbox):
    """The process that held the live token died: the delivery waits for the owner again."""
    delivery = await waiting(outbox)
    await claim(outbox, delivery, present=True)
    await outbox.expire(delivery)
    await outbox.settlements._write(await outbox.deliveries.expired())
    assert (await outbox.row(delivery))["state"] == "needs_owner"


async def test_what_waits_for_an_owner_is_found_by_owner(outbox: Outbox):
    """Only what is due, and only this owner's."""
    delivery = await waiting(outbox)
    later = await outbox.place(state="needs_owner", due_ms=60_000)
    assert later != delivery
    assert await outbox.deliveries.waiting_for(1) == [(delivery, "literature")]
    assert await outbox.deliveries.waiting_for(2) == []


async def test_a_change_of_credentials_moves_what_waits(outbox: Outbox):
    """The agent comes to take only the owner's own sign-in, then an assertion again."""
    delivery = await outbox.place()
    await outbox.change("UPDATE owners SET sealed_subject = :sealed", sealed=b"s")

    async def declare(*credentials: Credential) -> str:
        declared = declaration("literature")
        changed = Declaration(
            agent=declared.agent,
            name=declared.name,
            origin=declared.origin,
            protocol=declared.protocol,
            credentials=credentials,
        )
        await outbox.agents.seed([changed, declaration("chemistry")])
        return str((await outbox.row(delivery))["state"])

    assert await declare(EXCHANGE) == "pending"  # ran as the client: an exchange makes no difference to it
    owners = await outbox.place(ran_as="owner")
    await declare(EXCHANGE, ASSERTION)
    assert (await outbox.row(owners))["state"] == "pending"
    await declare(EXCHANGE)
    assert (await outbox.row(owners))["state"] == "needs_owner"
    await declare(EXCHANGE, ASSERTION)
    assert (await outbox.row(owners))["state"] == "pending"
