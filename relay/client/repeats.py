"""Which failures may be met by sending the very same request again, when, and for how long.

Every call of the client is idempotent, or repeats one UUID with the same bytes: sending it twice does what sending it
once does. What is repeated is only what may go better the next time.
"""

import aiohttp
import tenacity

from relay.client.errors import AnswerError, RelayError

PASSING = frozenset({429, 502, 503, 504})
"""The relay's own 429 and 503, and what a proxy answers while the relay behind it restarts."""

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0

_backoff = tenacity.wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS)


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, RelayError | AnswerError):
        return error.status in PASSING
    if isinstance(error, aiohttp.ClientSSLError):
        return False  # a certificate does not become good by waiting
    return isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | TimeoutError)


def pause(state: tenacity.RetryCallState) -> float:
    """Seconds until the next try: exponential with full jitter, on top of what the relay asked for."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, RelayError | AnswerError) else None
    return (asked or 0.0) + _backoff(state)


def tries(seconds: float) -> tenacity.AsyncRetrying:
    """Tries of one request, none of which begins after the deadline."""
    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(may_pass),
        wait=pause,
        stop=tenacity.stop_before_delay(seconds),
        reraise=True,
    )


def retry_after_seconds(value: str | None) -> float | None:
    """The seconds of a Retry-After header; a date, which the relay never sends, counts as none."""
    return float(value) if value is not None and value.isascii() and value.isdigit() else None
