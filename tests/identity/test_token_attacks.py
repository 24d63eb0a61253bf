"""Tokens that somebody made to get in. Each is refused, for the right reason, with the one 401."""

import base64
import contextlib
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jwe
from joserfc.jwk import ECKey, RSAKey

from relay.errors import Refusal
from relay.identity.claims import LATEST_INSTANT
from relay.identity.compact import MAX_TOKEN_BYTES, is_name
from relay.identity.refusals import Defect
from tests.conftest import TurnableClock
from tests.identity.conftest import Gate
from tests.support.issuer import LIFETIME, TestIssuer, compact

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

any_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def unsigned(header: Mapping[str, object], claims: Mapping[str, object], signature: bytes = b"") -> str:
    return ".".join((encode(dumps(header)), encode(dumps(claims)), encode(signature)))


def human(issuer: TestIssuer, **overrides: object) -> dict[str, object]:
    return issuer.claims(**{"sub": "alice", "client_id": "workbench", "scope": "feedback:write", **overrides})


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
    ("iss", "reason"),
    [
        (lambda url: url + "/", "unknown_issuer"),
        (lambda url: url.upper(), "unknown_issuer"),
        (lambda url: url + "#", "unknown_issuer"),
        (lambda _: "https://evil.example.org", "unknown_issuer"),
        (lambda url: [url], "unknown_issuer"),
        (lambda url: {"url": url}, "unknown_issuer"),
        (lambda _: None, "unknown_issuer"),
        (lambda _: 7, "unknown_issuer"),
    ],
)
async def test_other_issuers(iss: Callable[[str], object], reason: Defect, gate: Gate, issuer: TestIssuer) -> None:
    """The issuer is one that is configured, code point by code point, and nothing is fetched to find out."""
    assert await gate.refuse(issuer.mint(iss=iss(issuer.url))) == reason
    assert issuer.fetches == 0


NOT_A_TIME: list[object] = [
    True,
    "1800000000",
    "１８０００００３００",
    None,
    -1,
    1_800_000_300_000,
    10**400,
    [1_800_000_300],
    {},
]


@pytest.mark.parametrize("claim", ["exp", "iat"])
@pytest.mark.parametrize("value", NOT_A_TIME, ids=repr)
async def test_times_that_are_none(claim: str, value: object, gate: Gate, issuer: TestIssuer) -> None:
    """RFC 7519 section 2: seconds, as a number; a boolean, text, milliseconds or a huge integer is refused."""
    overrides: dict[str, Any] = {claim: value}
    assert await gate.refuse(issuer.mint(**overrides)) == "malformed_time"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_times_that_never_pass(literal: str, gate: Gate, issuer: TestIssuer) -> None:
    """An expiry that compares false with everything would never come: such a payload is not JSON at all."""
    claims = dumps(human(issuer, exp=0)).replace(b'"exp":0', b'"exp":' + literal.encode())
    assert await gate.refuse(issuer.sign(issuer.header(), claims)) == "payload_not_json"


async def test_times_out_of_order(gate: Gate, issuer: TestIssuer, clock: TurnableClock) -> None:
    """Expired, not valid yet, issued in the future, or expiring before it was issued."""
    now = int(clock.unix())
    assert await gate.refuse(issuer.mint(iat=now - 60, exp=now)) == "expired"
    assert await gate.refuse(issuer.mint(nbf=now + 61)) == "not_yet_valid"
    assert await gate.refuse(issuer.mint(iat=now + 61)) == "issued_in_the_future"
    assert await gate.refuse(issuer.mint(iat=now + 30, exp=now + 20)) == "malformed_time"
    assert await gate.refuse(issuer.mint(nbf=True)) == "malformed_time"
    assert await gate.refuse(issuer.sign(issuer.header(), human(issuer) | {"nbf": None})) == "malformed_time"


@pytest.mark.parametrize(
    "audience",
    [
        None,
        "",
        [],
        "https://relay.example.org/",
        "https://RELAY.example.org",
        ["https://other.example.org"],
        ["https://relay.example.org", 7],
        {"https://relay.example.org": True},
        "https://relay.example.org https://other.example.org",
        [["https://relay.example.org"]],
    ],
    ids=repr,
)
async def test_tokens_for_somebody_else(audience: object, gate: Gate, issuer: TestIssuer) -> None:
    """A token that another service was given does not work here."""
    assert await gate.refuse(issuer.mint(aud=audience)) == "wrong_audience"


@pytest.mark.parametrize("value", [None, "", 7, True, ["x"], {}, "x" * 257, "a\tb", "a\x7f", "a\x85b"], ids=repr)
@pytest.mark.parametrize(
    ("claim", "reason"),
    [("sub", "malformed_subject"), ("client_id", "malformed_client"), ("jti", "malformed_token_id")],
)
async def test_names_that_are_none(claim: str, reason: Defect, value: object, gate: Gate, issuer: TestIssuer) -> None:
    """Who somebody is has to be text: not empty, at most 256 characters, no controls."""
    overrides: dict[str, Any] = {claim: value}
    assert await gate.refuse(issuer.mint(**overrides)) == reason


