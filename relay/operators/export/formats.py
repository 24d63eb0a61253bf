"""The formats that a file may have. Each turns batches into bytes; how much it keeps is bounded."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Literal, Protocol, assert_never

import msgspec

from relay.errors import Refusal
from relay.operators.export.separated import Separated
from relay.operators.submissions.model import Submission
from relay.operators.submissions.wire import shown

FormatName = Literal["csv", "jsonl", "parquet"]


class Format(Protocol):
    """One file in the making. Made for one export, and called in this order."""

    def begin(self) -> bytes:
        """What the file begins with."""

    def rows(self, batch: Sequence[Submission]) -> bytes:
        """The next rows, or nothing as yet."""

    def end(self) -> bytes:
        """What the file ends with."""


@dataclass(frozen=True, slots=True)
class Described:
    """The media type of a format, and how its files are named."""

    media_type: str
    extension: str


FORMATS: Final[dict[FormatName, Described]] = {
    "csv": Described("text/csv", "csv"),
    "jsonl": Described("application/jsonl", "jsonl"),
    "parquet": Described("application/vnd.apache.parquet", "parquet"),
}


class Lines:
    """JSON Lines: each submission as the list shows it."""

    def begin(self) -> bytes:
        return b""

    def rows(self, batch: Sequence[Submission]) -> bytes:
        return msgspec.json.Encoder().encode_lines([shown(submission) for submission in batch])

    def end(self) -> bytes:
        return b""


def make(name: FormatName) -> Format:
    """A new file of this format. Raises `Refusal` (501) where what writes it is not installed.

    Imports it on first use, which takes a while: call it in a thread.
    """
    match name:
        case "csv":
            return Separated()
        case "jsonl":
            return Lines()
        case "parquet":
            return _parquet()
        case _:
            assert_never(name)


def _parquet() -> Format:
    try:
        made: Format = import_module("relay.operators.export.columnar").Columnar()
    except ImportError:
        detail = "Parquet takes an extra that is not installed here: feedback-relay[parquet]. Ask for csv or jsonl."
        raise Refusal("export_format_unavailable", detail) from None
    return made
