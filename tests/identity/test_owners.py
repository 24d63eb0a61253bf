"""Owners as stored, on both engines."""

import asyncio
import re

import pytest
from sqlalchemy import text

from relay.identity.keyfiles import SecretKey
from relay.identity.model import OwnerId, OwnerTuple
from relay.identity.owner_keys import OwnerKeys, SubjectUnreadable
from relay.identity.owners import Owners, new_owner_key
from relay.storage.engine import Database

ALICE = OwnerTuple("human", "https://login.example.org", "workbench", "alice@example.org")
BOB = OwnerTuple("human", "https://login.example.org", "workbench", "bob@example.org")
RUNTIME = OwnerTuple("machine", "https://login.example.org", "runtime", "runtime")

KEYS = OwnerKeys([SecretKey("pepper", bytes([1]) * 32)], [SecretKey("sealing_key", bytes([2]) * 32)])


@pytest.fixture
def owners(database: Database) -> Owners:
    return Owners(database, KEYS)


async def rows(database: Database) -> list[dict[str, object]]:
    async with database.read() as connection:
        return [dict(row) for row in (await connection.execute(text("SELECT * FROM owners ORDER BY id"))).mappings()]


async def test_an_owner_is_stored_once(owners: Owners, database: Database) -> None:
    """The same tuple is the same owner, in this process and in the next; another tuple is another."""
    assert await owners.find(ALICE) is None
    alice = await owners.ensure(ALICE, seal_subject=False)
    assert await owners.ensure(ALICE, seal_subject=False) == await owners.find(ALICE) == alice
    assert await Owners(database, KEYS).find(ALICE) == await owners.by_id(alice.id) == alice
    assert (alice.kind, alice.issuer, alice.client, alice.subject_sealed) == ("human", *ALICE_PLACE, False)
    bob = await owners.ensure(BOB, seal_subject=False)
    assert (bob.id, bob.key) != (alice.id, alice.key)
    assert len(await rows(database)) == 2


ALICE_PLACE = (ALICE.issuer, ALICE.client)


def test_owner_keys_say_nothing() -> None:
    """Random, in base32 without padding, and short enough for a path."""
    keys = {new_owner_key() for _ in range(1000)}
    assert len(keys) == 1000
    assert all(re.fullmatch(r"ok_[a-z2-7]{26}", key) for key in keys)


async def test_the_subject_is_stored_nowhere(owners: Owners, database: Database) -> None:
    """Neither plain nor as a hash that anyone could try subjects against."""
    await owners.ensure(ALICE, seal_subject=True)
    (row,) = await rows(database)
    stored = repr({name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()})
    assert "alice" not in stored
    assert row["seal_kid"] is not None


async def test_fifty_at_once_store_one_owner(database: Database) -> None:
    """Many requests in several processes that meet a new owner end with one row and one name."""
    processes = [Owners(database, KEYS) for _ in range(5)]
    found = await asyncio.gather(*(processes[n % 5].ensure(ALICE, seal_subject=n % 2 == 0) for n in range(50)))
    assert len({(owner.id, owner.key) for owner in found}) == 1
    assert len(await rows(database)) == 1
    assert await processes[0].subject_of(found[0].id) == ALICE.subject


async def test_a_subject_is_sealed_only_when_asked(owners: Owners) -> None:
    """Without need the relay does not even keep the means to act for somebody."""
    alice = await owners.ensure(ALICE, seal_subject=False)
    assert await owners.subject_of(alice.id) is None


async def test_a_subject_is_sealed_later(owners: Owners, database: Database) -> None:
    """An owner who comes back when an agent needs it is the same owner, now with a sealed subject."""
    before = await owners.ensure(ALICE, seal_subject=False)
    after = await owners.ensure(ALICE, seal_subject=True)
    assert (after.id, after.key, after.subject_sealed) == (before.id, before.key, True)
    assert await owners.find(ALICE) == after
    assert await Owners(database, KEYS).subject_of(after.id) == ALICE.subject


