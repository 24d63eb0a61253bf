"""Signatures that are none, of the kinds that have passed for some elsewhere. Every one gets the same 401.

The kinds are those that public test suites for JSON Web Signatures look for. The cases are our own: the numbers are
made from keys of the test, so that each stands right next to a signature that is sound.
"""

import hashlib
import itertools
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from joserfc.jwk import OKPKey, RSAKey

from tests.attacks.conftest import Border
from tests.attacks.signatures import (
    CURVES,
    ED25519_ORDER,
    HASHES,
    Curve,
    der,
    digest_info,
    ec_pair,
    pkcs1_block,
    pss,
    rsa_numbers,
    rsa_private,
    rsa_raw,
    side_by_side,
)
from tests.support.forgery import dumps, encode, human
from tests.support.issuer import TestIssuer, compact


def unsigned_part(issuer: TestIssuer, algorithm: str, **overrides: object) -> str:
    """Header and claims of a token that only lacks a signature."""
    kid = overrides.pop("kid", None) or issuer.kid(algorithm)
    header = {"alg": algorithm, "typ": "at+jwt", "kid": kid, **overrides}
    return f"{encode(dumps(header))}.{encode(dumps(human(issuer, tenant='acme')))}"


Pair = Callable[[int, int, Curve], bytes]

PAIRS: dict[str, Pair] = {
    "both zero": lambda _r, _s, c: side_by_side(0, 0, c.size),
    "r zero": lambda _r, s, c: side_by_side(0, s, c.size),
    "s zero": lambda r, _s, c: side_by_side(r, 0, c.size),
    "r one, s one": lambda _r, _s, c: side_by_side(1, 1, c.size),
    "r one, s zero": lambda _r, _s, c: side_by_side(1, 0, c.size),
    "r is the order": lambda _r, s, c: side_by_side(c.order, s, c.size),
    "s is the order": lambda r, _s, c: side_by_side(r, c.order, c.size),
    "both are the order": lambda _r, _s, c: side_by_side(c.order, c.order, c.size),
    "r one below the order": lambda _r, s, c: side_by_side(c.order - 1, s, c.size),
    "r one above the order": lambda _r, s, c: side_by_side(c.order + 1, s, c.size),
    "s one above the order": lambda r, _s, c: side_by_side(r, c.order + 1, c.size),
    "r is the field's prime": lambda _r, s, c: side_by_side(c.prime, s, c.size),
    "r one above the field's prime": lambda _r, s, c: side_by_side(c.prime + 1, s, c.size),
    "all ones": lambda _r, _s, c: b"\xff" * (2 * c.size),
    "r negated": lambda r, s, c: side_by_side(c.order - r, s, c.size),
    "r negative in two's complement": lambda r, s, c: side_by_side(2 ** (8 * c.size) - r, s, c.size),
    "s negative in two's complement": lambda r, s, c: side_by_side(r, 2 ** (8 * c.size) - s, c.size),
    "swapped": lambda r, s, c: side_by_side(s, r, c.size),
    "DER": lambda r, s, _c: der(r, s),
    "DER of zeros": lambda _r, _s, _c: bytes.fromhex("3006020100020100"),
    "DER, long form": lambda r, s, _c: b"\x30\x81" + der(r, s)[1:],
    "a byte too long": lambda r, s, c: side_by_side(r, s, c.size) + b"\x00",
    "a byte too long in front": lambda r, s, c: b"\x00" + side_by_side(r, s, c.size),
    "a byte too short": lambda r, s, c: side_by_side(r, s, c.size)[:-1],
    "each half a byte longer": lambda r, s, c: side_by_side(r, s, c.size + 1),
    "r alone": lambda r, _s, c: r.to_bytes(c.size, "big"),
    "twice": lambda r, s, c: side_by_side(r, s, c.size) * 2,
    "little-endian": lambda r, s, c: r.to_bytes(c.size, "little") + s.to_bytes(c.size, "little"),
    "one byte": lambda _r, _s, _c: b"\x00",
}


@pytest.mark.parametrize("algorithm", CURVES)
@pytest.mark.parametrize("kind", PAIRS)
async def test_pairs_of_numbers_that_sign_nothing(
    kind: str, algorithm: str, border: Border, issuer: TestIssuer
) -> None:
    """Zero, the order and beyond, negatives, other encodings and lengths (RFC 7518 section 3.4, CVE-2022-21449)."""
    message = unsigned_part(issuer, algorithm)
    r, s = ec_pair(issuer.key(algorithm), message.encode(), HASHES[algorithm[2:]])
    signature = PAIRS[kind](r, s, CURVES[algorithm])
    assert await border.refuse(f"{message}.{encode(signature)}") == "bad_signature"


