"""From JSON values to the types at the edge, with every problem named by a JSON Pointer (RFC 6901).

No message repeats a value that was sent: it may be a secret in the wrong field, and it goes to logs of callers.
"""

import re
import types
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from relay.errors import FieldProblem, Refusal

T = TypeVar("T")

MAX_PROBLEMS = 20
MAX_NAME = 100
"""Unknown fields with longer names are reported at the object that holds them."""

_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`\Z")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>[0-9]+)\]")


def decode(value: object, type_: type[T]) -> T:
    """``value``, as parsed from JSON, as ``type_``; else 422 ``invalid_field`` with up to 20 problems."""
    try:
        return msgspec.convert(value, type_, str_keys=True)
    except msgspec.ValidationError as error:
        errors = tuple(islice(problems(value, type_), MAX_PROBLEMS))
        raise invalid(*errors or (_described(error, type_, ""),)) from None


def invalid(*errors: FieldProblem) -> Refusal:
    """The 422 for fields that are not acceptable."""
    return Refusal("invalid_field", "Change the fields that errors lists and send the request again.", errors=errors)


def pointer(*steps: str | int) -> str:
    """A JSON Pointer from member names and array indices."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def problems(value: object, type_: Any, at: str = "") -> Iterator[FieldProblem]:  # noqa: ANN401 - any annotation
    """Every problem of ``value``, field by field and item by item; a problem of the whole only if none lies inside."""
    inner = bare(type_)
    found = False
    if isinstance(value, dict) and _is_struct(inner):
        parts = _in_object(value, inner, at)
    elif isinstance(value, list) and get_origin(inner) is list:
        parts = (
            found_in
            for index, item in enumerate(value)
            for found_in in problems(item, get_args(inner)[0], at + pointer(index))
        )
    else:
        parts = iter(())
    for problem in parts:
        found = True
        yield problem
    if not found:
        yield from _of_whole(value, type_, at)


def _in_object(value: dict[str, object], struct: type[msgspec.Struct], at: str) -> Iterator[FieldProblem]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for name, field in fields.items():
        if name in value:
            yield from problems(value[name], field.type, at + pointer(name))
        elif field.required:
            yield FieldProblem(at + pointer(name), "This field is required.")
    if struct.__struct_config__.forbid_unknown_fields:
        for name in value:
            if name in fields or name == struct.__struct_config__.tag_field:
                continue
            place = at + pointer(name) if len(name) <= MAX_NAME else at
            yield FieldProblem(place, "This field is not known here; leave it out.")


def _of_whole(value: object, type_: Any, at: str) -> Iterator[FieldProblem]:  # noqa: ANN401
    try:
        msgspec.convert(value, type_, str_keys=True)
    except msgspec.ValidationError as error:
        yield _described(error, type_, at)


def _described(error: msgspec.ValidationError, type_: Any, at: str) -> FieldProblem:  # noqa: ANN401
    """What msgspec found, as a problem. Messages that quote the value are replaced; others name types and limits."""
    text = str(error)
    steps: list[str] = []
    if place := _PLACE.search(text):
        text = text[: place.start()]
        steps = [step["name"] or step["index"] for step in _STEP.finditer(place["path"])]
    if text.startswith("Object contains unknown field"):
        text = "This object has a field that is not known here."
    elif text.startswith("Invalid "):
        words = () if steps else _words(type_)
        text = f"Expected one of: {', '.join(words)}." if words else "This value is not one of those allowed here."
    return FieldProblem(at + pointer(*steps), text)


def _is_struct(type_: object) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def bare(type_: Any) -> Any:  # noqa: ANN401
    """The annotation without ``Annotated`` and without ``| None`` or ``| UnsetType``, if one type remains."""
    if get_origin(type_) is Annotated:
        return bare(get_args(type_)[0])
    if get_origin(type_) in {Union, types.UnionType}:
        kept = [part for part in get_args(type_) if part not in {types.NoneType, msgspec.UnsetType}]
        return bare(kept[0]) if len(kept) == 1 else type_
    return type_


def _words(type_: Any) -> tuple[str, ...]:  # noqa: ANN401
    inner = bare(type_)
    return tuple(f'"{word}"' for word in get_args(inner)) if get_origin(inner) is Literal else ()
