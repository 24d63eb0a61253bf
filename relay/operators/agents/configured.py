"""The configuration's part in the registry: what a file says about an agent, beside what operators have decided. Pure.

The registry is in force, never the file. The file proposes what it says anew, and approves by itself only what changes
neither origin nor protocol of a version that is its own; it takes back what it no longer says. What an operator has
decided, a start never undoes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from sqlalchemy import RowMapping

from registry.model import RegistrationState, Version
from registry.registrations import Declaration, declared

CONFIGURATION = "configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a start does about one agent: in this order, and nothing where all of it is empty."""

    withdraw: tuple[Version, ...] = ()
    revoke: tuple[Version, ...] = ()
    propose: bool = False
    approve: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.withdraw or self.revoke or self.propose)


def plan(versions: Sequence[RowMapping], declaration: Declaration | None) -> Plan:
    """What to do about an agent of these stored versions (see `registrations.history`), oldest first, for a file that
    says this of it; None: the file does not name it.
    """
    own = [row for row in versions if row["source"] == CONFIGURATION]
    proposed = tuple(Version(row["version"]) for row in own if row["state"] == "proposed")
    if declaration is None:
        return Plan(withdraw=proposed, revoke=tuple(Version(row["version"]) for row in own if _stands(row)))
    standing = decided_for(versions)
    if standing is not None and declared(standing) == declaration:
        return Plan(withdraw=proposed)
    said = next((row for row in reversed(own) if not _taken_back(row, "withdrawn")), None)
    if said is not None and not _taken_back(said, "revoked") and declared(said) == declaration:
        return Plan()  # the file has not changed: what was decided since stands
    return Plan(withdraw=proposed, propose=True, approve=_may_approve(versions, declaration))


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What is decided about an agent is not what the file says of it. ``state`` is that of the version that was
    decided for, if there is one, else of the newest; ``differs`` names what the two say otherwise.
    """

    version: Version
    state: RegistrationState
    differs: tuple[str, ...]


def disagreement(versions: Sequence[RowMapping], declaration: Declaration | None) -> Disagreement | None:
    """How the stored versions of an agent and the file disagree; None: not at all, or the file does not name it."""
    if declaration is None or not versions:
        return None
    standing = decided_for(versions)
    row = versions[-1] if standing is None else standing
    stored = declared(row)
    differs = tuple(
        each.name for each in fields(Declaration) if getattr(stored, each.name) != getattr(declaration, each.name)
    )
    if standing is not None and not differs:
        return None
    return Disagreement(Version(row["version"]), row["state"], differs)


def decided_for(versions: Sequence[RowMapping]) -> RowMapping | None:
    """The version that is approved, or held, if there is one."""
    return next((row for row in versions if _stands(row)), None)


def _stands(row: RowMapping) -> bool:
    return row["state"] in {"approved", "held"}


def _taken_back(row: RowMapping, state: Literal["withdrawn", "revoked"]) -> bool:
    """Whether the file itself did that: withdrawn when it changed again, revoked when it left the agent out."""
    return bool(row["state"] == state and row["revoked_by"] == CONFIGURATION)


def _may_approve(versions: Sequence[RowMapping], declaration: Declaration) -> bool:
    """The first version of an agent, and later ones at the destination that was approved last, as long as that was the
    file's own and no operator has proposed anything, holds it, or has revoked anything since.
    """
    if not versions:
        return True
    approved = [row for row in versions if row["approved_at"] is not None]
    if not approved:
        return False
    last = decided_for(versions) or max(approved, key=lambda row: (row["approved_at"], row["version"]))
    by_operators = [row for row in versions if row["state"] == "proposed" and row["source"] != CONFIGURATION]
    revoked = [row for row in versions if row["state"] == "revoked" and not _taken_back(row, "revoked")]
    return (
        last["source"] == CONFIGURATION
        and last["state"] != "held"
        and not by_operators
        and all(row["revoked_at"] < last["approved_at"] for row in revoked)
        and (last["origin"], last["protocol"]) == (declaration.origin, declaration.protocol)
    )
