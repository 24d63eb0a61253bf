"""Answers that are not problems: JSON, kept out of caches."""

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web


def json_answer(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:  # noqa: ANN401
    """``value`` (a Struct, or what JSON knows) as application/json."""
    return web.Response(
        status=status, body=msgspec.json.encode(value), content_type="application/json", headers=headers or {}
    )
