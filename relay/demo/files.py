"""The files that the demonstration's processes keep: made once, whole, and private where they hold a key."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from joserfc.jwk import ECKey


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Make ``directory`` and keep other processes out of this block meanwhile."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_file(path: Path, content: bytes, *, mode: int) -> None:
    """Put a file there whole or not at all, never readable by more than ``mode`` says."""
    partial = path.with_name(f"{path.name}.part")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    partial.replace(path)


def signing_key(path: Path) -> ECKey:
    """The EC P-256 key in ``path``, made when there is none, named by its thumbprint (RFC 7638)."""
    with locked(path.parent):
        if not path.exists():
            write_file(path, ECKey.generate_key("P-256").as_pem(private=True), mode=0o600)
        key = ECKey.import_key(path.read_bytes(), {"use": "sig", "alg": "ES256"})
        key.ensure_kid()
        return key


def secret(path: Path) -> bytes:
    """The 32 random bytes in ``path``, drawn when there are none."""
    with locked(path.parent):
        if not path.exists():
            write_file(path, os.urandom(32), mode=0o600)
        return path.read_bytes()
