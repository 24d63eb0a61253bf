"""Tokens that somebody made to get in. Each is refused, for the right reason, with the one 401."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable

import pytest
from joserfc import jwe
from joserfc.jwk import ECKey, RSAKey

from relay.identity.compact import MAX_TOKEN_BYTES
from relay.identity.refusals import Defect
from tests.identity.conftest import Gate
from tests.support.forgery import dumps, encode, human, unsigned
from tests.support.issuer import TestIssuer, compact

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE"])
@pytest.mark.parametrize("signature", [b"", b"x"])
async def test_algorithm_none(algorithm: str, signature: bytes, gate: Gate, issuer: TestIssuer) -> None:
    """A token that declares itself unsigned is nobody's."""
    token = unsigned(issuer.header(alg=algorithm), human(issuer), signature)
    assert await gate.refuse(token) == ("algorithm_not_allowed" if signature else "malformed_token")


@pytest.mark.parametrize("form", ["pem", "der", "jwk"])
@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
async def test_the_public_key_as_a_shared_secret(form: str, algorithm: str, gate: Gate, issuer: TestIssuer) -> None:
    """What everyone can fetch must not work as the secret of an HMAC."""
    key = issuer.key(algorithm)
    secret = {"pem": key.as_pem(), "der": key.as_der(), "jwk": dumps(key.as_dict())}[form]
    header, payload = issuer.header(algorithm, alg="HS256"), human(issuer)
    signing_input = f"{encode(dumps(header))}.{encode(dumps(payload))}".encode()
    signature = hmac.digest(secret, signing_input, hashlib.sha256)
    assert await gate.refuse(f"{signing_input.decode()}.{encode(signature)}") == "algorithm_not_allowed"


@pytest.mark.parametrize(
    "signature",
    [
        bytes(64),
        P256_ORDER.to_bytes(32, "big") * 2,
        bytes(32) + (1).to_bytes(32, "big"),
        (1).to_bytes(32, "big") + bytes(32),
        b"\xff" * 64,
        b"\x00",
        bytes(63),
        bytes(65),
    ],
    ids=["zero", "order", "r zero", "s zero", "all ones", "one byte", "short", "long"],
)
async def test_signatures_that_need_no_key(signature: bytes, gate: Gate, issuer: TestIssuer) -> None:
    """Zero, the group's order and wrong lengths have passed for signatures elsewhere (CVE-2022-21449)."""
    assert await gate.refuse(unsigned(issuer.header(), human(issuer), signature)) == "bad_signature"


async def test_a_signature_in_der(gate: Gate, issuer: TestIssuer) -> None:
    """RFC 7518 section 3.4: r and s side by side. The same signature in ASN.1 is not one."""
    key = issuer.key()
    assert isinstance(key, ECKey)
    header, payload, signature = issuer.mint().split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    halves = b"".join(b"\x02\x21\x00" + raw[i : i + 32] for i in (0, 32))
    assert await gate.refuse(f"{header}.{payload}.{encode(b'0' + bytes([len(halves)]) + halves)}") == "bad_signature"


@pytest.mark.parametrize("cut", ["", ".", "..", ".x."])
async def test_a_stripped_signature(cut: str, gate: Gate, issuer: TestIssuer) -> None:
    """What remains of a good token without its signature is refused."""
    header, payload, _ = issuer.mint().split(".")
    assert await gate.refuse(f"{header}.{payload}{cut}") == "malformed_token"


async def test_a_signature_over_something_else(gate: Gate, issuer: TestIssuer) -> None:
    """The signature of one token does not carry another's claims."""
    header, _, signature = issuer.mint(sub="mallory").split(".")
    payload = issuer.mint(sub="alice").split(".")[1]
    assert await gate.refuse(f"{header}.{payload}.{signature}") == "bad_signature"


