"""Tokens that bend the format: other algorithms, other serializations, headers that choose. One and the same 401."""

import hashlib
import hmac
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwe, jws
from joserfc.jwk import ECKey, RSAKey

from relay.identity.refusals import Defect
from tests.attacks.conftest import Border
from tests.support.forgery import dumps, encode, human
from tests.support.issuer import TestIssuer, compact

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
SPELLINGS = ["".join(letters) for letters in itertools.product("nN", "oO", "nN", "eE")]
HMACS = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}


def sign_text(issuer: TestIssuer, header: str, payload: str) -> str:
    """A sound signature over segments that are written as they are given."""
    key = issuer.key()
    signature = jws.JWSRegistry.algorithms["ES256"].sign(f"{header}.{payload}".encode(), key)
    return f"{header}.{payload}.{encode(signature)}"


@pytest.mark.parametrize("algorithm", [*SPELLINGS, "none ", " none", "none\x00", "nonе", "", "null", "undefined"])
async def test_unsigned_in_every_spelling(algorithm: str, border: Border, issuer: TestIssuer) -> None:
    """RFC 8725 section 3.2: ``none`` is never acceptable, with or without something where a signature would be."""
    header, payload, signature = issuer.mint(header={"alg": algorithm}, tenant="acme").split(".")
    assert await border.refuse(f"{header}.{payload}.") == "malformed_token"
    assert await border.refuse(f"{header}.{payload}") == "malformed_token"
    reasons = {await border.refuse(f"{header}.{payload}.{one}") for one in (signature, "AA", encode(bytes(64)))}
    assert reasons <= {"algorithm_not_allowed", "header_not_json"}


@pytest.mark.parametrize("algorithm", HMACS)
@pytest.mark.parametrize("kty", ["ES256", "RS256"])
async def test_everything_public_as_a_shared_secret(
    algorithm: str, kty: str, border: Border, issuer: TestIssuer
) -> None:
    """RFC 8725 section 2.1: whatever anyone can fetch, as the secret of an HMAC under the name of the key."""
    key = issuer.key(kty)
    public: dict[str, Any] = key.as_dict(private=False)
    number = public["x"] if kty == "ES256" else public["n"]
    secrets = [
        *(key.as_pem(private=False), key.as_pem(private=False).strip(), key.as_der(private=False)),
        *(dumps(public), dumps(issuer.jwks()), number.encode(), b"", b"\x00", issuer.kid(kty).encode()),
        *(key.as_pem(private=False).replace(b"\n", b"\r\n"), issuer.url.encode()),
    ]
    header = {"alg": algorithm, "typ": "at+jwt", "kid": issuer.kid(kty)}
    message = f"{encode(dumps(header))}.{encode(dumps(human(issuer, tenant='acme')))}"
    for secret in secrets:
        signature = hmac.digest(secret, message.encode(), HMACS[algorithm])
        assert await border.refuse(f"{message}.{encode(signature)}") == "algorithm_not_allowed"


@pytest.mark.parametrize(
    "algorithm",
    [
        *("A128KW", "dir", "ECDH-ES", "RSA-OAEP", "PBES2-HS256+A128KW", "ES256K", "ESP256", "Ed448", "ML-DSA-44"),
        *("RS1", "HS1", "es256", "ES256 ", "ES-256", "SHA256withECDSA", "RS256,ES256", "ES2560", "ES25６"),
    ],
)
async def test_algorithms_that_are_not_ours(algorithm: str, border: Border, issuer: TestIssuer) -> None:
    """For encryption, for other curves, withdrawn, to come, or misspelt: no key is looked at."""
    assert await border.refuse(issuer.mint(header={"alg": algorithm}, tenant="acme")) == "algorithm_not_allowed"


CHOOSING: dict[str, object] = {
    "jku": "https://evil.example/jwks",
    "x5u": "https://evil.example/chain.pem",
    "x5c": ["MIIB"],
    "jwk": {"kty": "oct", "k": "AAAA"},
    "crit": ["http://example.org/unknown"],
    "b64": False,
}


@pytest.mark.parametrize("member", CHOOSING)
@pytest.mark.parametrize("value", ["as meant", None, "", [], {}, 0, False, True, "https://[", "file:///etc/passwd"])
async def test_members_that_choose_keys_or_rules(
    member: str, value: object, border: Border, issuer: TestIssuer
) -> None:
    """RFC 8725 section 3.10: refused by their name, whatever they say, before anything is fetched or read."""
    said = CHOOSING[member] if value == "as meant" else value
    header = {"alg": "ES256", "typ": "at+jwt", "kid": issuer.kid(), member: said}
    assert await border.refuse(issuer.sign(header, human(issuer, tenant="acme"))) == "refused_header_member"
    assert issuer.fetches == 0


