"""For how long the ratings of a tenant are kept, and what came of erasing some. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Policy:
    """How many days a final submission is kept, from when it was accepted; 0: for ever. ``tenants``: exceptions."""

    days: int = 0
    tenants: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def days_for(self, tenant: str) -> int | None:
        """For how many days this tenant's ratings are kept; None: for ever."""
        return self.tenants.get(tenant, self.days) or None

    @property
    def erases(self) -> bool:
        """Whether anybody's ratings are ever erased by age."""
        return self.days > 0 or any(self.tenants.values())


Erased = Mapping[str, Mapping[str, int]]
"""How many submissions, by tenant and agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """What a specialist keeps of one owner, where the relay cannot erase it.

    ``saved`` it acknowledged; ``possibly_received`` it never did, but an attempt was ambiguous. ``contact``: whom its
    registration names.
    """

    agent: str
    origin: str
    contact: str | None
    saved: int
    possibly_received: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What the erasure of one owner does, or did.

    ``erased``: submissions, those ``abandoned`` (they still waited) included; ``under_way`` of the abandoned were just
    being sent. ``evidence``: references to what the owner's tasks did. ``subject``: whether a sealed subject was kept.
    """

    erased: int
    abandoned: int
    under_way: int
    evidence: int
    subject: bool
    copies: tuple[Copies, ...]
