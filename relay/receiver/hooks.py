"""What the host application tells the receiver: who is calling, and which tasks are theirs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from aiohttp import web

TaskStatus = Literal["finished", "running"]
"""Whether a task may be rated. A failed or canceled task is finished as well."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A verified caller.

    ``owner_key`` names the human and client (or the machine client) that tasks and ratings belong to. It must stay the
    same for ever and must be opaque: operators see it, so that it must not be a subject, a name or an address.
    ``operator`` says that this caller may see and resolve the ratings of all others.
    """

    owner_key: str
    operator: bool = False


Identify: TypeAlias = Callable[[web.Request], Awaitable[Caller | None]]
FindTask: TypeAlias = Callable[[str, str], Awaitable[TaskStatus | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The host's answers.

    ``identify`` verifies the credentials of a request; None: they do not hold, and the caller gets a 401 with
    ``challenge``. It leaves the body unread, or reads it with `relay.http.bodies.read_bytes`, which keeps it.
    ``task`` takes an owner key and a task id; None: that owner has no such task, whether or not somebody else has.
    Both may raise `relay.errors.Refusal`, such as ``keys_unavailable``.
    """

    identify: Identify
    task: FindTask
    challenge: str = "Bearer"
