"""One submission at an operator's word: have it sent again, or give it up."""

from collections.abc import Callable

from registry.registrations import Decision
from relay.errors import Refusal
from relay.operators.submissions.acting import Acted, act
from relay.operators.submissions.model import Action
from relay.operators.submissions.store import locate
from relay.redaction import redact
from relay.storage.engine import Database


class Actions:
    """What operators do to single submissions of their tenant. ``changed`` is called after each commit."""

    def __init__(self, db: Database, changed: Callable[[], None]) -> None:
        self._db = db
        self._changed = changed

    async def retry(self, tenant: str, owner: str, submission: str, *, by: str, why: str | None) -> Acted:
        """Start a new schedule for what has ended unsaved, and have what waits tried as soon as it may be.

        Raises `Refusal` (``submission_not_found``, ``not_retryable``, ``submission_erased``).
        """
        return await self._act("retry", tenant, owner, submission, by, why)

    async def abandon(self, tenant: str, owner: str, submission: str, *, by: str, why: str) -> Acted:
        """Give up what waits. A valid acknowledgement that is still under way wins.

        Raises `Refusal` (``submission_not_found``, ``not_abandonable``, ``submission_erased``).
        """
        return await self._act("abandon", tenant, owner, submission, by, why)

    async def _act(self, action: Action, tenant: str, owner: str, submission: str, by: str, why: str | None) -> Acted:
        async with self._db.write() as connection:
            delivery = await locate(connection, tenant, owner, submission)
            if delivery is None:
                raise absent()
            decision = Decision(by, None if why is None else redact(why), await self._db.now_ms(connection))
            [acted] = await act(self._db, connection, action, [delivery], decision)
            if (refusal := refusal_of(action, acted)) is not None:
                raise refusal
        self._changed()
        return acted


def absent() -> Refusal:
    """The one answer for what does not exist and for what is another tenant's."""
    return Refusal("submission_not_found", "Your tenant has no submission of this owner and id.")


def refusal_of(action: Action, acted: Acted) -> Refusal | None:
    """Why nothing was done, where that is an error."""
    state = {"state": acted.before}
    match acted.outcome:
        case "erased":
            return Refusal("submission_erased", "The submission was erased. There is nothing left to send.")
        case "not_retryable":
            return Refusal(
                "not_retryable", f"The submission is in state {acted.before}, which no retry can change.", extra=state
            )
        case "not_abandonable":
            return Refusal(
                "not_abandonable", f"The submission is in state {acted.before}, so it does not wait.", extra=state
            )
        case "being_sent" if action == "abandon":
            return Refusal(
                "not_abandonable",
                "The submission is being sent now. Look at what comes of that, then try again.",
                extra=state,
            )
        case _:
            return None
