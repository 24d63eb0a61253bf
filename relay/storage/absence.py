"""Telling a database that cannot be had from a statement that is wrong."""

import psycopg
import sqlalchemy.exc

_SQLITE_ERROR = 1
_TAKES_TURNS = frozenset({"40001", "40P01"})
"""SQLSTATEs of a statement that stood in another's way, and succeeds when it is made again by itself."""


def is_away(error: Exception) -> bool:
    """Whether the same statement may succeed in a moment: the server is gone, no connection is free, a lock is held."""
    if isinstance(error, sqlalchemy.exc.TimeoutError | psycopg.OperationalError | psycopg.InterfaceError):
        return True
    if not isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
        return False
    # A missing table is an OperationalError of sqlite3 as well, and no retry will bring it.
    sqlite_code = getattr(error.orig, "sqlite_errorcode", None)
    return sqlite_code is None or sqlite_code & 0xFF != _SQLITE_ERROR


def would_meet_each(error: Exception) -> bool:
    """Whether the rows of a batch that failed would fail alone as well, each after the same wait."""
    return is_away(error) and getattr(getattr(error, "orig", None), "sqlstate", None) not in _TAKES_TURNS