@pytest.mark.parametrize("part", ["r", "s", "both"])
async def test_numbers_that_are_the_same_modulo_the_order(part: str, border: Border, issuer: TestIssuer) -> None:
    """With P-521 there is room for r + n and s + n: a verifier that reduces them would take them."""
    message, (order, _, size) = unsigned_part(issuer, "ES512"), CURVES["ES512"]
    r, s = ec_pair(issuer.key("ES512"), message.encode(), hashes.SHA512())
    signature = side_by_side(r + order * (part != "s"), s + order * (part != "r"), size)
    assert await border.refuse(f"{message}.{encode(signature)}") == "bad_signature"


@pytest.mark.parametrize("algorithm", CURVES)
async def test_the_other_s_names_the_same_caller(algorithm: str, border: Border, issuer: TestIssuer) -> None:
    """(r, n - s) is a signature too, which RFC 7518 does not forbid: it must not make anyone else of the caller.

    So nothing may take a token's bytes for its identity. A sound pair also shows that the cases above fail for what
    is wrong with them.
    """
    message = unsigned_part(issuer, algorithm)
    order, _, size = CURVES[algorithm]
    r, s = ec_pair(issuer.key(algorithm), message.encode(), HASHES[algorithm[2:]])
    sound, other = (f"{message}.{encode(side_by_side(r, one, size))}" for one in (s, order - s))
    assert (await border.gate.admit(sound)).owner == (await border.gate.admit(other)).owner


@pytest.mark.parametrize(("algorithm", "wrong"), [(a, h) for a in CURVES for h in HASHES if h != a[2:]])
async def test_the_right_curve_with_another_hash(
    algorithm: str, wrong: str, border: Border, issuer: TestIssuer
) -> None:
    """RFC 7518 section 3.4 binds each curve to one hash."""
    message = unsigned_part(issuer, algorithm)
    r, s = ec_pair(issuer.key(algorithm), message.encode(), HASHES[wrong])
    signature = side_by_side(r, s, CURVES[algorithm].size)
    assert await border.refuse(f"{message}.{encode(signature)}") == "bad_signature"


@pytest.mark.parametrize(("claimed", "signing"), list(itertools.permutations(CURVES, 2)))
async def test_a_key_of_another_curve(claimed: str, signing: str, border: Border, issuer: TestIssuer) -> None:
    """Whichever of the two the header names as its key: a curve fits one algorithm only."""
    for kid, reason in ((issuer.kid(claimed), "bad_signature"), (issuer.kid(signing), "unknown_key")):
        message = unsigned_part(issuer, claimed, kid=kid)
        r, s = ec_pair(issuer.key(signing), message.encode(), HASHES[claimed[2:]])
        for size in {CURVES[claimed].size, CURVES[signing].size}:
            if max(r, s) < 2 ** (8 * size):
                assert await border.refuse(f"{message}.{encode(side_by_side(r, s, size))}") == reason


Block = Callable[[bytes, int], bytes]
_NO_PARAMETERS = bytes.fromhex("302f300b0609608648016503040201") + b"\x04\x20"


def _digest(message: bytes) -> bytes:
    return hashlib.sha256(message).digest()


BLOCKS: dict[str, Block] = {
    "type 0, filled with zeros": lambda m, size: pkcs1_block(digest_info(m), size, kind=0, fill=0),
    "type 2": lambda m, size: pkcs1_block(digest_info(m), size, kind=2),
    "type 1, filled with something": lambda m, size: pkcs1_block(digest_info(m), size, fill=0xAB),
    "one wrong byte in the filling": lambda m, size: b"\x00\x01\xfe" + pkcs1_block(digest_info(m), size)[3:],
    "first byte not zero": lambda m, size: b"\x01" + pkcs1_block(digest_info(m), size)[1:],
    "no separator": lambda m, size: pkcs1_block(digest_info(m), size).replace(b"\xff\x00\x30", b"\xff\xff\x30"),
    "eight bytes of filling and garbage after the digest": lambda m, size: (
        b"\x00\x01" + b"\xff" * 8 + b"\x00" + digest_info(m) + b"\xaa" * (size - 11 - len(digest_info(m)))
    ),
    "no filling, garbage after the digest": lambda m, size: (
        b"\x00\x01\x00" + digest_info(m) + b"\x00" * (size - 3 - len(digest_info(m)))
    ),
    "a byte after the digest": lambda m, size: pkcs1_block(digest_info(m) + b"\x00", size),
    "the digest without its algorithm": lambda m, size: pkcs1_block(_digest(m), size),
    "the algorithm without its NULL": lambda m, size: pkcs1_block(_NO_PARAMETERS + _digest(m), size),
    "the wrong algorithm's name": lambda m, size: pkcs1_block(
        bytes.fromhex("3031300d060960864801650304020305000420") + _digest(m), size
    ),
    "a long-form length": lambda m, size: pkcs1_block(b"\x30\x81" + digest_info(m)[1:], size),
    "an indefinite length": lambda m, size: pkcs1_block(b"\x30\x80" + digest_info(m)[2:] + b"\x00\x00", size),
    "a digest cut short": lambda m, size: pkcs1_block(digest_info(m)[:-1], size),
    "another message's digest": lambda m, size: pkcs1_block(digest_info(m + b"x"), size),
    "a digest that is empty": lambda _m, size: pkcs1_block(digest_info(b"")[:-32], size),
}


