"""The operators' API as these commands use it: JSON in, JSON out, and refusals as messages with exit codes."""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import aiohttp
import msgspec
import tenacity

from relay.cli.operators.device import reason_of, require_private
from relay.cli.operators.exits import NOT_SIGNED_IN, of_status
from relay.cli.operators.logins import Logins
from relay.cli.operators.printing import plain
from relay.cli.operators.tokens import SignedIn, from_file
from relay.cli.running import WRONG_CONFIGURATION, WRONG_SURROUNDINGS, Failure
from relay.client.calling import Calling, GetToken, Request, Tokens, path
from relay.client.errors import AnswerError, ClientError, RelayError
from relay.client.repeats import may_pass, pause
from relay.clock import SystemClock

Json = dict[str, Any]
T = TypeVar("T")

PAGE: Final = 100
"""The most that one page may hold."""
TRY_SECONDS: Final = 60.0
PATIENCE_SECONDS: Final = 120.0
"""How long a limit that is used up, or (of what is followed) a relay that is away, is waited for."""

_STREAM: Final = aiohttp.ClientTimeout(total=None, sock_connect=20, sock_read=300)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. ``total`` counts all that fit."""

    items: list[Json]
    next: str | None
    total: int


class Desk:
    """One relay's operators' API. Every call raises `Failure`, whose exit code says what kind of no it was."""

    def __init__(self, calling: Calling, place: str) -> None:
        self._calling = calling
        self._place = place

    async def get(self, *segments: str, query: Mapping[str, str | None] | None = None, patient: bool = False) -> Any:  # noqa: ANN401 - JSON
        """What stands there. ``patient``: a relay that is away is waited for."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        request = Request(method="GET", path=_path(segments), query=given)
        return await self._tried(request, may_pass if patient else _is_limited)

    async def post(self, *segments: str, body: Json | None = None) -> Any:  # noqa: ANN401 - JSON
        """Do something, once: what a lost answer did is for a person to look up."""
        encoded = None if body is None else msgspec.json.encode(body)
        return await self._tried(Request(method="POST", path=_path(segments), body=encoded), _is_limited)

    async def pages(
        self, *segments: str, query: Mapping[str, str | None] | None = None, most: int | None
    ) -> AsyncIterator[Page]:
        """A list page by page, at most so many items of it; None: all."""
        left, cursor = most, None
        while True:
            limit = PAGE if left is None else min(left, PAGE)
            found = await self.get(*segments, query={**(query or {}), "limit": str(limit), "cursor": cursor})
            yield Page(found["items"], found["next"], found["total"])
            cursor = found["next"]
            left = None if left is None else left - len(found["items"])
            if cursor is None or left == 0:
                return

    async def stream(self, *segments: str, query: Mapping[str, str | None]) -> AsyncGenerator[bytes, None]:
        """The bytes of an answer of any size. Raises `Failure` too when it breaks off."""
        given = {name: value for name, value in query.items() if value is not None}
        request = Request(method="GET", path=_path(segments), query=given, headers={"Accept": "*/*"})
        try:
            async with await self._calling.open(request, _STREAM) as response:
                async for part in response.content.iter_any():
                    yield part
        except (ClientError, aiohttp.ClientError, TimeoutError) as error:
            self._fail(error)

    async def _tried(self, request: Request, passing: Callable[[BaseException], bool]) -> Any:  # noqa: ANN401
        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(passing),
            wait=pause,
            stop=tenacity.stop_before_delay(PATIENCE_SECONDS),
            reraise=True,
        )
        try:
            return await tries(self._once, request)
        except (ClientError, aiohttp.ClientError, TimeoutError) as error:
            self._fail(error)

    async def _once(self, request: Request) -> Any:  # noqa: ANN401
        async with await self._calling.open(request, aiohttp.ClientTimeout(total=TRY_SECONDS)) as response:
            body = await response.read()
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise AnswerError(response.status, "not an answer of a relay") from None

    def _fail(self, error: Exception) -> NoReturn:
        match error:
            case RelayError():
                raise _refusal(error) from None
            case AnswerError(status=status):
                what = f"{self._place} answered with something else than a relay's JSON ({status})"
                raise Failure(what, WRONG_SURROUNDINGS) from None
            case _:
                raise Failure(f"{self._place} cannot be reached: {reason_of(error)}", WRONG_SURROUNDINGS) from None


def _path(segments: tuple[str, ...]) -> str:
    try:
        return path(*segments)
    except ValueError as error:
        raise Failure(str(error), WRONG_CONFIGURATION) from None


def _is_limited(error: BaseException) -> bool:
    """Refused for now, and nothing was done: the very same request may be sent again."""
    return isinstance(error, RelayError) and error.code == "rate_limited"


def _refusal(refused: RelayError) -> Failure:
    """What the relay said, which names the state now where that is why; fields by their names; and what helps."""
    lines = [plain(refused.detail) or refused.code]
    lines += [f"{field.pointer}: {plain(field.detail)}" for field in refused.errors]
    code = of_status(refused.status)
    if code == NOT_SIGNED_IN:
        lines.append("sign in (again) with: relay operators login")
    return Failure("\n".join(lines), code)


@asynccontextmanager
async def over_http(relay: str, *, token_file: Path | None, state: Path, ca_file: Path | None) -> AsyncIterator[Desk]:
    """The API of a running relay, as whoever the token stands for."""
    require_private(relay, "the relay's address")
    async with session(ca_file) as http:
        tokens = Tokens(_file(token_file) if token_file else SignedIn(Logins(state), relay, http, SystemClock()).token)
        yield Desk(Calling(relay, tokens, http, try_seconds=TRY_SECONDS), relay)


@asynccontextmanager
async def session(ca_file: Path | None) -> AsyncIterator[aiohttp.ClientSession]:  # noqa: TID251 - see below
    """Connections that trust what the machine trusts, and the authority in ``ca_file``."""
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # a file that is no certificate raises one too
            why = error.strerror or error
            raise Failure(f"--ca-file {ca_file} cannot be used ({why})", WRONG_SURROUNDINGS) from None
    # Not registry.egress, which guards what the relay itself dials: this is a person's own program.
    async with aiohttp.ClientSession(  # noqa: TID251
        connector=aiohttp.TCPConnector(ssl=context), cookie_jar=aiohttp.DummyCookieJar()
    ) as http:
        yield http


def _file(token_file: Path) -> GetToken:
    async def get() -> str:
        return from_file(token_file)

    return get
