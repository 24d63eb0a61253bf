"""Access tokens as they are kept."""

from dataclasses import dataclass, field

from registry.credentials.proofs import Prover


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token, when to stop using it (seconds since the epoch), and what proves that it is ours, if it is bound."""

    value: str = field(repr=False)
    good_until: float
    prover: Prover | None = None
