"""The policy that a configuration states."""

from types import MappingProxyType

from relay.config.sections import Retention
from relay.retention.model import Policy


def policy(retention: Retention) -> Policy:
    """For how long each tenant's ratings are kept, by ``[retention]``."""
    return Policy(retention.days, MappingProxyType({tenant: own.days for tenant, own in retention.tenants.items()}))
