"""Where metadata stands, and which of it counts."""

import json

import pytest

from relay.identity.discovery import MetadataUnusable, jwks_uri, metadata_urls

ISSUER = "https://login.example.org"


@pytest.mark.parametrize(
    ("issuer", "urls"),
    [
        (
            "https://login.example.org",
            [
                "https://login.example.org/.well-known/oauth-authorization-server",
                "https://login.example.org/.well-known/openid-configuration",
            ],
        ),
        (
            "https://login.example.org/",
            [
                "https://login.example.org/.well-known/oauth-authorization-server",
                "https://login.example.org/.well-known/openid-configuration",
            ],
        ),
        (
            "https://login.example.org:8443/realms/staff",
            [
                "https://login.example.org:8443/.well-known/oauth-authorization-server/realms/staff",
                "https://login.example.org:8443/realms/staff/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_the_addresses_of_metadata(issuer: str, urls: list[str]) -> None:
    """RFC 8414 section 3.1 puts the well-known part before the path, OpenID Connect Discovery section 4 after it."""
    assert list(metadata_urls(issuer)) == urls


def document(**members: object) -> bytes:
    return json.dumps({"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks", **members}).encode()


@pytest.mark.parametrize(
    "uri", [f"{ISSUER}/jwks", f"{ISSUER}:443/jwks", "https://LOGIN.example.org/jwks", f"{ISSUER}/a?b=c"]
)
def test_a_key_set_at_the_issuers_origin(uri: str) -> None:
    """The same scheme, host and port, however they are spelled."""
    assert jwks_uri(document(jwks_uri=uri), ISSUER) == uri


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("http://login.example.org/jwks", "jwks_uri_at_another_origin"),
        ("https://login.example.org:8443/jwks", "jwks_uri_at_another_origin"),
        ("https://login.example.org.evil.example/jwks", "jwks_uri_at_another_origin"),
        ("https://login.example.org.:443/jwks", "jwks_uri_at_another_origin"),
        ("https://login.example.org@evil.example/jwks", "jwks_uri_malformed"),
        ("https://evil.example@login.example.org/jwks", "jwks_uri_malformed"),
        ("https://login.example.org:port/jwks", "jwks_uri_malformed"),
        ("https://[login.example.org/jwks", "jwks_uri_malformed"),
        ("//login.example.org/jwks", "jwks_uri_at_another_origin"),
        ("/jwks", "jwks_uri_at_another_origin"),
        ("", "jwks_uri_at_another_origin"),
        (7, "metadata_without_jwks_uri"),
        (None, "metadata_without_jwks_uri"),
    ],
)
def test_a_key_set_elsewhere(uri: object, reason: str) -> None:
    """Another origin has to be configured by a person, and look-alikes are other origins."""
    with pytest.raises(MetadataUnusable) as caught:
        jwks_uri(document(jwks_uri=uri), ISSUER)
    assert caught.value.reason == reason


@pytest.mark.parametrize("issuer", [f"{ISSUER}/", ISSUER.upper(), f"{ISSUER}:443", "", None, [ISSUER]])
def test_metadata_of_another_issuer(issuer: object) -> None:
    """RFC 8414 section 3.3: identical, not merely equivalent."""
    with pytest.raises(MetadataUnusable, match="metadata_of_another_issuer"):
        jwks_uri(document(issuer=issuer), ISSUER)


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"null", b'{"issuer":"a","issuer":"b"}'])
def test_what_is_not_metadata(raw: bytes) -> None:
    """An error page, or an object that two readers would read differently."""
    with pytest.raises(MetadataUnusable, match="metadata_not_json"):
        jwks_uri(raw, ISSUER)
