"""The pepper and the sealing key: tied to their database, and to what they are for."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text

from relay.errors import StartupError
from relay.identity.keyfiles import SecretKey, make
from relay.identity.model import OwnerKind, OwnerTuple
from relay.identity.owner_keys import OwnerKeys, SubjectUnreadable
from relay.storage.engine import Database

ALICE = OwnerTuple("human", "https://login.example.org", "workbench", "alice")


@pytest.fixture
def pepper_file(tmp_path: Path) -> Path:
    return tmp_path / "secrets" / "pepper"


@pytest.fixture
def sealing_key_file(tmp_path: Path) -> Path:
    return tmp_path / "secrets" / "sealing-key"


def fixed_keys(pepper: int = 1, sealing: int = 2) -> OwnerKeys:
    return OwnerKeys([SecretKey("pepper", bytes([pepper]) * 32)], [SecretKey("sealing_key", bytes([sealing]) * 32)])


def content(path: Path) -> str | None:
    return path.read_text().strip() if path.exists() else None


async def check_rows(database: Database) -> list[tuple[str, str, str]]:
    async with database.read() as connection:
        rows = await connection.execute(text("SELECT name, kid, check_value FROM key_checks ORDER BY name"))
        return [tuple(row) for row in rows]


async def test_an_empty_database_gets_keys(database: Database, pepper_file: Path, sealing_key_file: Path) -> None:
    """The first start makes both files; the next one finds the same keys."""
    first = await OwnerKeys.load(database, pepper_file, sealing_key_file)
    second = await OwnerKeys.load(database, pepper_file, sealing_key_file)
    assert first.lookups(ALICE) == second.lookups(ALICE)
    assert [name for name, _, _ in await check_rows(database)] == ["pepper", "sealing_key"]


async def test_the_database_holds_nothing_of_the_keys(
    database: Database, pepper_file: Path, sealing_key_file: Path
) -> None:
    """A copy of the database alone does not find or unseal anybody."""
    await OwnerKeys.load(database, pepper_file, sealing_key_file)
    stored = repr(await check_rows(database))
    for path in (pepper_file, sealing_key_file):
        assert str(content(path)) not in stored


async def test_files_that_were_provided_are_taken(
    database: Database, pepper_file: Path, sealing_key_file: Path
) -> None:
    """An operator may bring keys for an empty database from a secret store."""
    make("pepper", pepper_file)
    brought = content(pepper_file)
    await OwnerKeys.load(database, pepper_file, sealing_key_file)
    assert content(pepper_file) == brought is not None


@pytest.mark.parametrize("lost", ["pepper", "sealing_key"])
async def test_a_missing_file_stops_the_start(
    lost: str, database: Database, pepper_file: Path, sealing_key_file: Path
) -> None:
    """Once a database has keys no new file is made: it could find nobody. The message names what to restore."""
    await OwnerKeys.load(database, pepper_file, sealing_key_file)
    path = {"pepper": pepper_file, "sealing_key": sealing_key_file}[lost]
    path.unlink()
    with pytest.raises(StartupError, match=rf"\[owners\] {lost}_file: {path} is missing"):
        await OwnerKeys.load(database, pepper_file, sealing_key_file)
    assert content(path) is None


@pytest.mark.parametrize("changed", ["pepper", "sealing_key"])
async def test_another_file_stops_the_start(
    changed: str, database: Database, pepper_file: Path, sealing_key_file: Path
) -> None:
    """The check value shows that a file belongs to another database; both ids are named, neither key is."""
    await OwnerKeys.load(database, pepper_file, sealing_key_file)
    path = {"pepper": pepper_file, "sealing_key": sealing_key_file}[changed]
    path.unlink()
    make("pepper", path)
    kids = {name: kid for name, kid, _ in await check_rows(database)}
    with pytest.raises(StartupError, match=rf"{changed}_file: .*another key.*id {kids[changed]}.*restore") as caught:
        await OwnerKeys.load(database, pepper_file, sealing_key_file)
    assert str(content(path)) not in str(caught.value)


async def test_swapped_files_stop_the_start(database: Database, pepper_file: Path, sealing_key_file: Path) -> None:
    """Each key counts for what it was made for."""
    await OwnerKeys.load(database, pepper_file, sealing_key_file)
    with pytest.raises(StartupError, match=r"pepper_file: .* holds another key"):
        await OwnerKeys.load(database, sealing_key_file, pepper_file)


async def test_a_check_value_that_was_tampered_with_stops_the_start(
    database: Database, pepper_file: Path, sealing_key_file: Path
) -> None:
    """The id alone does not make a key the right one."""
    await OwnerKeys.load(database, pepper_file, sealing_key_file)
    async with database.write() as connection:
        await connection.execute(text("UPDATE key_checks SET check_value = '00' WHERE name = 'pepper'"))
    with pytest.raises(StartupError, match="pepper_file"):
        await OwnerKeys.load(database, pepper_file, sealing_key_file)


async def test_owners_without_check_values_stop_the_start(
    database: Database, pepper_file: Path, sealing_key_file: Path
) -> None:
    """Half a backup is not an empty database: new keys would orphan the owners in it, so none are made."""
    async with database.write() as connection:
        await connection.execute(
            database.sql(
                "INSERT INTO owners (owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at) "
                "VALUES ('ok_x', 'human', 'i', 'c', :lookup, 'k', {now})"
            ),
            {"lookup": b"x"},
        )
    with pytest.raises(StartupError, match="key_checks is empty"):
        await OwnerKeys.load(database, pepper_file, sealing_key_file)
    assert content(pepper_file) is None


async def test_one_file_for_both_stops_the_start(database: Database, pepper_file: Path) -> None:
    """Two secrets that are one would fall together."""
    with pytest.raises(StartupError, match="name two files"):
        await OwnerKeys.load(database, pepper_file, pepper_file)


async def test_processes_that_start_together_agree(
    database: Database, pepper_file: Path, sealing_key_file: Path
) -> None:
    """With the same files, all of them come up with the same keys."""
    loaded = await asyncio.gather(*(OwnerKeys.load(database, pepper_file, sealing_key_file) for _ in range(8)))
    assert len({repr(keys.lookups(ALICE)) for keys in loaded}) == 1
    assert len(await check_rows(database)) == 2


async def test_machines_that_start_together_with_files_of_their_own_do_not_both_come_up(
    database: Database, tmp_path: Path
) -> None:
    """On an empty database the first one's keys are recorded, and the others are told to bring those."""
    outcomes = await asyncio.gather(
        *(OwnerKeys.load(database, tmp_path / f"{n}" / "pepper", tmp_path / f"{n}" / "sealing") for n in range(6)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, OwnerKeys) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, StartupError) for outcome in outcomes) == 5
    assert len(await check_rows(database)) == 2


