"""What the operations on agents promise."""

from collections.abc import Mapping
from typing import Any, Final

from relay.errors import Code
from relay.http.identifiers import PathIdentifier
from relay.http.operations import Answer, Carrying, Operation
from relay.identity.model import OperatorScope
from relay.operators.agents.wire import (
    AgentDetail,
    AgentsPage,
    AgentsQuery,
    Decided,
    PathVersion,
    ProposalBody,
    ReasonBody,
)

_PROPOSED = {"by": "configuration", "at": "2026-03-01T09:30:00.000Z", "why": None}
_FIRST: Final[Mapping[str, Any]] = {
    "version": 1,
    "state": "approved",
    "source": "configuration",
    "name": "Literature specialist",
    "origin": "https://literature.example.org",
    "protocol": "roblox-v1",
    "credentials": [
        {
            "mode": "client_credentials",
            "issuer": "https://login.example.org",
            "clientId": "workbench",
            "tokenEndpoint": "https://login.example.org/token",
            "resource": "https://literature.example.org",
            "scope": "feedback:write",
            "dpop": False,
        }
    ],
    "limits": {"inFlight": 8},
    "ownerContact": "literature-team@example.org",
    "lineage": 1,
    "proposed": _PROPOSED,
    "approved": _PROPOSED,
    "held": None,
    "ended": None,
}
_AGENT: Final[Mapping[str, Any]] = {
    "agent": "literature",
    "name": "Literature specialist",
    "state": "approved",
    "inForce": _FIRST,
    "newest": 1,
    "hold": {"by": "ok_rt7q…", "at": "2026-03-02T12:00:00.000Z", "why": "they are moving"},
    "breaker": {
        "state": "open",
        "openUntil": "2026-03-02T12:00:30.000Z",
        "pausedUntil": None,
        "windowStartedAt": "2026-03-02T11:59:30.000Z",
        "attempts": 12,
        "failures": 11,
        "lastSuccessAt": "2026-03-02T11:58:02.000Z",
        "lastFailureAt": "2026-03-02T12:00:00.000Z",
    },
    "backlog": {"pending": 0, "sending": 0, "held": 31, "needsOwner": 0, "oldestSince": "2026-03-02T11:58:30.000Z"},
    "disagreement": None,
}
LIST: Final = Operation(
    tag="agents",
    scopes=("operator:read",),
    query=AgentsQuery,
    answers={200: Answer("A page.", AgentsPage, example={"items": [_AGENT], "next": None, "total": 1})},
)

SHOW: Final = Operation(
    tag="agents",
    scopes=("operator:read",),
    path={"agent": PathIdentifier},
    answers={200: Answer("The agent.", AgentDetail, example={**_AGENT, "versions": [_FIRST]})},
    refusals=("agent_not_found",),
)

PROPOSE: Final = Operation(
    tag="agents",
    scopes=("registry:admin",),
    path={"agent": PathIdentifier},
    body=ProposalBody,
    examples={
        "a move": {"why": "moved to the new cluster", "origin": "https://library.example.org"},
        "fewer at a time": {"why": "they asked for it", "limits": {"inFlight": 4}},
        "another credential": {
            "why": "off the pilot",
            "credentials": [
                {
                    "mode": "client_credentials",
                    "issuer": "https://login.example.org",
                    "clientId": "workbench",
                    "tokenEndpoint": "https://login.example.org/token",
                    "keyFile": "workbench.pem",
                    "resource": "https://literature.example.org",
                }
            ],
        },
    },
    answers={201: Answer("Proposed: the newest version of the agent.", Decided)},
)


def _decision(scope: OperatorScope, description: str, *refusals: Code | Carrying, version: bool = True) -> Operation:
    return Operation(
        tag="agents",
        scopes=(scope,),
        path={"agent": PathIdentifier, **({"version": PathVersion} if version else {})},
        body=ReasonBody,
        examples={"a reason": {"why": "they are moving"}},
        answers={200: Answer(description, Decided)},
        refusals=(
            "agent_not_found",
            *(("version_not_found",) if version else ()),
            Carrying("decision_not_applicable", "state", str),
            *refusals,
        ),
    )


APPROVE: Final = _decision("registry:admin", "It is in force.", Carrying("own_proposal", "state", str))
WITHDRAW: Final = _decision("registry:admin", "It is withdrawn.")
REVOKE: Final = _decision("registry:admin", "It is revoked.")
HOLD_VERSION: Final = _decision("registry:admin", "It is held.")
RESUME_VERSION: Final = _decision("registry:admin", "It is approved, as before.")
SAME_SPECIALIST: Final = _decision("registry:admin", "They are the same specialist.")
HOLD: Final = _decision("operator:write", "The tenant holds the agent.", version=False)
RESUME: Final = _decision("operator:write", "The tenant holds it no longer.", version=False)
