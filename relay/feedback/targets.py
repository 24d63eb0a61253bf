"""Which specialists an answer came from, and whether each can be rated."""

from collections.abc import Iterable, Sequence

from registry.model import Acting, obstacle
from registry.protocols.catalog import ADAPTERS
from registry.registrations import Registrations
from relay.errors import Refusal
from relay.feedback.store import Submissions, Target
from relay.feedback.wire import AnswerTargets, Reason, TargetShown, shown
from relay.identity.model import Owner
from relay.retention.model import Policy


class Targets:
    """What may be rated, as its owner sees it."""

    def __init__(self, submissions: Submissions, registry: Registrations, retention: Policy) -> None:
        self._submissions = submissions
        self._registry = registry
        self._retention = retention

    async def of_answer(self, owner: Owner | None, answer: str, *, tenant: str) -> AnswerTargets:
        """The specialists behind one answer. An unknown answer and a foreign one are the same 404.

        ``tenant`` is the caller's: what they rate now is kept by its policy.
        """
        found = None if owner is None else await self._submissions.targets_of_answer(owner.id, answer)
        if owner is None or found is None:
            raise Refusal("answer_not_found", "No answer of yours has this id.")
        return self._answer(owner, answer, found, tenant)

    async def of_task(self, owner: Owner, task: str) -> list[TargetShown]:
        """The specialists that a task id may mean."""
        return [self._shown(owner, target) for target in await self._submissions.targets_of_task(owner.id, task)]

    async def of_conversation(
        self, owner: Owner | None, conversation: str, *, tenant: str, after: int, limit: int
    ) -> tuple[list[AnswerTargets], int | None]:
        """A page of answers, oldest first, and the position of the next page if there is one."""
        found: Sequence[tuple[str, int]] = []
        if owner is not None:
            found = await self._submissions.answers_of_conversation(owner.id, conversation, after=after, most=limit + 1)
        if owner is None or (not found and after == 0):
            raise Refusal("conversation_not_found", "No conversation of yours has this id.")
        page = found[:limit]
        names = [answer for answer, _ in page]
        targets = await self._submissions.targets_of_answers(owner.id, conversation, names) if names else []
        items = [self._answer(owner, name, [t for t in targets if t.answer == name], tenant) for name in names]
        return items, page[-1][1] if len(found) > limit else None

    def _answer(self, owner: Owner, answer: str, targets: Iterable[Target], tenant: str) -> AnswerTargets:
        items = [self._shown(owner, target) for target in targets]
        return AnswerTargets(
            answer_id=answer,
            owner_key=owner.key,
            retention_days=self._retention.days_for(tenant),
            explicit_target_required=len(items) > 1,
            targets=items,
        )

    def _shown(self, owner: Owner, target: Target) -> TargetShown:
        agent = self._registry.snapshot.get(target.agent)
        reason = self._reason(owner, target)
        return TargetShown(
            agent=target.agent,
            agent_name=agent.name if agent else target.agent,
            task_id=target.task,
            status=target.status,
            rateable=reason is None,
            reason=reason,
            submission=None if target.submission is None else shown(target.submission),
        )

    def _reason(self, owner: Owner, target: Target) -> Reason | None:
        if target.submission is not None:
            return "submission_erased" if target.submission.erased_at else "already_submitted"
        if target.status == "running":
            return "task_not_finished"
        agent = self._registry.snapshot.get(target.agent)
        if agent is None:
            return "destination_not_approved"
        # The owner is here: a subject that has to be sealed will be.
        acting = Acting(owner.kind, owner.issuer, owner.client, target.ran_as, subject_known=True, present=True)
        return obstacle(agent, acting, ADAPTERS)
