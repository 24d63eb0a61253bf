"""Recording provenance: who may say what of whose task."""

from collections.abc import Mapping
from dataclasses import dataclass

from registry.model import Agent, AgentId, OwnerAssertion, RanAs
from registry.registrations import Registrations
from relay.errors import FieldProblem, Refusal
from relay.identity.model import OwnerTuple, Principal
from relay.identity.owners import Owners
from relay.provenance.model import MOST_EVIDENCE, ConflictError, TooMuchEvidenceError
from relay.provenance.store import Recorded, Recording, Tasks
from relay.provenance.wire import TaskBody


@dataclass(frozen=True, slots=True)
class ClientPolicy:
    """What a client may record: of which agents (``*``: all), and for humans of which issuers."""

    issuer: str
    agents: frozenset[str]
    on_behalf_of: frozenset[str]


class Recorder:
    """Records tasks under their owners."""

    def __init__(
        self, tasks: Tasks, owners: Owners, registry: Registrations, clients: Mapping[str, ClientPolicy]
    ) -> None:
        self._tasks = tasks
        self._owners = owners
        self._registry = registry
        self._clients = clients

    async def record(self, principal: Principal, agent_id: str, task_id: str, body: TaskBody) -> tuple[Recorded, bool]:
        """Record one task; true the first time. Every way to say no is a `Refusal`."""
        policy = self._policy(principal)
        agent = await self._agent(policy, agent_id)
        whose = _owner(principal, policy, body)
        ran_as = _ran_as(principal, whose, body)
        owner = await self._owners.ensure(
            whose, seal_subject=_must_seal(agent, whose), present=whose == principal.owner
        )
        where = Recording(
            owner=owner.id,
            tenant=principal.tenant,
            recorded_by=principal.client,
            agent=agent.id,
            task=task_id,
        )
        try:
            return await self._tasks.record(where, body.task(ran_as))
        except ConflictError as error:
            raise _conflict(error) from None
        except TooMuchEvidenceError:
            detail = f"A task may have {MOST_EVIDENCE} items of evidence in all, those recorded before included."
            raise Refusal("invalid_field", detail, errors=(FieldProblem("/evidence", detail),)) from None

    def _policy(self, principal: Principal) -> ClientPolicy:
        policy = self._clients.get(principal.client)
        if policy is None or policy.issuer != principal.issuer:
            raise Refusal(
                "client_not_allowed",
                "The token's client is not configured to record provenance: its operator adds [identity.clients].",
            )
        return policy

    async def _agent(self, policy: ClientPolicy, agent_id: str) -> Agent:
        if "*" not in policy.agents and agent_id not in policy.agents:
            raise Refusal("agent_not_allowed", "The token's client may not record tasks of this agent.")
        agent = self._registry.snapshot.get(AgentId(agent_id))
        if agent is None:
            await self._registry.refresh()
            agent = self._registry.snapshot.get(AgentId(agent_id))
        if agent is None:
            raise Refusal("agent_not_found", "No agent of this id is registered.")
        return agent


def _owner(principal: Principal, policy: ClientPolicy, body: TaskBody) -> OwnerTuple:
    if body.subject is None:
        if body.subject_issuer is not None:
            detail = "subjectIssuer goes with subject: send both or neither."
            raise Refusal("invalid_field", detail, errors=(FieldProblem("/subjectIssuer", detail),))
        return principal.owner
    issuer = body.subject_issuer or principal.issuer
    if principal.kind != "machine" or issuer not in policy.on_behalf_of or body.subject == principal.client:
        raise Refusal(
            "subject_not_allowed",
            "Only a machine client may name a subject, a human of an issuer that it is configured for (on_behalf_of).",
        )
    return OwnerTuple("human", issuer, principal.client, body.subject)


def _ran_as(principal: Principal, owner: OwnerTuple, body: TaskBody) -> RanAs | None:
    if body.ran_as == "client" and principal.kind != "machine":
        raise Refusal("ran_as_not_allowed", 'Only a machine token may record "ranAs": "client".')
    if owner.kind == "machine":
        return "client"  # a machine owner is its client: both words mean the same
    return body.ran_as


def _must_seal(agent: Agent, owner: OwnerTuple) -> bool:
    """The subject is kept only for an agent that the relay may have to face in the owner's absence."""
    if owner.kind == "machine" or agent.approved is None:
        return False
    return any(
        isinstance(c, OwnerAssertion) and (c.issuer, c.client_id) == (owner.issuer, owner.client)
        for c in agent.approved.credentials
    )


def _conflict(error: ConflictError) -> Refusal:
    return Refusal(
        "provenance_conflict",
        "The record of this task says otherwise already: it is not changed. See errors for the members that differ.",
        errors=tuple(FieldProblem(f"/{field}", "This differs from what is on record.") for field in error.fields),
    )
