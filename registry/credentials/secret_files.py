"""Secrets that stand in files: read off the event loop, parsed once, read again when the file changes."""

import asyncio
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

Parsed = TypeVar("Parsed")
Mark = tuple[int, int, int, int, int]

MAX_BYTES = 65_536


class SecretUnusable(Exception):  # noqa: N818 - reads as what it says
    """A secret file cannot be used. The message names the file and says what to change, never what it holds."""


class SecretFiles(Generic[Parsed]):
    """What ``parse`` makes of secret files, kept in memory as long as the files stay the same.

    ``parse`` raises ValueError with a message that quotes nothing of the file. Files that go with secrets and are none,
    such as certificates, are not ``private``. For ``trust_seconds`` after a look a file is taken to be as it was:
    under load many attempts need it in that time.
    """

    def __init__(self, parse: Callable[[bytes], Parsed], *, private: bool = True, trust_seconds: float = 0) -> None:
        self._parse = parse
        self._private = private
        self._trust = trust_seconds
        self._kept: dict[str, tuple[Mark, Parsed]] = {}
        self._trusted_until: dict[str, float] = {}

    async def get(self, path: str, *, fresh: bool = False) -> Parsed:
        """The parsed content of ``path`` as it stands now; unless ``fresh``, as it stood within the trusted time.

        Raises SecretUnusable.
        """
        trusted = None if fresh else self.trusted(path)
        if trusted is not None:
            return trusted
        now = time.monotonic()
        parsed = await asyncio.to_thread(self._get, path)
        self._trusted_until[path] = now + self._trust
        return parsed

    def trusted(self, path: str) -> Parsed | None:
        """What `get` would give without a look at the file; None: it would look."""
        kept = self._kept.get(path)
        return kept[1] if kept is not None and time.monotonic() < self._trusted_until.get(path, 0) else None

    def _get(self, path: str) -> Parsed:
        try:
            # Non-blocking, so that a FIFO in the file's place cannot hold a thread for ever.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                _check(path, status, os.geteuid(), private=self._private)
                mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                kept = self._kept.get(path)
                if kept is not None and kept[0] == mark:
                    return kept[1]
                raw = file.read(MAX_BYTES + 1)
        except OSError as error:
            self._kept.pop(path, None)
            raise SecretUnusable(f"{path} cannot be read: {error.strerror}") from None
        parsed = self._parsed(path, raw)
        self._kept[path] = (mark, parsed)
        return parsed

    def _parsed(self, path: str, raw: bytes) -> Parsed:
        if len(raw) > MAX_BYTES:
            raise SecretUnusable(f"{path} is larger than {MAX_BYTES} bytes")
        try:
            return self._parse(raw)
        except ValueError as error:
            raise SecretUnusable(f"{path} {error}") from None


def client_secret(raw: bytes) -> str:
    """The client secret (RFC 6749 section 2.3.1) in a file; ValueError, which quotes nothing, if there is none."""
    try:
        secret = raw.decode("ascii").strip("\r\n")
    except UnicodeDecodeError:
        secret = ""
    if not secret or not secret.isprintable():
        raise ValueError("holds no client secret in printable ASCII")
    return secret


def _check(path: str, status: os.stat_result, reader: int, *, private: bool = True) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SecretUnusable(f"{path} is not a file")
    if not private:
        return
    forbidden = stat.S_IRWXG | stat.S_IRWXO
    if status.st_uid == 0 != reader:
        # A file that root provides (systemd credentials, a mounted container secret) reaches us through its group.
        forbidden = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO
    if status.st_mode & forbidden:
        raise SecretUnusable(f"{path} is open to other users: chmod 600 {Path(path).name}")
