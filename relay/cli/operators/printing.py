"""What goes to the screen: times in the reader's zone, nothing that a terminal would obey, JSON for programs."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from relay.cli.tables import natural_width, print_table

_OBEYED: Final = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *range(0x200E, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
"""Control characters, which begin what terminals obey, and those that turn the direction of the text around them."""

_SHOWN: Final = dict.fromkeys(_OBEYED, "�") | {ord("\n"): " ⏎ ", ord("\t"): " "}
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in _OBEYED if code >= 0x20}  # noqa: PLR2004


def plain(value: object) -> str:
    """A text of somebody else's on one line, harmless in a terminal. None is nothing."""
    return "" if value is None else str(value).translate(_SHOWN)


def when(moment: str | None, zone: tzinfo) -> str:
    """A time of the API (RFC 3339) in a zone, to the second."""
    if moment is None:
        return ""
    local = datetime.fromisoformat(moment).astimezone(zone)
    written = local.isoformat(sep=" ", timespec="seconds")
    return written.replace("+00:00", "Z") if zone is UTC else written


def zone_of(name: str) -> tzinfo:
    """The zone of an IANA name. Raises `click.UsageError`."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        advice = "there is no such zone; give an IANA name, such as Europe/Berlin or UTC"
        raise click.UsageError(f"--zone {name}: {advice}") from None


def print_rows(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    """A table; on a terminal too narrow for it row after row, so that what one needs next can be copied whole."""
    from rich.console import Console

    shown = [tuple(map(plain, row)) for row in rows]
    console = Console()
    if not console.is_terminal or natural_width(columns, shown) <= console.width:
        print_table(columns, shown)
        return
    for number, row in enumerate(shown):
        if number:
            click.echo()
        print_facts(dict(zip(columns, row, strict=True)))


def print_facts(facts: Mapping[str, object]) -> None:
    """Names and what they are, one on a line; what is not there is left out."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        if value not in (None, ""):
            click.echo(f"{name:<{width}}  {plain(value)}")


def print_line(document: object) -> None:
    """One line of JSON Lines."""
    click.echo(as_json(document))


def print_document(document: object) -> None:
    click.echo(as_json(document, indent=2))


def as_json(document: object, *, indent: int | None = None) -> str:
    """JSON that a terminal shows as it is."""
    return json.dumps(document, indent=indent, ensure_ascii=False).translate(_ESCAPED)


def told(counts: Mapping[str, Any]) -> str:
    """Counts by name, on one line."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "none"
