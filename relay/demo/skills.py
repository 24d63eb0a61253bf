"""What the demonstration's specialists can do: no model is behind it, but the tools and their results are real."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that was called with these arguments, and what it returned. Both are JSON values."""

    name: str
    arguments: Mapping[str, Any]
    result: Any


@dataclass(frozen=True, slots=True)
class Work:
    """How a question was answered."""

    calls: tuple[ToolCall, ...]
    text: str


Skill: TypeAlias = Callable[[str], Work]

_PAPERS: Mapping[str, tuple[str, int, str]] = {
    "lamport78": ("Time, Clocks, and the Ordering of Events in a Distributed System", 1978, "clocks order causality"),
    "lamport82": ("The Byzantine Generals Problem", 1982, "agreement despite traitors lying messages consensus"),
    "saltzer84": ("End-to-End Arguments in System Design", 1984, "reliability acknowledgement duplicate endpoints"),
    "flp85": ("Impossibility of Distributed Consensus with One Faulty Process", 1985, "agreement asynchronous crash"),
    "garcia87": ("Sagas", 1987, "long transactions compensation retry exactly once"),
    "helland07": ("Life beyond Distributed Transactions", 2007, "idempotent messages retry entities scale"),
}
"""Title, year, and words that it is found by."""

_ATOMIC_MASSES: Mapping[str, float] = {
    "H": 1.008, "C": 12.011, "N": 14.007, "O": 15.999, "F": 18.998, "Na": 22.990, "Mg": 24.305, "P": 30.974,
    "S": 32.06, "Cl": 35.45, "K": 39.098, "Ca": 40.078, "Fe": 55.845, "Cu": 63.546, "Br": 79.904, "I": 126.90,
}  # fmt: skip
"""In g/mol."""

_FORMULA = re.compile(r"\b(?:[A-Z][a-z]?\d{0,3}){1,12}\b")
_ELEMENT = re.compile(r"([A-Z][a-z]?)(\d*)")


def literature(question: str) -> Work:
    """Finds papers and cites the best one."""
    found = _search(question)
    search = ToolCall("search_papers", {"query": question}, found)
    if not found:
        return Work((search,), "Nothing in the library answers this.")
    title, year, _ = _PAPERS[found[0]]
    opened = ToolCall("open_paper", {"id": found[0]}, {"title": title, "year": year})
    return Work((search, opened), f"Begin with “{title}” ({year}); {len(found)} in the library bear on this.")


def chemistry(question: str) -> Work:
    """Takes the first formula apart and weighs it."""
    formula = next((f for f in _FORMULA.findall(question) if _composition(f)), None)
    if formula is None:
        return Work((ToolCall("find_formula", {"text": question}, None),), "There is no formula in the question.")
    composition = _composition(formula)
    mass = round(sum(_ATOMIC_MASSES[element] * count for element, count in composition.items()), 3)
    calls = (
        ToolCall("composition", {"formula": formula}, composition),
        ToolCall("molar_mass", {"composition": composition}, mass),
    )
    return Work(calls, f"{formula} has a molar mass of {mass} g/mol.")


SKILLS: Mapping[str, Skill] = {"literature": literature, "chemistry": chemistry}


def _search(query: str) -> list[str]:
    """Ids of the papers that share words with the query, most first."""
    wanted = set(re.findall(r"[a-z]{4,}", query.lower()))
    shared = {
        key: len(wanted & set(re.findall(r"[a-z]{4,}", f"{title} {words}".lower())))
        for key, (title, _, words) in _PAPERS.items()
    }
    return sorted((key for key, count in shared.items() if count), key=lambda key: (-shared[key], key))


def _composition(formula: str) -> dict[str, int]:
    """How many atoms of each element; empty for a word that only looks like a formula."""
    atoms: dict[str, int] = {}
    for element, count in _ELEMENT.findall(formula):
        if element not in _ATOMIC_MASSES:
            return {}
        atoms[element] = atoms.get(element, 0) + int(count or 1)
    return atoms if any(character.isdigit() for character in formula) else {}
