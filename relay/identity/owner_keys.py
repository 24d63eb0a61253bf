"""The two secrets behind owners: a pepper that finds them, and a key that seals their subjects."""

import asyncio
import hmac
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import text

from relay.errors import RelayError, StartupError
from relay.identity import keyfiles
from relay.identity.keyfiles import KeyName, SecretKey, setting
from relay.identity.model import OwnerTuple
from relay.storage.engine import Database

NONCE_BYTES: Final = 12

_RECORDING: Final = 7_236_014_286
"""The advisory lock of whoever records the first keys. SQLite has one writer anyway."""

_Checks = Mapping[tuple[str, str], str]


class SubjectUnreadable(RelayError):  # noqa: N818 - reads as what it says
    """A sealed subject cannot be opened: it was sealed by a key that is not here, or it was tampered with."""


class OwnerKeys:
    """The keys at hand. The first of each kind is the current one; others are still read with (rotation)."""

    def __init__(self, peppers: Sequence[SecretKey], sealing_keys: Sequence[SecretKey]) -> None:
        self._peppers = tuple(peppers)
        self._sealing_keys = {key.kid: AESGCM(key.secret) for key in sealing_keys}
        self._seal_kid = sealing_keys[0].kid

    @classmethod
    async def load(cls, db: Database, pepper_file: Path, sealing_key_file: Path) -> "OwnerKeys":
        """Read the key files and hold them against the database. Raises `StartupError`.

        Only for a database that has never had keys are missing files made.
        """
        files: dict[KeyName, Path] = {"pepper": pepper_file, "sealing_key": sealing_key_file}
        if pepper_file == sealing_key_file:
            raise StartupError(f"{setting('sealing_key', pepper_file)} is the pepper file too: name two files")
        checks = await _read_checks(db)
        if not checks:
            await _require_no_owners(db)
            for name, path in files.items():
                await asyncio.to_thread(keyfiles.make, name, path)
        keys = {name: await asyncio.to_thread(keyfiles.read, name, path) for name, path in files.items()}
        if not checks:
            checks = await _record_checks(db, keys.values())
        for name, key in keys.items():
            _compare(key, files[name], checks)
        return cls([keys["pepper"]], [keys["sealing_key"]])

    def lookups(self, owner: OwnerTuple) -> dict[str, bytes]:
        """By pepper id, the current one first, the HMAC-SHA-256 under which this owner is stored.

        Every part is prefixed with its length, so that no two tuples read the same.
        """
        parts = ("feedback-relay owner", owner.kind, owner.issuer, owner.client, owner.subject)
        message = _framed(*parts)
        return {pepper.kid: hmac.digest(pepper.secret, message, "sha256") for pepper in self._peppers}

    def seal(self, subject: str, owner_key: str, owner: OwnerTuple) -> tuple[str, bytes]:
        """The id of the current sealing key, and the subject sealed for this owner alone (AES-256-GCM).

        The issuer and the client are bound in: moved to another row, or under another issuer, it does not open.
        """
        nonce = secrets.token_bytes(NONCE_BYTES)
        context = _framed(owner_key, owner.issuer, owner.client)
        return self._seal_kid, nonce + self._sealing_keys[self._seal_kid].encrypt(nonce, subject.encode(), context)

    def unseal(self, sealed: bytes, seal_kid: str, *, owner_key: str, issuer: str, client: str) -> str:
        """The subject. Raises `SubjectUnreadable`."""
        cipher = self._sealing_keys.get(seal_kid)
        if cipher is None:
            raise SubjectUnreadable(f"the subject of {owner_key} was sealed by key {seal_kid}, which is not here")
        nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return cipher.decrypt(nonce, ciphertext, _framed(owner_key, issuer, client)).decode()
        except (InvalidTag, ValueError):
            raise SubjectUnreadable(f"the sealed subject of {owner_key} is damaged or not its own") from None

    def derive(self, label: bytes) -> bytes:
        """A 32-byte key for another purpose, which tells nothing of the pepper (HKDF-SHA-256, RFC 5869)."""
        info = b"feedback-relay derived key\x00" + label
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._peppers[0].secret)


def _framed(*parts: str) -> bytes:
    encoded = [part.encode() for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


async def _read_checks(db: Database) -> _Checks:
    async with db.read() as connection:
        rows = await connection.execute(text("SELECT name, kid, check_value FROM key_checks"))
        return {(row.name, row.kid): row.check_value for row in rows}


async def _require_no_owners(db: Database) -> None:
    async with db.read() as connection:
        owner = await connection.scalar(text("SELECT id FROM owners LIMIT 1"))
    if owner is not None:
        raise StartupError(
            "the database has owners but its table key_checks is empty: restore the whole database from a backup, "
            "since new keys could not find the owners again"
        )


async def _record_checks(db: Database, keys: Iterable[SecretKey]) -> _Checks:
    """Both at once. Of two processes that start together the first is recorded; the comparison tells the other.

    A key of the same name that is there already, whatever its id, keeps a second one out.
    """
    async with db.write() as connection:
        if db.dialect == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _RECORDING})
        for key in keys:
            await connection.execute(
                db.sql(
                    "INSERT INTO key_checks (name, kid, check_value, created_at) SELECT :name, :kid, :check, {now} "
                    "WHERE NOT EXISTS (SELECT 1 FROM key_checks WHERE name = :name)"
                ),
                {"name": key.name, "kid": key.kid, "check": key.check_value},
            )
    return await _read_checks(db)


def _compare(key: SecretKey, path: Path, checks: _Checks) -> None:
    recorded = checks.get((key.name, key.kid))
    if recorded is not None and hmac.compare_digest(recorded, key.check_value):
        return
    known = ", ".join(sorted(kid for name, kid in checks if name == key.name)) or "none"
    raise StartupError(
        f"{setting(key.name, path)} holds another key (id {key.kid}) than this database was set up with (id {known}): "
        "restore the file that belongs to it"
    )
