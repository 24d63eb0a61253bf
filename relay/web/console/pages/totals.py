"""How many there are, as a page says it: counting further than anybody reads would make every page wait for it."""

from dataclasses import dataclass
from typing import Final

from typing_extensions import override

MOST_COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Total:
    """``counted`` goes up to one more than `MOST_COUNTED`."""

    counted: int

    @override
    def __str__(self) -> str:
        return f"{MOST_COUNTED:,}+" if self.counted > MOST_COUNTED else f"{self.counted:,}"
