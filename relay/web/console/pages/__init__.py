"""The console's pages."""

from collections.abc import Iterator

from relay.web.console.pages import bulk, jobs, live, overview, submission, submissions
from relay.web.console.shell import Page


def every() -> Iterator[Page]:
    """All pages, those of the navigation in its order; a path that is more particular before one that is less."""
    for part in (overview, submissions, bulk, submission, jobs, live):
        yield from part.pages
