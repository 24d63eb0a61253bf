"""The bounded memory."""

from relay.identity.recents import Recents


def test_the_one_unused_for_longest_makes_room() -> None:
    """Reading counts as use, and the bound holds."""
    recents: Recents[str, int] = Recents(2)
    recents.put("a", 1)
    recents.put("b", 2)
    assert recents.get("a") == 1
    recents.put("c", 3)
    assert (recents.get("a"), recents.get("b"), recents.get("c"), len(recents)) == (1, None, 3, 2)


def test_putting_again_replaces() -> None:
    """One key holds one value, and takes one place."""
    recents: Recents[str, int] = Recents(2)
    for value in (1, 2, 3):
        recents.put("a", value)
    assert (recents.get("a"), len(recents)) == (3, 1)


def test_dropping() -> None:
    """What is dropped is gone; dropping what is not there is nothing."""
    recents: Recents[str, int] = Recents(2)
    recents.put("a", 1)
    recents.drop("a")
    recents.drop("a")
    assert recents.get("a") is None
