"""The console's templates: escaped as HTML throughout, an unknown name is an error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import aiohttp_jinja2
from aiohttp import web
from jinja2 import DictLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from relay.web.console.files import address
from relay.web.console.shell import SIGN_IN
from relay.web.console.visits import UTC_ZONE, Visit
from relay.web.console.wording import FILTERS

_PACKAGES: Final = ("relay.web.console", "relay.web.console.pages")


@dataclass(frozen=True, slots=True)
class NavigationItem:
    """One entry of the navigation."""

    label: str
    address: str

    def is_current(self, path: str) -> bool:
        """Whether a page at this path belongs to it. The overview's address is the beginning of every other."""
        return path == self.address or (self.address != "/console" and path.startswith(f"{self.address}/"))


def set_up(app: web.Application, *, public_url: str, issuer: str, navigation: Sequence[NavigationItem]) -> None:
    """Make the templates ready, all of them: a fault in one is found at the start."""

    def sign_in_address(following: str, again: bool = False) -> str:  # noqa: FBT001, FBT002 - called by templates
        # At the relay's public address, because the issuer will send the browser back there.
        query = {"next": following, **({"again": "1"} if again else {})}
        return f"{public_url}{SIGN_IN}/start?{urlencode(query)}"

    env = aiohttp_jinja2.setup(
        app,
        loader=DictLoader(_sources()),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals.update(
        static=address,
        issuer=issuer,
        navigation=navigation,
        sign_in_address=sign_in_address,
        csrf_field=_csrf_field,
    )
    env.filters.update(FILTERS, instant=_instant)
    for name in env.list_templates():
        env.get_template(name)


@cache
def _sources() -> Mapping[str, str]:
    """Every template by its name; pages keep theirs beside them."""
    found = {}
    for package in _PACKAGES:
        folder = files(package) / "templates"
        if folder.is_dir():
            found.update({each.name: each.read_text("utf-8") for each in folder.iterdir() if each.is_file()})
    return MappingProxyType(found)


@pass_context
def _csrf_field(context: Context) -> Markup:
    visit: Visit = context["visit"]
    return Markup('<input type="hidden" name="csrf" value="{}">').format(visit.csrf)


@pass_context
def _instant(context: Context, milliseconds: int | None) -> Markup | str:
    """The instant in the reader's zone, with UTC in the title. None: a dash."""
    if milliseconds is None:
        return "–"
    visit: Visit | None = context.get("visit")
    return time_element(milliseconds, UTC_ZONE if visit is None else visit.zone)


def time_element(milliseconds: int, zone: ZoneInfo) -> Markup:
    """``<time>`` as the script finds it: the instant in UTC for machines and in the title, the reader's for the eye."""
    instant = datetime.fromtimestamp(milliseconds / 1000, UTC)
    try:
        local: Any = instant.astimezone(zone)
    except OverflowError:  # the first or the last day that there is
        local, zone = instant, UTC_ZONE
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        instant.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        f"{instant:%Y-%m-%d %H:%M:%S} UTC",
        f"{local:%Y-%m-%d %H:%M:%S}" + (" UTC" if zone.key == "UTC" else ""),
    )
