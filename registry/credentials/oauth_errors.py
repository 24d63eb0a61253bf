"""The error codes of OAuth servers (RFC 6749 section 5.2)."""

import re

from registry.egress import Exchange
from registry.strict_json import NotStrictJson, loads

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


def error_code(answer: Exchange) -> str | None:
    """The server's ``error``, if it looks like one: ``error_description`` may quote what we sent and is dropped."""
    if not answer.complete:
        return None
    try:
        members = loads(answer.body)
    except NotStrictJson:
        return None
    error = members.get("error") if isinstance(members, dict) else None
    return error if isinstance(error, str) and _CODE.fullmatch(error) else None