async def test_the_key_of_another_issuer(gate: Gate, issuer: TestIssuer) -> None:
    """The same key id and the right claims, signed by somebody else."""
    token = compact(dumps(issuer.header()), dumps(human(issuer)), ECKey.generate_key("P-256"), "ES256")
    assert await gate.refuse(token) == "bad_signature"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("jku", "https://evil.example.org/jwks"),
        ("jwk", "the attacker's"),
        ("x5u", "https://evil.example.org/chain.pem"),
        ("x5c", ["MIIB"]),
        ("crit", ["exp"]),
        ("crit", []),
        ("crit", None),
        ("b64", False),
        ("b64", True),
    ],
)
async def test_header_members_that_choose_a_key_or_change_the_rules(
    member: str, value: object, gate: Gate, issuer: TestIssuer
) -> None:
    """Refused even under a good signature: nothing in a token decides how it is verified."""
    attacker = ECKey.generate_key("P-256")
    header = issuer.header() | {member: attacker.as_dict() if member == "jwk" else value}
    assert await gate.refuse(issuer.sign(header, human(issuer))) == "refused_header_member"
    assert await gate.refuse(compact(dumps(header), dumps(human(issuer)), attacker, "ES256")) == "refused_header_member"


@pytest.mark.parametrize(
    ("typ", "reason"),
    [
        ("JWT", "wrong_type"),
        ("id+jwt", "wrong_type"),
        ("dpop+jwt", "wrong_type"),
        ("application/jwt", "wrong_type"),
        ("text/at+jwt", "wrong_type"),
        ("application/application/at+jwt", "wrong_type"),
        ("at+jwt ", "wrong_type"),
        ("", "wrong_type"),
        (["at+jwt"], "wrong_type"),
        (None, "wrong_type"),
    ],
)
async def test_other_types_of_token(typ: object, reason: Defect, gate: Gate, issuer: TestIssuer) -> None:
    """RFC 9068 section 4: an ID token or an assertion of the same issuer is not an access token."""
    assert await gate.refuse(issuer.mint(header={"typ": typ})) == reason


@pytest.mark.parametrize(
    ("kid", "reason"),
    [
        (None, "no_key_id"),
        ("", "no_key_id"),
        (7, "no_key_id"),
        ({"kid": "x"}, "no_key_id"),
        ("../../../../dev/null", "unknown_key"),
        ("' OR 1=1 --", "unknown_key"),
        ("a\nb", "no_key_id"),
        ("k" * 257, "no_key_id"),
    ],
)
async def test_odd_key_ids(kid: object, reason: Defect, gate: Gate, issuer: TestIssuer) -> None:
    """A key id is compared with those of the set and used for nothing else."""
    assert await gate.refuse(issuer.mint(header={"kid": kid})) == reason


async def test_the_id_of_another_key(gate: Gate, issuer: TestIssuer) -> None:
    """A key id of the set whose key has another type does not verify anything."""
    header = issuer.header("ES256", kid=issuer.kid("RS256"))
    assert await gate.refuse(issuer.sign(header, human(issuer))) == "unknown_key"


async def test_a_key_that_is_for_another_algorithm(gate: Gate, issuer: TestIssuer) -> None:
    """RFC 7517 section 4.4: an issuer that binds a key to an algorithm is taken by its word."""
    key = RSAKey.generate_key(2048, {"kid": "bound", "alg": "RS512"})
    issuer.extra_keys.append(key.as_dict())
    token = compact(dumps(issuer.header("RS256", kid="bound")), dumps(human(issuer)), key, "RS256")
    assert await gate.refuse(token) == "key_not_for_algorithm"


@pytest.mark.parametrize("algorithm", ["ES384", "PS256", "RS512", "Ed25519"])
async def test_an_algorithm_that_is_not_on_the_list(algorithm: str, gate: Gate, issuer: TestIssuer) -> None:
    """A sound signature of a kind that the operator did not allow."""
    assert await gate.refuse(issuer.mint(algorithm=algorithm)) == "algorithm_not_allowed"


@pytest.mark.parametrize("algorithm", [7, None, [], {}, "ES256\x00", "RS256 ", "ＥＳ256"])
async def test_odd_algorithms(algorithm: object, gate: Gate, issuer: TestIssuer) -> None:
    """Whatever stands in ``alg`` that is not exactly a name of the list."""
    header = json.dumps(issuer.header() | {"alg": algorithm}).encode()
    assert await gate.refuse(issuer.sign(header, human(issuer))) in {"algorithm_not_allowed", "header_not_json"}


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b'"alice"', b"7", b"null", b"{", b"\xff", b"\xef\xbb\xbf{}", b"[" * 3000, b"{}"]
)
async def test_payloads_that_are_no_claims(payload: bytes, gate: Gate, issuer: TestIssuer) -> None:
    """Well signed nonsense."""
    reason = await gate.refuse(issuer.sign(issuer.header(), payload))
    assert reason == {b"": "malformed_token", b"{}": "unknown_issuer"}.get(payload, "payload_not_json")


