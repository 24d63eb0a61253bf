"""The console's pages."""

from collections.abc import Iterator

from relay.web.console.pages import agent, agents, audit, bulk, jobs, live, overview, submission, submissions, tasks
from relay.web.console.shell import Page


def every() -> Iterator[Page]:
    """All pages, those of the navigation in its order; a path that is more particular before one that is less."""
    for part in (overview, submissions, bulk, submission, agents, agent, jobs, tasks, audit, live):
        yield from part.pages
