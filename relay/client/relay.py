"""The relay as its callers see it: one method for each thing that it does."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Literal, Self, TypeVar

import aiohttp
import msgspec
from typing_extensions import override
from yarl import URL

from relay.client.calling import Calling, GetToken, Request, Tokens, path
from relay.client.errors import NotSavedError
from relay.client.events import Following
from relay.client.model import AnswerTargets, Change, Page, Provenance, RecordedTask, Resync, Submission

DEADLINE_SECONDS = 60.0
TRY_SECONDS = 20.0
"""How long one try may take, beyond what the relay is asked to wait."""

FIRST_LOOK_SECONDS = 0.2
LONGEST_LOOK_SECONDS = 3.0

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Item = TypeVar("Item")


class RelayClient:
    """Calls one relay, as whoever the tokens of ``get_token`` stand for. Use it as a context.

    Calls are repeated by themselves where that is safe and may help, until ``deadline_seconds`` are over: every call
    is idempotent, or repeats the caller's own UUID. Each raises a `ClientError`: `RelayError` for a refusal,
    `UnreachableError` when no answer came in time, `AnswerError` for an answer that is no relay's, `TokenError` when
    there was no token to send.

    ``session``: one of the caller's own, for an authority or a proxy of theirs; it is left open. ``plain_http``: the
    way to the relay is private, so that a token may go over it in the clear.
    """

    def __init__(
        self,
        url: str,
        get_token: GetToken,
        *,
        session: aiohttp.ClientSession | None = None,  # noqa: TID251 - the caller's
        deadline_seconds: float = DEADLINE_SECONDS,
        try_seconds: float = TRY_SECONDS,
        plain_http: bool = False,
    ) -> None:
        self._url = _address(url, plain_http=plain_http)
        self._tokens = Tokens(get_token)
        self._session = session
        self._own: aiohttp.ClientSession | None = None  # noqa: TID251
        self._deadline = deadline_seconds
        self._try = try_seconds

    @override
    def __repr__(self) -> str:
        return f"RelayClient({self._url!r})"

    async def __aenter__(self) -> Self:
        if self._session is None:
            # Not registry.egress, which guards what the relay itself dials: this runs in its callers' programs.
            self._session = self._own = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())  # noqa: TID251
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own is not None:
            await self._own.close()
            self._session = self._own = None

    async def record(self, agent: str, task_id: str, provenance: Provenance) -> RecordedTask:
        """Record which answer a specialist's task belongs to; again when it ends."""
        return await self._call("PUT", path("api", "provenance", "tasks", agent, task_id), RecordedTask, provenance)

    async def answer_targets(self, answer_id: str) -> AnswerTargets:
        """What may be rated of one answer."""
        return await self._call("GET", path("api", "answers", answer_id, "targets"), AnswerTargets)

    def conversation_targets(self, conversation_id: str, *, page_size: int = 50) -> AsyncGenerator[AnswerTargets, None]:
        """What may be rated of each answer of a conversation, oldest first, read page by page."""
        where = path("api", "conversations", conversation_id, "targets")
        return self._pages(where, Page[AnswerTargets], {"limit": str(page_size)})

    async def submit(
        self,
        submission_id: uuid.UUID | str,
        task_id: str,
        rating: Literal["up", "down"],
        *,
        comment: str | None = None,
        agent: str | None = None,
        wait_seconds: int = 2,
    ) -> Submission:
        """Rate a task under a UUID that the caller made, and keeps until it knows the answer.

        After any `UnreachableError` call it again with the same arguments: the rating is stored once.
        ``wait_seconds`` (0 to 10): for how long the answer may wait for the specialist's acknowledgement. The rating
        is stored before that, and `saved` says whether it came.
        """
        body = {"id": str(submission_id), "taskId": task_id, "rating": rating, "comment": comment, "agent": agent}
        given = {name: value for name, value in body.items() if value is not None}
        return await self._call("POST", "/api/feedback", Submission, given, wait=wait_seconds)

    async def retry(self, submission_id: uuid.UUID | str, *, wait_seconds: int = 2) -> Submission:
        """Have a submission sent again, with the same UUID and bytes."""
        where = path("api", "feedback", str(submission_id), "retry")
        return await self._call("POST", where, Submission, wait=wait_seconds)

    async def show(self, submission_id: uuid.UUID | str) -> Submission:
        """One of one's own submissions."""
        return await self._call("GET", path("api", "feedback", str(submission_id)), Submission)

    async def wait_until_saved(self, submission_id: uuid.UUID | str, *, seconds: float) -> Submission:
        """The submission once it is saved.

        Raises `NotSavedError` when it ends otherwise, or is still on its way when ``seconds`` are over. A relay that
        is away in the meantime is waited for as well.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        where = path("api", "feedback", str(submission_id))
        pause = FIRST_LOOK_SECONDS
        while True:
            left = end - loop.time()
            found = await self._call("GET", where, Submission, seconds=max(left, self._try))
            if found.saved:
                return found
            left = end - loop.time()
            if found.final or left <= 0:
                raise NotSavedError(found)
            await asyncio.sleep(min(pause, left))
            pause = min(1.5 * pause, LONGEST_LOOK_SECONDS)

    def submissions(
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        task_id: str | None = None,
        page_size: int = 50,
    ) -> AsyncGenerator[Submission, None]:
        """One's own submissions, newest first, read page by page."""
        filters = {"state": state, "agent": agent, "taskId": task_id, "limit": str(page_size)}
        given = {name: value for name, value in filters.items() if value is not None}
        return self._pages("/api/feedback", Page[Submission], given)

    def events(self, *, last_event_id: str | None = None) -> AsyncGenerator[Change | Resync, None]:
        """One's own submissions as they change, without end; at a `Resync`, list them.

        It reconnects by itself, with a new token when the old one ends. Keep the ``id`` of what was dealt with, to go
        on there later with ``last_event_id``. Without one the events begin now, with a `Resync`.
        """
        return Following(self._calling(), last_event_id, seconds=self._deadline).follow()

    async def _pages(self, where: str, into: type[Page[Item]], query: dict[str, str]) -> AsyncGenerator[Item, None]:
        cursor: str | None = None
        while True:
            asked = query if cursor is None else {**query, "cursor": cursor}
            request = Request(method="GET", path=where, query=asked)
            page = await self._calling().call(request, into, seconds=self._deadline)
            for item in page.items:
                yield item
            cursor = page.next
            if cursor is None:
                return

    async def _call(
        self,
        method: str,
        where: str,
        into: type[Item],
        body: object = None,
        *,
        wait: int | None = None,
        seconds: float | None = None,
    ) -> Item:
        request = Request(
            method=method,
            path=where,
            headers={} if wait is None else {"Prefer": f"wait={wait}" if wait else "respond-async"},
            body=None if body is None else msgspec.json.encode(body),
            wait=wait or 0,
        )
        return await self._calling().call(request, into, seconds=self._deadline if seconds is None else seconds)

    def _calling(self) -> Calling:
        if self._session is None:
            raise RuntimeError("use the client as a context: async with RelayClient(…) as relay")
        return Calling(self._url, self._tokens, self._session, try_seconds=self._try)


def _address(url: str, *, plain_http: bool) -> str:
    """The relay's address without a slash at its end. ValueError for one that is none, or that shows a token around."""
    parsed = URL(url)
    if parsed.scheme not in {"http", "https"} or not parsed.host or "@" in parsed.raw_authority:
        raise ValueError("the relay's address is https://host[:port][/path], without a user")
    if parsed.raw_query_string or parsed.raw_fragment:
        raise ValueError("the relay's address has neither ? nor #")
    if parsed.scheme == "http" and parsed.host not in LOOPBACK and not plain_http:
        raise ValueError("the relay's address has to be https (or http on this machine, or with plain_http=True)")
    return str(parsed).rstrip("/")
