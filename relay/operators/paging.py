"""Lists of operators: newest or oldest first by a number, with cursors that are good for one tenant and filter."""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from aiohttp import web

from relay.http.cursors import Cursors, scope_of

T = TypeVar("T")

CURSORS: Final = web.AppKey("operator_cursors", Cursors)


class Place(Generic[T]):
    """Where a reader of a list stands. ``position`` is the number after which to go on; None: at the beginning."""

    def __init__(
        self, request: web.Request, tenant: str, name: str, *filters: str | int | None, cursor: str | None
    ) -> None:
        self._cursors = request.app[CURSORS]
        self._scope = scope_of(tenant, f"operator {name}", *filters)
        self.position = None if cursor is None else int(self._cursors.read(self._scope, cursor)[0])

    def page(self, found: Sequence[T], limit: int, number: Callable[[T], int]) -> tuple[Sequence[T], str | None]:
        """The items of a page, of which one more was asked for, and the cursor of the next."""
        items = found[:limit]
        return items, self._cursors.issue(self._scope, [number(items[-1])]) if len(found) > limit else None