async def test_the_attackers_own_key_in_the_header(border: Border, issuer: TestIssuer) -> None:
    """The key in the header does verify the signature, under the id of the issuer's (CVE-2018-0114)."""
    attacker = ECKey.generate_key("P-256", {"kid": issuer.kid()})
    header = issuer.header(jwk=attacker.as_dict(private=False))
    token = compact(dumps(header), dumps(human(issuer, tenant="acme")), attacker, "ES256")
    assert await border.refuse(token) == "refused_header_member"


async def test_a_payload_that_is_not_encoded(border: Border, issuer: TestIssuer) -> None:
    """RFC 7797: with ``b64`` false the claims would stand there in clear."""
    header = encode(dumps(issuer.header(b64=False, crit=["b64"])))
    for payload in (dumps(human(issuer)).decode(), "", "eyJzdWIiOiJib2IifQ"):
        assert await border.refuse(sign_text(issuer, header, payload)) in {"malformed_token", "refused_header_member"}


async def test_the_other_serializations(border: Border, issuer: TestIssuer) -> None:
    """RFC 7515 section 7.2: JSON, general and flattened, with a header that nobody signed; compact is the only form."""
    header, payload, signature = issuer.mint(tenant="acme").split(".")
    loose = {"header": {"kid": issuer.kid(), "alg": "none"}}
    flattened = {"payload": payload, "protected": header, "signature": signature}
    for document in (
        flattened,
        flattened | loose,
        {"payload": payload, "signature": signature, "header": issuer.header()},
        {"payload": payload, "signatures": [{"protected": header, "signature": signature}]},
        {"payload": payload, "signatures": []},
        {"payload": payload, "signatures": [loose | {"signature": ""}, {"protected": header, "signature": signature}]},
    ):
        text = json.dumps(document, separators=(",", ":"))
        assert await border.refuse(text) == "malformed_token"
        assert await border.refuse(encode(text.encode())) == "malformed_token"


@pytest.mark.parametrize("algorithm", ["RSA-OAEP", "RSA-OAEP-256"])
async def test_encrypted_to_a_published_key(algorithm: str, border: Border, issuer: TestIssuer) -> None:
    """Anyone can encrypt claims, or a token, to a public key: that vouches for nothing."""
    key = RSAKey.import_key(issuer.key("RS256").as_pem(private=False))
    header = {"alg": algorithm, "enc": "A128GCM", "kid": issuer.kid("RS256"), "typ": "at+jwt", "cty": "JWT"}
    for content in (dumps(human(issuer)), issuer.mint(tenant="acme").encode()):
        token = jwe.encrypt_compact(header, content, key, algorithms=[algorithm, "A128GCM"])
        assert await border.refuse(token) == "malformed_token"
        assert await border.refuse(".".join(token.split(".")[:3])) in {"payload_not_json", "algorithm_not_allowed"}


HEADERS: dict[str, Callable[[bytes, str], bytes]] = {
    "a member twice, alike": lambda h, kid: h[:-1] + b',"kid":"' + kid.encode() + b'"}',
    "alg twice, the second none": lambda h, _: h[:-1] + b',"alg":"none"}',
    "alg twice, the first none": lambda h, _: b'{"alg":"none",' + h[1:],
    "alg twice, once escaped": lambda h, _: h[:-1] + rb',"\u0061lg":"none"}',
    "typ twice": lambda h, _: h[:-1] + b',"typ":"JWT"}',
    "empty": lambda _h, _: b"{}",
    "a list of headers": lambda h, _: b"[" + h + b"]",
    "text": lambda h, _: json.dumps(h.decode()).encode(),
    "two values": lambda h, _: h + h,
    "something behind": lambda h, _: h + b"x",
    "a comment": lambda h, _: h[:-1] + b"/**/}",
    "a trailing comma": lambda h, _: h[:-1] + b",}",
    "single quotes": lambda h, _: h.replace(b'"', b"'"),
    "a byte order mark": lambda h, _: b"\xef\xbb\xbf" + h,
    "UTF-16": lambda h, _: h.decode().encode("utf-16"),
    "UTF-32": lambda h, _: h.decode().encode("utf-32"),
    "not UTF-8": lambda h, _: h[:-1] + b',"x":"\xff"}',
    "overlong UTF-8": lambda h, _: h[:-1] + b',"x":"\xc0\xae"}',
    "a surrogate in UTF-8": lambda h, _: h[:-1] + b',"x":"\xed\xa0\x80"}',
    "a lone surrogate": lambda h, _: h[:-1] + rb',"x":"\ud800"}',
    "U+0000": lambda h, _: h[:-1] + rb',"x":"\u0000"}',
    "NaN": lambda h, _: h[:-1] + b',"x":NaN}',
    "a number without end": lambda h, _: h[:-1] + b',"x":' + b"9" * 5000 + b"}",
    "very deep": lambda h, _: h[:-1] + b',"x":' + b"[" * 2000 + b"]" * 2000 + b"}",
}


