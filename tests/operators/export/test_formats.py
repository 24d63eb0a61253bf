"""Files of each format, read back by other programs than those that wrote them."""

import csv
import io
import json
from dataclasses import replace

import pyarrow as pa
import pytest
from pyarrow import parquet

from registry.model import AgentId
from relay.clock import rfc3339
from relay.delivery.model import DeliveryId
from relay.operators.export import columnar
from relay.operators.export.formats import FORMATS, FormatName, make
from relay.operators.export.rows import COLUMNS
from relay.operators.submissions.model import Attempt, Submission

ATTEMPT = Attempt(
    number=2,
    cause="schedule",
    registration_version=None,
    at=1_774_742_400_001,
    duration_ms=7,
    phase="body",
    outcome="retry",
    reason="server_error",
    status=503,
    ambiguous=False,
    excerpt="=cmd",
)
SUBMISSION = Submission(
    seq=1,
    delivery=DeliveryId(1),
    owner="ok_1",
    client="workbench",
    id="0b0e4d3e-0000-4000-8000-000000000001",
    agent=AgentId("literature"),
    task="task-1",
    ran_as="client",
    rating="up",
    comment="plain",
    created_at=1_774_742_400_000,
    erased_at=None,
    state="pending",
    state_since=1_774_742_400_000,
    due_at=1_774_742_460_000,
    not_before=0,
    saved_at=None,
    attempt_count=2,
    abandoned_by=None,
    abandoned_why=None,
    evidence="unchecked",
    evidence_at=None,
    resolution=None,
    last_attempt=ATTEMPT,
)
ERASED = replace(
    SUBMISSION, seq=2, rating=None, comment=None, erased_at=5, state="saved", saved_at=6, last_attempt=None
)
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠1")
HARMLESS = ("1-1", "a=b", " =1", "'=1", "me@example.org", 'a "word", then\nanother; line', "Ünïcode 🐈", 'x","=1+1', "")


def written(name: FormatName, *batches: list[Submission]) -> bytes:
    file = make(name)
    return b"".join([file.begin(), *(file.rows(batch) for batch in batches), file.end()])


def read_csv(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_every_format_has_every_submission():
    """In the order in which they came, over several batches."""
    many = [replace(SUBMISSION, id=f"s-{n}") for n in range(7)]
    ids = [one.id for one in many]
    batches = (many[:3], many[3:6], many[6:])
    assert [row["id"] for row in read_csv(written("csv", *batches))] == ids
    assert [json.loads(line)["id"] for line in written("jsonl", *batches).splitlines()] == ids
    assert parquet.read_table(pa.BufferReader(written("parquet", *batches))).column("id").to_pylist() == ids


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_file_of_nothing_can_be_read(name: FormatName):
    """It has columns where the format has them, and no rows."""
    data = written(name)
    if name == "parquet":
        assert parquet.read_table(pa.BufferReader(data)).num_rows == 0
    else:
        assert data.decode().splitlines() == ([",".join(f'"{c.name}"' for c in COLUMNS)] if name == "csv" else [])


def test_formulas_are_neutralised_in_csv():
    """In every column of text: an apostrophe before it, and each cell in quotation marks."""
    texts = [column.name for column in COLUMNS if column.kind == "text"]
    for formula in FORMULAS:
        said = dict.fromkeys(("owner", "client", "id", "agent", "task", "ran_as", "rating", "comment"), formula)
        said |= dict.fromkeys(("state", "abandoned_by", "abandoned_why", "evidence", "resolution"), formula)
        attempt = replace(ATTEMPT, outcome=formula, reason=formula)  # type: ignore[arg-type]
        hostile = replace(SUBMISSION, **said, last_attempt=attempt)  # type: ignore[arg-type]
        data = written("csv", [hostile])
        [row] = read_csv(data)
        assert {row[name] for name in texts} == {f"'{formula}"}
        assert data.startswith(b'"owner","client"')


@pytest.mark.parametrize("comment", HARMLESS, ids=range(len(HARMLESS)))
def test_what_is_no_formula_stays_as_it_is_in_csv(comment: str):
    """Separators, quotation marks, line ends and any script come back as they were."""
    [row] = read_csv(written("csv", [replace(SUBMISSION, comment=comment)]))
    assert row["comment"] == comment


@pytest.mark.parametrize("comment", [*FORMULAS, *HARMLESS], ids=range(len(FORMULAS) + len(HARMLESS)))
def test_text_is_raw_elsewhere(comment: str):
    """Programs read these, and want what was written."""
    one = replace(SUBMISSION, comment=comment)
    [line] = written("jsonl", [one]).decode().split("\n")[:-1]
    assert json.loads(line)["comment"] == comment
    assert parquet.read_table(pa.BufferReader(written("parquet", [one]))).column("comment").to_pylist() == [comment]


def test_csv_says_everything():
    """Instants in RFC 3339, what is absent as an empty cell."""
    waiting, erased = read_csv(written("csv", [SUBMISSION, ERASED]))
    assert waiting["createdAt"] == rfc3339(SUBMISSION.created_at)
    assert waiting["nextAttemptAt"] == rfc3339(SUBMISSION.due_at)
    assert (waiting["attemptCount"], waiting["lastAttemptStatus"], waiting["lastAttemptReason"]) == (
        "2",
        "503",
        "server_error",
    )
    assert (erased["rating"], erased["comment"], erased["lastAttemptAt"], erased["nextAttemptAt"]) == ("",) * 4
    assert (erased["erasedAt"], erased["savedAt"]) == (rfc3339(5), rfc3339(6))


def test_parquet_has_types():
    """Instants are instants of UTC, numbers numbers, and what is absent is null."""
    table = parquet.read_table(pa.BufferReader(written("parquet", [SUBMISSION, ERASED])))
    assert table.schema.field("createdAt").type == pa.timestamp("ms", tz="UTC")
    assert table.column("createdAt").cast(pa.int64()).to_pylist() == [SUBMISSION.created_at] * 2
    assert table.column("lastAttemptStatus").to_pylist() == [503, None]
    assert table.column("rating").to_pylist() == ["up", None]
    assert table.column_names == [column.name for column in COLUMNS]


@pytest.mark.parametrize("limit", ["GROUP_ROWS", "GROUP_CHARACTERS"])
def test_parquet_is_written_as_it_goes(monkeypatch: pytest.MonkeyPatch, limit: str):
    """By rows or by characters, a group is written when it is large, and nothing of it is kept."""
    monkeypatch.setattr(columnar, limit, 4 if limit == "GROUP_ROWS" else 20)
    file = make("parquet")
    parts = [file.begin(), *(file.rows([SUBMISSION, SUBMISSION]) for _ in range(4)), file.end()]
    assert [bool(part) for part in parts] == [True, False, True, False, True, True]
    assert parquet.ParquetFile(pa.BufferReader(b"".join(parts))).num_row_groups == 2
