"""Who is signed in at which relay: a private file for each relay, which holds the tokens."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec
from typing_extensions import override

from relay.cli.running import WRONG_SURROUNDINGS, Failure


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """One sign-in. ``expires_at`` in seconds since the epoch; None: the issuer did not say."""

    relay: str
    issuer: str
    client_id: str
    token_endpoint: str
    access_token: str
    expires_at: float | None = None
    refresh_token: str | None = None
    scope: str | None = None

    @override
    def __repr__(self) -> str:
        return f"Login(relay={self.relay!r}, issuer={self.issuer!r})"


class Logins:
    """The sign-ins kept in a directory that nobody else may read."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "feedback-relay" / "logins"

    def find(self, relay: str) -> Login | None:
        """The sign-in at this relay, if there is one. Raises `Failure` for a file that others can read."""
        path = self._path(relay)
        try:
            with path.open("rb") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    raise Failure(
                        f"{path} can be read by others: relay operators logout, then login", WRONG_SURROUNDINGS
                    )
                return msgspec.json.decode(file.read(), type=Login)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}", WRONG_SURROUNDINGS) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Failure(f"{path} is no sign-in: relay operators logout, then login", WRONG_SURROUNDINGS) from None

    def keep(self, login: Login) -> Path:
        """Write it down, whole and mode 0600 from the first byte on."""
        path = self._path(login.relay)
        partial = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            partial.unlink(missing_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(login))
            partial.replace(path)
        except OSError as error:
            raise Failure(f"{path} cannot be written: {error.strerror}", WRONG_SURROUNDINGS) from None
        return path

    def forget(self, relay: str) -> bool:
        """Whether there was one."""
        path = self._path(relay)
        there = path.exists()
        path.unlink(missing_ok=True)
        return there

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out: a refresh token may be good for one use only (RFC 9700 section 4.14)."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = (self._directory / ".lock").open("w")
        except OSError as error:
            raise Failure(f"{self._directory} cannot be used: {error.strerror}", WRONG_SURROUNDINGS) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _path(self, relay: str) -> Path:
        return self._directory / f"{quote(relay, safe='')}.json"