async def test_a_sealed_subject_stays_as_it_is(owners: Owners, database: Database) -> None:
    """Asking again, or not asking, changes nothing; nor does a process that has not noticed the sealing."""
    other = Owners(database, KEYS)
    await other.ensure(ALICE, seal_subject=False)
    await owners.ensure(ALICE, seal_subject=True)
    before = await rows(database)
    for asked in (True, False):
        await owners.ensure(ALICE, seal_subject=asked)
        assert (await other.ensure(ALICE, seal_subject=True)).subject_sealed
    assert await rows(database) == before


async def test_a_machine_has_no_subject_to_seal(owners: Owners) -> None:
    """Its subject is its client id, which is no secret."""
    runtime = await owners.ensure(RUNTIME, seal_subject=True)
    assert (runtime.kind, runtime.client, runtime.subject_sealed) == ("machine", "runtime", False)
    assert await owners.subject_of(runtime.id) is None


async def test_a_human_with_the_name_of_a_machine_is_somebody_else(owners: Owners) -> None:
    """The kind is part of who an owner is."""
    machine = await owners.ensure(RUNTIME, seal_subject=False)
    human = await owners.ensure(OwnerTuple("human", *RUNTIME_PLACE, "runtime"), seal_subject=False)
    assert machine.id != human.id


RUNTIME_PLACE = (RUNTIME.issuer, RUNTIME.client)


async def test_a_subject_moved_to_another_row_does_not_open(owners: Owners, database: Database) -> None:
    """Whoever can write to the database still cannot make the relay speak for somebody else."""
    alice = await owners.ensure(ALICE, seal_subject=True)
    bob = await owners.ensure(BOB, seal_subject=True)
    async with database.write() as connection:
        await connection.execute(
            text(
                "UPDATE owners SET sealed_subject = (SELECT sealed_subject FROM owners WHERE id = :alice) "
                "WHERE id = :bob"
            ),
            {"alice": alice.id, "bob": bob.id},
        )
    with pytest.raises(SubjectUnreadable, match=bob.key):
        await owners.subject_of(bob.id)


async def test_an_erased_owner_is_sealed_again_only_by_themselves(owners: Owners, database: Database) -> None:
    """Erasure takes the subject away: who records a task for them does not bring it back, their own sign-in does."""
    alice = await owners.ensure(ALICE, seal_subject=True)
    async with database.write() as connection:
        await connection.execute(
            database.sql("UPDATE owners SET sealed_subject = NULL, seal_kid = NULL, erased_at = {now} WHERE id = :id"),
            {"id": alice.id},
        )
    # By a process that had them before, and by one that had not.
    for process in (owners, Owners(database, KEYS)):
        again = await process.ensure(ALICE, seal_subject=True)
        assert (again.id, again.subject_sealed) == (alice.id, False)
    for process in (owners, Owners(database, KEYS)):
        back = await process.ensure(ALICE, seal_subject=True, present=True)
        assert (back.id, back.key, back.subject_sealed) == (alice.id, alice.key, True)
    assert await owners.subject_of(alice.id) == ALICE.subject


async def test_another_pepper_finds_nobody(owners: Owners, database: Database) -> None:
    """Without the pepper the table cannot be asked whether somebody is in it."""
    await owners.ensure(ALICE, seal_subject=False)
    stranger = OwnerKeys([SecretKey("pepper", bytes([9]) * 32)], [SecretKey("sealing_key", bytes([2]) * 32)])
    assert await Owners(database, stranger).find(ALICE) is None


async def test_a_former_pepper_still_finds(owners: Owners, database: Database) -> None:
    """During a rotation owners are found under either pepper and keep their names."""
    alice = await owners.ensure(ALICE, seal_subject=False)
    rotated = OwnerKeys(
        [SecretKey("pepper", bytes([9]) * 32), SecretKey("pepper", bytes([1]) * 32)],
        [SecretKey("sealing_key", bytes([2]) * 32)],
    )
    assert await Owners(database, rotated).ensure(ALICE, seal_subject=False) == alice


async def test_no_such_owner(owners: Owners) -> None:
    """Numbers come from rows that refer to an owner: another one is a fault, and has no subject."""
    with pytest.raises(LookupError):
        await owners.by_id(OwnerId(404))
    assert await owners.subject_of(OwnerId(404)) is None
