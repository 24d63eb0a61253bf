"""Key sets as issuers really publish them: one odd key never costs the others."""

import base64
import json
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from relay.identity.jwks import MAX_KEYS, KeySet, KeySetUnusable, read

GOOD = ECKey.generate_key("P-256", {"kid": "good"}).as_dict()
RSA = RSAKey.generate_key(2048, {"kid": "rsa"}).as_dict(private=True)
PUBLIC_RSA = {member: RSA[member] for member in ("kty", "kid", "n", "e")}
ED25519 = OKPKey.generate_key("Ed25519", {"kid": "ed"}).as_dict()


def encode(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8, "big")).decode().rstrip("=")


def publish(*keys: object) -> KeySet:
    return read(json.dumps({"keys": keys}).encode())


def kids(key_set: KeySet) -> set[str]:
    return {key.kid for key in key_set.keys.values()}


def test_every_kind_of_key() -> None:
    """A key is found by its id and by an algorithm that its type and curve fit, and by no other."""
    published = publish(GOOD, PUBLIC_RSA, ED25519)
    assert published.ignored == 0
    assert all(published.find(*name) for name in [("good", "ES256"), ("rsa", "PS512"), ("rsa", "RS256")])
    assert published.find("ed", "EdDSA") is published.find("ed", "Ed25519") is not None
    assert not any(published.find(*name) for name in [("good", "ES384"), ("good", "RS256"), ("rsa", "ES256")])
    assert published.find("ed", "ES256") is None


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        "key",
        [],
        {},
        {"kty": "EC"},
        GOOD | {"kid": 7},
        GOOD | {"kid": ""},
        {k: v for k, v in GOOD.items() if k != "kid"},
        GOOD | {"kid": "x", "x": "AAAA"},
        GOOD | {"kid": "x", "x": GOOD["y"]},
        GOOD | {"kid": "x", "x": "!!"},
        GOOD | {"kid": "x", "x": None},
        GOOD | {"kid": "x", "x": ["a"]},
        GOOD | {"kid": "x", "crv": "P-512"},
        GOOD | {"kid": "x", "crv": ["P-256"]},
        GOOD | {"kid": "x", "kty": "XYZ"},
        GOOD | {"kid": "x", "kty": ["EC"]},
        GOOD | {"kid": "x", "use": "enc"},
        GOOD | {"kid": "x", "use": ["sig"]},
        GOOD | {"kid": "x", "key_ops": ["sign"]},
        GOOD | {"kid": "x", "key_ops": 7},
        GOOD | {"kid": "x", "alg": "HS256"},
        GOOD | {"kid": "x", "alg": "none"},
        GOOD | {"kid": "x", "alg": "ECDH-ES"},
        GOOD | {"kid": "x", "alg": None},
        GOOD | {"kid": "x", "alg": {}},
        OctKey.generate_key(256, {"kid": "x"}).as_dict(private=True),
        OKPKey.generate_key("X25519", {"kid": "x"}).as_dict(),
        OKPKey.generate_key("Ed448", {"kid": "x"}).as_dict(),
        ECKey.generate_key("secp256k1", {"kid": "x"}).as_dict(),
        PUBLIC_RSA | {"kid": "x", "n": encode(2**1023 + 1)},
        PUBLIC_RSA | {"kid": "x", "n": encode(2**8192 + 1)},
        PUBLIC_RSA | {"kid": "x", "e": "AQ"},
        PUBLIC_RSA | {"kid": "x", "n": 7},
    ],
)
def test_an_odd_key_is_left_out(odd: object) -> None:
    """Malformed, symmetric, for encryption, too short, too long or unknown: only this key is ignored."""
    published = publish(odd, GOOD)
    assert kids(published) == {"good"}
    assert published.ignored == 1


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
@pytest.mark.parametrize("bits", [512, 1024, 2040])
def test_a_short_key_is_left_out_even_where_nobody_heeds_warnings(bits: int) -> None:
    """A modulus that can be factored only makes joserfc warn; here it is refused."""
    short = RSAKey.generate_key(2048, {"kid": "short"}).as_dict() | {"n": encode(2 ** (bits - 1) + 1)}
    assert kids(publish(short, GOOD)) == {"good"}


def test_a_key_with_a_repeated_member_is_left_out() -> None:
    """RFC 7517 section 4: member names are unique; what one reader and another see would differ."""
    good = json.dumps(GOOD)
    document = f'{{"keys":[{good[:-1]},"kid":"other"}},{good}]}}'
    assert kids(read(document.encode())) == {"good"}


def test_private_members_are_not_kept() -> None:
    """An issuer that publishes its private key by mistake has told everyone, but not our memory."""
    key = publish(RSA).find("rsa", "RS256")
    assert key is not None
    assert not key.key.is_private
    assert str(RSA["d"]) not in json.dumps(key.key.dict_value)


def test_members_that_we_do_not_know_do_not_matter() -> None:
    """Issuers add their own, and certificates that we do not look at."""
    own: dict[str, Any] = {"x5c": ["not a certificate"], "x5u": 7, "issuer": {}, "nbf": 1, "use": "sig"}
    assert kids(publish(GOOD | own | {"key_ops": ["verify"], "alg": "ES256"})) == {"good"}


def test_one_key_may_stand_twice() -> None:
    """The same key under the same id is one key."""
    assert kids(publish(GOOD, GOOD)) == {"good"}


def test_two_keys_under_one_id_are_neither() -> None:
    """Which of them signed could not be told; keys of another type under the same id are not concerned."""
    other = ECKey.generate_key("P-256", {"kid": "good"}).as_dict()
    published = publish(GOOD, other, GOOD, PUBLIC_RSA | {"kid": "good"})
    assert published.find("good", "ES256") is None
    assert published.find("good", "RS256") is not None
    assert published.ignored == 3


def test_a_thousand_keys_are_not_read() -> None:
    """Reading a set takes bounded time, whatever an issuer publishes."""
    published = publish(*([GOOD | {"kid": f"k{n}"} for n in range(MAX_KEYS + 5)]))
    assert len(published.keys) == MAX_KEYS
    assert published.ignored == 5


def test_an_empty_set_is_a_set() -> None:
    """An issuer may have no keys; that is not the same as a document that cannot be read."""
    assert publish() == KeySet({}, 0)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b"null", "no_keys_array"),
        (b"{}", "no_keys_array"),
        (b'{"keys":null}', "no_keys_array"),
        (b'{"keys":[],"keys":[]}', "no_keys_array"),
        (b'{"keys":[7]}', "no_usable_key"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_documents_without_keys(document: bytes, reason: str) -> None:
    """What is not a key set is said to be none, with a code that an operator can look up."""
    with pytest.raises(KeySetUnusable) as caught:
        read(document)
    assert caught.value.reason == reason
