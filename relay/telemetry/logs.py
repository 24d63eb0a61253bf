"""Log lines: a JSON object each on stderr, or coloured text for people, from structlog and the standard library.

Every line passes the same processors, so that no library can write what ours may not: no message of an exception, no
value under a name that promises a secret, and nothing that `relay.redaction.redact` knows.
"""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Literal

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from typing_extensions import override

from relay.redaction import MASK, outline, redact

Format = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]

_SECRET_NAMES = frozenset({
    "access_token", "api_key", "assertion", "authorization", "bearer", "body", "client_assertion", "client_secret",
    "comment", "cookie", "credential", "credentials", "headers", "id_token", "key", "params", "parameters", "password",
    "payload", "pepper", "private_key", "proxy_authorization", "refresh_token", "secret", "set_cookie", "statement",
    "sub", "subject", "token",
})  # fmt: skip

_OURS = frozenset({
    "client", "code", "duration_ms", "level", "logger", "method", "request_id", "route", "status", "timestamp",
    "trace_id",
})  # fmt: skip
"""Names whose values we make ourselves and write with every request: looking through them costs more than writing."""

_MAX_DEPTH = 4

_TAMED: dict[str, int] = {
    # Each of these logs statements, parameters or whole requests at lower levels.
    "aiohttp": logging.WARNING,
    "aiosqlite": logging.WARNING,
    # Tells at every start what it found; `relay.app` says so where something was migrated.
    "alembic": logging.WARNING,
    "asyncio": logging.WARNING,
    "authlib": logging.WARNING,
    "psycopg": logging.WARNING,
    "sqlalchemy": logging.WARNING,
    "aiohttp.access": logging.CRITICAL,
}


def configure_logging(level: Level = "info", format: Format = "json", *, stream: BinaryIO | None = None) -> None:  # noqa: A002 - the name of the key
    """Send every log line of the process to ``stream`` (stderr), from ``level`` upwards; may be called again."""
    number = logging.getLevelNamesMapping()[level.upper()]
    output = sys.stderr.buffer if stream is None else stream
    render = _json if format == "json" else _console(colors=output.isatty())
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _named,
        _outlined,
        _redacted,
        render,
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda name="": _Lines(output, name),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    root.setLevel(number)
    for name, floor in _TAMED.items():
        logging.getLogger(name).setLevel(max(number, floor))
    logging.captureWarnings(capture=True)


class _Lines:
    """Writes lines. A stream that is full or closed must not turn an accepted request into a failed one."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self.name = name

    def msg(self, line: bytes) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(line + b"\n")
            self._stream.flush()

    debug = info = warning = error = critical = exception = msg


class _ToStructlog(logging.Handler):
    """Gives the standard library's records to structlog, texts redacted."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = redact(record.getMessage())
        except Exception:  # noqa: BLE001 - whatever a broken record raises; logging itself would print its arguments
            message = "a log record that cannot be formatted"
        log = structlog.get_logger(record.name)
        error = record.exc_info[1] if record.exc_info else None
        level = min(max(record.levelno // 10, 1), 5) * 10  # structlog knows the five levels only
        log.log(level, message, **({} if error is None else {"exc_info": error}))


def _named(logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    if logger.name:
        event["logger"] = logger.name
    return event


def _outlined(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """An exception becomes its outline, whether it was passed on purpose or is the one being handled."""
    information = event.pop("exc_info", None)
    event.pop("stack_info", None)
    if information is True:
        information = sys.exc_info()
    if isinstance(information, tuple):
        information = information[1]
    if isinstance(information, BaseException):
        event.update(outline(information))
    return event


def _redacted(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if name not in _OURS and name != "event":
            event[name] = _safe(name, value, _MAX_DEPTH)
    return event


def _safe(name: str, value: object, depth: int) -> object:
    if name.lower().replace("-", "_") in _SECRET_NAMES:
        return MASK
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return redact(value)
        case dict() if depth:
            return {str(key): _safe(str(key), item, depth - 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() if depth:
            return [_safe("", item, depth - 1) for item in value]
        case _:
            # Bytes, exceptions and objects of any kind: what their repr holds is not known here.
            return f"<{type(value).__qualname__}>"


def _json(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    return msgspec.json.encode(event)


def _console(*, colors: bool) -> Callable[[WrappedLogger, str, EventDict], bytes]:
    renderer = structlog.dev.ConsoleRenderer(colors=colors)

    def render(logger: WrappedLogger, method: str, event: EventDict) -> bytes:
        return str(renderer(logger, method, event)).encode()

    return render