@pytest.mark.parametrize("header", [b"[]", b'"x"', b"7", b"null", b"{}", b'{"alg":"ES256"}', b"\xff", b"[" * 3000])
async def test_headers_that_are_none(header: bytes, gate: Gate, issuer: TestIssuer) -> None:
    """A header that is no object, or says nothing."""
    assert await gate.refuse(issuer.sign(header, human(issuer))) in {
        "header_not_json",
        "algorithm_not_allowed",
        "no_key_id",
    }


async def test_a_token_inside_a_token(gate: Gate, issuer: TestIssuer) -> None:
    """A nested JWT is signed text, not claims."""
    inner = issuer.mint().encode()
    assert await gate.refuse(issuer.sign(issuer.header(cty="JWT"), inner)) == "payload_not_json"


async def test_an_encrypted_token(gate: Gate, issuer: TestIssuer) -> None:
    """Anyone can encrypt to a published key, so that a JWE proves nothing: five segments are refused."""
    key = RSAKey.import_key(issuer.key("RS256").as_pem())
    token = jwe.encrypt_compact(
        {"alg": "RSA-OAEP", "enc": "A128GCM", "kid": issuer.kid("RS256"), "typ": "at+jwt"}, dumps(human(issuer)), key
    )
    assert token.count(".") == 4
    assert await gate.refuse(token) == "malformed_token"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: t + "=",
        lambda t: t + "==",
        lambda t: t.replace(".", "=.", 1),
        lambda t: t[:20] + " " + t[20:],
        lambda t: t[:20] + "\n" + t[20:],
        lambda t: t + "\n",
        lambda t: t + ".",
        lambda t: "." + t,
        lambda t: t + ".e30",
        lambda t: t + "," + t,
        lambda t: t[:20] + "%" + t[21:],
        lambda t: t[:20] + "+/" + t[22:],
        lambda t: t[:-1] + "１",
        lambda t: t[:-1] + "\udc80",
        lambda t: t[:-1] + "\u0660",
        lambda t: t.replace(".", "．"),
        lambda t: '"' + t + '"',
    ],
)
async def test_tokens_that_are_not_written_right(spoil: Callable[[str], str], gate: Gate, issuer: TestIssuer) -> None:
    """Padding, white space, other alphabets, other dots, digits of other scripts: one spelling counts."""
    assert await gate.refuse(spoil(issuer.mint())) == "malformed_token"


async def test_bits_that_nobody_reads(gate: Gate, issuer: TestIssuer) -> None:
    """The unused low bits of the last character have to be zero, or one token could be written in many ways."""
    token = issuer.mint()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = alphabet[alphabet.index(token[-1]) ^ 1]
    assert await gate.refuse(token[:-1] + other) == "bad_signature"


async def test_the_longest_token(gate: Gate, issuer: TestIssuer) -> None:
    """8192 bytes are taken, one more is not."""
    room = MAX_TOKEN_BYTES - len(issuer.mint(jti="x", filler=""))
    filler = "f" * (room * 3 // 4 - 8)
    while len(token := issuer.mint(jti="x", filler=filler)) < MAX_TOKEN_BYTES:
        filler += "f"
    if len(token) == MAX_TOKEN_BYTES:
        assert (await gate.admit(token)).token == token
        token = issuer.mint(jti="x", filler=filler + "ff")
    assert len(token) > MAX_TOKEN_BYTES
    assert await gate.refuse(token) == "token_too_long"


async def test_a_flood_of_key_ids_does_not_reach_the_issuer(gate: Gate, issuer: TestIssuer) -> None:
    """Made-up key ids cost the issuer one fetch per cooldown, however many there are."""
    await gate.admit(issuer.mint())
    for number in range(50):
        assert await gate.refuse(issuer.mint(header={"kid": f"made-up-{number}"})) == "unknown_key"
    assert issuer.fetches == 1
