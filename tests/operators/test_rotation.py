"""Rotation of the owners' keys, on both engines, beside gateways of the former and of the new configuration."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from relay.errors import Refusal, StartupError
from relay.identity import keyfiles
from relay.identity.keyfiles import KeyName
from relay.identity.model import OwnerTuple
from relay.identity.owner_keys import OwnerKeys
from relay.identity.owners import Owners
from relay.operators import rotation
from relay.operators.rotation import Moved, Rotation
from relay.storage.engine import Database

LOGIN = "https://login.example.org"
ALICE = OwnerTuple("human", LOGIN, "workbench", "alice")
BOB = OwnerTuple("human", LOGIN, "workbench", "bob")
CAROL = OwnerTuple("human", LOGIN, "workbench", "carol")
RUNTIME = OwnerTuple("machine", LOGIN, "runtime", "runtime")


class Keyring:
    """Key files by number, and the configurations that name them."""

    def __init__(self, directory: Path, database: Database) -> None:
        self._directory = directory
        self._database = database
        for number in (1, 2, 3):
            for name in ("pepper", "sealing_key"):
                keyfiles.create(name, self.file(name, number))

    def file(self, name: str, number: int) -> Path:
        return self._directory / f"{name}-{number}"

    def kid(self, name: KeyName, number: int) -> str:
        return keyfiles.read(name, self.file(name, number)).kid

    async def load(self, *numbers: int, sealing: tuple[int, ...] | None = None) -> OwnerKeys:
        """As a process does whose configuration names the files of these numbers, the current one first."""
        pepper, *peppers = (self.file("pepper", number) for number in numbers)
        key, *keys = (self.file("sealing_key", number) for number in sealing or numbers)
        return await OwnerKeys.load(
            self._database, pepper, key, previous_pepper_files=peppers, previous_sealing_key_files=keys
        )

    async def rotate(self, *numbers: int, batch: int = 200, advance: Any = lambda _: None) -> Moved:
        return await Rotation(self._database, await self.load(*numbers), batch=batch).run("cli:root", "due", advance)


@pytest.fixture
def keyring(tmp_path: Path, database: Database) -> Keyring:
    return Keyring(tmp_path, database)


async def rows(database: Database) -> list[dict[str, Any]]:
    async with database.read() as connection:
        return [dict(row) for row in (await connection.execute(text("SELECT * FROM owners ORDER BY id"))).mappings()]


async def audited(database: Database) -> list[tuple[str, str, Mapping[str, Any], Mapping[str, Any], str]]:
    async with database.read() as connection:
        found = await connection.execute(text("SELECT * FROM audit_log ORDER BY seq"))
        return [(r.action, r.actor, json.loads(r.before), json.loads(r.after), r.why) for r in found]


async def stored(owners: Owners) -> dict[OwnerTuple, tuple[int, str]]:
    """One owner in each situation: sealed, not sealed, and a machine."""
    found = {
        ALICE: await owners.ensure(ALICE, seal_subject=True),
        BOB: await owners.ensure(BOB, seal_subject=False),
        RUNTIME: await owners.ensure(RUNTIME, seal_subject=False),
    }
    return {owner: (each.id, each.key) for owner, each in found.items()}


async def names(owners: Owners, *wanted: OwnerTuple) -> dict[OwnerTuple, tuple[int, str]]:
    found = {owner: await owners.find(owner) for owner in wanted or (ALICE, BOB, RUNTIME)}
    return {owner: (each.id, each.key) for owner, each in found.items() if each}


async def test_each_owner_is_moved_and_keeps_the_name(keyring: Keyring, database: Database) -> None:
    """Sealed ones and machines at once, the others when they come; then the former files are needed no more."""
    before = await stored(Owners(database, await keyring.load(1)))
    running = Owners(database, await keyring.load(2, 1))
    assert await Rotation(database, await keyring.load(2, 1)).look() == Moved(resealed=1, rekeyed=2, absent=1)

    assert await keyring.rotate(2, 1) == Moved(resealed=1, rekeyed=2, absent=1)
    pepper, former = keyring.kid("pepper", 2), keyring.kid("pepper", 1)
    assert [(row["pepper_kid"], row["seal_kid"]) for row in await rows(database)] == [
        (pepper, keyring.kid("sealing_key", 2)),
        (former, None),
        (pepper, None),
    ]
    assert await names(running) == before
    assert {row["pepper_kid"] for row in await rows(database)} == {pepper}
    alone = Owners(database, await keyring.load(2))
    assert await names(alone) == before
    assert await alone.subject_of((await alone.ensure(ALICE, seal_subject=True)).id) == "alice"
    assert len(await rows(database)) == 3


async def test_an_owner_who_is_remembered_is_moved_too(keyring: Keyring, database: Database) -> None:
    """A gateway that has the new configuration does not miss the rotation for those who come every minute."""
    await stored(Owners(database, await keyring.load(1)))
    running = Owners(database, await keyring.load(2, 1))
    await running.find(BOB)
    assert {row["pepper_kid"] for row in await rows(database)} == {keyring.kid("pepper", 1)}
    await keyring.rotate(2, 1)
    await running.find(BOB)
    assert {row["pepper_kid"] for row in await rows(database)} == {keyring.kid("pepper", 2)}


async def test_configurations_old_and_new_agree_before_the_rotation(keyring: Keyring, database: Database) -> None:
    """While gateways get the new configuration one by one, all of them find and store every owner once."""
    old, new = Owners(database, await keyring.load(1)), Owners(database, await keyring.load(2, 1))
    found = await asyncio.gather(
        *(each.ensure(owner, seal_subject=True) for each in (new, old) for owner in (ALICE, BOB, CAROL) * 5)
    )
    assert len({owner.id for owner in found}) == len(await rows(database)) == 3
    for owner in found:
        assert await old.subject_of(owner.id) == await new.subject_of(owner.id)
    assert {row["seal_kid"] for row in await rows(database)} == {keyring.kid("sealing_key", 1)}


async def test_an_old_configuration_after_the_rotation_says_that_it_cannot_tell(
    keyring: Keyring, database: Database
) -> None:
    """It stores nobody a second time and denies nobody: 503, not 404. Whom it remembers it still serves."""
    old = Owners(database, await keyring.load(1))
    known = await old.ensure(BOB, seal_subject=False)
    other = await Owners(database, await keyring.load(1)).ensure(ALICE, seal_subject=True)
    await keyring.rotate(2, 1)
    for asked in (old.find(ALICE), old.ensure(ALICE, seal_subject=False), old.ensure(CAROL, seal_subject=False)):
        with pytest.raises(Refusal) as refused:
            await asked
        assert (refused.value.code, refused.value.headers) == ("keys_unavailable", {"Retry-After": "5"})
    assert await old.find(BOB) == known
    with pytest.raises(Refusal):
        await old.ensure(BOB, seal_subject=True)
    assert [row["id"] for row in await rows(database)] == [known.id, other.id]
    assert (await rows(database))[0]["sealed_subject"] is None


async def test_one_that_comes_while_keys_change_is_stored_once(keyring: Keyring, database: Database) -> None:
    """Gateways that store the same new owners while `rotate` runs, time and again, end with a row for each."""
    await keyring.load(1)
    gateways = [Owners(database, await keyring.load(2, 1)) for _ in range(3)]
    newcomers = [OwnerTuple("human", LOGIN, "workbench", f"n{number}") for number in range(20)]
    *_, done = await asyncio.gather(
        *(each.ensure(owner, seal_subject=True) for owner in newcomers for each in gateways),
        keyring.rotate(2, 1),
    )
    assert isinstance(done, Moved)
    await keyring.rotate(2, 1)
    found = await rows(database)
    assert len(found) == 20
    assert {row["pepper_kid"] for row in found} == {keyring.kid("pepper", 2)}
    assert {row["seal_kid"] for row in found} == {keyring.kid("sealing_key", 2)}


async def test_a_run_that_was_cut_off_goes_on(keyring: Keyring, database: Database) -> None:
    """Each batch is committed; until the rest follows, everybody is found and opened by either key."""
    first = Owners(database, await keyring.load(1))
    people = [OwnerTuple("human", LOGIN, "workbench", f"p{number}") for number in range(5)]
    before = {owner: (await first.ensure(owner, seal_subject=True)).key for owner in people}
    seen = []

    def cut_off(done: int) -> None:
        seen.append(done)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await keyring.rotate(2, 1, batch=2, advance=cut_off)
    moved = [row["pepper_kid"] == keyring.kid("pepper", 2) for row in await rows(database)]
    assert moved == [True, True, True, True, False]
    running = Owners(database, await keyring.load(2, 1))
    assert [await running.subject_of(row["id"]) for row in await rows(database)] == [p.subject for p in people]

    assert await keyring.rotate(2, 1, batch=2) == Moved(resealed=1, rekeyed=1)
    alone = Owners(database, await keyring.load(2))
    assert {owner: found.key for owner in people if (found := await alone.find(owner))} == before


async def test_two_runs_at_once_move_each_owner_once(keyring: Keyring, database: Database) -> None:
    """The counts of both add up to what there was."""
    first = Owners(database, await keyring.load(1))
    for number in range(9):
        await first.ensure(OwnerTuple("human", LOGIN, "workbench", f"p{number}"), seal_subject=True)
    one, two = await asyncio.gather(keyring.rotate(2, 1, batch=2), keyring.rotate(2, 1, batch=2))
    assert (one.resealed + two.resealed, one.rekeyed + two.rekeyed) == (9, 9)
    alone = Owners(database, await keyring.load(2))
    assert [await alone.subject_of(row["id"]) for row in await rows(database)] == [f"p{number}" for number in range(9)]


async def test_keys_rotate_one_at_a_time_and_back(keyring: Keyring, database: Database) -> None:
    """The sealing key alone, then the pepper, then both back to the former ones: names and subjects stay."""
    before = await stored(Owners(database, await keyring.load(1)))
    for peppers, seals in (((1,), (2, 1)), ((2, 1), (2,)), ((1, 2), (1, 2))):
        await Rotation(database, await keyring.load(*peppers, sealing=seals)).run("cli:root", None, lambda _: None)
        owners = Owners(database, await keyring.load(*peppers, sealing=seals))
        assert await names(owners) == before
        assert await owners.subject_of((await owners.ensure(ALICE, seal_subject=True)).id) == "alice"
        in_force = {use.name: use.kid for use in await rotation.uses(database) if use.in_force}
        assert in_force == {
            "pepper": keyring.kid("pepper", peppers[0]),
            "sealing_key": keyring.kid("sealing_key", seals[0]),
        }
    assert await names(Owners(database, await keyring.load(1))) == before


async def test_an_owner_who_stands_under_both_peppers_stays_as_is(keyring: Keyring, database: Database) -> None:
    """The unique constraint is respected: no error, the row under the pepper in force is the one that is found."""
    first = Owners(database, await keyring.load(1))
    bob = await first.ensure(BOB, seal_subject=True)
    keys = await keyring.load(2, 1)
    statement = (
        "INSERT INTO owners (owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at) "
        "VALUES ('ok_twin', 'human', :issuer, 'workbench', :lookup, :kid, {now})"
    )
    kid = keyring.kid("pepper", 2)
    async with database.write() as connection:
        row = {"issuer": LOGIN, "lookup": keys.lookups(BOB)[kid], "kid": kid}
        await connection.execute(database.sql(statement), row)
    found = await Owners(database, keys).find(BOB)
    assert found is not None
    assert found.id == bob.id
    assert await keyring.rotate(2, 1) == Moved(resealed=1)
    found = await Owners(database, keys).find(BOB)
    assert found is not None
    assert found.key == "ok_twin"
    assert [row["pepper_kid"] for row in await rows(database)] == [keyring.kid("pepper", 1), kid]


async def test_a_damaged_subject_is_left_and_counted(keyring: Keyring, database: Database) -> None:
    """It stops nobody else, and stays as it is for whoever can mend it; an erased subject is not brought back."""
    await stored(owners := Owners(database, await keyring.load(1)))
    carol = await owners.ensure(CAROL, seal_subject=True)
    async with database.write() as connection:
        await connection.execute(
            text("UPDATE owners SET sealed_subject = :bad WHERE id = :id"), {"bad": b"x" * 40, "id": carol.id}
        )
    assert await keyring.rotate(2, 1) == Moved(resealed=1, rekeyed=2, absent=1, unreadable=1)
    assert (await rows(database))[3]["seal_kid"] == keyring.kid("sealing_key", 1)


async def test_what_was_done_stands_in_the_audit_log(keyring: Keyring, database: Database) -> None:
    """Who, why, the ids before and after, and how many; no key and no subject."""
    await stored(Owners(database, await keyring.load(1)))
    await keyring.rotate(2, 1)
    before = {"pepper": keyring.kid("pepper", 1), "sealing_key": keyring.kid("sealing_key", 1)}
    after = {"pepper": keyring.kid("pepper", 2), "sealing_key": keyring.kid("sealing_key", 2)}
    counts = {"resealed": 1, "rekeyed": 2, "absent": 1, "unreadable": 0}
    assert await audited(database) == [
        ("keys.rotate", "cli:root", before, after, "due"),
        ("keys.rotated", "cli:root", before, {**after, **counts}, "due"),
    ]


async def test_a_new_key_is_recorded_by_the_rotation_only(keyring: Keyring, database: Database) -> None:
    """A start with it beside the former one changes nothing yet, so that going back is still free."""
    await stored(Owners(database, await keyring.load(1)))
    await keyring.load(2, 1)
    assert len(await rotation.uses(database)) == 2
    await keyring.load(1)
    await keyring.rotate(2, 1)
    uses = {(use.name, use.kid): (use.owners, use.in_force) for use in await rotation.uses(database)}
    assert uses == {
        ("pepper", keyring.kid("pepper", 1)): (1, False),
        ("pepper", keyring.kid("pepper", 2)): (2, True),
        ("sealing_key", keyring.kid("sealing_key", 1)): (0, False),
        ("sealing_key", keyring.kid("sealing_key", 2)): (1, True),
    }


@pytest.mark.parametrize(
    ("peppers", "seals", "told"),
    [
        ((2,), (1,), r"\[owners\] pepper_file: .*another key.*to rotate, name the former file"),
        ((1,), (2,), r"\[owners\] sealing_key_file: .*another key"),
        ((2, 3), (1,), r"previous_pepper_files: .*-3 holds a key .* never set up with"),
        ((1, 3), (1,), r"previous_pepper_files: .*-3 holds a key .* never set up with"),
        ((2, 1, 3), (1,), r"previous_pepper_files: .*-3 holds"),
        ((1,), (2, 3), r"previous_sealing_key_files: .*-3 holds"),
    ],
)
async def test_another_file_does_not_become_the_key(
    keyring: Keyring, database: Database, peppers: tuple[int, ...], seals: tuple[int, ...], told: str
) -> None:
    """A current key is taken only beside the one in force; a previous one only if the database knows it."""
    await stored(Owners(database, await keyring.load(1)))
    with pytest.raises(StartupError, match=told):
        await keyring.load(*peppers, sealing=seals)
    assert len(await rotation.uses(database)) == 2


async def test_a_key_that_owners_need_stops_the_start_by_its_id(keyring: Keyring, database: Database) -> None:
    """Without the former pepper owners would be strangers; without the one in force, nobody could be stored."""
    await stored(Owners(database, await keyring.load(1)))
    await keyring.rotate(2, 1)
    needed = keyring.kid("pepper", 1)
    with pytest.raises(StartupError, match=rf"previous_pepper_files: the key with id {needed} .*still stored under"):
        await keyring.load(2)
    in_force = keyring.kid("pepper", 2)
    with pytest.raises(StartupError, match=rf"previous_pepper_files: the key with id {in_force} is in no file"):
        await keyring.load(1)
    await keyring.load(2, 1, sealing=(2,))


async def test_a_sealing_key_that_subjects_need_stops_the_start(keyring: Keyring, database: Database) -> None:
    """As long as one subject is sealed under it."""
    await stored(Owners(database, await keyring.load(1)))

    def cut_off(_: int) -> None:
        raise KeyboardInterrupt

    await Owners(database, await keyring.load(1)).ensure(CAROL, seal_subject=True)
    with pytest.raises(KeyboardInterrupt):
        await keyring.rotate(2, 1, batch=1, advance=cut_off)
    with pytest.raises(
        StartupError, match=f"previous_sealing_key_files: the key with id {keyring.kid('sealing_key', 1)}"
    ):
        await keyring.load(2, 1, sealing=(2,))


async def test_a_missing_previous_file_is_told_with_the_ids_it_may_hold(keyring: Keyring, database: Database) -> None:
    """An operator with a drawer full of key files knows which one to bring."""
    await stored(Owners(database, await keyring.load(1)))
    keyring_kid = keyring.kid("pepper", 1)
    keyring.file("pepper", 1).unlink()
    with pytest.raises(StartupError, match=rf"previous_pepper_files: .*-1 is missing \(ids .*{keyring_kid}\)"):
        await keyring.load(2, 1, sealing=(1,))


async def test_an_empty_database_has_no_former_keys(keyring: Keyring, database: Database) -> None:
    """Its first keys are the current ones; a previous file is one of another database."""
    with pytest.raises(StartupError, match=r"previous_pepper_files: .* no former keys"):
        await keyring.load(2, 1)
    assert await rotation.uses(database) == []
