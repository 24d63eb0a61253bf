"""JSON as RFC 8259 has it, and nothing that a later reader could understand differently.

A repeated member name, NUL, or half a surrogate pair means one thing to one parser and another to the next (RFC 8259
sections 4 and 8.2), so that what was checked would not be what is stored. Such texts are refused, never repaired.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Literal, NoReturn

Reason = Literal[
    "not_utf8",
    "syntax",
    "duplicate_key",
    "nul_character",
    "lone_surrogate",
    "not_finite",
    "number_too_long",
    "too_deep",
]

_MESSAGES: dict[Reason, str] = {
    "not_utf8": "the text is not UTF-8",
    "syntax": "the text is not JSON",
    "duplicate_key": "an object has the same member twice",
    "nul_character": "a string holds U+0000",
    "lone_surrogate": "a string holds half a surrogate pair",
    "not_finite": "a number is not finite",
    "number_too_long": "a number has too many digits",
    "too_deep": "the nesting is too deep",
}


class NotStrictJson(ValueError):  # noqa: N818 - reads as what it says
    """The text is refused. ``reason`` is a code.

    ``pointer`` is the RFC 6901 pointer to the place, where it is known. The message quotes nothing of the text.
    """

    def __init__(self, reason: Reason, pointer: str | None = None) -> None:
        super().__init__(_MESSAGES[reason])
        self.reason: Reason = reason
        self.pointer = pointer


def loads(raw: bytes, *, max_depth: int = 64) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text in UTF-8 without a byte order mark, nested at most ``max_depth`` deep.

    Raises `NotStrictJson`. An integer is exact, however long, up to the interpreter's limit of digits.
    """
    try:
        value = _parse(raw, _DECODER)
    except _DuplicateKeyError:
        # Parse again, keeping every member, to say where the repetition is.
        return _inspect(_parse(raw, _LOCATING_DECODER), max_depth)
    return _inspect(value, max_depth) if _is_suspicious(raw, max_depth) else value


def _parse(raw: bytes, decoder: json.JSONDecoder) -> Any:  # noqa: ANN401
    # No refusal keeps the parser's own exception, which holds the whole text.
    try:
        return decoder.decode(raw.decode())
    except NotStrictJson:
        raise
    except UnicodeDecodeError:
        raise NotStrictJson("not_utf8") from None
    except json.JSONDecodeError:
        raise NotStrictJson("syntax") from None
    except RecursionError:
        raise NotStrictJson("too_deep") from None
    except ValueError:
        # int() refuses more than sys.get_int_max_str_digits() digits, because its cost is quadratic.
        raise NotStrictJson("number_too_long") from None


class _DuplicateKeyError(Exception):
    """Raised from inside the parser, where the place is not known yet."""


class _Members:
    """An object with its repeated members, as the second pass sees it."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _DuplicateKeyError
    return members


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # 1e999 is good grammar and would become infinity
        raise NotStrictJson("not_finite")
    return number


def _constant(_name: str) -> NoReturn:
    raise NotStrictJson("not_finite")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant)
_LOCATING_DECODER = json.JSONDecoder(object_pairs_hook=_Members, parse_float=_finite, parse_constant=_constant)

_SURROGATE = re.compile("[\ud800-\udfff]")


def _is_suspicious(raw: bytes, max_depth: int) -> bool:
    """Whether the parsed value has to be looked through.

    The parser refuses raw controls and the codec refuses raw surrogates: both can only come from an escape.
    """
    return b"\\u0000" in raw or b"\\ud" in raw or b"\\uD" in raw or raw.count(b"[") + raw.count(b"{") > max_depth


_Path = tuple["_Path", str | int] | None


def _inspect(value: Any, max_depth: int) -> Any:  # noqa: ANN401
    """The value itself, or a refusal of what the parser let through.

    Iterative, so that depth cannot exhaust the stack.
    """
    waiting: list[tuple[Any, int, _Path]] = [(value, 0, None)]
    while waiting:
        node, depth, path = waiting.pop()
        if isinstance(node, str):
            _check_text(node, path)
        elif isinstance(node, (dict, list, _Members)):
            if depth == max_depth:
                raise NotStrictJson("too_deep")
            waiting.extend((child, depth + 1, (path, key)) for key, child in _children(node, path))
    return value


def _children(node: dict[str, Any] | list[Any] | _Members, path: _Path) -> Iterator[tuple[str | int, Any]]:
    if isinstance(node, list):
        yield from enumerate(node)
        return
    seen: set[str] = set()
    for key, child in node.pairs if isinstance(node, _Members) else node.items():
        _check_text(key, path)  # the pointer leads to the object: a key like this cannot stand in a pointer
        if key in seen:
            raise NotStrictJson("duplicate_key", _pointer((path, key)))
        seen.add(key)
        yield key, child


def _check_text(text: str, path: _Path) -> None:
    if "\x00" in text:
        raise NotStrictJson("nul_character", _pointer(path))
    if not text.isascii() and _SURROGATE.search(text):
        raise NotStrictJson("lone_surrogate", _pointer(path))


def _pointer(path: _Path) -> str:
    tokens: list[str] = []
    while path is not None:
        path, key = path
        tokens.append("/" + str(key).replace("~", "~0").replace("/", "~1"))
    return "".join(reversed(tokens))
