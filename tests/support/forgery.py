"""What it takes to make tokens that should not be taken."""

import base64
import json
from collections.abc import Mapping

from tests.support.issuer import TestIssuer


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def unsigned(header: Mapping[str, object], claims: Mapping[str, object], signature: bytes = b"") -> str:
    return ".".join((encode(dumps(header)), encode(dumps(claims)), encode(signature)))


def human(issuer: TestIssuer, **overrides: object) -> dict[str, object]:
    return issuer.claims(**{"sub": "alice", "client_id": "workbench", "scope": "feedback:write", **overrides})
