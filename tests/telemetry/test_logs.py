"""Log lines: one JSON object each, whoever writes, and nothing in them that must not be there."""

import json
import logging
import subprocess
import sys
import warnings
from io import BytesIO

import pytest
import structlog

from relay.telemetry import configure_logging
from tests.support.logs import Log, logging_to_memory

SECRET = "token-of-alice-4711"


def test_a_line_is_one_json_object() -> None:
    """Event, level, logger, time in UTC and the values, and line ends within a value stay inside."""
    with logging_to_memory() as log:
        structlog.get_logger("relay.delivery").info("attempt", agent="literature", note="a\nb")
    [line] = log.lines
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "attempt",
        "level": "info",
        "logger": "relay.delivery",
        "agent": "literature",
        "note": "a\nb",
    }


def test_the_level_is_kept() -> None:
    """What is below the level is not written, from structlog and the standard library alike."""
    with logging_to_memory("warning") as log:
        for logger in (structlog.get_logger(), logging.getLogger("some.library")):
            logger.info("quiet")
            logger.warning("loud")
    assert [line["event"] for line in log.lines] == ["loud", "loud"]


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "Authorization",
        "client-secret",
        "password",
        "comment",
        "subject",
        "sub",
        "assertion",
        "cookie",
        "body",
        "pepper",
        "headers",
    ],
)
def test_a_value_under_a_secret_name_is_masked(name: str) -> None:
    """Names that promise a secret, a person or a person's words are masked, at any depth."""
    with logging_to_memory() as log:
        structlog.get_logger().info("x", **{name: SECRET}, inner={"list": [{name: SECRET}]})
    [line] = log.lines
    assert line[name] == "[redacted]"
    assert line["inner"] == {"list": [{name: "[redacted]"}]}


class Holder:
    """Something whose repr gives its content away."""

    def __repr__(self) -> str:
        return f"Holder({SECRET})"


@pytest.mark.parametrize(
    "value",
    [
        f"Bearer {SECRET}",
        f"password={SECRET}",
        [f"token={SECRET}"],
        SECRET.encode(),
        Holder(),
        {"a": Holder()},
        ValueError(SECRET),
        [[[[[SECRET]]]]],
        {"a": {"b": {"c": {"d": {"e": SECRET}}}}},
    ],
    ids=repr,
)
def test_a_value_that_holds_a_secret_does_not_show_it(value: object) -> None:
    """Texts are redacted; bytes, objects and what is nested too deeply are named by their type."""
    with logging_to_memory() as log:
        structlog.get_logger().info("x", value=value)
    assert SECRET not in log.text
    assert "value" in log.lines[0]


def test_plain_values_are_written_as_they_are() -> None:
    """Numbers, truth values, texts and nothing need no masking."""
    with logging_to_memory() as log:
        structlog.get_logger().info("x", a=1, b=1.5, c=True, d=None, e="text", f=("a", 1))
    assert {name: log.lines[0][name] for name in "abcdef"} == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": "text",
        "f": ["a", 1],
    }


def test_an_exception_is_outlined() -> None:
    """From structlog and from the standard library, an exception shows its type and place and never its message."""
    with logging_to_memory() as log:
        try:
            raise RuntimeError(SECRET)  # noqa: TRY301 - to be caught right here
        except RuntimeError as error:
            structlog.get_logger().exception("first")
            logging.getLogger("some.library").exception("second")
            structlog.get_logger().error("third", exc_info=error)
    assert [line["event"] for line in log.lines] == ["first", "second", "third"]
    for line in log.lines:
        assert line["error"] == "RuntimeError"
        assert line["frames"][-1].endswith("test_an_exception_is_outlined")
    assert SECRET not in log.text


def test_libraries_are_redacted_and_named() -> None:
    """A record of the standard library becomes a line of the same form, its text redacted."""
    with logging_to_memory() as log:
        logging.getLogger("some.library").warning("refused %s", f"Authorization: Bearer {SECRET}")
    [line] = log.lines
    assert line["event"] == "refused Authorization: [redacted]"
    assert (line["logger"], line["level"]) == ("some.library", "warning")


def test_levels_of_libraries_are_mapped() -> None:
    """A level between the usual five, or beyond them, is written as the nearest one that structlog knows."""
    with logging_to_memory() as log:
        for number in (5, 15, 25, 50, 99):
            logger = logging.getLogger("some.library")
            logger.handle(logger.makeRecord("some.library", number, "f", 1, "x", (), None))
    assert [line["level"] for line in log.lines] == ["debug", "debug", "info", "critical", "critical"]


def test_a_broken_record_does_not_print_its_arguments() -> None:
    """Where the standard library would print the arguments of a record that it cannot format, a plain line stands."""
    with logging_to_memory() as log:
        logging.getLogger("some.library").error("%d things", SECRET)
    assert [line["event"] for line in log.lines] == ["a log record that cannot be formatted"]
    assert SECRET not in log.text


@pytest.mark.parametrize(
    "name", ["sqlalchemy.engine.Engine", "aiosqlite", "psycopg", "asyncio", "aiohttp.server", "authlib"]
)
def test_libraries_that_log_content_are_tamed(name: str) -> None:
    """Even at debug, statements, parameters and requests of these libraries stay out; their warnings do not."""
    with logging_to_memory("debug") as log:
        logging.getLogger(name).info("SELECT %s", SECRET)
        logging.getLogger(name).warning("careful")
    assert [line["event"] for line in log.lines] == ["careful"]


def test_warnings_are_lines() -> None:
    """A warning of Python does not go to stderr by a way of its own."""
    with logging_to_memory() as log, warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("mind the gap", stacklevel=1)
    assert "mind the gap" in log.lines[0]["event"]


def test_bound_values_are_written() -> None:
    """What a request binds stands in every line of it."""
    with logging_to_memory() as log, structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger().info("x")
        logging.getLogger("some.library").warning("y")
    assert [line["request_id"] for line in log.lines] == ["r1", "r1"]


def test_the_console_is_for_people() -> None:
    """The other format is text, and as silent about secrets."""
    with logging_to_memory(format="console") as log:
        structlog.get_logger("relay").warning("careful", token=SECRET, agent="literature")
    assert "careful" in log.text
    assert "literature" in log.text
    assert SECRET not in log.text
    assert "\x1b" not in log.text


def test_a_stream_that_fails_fails_nobody() -> None:
    """A full disk or a closed pipe under the log must not make an accepted request fail."""
    with logging_to_memory() as log:
        log.stream.close()
        structlog.get_logger().info("x")
        logging.getLogger("some.library").warning("y")
    configured: Log = log
    assert configured.stream.closed


def test_configuring_again_replaces() -> None:
    """A second call moves all lines to the new stream and doubles none."""
    with logging_to_memory() as log:
        second = BytesIO()
        configure_logging("info", stream=second)
        logging.getLogger("some.library").warning("once")
        structlog.get_logger().info("twice")
    assert log.text == ""
    assert [json.loads(line)["event"] for line in second.getvalue().splitlines()] == ["once", "twice"]


def test_lines_go_to_stderr() -> None:
    """Stdout belongs to what a command answers."""
    program = (
        "import structlog\n"
        "from relay.telemetry import configure_logging\n"
        "log = structlog.get_logger('relay')\n"
        "configure_logging()\n"
        "log.info('started')\n"
        "print('answer')\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert finished.stdout == b"answer\n"
    assert json.loads(finished.stderr)["event"] == "started"
