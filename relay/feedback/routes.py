"""``/api/feedback`` and the targets of answers and conversations."""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec
from aiohttp import web

from relay.clock import Clock
from relay.errors import Refusal
from relay.feedback import contract
from relay.feedback.feed import Feed, Position, Resync
from relay.feedback.refusals import refuse
from relay.feedback.store import Filter, Submissions
from relay.feedback.submitting import Answered, Submitting
from relay.feedback.targets import Targets
from relay.feedback.wire import FeedbackBody, FeedbackQuery, SubmissionPage, TargetsPage, shown
from relay.http.answers import json_answer
from relay.http.bodies import read_json
from relay.http.cursors import Cursors, scope_of
from relay.http.events import KEEP_ALIVE_SECONDS, EventStream
from relay.http.identifiers import path_identifier
from relay.http.limits import MAX_BODY_BYTES
from relay.http.observation import TRACE
from relay.http.operations import described
from relay.http.parameters import NoParameters, Page, invalid_parameter, read_query, segment
from relay.http.preferences import Preference, read_preference
from relay.identity.authentication import authorize, authorize_any
from relay.identity.model import Owner, Principal
from relay.identity.owners import Owners

SUBMITTING: Final = web.AppKey("submitting", Submitting)
SUBMISSIONS: Final = web.AppKey("submissions", Submissions)
TARGETS: Final = web.AppKey("targets", Targets)
OWNERS: Final = web.AppKey("owners", Owners)
CURSORS: Final = web.AppKey("cursors", Cursors)
FEED: Final = web.AppKey("feed", Feed)
CLOCK: Final = web.AppKey("clock", Clock)

routes = web.RouteTableDef()


@routes.post("/api/feedback", name="submit_feedback")
@described(contract.SUBMIT)
async def submit(request: web.Request) -> web.Response:
    """Rate one specialist task.

    The submission is committed before any answer but an error; then the answer waits for the specialist's
    acknowledgement as ``Prefer`` says. Send the very same request again whenever an answer is lost: an exact repeat
    changes nothing, and has a waiting submission tried now. A rating is never edited.
    """
    principal = await authorize(request, "feedback:write")
    read_query(request, NoParameters)
    preference = read_preference(request)
    body = await read_json(request, FeedbackBody, max_bytes=request.app[MAX_BODY_BYTES])
    answered = await request.app[SUBMITTING].submit(
        principal, body.offer(), wait=preference.wait, trace_context=request[TRACE].traceparent
    )
    return _answer(answered, preference)


@routes.post(f"/api/feedback/{segment('id')}/retry", name="retry_feedback")
@described(contract.RETRY)
async def retry(request: web.Request) -> web.Response:
    """Try a submission again, with the same UUID and bytes.

    Takes no body. Never overrides a wait that the specialist asked for, an open breaker, or an operator's hold.
    """
    principal = await authorize(request, "feedback:write")
    read_query(request, NoParameters)
    preference = read_preference(request)
    answered = await request.app[SUBMITTING].retry(principal, _submission_id(request), wait=preference.wait)
    return _answer(answered, preference)


@routes.get("/api/feedback", name="list_feedback")
@described(contract.LIST)
async def page(request: web.Request) -> web.Response:
    """The caller's own submissions, newest first."""
    principal = await authorize(request, "feedback:read")
    query = read_query(request, FeedbackQuery)
    owner = await _owner(request, principal)
    scope = scope_of(owner.key if owner else "", "feedback", query.state, query.agent, query.task_id)
    before = _position(request, scope, query.cursor)
    if owner is None:
        return json_answer(SubmissionPage(items=[], next=None))
    wanted = Filter(query.state, query.agent, query.task_id)
    found = await request.app[SUBMISSIONS].page(owner.id, wanted, before=before, most=query.limit + 1)
    items = found[: query.limit]
    following = request.app[CURSORS].issue(scope, [items[-1].seq]) if len(found) > query.limit else None
    return json_answer(SubmissionPage(items=[shown(s) for s in items], next=following))


@routes.get("/api/feedback/events", name="feedback_events", allow_head=False)
@described(contract.EVENTS)
async def events(request: web.Request) -> web.StreamResponse:
    """The caller's own submissions as they change, until the token ends.

    Resumable with ``Last-Event-ID``; without one the stream begins now. The first line is an id alone, so that a
    client which is cut off before the first event can resume as well. ``event: resync`` says that what happened since
    the ``Last-Event-ID`` is not kept any more: list again; the stream goes on from now.
    """
    principal = await authorize(request, "feedback:read")
    read_query(request, NoParameters)
    owner = await _owner(request, principal)
    scope = scope_of(owner.key if owner else "", "events")
    position = await _resume_at(request, scope, scope_of("", "events"))
    seconds = principal.expires_at - request.app[CLOCK].unix()
    async with EventStream(request, seconds=seconds) as stream:
        await stream.send_id(_event_id(request, scope, position))
        if owner is None:
            # Nothing is stored of them yet, so there is nothing to tell; they come again when the stream ends.
            await asyncio.sleep(KEEP_ALIVE_SECONDS)
        else:
            await _send_changes(request, stream, owner, scope, position)
    return stream.response


