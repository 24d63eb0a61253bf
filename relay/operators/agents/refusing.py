"""Why a decision about an agent was not made, as whoever asked for it is told."""

from registry.registrations import NotApplicableError, OwnProposalError
from relay.errors import Code, Refusal


def no_agent() -> Refusal:
    return Refusal("agent_not_found", "No agent of this id is registered.")


def no_version() -> Refusal:
    return Refusal("version_not_found", "The agent has no version of this number.")


def not_applicable(error: NotApplicableError) -> Refusal:
    """The agent stands otherwise, or whoever approves is whoever proposed."""
    code: Code = "own_proposal" if isinstance(error, OwnProposalError) else "decision_not_applicable"
    return Refusal(code, f"Nothing was changed: {error}.", extra={"state": error.state})
