"""How these commands end: the numbers that scripts branch on. 0 to 3 mean what they mean of every other command."""

from http import HTTPStatus
from typing import Final

from relay.cli.running import FAILED, WRONG_CONFIGURATION, WRONG_SURROUNDINGS

NOT_FOUND: Final = 4
NOT_APPLICABLE: Final = 5
FORBIDDEN: Final = 6
NOT_SIGNED_IN: Final = 7
INTERRUPTED: Final = 130

EXIT_CODES: Final = """\b
Exit codes:
  0    done
  1    it failed, such as a job that ended as failed or canceled
  2    the command line or the configuration is wrong, or the relay does not know such a filter or value
  3    the relay cannot be reached, or a file cannot be read or written
  4    there is no such submission, job, agent or version
  5    it does not apply any more: the message says how things stand now
  6    the token is good, and may not do this
  7    nobody is signed in, or not any more: relay operators login
  130  interrupted while following; what was begun goes on
"""

_OF_STATUS: Final = {
    HTTPStatus.BAD_REQUEST: WRONG_CONFIGURATION,
    HTTPStatus.UNPROCESSABLE_ENTITY: WRONG_CONFIGURATION,
    HTTPStatus.UNAUTHORIZED: NOT_SIGNED_IN,
    HTTPStatus.FORBIDDEN: FORBIDDEN,
    HTTPStatus.NOT_FOUND: NOT_FOUND,
    HTTPStatus.CONFLICT: NOT_APPLICABLE,
    HTTPStatus.GONE: NOT_APPLICABLE,
    HTTPStatus.BAD_GATEWAY: WRONG_SURROUNDINGS,
    HTTPStatus.SERVICE_UNAVAILABLE: WRONG_SURROUNDINGS,
    HTTPStatus.GATEWAY_TIMEOUT: WRONG_SURROUNDINGS,
}


def of_status(status: int) -> int:
    """What the relay's answer means for the process."""
    return {int(known): code for known, code in _OF_STATUS.items()}.get(status, FAILED)
