"""Time zones by their names in the IANA database."""

import asyncio
from datetime import tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from relay.http.parameters import invalid_parameter


async def zone_named(name: str) -> tzinfo:
    """The zone of this name. Raises `Refusal`: 400 that names the parameter."""
    # Zones are files, the list of them is many.
    zone = await asyncio.to_thread(_find, name)
    if zone is None:
        raise invalid_parameter("zone", "there is no such zone; give an IANA name, such as Europe/Berlin or UTC")
    return zone


def _find(name: str) -> tzinfo | None:
    # Names are looked up in a list before they are looked up in a directory.
    return ZoneInfo(name) if name in _names() else None


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones())
