"""Defaults that depend on another key. They are filled in before decoding, so that what is decoded is complete."""

from typing import Any

_MAY_BE_EMPTY = (
    ("database", "password_file"),
    ("egress", "ca_file"),
    ("console", "key_file"),
    ("console", "client_secret_file"),
    ("telemetry", "collector"),
    ("telemetry", "token_file"),
    ("telemetry", "ca_file"),
)
"""Paths and addresses for which ``""`` means none."""


def fill(written: dict[str, Any]) -> None:
    """Complete the parsed file in place. Nothing is known of its shape yet: what does not fit is left alone."""
    for section, key in _MAY_BE_EMPTY:
        table = _table(written, section)
        if table.get(key) == "":
            del table[key]
    _fill_auto_migrate(_table(written, "database"))
    _fill_client_issuers(_table(written, "identity"))


def _fill_auto_migrate(database: dict[str, Any]) -> None:
    """One machine's own file is migrated on the way; a shared server is migrated when an operator says so."""
    database.setdefault("auto_migrate", str(database.get("url")).startswith("sqlite"))


def _fill_client_issuers(identity: dict[str, Any]) -> None:
    """With one issuer it goes without saying whose client ids are meant."""
    match identity.get("issuers"):
        case [{"issuer": str(only)}]:
            for client in _table(identity, "clients").values():
                if isinstance(client, dict):
                    client.setdefault("issuer", only)
        case _:
            return


def _table(parent: dict[str, Any], key: str) -> dict[str, Any]:
    found = parent.get(key)
    return found if isinstance(found, dict) else {}
