"""Everything that is wrong with the shape of a configuration. The decoder stops at its first error; this does not."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from relay.config.problems import Place, Problem

Expected: TypeAlias = Any
"""A type as msgspec takes it, which may be a union or carry bounds."""

Decode = Callable[[object, Expected], object]
"""Decodes one value as a type; raises `msgspec.ValidationError`."""

_WORDS = {"str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false"}
_WORDS |= {"array": "a list", "object": "a table", "null": "nothing"}
_EXPECTED = re.compile(r"Expected `(?P<type>\w+)`(?:, got `(?P<got>\w+)`)?(?P<bound>.*)")


def diagnose(value: object, expected: Expected, decode: Decode, place: Place = ()) -> Iterator[Problem]:
    """Every unknown, missing and unfit key under ``value``, which stands at ``place`` and should be ``expected``."""
    structs = _structs_of(expected)
    if structs:
        yield from _diagnose_table(value, structs, decode, place)
    elif (entry := _entry_of(expected)) and isinstance(value, list):
        for number, each in enumerate(value):
            yield from diagnose(each, entry, decode, (*place, number))
        if not value:
            yield from _diagnose_value(value, expected, decode, place)
    elif _origin(expected) is dict and isinstance(value, dict):
        for key, each in value.items():
            yield from diagnose(each, get_args(expected)[1], decode, (*place, key))
    else:
        yield from _diagnose_value(value, expected, decode, place)


def _origin(expected: Expected) -> object:
    return get_origin(expected)


def _structs_of(expected: Expected) -> tuple[type[msgspec.Struct], ...]:
    members = get_args(expected) if _origin(expected) in {Union, UnionType} else (expected,)
    return tuple(m for m in members if isinstance(m, type) and issubclass(m, msgspec.Struct))


def _entry_of(expected: Expected) -> Expected:
    if _origin(expected) is Annotated:
        expected = get_args(expected)[0]
    return get_args(expected)[0] if _origin(expected) is tuple else None


def _diagnose_table(
    value: object, structs: tuple[type[msgspec.Struct], ...], decode: Decode, place: Place
) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(place, f"must be a table, not {_kind(value)}")
        return
    tag_field = structs[0].__struct_config__.tag_field
    if tag_field is None:
        yield from _diagnose_keys(value, structs[0], decode, place)
        return
    tags = {struct.__struct_config__.tag: struct for struct in structs}
    tag = value.get(tag_field)
    if isinstance(tag, str) and tag in tags:
        rest = {key: each for key, each in value.items() if key != tag_field}
        yield from _diagnose_keys(rest, tags[tag], decode, place)
    else:
        yield Problem((*place, tag_field), f"must be one of {_listed(tags)}", tag if isinstance(tag, str) else None)


def _diagnose_keys(
    value: Mapping[str, object], struct: type[msgspec.Struct], decode: Decode, place: Place
) -> Iterator[Problem]:
    fields: dict[str, FieldInfo] = {field.name: field for field in msgspec.structs.fields(struct)}
    for key, each in value.items():
        if key in fields:
            yield from diagnose(each, fields[key].type, decode, (*place, key))
        else:
            what = "key of this table" if place else "section of this file"
            yield Problem((*place, key), f"is not a {what}; {_hint(key, fields)}")
    for name, field in fields.items():
        if field.required and name not in value:
            yield Problem((*place, name), "is missing")


def _hint(key: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def _diagnose_value(value: object, expected: Expected, decode: Decode, place: Place) -> Iterator[Problem]:
    """Numbers are shown, strings are not: what was pasted into the wrong place may be a secret."""
    try:
        decode(value, expected)
    except msgspec.ValidationError as error:
        shown = value if isinstance(value, bool | int | float) else None
        yield Problem(place, _in_words(str(error), value, expected), shown)


def _in_words(message: str, value: object, expected: Expected) -> str:
    message = message.partition(" - at `$")[0]
    if _origin(expected) is Literal and isinstance(value, str):
        return f"must be one of {_listed(get_args(expected))}"
    match = _EXPECTED.fullmatch(message)
    if match is None:
        return message
    wanted = _WORDS.get(match["type"], match["type"])
    if match["got"]:
        return f"must be {wanted}, not {_kind(value)}"
    return f"must be {wanted}{match['bound'].removesuffix('.0')}"


def _kind(value: object) -> str:
    names = {str: "str", bool: "bool", int: "int", float: "float", list: "array", dict: "object"}
    return _WORDS.get(names.get(type(value), ""), f"a {type(value).__name__}")


def _listed(names: Iterable[object]) -> str:
    return ", ".join(str(name) for name in names)
