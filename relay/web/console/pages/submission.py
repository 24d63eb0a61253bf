"""``/console/submissions/{owner}/{id}``: the story of one submission, and what may be done about it."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from aiohttp import web

from relay.delivery.model import State
from relay.errors import Refusal
from relay.http.parameters import NoParameters, read_query, segment
from relay.operators.actors import actor
from relay.operators.submissions.acting import Acted
from relay.operators.submissions.actions import absent
from relay.operators.submissions.model import Outcome, Story, Submission
from relay.operators.submissions.routes import ACTIONS, SUBMISSIONS
from relay.web.console.pages.refusing import not_done, reason
from relay.web.console.shell import ROOT, Pages, render, see_other
from relay.web.console.visits import Visit

_ONE: Final = f"/submissions/{segment('owner')}/{segment('id')}"

_RETRY: Final[dict[State, str]] = {
    "pending": "Retry now",
    "held": "Retry as soon as it may be",
    "needs_owner": "Retry as soon as it may be",
    "rejected": "Retry",
    "exhausted": "Retry",
    "abandoned": "Reopen",
}
_WAITING: Final[frozenset[State]] = frozenset({"pending", "held", "needs_owner"})

_DONE: Final[dict[Outcome, str]] = {
    "reopened": "It starts a new schedule",
    "made_due": "It is due now",
    "already_due": "It was due already, nothing had to be changed",
    "being_sent": "It is being sent this moment",
    "abandoned": "It is given up",
}

pages = Pages()


@dataclass(frozen=True, slots=True)
class Doable:
    """What may be done in a state: the word on the button, None where there is no such button."""

    retry: str | None
    abandon: str | None

    @classmethod
    def with_(cls, submission: Submission) -> "Doable":
        if submission.erased_at is not None:
            return cls(None, None)
        state = submission.state
        return cls(_RETRY.get(state), "Abandon" if state in _WAITING else None)


@pages.get(_ONE, name="console_submission")
async def show(request: web.Request, visit: Visit) -> web.StreamResponse:
    """One submission with the timeline of its attempts, what is sent, what came back, provenance and evidence."""
    read_query(request, NoParameters)
    owner, submission = _named(request)
    story = await _story(request, visit)
    sent = await request.app[SUBMISSIONS].sent(visit.principal.tenant, owner, submission)
    address = address_of(owner, submission)
    values = {
        "story": story,
        "one": story.submission,
        "sent": sent,
        "address": address,
        "live": address.replace(ROOT, f"{ROOT}/live", 1),
        "can": Doable.with_(story.submission),
        "may_write": "operator:write" in visit.principal.scopes,
    }
    return render(request, visit, "submission.html", values)


@pages.post(f"{_ONE}/retry", name="console_retry")
async def retry(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Have it sent again, with the same UUID and bytes; what was given up is opened again."""
    return await _act(request, visit, retry=True)


@pages.post(f"{_ONE}/abandon", name="console_abandon")
async def abandon(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Give up what waits."""
    return await _act(request, visit, retry=False)


async def _act(request: web.Request, visit: Visit, *, retry: bool) -> web.StreamResponse:
    named = _named(request)
    address = address_of(*named)
    actions, tenant = request.app[ACTIONS], visit.principal.tenant
    try:
        why, by = reason(visit), await actor(request, visit.principal)
        act = actions.retry if retry else actions.abandon
        acted = await act(tenant, *named, by=by, why=why)
    except Refusal as refusal:
        if refusal.code == "submission_not_found":
            raise
        return not_done(request, visit, refusal, address=address, label="The submission as it stands now")
    return see_other(request, address, _said(acted))


def _said(acted: Acted) -> str:
    what = _DONE.get(acted.outcome, acted.outcome)
    return f"{what}: it was {acted.before.replace('_', ' ')}, now it is {acted.after.replace('_', ' ')}."


async def _story(request: web.Request, visit: Visit) -> Story:
    story = await request.app[SUBMISSIONS].story(visit.principal.tenant, *_named(request))
    if story is None:
        raise absent()
    return story


def address_of(owner: str, submission: str) -> str:
    """The page of a submission."""
    return f"{ROOT}/submissions/{quote(owner, safe='')}/{quote(submission, safe='')}"


def _named(request: web.Request) -> tuple[str, str]:
    return request.match_info["owner"], request.match_info["id"].lower()
