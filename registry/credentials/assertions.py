"""The two assertions of RFC 7523: a client proving itself, and the relay speaking for an owner who is away."""

from dataclasses import dataclass, field
from typing import Any, Literal

from authlib.oauth2.rfc7523 import private_key_jwt_sign
from authlib.oauth2.rfc7523.assertion import sign_jwt_bearer_assertion
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc.jwk import ECKey, RSAKey

LIFETIME_SECONDS = 60
OWNER_ASSERTION_TYPE = "owner-assertion+jwt"
DETAILS_TYPE = "feedback_submission"

_SMALLEST_RSA_BITS = 2048


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, the one algorithm it is used with, and its RFC 7638 thumbprint."""

    key: ECKey | RSAKey = field(repr=False)
    algorithm: Literal["ES256", "RS256"]
    kid: str


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a token is wanted for: one submission, its task at the specialist, and the SHA-256 (hex) of its bytes."""

    submission_id: str
    task: str
    payload_sha256: str


def signing_key(pem: bytes) -> SigningKey:
    """The key in a PEM file: EC P-256 signs ES256, RSA of at least 2048 bits RS256; ValueError for anything else."""
    try:
        private = load_pem_private_key(pem, password=None)
    except TypeError:
        raise ValueError("holds an encrypted key; store it without a passphrase") from None
    except Exception:  # noqa: BLE001 - the parsers below raise many kinds, and their messages may quote the key
        raise ValueError("holds no private key in PEM") from None
    if isinstance(private, EllipticCurvePrivateKey) and isinstance(private.curve, SECP256R1):
        ec = ECKey.import_key(pem)
        return SigningKey(ec, "ES256", ec.thumbprint())
    if isinstance(private, RSAPrivateKey) and private.key_size >= _SMALLEST_RSA_BITS:
        rsa = RSAKey.import_key(pem)
        return SigningKey(rsa, "RS256", rsa.thumbprint())
    raise ValueError(f"holds neither an EC P-256 key nor an RSA key of at least {_SMALLEST_RSA_BITS} bits")


def client_assertion(key: SigningKey, *, client_id: str, issuer: str, now: float) -> str:
    """``private_key_jwt`` client authentication (RFC 7523 section 2.2), with a fresh ``jti``.

    Its audience is the authorization server's issuer and nothing else: with the token endpoint there, one server
    could replay it at another that is configured with the same endpoint.
    """
    signed: str = private_key_jwt_sign(
        key.key,
        client_id,
        issuer,  # what Authlib calls token_endpoint is the audience
        alg=key.algorithm,
        header={"kid": key.kid},
        issued_at=int(now),
        expires_in=LIFETIME_SECONDS,
    )
    return signed


def owner_assertion(
    key: SigningKey,
    *,
    relay_issuer: str,
    issuer: str,
    client_id: str,
    subject: str,
    purpose: Purpose,
    now: float,
) -> str:
    """The relay asserts that it acts for ``subject`` (RFC 7523 section 2.1), for one submission only (RFC 9396)."""
    claims: dict[str, Any] = {
        "client_id": client_id,
        "act": {"sub": relay_issuer},
        "authorization_details": [
            {
                "type": DETAILS_TYPE,
                "submission_id": purpose.submission_id,
                "task_id": purpose.task,
                "payload_sha256": purpose.payload_sha256,
            }
        ],
    }
    signed: str = sign_jwt_bearer_assertion(
        key.key,
        issuer=relay_issuer,
        audience=issuer,
        subject=subject,
        issued_at=int(now),
        expires_in=LIFETIME_SECONDS,
        claims=claims,
        header={"typ": OWNER_ASSERTION_TYPE, "kid": key.kid},
        alg=key.algorithm,
    )
    return signed
