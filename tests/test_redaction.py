"""What may be written down: no secrets, no control characters, no messages of exceptions."""

import re
from contextlib import suppress

import psycopg
import psycopg.errors
import pytest
import sqlalchemy.exc
from hypothesis import example, given
from hypothesis import strategies as st

from relay.redaction import _UNPRINTABLE, MASK, WINDOW_BYTES, excerpt, outline, redact

JWT = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\nAgEGCCqGSM49\n-----END {0}PRIVATE KEY-----"

SECRETS = {
    "a token": JWT,
    "a token cut off": JWT[:60],
    "an encrypted token": JWT + ".b.c",
    "OpenAI": "sk-proj-4711abcdefABCDEF4711",
    "Anthropic": "sk-ant-api03-4711abcdefABCDEF4711-_x",
    "Stripe": "sk_live_4711abcdefABCDEF4711",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "AWS, temporary": "ASIAIOSFODNN7EXAMPLE",
    "Slack": "xoxb-4711-4711-abcdef",
    "Slack, rotated": "xoxe.xoxp-1-abcdef",
    "GitHub": "ghp_4711abcdefABCDEF4711abcdefABCDEF4711",
    "GitHub, fine-grained": "github_pat_4711abcdefABCDEF4711_abcdef",
    "GitLab": "glpat-4711abcdefABCDEF4711",
    "Google": "AIzaSyA4711abcdefABCDEF4711abcdefABCDEF",
    "PyPI": "pypi-AgEIcHlwaS5vcmcCJDQ3MTE",
    "a key": PEM.format(""),
    "an EC key": PEM.format("EC "),
    "an encrypted key": PEM.format("ENCRYPTED "),
    "an OpenPGP key": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nabc\n-----END PGP PRIVATE KEY BLOCK-----",
    "a key without its end": PEM.format("")[:60],
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
@pytest.mark.parametrize("around", ["{}", "see {} there", '{{"detail":"{}"}}', "({})", "'{}',", "x={}&y=1", "a\n{}\nb"])
def test_a_secret_is_known_by_its_form(secret: str, around: str) -> None:
    """A secret with a form of its own is masked wherever it stands."""
    redacted = redact(around.format(secret))
    assert MASK in redacted
    assert not any(part in redacted for part in re.findall(r"[A-Za-z0-9]{12,}", secret.replace("PRIVATE", "")))
    assert secret not in redacted


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Authorization: Bearer hunter2\r\nDate: today", "Authorization: [redacted]\r\nDate: today"),
        ("proxy-authorization=Basic aHVudGVyMg==", "proxy-authorization=[redacted]"),
        ('{"authorization": "Bearer hunter two", "a": 1}', '{"authorization": "[redacted]", "a": 1}'),
        ("{'Authorization': 'DPoP hunter2', 'a': 1}", "{'Authorization': '[redacted]', 'a': 1}"),
        ("Cookie: a=hunter2; b=hunter2", "Cookie: [redacted]"),
        ("set-cookie: session=hunter2; Path=/", "set-cookie: [redacted]"),
        ("X-Api-Key: hunter2", "X-Api-Key: [redacted]"),
        ("rejected Bearer hunter2hunter2", "rejected Bearer [redacted]"),
        ("bearer  hunter2== is wrong", "bearer  [redacted] is wrong"),
        ("password=hunter2&user=bob", "password=[redacted]&user=bob"),
        ("user=bob;pwd=hunter2;", "user=bob;pwd=[redacted];"),
        ("grant_type=x&client_assertion=hunter2", "grant_type=x&client_assertion=[redacted]"),
        ("access_token%3Dhunter2&x", "access_token%3D[redacted]&x"),
        ('{"client_secret":"hunter two","b":2}', '{"client_secret":"[redacted]","b":2}'),
        ('{"password":"hunter\\"two","b":2}', '{"password":"[redacted]","b":2}'),
        ('{"refresh_token": "hunter2', '{"refresh_token": "[redacted]'),
        ("api-key : hunter2", "api-key : [redacted]"),
        ("db_password = 'hunter two'", "db_password = '[redacted]'"),
        ("postgresql://relay:hunter2@db.example/relay", "postgresql://[redacted]@db.example/relay"),
        ("https://:hunter2@db.example/", "https://[redacted]@db.example/"),
    ],
)
def test_a_secret_is_known_by_its_name(text: str, redacted: str) -> None:
    """A value under a name that promises a secret is masked; the name and what surrounds it stay readable."""
    assert redact(text) == redacted
    assert "hunter" not in redact(text)


def test_a_name_inside_quoted_json_is_known() -> None:
    """JSON inside a JSON text is looked through as well; rather too much is masked than too little."""
    assert "hunter" not in redact(r'{"body":"{\"password\":\"hunter two\",\"a\":1}"}')


