"""The receiver over HTTP: take in and list for everyone, resolve and list all for operators."""

from http import HTTPStatus

import msgspec
from aiohttp import web

from registry.protocols.roblox_v1 import PATH
from relay.errors import Refusal
from relay.http.bodies import read_json
from relay.http.problems import harden
from relay.receiver.hooks import Caller, Hooks
from relay.receiver.intake import take_in
from relay.receiver.store import Ratings
from relay.receiver.wire import Acknowledgement, Resolution, Submission, listed, rated, resolution_text

MAX_BODY_BYTES = 65_536

PREFIX, _, _FEEDBACK = PATH.rpartition("/")
"""Where the protocol's path has the receiver mounted."""


class Receiver:
    """The handlers, over a store and the host's hooks."""

    def __init__(self, ratings: Ratings, hooks: Hooks) -> None:
        self._ratings = ratings
        self._hooks = hooks

    def routes(self) -> list[web.RouteDef]:
        """The routes, relative to `PREFIX`."""
        return [
            web.post(f"/{_FEEDBACK}", self.post),
            web.get(f"/{_FEEDBACK}", self.get),
            web.patch(f"/{_FEEDBACK}", self.patch),
            web.get("/analytics", self.analytics, allow_head=False),
        ]

    async def post(self, request: web.Request) -> web.Response:
        """Take a rating in: 201 when it is stored, now or before."""
        caller = await self._caller(request)
        submitted = rated(await read_json(request, Submission, max_bytes=MAX_BODY_BYTES))
        _require_same_key(request, submitted.id)
        await take_in(self._ratings, self._hooks.task, caller.owner_key, submitted)
        return _json(Acknowledgement(submitted.id), HTTPStatus.CREATED)

    async def get(self, request: web.Request) -> web.Response:
        """The caller's own newest rows."""
        caller = await self._caller(request)
        return _json([listed(row) for row in await self._ratings.newest(caller.owner_key)])

    async def patch(self, request: web.Request) -> web.Response:
        """Overwrite the resolution of anybody's rating; the row comes back."""
        await self._operator(request)
        asked = await read_json(request, Resolution, max_bytes=MAX_BODY_BYTES)
        row = await self._ratings.resolve(asked.owner, asked.id.lower(), resolution_text(asked))
        if row is None:
            raise Refusal("submission_not_found", "This owner has no rating with this id.")
        return _json(listed(row))

    async def analytics(self, request: web.Request) -> web.StreamResponse:
        """The rows of every caller, newest first. They are sent page by page, since their number has no bound."""
        await self._operator(request)
        if request.query.getall("scope", ()) != ["all"]:
            raise Refusal("invalid_parameter", "The parameter scope must be given once, as all.")
        # Before the answer begins, so that a database that cannot be reached is still a 503.
        page = await self._ratings.page(None)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        harden(response)
        await response.prepare(request)
        lead = b"["
        while page:
            await response.write(lead + msgspec.json.encode([listed(row) for row in page])[1:-1])
            lead = b","
            page = await self._ratings.page(page[-1])
        await response.write(b"[]" if lead == b"[" else b"]")
        return response

    async def _caller(self, request: web.Request) -> Caller:
        caller = await self._hooks.identify(request)
        if caller is None:
            challenge = {"WWW-Authenticate": self._hooks.challenge}
            raise Refusal("unauthenticated", "Send valid credentials.", headers=challenge)
        return caller

    async def _operator(self, request: web.Request) -> None:
        caller = await self._caller(request)
        if not caller.operator:
            # RFC 6750 section 3.1
            challenge = {"WWW-Authenticate": 'Bearer error="insufficient_scope"'}
            raise Refusal("insufficient_scope", "Only operators of this specialist may do this.", headers=challenge)


def _require_same_key(request: web.Request, rated_id: str) -> None:
    """A key that is not the id would be a second identity of the same rating. It may come quoted or not."""
    if any(key.strip('"').lower() != rated_id for key in request.headers.getall("Idempotency-Key", ())):
        raise Refusal("invalid_parameter", "The header Idempotency-Key must be the id in the body, or be left out.")


def _json(value: object, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
