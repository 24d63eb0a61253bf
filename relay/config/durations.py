"""Spans of time as operators write them: a whole number and a unit, such as ``"500ms"``, ``"30s"`` or ``"12h"``."""

import re

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_WRITTEN = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>ms|[smhd])", re.ASCII)
_LONGEST = 30 * _UNITS["d"]


class Duration(float):
    """Seconds. A type of its own so that the decoder knows which numbers are written with a unit."""

    __slots__ = ()

    @classmethod
    def parse(cls, written: object) -> "Duration":
        """``"2m"`` as 120.0. Raises ValueError that shows the form for anything else, a bare number included."""
        match = _WRITTEN.fullmatch(written) if isinstance(written, str) else None
        if match is None:
            raise ValueError(
                'must be a whole number and a unit in quotation marks, such as "500ms", "30s", "2m", "1h" or "1d"'
            )
        seconds = int(match["count"]) * _UNITS[match["unit"]]
        if seconds > _LONGEST:
            raise ValueError('must be "30d" at the most')
        return cls(seconds)
