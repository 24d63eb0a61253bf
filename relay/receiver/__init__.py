"""The specialist's side of ``roblox-v1``, as a sub-application that a specialist mounts."""

from relay.receiver.app import receiver_app
from relay.receiver.hooks import Caller, Hooks, TaskStatus
from relay.receiver.routes import PREFIX
from relay.receiver.store import Ratings

__all__ = ["PREFIX", "Caller", "Hooks", "Ratings", "TaskStatus", "receiver_app"]
