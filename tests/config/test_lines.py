"""The line that a report names."""

from collections.abc import Callable

from tests.support.configuration import AGENT, CLIENT_CREDENTIALS, MINIMAL

Refused = Callable[[str], str]


def test_lines_follow_nested_and_repeated_tables(refused: Refused):
    """Each list of tables counts by itself, and a nested one begins anew under every parent."""
    text = MINIMAL + AGENT + CLIENT_CREDENTIALS + AGENT.replace("literature", "chemistry").replace("token_file", "file")
    wrong = max(number for number, line in enumerate(text.splitlines(), start=1) if line.strip().startswith("file ="))
    assert f"relay.toml:{wrong}: [[agents]] no. 2, credentials no. 1, file: is not a key" in refused(text)


def test_lines_are_found_for_dotted_and_quoted_keys(refused: Refused):
    """TOML has more than one way to write a key."""
    text = "delivery.lease_seconds = 1\nlogging.'level' = 'info'\n" + MINIMAL
    assert refused(text).startswith("relay.toml:1: [delivery] lease_seconds = 1")
    text = MINIMAL + '[ "delivery" ]\n"lease_seconds" = 1\n'
    assert refused(text).startswith(f"relay.toml:{len(text.splitlines())}: [delivery] lease_seconds = 1")


def test_long_strings_do_not_mislead_the_lines(refused: Refused):
    """What looks like a key within a long string is text."""
    text = MINIMAL.replace(
        'audience = "https://relay.example.org"', 'audience = """\n[delivery]\nlease_seconds = 1\n"""'
    )
    text += "[delivery]\nlease_seconds = 2\n"
    assert f"relay.toml:{len(text.splitlines())}: [delivery] lease_seconds = 2" in refused(text)


def test_inline_tables_are_reported_by_their_own_line(refused: Refused):
    """Within an inline table no line is known but that of the table."""
    text = MINIMAL + "[delivery]\nbreaker = { minimum = 0 }\n"
    expected = f"relay.toml:{len(text.splitlines())}: [delivery.breaker] minimum = 0: must be a whole number >= 1"
    assert refused(text) == expected
