"""The example is the operators' reference: complete, correct, and true about the defaults."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from relay.config import Config, load, sections
from tests.support.configuration import MINIMAL

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"
TEXT = EXAMPLE.read_text(encoding="utf-8")
KEY = re.compile(r"(?:# )?(?P<key>\w+) = ")


def keys_of(expected: Any, table: tuple[str, ...] = ()) -> Iterator[str]:
    """Every key that a file may have, as ``table.key``; ``*`` stands for a name that operators choose."""
    for struct in structs_in(expected):
        if struct.__struct_config__.tag_field:
            yield ".".join((*table, struct.__struct_config__.tag_field))
        for field in msgspec.structs.fields(struct):
            if any(structs_in(field.type)):
                named = ("*",) if get_origin(field.type) is dict else ()
                yield from keys_of(field.type, (*table, field.name, *named))
            else:
                yield ".".join((*table, field.name))


def structs_in(expected: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(expected, type) and issubclass(expected, msgspec.Struct):
        yield expected
    elif get_origin(expected) in {tuple, dict, Union, UnionType, Annotated}:
        for member in get_args(expected):
            yield from structs_in(member)


def keys_in(text: str) -> set[str]:
    """Every key that stands in a file, commented out or not."""
    table, found = "", set()
    for line in text.splitlines():
        if header := re.fullmatch(r"\[+([\w.]+(?:\"[^\"]+\")?)\]+", line):
            table = re.sub(r"(?<=^identity\.clients\.)\w+|(?<=^retention\.tenants\.).+", "*", header[1])
        elif key := KEY.match(line):
            found.add(f"{table}.{key['key']}")
    return found


def test_the_example_shows_every_key():
    """A key that the example does not show is one that no operator knows of."""
    assert set(keys_of(sections.File)) == keys_in(TEXT)


def test_the_walk_reaches_every_depth():
    """The walk that the test above relies on finds nested, repeated, named and tagged tables."""
    assert set(keys_of(sections.File)) >= {
        "server.port",
        "identity.issuers.audience",
        "identity.clients.*.agents",
        "agents.credentials.mode",
        "agents.credentials.token_file",
        "delivery.breaker.minimum",
        "retention.tenants.*.days",
    }


def test_every_key_is_explained_once():
    """A comment stands before the first appearance of every key, or of the keys directly before it."""
    explained, seen, unexplained = False, set(), []
    for line in TEXT.splitlines():
        if key := KEY.match(line):
            if not explained and key["key"] not in seen:
                unexplained.append(line)
            seen.add(key["key"])
        else:
            explained = line.startswith("#")
    assert unexplained == []


def test_the_example_loads():
    """The example is a configuration, not a sketch of one."""
    config = load(EXAMPLE, {})
    assert [agent.agent for agent in config.agents] == ["literature", "chemistry"]
    modes = [credential.mode for agent in config.agents for credential in agent.credentials]
    assert modes == ["client_credentials", "token_exchange", "owner_assertion", "static_bearer"]


def test_what_is_commented_out_loads_too(loaded: Callable[..., Config]):
    """An operator who removes a ``#`` gets a correct file."""
    config = loaded(re.sub(r"^# (\w+ = )", r"\1", TEXT, flags=re.MULTILINE))
    assert config.identity.issuers[0].jwks_uri is not None
    assert config.database.password_file is not None


def test_the_example_shows_the_defaults(loaded: Callable[..., Config]):
    """Where a key may be left out, the example has its default, but for what can only be an example."""
    shown, least = load(EXAMPLE, {}), loaded(MINIMAL)
    assert msgspec.structs.replace(shown.server, cors_origins=()) == least.server
    assert shown.database == least.database
    assert msgspec.structs.replace(shown.identity.issuers[0], tenant_claim=None) == least.identity.issuers[0]
    assert (shown.delivery, shown.egress, shown.logging) == (least.delivery, least.egress, least.logging)
    assert least.console is None
    assert shown.console is not None
    own = {"issuer": shown.console.issuer, "client_id": shown.console.client_id, "key_file": shown.console.key_file}
    assert shown.console == sections.Console(**own)
    assert shown.telemetry == least.telemetry
    assert (shown.limits, shown.registry, shown.operators) == (least.limits, least.registry, least.operators)
    assert msgspec.structs.replace(shown.retention, tenants={}) == least.retention
    assert {own.days for own in shown.retention.tenants.values()} == {least.retention.days}
