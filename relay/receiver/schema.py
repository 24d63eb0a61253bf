"""The receiver's own table. The database itself keeps its rows as they came, but for the resolution."""

from collections.abc import Mapping

from relay.storage.engine import Dialect

PRESENT: Mapping[Dialect, str] = {
    "sqlite": "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'receiver_ratings')",
    "postgresql": "SELECT to_regclass('receiver_ratings') IS NOT NULL",
}

LOCK: Mapping[Dialect, str | None] = {
    "sqlite": None,  # a writing transaction is alone from its beginning
    "postgresql": "SELECT pg_advisory_xact_lock(7236014286)",
}
"""What makes processes that start together make the table one after the other."""

_KEPT = ("seq", "owner", "id", "task", "rating", "comment", "created_at")


def _unchanged(same: str) -> str:
    return " AND ".join(f"NEW.{column} {same} OLD.{column}" for column in _KEPT)


def _table(serial: str) -> str:
    return f"""CREATE TABLE receiver_ratings (
        seq {serial},
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        task TEXT NOT NULL,
        rating TEXT NOT NULL CHECK (rating IN ('up', 'down')),
        comment TEXT,
        resolution TEXT,
        created_at BIGINT NOT NULL,
        UNIQUE (owner, id))"""


_INDEXES = (
    "CREATE INDEX receiver_ratings_newest ON receiver_ratings (owner, seq)",
    "CREATE INDEX receiver_ratings_of_task ON receiver_ratings (owner, task)",
)

CREATE: Mapping[Dialect, tuple[str, ...]] = {
    "sqlite": (
        _table("INTEGER PRIMARY KEY AUTOINCREMENT"),
        *_INDEXES,
        f"""CREATE TRIGGER receiver_ratings_immutable BEFORE UPDATE ON receiver_ratings WHEN NOT ({_unchanged("IS")})
            BEGIN SELECT RAISE(ABORT, 'receiver_ratings is immutable'); END""",
        """CREATE TRIGGER receiver_ratings_kept BEFORE DELETE ON receiver_ratings
            BEGIN SELECT RAISE(ABORT, 'receiver_ratings is immutable'); END""",
        # INSERT OR REPLACE deletes without firing the trigger above: a row whose keys are taken never comes in.
        """CREATE TRIGGER receiver_ratings_not_replaced BEFORE INSERT ON receiver_ratings
            WHEN EXISTS (SELECT 1 FROM receiver_ratings r
                WHERE r.seq = NEW.seq OR (r.owner = NEW.owner AND r.id = NEW.id))
            BEGIN SELECT RAISE(IGNORE); END""",
    ),
    "postgresql": (
        _table("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
        *_INDEXES,
        """CREATE FUNCTION receiver_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'receiver_ratings is immutable' USING ERRCODE = 'restrict_violation'; END $$""",
        f"""CREATE TRIGGER receiver_ratings_immutable BEFORE UPDATE ON receiver_ratings
            FOR EACH ROW WHEN (NOT ({_unchanged("IS NOT DISTINCT FROM")})) EXECUTE FUNCTION receiver_refuse_change()""",
        """CREATE TRIGGER receiver_ratings_kept BEFORE DELETE ON receiver_ratings
            FOR EACH ROW EXECUTE FUNCTION receiver_refuse_change()""",
        """CREATE TRIGGER receiver_ratings_not_truncated BEFORE TRUNCATE ON receiver_ratings
            FOR EACH STATEMENT EXECUTE FUNCTION receiver_refuse_change()""",
    ),
}
