"""Taking a rating in: once, of a finished task of the caller's own."""

from typing import assert_never

from registry.protocols.contract import Rated
from relay.errors import Refusal
from relay.receiver.hooks import FindTask
from relay.receiver.store import Ratings


async def take_in(ratings: Ratings, find_task: FindTask, owner: str, rated: Rated) -> None:
    """Store the rating, or find it stored already.

    Refuses with 409 ``uuid_reused`` (the UUID stands with other content), 409 ``task_not_finished`` or 404
    ``task_not_found``. What is stored is looked up before the task: a repeat is acknowledged whatever has become of it.
    """
    stored = await ratings.find(owner, rated.id)
    if stored is None:
        await _require_finished(find_task, owner, rated.task)
        stored = await ratings.add(owner, rated)
    if stored.rated != rated:
        raise Refusal("uuid_reused", "This UUID stands for a rating with other content. Take a new one.")


async def _require_finished(find_task: FindTask, owner: str, task: str) -> None:
    match await find_task(owner, task):
        case "finished":
            return
        case "running":
            raise Refusal("task_not_finished", "Rate the task when it has finished.")
        case None:
            raise Refusal("task_not_found", "No task of this caller has this id.")
        case unknown:
            assert_never(unknown)