@pytest.mark.parametrize("kind", BLOCKS)
async def test_paddings_that_a_lenient_parser_takes(kind: str, border: Border, issuer: TestIssuer) -> None:
    """RFC 8017 section 8.2.2: the block is made anew and compared whole; parsing it has let forgeries through."""
    message = unsigned_part(issuer, "RS256")
    key = issuer.key("RS256")
    signature = rsa_raw(key, BLOCKS[kind](message.encode(), rsa_numbers(key)[2]))
    assert await border.refuse(f"{message}.{encode(signature)}") == "bad_signature"


async def test_the_padding_made_by_hand_is_sound(border: Border, issuer: TestIssuer) -> None:
    """What is wrong with the blocks above is what their names say."""
    message = unsigned_part(issuer, "RS256")
    key = issuer.key("RS256")
    signature = rsa_raw(key, pkcs1_block(digest_info(message.encode()), rsa_numbers(key)[2]))
    assert (await border.gate.admit(f"{message}.{encode(signature)}")).subject == "alice"


RSA_NUMBERS: dict[str, Callable[[int, int, int], bytes]] = {
    "zero": lambda _s, _n, size: bytes(size),
    "one": lambda _s, _n, size: (1).to_bytes(size, "big"),
    "the modulus less one": lambda _s, n, size: (n - 1).to_bytes(size, "big"),
    "the modulus": lambda _s, n, size: n.to_bytes(size, "big"),
    "as many ones as fit": lambda _s, _n, size: b"\xff" * size,
    "the same modulo the modulus": lambda s, n, size: (s + n).to_bytes(size + 1, "big"),
    "negated": lambda s, n, size: (n - s).to_bytes(size, "big"),
    "a zero in front": lambda s, _n, size: s.to_bytes(size + 1, "big"),
    "a zero behind": lambda s, _n, size: s.to_bytes(size, "big") + b"\x00",
    "cut short": lambda s, _n, size: s.to_bytes(size, "big")[:-1],
    "little-endian": lambda s, _n, size: s.to_bytes(size, "little"),
    "twice": lambda s, _n, size: s.to_bytes(size, "big") * 2,
}


@pytest.mark.parametrize("algorithm", ["RS256", "PS256"])
@pytest.mark.parametrize("kind", RSA_NUMBERS)
async def test_numbers_that_sign_nothing_with_rsa(
    kind: str, algorithm: str, border: Border, issuer: TestIssuer
) -> None:
    """RFC 8017 sections 8.1.2 and 8.2.2: as long as the modulus, and below it."""
    message = unsigned_part(issuer, algorithm)
    key = issuer.key(algorithm)
    n, _, size = rsa_numbers(key)
    sound = (
        rsa_private(key).sign(message.encode(), padding.PKCS1v15(), hashes.SHA256())
        if algorithm == "RS256"
        else pss(key, message.encode(), hash_=hashes.SHA256(), mask=hashes.SHA256(), salt=32)
    )
    assert (await border.gate.admit(f"{message}.{encode(sound)}")).subject == "alice"
    signature = RSA_NUMBERS[kind](int.from_bytes(sound, "big"), n, size)
    assert await border.refuse(f"{message}.{encode(signature)}") == "bad_signature"


@pytest.mark.parametrize("salt", [0, 20, 31, 33, 222])
async def test_salts_of_another_length(salt: int, border: Border, issuer: TestIssuer) -> None:
    """RFC 7518 section 3.5: the salt is as long as the hash."""
    message = unsigned_part(issuer, "PS256")
    signature = pss(issuer.key("PS256"), message.encode(), hash_=hashes.SHA256(), mask=hashes.SHA256(), salt=salt)
    assert await border.refuse(f"{message}.{encode(signature)}") == "bad_signature"