@pytest.mark.parametrize(
    "text",
    [
        "The token is expired.",
        "tokens: 5 of 10",
        "a risk-taking-and-forward-looking desk",
        '{"error":"invalid_request","error_description":"line 5: unexpected member"}',
        "https://specialist.example:8443/api/feedback",
        "3f2b8c1e-5d4a-4f6b-9c3d-2e1f0a9b8c7d",
        "bearer of bad news",
        "-----BEGIN CERTIFICATE-----",
        "",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    """What tells an operator what went wrong is left as it is."""
    assert redact(text) == text


@given(
    st.text()
    | st.lists(st.sampled_from(["token", "=", ":", '"', "'", "\\", " ", "a", JWT, "Bearer ", MASK, "\n"])).map("".join)
)
@example('token="[redacted]')
@example("token=[redacted]x")
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    """Text may pass through more than one door."""
    once = redact(text)
    assert redact(once) == once


@given(
    st.text(st.sampled_from("abc \n\"'={}:,;"), max_size=40), st.text(st.sampled_from("abc \n\"'={}:,;"), max_size=40)
)
def test_a_token_never_survives(before: str, after: str) -> None:
    """Whatever stands around a token, its payload is gone."""
    assert "eyJzdWIiOiJhbGljZSJ9" not in redact(f"{before} {JWT} {after}")


PARTS = [
    "eyJ", "eyJ.", "eyJaaaaaaaaaaa.", "sk-", "xox-.", "xoxb-a", "-a", "AKIA", "github_pat_", "://", "://a:", "a", " ",
    "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "token", "token=", "token='", '"token":"', "token%3D", "%3", "\\",
    "'", "password: ", "Bearer ", "bearer\t", "cookie", 'cookie: \\"', "authorization:",
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_redacting_takes_linear_time(part: str) -> None:
    """Half a megabyte made to be slow is redacted at once; a quadratic pattern would run into the time limit."""
    for start in ("", "token=", "xoxb", "cookie: "):
        redact(start + part * (500_000 // len(part)))


def test_an_excerpt_is_bounded() -> None:
    """At most the limit, with a sign that something was cut off."""
    assert excerpt(b"x" * 500) == "x" * 500
    assert excerpt(b"x" * 501) == "x" * 499 + "…"
    assert excerpt(b"abc", limit=2) == "a…"
    assert excerpt(b"") == ""


def test_an_excerpt_shows_what_cannot_be_seen() -> None:
    """Controls, reversed text and bytes that are not UTF-8 are shown, never sent to a terminal or a database."""
    shown = excerpt("a\x00b\x1b[31m\r\n\u202ec\u2066\ufeff\x85".encode() + b"\xff")
    assert shown == r"a\x00b\x1b[31m\r\n\u202ec\u2066\ufeff\x85" + "\ufffd"


def test_an_excerpt_is_redacted_before_it_is_cut() -> None:
    """A token that reaches over the limit leaves no beginning behind."""
    shown = excerpt(b"x" * 480 + b" " + JWT.encode() + b"y" * 100)
    assert "eyJ" not in shown


@pytest.mark.parametrize("over", range(1, 70, 4))
def test_a_secret_cut_off_by_the_window_is_not_shown(over: int) -> None:
    """A key at the edge of what is looked at, too short there to be known, does not move into the excerpt.

    A long secret before it shrinks to a few characters, so that the edge of the window comes into view.
    """
    secret = b"ghp_" + b"S3CR3T" * 10
    filler = b"-----BEGIN PRIVATE KEY-----"
    end = b"-----END PRIVATE KEY-----"
    filler += b"x" * (WINDOW_BYTES - over - len(filler) - len(end)) + end
    body = filler + b" "[: over and 1] + secret
    assert "S3CR3T" not in excerpt(body)


@given(st.binary(max_size=2000), st.integers(1, 600))
def test_any_body_has_an_excerpt(body: bytes, limit: int) -> None:
    """Whatever a specialist answers, the excerpt is a bounded, printable text that every database can store."""
    shown = excerpt(body, limit)
    assert len(shown) <= limit
    assert not _UNPRINTABLE.search(shown)
    shown.encode()


SECRET = "token-of-alice-4711"


def test_an_outline_has_no_message() -> None:
    """Type, causes and place of an error, and not one word of its text."""
    outlined: dict[str, object] = {}
    try:
        _fail()
    except RuntimeError as error:
        outlined = outline(error)
    assert outlined["error"] == "RuntimeError"
    assert outlined["causes"] == ["KeyError", "ValueError"]
    frames = outlined["frames"]
    assert isinstance(frames, list)
    assert [frame.split(" ")[1] for frame in frames] == ["test_an_outline_has_no_message", "_fail"]
    assert SECRET not in repr(outlined)


def _fail() -> None:
    with suppress(ZeroDivisionError):
        try:
            try:
                raise ValueError(SECRET)  # noqa: TRY301 - a chain is what is wanted
            except ValueError:
                raise KeyError(SECRET)  # noqa: B904 - by context
        except KeyError as error:
            raise RuntimeError(SECRET) from error


def test_an_outline_of_a_ring_ends() -> None:
    """Exceptions that cause each other do not hang the log."""
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert outline(first)["causes"] == ["KeyError", "ValueError"]


def test_a_database_error_tells_its_state() -> None:
    """SQLSTATE is told, from psycopg's error alone or within SQLAlchemy's; DETAIL is not."""
    cause = psycopg.errors.UniqueViolation(f"duplicate key\nDETAIL: Key (task)=({SECRET}) already exists.")
    wrapped = sqlalchemy.exc.IntegrityError("INSERT", {"task": SECRET}, cause)
    for error in (cause, wrapped):
        outlined = outline(error)
        assert outlined["sqlstate"] == "23505"
        assert SECRET not in repr(outlined)
    assert outline(wrapped)["error"] == "sqlalchemy.exc.IntegrityError"


def test_a_broken_constraint_is_named(postgres_url: str) -> None:
    """The constraint of a real violation is told by its name in our schema; the row that broke it is not."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TEMPORARY TABLE rated (task text CONSTRAINT rated_once UNIQUE)")
        connection.execute("INSERT INTO rated VALUES (%s)", [SECRET])
        with pytest.raises(psycopg.errors.UniqueViolation, match=SECRET) as caught:
            connection.execute("INSERT INTO rated VALUES (%s)", [SECRET])
    outlined = outline(caught.value)
    assert (outlined["sqlstate"], outlined["constraint"]) == ("23505", "rated_once")
    assert SECRET not in repr(outlined)
