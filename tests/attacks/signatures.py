"""Signatures made by hand, from the numbers themselves, where no library would make them."""

import hashlib
from typing import Final, NamedTuple

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from joserfc.jwk import ECKey, RSAKey

from tests.support.issuer import SigningKey


class Curve(NamedTuple):
    """The order of a curve's group, the prime of its field, and how many bytes a coordinate has."""

    order: int
    prime: int
    size: int


CURVES: Final = {
    "ES256": Curve(
        0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
        2**256 - 2**224 + 2**192 + 2**96 - 1,
        32,
    ),
    "ES384": Curve(
        0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973,
        2**384 - 2**128 - 2**96 + 2**32 - 1,
        48,
    ),
    "ES512": Curve(
        2**521 - 2**264 + 0xFA51868783BF2F966B7FCC0148F709A5D03BB5C9B8899C47AEBB6FB71E91386409,
        2**521 - 1,
        66,
    ),
}
HASHES: Final = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}

SHA256_INFO: Final = bytes.fromhex("3031300d060960864801650304020105000420")
"""The DigestInfo of SHA-256 up to the digest (RFC 8017 section 9.2, note 1)."""

ED25519_ORDER: Final = 2**252 + 27742317777372353535851937790883648493


def ec_pair(key: SigningKey, message: bytes, hash_: hashes.HashAlgorithm) -> tuple[int, int]:
    """The numbers r and s of a sound signature."""
    assert isinstance(key, ECKey)
    private = key.private_key
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    return decode_dss_signature(private.sign(message, ec.ECDSA(hash_)))


def side_by_side(r: int, s: int, size: int) -> bytes:
    """RFC 7518 section 3.4."""
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def der(r: int, s: int) -> bytes:
    """RFC 3279 section 2.2.3: what other protocols put in that place."""
    return encode_dss_signature(r, s)


def rsa_numbers(key: SigningKey) -> tuple[int, int, int]:
    """n, d and the length of the modulus in bytes."""
    private = rsa_private(key)
    numbers = private.private_numbers()
    return numbers.public_numbers.n, numbers.d, private.key_size // 8


def rsa_private(key: SigningKey) -> rsa.RSAPrivateKey:
    assert isinstance(key, RSAKey)
    private = key.private_key
    assert isinstance(private, rsa.RSAPrivateKey)
    return private


def rsa_raw(key: SigningKey, block: bytes) -> bytes:
    """The private operation over a block that somebody padded by hand."""
    n, d, size = rsa_numbers(key)
    assert len(block) == size
    return pow(int.from_bytes(block, "big"), d, n).to_bytes(size, "big")


def digest_info(message: bytes) -> bytes:
    return SHA256_INFO + hashlib.sha256(message).digest()


def pkcs1_block(content: bytes, size: int, *, kind: int = 1, fill: int = 0xFF) -> bytes:
    """EMSA-PKCS1-v1_5 (RFC 8017 section 9.2), with another block type or filling where those are asked for."""
    return bytes([0, kind]) + bytes([fill]) * (size - 3 - len(content)) + b"\x00" + content


def pss(
    key: SigningKey, message: bytes, *, hash_: hashes.HashAlgorithm, mask: hashes.HashAlgorithm, salt: int
) -> bytes:
    return rsa_private(key).sign(message, padding.PSS(padding.MGF1(mask), salt), hash_)