@pytest.mark.parametrize("kind", HEADERS)
async def test_headers_that_two_readers_would_read_differently(kind: str, border: Border, issuer: TestIssuer) -> None:
    """RFC 8725 section 3.7 and RFC 7515 section 4: strict JSON, UTF-8, each member once, even well signed."""
    sound = dumps(issuer.header())
    token = issuer.sign(HEADERS[kind](sound, issuer.kid()), human(issuer, tenant="acme"))
    reason: Defect = "algorithm_not_allowed" if kind == "empty" else "header_not_json"
    assert await border.refuse(token) == reason


TYPES: tuple[object, ...] = (7, 1.5, True, None, [], {}, ["ES256"], {"alg": "ES256"}, [[]], 10**400, -0.0)


@pytest.mark.parametrize("member", ["alg", "typ", "kid"])
@pytest.mark.parametrize("value", TYPES, ids=lambda value: repr(value)[:20])
async def test_members_of_another_type(member: str, value: object, border: Border, issuer: TestIssuer) -> None:
    """A member that is no text names nothing; odd ones have made libraries raise errors of all sorts."""
    header = {**issuer.header(), member: value}
    reason = {"alg": "algorithm_not_allowed", "typ": "wrong_type", "kid": "no_key_id"}[member]
    assert await border.refuse(issuer.sign(header, human(issuer, tenant="acme"))) == reason


Spelling = Callable[[str], str]


def stray_bits(segment: str) -> str:
    """The same bytes, with bits set in the last character that no decoder needs."""
    return segment[:-1] + ALPHABET[ALPHABET.index(segment[-1]) | 1]


WRITINGS: dict[str, Spelling] = {
    "padded": lambda t: t + "=" * (-len(t) % 4),
    "padded too much": lambda t: t + "====",
    "one equals sign": lambda t: t + "=",
    "padded in percent-encoding": lambda t: t + "%3D",
    "a space within": lambda t: t[:8] + " " + t[8:],
    "a space in front": lambda t: " " + t,
    "a space behind": lambda t: t + " ",
    "a tab within": lambda t: t[:8] + "\t" + t[8:],
    "a line end within": lambda t: t[:8] + "\n" + t[8:],
    "a line end behind": lambda t: t + "\n",
    "CR and LF within": lambda t: t[:8] + "\r\n" + t[8:],
    "U+0000 within": lambda t: t[:8] + "\x00" + t[8:],
    "a plus sign": lambda t: t[:8] + "+" + t[9:],
    "a slash": lambda t: t[:8] + "/" + t[9:],
    "a character of no alphabet": lambda t: t[:8] + "!" + t[9:],
    "a letter of another script": lambda t: t[:8] + "А" + t[9:],
    "full width": lambda t: t[:8] + chr(ord(t[8]) + 0xFEE0) + t[9:],
    "a soft hyphen": lambda t: t[:8] + "\u00ad" + t[8:],
    "half a surrogate pair": lambda t: t[:8] + "\udc80" + t[8:],
    "empty": lambda _t: "",
    "a length that no bytes have": lambda t: t + "A" * ((1 - len(t)) % 4),
}


SEGMENTS = ("header", "payload", "signature")

WRITTEN = [
    (kind, position)
    for kind, position in itertools.product(WRITINGS, SEGMENTS)
    # RFC 6750 section 2.1 allows it there: between the scheme and the token.
    if (kind, position) != ("a space in front", "header")
]


@pytest.mark.parametrize(("kind", "position"), WRITTEN)
async def test_one_writing_of_base64_counts(kind: str, position: str, border: Border, issuer: TestIssuer) -> None:
    """RFC 7515 section 2: URL-safe, without padding, line ends or white space. Signed over just what is written."""
    parts = {"header": encode(dumps(issuer.header())), "payload": encode(dumps(human(issuer, tenant="acme")))}
    write = WRITINGS[kind]
    if position == "signature":
        header, payload, signature = sign_text(issuer, parts["header"], parts["payload"]).split(".")
        token = f"{header}.{payload}.{write(signature)}"
    else:
        parts[position] = write(parts[position])
        token = (
            f"{parts['header']}.{parts['payload']}.{encode(bytes(64))}"
            if not f"{parts['header']}{parts['payload']}".isascii()
            else sign_text(issuer, parts["header"], parts["payload"])
        )
    reasons = {"malformed_token", "header_not_json", "payload_not_json", "bad_signature"}
    assert await border.refuse(token) in reasons


