"""What the address of a list asks for: a form's empty fields say nothing, and times without a zone are the reader's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from aiohttp import web
from msgspec import Struct

from relay.http.parameters import invalid_parameter, read_query

Q = TypeVar("Q", bound=Struct)

MOMENTS: Final = ("since", "until")


@dataclass(frozen=True, slots=True)
class Chip:
    """One part of a filter, and the address of the list without it."""

    name: str
    value: str
    without: str


@dataclass(frozen=True, slots=True)
class Asked(Generic[Q]):
    """A query as the API knows it, and the fields of the form as they were filled in."""

    path: str
    query: Q
    fields: Mapping[str, str]
    zone: ZoneInfo

    def address(self, path: str | None = None, **more: str) -> str:
        """The list under the same filter, from its beginning unless ``more`` names a cursor."""
        fields = {**self.fields, **more}
        return (path or self.path) + (f"?{urlencode(fields)}" if fields else "")

    def chips(self, said: Callable[[str, str], str] = lambda _name, value: value) -> list[Chip]:
        """The filter part by part. ``said`` puts a value into words."""
        return [
            Chip(name, self._moment(value) if name in MOMENTS else said(name, value), self._without(name))
            for name, value in self.fields.items()
            if name != "limit"
        ]

    def local(self, name: str) -> str:
        """A time of the filter as ``<input type="datetime-local">`` takes it."""
        value = self.fields.get(name)
        return "" if value is None else f"{self._local(value):%Y-%m-%dT%H:%M}"

    def _without(self, name: str) -> str:
        rest = {each: value for each, value in self.fields.items() if each != name}
        return self.path + (f"?{urlencode(rest)}" if rest else "")

    def _moment(self, value: str) -> str:
        return f"{self._local(value):%Y-%m-%d %H:%M} {self.zone.key}"

    def _local(self, value: str) -> datetime:
        return datetime.fromisoformat(value).astimezone(self.zone)


def asked(request: web.Request, query: type[Q], zone: ZoneInfo) -> Asked[Q]:
    """Read the address of a page. Raises `Refusal` as `read_query` does; a time that is none is among its reasons."""
    said = [(name, _zoned(name, value, zone)) for name, value in request.query.items() if value]
    read = read_query(request.clone(rel_url=request.rel_url.with_query(said)), query)
    wanted: Any = getattr(read, "wanted", None)
    if wanted is not None:
        wanted()
    fields = {name: value for name, value in said if name != "cursor"}
    return Asked(request.path, read, fields, zone)


def _zoned(name: str, value: str, zone: ZoneInfo) -> str:
    if name not in MOMENTS:
        return value
    try:
        moment = datetime.fromisoformat(value)
        local = moment.astimezone(zone) if moment.tzinfo else moment.replace(tzinfo=zone)
        return local.astimezone(UTC).isoformat()
    except ValueError:
        return value
    except OverflowError:
        raise invalid_parameter(name, "no calendar of this console goes as far") from None
