"""The specialists' tools are real: what they return follows from what they were given."""

import pytest

from relay.demo.skills import SKILLS, ToolCall, chemistry, literature


def test_literature() -> None:
    """The paper that shares most words with the question is opened and cited."""
    work = literature("Who needs an acknowledgement between endpoints, and what of a duplicate?")
    search, opened = work.calls
    assert search.name == "search_papers"
    assert search.result[0] == "saltzer84"
    assert opened == ToolCall(
        "open_paper", {"id": "saltzer84"}, {"title": "End-to-End Arguments in System Design", "year": 1984}
    )
    assert "End-to-End Arguments" in work.text


def test_literature_without_an_answer() -> None:
    """A question that nothing bears on is answered so, after a search that found nothing."""
    work = literature("xyzzy?")
    assert [call.result for call in work.calls] == [[]]
    assert work.text == "Nothing in the library answers this."


@pytest.mark.parametrize(
    ("formula", "composition", "mass"),
    [
        ("H2O", {"H": 2, "O": 1}, 18.015),
        ("C8H10N4O2", {"C": 8, "H": 10, "N": 4, "O": 2}, 194.194),
        ("CH3COOH2", {"C": 2, "H": 5, "O": 2}, 61.06),
    ],
)
def test_chemistry(formula: str, composition: dict[str, int], mass: float) -> None:
    """A formula is taken apart and weighed."""
    work = chemistry(f"What does one mole of {formula} weigh?")
    assert [call.result for call in work.calls] == [composition, mass]
    assert f"{mass} g/mol" in work.text


@pytest.mark.parametrize("question", ["What is Water?", "Who is In?", "X99", ""])
def test_chemistry_without_a_formula(question: str) -> None:
    """Words that only look like a formula are not weighed."""
    assert chemistry(question).text == "There is no formula in the question."


@pytest.mark.parametrize("skill", SKILLS.values(), ids=SKILLS)
def test_repeatable(skill: object) -> None:
    """The same question is worked on in the same way: a run may be finished after a restart."""
    assert callable(skill)
    assert skill("consensus and C2H6O") == skill("consensus and C2H6O")
