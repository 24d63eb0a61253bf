"""Where an issuer keeps its keys, from its metadata (RFC 8414, OpenID Connect Discovery 1.0)."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from registry import strict_json

MAX_METADATA_BYTES: Final = 65_536
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


class MetadataUnusable(Exception):  # noqa: N818 - reads as what it says
    """The metadata cannot be used. ``reason`` is a code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def metadata_urls(issuer: str) -> Iterator[str]:
    """Where the metadata may stand, most specific first.

    RFC 8414 section 3.1 inserts the well-known part before the issuer's path; OpenID Connect Discovery section 4
    appends it. Both first drop a slash at the end.
    """
    scheme, netloc, path, _, _ = urlsplit(issuer)
    path = path.rstrip("/")
    yield urlunsplit((scheme, netloc, f"/.well-known/oauth-authorization-server{path}", "", ""))
    yield urlunsplit((scheme, netloc, f"{path}/.well-known/openid-configuration", "", ""))


def jwks_uri(document: bytes, issuer: str) -> str:
    """The address of the key set. Raises `MetadataUnusable`.

    The ``issuer`` member must be the issuer, code point by code point (RFC 8414 section 3.3), or one issuer could
    speak for another. An address at another origin has to be configured by a person.
    """
    metadata = trusted(document, issuer)
    uri = metadata.get("jwks_uri")
    if not isinstance(uri, str):
        raise MetadataUnusable("metadata_without_jwks_uri")
    if _origin(uri) != _origin(issuer):
        raise MetadataUnusable("jwks_uri_at_another_origin")
    return uri


def endpoint(document: bytes, issuer: str, name: str) -> str:
    """The address under ``name`` (such as ``token_endpoint``), at the issuer's own origin. Raises `MetadataUnusable`.

    As with `jwks_uri`: what stands in a document does not decide where secrets go.
    """
    metadata = trusted(document, issuer)
    uri = metadata.get(name)
    if not isinstance(uri, str):
        raise MetadataUnusable(f"metadata_without_{name}")
    if _origin(uri) != _origin(issuer):
        raise MetadataUnusable(f"{name}_at_another_origin")
    return uri


def trusted(document: bytes, issuer: str) -> dict[str, Any]:
    """The metadata, which is this issuer's own. Raises `MetadataUnusable`."""
    metadata = _object(document)
    if metadata.get("issuer") != issuer:
        raise MetadataUnusable("metadata_of_another_issuer")
    return metadata


def _object(document: bytes) -> dict[str, Any]:
    try:
        metadata = strict_json.loads(document)
    except strict_json.NotStrictJson:
        raise MetadataUnusable("metadata_not_json") from None
    if not isinstance(metadata, dict):
        raise MetadataUnusable("metadata_not_json")
    return metadata


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise MetadataUnusable("jwks_uri_malformed") from None
    if "@" in parts.netloc:
        raise MetadataUnusable("jwks_uri_malformed")
    return parts.scheme, parts.hostname, port or _DEFAULT_PORTS.get(parts.scheme)
