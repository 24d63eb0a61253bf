"""Who calls the relay in the demonstration's story: each through `relay.client`, aloud where the story shows how."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

import aiohttp

from registry.egress import Exchange
from relay.client import RelayClient
from relay.demo.narration import Narrator
from relay.demo.stage import Stage

DEADLINE_SECONDS: Final = 10.0
SAID_HEADERS: Final = ("Prefer",)
"""What the story shows of a request's head, besides whose token it has."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with a token. What goes through ``aloud`` is told as it went over the wire."""

    quiet: RelayClient
    aloud: RelayClient


@dataclass(frozen=True, slots=True)
class Cast:
    alice: Caller
    workbench: Caller


@asynccontextmanager
async def on_stage(stage: Stage, narrator: Narrator) -> AsyncIterator[Cast]:
    async with AsyncExitStack() as stack:

        async def caller(who: str) -> Caller:
            async def token() -> str:
                return stage.tokens[who]

            # Not registry.egress: these are the Workbench's own calls.
            session = await stack.enter_async_context(
                aiohttp.ClientSession(trace_configs=[_Telling(narrator, who).tracing])  # noqa: TID251
            )
            quiet = RelayClient(stage.relay, token, deadline_seconds=DEADLINE_SECONDS)
            aloud = RelayClient(stage.relay, token, session=session, deadline_seconds=DEADLINE_SECONDS)
            return Caller(await stack.enter_async_context(quiet), await stack.enter_async_context(aloud))

        yield Cast(alice=await caller("alice"), workbench=await caller("workbench"))


class _Telling:
    """Tells a session's exchanges, each once its answer is read."""

    def __init__(self, narrator: Narrator, who: str) -> None:
        self._narrator = narrator
        self._who = who
        self.tracing = aiohttp.TraceConfig()
        self.tracing.on_request_start.append(self._begins)
        self.tracing.on_request_chunk_sent.append(self._sent)
        self.tracing.on_request_end.append(self._answered)
        self.tracing.on_response_chunk_received.append(self._read)

    async def _begins(self, _: object, told: SimpleNamespace, what: aiohttp.TraceRequestStartParams) -> None:
        told.sent = b""
        told.headers = {name: what.headers[name] for name in SAID_HEADERS if name in what.headers}

    async def _sent(self, _: object, told: SimpleNamespace, what: aiohttp.TraceRequestChunkSentParams) -> None:
        told.sent += what.chunk

    async def _answered(self, _: object, told: SimpleNamespace, what: aiohttp.TraceRequestEndParams) -> None:
        told.response = what.response

    async def _read(self, _: object, told: SimpleNamespace, what: aiohttp.TraceResponseChunkReceivedParams) -> None:
        headers = {name.lower(): value for name, value in told.response.headers.items()}
        answer = Exchange(told.response.status, headers, what.chunk, complete=True)
        body = json.loads(told.sent) if told.sent else None
        self._narrator.exchange(what.method, str(what.url), self._who, body, answer, told.headers)
