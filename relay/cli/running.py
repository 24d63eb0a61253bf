"""What all commands share: the configuration they were given, an event loop, and how failures end the process."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from typing_extensions import override

from relay.errors import ConfigError, RelayError, StartupError

if TYPE_CHECKING:
    from relay.config import Config
    from relay.storage.engine import Database

T = TypeVar("T")

FAILED = 1
WRONG_CONFIGURATION = 2
WRONG_SURROUNDINGS = 3


class Failure(click.ClickException):
    """Ends the process: the message on stderr, each line under the program's name, and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class, and reads it from here

    @override
    def show(self, file: Any = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"relay: {line}", err=True, file=file)


class Program(click.Group):
    """The root command: whatever the relay raises on purpose becomes a message and an exit code."""

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RelayError as error:
            raise Failure(str(error), exit_code_of(error)) from None


def exit_code_of(error: RelayError) -> int:
    match error:
        case ConfigError():
            return WRONG_CONFIGURATION
        case StartupError():
            return WRONG_SURROUNDINGS
        case _:
            return FAILED


@dataclass(frozen=True, slots=True)
class Session:
    """What stands before the command's name."""

    config_file: Path | None

    def load(self) -> "Config":
        """The checked configuration."""
        from relay.config import load

        if self.config_file is None:
            raise ConfigError("no configuration: say --config FILE before the command, or set RELAY_CONFIG")
        return load(self.config_file)

    def load_for_serving(self) -> "Config":
        """The checked configuration, and every file that it names in its place."""
        from relay.config import require_files

        config = self.load()
        run(require_files(config))
        return config


def run(work: Coroutine[Any, Any, T], *, serving: bool = False) -> T:
    """Run to the end; what serves runs on uvloop."""
    with asyncio.Runner(loop_factory=_uvloop() if serving else None) as runner:
        return runner.run(work)


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


@asynccontextmanager
async def opened(config: "Config") -> AsyncIterator["Database"]:
    """The database, for one command."""
    from relay.storage.engine import Database

    with surroundings_to_blame():
        db = Database.open(config.database_url(), pool_size=1)
        try:
            yield db
        finally:
            await db.close()


@contextmanager
def surroundings_to_blame() -> Iterator[None]:
    """Turn a database or a port that cannot be had into StartupError, in one line; other errors are our own."""
    from sqlalchemy.exc import InterfaceError, OperationalError

    try:
        yield
    except Exception as error:
        match _innermost(error):
            case InterfaceError(orig=cause) | OperationalError(orig=cause):
                # The driver's first line tells what is wrong; what follows may quote rows.
                why = f"the database cannot be used: {str(cause).strip().partition(chr(10))[0]}"
            case OSError() as cause:
                why = cause.strerror or str(cause)
            case RelayError() as cause:
                raise cause from None
            case _:
                raise
        raise StartupError(why) from None


def _innermost(error: Exception) -> Exception:
    """What a task group wraps around a single failure says nothing of it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