def test_lookups_tell_all_tuples_apart() -> None:
    """The parts are framed by their lengths: moving a letter from one to the next makes another owner."""
    kinds: tuple[OwnerKind, ...] = ("human", "machine")
    tuples = [
        OwnerTuple(kind, issuer, client, subject)
        for kind in kinds
        for issuer, client, subject in [
            ("ab", "c", "d"),
            ("a", "bc", "d"),
            ("a", "b", "cd"),
            ("a", "b\x00c", "d"),
            ("a", "b", "c\x00d"),
            ("é", "b", "c"),
            ("e\u0301", "b", "c"),
        ]
    ]
    keys = fixed_keys()
    assert len({tuple(keys.lookups(one).values()) for one in tuples}) == len(tuples)


def test_lookups_depend_on_the_pepper_and_stay_the_same() -> None:
    """They stand in databases: a change here would orphan every owner."""
    lookup = {"55f4093a": bytes.fromhex("221ac1502e6b9a2c6b4c08466169d25a5bdb206f59abad9cba5a3bf9ab72a4c4")}
    assert fixed_keys().lookups(ALICE) == lookup
    assert fixed_keys(pepper=9).lookups(ALICE) != lookup


def test_a_sealed_subject_opens_for_its_owner_only() -> None:
    """Moved to another owner, issuer or client, or changed in one bit, it does not open."""
    keys = fixed_keys()
    kid, sealed = keys.seal("alice", "ok_a", ALICE)
    place = {"owner_key": "ok_a", "issuer": ALICE.issuer, "client": ALICE.client}
    assert keys.unseal(sealed, kid, **place) == "alice"
    for other in ({"owner_key": "ok_b"}, {"issuer": "https://evil.example.org"}, {"client": "other"}):
        with pytest.raises(SubjectUnreadable, match="damaged or not its own"):
            keys.unseal(sealed, kid, **(place | other))
    for position in range(len(sealed)):
        damaged = bytearray(sealed)
        damaged[position] ^= 1
        with pytest.raises(SubjectUnreadable):
            keys.unseal(bytes(damaged), kid, **place)
    for cut in (b"", sealed[:11], sealed[:12], sealed[:-1]):
        with pytest.raises(SubjectUnreadable):
            keys.unseal(cut, kid, **place)


