"""The runs of a specialist of the demonstration: what was asked by whom, which tools were called, what came of it."""

import json
import secrets
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.demo.skills import Skill, ToolCall
from relay.storage.engine import Database

Status = Literal["running", "completed"]

_TABLES = (
    """CREATE TABLE IF NOT EXISTS runs (
        task TEXT PRIMARY KEY, owner TEXT NOT NULL, question TEXT NOT NULL, status TEXT NOT NULL, text TEXT,
        started_at BIGINT NOT NULL, finished_at BIGINT)""",
    """CREATE TABLE IF NOT EXISTS tool_calls (
        task TEXT NOT NULL REFERENCES runs, number INTEGER NOT NULL, name TEXT NOT NULL, arguments TEXT NOT NULL,
        result TEXT NOT NULL, PRIMARY KEY (task, number))""",
)

_START = """INSERT INTO runs (task, owner, question, status, started_at)
    VALUES (:task, :owner, :question, 'running', {now}) ON CONFLICT DO NOTHING"""
_FINISH = """UPDATE runs SET status = 'completed', text = :text, finished_at = {now}
    WHERE task = :task AND status = 'running'"""
_CALL = "INSERT INTO tool_calls VALUES (:task, :number, :name, :arguments, :result) ON CONFLICT DO NOTHING"
_FIND = "SELECT * FROM runs WHERE owner = :owner AND task = :task"
_CALLS = "SELECT * FROM tool_calls WHERE task = :task ORDER BY number"


@dataclass(frozen=True, slots=True)
class Run:
    """A run as stored; ``text`` is there once it is completed. Times are milliseconds since the epoch."""

    task: str
    owner: str
    question: str = field(repr=False)
    status: Status
    text: str | None = field(repr=False)
    started_at: int
    finished_at: int | None
    calls: tuple[ToolCall, ...] = field(repr=False)


class Runs:
    """The runs of one specialist, which answers questions by its ``skill``."""

    def __init__(self, db: Database, *, agent: str, skill: Skill) -> None:
        self._db = db
        self._agent = agent
        self._skill = skill

    async def prepare(self) -> None:
        async with self._db.write() as connection:
            for table in _TABLES:
                await connection.execute(text(table))

    async def start(self, owner: str, question: str, *, task: str | None = None, finish: bool) -> Run | None:
        """Work on a question, up to the end or (``finish`` false) up to the first tool; None: the task id is taken."""
        task = task or f"{self._agent}-{secrets.token_hex(4)}"
        work = self._skill(question)
        async with self._db.write() as connection:
            values = {"task": task, "owner": owner, "question": question}
            started = await connection.execute(self._db.sql(_START), values)
            if started.rowcount != 1:
                return None
            await _record(connection, task, work.calls[: None if finish else 1])
            if finish:
                await connection.execute(self._db.sql(_FINISH), {"task": task, "text": work.text})
        return await self.find(owner, task)

    async def finish(self, owner: str, task: str) -> Run | None:
        """Bring the owner's run to its end, if it is not there yet; None: there is no such run."""
        run = await self.find(owner, task)
        if run is None or run.status == "completed":
            return run
        work = self._skill(run.question)
        async with self._db.write() as connection:
            await _record(connection, task, work.calls)
            await connection.execute(self._db.sql(_FINISH), {"task": task, "text": work.text})
        return await self.find(owner, task)

    async def find(self, owner: str, task: str) -> Run | None:
        """The owner's run of this task; None for an unknown one and for anybody else's."""
        async with self._db.read() as connection:
            found = (await connection.execute(text(_FIND), {"owner": owner, "task": task})).mappings().one_or_none()
            if found is None:
                return None
            calls = (await connection.execute(text(_CALLS), {"task": task})).mappings().all()
        return Run(**found, calls=tuple(_call(row) for row in calls))


async def _record(connection: AsyncConnection, task: str, calls: tuple[ToolCall, ...]) -> None:
    for number, call in enumerate(calls):
        values = {"name": call.name, "arguments": json.dumps(call.arguments), "result": json.dumps(call.result)}
        await connection.execute(text(_CALL), {"task": task, "number": number, **values})


def _call(row: RowMapping) -> ToolCall:
    return ToolCall(row["name"], json.loads(row["arguments"]), json.loads(row["result"]))
