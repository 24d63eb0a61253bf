"""Which of a tenant's submissions are meant: one filter for lists, totals, bulk work, analytics and exports."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, get_args

from registry.protocols.contract import Rating
from relay.delivery.model import Evidence, State
from relay.identity.model import OwnerId

SUBMISSIONS: Final = "submissions s"
WITH_DELIVERIES: Final = "submissions s JOIN deliveries d ON d.submission = s.seq"
"""What a condition is about, by the names that it uses. Each submission has one delivery."""

ESCAPE: Final = "!"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionFilter:
    """What all of the members say that are not None.

    ``owner`` is an owner key. ``since`` and ``until`` bound the time of creation, in milliseconds; ``until`` itself is
    outside. ``q`` stands somewhere in the comment, literally, in any case.
    """

    state: State | None = None
    agent: str | None = None
    rating: Rating | None = None
    owner: str | None = None
    client: str | None = None
    since: int | None = None
    until: int | None = None
    q: str | None = field(default=None, repr=False)
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL for a WHERE clause over ``source``, with the parameters that it names; all of them begin with ``f_``."""

    source: str
    sql: str
    parameters: Mapping[str, Any]


# Written out, so that the database sees which of its indexes of some states alone it may use.
_STATES: Final[Mapping[str, str]] = {state: f"d.state = '{state}' AND d.tenant = s.tenant" for state in get_args(State)}
_CLAUSES: Final[Mapping[str, str]] = {
    "state": "d.state = :f_state",
    "agent": "s.agent = :f_agent",
    "rating": "s.rating = :f_rating",
    # Not by a join: this way the index by owner can be used.
    "owner": "s.owner = (SELECT o.id FROM owners o WHERE o.owner_key = :f_owner)",
    "client": "s.client = :f_client",
    "since": "s.created_at >= :f_since",
    "until": "s.created_at < :f_until",
    "q": f"lower(s.comment) LIKE lower(:f_q) ESCAPE '{ESCAPE}'",
    "evidence": "d.evidence = :f_evidence",
}


def condition(tenant: str, wanted: SubmissionFilter) -> Condition:
    """The SQL of a filter over one tenant's submissions, the same on both engines.

    Only what is asked for is in it, so that the database can plan for it; deliveries are joined only where they count.
    """
    return _condition("s.tenant = :f_tenant", {"f_tenant": tenant}, wanted)


def own_condition(owner: OwnerId, wanted: SubmissionFilter) -> Condition:
    """The SQL of the same filter over what one owner submitted, under whichever tenant: what they see themselves."""
    return _condition("s.owner = :f_self", {"f_self": owner}, wanted)


def _condition(whose: str, named: Mapping[str, Any], wanted: SubmissionFilter) -> Condition:
    given = {f.name: value for f in fields(wanted) if (value := getattr(wanted, f.name)) is not None}
    clauses = [whose, *(_clause(name, value) for name, value in given.items())]
    parameters = {f"f_{name}": _AS_PARAMETER.get(name, _itself)(value) for name, value in given.items()}
    source = WITH_DELIVERIES if given.keys() & {"state", "evidence"} else SUBMISSIONS
    return Condition(source, " AND ".join(clauses), {**named, **parameters})


def _clause(name: str, value: Any) -> str:  # noqa: ANN401 - any member of a filter
    # A job may have been asked for in a state that this version does not know: nothing is in it.
    return _STATES.get(value, _CLAUSES[name]) if name == "state" else _CLAUSES[name]


def said(wanted: SubmissionFilter) -> dict[str, Any]:
    """A filter by the names of its members, without those that say nothing."""
    return {name: value for name, value in asdict(wanted).items() if value is not None}


def said_without_words(wanted: SubmissionFilter) -> dict[str, Any]:
    """The same as the audit log has it: words that were searched for may quote a person, and it is never erased."""
    return {name: "(not kept)" if name == "q" else value for name, value in said(wanted).items()}


def _itself(value: Any) -> Any:  # noqa: ANN401 - any parameter
    return value


def _containing(literal: str) -> str:
    """A LIKE pattern for texts that hold this one."""
    for special in (ESCAPE, "%", "_"):
        literal = literal.replace(special, ESCAPE + special)
    return f"%{literal}%"


_AS_PARAMETER: Final[Mapping[str, Callable[[Any], Any]]] = {"q": _containing}