@pytest.mark.parametrize(
    ("hash_", "mask"),
    [
        (hashes.SHA256(), hashes.SHA1()),  # noqa: S303 - what must not pass
        (hashes.SHA256(), hashes.SHA512()),
        (hashes.SHA512(), hashes.SHA512()),
        (hashes.SHA512(), hashes.SHA256()),
    ],
    ids=["SHA-1 in the mask", "SHA-512 in the mask", "SHA-512 throughout", "SHA-512 outside"],
)
async def test_other_hashes_in_pss(
    hash_: hashes.HashAlgorithm, mask: hashes.HashAlgorithm, border: Border, issuer: TestIssuer
) -> None:
    """RFC 7518 section 3.5: one hash, for the message and for the mask."""
    message = unsigned_part(issuer, "PS256")
    signature = pss(issuer.key("PS256"), message.encode(), hash_=hash_, mask=mask, salt=32)
    assert await border.refuse(f"{message}.{encode(signature)}") == "bad_signature"


WITH_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


@pytest.mark.parametrize(("claimed", "signing"), list(itertools.permutations(WITH_RSA, 2)))
async def test_another_algorithm_of_the_same_key(
    claimed: str, signing: str, border: Border, issuer: TestIssuer
) -> None:
    """A key that its issuer bound to nothing still verifies each signature under the algorithm that made it only."""
    key = RSAKey.generate_key(2048, {"kid": "unbound"})
    issuer.extra_keys.append(key.as_dict())
    token = compact(dumps(issuer.header(claimed, kid="unbound")), dumps(human(issuer)), key, signing)
    assert await border.refuse(token) == "bad_signature"


EDWARDS: dict[str, Callable[[bytes], bytes]] = {
    "S plus the order": lambda s: s[:32] + (int.from_bytes(s[32:], "little") + ED25519_ORDER).to_bytes(32, "little"),
    "S is the order": lambda s: s[:32] + ED25519_ORDER.to_bytes(32, "little"),
    "S zero": lambda s: s[:32] + bytes(32),
    "all zeros": lambda _s: bytes(64),
    "R the identity, S zero": lambda _s: b"\x01" + bytes(63),
    "R of small order": lambda s: bytes.fromhex("ec" + "ff" * 30 + "7f") + s[32:],
    "R with a coordinate beyond the prime": lambda s: bytes.fromhex("ee" + "ff" * 30 + "7f") + s[32:],
    "R's sign turned": lambda s: s[:31] + bytes([s[31] ^ 0x80]) + s[32:],
    "the top bit of S set": lambda s: s[:63] + bytes([s[63] | 0x80]),
    "halves swapped": lambda s: s[32:] + s[:32],
    "a byte too long": lambda s: s + b"\x00",
    "a byte too short": lambda s: s[:-1],
    "as long as Ed448's": lambda s: s + bytes(50),
    "all ones": lambda _s: b"\xff" * 64,
}


@pytest.mark.parametrize("algorithm", ["Ed25519", "EdDSA"])
@pytest.mark.parametrize("kind", EDWARDS)
async def test_edwards_signatures_that_are_none(kind: str, algorithm: str, border: Border, issuer: TestIssuer) -> None:
    """RFC 8032 section 5.1.7: S is below the order, so that a signature has one spelling."""
    key = OKPKey.generate_key("Ed25519", {"kid": "edwards"})
    issuer.extra_keys.append(key.as_dict())
    message = unsigned_part(issuer, algorithm, kid="edwards")
    sound = key.private_key.sign(message.encode())  # type: ignore[union-attr, call-arg]
    assert (await border.gate.admit(f"{message}.{encode(sound)}")).subject == "alice"
    assert await border.refuse(f"{message}.{encode(EDWARDS[kind](sound))}") == "bad_signature"


@pytest.mark.parametrize("curve", ["X25519", "Ed448", "X448"])
async def test_other_curves_under_the_name_of_edwards(curve: str, border: Border, issuer: TestIssuer) -> None:
    """Keys for agreement, and the other Edwards curve, verify nothing here."""
    key = OKPKey.generate_key(curve, {"kid": "other"})  # type: ignore[arg-type]
    issuer.extra_keys.append(key.as_dict())
    message = unsigned_part(issuer, "EdDSA", kid="other")
    signature = key.private_key.sign(message.encode()) if curve == "Ed448" else bytes(64)  # type: ignore[union-attr, call-arg]
    assert await border.refuse(f"{message}.{encode(signature)}") == "unknown_key"