@pytest.mark.parametrize("claim", ["sub", "client_id"])
@pytest.mark.parametrize("escape", [rb"\u0000", rb"\ud800"])
async def test_names_that_no_store_takes(claim: str, escape: bytes, gate: Gate, issuer: TestIssuer) -> None:
    """NUL and half a surrogate pair are refused with the payload they stand in."""
    claims = dumps(human(issuer, **{claim: "HERE"})).replace(b"HERE", b"a" + escape)
    assert await gate.refuse(issuer.sign(issuer.header(), claims)) == "payload_not_json"


@pytest.mark.parametrize("scope", [7, None, ["operator:write"], {"operator:write": True}])
async def test_scopes_that_are_no_text(scope: object, gate: Gate, issuer: TestIssuer) -> None:
    """RFC 9068 section 2.2.3: one string."""
    claims = human(issuer) | {"scope": scope}
    assert await gate.refuse(issuer.sign(issuer.header(), claims)) == "malformed_scope"


async def test_claims_that_stand_twice(gate: Gate, issuer: TestIssuer) -> None:
    """Two readers could take different ones, so neither is taken: in the payload and in the header."""
    claims, header = dumps(human(issuer)), dumps(issuer.header())
    twice = claims[:-1] + b',"sub":"bob"}'
    assert await gate.refuse(issuer.sign(issuer.header(), twice)) == "payload_not_json"
    assert await gate.refuse(issuer.sign(header[:-1] + b',"alg":"none"}', human(issuer))) == "header_not_json"
    assert await gate.refuse(issuer.sign(header[:-1] + b',"\\u0061lg":"ES256"}', human(issuer))) == "header_not_json"


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


ALPHABET = st.sampled_from("ABCZabcz0189-_.=+/ é١")


@st.composite
def mutations(draw: st.DrawFn) -> Callable[[str], str]:
    """One edit of a text: cut, insert, replace, double or swap segments."""
    start = draw(st.integers(0, 700))
    length = draw(st.integers(0, 40))
    text = draw(st.text(ALPHABET, max_size=6))
    kind = draw(st.sampled_from(["splice", "double", "swap"]))

    def edit(token: str) -> str:
        at = start % len(token)
        if kind == "splice":
            return token[:at] + text + token[at + length :]
        if kind == "double":
            return token[:at] + token[at : at + length] + token[at:]
        segments = token.split(".")
        return ".".join(segments[start % 3 :] + segments[: start % 3])

    return edit


@any_fixture
@given(edits=st.lists(mutations(), min_size=1, max_size=3))
async def test_no_mutation_of_a_good_token_is_good(
    edits: list[Callable[[str], str]], gate: Gate, issuer: TestIssuer
) -> None:
    """Whatever is cut, inserted, doubled or swapped in a token: it is refused, and never with another error."""
    token = issuer.mint(jti="fixed")
    spoilt = token
    for edit in edits:
        spoilt = edit(spoilt) or "x"
    if spoilt.lstrip(" ") != token:
        await gate.refuse(spoilt)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
CLAIMS = ["iss", "aud", "exp", "iat", "nbf", "sub", "jti", "client_id", "scope"]
MEMBERS = ["alg", "typ", "kid", "cty", "x5t", "x5t#S256", "enc", "zip", "p2c", "epk"]


@any_fixture
@given(claims=st.dictionaries(st.sampled_from(CLAIMS), JSON, min_size=1), data=st.data())
async def test_whatever_an_issuer_signs_only_the_one_refusal_comes_out(
    claims: dict[str, Any], data: st.DataObject, gate: Gate, issuer: TestIssuer
) -> None:
    """Claims of any shape under a good signature make a principal of sound members, or the one 401."""
    header = issuer.header(**data.draw(st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=2)))
    with contextlib.suppress(Refusal):
        caller = await gate.admit(issuer.sign(dumps(header), dumps(human(issuer) | claims)))
        assert is_name(caller.subject)
        assert is_name(caller.client)
        assert caller.issuer == issuer.url
        assert issuer.now() < caller.expires_at < LATEST_INSTANT


@any_fixture
@given(value=st.text(st.characters(), max_size=200) | st.binary(max_size=200).map(lambda b: "Bearer " + encode(b)))
async def test_whatever_the_header_says_only_the_one_refusal_comes_out(value: str, gate: Gate) -> None:
    """Any text, half surrogates too, as the value of the Authorization header."""
    with pytest.raises(Refusal, match="unauthenticated"):
        await gate.verifier.verify([value])


def test_the_lifetime_leaves_room_for_the_clock() -> None:
    """The issuer's tokens outlive the leeway, or the tests of times would show nothing."""
    assert LIFETIME > 60
