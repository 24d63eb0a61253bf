"""A case of the fault suite: what goes wrong, with whom, and how often."""

import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relay.storage.engine import Dialect
from tests.faults.stage import Stage
from tests.faults.witness import Behaviour, Post, always

DATABASE_AWAY = frozenset({"database_unavailable"})
"""What a gateway answers, with 503, while its database cannot be had."""


PATIENT: Mapping[str, Any] = {"deadline": 10, "lease": 30}
"""For cases in which no attempt may end for want of time, however busy the machine is."""


class NotHereError(Exception):
    """The case needs something that this machine does not permit; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``act`` brings the fault about and makes ``stage.size`` submissions; it ends when the fault has passed.

    What becomes of the submissions afterwards is awaited and judged for all cases alike.
    """

    name: str
    about: str
    """What goes wrong, in a few words."""
    act: Callable[[Stage], Awaitable[None]]
    full: int = 1000
    """How many submissions."""
    short: int = 40
    """The same in a short run; 0: left out of it."""
    engines: tuple[Dialect, ...] = ("sqlite", "postgresql")
    plan: Callable[[random.Random], Callable[[Post], Behaviour]] = lambda _: always
    """How the specialist meets each post."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the relay's configuration, see `tests.support.gateway.SETTINGS`."""
    excused: frozenset[str] = frozenset()
    """The codes of 5xx that the fault is bound to bring."""
    behind_proxy: bool = False
    named: bool = False
    """The specialist has a name and a certificate, at an address of its own."""
    place: Callable[[Path], AbstractContextManager[Path]] = nullcontext
    """Where the SQLite file lies, made from the directory of the run."""


async def deliver(stage: Stage) -> None:
    """The usual act, where all that errs is the specialist."""
    await stage.open()
    await stage.rate()
