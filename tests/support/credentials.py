"""A client that is registered at an authorization server, and what it asks for."""

from pathlib import Path
from typing import Any

from joserfc.jwk import ECKey

from registry.credentials import Access, Authorizations, CredentialFailure, Purpose
from registry.model import Credential

ISSUER = "https://login.example.org"
RELAY = "https://relay.example.org"
RESOURCE = "https://literature.example.org"
PURPOSE = Purpose("0b5a1f6e-0f5c-4a53-9a3e-0d8f3f2b7c11", "task-1", "ab" * 32)
KEY = ECKey.generate_key("P-256")


def private_file(path: Path, content: bytes, *, mode: int = 0o600) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


async def access(authorizations: Authorizations, credential: Credential, **options: Any) -> Access:
    """What the credential gives access with, for an attempt like any other."""
    options = {"subject": "alice", "purpose": PURPOSE, "deadline": 10, **options}
    return await authorizations.access_for(credential, **options)


async def failure(authorizations: Authorizations, credential: Credential, **options: Any) -> CredentialFailure:
    """Why the credential gives no access."""
    try:
        await access(authorizations, credential, **options)
    except CredentialFailure as failure:
        return failure
    raise AssertionError("access was given")
