"""Agents, as operators look at them and decide about them."""

from relay.operators.agents.deciding import Agents, Outcome

__all__ = ["Agents", "Outcome"]
