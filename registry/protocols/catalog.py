"""The protocols that an agent may opt in to: an explicit list, nothing is discovered."""

from collections.abc import Mapping
from types import MappingProxyType

from registry.protocols.contract import ProtocolAdapter
from registry.protocols.roblox_v1 import RobloxV1

_LISTED: tuple[ProtocolAdapter, ...] = (RobloxV1(),)

ADAPTERS: Mapping[str, ProtocolAdapter] = MappingProxyType({adapter.name: adapter for adapter in _LISTED})
"""By the name that stands in the configuration."""


def can_read_back(protocol: str | None) -> bool:
    """Whether an agent of this protocol can be asked what it keeps."""
    adapter = ADAPTERS.get(protocol or "")
    return adapter is not None and adapter.read_back() is not None
