"""What may be written down: text without secrets, excerpts without control characters, errors without their messages.

Attempt logs, audit entries, events and log lines pass through here before they are written. The detectors are our own:
the maintained packages scan files for committed secrets, line by line, and neither replace what they find nor bound
their time on text that a stranger wrote. Every pattern here is linear: it starts at a literal or where a token starts,
and what repeats is possessive or ends the pattern.
"""

import re
import traceback
from pathlib import Path

MASK = "[redacted]"
FRAMES = 12

_FORMATS = re.compile(
    r"""
    -----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----      # RFC 7468, OpenPGP; a truncated one has no end
        .*?(?:-----END\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)
  | (?<![A-Za-z0-9_-])(?:
        eyJ[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]*+){0,4}+         # JWS and JWE, also cut off: base64url of {"
      | (?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,}+                       # OpenAI, Anthropic, Stripe
      | (?:AKIA|ASIA)[0-9A-Z]{16}                                 # AWS
      | xox[a-z](?:[.-][A-Za-z0-9]++)++ | xapp(?:-[A-Za-z0-9]++)++  # Slack
      | gh[a-z]_[A-Za-z0-9]{20,}+ | github_pat_[A-Za-z0-9_]{20,}+ | glpat-[A-Za-z0-9_.-]{20,}+
      | AIza[A-Za-z0-9_-]{30,}+ | ya29\.[A-Za-z0-9_-]{20,}+       # Google
      | (?:npm|hf)_[A-Za-z0-9]{20,}+ | pypi-[A-Za-z0-9_-]{20,}+
    )
  | (?<=://)[^\s/@:]*+:[^\s/@]++(?=@)                             # user information in a URL
    """,
    re.VERBOSE | re.DOTALL,
)

_SCHEMES = re.compile(
    r"(?<![A-Za-z0-9_-])(?P<scheme>Bearer|Basic|DPoP|Negotiate)(?P<gap>[ \t]++)(?P<value>[A-Za-z0-9._~+/-]{6,}+=*+)",
    re.IGNORECASE,
)

_HEADERS = re.compile(
    # A header's value may have spaces and quotes in it: what follows the colon goes, to the end of the line or of the
    # quoted text that the header stands in.
    r"(?P<name>(?<![A-Za-z0-9])(?:proxy-)?authorization|(?<![A-Za-z0-9])(?:set-)?cookie|x-api-key|x-auth-token)"
    r"(?P<separator>[\"'\\]{0,3}[ \t]{0,8}[:=][ \t]{0,8}+)(?!\[redacted\])"
    r"(?P<value>\\?\"(?:\\.|[^\"\\])*+|\\?'(?:\\.|[^'\\])*+|[^\r\n\"'\\]++)",
    re.IGNORECASE | re.DOTALL,
)

_PAIRS = re.compile(
    r"(?P<name>passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?"
    r"|assertion|pepper|session[_-]?id)"
    r"(?P<separator>[\"'\\]{0,3}[ \t]{0,8}(?:[:=]|%3[AaDd])[ \t]{0,8}+)(?!\[redacted\])"
    r"(?P<value>\\?\"(?:\\.|[^\"\\])*+|\\?'(?:\\.|[^'\\])*+|[^\s\"'&,;<>{}()\[\]\\]++)",
    re.IGNORECASE | re.DOTALL,
)

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Controls, and what changes the order or the look of the text around it."""

WINDOW_BYTES = 8_192
"""How much of a body an excerpt is made from."""
_EDGE = 64
"""Longer than what any pattern needs to know a secret by: one that the window cuts shorter lies in this edge."""


def redact(text: str) -> str:
    """``text`` with what looks like a secret replaced by ``[redacted]``; names and schemes before it stay."""
    text = _FORMATS.sub(MASK, text)
    if ":" in text or "=" in text or "%3" in text:
        text = _HEADERS.sub(_masked, text)
        text = _PAIRS.sub(_masked, text)
    return _SCHEMES.sub(rf"\g<scheme>\g<gap>{MASK}", text)


def _masked(match: re.Match[str]) -> str:
    """Name and separator as they were, the value masked; a quote that opened it stays, as the one that ends it does."""
    value = match["value"]
    opening = value[: 1 + value.startswith("\\")] if value.lstrip("\\")[:1] in {'"', "'"} else ""
    return f"{match['name']}{match['separator']}{opening}{MASK}"


def excerpt(body: bytes, limit: int = 500) -> str:
    """The beginning of a body, in at most ``limit`` characters: redacted, and with control characters shown escaped."""
    text = redact(body[:WINDOW_BYTES].decode("utf-8", "replace"))
    if len(body) > WINDOW_BYTES:
        text = text[:-_EDGE]
    shown = _UNPRINTABLE.sub(_escaped, text[: limit + 1])
    cut = len(shown) > limit or len(body) > WINDOW_BYTES
    return shown[: limit - 1] + "…" if cut and len(shown) >= limit else shown


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def outline(error: BaseException) -> dict[str, object]:
    """What a log may say of an exception: its type, what caused it, and where it happened; never its message.

    Messages quote the values that broke something: tokens, comments, whole SQL parameters. A database error adds its
    SQLSTATE and the constraint's name, which name our schema and none of its content.
    """
    causes = _causes(error)
    outlined: dict[str, object] = {"error": _type_name(error), "frames": _frames(error)}
    if causes:
        outlined["causes"] = [_type_name(cause) for cause in causes]
    for link in (error, *causes):
        original = getattr(link, "orig", link)
        if isinstance(sqlstate := getattr(original, "sqlstate", None), str):
            outlined["sqlstate"] = sqlstate
            if isinstance(name := getattr(getattr(original, "diag", None), "constraint_name", None), str):
                outlined["constraint"] = name
            break
    return outlined


def _type_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")


def _causes(error: BaseException) -> list[BaseException]:
    """The chain behind an exception, nearest first. Bounded: a chain may be long, or made into a ring."""
    chain: list[BaseException] = []
    cause = error.__cause__ or error.__context__
    while cause is not None and cause not in chain and len(chain) < FRAMES:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    return chain


def _frames(error: BaseException) -> list[str]:
    """The innermost frames as ``file:line function``, outermost first."""
    entries = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    return [f"{'/'.join(Path(entry.filename).parts[-3:])}:{entry.lineno} {entry.name}" for entry in entries]
