"""Log lines: a JSON object each on stderr, or coloured text for people, from structlog and the standard library.

Every line passes the same processors, so that no library can write what ours may not: no message of an exception, no
value under a name that promises a secret, and nothing that `relay.redaction.redact` knows.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Literal

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from typing_extensions import override

from relay.clock import Clock, rfc3339
from relay.redaction import MASK, outline, redact
from relay.telemetry.traces import TraceContext

Format = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]

_SECRET_NAMES = frozenset({
    "access_token", "api_key", "assertion", "authorization", "bearer", "body", "client_assertion", "client_secret",
    "comment", "cookie", "credential", "credentials", "headers", "id_token", "key", "params", "parameters", "password",
    "payload", "pepper", "private_key", "proxy_authorization", "refresh_token", "secret", "set_cookie", "statement",
    "sub", "subject", "token",
})  # fmt: skip

_OURS = frozenset({
    "agent", "ambiguous", "cause", "client", "code", "duration_ms", "level", "logger", "method", "number", "outcome",
    "phase", "request_id", "route", "state", "status", "submission", "timestamp", "trace_id",
})  # fmt: skip
"""Names whose values we make ourselves and write with every request or attempt: looking through them costs more than
writing. A value under such a name is one of ours wherever it is logged."""

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
        self._waiting: list[bytes] = []
        self.name = name

    def msg(self, line: bytes) -> None:
        """Write a line that whoever reads the log has at once."""
        self._waiting.append(line)
        self._flush()

    def soon(self, line: bytes) -> None:
        """Write a line together with those of the requests that are answered in the same turn of the event loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(line)

    def _flush(self) -> None:
        lines, self._waiting = self._waiting, []
        with suppress(OSError, ValueError):
            self._stream.write(b"".join([line + b"\n" for line in lines]))
            self._stream.flush()

    def _soon_in_a_loop(self, line: bytes) -> None:
        if asyncio._get_running_loop() is None:  # noqa: SLF001 - the public one raises where there is none
            self.msg(line)
        else:
            self.soon(line)

    debug = info = _soon_in_a_loop
    warning = error = critical = exception = msg


class RequestLines:
    """One line for each request, the same as the logger would write.

    The line has only names whose values we make ourselves (`_OURS`). Where it is to be JSON, it is put together at
    once: the way through all processors costs as much as the rest of a short request.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        """Made after logging is configured."""
        self._name = name
        self._clock = clock
        # Bound once: a logger that looks up its configuration at each call costs half as much again.
        self._log = structlog.get_logger(name).bind()
        self._processors = structlog.get_config()["processors"]
        self._lines = self._log._logger  # noqa: SLF001 - what `configure_logging` made
        self._heard = self._log.is_enabled_for(logging.INFO)

    def write(self, trace: TraceContext, values: dict[str, object]) -> None:
        """Log ``values`` as the event ``request``. ``trace`` stands for the context of the request."""
        if not self._heard:
            return
        if not self._processors or self._processors[-1] is not _json:
            self._log.info("request", **values)
            return
        now = self._clock.unix()
        line = {
            **values,
            "event": "request",
            "request_id": trace.span_id,
            "trace_id": trace.trace_id,
            "level": "info",
            "timestamp": rfc3339(int(now * 1000)),
            "logger": self._name,
        }
        self._lines.soon(_encoder.encode(line))


_encoder = msgspec.json.Encoder()


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
    return _encoder.encode(event)


def _console(*, colors: bool) -> Callable[[WrappedLogger, str, EventDict], bytes]:
    renderer = structlog.dev.ConsoleRenderer(colors=colors)

    def render(logger: WrappedLogger, method: str, event: EventDict) -> bytes:
        return str(renderer(logger, method, event)).encode()

    return render
