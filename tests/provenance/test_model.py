"""What one more word about a task may change: every combination against a table of rules, evidence by property."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.provenance.model import MOST_EVIDENCE, ConflictError, Evidence, Task, TooMuchEvidenceError, merge

STATUSES: Final = ("running", "completed", "failed", "canceled")

Rule = Mapping[tuple[Any, Any], Any]
"""What stands after a word, by (before, said); a pair that is not there is a conflict."""

FIXED: Final[Rule] = {(value, value): value for value in ("x", "y", "specialist", "coordinator")}
ONCE: Final[Rule] = {(None, None): None, (None, "x"): "x", (None, "y"): "y", ("x", None): "x", ("x", "x"): "x"}
RULES: Final[Mapping[str, tuple[str, Rule]]] = {
    "conversation": ("conversationId", FIXED),
    "answer": ("answerId", FIXED),
    "role": ("role", FIXED),
    "ran_as": (
        "ranAs",
        {(before, said): before for before in ("owner", "client") for said in (before, None)},
    ),
    "parent": ("parentTaskId", ONCE),
    "run": ("runId", ONCE),
    "status": ("status", {**{("running", s): s for s in STATUSES}, **{(s, s): s for s in STATUSES}}),
}


def tasks(**values: tuple[Any, ...]) -> Iterator[Task]:
    """Every task whose members have one of these values each."""
    for chosen in product(*values.values()):
        yield Task(**dict(zip(values, chosen, strict=True)))


def stored_tasks() -> Iterator[Task]:
    return tasks(
        conversation=("x",),
        answer=("x",),
        role=("specialist",),
        status=STATUSES,
        ran_as=("owner", "client"),
        parent=(None, "x"),
        run=(None, "x"),
    )


def said_tasks() -> Iterator[Task]:
    return tasks(
        conversation=("x", "y"),
        answer=("x", "y"),
        role=("specialist", "coordinator"),
        status=STATUSES,
        ran_as=(None, "owner", "client"),
        parent=(None, "x", "y"),
        run=(None, "x", "y"),
    )


def expected(stored: Task, said: Task) -> Task | tuple[str, ...]:
    """What the rules make of it: the record, or the members in conflict."""
    pairs = {name: (getattr(stored, name), getattr(said, name)) for name in RULES}
    conflicts = tuple(shown for name, (shown, rule) in RULES.items() if pairs[name] not in rule)
    if conflicts:
        return conflicts
    return replace(stored, **{name: rule[pairs[name]] for name, (_, rule) in RULES.items()})


def merged(stored: Task, said: Task) -> Task | tuple[str, ...]:
    try:
        return merge(stored, said)
    except ConflictError as error:
        return error.fields


def test_every_combination_follows_the_table():
    """Each member changes only as its rule says, and a conflict names every member that disagrees and no other."""
    count = 0
    for stored, said in product(stored_tasks(), list(said_tasks())):
        assert merged(stored, said) == expected(stored, said), (stored, said)
        count += 1
    assert count == 32 * 864


def test_a_conflict_does_not_repeat_what_was_sent():
    """The names of the members at fault are all that the error tells: their values may be anything."""
    stored = Task(conversation="x", answer="x", role="specialist", status="running", ran_as="owner")
    with pytest.raises(ConflictError) as raised:
        merge(stored, replace(stored, conversation="a-secret", run="another"))
    assert str(raised.value) == "conversationId"


evidence_items = st.builds(Evidence, kind=st.sampled_from(["tool_call", "page"]), id=st.text("ab", max_size=3))
evidence = st.frozensets(evidence_items, max_size=12)
words = st.builds(
    Task,
    conversation=st.just("c"),
    answer=st.just("a"),
    role=st.just("specialist"),
    status=st.sampled_from(STATUSES),
    ran_as=st.sampled_from([None, "owner"]),
    parent=st.sampled_from([None, "p", "q"]),
    run=st.sampled_from([None, "r", "s"]),
    evidence=evidence,
)
records = words.map(lambda task: replace(task, ran_as="owner"))


@given(records, words)
def test_saying_it_again_changes_nothing(stored: Task, said: Task):
    """Idempotent: a word that the record took is taken again, with the same record after it."""
    after = merged(stored, said)
    if isinstance(after, Task):
        assert merge(after, said) == after
        assert merge(after, after) == after
    assert merge(stored, stored) == stored


@given(records, words, words)
def test_the_order_of_two_words_makes_no_difference_where_both_are_taken(stored: Task, one: Task, other: Task):
    """Commutative: if both orders are possible at all, the same record stands in the end."""
    forwards = merged(first, other) if isinstance(first := merged(stored, one), Task) else None
    backwards = merged(second, one) if isinstance(second := merged(stored, other), Task) else None
    if isinstance(forwards, Task) and isinstance(backwards, Task):
        assert forwards == backwards


@given(records, evidence, evidence)
def test_evidence_is_a_union_in_any_order(stored: Task, one: frozenset[Evidence], other: frozenset[Evidence]):
    """Two words that bring nothing but evidence are always both taken, and nothing is lost by either."""
    first, second = replace(stored, evidence=one), replace(stored, evidence=other)
    assert merge(merge(stored, first), second).evidence == stored.evidence | one | other
    assert merge(merge(stored, first), second) == merge(merge(stored, second), first)


@given(records, st.lists(words, max_size=8))
def test_a_record_only_ever_grows(stored: Task, said: list[Task]):
    """Through any sequence of words: evidence is never lost, what was set stays, a terminal status stays."""
    for word in said:
        after = merged(stored, word)
        if not isinstance(after, Task):
            continue
        assert after.evidence >= stored.evidence
        assert stored.parent in (None, after.parent)
        assert stored.run in (None, after.run)
        assert stored.status in ("running", after.status)
        stored = after


def numbered(*numbers: int) -> frozenset[Evidence]:
    return frozenset(Evidence("tool_call", str(number)) for number in numbers)


def test_a_record_holds_a_hundred_items_of_evidence_in_all():
    """The hundredth is taken, one more is not, and known ones do not count twice."""
    stored = Task(
        conversation="c", answer="a", role="specialist", status="running", ran_as="owner", evidence=numbered(*range(99))
    )
    full = merge(stored, replace(stored, evidence=numbered(99)))
    assert len(full.evidence) == MOST_EVIDENCE == 100
    assert merge(full, replace(stored, evidence=numbered(*range(50)))) == full
    with pytest.raises(TooMuchEvidenceError):
        merge(full, replace(stored, evidence=numbered(100)))


def test_a_conflict_is_told_before_too_much_evidence():
    """What can never be right is said first: less evidence would not help."""
    stored = Task(
        conversation="c", answer="a", role="specialist", status="failed", ran_as="owner", evidence=numbered(*range(100))
    )
    with pytest.raises(ConflictError, match="status"):
        merge(stored, replace(stored, status="completed", evidence=numbered(100)))
