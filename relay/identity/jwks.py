"""A JWK Set (RFC 7517), read key by key: one that cannot be used never costs the others."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from joserfc.jwk import JWKRegistry, Key
from joserfc.util import urlsafe_b64decode

from relay.identity.compact import is_name
from relay.identity.model import ALGORITHMS

MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192
"""A verification takes longer the longer the modulus is."""
MAX_KEYS: Final = 100

_PUBLIC_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "EC": ("kty", "crv", "x", "y"),
    "RSA": ("kty", "n", "e"),
    "OKP": ("kty", "crv", "x"),
}
_KINDS = frozenset(ALGORITHMS.values())

Unusable = Literal["no_keys_array", "not_json", "no_usable_key"]


class KeySetUnusable(Exception):  # noqa: N818 - reads as what it says
    """The document holds no keys that could be used. ``reason`` is a code."""

    def __init__(self, reason: Unusable) -> None:
        super().__init__(reason)
        self.reason: Unusable = reason


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key. ``algorithm`` is the only one it may be used with, where the issuer says so."""

    kid: str
    kty: str
    crv: str | None
    algorithm: str | None
    thumbprint: str
    key: Key = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """The usable keys of an issuer, and how many others stood beside them."""

    keys: Mapping[tuple[str, str, str | None], VerificationKey]
    ignored: int

    def find(self, kid: str, algorithm: str) -> VerificationKey | None:
        """The key of this id that fits the algorithm's key type and curve."""
        return self.keys.get((kid, *ALGORITHMS[algorithm]))


def read(document: bytes) -> KeySet:
    """The key set in a document. Raises `KeySetUnusable`; an empty set is an issuer's right."""
    try:
        value = json.loads(document.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise KeySetUnusable("not_json") from None
    listed = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise KeySetUnusable("no_keys_array")
    keys = _unambiguous(_usable(listed[:MAX_KEYS]))
    if listed and not keys:
        raise KeySetUnusable("no_usable_key")
    return KeySet(keys, ignored=len(listed) - len(keys))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    """An object; None in its place where it has a member twice, so that only this key is lost."""
    members = dict(pairs)
    return members if len(members) == len(pairs) else None


def _usable(listed: list[Any]) -> Iterator[VerificationKey]:
    for jwk in listed:
        try:
            key = _import(jwk)
        except Exception:  # noqa: BLE001, S112 - whatever a malformed key raises, it must not lose the set
            continue
        if key is not None:
            yield key


def _unambiguous(keys: Iterator[VerificationKey]) -> dict[tuple[str, str, str | None], VerificationKey]:
    """By id, type and curve. Two different keys under one name could not be told apart: neither is used."""
    found: dict[tuple[str, str, str | None], VerificationKey] = {}
    ambiguous = set()
    for key in keys:
        name = (key.kid, key.kty, key.crv)
        if found.setdefault(name, key) != key:
            ambiguous.add(name)
    return {name: key for name, key in found.items() if name not in ambiguous}


def _import(jwk: Any) -> VerificationKey | None:  # noqa: ANN401 - any JSON value
    if not isinstance(jwk, dict) or not is_name(jwk.get("kid")) or not _is_for_verifying(jwk):
        return None
    kty: str = jwk["kty"]
    crv: str | None = jwk.get("crv")
    if kty == "RSA":
        crv = None
        if not MIN_RSA_BITS <= _bits(jwk["n"]) <= MAX_RSA_BITS:
            return None
    if (kty, crv) not in _KINDS:
        return None
    # Only public members: a private key published by mistake is never held.
    key = JWKRegistry.import_key({member: jwk[member] for member in _PUBLIC_MEMBERS[kty]})
    return VerificationKey(jwk["kid"], kty, crv, jwk.get("alg"), key.thumbprint(), key)


def _is_for_verifying(jwk: Mapping[str, Any]) -> bool:
    """RFC 7517 sections 4.2 to 4.4: ``use``, ``key_ops`` and ``alg`` are optional, and bind where they stand."""
    return (
        jwk.get("use", "sig") == "sig"
        and "verify" in jwk.get("key_ops", ("verify",))
        and ("alg" not in jwk or jwk["alg"] in ALGORITHMS)
    )


def _bits(modulus: str) -> int:
    return int.from_bytes(urlsafe_b64decode(modulus.encode("ascii")), "big").bit_length()
