"""Cursors: positions in a list that say nothing to their holder and mean nothing under another list or owner."""

import base64
import binascii
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from relay.errors import Refusal
from relay.http.parameters import invalid_parameter

Position = list[int | str]

_MAX_CHARACTERS = 1024
_MIN_KEY_BYTES = 16


class Cursors:
    """Seals positions with AES-SIV (RFC 5297), bound to their scope.

    Sealed and not only signed: a position is a number from a sequence that all tenants share, and two of them would
    tell how busy the others are. Deterministic, so that the same page has the same cursor on every gateway.
    ``key`` issues; what a former key issued is read as well.
    """

    def __init__(self, key: bytes, *former: bytes) -> None:
        self._sealed = _cipher(key)
        self._readable = (self._sealed, *map(_cipher, former))

    def issue(self, scope: str, position: Sequence[int | str]) -> str:
        """The cursor for ``position``, good under ``scope`` alone (see `scope_of`)."""
        sealed = self._sealed.encrypt(msgspec.json.encode(list(position)), [scope.encode()])
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii")

    def read(self, scope: str, text: str) -> Position:
        """The position behind a cursor, or 400 ``invalid_parameter`` for one that was not issued under ``scope``."""
        try:
            return msgspec.json.decode(self._open(_unframed(text), [scope.encode()]), type=Position)
        except (InvalidTag, ValueError):
            raise _foreign() from None

    def _open(self, sealed: bytes, scope: list[bytes]) -> bytes:
        for cipher in self._readable:
            with suppress(InvalidTag):
                return cipher.decrypt(sealed, scope)
        raise InvalidTag


def _cipher(key: bytes) -> AESSIV:
    if len(key) < _MIN_KEY_BYTES:
        raise ValueError(f"a key for cursors has at least {_MIN_KEY_BYTES} bytes")
    return AESSIV(HKDF(hashes.SHA256(), length=32, salt=None, info=b"feedback-relay cursors 1").derive(key))


def scope_of(owner_key: str, list_name: str, *filters: str | int | None) -> str:
    """What a cursor is bound to. Each part carries its length, so that no two scopes read the same."""
    parts = ("" if part is None else f"={part}" for part in (owner_key, list_name, *filters))
    return "".join(f"{len(part)}:{part}" for part in parts)


def _unframed(text: str) -> bytes:
    """The bytes of base64url without padding, in its one canonical spelling (RFC 4648 section 3.5)."""
    if len(text) > _MAX_CHARACTERS or not text.isascii():
        raise ValueError
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") != text:
        raise ValueError
    return raw


def _foreign() -> Refusal:
    return invalid_parameter("cursor", "it does not belong to this list; begin again without a cursor")
