"""The two secrets behind owners: a pepper that finds them, and a key that seals their subjects."""

import asyncio
import hmac
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from relay.errors import RelayError, StartupError
from relay.identity import key_checks, keyfiles
from relay.identity.key_checks import HeldKey, KeyChecks
from relay.identity.keyfiles import KeyName, SecretKey, setting
from relay.identity.model import OwnerTuple
from relay.storage.engine import Database

NONCE_BYTES: Final = 12

# No length of a part is as great as these four bytes: what is enclosed never passes for a subject, nor the other way.
_ENCLOSED: Final = b"encl"


class SubjectUnreadable(RelayError):  # noqa: N818 - reads as what it says
    """A sealed subject cannot be opened: it was sealed by a key that is not here, or it was tampered with."""


class OwnerKeys:
    """The keys at hand. The configured current one of each kind stands first; the others are still read with.

    ``in_force`` says which are written with: the current ones, once a rotation has put them in force.
    """

    def __init__(
        self,
        peppers: Sequence[SecretKey],
        sealing_keys: Sequence[SecretKey],
        *,
        in_force: Mapping[KeyName, str] | None = None,
    ) -> None:
        self._peppers = {key.kid: key for key in peppers}
        self._sealing_keys = {key.kid: AESGCM(key.secret) for key in sealing_keys}
        self.current: Mapping[KeyName, SecretKey] = {"pepper": peppers[0], "sealing_key": sealing_keys[0]}
        self._in_force: Mapping[KeyName, str] = in_force or {}

    @classmethod
    async def load(
        cls,
        db: Database,
        pepper_file: Path,
        sealing_key_file: Path,
        *,
        previous_pepper_files: Sequence[Path] = (),
        previous_sealing_key_files: Sequence[Path] = (),
    ) -> "OwnerKeys":
        """Read the key files and hold them against the database. Raises `StartupError`.

        Only for a database that has never had keys are missing files made.
        """
        files: dict[KeyName, Path] = {"pepper": pepper_file, "sealing_key": sealing_key_file}
        previous: dict[KeyName, Sequence[Path]] = {
            "pepper": previous_pepper_files,
            "sealing_key": previous_sealing_key_files,
        }
        if pepper_file == sealing_key_file:
            raise StartupError(f"{setting('sealing_key', pepper_file)} is the pepper file too: name two files")
        async with db.read() as connection:
            checks = await key_checks.read(connection)
        if not checks.values:
            await key_checks.require_no_owners(db)
            _require_no_previous(previous)
            for name, path in files.items():
                await asyncio.to_thread(keyfiles.make, name, path)
        held = {name: await asyncio.to_thread(_held, name, files[name], previous[name], checks) for name in files}
        if not checks.values:
            checks = await key_checks.record_first(db, [each[0].key for each in held.values()])
        for each in held.values():
            await key_checks.require_match(db, checks, each)
        peppers, sealing_keys = ([one.key for one in held[name]] for name in files)
        return cls(peppers, sealing_keys, in_force=checks.in_force)

    def has(self, name: KeyName, kid: str) -> bool:
        return kid in (self._peppers if name == "pepper" else self._sealing_keys)

    def lookups(self, owner: OwnerTuple) -> dict[str, bytes]:
        """By pepper id, the configured current one first, the HMAC-SHA-256 under which this owner is stored.

        Every part is prefixed with its length, so that no two tuples read the same.
        """
        parts = ("feedback-relay owner", owner.kind, owner.issuer, owner.client, owner.subject)
        message = _framed(*parts)
        return {pepper.kid: hmac.digest(pepper.secret, message, "sha256") for pepper in self._peppers.values()}

    def seal(self, subject: str, owner_key: str, owner: OwnerTuple, seal_kid: str | None = None) -> tuple[str, bytes]:
        """The id of the sealing key (the current one if left out), and the subject sealed for this owner alone.

        By AES-256-GCM. The issuer and the client are bound in: moved to another row, or under another issuer, it does
        not open.
        """
        seal_kid = seal_kid or self.current["sealing_key"].kid
        nonce = secrets.token_bytes(NONCE_BYTES)
        context = _framed(owner_key, owner.issuer, owner.client)
        return seal_kid, nonce + self._sealing_keys[seal_kid].encrypt(nonce, subject.encode(), context)

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

    def enclose(self, text: bytes, *context: str) -> tuple[str, bytes]:
        """The id of the sealing key in force, and the text sealed with it for this context, which names its purpose."""
        kid = self._in_force.get("sealing_key", "")
        kid = kid if kid in self._sealing_keys else self.current["sealing_key"].kid
        nonce = secrets.token_bytes(NONCE_BYTES)
        return kid, nonce + self._sealing_keys[kid].encrypt(nonce, text, _ENCLOSED + _framed(*context))

    def disclose(self, sealed: bytes, kid: str, *context: str) -> bytes | None:
        """What `enclose` was given; None: by a key that is not here, for another context, or damaged."""
        cipher = self._sealing_keys.get(kid)
        if cipher is None:
            return None
        nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return cipher.decrypt(nonce, ciphertext, _ENCLOSED + _framed(*context))
        except (InvalidTag, ValueError):
            return None

    def derive(self, label: bytes) -> tuple[bytes, ...]:
        """32-byte keys for another purpose, which tell nothing of the peppers (HKDF-SHA-256, RFC 5869).

        The first comes from the pepper that was in force when the keys were loaded, so that processes agree on it
        while configurations change; what was made with the others is still to be read.
        """
        info = b"feedback-relay derived key\x00" + label
        first = self._in_force.get("pepper", self.current["pepper"].kid)
        ordered = sorted(self._peppers.values(), key=lambda pepper: pepper.kid != first)
        return tuple(
            HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(pepper.secret) for pepper in ordered
        )


def _require_no_previous(previous: Mapping[KeyName, Sequence[Path]]) -> None:
    for name, paths in previous.items():
        for path in paths:
            raise StartupError(
                f"{setting(name, path, previous=True)}: this database has no former keys: leave the list empty"
            )


def _held(name: KeyName, path: Path, previous: Sequence[Path], checks: KeyChecks) -> list[HeldKey]:
    held = [HeldKey(keyfiles.read(name, path), path)]
    for former in previous:
        if not former.exists():
            there = {each.key.kid for each in held}
            missing = ", ".join(kid for kid in checks.kids(name) if kid not in there) or "none"
            raise StartupError(
                f"{setting(name, former, previous=True)} is missing (ids without a file: {missing}): restore it from a "
                "backup, or take the entry out if `relay keys show` says that no owner needs it"
            )
        held.append(HeldKey(keyfiles.read(name, former, previous=True), former, previous=True))
    return held


def _framed(*parts: str) -> bytes:
    encoded = [part.encode() for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)