def test_sealing_twice_gives_different_bytes() -> None:
    """A fresh nonce each time: equal subjects cannot be told from what is stored."""
    keys = fixed_keys()
    assert keys.seal("alice", "ok_a", ALICE) != keys.seal("alice", "ok_a", ALICE)


def test_another_sealing_key_opens_nothing() -> None:
    """The error names the owner's public key and the id of the key that is missing."""
    kid, sealed = fixed_keys(sealing=2).seal("alice", "ok_a", ALICE)
    with pytest.raises(SubjectUnreadable, match=f"ok_a was sealed by key {kid}") as caught:
        fixed_keys(sealing=3).unseal(sealed, kid, owner_key="ok_a", issuer=ALICE.issuer, client=ALICE.client)
    assert "alice" not in str(caught.value)


def test_older_keys_are_still_read_with() -> None:
    """What rotation needs: the first key is used for what is new, the others find and open what is old."""
    old = fixed_keys(pepper=1, sealing=2)
    both = OwnerKeys(
        [SecretKey("pepper", bytes([3]) * 32), SecretKey("pepper", bytes([1]) * 32)],
        [SecretKey("sealing_key", bytes([4]) * 32), SecretKey("sealing_key", bytes([2]) * 32)],
    )
    assert list(both.lookups(ALICE).items())[1:] == list(old.lookups(ALICE).items())
    kid, sealed = old.seal("alice", "ok_a", ALICE)
    assert both.unseal(sealed, kid, owner_key="ok_a", issuer=ALICE.issuer, client=ALICE.client) == "alice"
    assert both.seal("alice", "ok_a", ALICE)[0] != kid


def test_derived_keys() -> None:
    """One per label and pepper, always the same, and none of them the pepper or a lookup."""
    keys = fixed_keys()
    assert keys.derive(b"cursors") == keys.derive(b"cursors")
    distinct = {
        *keys.derive(b"cursors"),
        *keys.derive(b"other"),
        *fixed_keys(pepper=9).derive(b"cursors"),
        bytes([1]) * 32,
    }
    assert len(distinct) == 4
    assert [len(key) for key in keys.derive(b"cursors")] == [32]


def test_what_is_enclosed_opens_for_its_own_context_only() -> None:
    """Under another purpose, another key, or changed by one bit, it says nothing; nor does it pass for a subject."""
    keys = fixed_keys()
    kid, sealed = keys.enclose(b"told", "console session", "a")
    assert kid == keys.current["sealing_key"].kid
    assert keys.disclose(sealed, kid, "console session", "a") == b"told"
    assert keys.enclose(b"told", "console session", "a")[1] != sealed
    for context in (("console session", "b"), ("console session",), ("console", " sessiona"), ()):
        assert keys.disclose(sealed, kid, *context) is None
    assert keys.disclose(sealed[:-1] + bytes([sealed[-1] ^ 1]), kid, "console session", "a") is None
    assert keys.disclose(b"", kid, "console session", "a") is None
    assert keys.disclose(sealed, "unknown", "console session", "a") is None
    assert fixed_keys(sealing=3).disclose(sealed, kid, "console session", "a") is None
    with pytest.raises(SubjectUnreadable):
        keys.unseal(sealed, kid, owner_key="console session", issuer="a", client="")
