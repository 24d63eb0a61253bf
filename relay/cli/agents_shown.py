"""How `relay agents` shows agents: for programs, and in few words for people."""

import json
from typing import TYPE_CHECKING, Any

from registry.model import Agent
from relay.clock import rfc3339

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

    from relay.operators.agents.configured import Disagreement
    from relay.operators.agents.views import View


def listed(view: "View") -> dict[str, Any]:
    breaker, backlog, differs = view.health.breaker, view.health.backlog, view.disagreement
    times = ("open_until", "paused_until", "window_started_at", "last_success_at", "last_failure_at")
    return {
        **shown(view.agent),
        "standing": view.standing,
        "source": view.agent.approved and view.agent.approved.source,
        "breaker": {
            "state": breaker.state,
            "attempts": breaker.attempts,
            "failures": breaker.failures,
            **{camel(name): moment(getattr(breaker, name)) for name in times},
        },
        "backlog": {
            **{camel(state): total for state, total in backlog.totals.items()},
            "oldest": moment(backlog.oldest),
        },
        "disagreement": differs
        and {"version": differs.version, "state": differs.state, "differs": [camel(name) for name in differs.differs]},
    }


def told(differs: "Disagreement | None") -> str:
    if differs is None:
        return ""
    if differs.state not in {"approved", "held"}:
        return f"version {differs.version} is {differs.state}"
    return f"another {', '.join(name.replace('_', ' ') for name in differs.differs)}"


def decided(row: "RowMapping", name: str) -> str:
    """Who, when and why, on one line."""
    if row[f"{name}_at"] is None:
        return ""
    why = f": {row[f'{name}_why']}" if row[f"{name}_why"] else ""
    return f"{row[f'{name}_by']} {rfc3339(row[f'{name}_at'])}{why}"


def moment(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)


def shown(agent: Agent) -> dict[str, Any]:
    approved = agent.approved
    return {
        "agent": agent.id,
        "name": agent.name,
        "approvedVersion": approved and approved.version,
        "state": approved and approved.state,
        "newestVersion": agent.newest,
        "origin": approved and approved.origin,
        "protocol": approved and approved.protocol,
        "heldFor": sorted(agent.held_by),
    }


def version_shown(row: "RowMapping") -> dict[str, Any]:
    """A stored version with its times as RFC 3339 and the names that the rest of the interface uses."""
    named = {camel(key): row[key] for key in row}
    times = {key: rfc3339(at) for key, at in named.items() if key.endswith("At") and at is not None}
    limits = {camel(key): value for key, value in json.loads(row["limits"] or "{}").items()}
    return {**named, **times, "credentials": json.loads(row["credentials"]), "limits": limits}


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.title, rest))
