"""The console's pages."""

from collections.abc import Iterator

from relay.web.console.pages import overview
from relay.web.console.shell import Page


def every() -> Iterator[Page]:
    """All pages, those of the navigation in its order."""
    yield from overview.pages
