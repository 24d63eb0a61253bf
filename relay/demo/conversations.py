"""The conversations of the demonstration's Workbench: what it asks the specialists for whoever has signed in."""

import asyncio
import json
import secrets
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from registry.egress import Egress, EgressFailure
from relay.client import ClientError, Provenance, RelayClient
from relay.demo.accounts import CLIENT_ID

DEADLINE_SECONDS: Final = 10.0

QUESTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "What is known about consensus despite a crash?": ("literature",),
    "My slide on exactly once delivery with retry shows a coffee cup. Which papers should it cite, "
    "and how heavy is caffeine, C8H10N4O2?": ("literature", "chemistry"),
}
"""What is asked, and whom: the second answer is put together from what two specialists say."""


class AskingError(RuntimeError):
    """A specialist, the issuer or the relay did not do its part."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the Workbench an answer stands."""

    conversation: str
    answer: str


@dataclass(frozen=True, slots=True)
class Part:
    """What one specialist said, with the tools that it called, as its server shows a run."""

    agent: str
    text: str = field(repr=False)
    tool_calls: list[dict[str, Any]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """A question, and the answer that the relay knows by ``answer``."""

    answer: str
    question: str = field(repr=False)
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    id: str
    turns: tuple[Turn, ...]


class Conversations:
    """Asks each person's questions once, under their own identity, and keeps the answers while it lives.

    ``specialists`` are origins by agent. What a run was for is recorded at the relay before anybody sees the answer.
    A person's tokens for the specialists come from where anybody may have them, and only here: ``/demo/token``.
    """

    def __init__(self, egress: Egress, *, issuer: str, relay: str, specialists: Mapping[str, str]) -> None:
        self._egress = egress
        self._issuer = issuer
        self._relay = relay
        self._specialists = specialists
        self._kept: dict[str, Conversation] = {}
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of(self, person: str) -> Conversation:
        """The person's conversation; raises AskingError."""
        async with self._asking[person]:
            if person not in self._kept:
                try:
                    self._kept[person] = await self._held_by(person)
                except (EgressFailure, ClientError) as error:
                    raise AskingError(str(error)) from error
            return self._kept[person]

    async def _held_by(self, person: str) -> Conversation:
        id_ = f"c-{secrets.token_hex(4)}"
        async with RelayClient(self._relay, lambda: self._token(CLIENT_ID, self._relay)) as relay:
            turns = [
                await self._turn(relay, person, Place(id_, f"{id_}-{number}"), question, agents)
                for number, (question, agents) in enumerate(QUESTIONS.items(), 1)
            ]
        return Conversation(id_, tuple(turns))

    async def _turn(
        self, relay: RelayClient, person: str, place: Place, question: str, agents: tuple[str, ...]
    ) -> Turn:
        parts = [await self._part(relay, person, place, question, agent) for agent in agents]
        return Turn(place.answer, question, tuple(parts))

    async def _part(self, relay: RelayClient, person: str, place: Place, question: str, agent: str) -> Part:
        origin = self._specialists[agent]
        token = await self._token(person, origin)
        run = await self._post(f"{origin}/runs", {"question": question}, HTTPStatus.CREATED, token=token)
        recorded = Provenance(
            conversation_id=place.conversation,
            answer_id=place.answer,
            role="specialist",
            status="completed",
            subject=person,
        )
        await relay.record(agent, run["taskId"], recorded)
        return Part(agent, run["text"], run["toolCalls"])

    async def _token(self, user: str, resource: str) -> str:
        wanted = {"user": user, "resource": resource}
        answer = await self._post(f"{self._issuer}/demo/token", wanted, HTTPStatus.OK)
        return str(answer["access_token"])

    async def _post(self, url: str, body: object, status: HTTPStatus, *, token: str | None = None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        answer = await self._egress.exchange(
            "POST", url, headers=headers, body=json.dumps(body).encode(), deadline=DEADLINE_SECONDS
        )
        if answer.status != status:
            raise AskingError(f"{url} answered {answer.status}")
        read: dict[str, Any] = json.loads(answer.body)
        return read