async def _resume_at(request: web.Request, *scopes: str) -> Position:
    """A position of this owner, or one from before anything was stored of them: both name no other owner."""
    last = request.headers.get("Last-Event-ID")
    if not last:
        return await request.app[FEED].tail()
    for scope in scopes:
        with suppress(Refusal):
            # Without an epoch: from before there were any.
            xid, seq, *epoch = request.app[CURSORS].read(scope, last)
            return Position(str(xid), int(seq), str(epoch[0]) if epoch else "")
    raise invalid_parameter("Last-Event-ID", "it was not issued to this owner; connect again without it")


async def _send_changes(
    request: web.Request, stream: EventStream, owner: Owner, scope: str, position: Position
) -> None:
    async for news in request.app[FEED].follow(owner.id, position, idle=KEEP_ALIVE_SECONDS):
        if isinstance(news, Resync):
            await stream.send("{}", event="resync", id=_event_id(request, scope, news.position))
            continue
        if not news:
            await stream.keep_alive()
        # Several changes of one submission show the same state: only the newest is sent.
        for change in {c.submission: c for c in news}.values():
            submission = await request.app[SUBMISSIONS].get(change.submission)
            data = msgspec.json.encode(shown(submission)).decode()
            await stream.send(data, event="feedback", id=_event_id(request, scope, change.position))


def _event_id(request: web.Request, scope: str, position: Position) -> str:
    return request.app[CURSORS].issue(scope, [position.xid, position.seq, position.epoch])


@routes.get(f"/api/feedback/{segment('id')}", name="show_feedback")
@described(contract.SHOW)
async def show(request: web.Request) -> web.Response:
    """One of the caller's own submissions."""
    principal = await authorize(request, "feedback:read")
    read_query(request, NoParameters)
    owner = await _owner(request, principal)
    found = None if owner is None else await request.app[SUBMISSIONS].find(owner.id, _submission_id(request))
    if found is None:
        raise refuse("submission_not_found")
    return json_answer(shown(found))


@routes.get(f"/api/answers/{segment('answerId')}/targets", name="answer_targets")
@described(contract.TARGETS_OF_ANSWER)
async def answer_targets(request: web.Request) -> web.Response:
    """The specialists behind one answer."""
    principal = await authorize_any(request, "feedback:read", "provenance:write")
    read_query(request, NoParameters)
    answer = path_identifier(request, "answerId")
    owner = await _owner(request, principal)
    return json_answer(await request.app[TARGETS].of_answer(owner, answer, tenant=principal.tenant))


@routes.get(f"/api/conversations/{segment('conversationId')}/targets", name="conversation_targets")
@described(contract.TARGETS_OF_CONVERSATION)
async def conversation_targets(request: web.Request) -> web.Response:
    """The specialists behind every answer of a conversation, oldest answer first."""
    principal = await authorize_any(request, "feedback:read", "provenance:write")
    query = read_query(request, Page)
    conversation = path_identifier(request, "conversationId")
    owner = await _owner(request, principal)
    scope = scope_of(owner.key if owner else "", "conversation", conversation)
    after = _position(request, scope, query.cursor)
    items, last = await request.app[TARGETS].of_conversation(
        owner, conversation, tenant=principal.tenant, after=after or 0, limit=query.limit
    )
    following = None if last is None else request.app[CURSORS].issue(scope, [last])
    return json_answer(TargetsPage(items=items, next=following))


async def _owner(request: web.Request, principal: Principal) -> Owner | None:
    return await request.app[OWNERS].find(principal.owner)


def _submission_id(request: web.Request) -> str:
    """As stored: lower case. Anything that is no UUID is simply not there."""
    return request.match_info["id"].lower()


def _position(request: web.Request, scope: str, cursor: str | None) -> int | None:
    if cursor is None:
        return None
    return int(request.app[CURSORS].read(scope, cursor)[0])


def _answer(answered: Answered, preference: Preference) -> web.Response:
    submission = answered.submission
    headers = {"Location": f"/api/feedback/{submission.id}", **preference.headers}
    return json_answer(shown(submission), status=answered.status, headers=headers)
