"""Secret keys in files: made once, readable by their user only, and known to the database by a check value.

A file holds 32 random bytes in base64url on one line, so that it survives being pasted into a secret store.
"""

import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from joserfc.util import urlsafe_b64decode, urlsafe_b64encode

from relay.errors import StartupError

KEY_BYTES: Final = 32
_MAX_FILE_BYTES: Final = 256

KeyName = Literal["pepper", "sealing_key"]


@dataclass(frozen=True, slots=True)
class SecretKey:
    """A key with what may be known of it: its id and its check value."""

    name: KeyName
    secret: bytes = field(repr=False)

    @property
    def kid(self) -> str:
        return hashlib.sha256(b"feedback-relay key id\x00" + self._label + self.secret).hexdigest()[:8]

    @property
    def check_value(self) -> str:
        """Proves to whoever has the key that it is the same one, and tells nothing to anyone else."""
        return hmac.digest(self.secret, b"feedback-relay key check\x00" + self._label, "sha256").hex()

    @property
    def _label(self) -> bytes:
        return self.name.encode() + b"\x00"


def setting(name: KeyName, path: Path, *, previous: bool = False) -> str:
    """How messages name the file: by its configuration key, so that an operator finds it."""
    return f"[owners] previous_{name}_files: {path}" if previous else f"[owners] {name}_file: {path}"


def create(name: KeyName, path: Path) -> SecretKey:
    """Make a new key in a file that only its user can read. Raises `FileExistsError`, or another OSError."""
    key = SecretKey(name, secrets.token_bytes(KEY_BYTES))
    if not _write_exclusively(path, urlsafe_b64encode(key.secret) + b"\n"):
        raise FileExistsError(path)
    return key


def make(name: KeyName, path: Path) -> None:
    """Make a key file that only its user can read; a file that is there already stays. Raises `StartupError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _write_exclusively(path, urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
    except OSError as error:
        raise StartupError(f"{setting(name, path)} cannot be made: {error.strerror}") from None


def _write_exclusively(path: Path, content: bytes) -> bool:
    """All or nothing, and never over another file: of two processes that start at once, one makes it, and knows."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return False
    finally:
        draft.unlink()
    _sync_directory(path.parent)
    return True


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(name: KeyName, path: Path, *, previous: bool = False) -> SecretKey:
    """The key in a file. Raises `StartupError` for a file that others can read, or that holds no key."""
    where = setting(name, path, previous=previous)
    try:
        content = _read_privately(where, path)
    except FileNotFoundError:
        raise StartupError(
            f"{where} is missing, and this database was set up with one: restore it from a backup"
        ) from None
    except OSError as error:
        raise StartupError(f"{where} cannot be read: {error.strerror}") from None
    return SecretKey(name, _decode(where, content))


def _read_privately(where: str, path: Path) -> bytes:
    # Without blocking, so that a pipe in its place is noticed and not waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StartupError(f"{where} is not a file")
        if status.st_mode & _forbidden_mode(status):
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise StartupError(f"{where} can be read by others (mode {mode}): run `chmod 600 {path}`")
        return file.read(_MAX_FILE_BYTES + 1)


def _forbidden_mode(status: os.stat_result) -> int:
    """Nobody else's business, but for a file that root provides: systemd's credentials and mounted secrets reach us
    through their group, or through an access list, whose mask shows in the same bits.
    """
    return 0o037 if status.st_uid == 0 and os.geteuid() != 0 else 0o077


def _decode(where: str, content: bytes) -> bytes:
    try:
        secret = urlsafe_b64decode(content.strip().rstrip(b"="))
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise StartupError(f"{where} does not hold a key ({KEY_BYTES} bytes in base64url): restore it from a backup")
    return secret
