"""The log as an operator would read it, written to memory for one test."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import structlog

from relay.telemetry.logs import _TAMED, Format, Level, configure_logging


class Log:
    """What was written so far."""

    def __init__(self) -> None:
        self.stream = BytesIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue().decode()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == name]


@contextmanager
def logging_to_memory(level: Level = "debug", format: Format = "json") -> Iterator[Log]:
    """Configure logging as the program does, and put everything back."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, {name: logging.getLogger(name).level for name in _TAMED})
    shown = warnings.showwarning
    log = Log()
    configure_logging(level, format, stream=log.stream)
    try:
        yield log
    finally:
        logging.captureWarnings(capture=False)
        warnings.showwarning = shown
        root.handlers[:], levels = before[0], before[2]
        root.setLevel(before[1])
        for name, number in levels.items():
            logging.getLogger(name).setLevel(number)
        structlog.reset_defaults()
