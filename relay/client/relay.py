"""The relay as its callers see it: one method for each thing that it does."""

import asyncio
import uuid
from collections.abc import AsyncIterator
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
"""How long one try may take: more than the ten seconds for which an answer waits at most."""

FIRST_LOOK_SECONDS = 0.2
LONGEST_LOOK_SECONDS = 5.0

Item = TypeVar("Item")


class RelayClient:
    """Calls one relay, as whoever the tokens of ``get_token`` stand for. Use it as a context.

    Calls are repeated by themselves where that is safe and may help, until ``deadline_seconds`` are over: every call
    is idempotent, or repeats the caller's own UUID. Each raises `RelayError` for a refusal, `UnreachableError` when
    no answer came in time, and `AnswerError` for an answer that is no relay's. A session of the caller's own is used
    as it is, and left open.
    """

    def __init__(
        self,
        url: str,
        get_token: GetToken,
        *,
        session: aiohttp.ClientSession | None = None,  # noqa: TID251 - the caller's
        deadline_seconds: float = DEADLINE_SECONDS,
        try_seconds: float = TRY_SECONDS,
    ) -> None:
        parsed = URL(url)
        if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.user or parsed.query or parsed.fragment:
            raise ValueError("the relay's address is http(s)://host[:port][/path], without user, query or fragment")
        self._url = str(parsed).rstrip("/")
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
            self._session = self._own = aiohttp.ClientSession()  # noqa: TID251
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

    def conversation_targets(self, conversation_id: str, *, page_size: int = 50) -> AsyncIterator[AnswerTargets]:
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
        ``wait_seconds`` (0 to 10): for how long the answer may wait for the specialist's acknowledgement.
        """
        body = {"id": str(submission_id), "taskId": task_id, "rating": rating, "comment": comment, "agent": agent}
        given = {name: value for name, value in body.items() if value is not None}
        return await self._call("POST", "/api/feedback", Submission, given, prefer=f"wait={wait_seconds}")

    async def retry(self, submission_id: uuid.UUID | str, *, wait_seconds: int = 2) -> Submission:
        """Have a submission sent again, with the same UUID and bytes."""
        where = path("api", "feedback", str(submission_id), "retry")
        return await self._call("POST", where, Submission, prefer=f"wait={wait_seconds}")

    async def show(self, submission_id: uuid.UUID | str) -> Submission:
        """One of one's own submissions."""
        return await self._call("GET", path("api", "feedback", str(submission_id)), Submission)

    async def wait_until_saved(self, submission_id: uuid.UUID | str, *, seconds: float) -> Submission:
        """The submission once it is saved.

        Raises `NotSavedError` when it ends otherwise, or is still on its way when ``seconds`` are over.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        pause = FIRST_LOOK_SECONDS
        while True:
            found = await self.show(submission_id)
            if found.saved and found.erased_at is None:
                return found
            if found.final or loop.time() + pause > end:
                raise NotSavedError(found)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK_SECONDS)

    def submissions(
        self,
        *,
        state: str | None = None,
        agent: str | None = None,
        task_id: str | None = None,
        page_size: int = 50,
    ) -> AsyncIterator[Submission]:
        """One's own submissions, newest first, read page by page."""
        filters = {"state": state, "agent": agent, "taskId": task_id, "limit": str(page_size)}
        given = {name: value for name, value in filters.items() if value is not None}
        return self._pages("/api/feedback", Page[Submission], given)

    def events(self, *, last_event_id: str | None = None) -> AsyncIterator[Change | Resync]:
        """One's own submissions as they change, without end; after `Resync`, list again.

        It reconnects by itself, with a new token when the old one ends. Keep the ``id`` of what was dealt with, to go
        on there later with ``last_event_id``; without one the events begin now.
        """
        return Following(self._calling(), last_event_id, seconds=self._deadline).follow()

    async def _pages(self, where: str, into: type[Page[Item]], query: dict[str, str]) -> AsyncIterator[Item]:
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
        self, method: str, where: str, into: type[Item], body: object = None, *, prefer: str | None = None
    ) -> Item:
        request = Request(
            method=method,
            path=where,
            headers={} if prefer is None else {"Prefer": prefer},
            body=None if body is None else msgspec.json.encode(body),
        )
        return await self._calling().call(request, into, seconds=self._deadline)

    def _calling(self) -> Calling:
        if self._session is None:
            raise RuntimeError("use the client as a context: async with RelayClient(…) as relay")
        return Calling(self._url, self._tokens, self._session, try_seconds=self._try)
