"""What may be written down: text without secrets, excerpts without control characters, errors without their messages.

Attempt logs, audit entries, events and log lines all pass through here before they are written.
"""

import traceback
from pathlib import Path

FRAMES = 12


def outline(error: BaseException) -> dict[str, object]:
    """What a log may say of an exception: its type, what caused it, and where it happened; never its message.

    Messages quote the values that broke something: tokens, comments, whole SQL parameters. A database error adds its
    SQLSTATE and the constraint's name, which name our schema and none of its content.
    """
    outlined: dict[str, object] = {"error": _type_name(error), "frames": _frames(error)}
    if causes := [_type_name(cause) for cause in _causes(error)]:
        outlined["causes"] = causes
    for link in (error, *_causes(error)):
        original = getattr(link, "orig", link)
        if isinstance(sqlstate := getattr(original, "sqlstate", None), str):
            outlined["sqlstate"] = sqlstate
            if isinstance(name := getattr(getattr(original, "diag", None), "constraint_name", None), str):
                outlined["constraint"] = name
            break
    return outlined


def _type_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")


def _causes(error: BaseException) -> list[BaseException]:
    """The chain behind an exception, nearest first. Bounded: a chain may be long, or made into a ring."""
    chain: list[BaseException] = []
    cause = error.__cause__ or error.__context__
    while cause is not None and cause not in chain and len(chain) < FRAMES:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    return chain


def _frames(error: BaseException) -> list[str]:
    """The innermost frames as ``file:line function``, outermost first."""
    entries = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    return [f"{'/'.join(Path(entry.filename).parts[-3:])}:{entry.lineno} {entry.name}" for entry in entries]
