"""Apache Parquet, by PyArrow, which is an extra: import this module only where it is asked for."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet
from typing_extensions import override

from relay.operators.export.rows import COLUMNS, Kind
from relay.operators.submissions.model import Submission

GROUP_ROWS: Final = 10_000
GROUP_CHARACTERS: Final = 8_000_000
"""How much of a file is put together before it is written: whichever comes first. What a reader reads at once."""

_TYPES: Final[Mapping[Kind, Any]] = {
    "text": pa.string(),
    "number": pa.int64(),
    "instant": pa.timestamp("ms", tz="UTC"),
}
SCHEMA: Final = pa.schema([(column.name, _TYPES[column.kind]) for column in COLUMNS])


class Columnar:
    """Row groups of bounded size. What grows with the file is its index alone, by some kilobytes a group."""

    def __init__(self) -> None:
        self._sink = _Sink()
        self._writer = parquet.ParquetWriter(self._sink, SCHEMA, compression="zstd")
        self._batches: list[Any] = []
        self._rows = 0
        self._characters = 0

    def begin(self) -> bytes:
        return self._sink.take()

    def rows(self, batch: Sequence[Submission]) -> bytes:
        columns = [
            pa.array([column.value(submission) for submission in batch], type=_TYPES[column.kind]) for column in COLUMNS
        ]
        self._batches.append(pa.record_batch(columns, schema=SCHEMA))
        self._rows += len(batch)
        self._characters += sum(len(submission.comment or "") for submission in batch)
        if self._rows >= GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._write_group()
        return self._sink.take()

    def end(self) -> bytes:
        self._write_group()
        self._writer.close()
        return self._sink.take()

    def _write_group(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches, schema=SCHEMA)
            self._writer.write_table(table, row_group_size=self._rows)
        self._batches, self._rows, self._characters = [], 0, 0


class _Sink(io.RawIOBase):
    """What the writer writes into. It counts the whole file, and keeps what was not taken yet."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[bytes] = []
        self._position = 0

    @override
    def writable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._position

    @override
    def write(self, data: Any, /) -> int:
        written = bytes(data)
        self._kept.append(written)
        self._position += len(written)
        return len(written)

    def take(self) -> bytes:
        """What was written since the last time."""
        taken, self._kept = b"".join(self._kept), []
        return taken