@pytest.mark.parametrize("position", SEGMENTS)
async def test_bits_that_no_decoder_needs(position: str, border: Border, issuer: TestIssuer) -> None:
    """RFC 4648 section 3.5: they are zero, or a token has several spellings; even where they are signed."""
    header, claims = issuer.header(), human(issuer, tenant="acme")
    while len(encode(dumps(header))) % 4 == 0:
        header["x"] = str(header.get("x", "")) + "x"
    while len(encode(dumps(claims))) % 4 == 0:
        claims["x"] = str(claims.get("x", "")) + "x"
    parts = [encode(dumps(header)), encode(dumps(claims))]
    assert (await border.gate.admit(sign_text(issuer, *parts))).subject == "alice"
    if position == "signature":
        good = sign_text(issuer, *parts)
        assert await border.refuse(stray_bits(good)) == "bad_signature"
        return
    number = ("header", "payload").index(position)
    parts[number] = stray_bits(parts[number])
    reason: Defect = "header_not_json" if number == 0 else "payload_not_json"
    assert await border.refuse(sign_text(issuer, *parts)) == reason


KIDS = (
    *(
        "../../../../../../dev/null",
        "/dev/null",
        "..\\..\\windows\\win.ini",
        "file:///etc/passwd",
        "/proc/self/environ",
    ),
    *("' OR '1'='1", "x' UNION SELECT 'secret' --", "1; DROP TABLE owners", "%00", "%2e%2e%2f", "${jndi:ldap://x/}"),
    *("{{7*7}}", "$(id)", "`id`", "|id", "a" * 256, "*", "%s%n", "http://127.0.0.1/jwks", "__proto__", "constructor"),
    *("key\u202e", "０", "İ", "k\u0301", " ", "0", "null", "[]"),
)


@pytest.mark.parametrize("kid", KIDS, ids=lambda kid: ascii(kid)[:30])
async def test_key_ids_that_would_be_something_to_a_careless_reader(
    kid: str, border: Border, issuer: TestIssuer
) -> None:
    """Paths, queries, templates, formats: a key id is compared with those of the set and used for nothing else."""
    token = issuer.mint(header={"kid": kid}, tenant="acme")
    assert await border.refuse(token) == "unknown_key"


@pytest.mark.parametrize("length", [257, 4000, 20_000])
async def test_key_ids_without_end(length: int, border: Border, issuer: TestIssuer) -> None:
    """Refused before they are compared with anything."""
    token = issuer.mint(header={"kid": "k" * length}, tenant="acme")
    assert await border.refuse(token) == ("token_too_long" if length > 6000 else "no_key_id")
    assert issuer.fetches == 0


@pytest.mark.parametrize("disguise", [str.upper, str.lower, str.swapcase, lambda kid: f" {kid}", lambda kid: f"{kid} "])
async def test_key_ids_nearly_right(disguise: Callable[[str], str], border: Border, issuer: TestIssuer) -> None:
    """RFC 7515 section 4.1.4: case matters, and so does each blank."""
    kid = disguise(issuer.kid())
    if kid == issuer.kid():
        kid += "x"
    assert await border.refuse(issuer.mint(header={"kid": kid}, tenant="acme")) == "unknown_key"


@pytest.mark.parametrize("dots", ["", ".", "..", "...", "....", ".x", "x.", "x.y", "x..z", ".y.z", "x.y.", "a.b.c.d"])
async def test_another_number_of_segments(dots: str, border: Border) -> None:
    """Three segments, none of them empty."""
    assert await border.refuse(dots or "=") == "malformed_token"


async def test_tokens_put_together_from_good_ones(border: Border, issuer: TestIssuer) -> None:
    """Each segment comes from a token that is good; only together they say something that nobody signed."""
    mine, yours = issuer.mint(tenant="acme").split("."), issuer.mint(sub="bob", tenant="acme").split(".")
    other = issuer.mint(tenant="acme", algorithm="RS256").split(".")
    for first, second, third in itertools.product((mine, yours, other), repeat=3):
        if first[0] == third[0] and second is third:
            continue
        assert await border.refuse(f"{first[0]}.{second[1]}.{third[2]}") == "bad_signature"
